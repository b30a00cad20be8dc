/* Marks blocks that begin and end in any order, as those of threads and tasks do, and compares their peaks with those
 * that it counts itself, for each block on its own. Prints how many blocks it compared; fails when one is wrong. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 40, PIECES = 200, STEPS = 200000 };

struct marked { int64_t bytes[2]; };

static struct { struct marked marked; int64_t begin, peak; int open; } blocks[BLOCKS];
static void *pieces[PIECES];
static int64_t live;
static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

static void change(void **piece)
{
    if (*piece) {
        live -= malloc_usable_size(*piece);
        free(*piece);
        *piece = NULL;
        return;
    }
    *piece = malloc(1 + draw(draw(50) ? 2000 : 300000));
    live += malloc_usable_size(*piece);
    for (int at = 0; at < BLOCKS; at++)
        if (blocks[at].open && live > blocks[at].peak) blocks[at].peak = live;
}

int main(void)
{
    int (*begin)(struct marked *) = (int (*)(struct marked *))dlsym(RTLD_DEFAULT, "heapwright_record_begin");
    uint64_t (*end)(struct marked *) = (uint64_t (*)(struct marked *))dlsym(RTLD_DEFAULT, "heapwright_record_end");
    int compared = 0;
    if (!begin || !end) return 1;
    for (int step = 0; step < STEPS; step++) {
        int at = draw(BLOCKS);
        if (draw(4)) {
            change(&pieces[draw(PIECES)]);
        } else if (!blocks[at].open) {
            if (!begin(&blocks[at].marked)) return 2;
            blocks[at].begin = blocks[at].peak = live;
            blocks[at].open = 1;
        } else {
            if ((int64_t)end(&blocks[at].marked) != blocks[at].peak - blocks[at].begin) return 3;
            /* It is not open any more. */
            if (end(&blocks[at].marked)) return 4;
            blocks[at].open = 0;
            compared++;
        }
    }
    printf("%d\n", compared);
    return 0;
}
