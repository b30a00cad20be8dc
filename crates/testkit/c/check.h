/* CHECK, for the test programs in C and C++. */
#ifndef HEAPWRIGHT_CHECK_H
#define HEAPWRIGHT_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the process with status 1 and a line on standard error unless `condition` holds. No exit handlers run: the heap
 * under test may be what is broken, and the process may be the child of a fork. */
#define CHECK(condition)                                                                                           \
    do {                                                                                                           \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, #condition, errno);        \
            _Exit(1);                                                                                              \
        }                                                                                                          \
    } while (0)

#endif
