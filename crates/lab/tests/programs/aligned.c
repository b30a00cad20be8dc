/* Says what the functions do with every kind of alignment. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *name, size_t align, void *block) {
    int error = errno;
    int is_aligned = block != NULL && align != 0 && (uintptr_t)block % align == 0;
    printf("%s %zu: %d %d %d\n", name, align, block != NULL, is_aligned && (align & (align - 1)) == 0, block ? 0 : error);
    free(block);
}

int main(void) {
    size_t aligns[] = {0, 1, 3, 5, 8, 12, 16, 24, 64, 100, 4096, 1 << 20, (size_t)1 << 62, (size_t)1 << 63, SIZE_MAX};
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        void *block = NULL;
        errno = 0;
        say("aligned_alloc", aligns[i], aligned_alloc(aligns[i], 10));
        errno = 0;
        say("memalign", aligns[i], memalign(aligns[i], 10));
        int error = posix_memalign(&block, aligns[i], 10);
        printf("posix_memalign %zu: %d\n", aligns[i], error);
        free(block);
    }
    return 0;
}
