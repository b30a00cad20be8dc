/* Children that are made in other ways than by fork, in a program of several threads.
 *
 *   children bare       by the bare system call, while other threads allocate; each allocates more than a buffer holds
 *   children outlive    by the bare system call; it allocates when its parent has been replaced by another program
 *   children vfork      by vfork; each allocates more than a buffer holds, and threads begin afterwards
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 20000, CHILDREN = 20, THREADS = 3 };

static volatile int over;

static void allocate(int pairs)
{
    for (int pair = 0; pair < pairs; pair++) free(malloc(24));
}

static void *until_over(void *_)
{
    while (!over) allocate(100);
    return NULL;
}

static void *once(void *_)
{
    allocate(1000);
    return NULL;
}

static void wait_for(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) abort();
}

static int outlive(const char *program)
{
    pid_t child = (pid_t)syscall(SYS_fork);
    if (!child) {
        usleep(700000);
        allocate(PAIRS);
        _exit(0);
    }
    char number[16];
    snprintf(number, sizeof number, "%d", child);
    allocate(1000);
    execl(program, program, "wait", number, (char *)NULL);
    return 1;
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "outlive")) return outlive(arguments[0]);
    if (count == 3) {
        wait_for(atoi(arguments[2]));
        return 0;
    }
    pthread_t threads[THREADS];
    int is_bare = count == 2 && !strcmp(arguments[1], "bare");
    for (int child = 0; child < CHILDREN; child++) {
        over = 0;
        for (int at = 0; is_bare && at < THREADS; at++) pthread_create(&threads[at], NULL, until_over, NULL);
        allocate(1000);
        pid_t number = is_bare ? (pid_t)syscall(SYS_fork) : vfork();
        if (!number) {
            allocate(PAIRS);
            _exit(0);
        }
        /* A thread that takes over the buffer that the child has begun, while this one writes to it. */
        for (int at = 0; !is_bare && at < THREADS; at++) pthread_create(&threads[at], NULL, once, NULL);
        if (!is_bare) allocate(1000);
        wait_for(number);
        over = 1;
        for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    }
    return 0;
}
