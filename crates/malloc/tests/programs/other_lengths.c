/* Fills memory with blocks of one length until there is no more, frees all of them, and fills it with blocks of another
 * length. A block that was allocated last, as buffers of streams are, stays: the heap cannot become shorter.
 *
 *   other_lengths BYTES OTHERS
 *
 * Prints how many MiB the blocks of each length had together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { MOST = 8 << 20 };

static void *blocks[MOST];

static size_t fill(size_t bytes)
{
    size_t count = 0;
    while (count < MOST && (blocks[count] = malloc(bytes)) != NULL)
        memset(blocks[count++], 1, bytes);
    return count;
}

int main(int count, char **words)
{
    CHECK(count == 3);
    size_t bytes = strtoull(words[1], NULL, 10), others = strtoull(words[2], NULL, 10);
    size_t first = fill(bytes);
    void *volatile last = malloc(1024);
    (void)last;
    for (size_t at = 0; at < first; at++)
        free(blocks[at]);
    size_t second = fill(others);
    printf("%zu %zu\n", (first * bytes) >> 20, (second * others) >> 20);
    return 0;
}
