/* Threads that only allocate and free: THREADS of them, PAIRS in all, among 1,000 live blocks of 16 to 256 bytes each.
 * Which block is next is drawn at random. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { LIVE = 1000, LEAST = 16, SIZES = 241 };

static long pairs;

static void *allocate_and_free(void *seed)
{
    void *live[LIVE] = {0};
    uint64_t state = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u;
    for (long pair = 0; pair < pairs; pair++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        unsigned at = (unsigned)(state >> 32) % LIVE;
        free(live[at]);
        live[at] = malloc(LEAST + (state & 0xffff) % SIZES);
        if (!live[at]) abort();
    }
    for (unsigned at = 0; at < LIVE; at++)
        free(live[at]);
    return NULL;
}

int main(int count, char **arguments)
{
    long threads = count == 3 ? atol(arguments[1]) : 0;
    if (threads < 1 || threads > 64) return 2;
    pairs = atol(arguments[2]) / threads;
    /* The process keeps its single thread. */
    if (threads == 1) {
        allocate_and_free((void *)1);
        return 0;
    }
    pthread_t others[64];
    for (long at = 0; at < threads; at++)
        if (pthread_create(&others[at], NULL, allocate_and_free, (void *)(at + 1))) return 1;
    for (long at = 0; at < threads; at++)
        pthread_join(others[at], NULL);
    return 0;
}
