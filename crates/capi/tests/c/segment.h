/* Helpers of the tests with several processes. Included first: it defines feature macros for POSIX. */
#ifndef SEGMENT_H
#define SEGMENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "process.h"

/* Returns a name for a segment that no other test has. */
static inline const char *segment_name(const char *what) {
    static char name[64];
    snprintf(name, sizeof name, "heapwright-c-%s-%ld", what, (long)getpid());
    return name;
}

/* A pipe between children and their parent: one byte for each step that is done. */
struct steps {
    int ends[2];
};

static inline struct steps steps_of(void) {
    struct steps steps;
    CHECK(pipe(steps.ends) == 0);
    return steps;
}

static inline void done(struct steps *steps) {
    CHECK(write(steps->ends[1], "!", 1) == 1);
}

static inline void await(struct steps *steps) {
    char step;
    CHECK(read(steps->ends[0], &step, 1) == 1);
}

/* Starts a child that runs `work` and exits with status 0. */
static inline pid_t child(void (*work)(void *), void *argument) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        work(argument);
        _exit(0);
    }
    return child;
}

static inline void ended_well(pid_t child) {
    CHECK(status_of(child) == 0);
}

static inline void kill_hard(pid_t child) {
    CHECK(kill(child, SIGKILL) == 0);
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
