/* The first thread ends before the other, which begins to allocate then: BLOCKS blocks of BYTES bytes, and a long
   one that it touches. Then it has pages of its own for a while, and makes no call. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 1000, BYTES = 100, LONG = 64 << 20, QUIET = 128 << 20 };

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
    char *pages = mmap(NULL, QUIET, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        abort();
    memset(pages, 1, QUIET);
    usleep(300000);
    munmap(pages, QUIET);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_exit(NULL);
}
