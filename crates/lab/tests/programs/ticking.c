// Allocates all the time for as many tenths of a second as the first argument says, says when it begins and when it ends.
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
    unsigned state = 1;
    write(1, "going\n", 6);
    while (now() < end) {
        for (int at = 0; at < 200; at++) {
            state = state * 1103515245 + 12345;
            free(malloc(state >> 16));
        }
        usleep(1000);
    }
    write(1, "done\n", 5);
    return 0;
}
