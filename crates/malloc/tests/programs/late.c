/* Loads a plugin in C++ into a program that has no C++ library, and runs its function named by the second argument. */
#include <dlfcn.h>
#include <stdio.h>

#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    int (*holds)(void) = (int (*)(void))dlsym(library, argv[2]);
    CHECK(holds && holds());
    puts("late: ok");
    return 0;
}
