/* What the tests with several processes have in common. Included first: it asks for POSIX. */
#ifndef SEGMENT_H
#define SEGMENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "require.h"

/* A name that no other test has. */
static inline const char *segment_name(const char *what) {
    static char name[64];
    snprintf(name, sizeof name, "heapwright-c-%s-%ld", what, (long)getpid());
    return name;
}

/* What the children and their parent tell each other: one byte for each step that is done. */
struct steps {
    int ends[2];
};

static inline struct steps steps_of(void) {
    struct steps steps;
    REQUIRE(pipe(steps.ends) == 0);
    return steps;
}

static inline void done(struct steps *steps) {
    REQUIRE(write(steps->ends[1], "!", 1) == 1);
}

static inline void await(struct steps *steps) {
    char step;
    REQUIRE(read(steps->ends[0], &step, 1) == 1);
}

/* A child that does `work` and ends well, or not at all. */
static inline pid_t child(void (*work)(void *), void *argument) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(60);
        work(argument);
        _exit(0);
    }
    return child;
}

static inline void ended_well(pid_t child) {
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline void kill_hard(pid_t child) {
    int status;
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
