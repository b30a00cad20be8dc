/* Allocates blocks of 16 to 2015 bytes, all lengths in turns, until the first request fails; prints how many KiB were
 * requested. A number of threads may be given that do that at once, each until its first failure. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t all_are_there;

static void *fill(void *requested) {
    size_t sum = 0;
    pthread_barrier_wait(&all_are_there);
    for (size_t i = 0;; ++i) {
        size_t bytes = 16 + i * 7919 % 2000;
        char *block = malloc(bytes);
        if (block == NULL) break;
        *block = 1;
        sum += bytes;
    }
    *(size_t *)requested = sum;
    return NULL;
}

int main(int count, char **arguments) {
    static size_t requested[64];
    static pthread_t threads[64];
    int others = count > 1 ? atoi(arguments[1]) - 1 : 0;
    size_t sum = 0;
    if (pthread_barrier_init(&all_are_there, NULL, (unsigned)others + 1) != 0) abort();
    for (int i = 1; i <= others; ++i) {
        if (pthread_create(&threads[i], NULL, fill, &requested[i]) != 0) abort();
    }
    fill(&requested[0]);
    for (int i = 1; i <= others; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i <= others; ++i) sum += requested[i];
    /* Without memory for a buffer. */
    char line[32];
    int length = snprintf(line, sizeof line, "%zu\n", sum / 1024);
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
