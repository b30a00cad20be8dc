/* A library whose constructor runs before that of the malloc, and registers fork handlers that allocate. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void allocate_and_free(void)
{
    static const size_t sizes[] = {24, 3000, 40000, 300000};
    for (unsigned at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        char *block = malloc(sizes[at]);
        if (!block) abort();
        memset(block, 1, sizes[at]);
        free(block);
    }
}

__attribute__((constructor)) static void register_handlers(void)
{
    if (pthread_atfork(allocate_and_free, allocate_and_free, allocate_and_free) != 0) abort();
}
