// Allocates all the time for as many tenths of a second as the first argument says. Prints when it begins and ends. The
// second argument is the number of blocks per millisecond, 200 without it.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    double end = now() + (count > 1 ? atoi(arguments[1]) : 1) / 10.0;
    int blocks = count > 2 ? atoi(arguments[2]) : 200;
    unsigned state = 1;
    write(1, "going\n", 6);
    while (now() < end) {
        for (int at = 0; at < blocks; at++) {
            state = state * 1103515245 + 12345;
            free(malloc(state >> 16));
        }
        usleep(1000);
    }
    write(1, "done\n", 5);
    return 0;
}
