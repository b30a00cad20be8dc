/* Child processes and resident memory, for the test programs in C. Included after the feature macros: it uses POSIX. */
#ifndef HEAPWRIGHT_PROCESS_H
#define HEAPWRIGHT_PROCESS_H

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Waits for a child; returns its status as wait(2) describes it. */
static inline int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* Returns the resident memory of this process in KiB. */
static inline long resident_kib(void) {
    FILE *statm = fopen("/proc/self/statm", "r");
    long pages, resident = 0;
    CHECK(statm && fscanf(statm, "%ld %ld", &pages, &resident) == 2);
    fclose(statm);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
