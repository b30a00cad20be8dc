/* Leaves by the way named by its argument, having closed standard error as careful programs do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_standard_error(void) { fclose(stderr); }

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    atexit(close_standard_error);
    free(malloc(12345));
    if (!strcmp(way, "exit")) exit(0);
    if (!strcmp(way, "_exit")) _exit(0);
    if (!strcmp(way, "exec")) execl("/proc/self/exe", argv[0], "exit", (char *)NULL);
    if (!strcmp(way, "fork")) {
        pid_t child = fork();
        if (child == 0) exit(0);
        waitpid(child, NULL, 0);
    }
    return 0;
}
