/* A program of phases. Each allocates and fills blocks of one size, MIB of them, and frees all.
 *
 *   phases MIB SIZE...   the size of each phase in bytes; "grow" for one block that grows to MIB by 1.5, and "step" for one
 *                        that grows to MIB from two fifths of it */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static size_t all;

static char *grown(char *block, size_t before, size_t size)
{
    CHECK((block = realloc(block, size)));
    memset(block + before, 1, size - before);
    return block;
}

static void grow(void)
{
    char *block = NULL;
    for (size_t before = 0, size = 1 << 20; size <= all; before = size, size += size / 2)
        block = grown(block, before, size);
    free(block);
}

static void step(void)
{
    size_t part = all / 5 * 2;
    free(grown(grown(NULL, 0, part), part, all));
}

static void fill(size_t size)
{
    size_t count = all / size;
    char **blocks = calloc(count, sizeof *blocks);
    CHECK(blocks);
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = malloc(size)));
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) free(blocks[i]);
    free(blocks);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    all = strtoul(argv[1], NULL, 10) << 20;
    for (int phase = 2; phase < argc; phase++) {
        if (!strcmp(argv[phase], "grow"))
            grow();
        else if (!strcmp(argv[phase], "step"))
            step();
        else
            fill(strtoul(argv[phase], NULL, 10));
    }
    puts("phases: ok");
    return 0;
}
