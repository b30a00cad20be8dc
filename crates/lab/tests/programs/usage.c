// Uses memory and processor time as the first argument says, and says at the end how much it used by the system's
// count: nanoseconds of processor time, page faults.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 64, STEP = 1 << 20 };

static char *blocks[STEPS];
static volatile unsigned sink;

static void compute(unsigned count) {
    unsigned state = sink;
    for (unsigned at = 0; at < count; at++) {
        state = state * 1103515245 + 12345;
    }
    sink = state;
}

// Touches this many MiB, a MiB at a time.
static void touch(int steps) {
    for (int at = 0; at < steps; at++) {
        blocks[at] = malloc(STEP);
        memset(blocks[at], 1, STEP);
        usleep(1000);
    }
}

static void let_go(int steps) {
    for (int at = 0; at < steps; at++) {
        free(blocks[at]);
    }
}

static long long processor_time(const struct rusage *use) {
    long long seconds = use->ru_utime.tv_sec + use->ru_stime.tv_sec;
    return seconds * 1000000000LL + (use->ru_utime.tv_usec + use->ru_stime.tv_usec) * 1000LL;
}

static void tell(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    long long time = processor_time(&use);
    char line[100];
    int length = snprintf(line, sizeof line, "%lld %ld\n", time, use.ru_minflt + use.ru_majflt);
    write(1, line, length);
}

// The same work without calls and with two calls each; says what the work takes, which is twice what it took alone.
static void work_between_calls(void) {
    enum { TIMES = 3000000, WORK = 50 };
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (unsigned at = 0; at < TIMES; at++) {
        compute(WORK);
    }
    getrusage(RUSAGE_SELF, &after);
    for (unsigned at = 0; at < TIMES; at++) {
        char *volatile block = malloc(16 + at % 7 * 24);
        compute(WORK);
        free(block);
    }
    char line[100];
    long long alone = processor_time(&after) - processor_time(&before);
    write(1, line, snprintf(line, sizeof line, "%lld\n", 2 * alone));
}

static void work(void) {
    touch(STEPS);
    usleep(300000);
    compute(100000000);
    let_go(STEPS);
    usleep(30000);
    tell();
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    if (!strcmp(how, "exit")) {
        work();
    } else if (!strcmp(how, "_exit")) {
        work();
        _exit(0);
    } else if (!strcmp(how, "kill")) {
        work();
        kill(getpid(), SIGKILL);
    } else if (!strcmp(how, "fork")) {
        touch(8);
        if (fork() == 0) {
            free(malloc(100));
            touch(32);
            usleep(30000);
            exit(0);
        }
        wait(0);
    } else if (!strcmp(how, "pairs")) {
        // Two calls for each of a few sizes, of which one clears a page: reading the counter of some processors takes
        // as long as a short call, and hides it.
        for (unsigned at = 0; at < 3000000; at++) {
            char *volatile block = calloc(1, 4000 + at % 7 * 24);
            free(block);
        }
    } else if (!strcmp(how, "sums")) {
        for (unsigned at = 0; at < 12000; at++) {
            char *volatile block = malloc(16 + at % 7 * 24);
            compute(100000);
            free(block);
        }
    } else if (!strcmp(how, "between")) {
        work_between_calls();
    } else if (!strcmp(how, "long")) {
        // Few calls, which the system takes long for.
        for (unsigned at = 0; at < 300; at++) {
            char *volatile block = malloc(8 << 20);
            memset(block, 1, 8 << 20);
            free(block);
        }
    }
    return 0;
}
