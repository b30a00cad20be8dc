/* Blocks that a library loaded with RTLD_DEEPBIND and the program pass to each other. The library loads another one by
 * its own search path, which the program does not have. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef void *loader(void);
typedef char *maker(size_t);
typedef void dropper(char *);

static void exchange(void *library)
{
    maker *make = (maker *)dlsym(library, "make");
    dropper *drop = (dropper *)dlsym(library, "drop");
    CHECK(make && drop);
    for (size_t length = 1; length < 4 << 20; length *= 3) {
        char *theirs = make(length), *ours = malloc(length);
        CHECK(theirs && ours);
        memset(theirs, 1, length), memset(ours, 2, length);
        theirs = realloc(theirs, length * 2);
        CHECK(theirs && theirs[length - 1] == 1);
        free(theirs);
        drop(ours);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    void *outer = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND);
    if (!outer) fprintf(stderr, "%s\n", dlerror());
    CHECK(outer);
    exchange(outer);
    loader *load = (loader *)dlsym(outer, "load");
    CHECK(load);
    void *inner = load();
    if (!inner) fprintf(stderr, "%s\n", dlerror());
    CHECK(inner && inner != outer);
    exchange(inner);
    CHECK(!dlopen("no-such-library.so", RTLD_NOW | RTLD_DEEPBIND) && strstr(dlerror(), "no-such-library.so"));
    CHECK(dlopen(NULL, RTLD_LAZY | RTLD_DEEPBIND));
    puts("exchanged");
    return 0;
}
