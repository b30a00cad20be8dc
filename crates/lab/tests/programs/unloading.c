/* unloading LIBRARY OTHER: loads one and the other in turn, each for a moment, and calls its function `request` fifty
   times. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile block;

int main(int count, char **libraries) {
    void *first = NULL;
    for (int round = 0; round < 20; round++) {
        void *library = dlopen(libraries[1 + round % 2], RTLD_NOW);
        void *(*request)(void) = (void *(*)(void))dlsym(library, "request");
        if (round == 0) {
            first = (void *)request;
        }
        if (first != (void *)request) {
            puts("elsewhere");
        }
        for (int i = 0; i < 50; i++) {
            block = request();
        }
        dlclose(library);
    }
    return 0;
}
