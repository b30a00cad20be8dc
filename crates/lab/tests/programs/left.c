// A program that ends at once and leaves a child, which has made no call until then: the child waits, allocates, and
// waits again.
//
//   left MILLISECONDS PAIRS MILLISECONDS

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void wait_for(const char *milliseconds) {
    long wait = atol(milliseconds);
    struct timespec time = {wait / 1000, wait % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    if (fork() != 0) _exit(0);
    wait_for(argv[1]);
    for (long left = atol(argv[2]); left > 0; left--) {
        void *volatile block = malloc(left % 500);
        free(block);
    }
    wait_for(argv[3]);
    return 0;
}
