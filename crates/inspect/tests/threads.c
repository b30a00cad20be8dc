/* Starts threads one after the other; each keeps a number of bytes of its own in its arena, and prints its number and
 * theirs. With `leave` the first thread ends before the others. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 3, BLOCK = 1000 };

static uintptr_t main_arena;

/* A long free block points to its bin, which lies 96 bytes behind the start of its arena. */
static void find_main_arena(void) {
    uintptr_t *volatile block = malloc(5000);
    void *volatile behind = malloc(BLOCK);
    free(block);
    main_arena = block[0] - 96;
    free(behind);
}

/* Calls leave on the stack what they have seen. */
static uintptr_t leave_main_arena(void) {
    volatile uintptr_t left[300];
    for (int index = 0; index < 300; index++) left[index] = main_arena;
    return left[0];
}

static void keep_blocks(int count) {
    for (int block = 0; block < count; block++) memset(malloc(BLOCK), 1, BLOCK);
    void *volatile cached[] = {malloc(BLOCK), malloc(2 * BLOCK / 3)};
    free(cached[0]), free(cached[1]);
    printf("%ld %d\n", (long)syscall(SYS_gettid), count * BLOCK), fflush(stdout);
}

static void *work(void *number) {
    keep_blocks(500 * (1 + (int)(intptr_t)number));
    if (leave_main_arena() == 0) abort();
    for (;;) pause();
    return NULL;
}

int main(int count, char **arguments) {
    static char output[1 << 12];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    find_main_arena();
    keep_blocks(500);
    for (intptr_t number = 1; number <= THREADS; number++) {
        pthread_t made;
        if (pthread_create(&made, NULL, work, (void *)number) != 0) abort();
        usleep(50000);
    }
    if (count > 1 && strcmp(arguments[1], "leave") == 0) pthread_exit(NULL);
    for (;;) pause();
}
