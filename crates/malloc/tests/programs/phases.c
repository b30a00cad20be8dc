/* A program of phases. Each allocates and fills blocks of one size, 100 MiB of them, and frees all.
 *
 *   phases SIZE...   the size of each phase in bytes; "grow" for one block that grows to 100 MiB by 1.5 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { ALL = 100 << 20 };

static void grow(void)
{
    char *block = NULL;
    for (size_t before = 0, size = 1 << 20; size <= ALL; before = size, size += size / 2) {
        CHECK((block = realloc(block, size)));
        memset(block + before, 1, size - before);
    }
    free(block);
}

static void fill(size_t size)
{
    size_t count = ALL / size;
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
    for (int phase = 1; phase < argc; phase++) {
        if (!strcmp(argv[phase], "grow"))
            grow();
        else
            fill(strtoul(argv[phase], NULL, 10));
    }
    puts("phases: ok");
    return 0;
}
