/* Allocates from three places in two threads, for a heap profile of jemalloc. */
#include <pthread.h>
#include <stdlib.h>

static void *volatile kept[30];
static void *volatile large[4];

static void *in_thread(void *unused)
{
    large[3] = realloc(large[3], 3000000);
    return unused;
}

static void small(void)
{
    for (int i = 0; i < 30; i++)
        kept[i] = malloc(1000);
}

int main(void)
{
    small();
    for (int i = 0; i < 4; i++)
        large[i] = malloc(2000000);
    free(large[0]);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    return pthread_join(thread, NULL);
}
