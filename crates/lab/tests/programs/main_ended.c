/* The first thread ends before the other, which begins to allocate then: BLOCKS blocks of BYTES bytes, and a long
   one that it touches. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 1000, BYTES = 100, LONG = 64 << 20 };

__attribute__((noinline)) static void leak(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(BYTES);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

static void *work(void *unused)
{
    usleep(100000);
    char *block = malloc(LONG);
    memset(block, 1, LONG);
    leak();
    usleep(100000);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_exit(NULL);
}
