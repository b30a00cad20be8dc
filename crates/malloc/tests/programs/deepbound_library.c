/* A library that makes and frees blocks, and loads libinner.so from its own folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char *make(size_t length)
{
    /* Some are made by the C library itself. */
    char *block = malloc(length), *copy;
    memset(block, 'x', length), block[length - 1] = 0;
    copy = strdup(block);
    free(block);
    return copy;
}

void drop(char *block)
{
    free(block);
}

void *load(void)
{
    return dlopen("libinner.so", RTLD_NOW | RTLD_DEEPBIND);
}
