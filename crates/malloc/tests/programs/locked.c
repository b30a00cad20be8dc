/* A program that has locked its memory: the system refuses to purge any. Prints how many calls of madvise there were
 * while it freed BLOCKS blocks of 500 to 750 bytes, twice. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 20000 };

static unsigned long calls;

/* The library's calls come here: the program's own madvise interposes the C library's. */
int madvise(void *at, size_t length, int advice)
{
    calls++;
    return (int)syscall(SYS_madvise, at, length, advice);
}

static char *blocks[BLOCKS];

int main(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        puts("locked: not permitted");
        return 0;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = 500 + i % 250;
            /* A limit on locked memory refuses the mappings that come later. */
            if (!(blocks[i] = malloc(size))) {
                puts("locked: not permitted");
                return 0;
            }
            memset(blocks[i], i, size);
        }
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    }
    printf("locked: %lu calls\n", calls);
    return 0;
}
