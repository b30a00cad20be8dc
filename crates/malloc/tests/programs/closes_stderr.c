/* Leaves by the way named by its argument, having closed standard error as careful programs do. After "reuses PATH" a
 * file of the program's has that number, and the one to which standard error was copied is closed. After "unread" the
 * program runs once more, and standard error is a pipe without a reader. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_standard_error(void) { fclose(stderr); }

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "reuses")) {
        for (int number = 0; number < 1024; number++) close(number);
        for (int number = 0; number < 3; number++) open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
        return write(STDERR_FILENO, "record\n", 7) == 7 ? 0 : 1;
    }
    if (!strcmp(way, "unread")) {
        int ends[2];
        if (pipe(ends) || close(ends[0]) || dup2(ends[1], STDERR_FILENO) < 0) return 1;
        execl("/proc/self/exe", argv[0], "return", (char *)NULL);
        return 1;
    }
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
