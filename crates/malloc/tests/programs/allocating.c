/* Preloaded behind the library: functions of the C library that allocate, as other preloaded libraries put in the place
 * of its own. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int depth;

static void allocate(void)
{
    if (depth++ == 0)
        for (size_t length = 16; length < 100000; length *= 7) free(malloc(length));
    depth--;
}

pid_t getpid(void)
{
    allocate();
    return (pid_t)syscall(SYS_getpid);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    allocate();
    return (int)syscall(SYS_clock_gettime, clock, time);
}
