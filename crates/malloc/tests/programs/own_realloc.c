/* A program, or a tool that runs it, that replaces malloc, calloc, realloc and free, and not reallocarray: that ends in
   its realloc, as glibc's does. Its blocks come from a pool and are never used again. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static _Alignas(16) unsigned char pool[1 << 20];
static size_t used;
/* volatile: the C library's header says that reallocarray calls nothing of this file. */
static volatile int resizes;
static volatile size_t huge = SIZE_MAX;

static int is_pooled(const void *block) {
    return (uintptr_t)block - (uintptr_t)pool < sizeof pool;
}

void *malloc(size_t size) {
    size_t place = used + 16;
    if (size > sizeof pool - place) {
        return NULL;
    }
    memcpy(pool + used, &size, sizeof size);
    used = place + (size + 15) / 16 * 16;
    return pool + place;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}

void *realloc(void *block, size_t size) {
    resizes++;
    void *other = malloc(size);
    if (other != NULL && block != NULL) {
        size_t old;
        memcpy(&old, (unsigned char *)block - 16, sizeof old);
        memcpy(other, block, old < size ? old : size);
    }
    return other;
}

void free(void *block) {
    CHECK(block == NULL || is_pooled(block));
}

int main(void) {
    char *block = malloc(8);
    strcpy(block, "kept");
    int before = resizes;
    block = reallocarray(block, 10, 20);
    CHECK(is_pooled(block) && strcmp(block, "kept") == 0 && resizes == before + 1);
    errno = 0;
    CHECK(reallocarray(block, huge / 2, 3) == NULL && errno == ENOMEM && resizes == before + 1);
    CHECK(is_pooled(reallocarray(NULL, 0, huge)));
    free(block);
    return 0;
}
