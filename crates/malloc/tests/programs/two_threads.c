/* Has two threads at once, each with a stack and a block of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all_are_there;

static void *wait_with_a_block(void *unused)
{
    void *block = malloc(1000);
    pthread_barrier_wait(&all_are_there);
    free(block);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&all_are_there, NULL, 3);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, wait_with_a_block, NULL) != 0) {
            puts("no room for a thread");
            return 1;
        }
    pthread_barrier_wait(&all_are_there);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts("two threads");
    return 0;
}
