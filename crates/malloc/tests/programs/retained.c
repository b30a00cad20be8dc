/* Threads that keep much memory which is free, and a main thread that then needs some of it.
 *
 *   retained MIB     the main thread allocates this many MiB in short blocks and keeps them; prints "retained" */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "process.h"

enum { THREADS = 4, LENGTH = 1500, BLOCKS = 28000, KEPT = 16, ROUNDS = 3, SHORT = 400 };

static pthread_barrier_t turns[THREADS];

/* Of its slabs a few blocks stay in use, and the pages between are kept: there are several threads. */
static void *free_most(void *turn)
{
    unsigned char **blocks = calloc(BLOCKS, sizeof *blocks);
    CHECK(blocks);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            if (blocks[i]) continue;
            CHECK((blocks[i] = malloc(LENGTH)));
            memset(blocks[i], i, LENGTH);
        }
        for (int i = 0; i < BLOCKS; i++) {
            CHECK(blocks[i][LENGTH - 1] == (unsigned char)i);
            if (i % KEPT == 0) continue;
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    pthread_barrier_wait(turn);
    pthread_barrier_wait(turn);
    for (int i = 0; i < BLOCKS; i += KEPT) CHECK(blocks[i][7] == (unsigned char)i);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_barrier_init(&turns[i], NULL, 2) == 0);
        CHECK(pthread_create(&threads[i], NULL, free_most, &turns[i]) == 0);
        pthread_barrier_wait(&turns[i]);
        fprintf(stderr, "%ld KiB\n", resident_kib());
        if (i < THREADS - 1) CHECK(pthread_detach(threads[i]) == 0);
    }
    size_t count = strtoul(argv[1], NULL, 10) * (1 << 20) / SHORT;
    for (size_t i = 0; i < count; i++) {
        unsigned char *block = malloc(SHORT);
        CHECK(block);
        memset(block, 1, SHORT);
    }
    fprintf(stderr, "%ld KiB\n", resident_kib());
    puts("retained");
    return 0;
}
