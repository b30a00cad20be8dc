// Writes a title over its arguments, as servers do, and then forks a child that allocates.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(void) {
    for (int i = 0; i < 1000; i++) free(malloc(i % 500 + 1));
}

int main(int count, char **arguments) {
    size_t room = 0;
    for (int i = 0; i < count; i++) room += strlen(arguments[i]) + 1;
    char title[100] = "worker: job --token s3cretToken";
    allocate();
    memset(arguments[0], 0, room);
    strncpy(arguments[0], title, room - 1);
    pid_t child = fork();
    if (child == 0) allocate();
    else waitpid(child, NULL, 0);
    return 0;
}
