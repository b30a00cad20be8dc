/* unread LIBRARY OTHER: loads one and calls its function `request` ten times while the recorder, its parent, is stopped;
   then the other, at whose loading the recorder goes on. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile block;

int main(int count, char **libraries) {
    void *first = NULL;
    kill(getppid(), SIGSTOP);
    for (int round = 0; round < 2; round++) {
        void *library = dlopen(libraries[1 + round], RTLD_NOW);
        void *(*request)(void) = (void *(*)(void))dlsym(library, "request");
        if (round == 0) {
            first = (void *)request;
        } else {
            kill(getppid(), SIGCONT);
        }
        if (first != (void *)request) {
            puts("elsewhere");
        }
        for (int i = 0; i < 10; i++) {
            block = request();
        }
        if (round == 0) {
            dlclose(library);
        }
    }
    return 0;
}
