/* Two threads take turns. In each of ROUNDS rounds the first one allocates a long block, the second one another, and then
 * the first one gives up its own: by free in even rounds, by a realloc to 100 bytes in odd ones. The sizes name the
 * rounds: 100,000 bytes and the round, and 200,000. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { ROUNDS = 200 };

static volatile int turn;

static void await(int wanted)
{
    while (turn != wanted) sched_yield();
}

static void *second(void *_)
{
    for (int round = 0; round < ROUNDS; round++) {
        await(2 * round + 1);
        if (!malloc(200000 + round)) abort();
        turn = 2 * round + 2;
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, second, NULL)) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        void *block = malloc(100000 + round);
        if (!block) return 1;
        turn = 2 * round + 1;
        await(2 * round + 2);
        if (round % 2 == 0)
            free(block);
        else if (!realloc(block, 100))
            return 1;
    }
    return pthread_join(other, NULL);
}
