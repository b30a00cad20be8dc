// N processes that live at the same time and allocate, before and after all of them have begun.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(void) {
    for (size_t at = 0; at < 50; at++) free(malloc(1001));
}

int main(int count, char **arguments) {
    int children = count > 1 ? atoi(arguments[1]) : 0, begun[2], hold[2];
    struct rlimit files;
    char byte;
    if (pipe(begun) || pipe(hold)) return 1;
    allocate();
    for (int at = 0; at < children; at++) {
        if (fork()) continue;
        close(hold[1]);
        allocate();
        if (write(begun[1], "b", 1) != 1 || read(hold[0], &byte, 1)) _exit(1);
        allocate();
        _exit(0);
    }
    for (int at = 0; at < children; at++) if (read(begun[0], &byte, 1) != 1) return 1;
    usleep(300000);
    close(hold[1]);
    for (int at = 0, status; at < children; at++) if (wait(&status) < 0 || status) return 1;
    getrlimit(RLIMIT_NOFILE, &files);
    printf("%ld\n", (long)files.rlim_cur);
    return 0;
}
