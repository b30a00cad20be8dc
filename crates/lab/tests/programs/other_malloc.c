/* Another malloc, by glibc's names too, as some have them. Blocks lie at the
   starts of pages behind a page that cannot be read: a read of a word of glibc's before a block ends the process. */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, LENGTH = 64 << 10 };

void *malloc(size_t size)
{
    if (size > LENGTH)
        return NULL;
    char *pages = mmap(NULL, PAGE + LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, PAGE, PROT_NONE) != 0)
        return NULL;
    return pages + PAGE;
}

void free(void *block)
{
    if (block != NULL)
        munmap((char *)block - PAGE, PAGE + LENGTH);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
}

void *realloc(void *block, size_t size)
{
    return block == NULL ? malloc(size) : size <= LENGTH ? block : NULL;
}

void *memalign(size_t align, size_t size)
{
    return align <= PAGE ? malloc(size) : NULL;
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : LENGTH;
}

void *__libc_malloc(size_t size) __attribute__((alias("malloc")));
void __libc_free(void *block) __attribute__((alias("free")));
void *__libc_calloc(size_t count, size_t size) __attribute__((alias("calloc")));
void *__libc_realloc(void *block, size_t size) __attribute__((alias("realloc")));
void *__libc_memalign(size_t align, size_t size) __attribute__((alias("memalign")));
