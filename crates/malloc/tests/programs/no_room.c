/* A program that uses up its mappings or its addresses before its first allocation: null and ENOMEM until it gives some
 * back, and blocks from then on.
 *
 *   no_room maps        as many mappings as the kernel allows
 *   no_room addresses   every hole of at least a page, without access */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 1 << 20 };

static void *taken[MOST];
static size_t lengths[MOST], count;

static int take(size_t length, int flags, int file)
{
    void *at = mmap(NULL, length, PROT_NONE, flags | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) return 0;
    CHECK(count < MOST);
    taken[count] = at;
    lengths[count++] = length;
    return 1;
}

static void use_up_maps(void)
{
    int file = memfd_create("no_room", 0);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    while (take(4096, MAP_SHARED, file)) {}
}

static void use_up_addresses(void)
{
    for (size_t length = (size_t)1 << 47; length >= 4096; length /= 2)
        while (take(length, MAP_PRIVATE | MAP_ANONYMOUS, -1)) {}
}

static int is_refused(void *block)
{
    int refused = !block && errno == ENOMEM;
    errno = 0;
    return refused;
}

static void check_refusals(void)
{
    errno = 0;
    CHECK(is_refused(malloc(100)));
    CHECK(is_refused(malloc(0)));
    CHECK(is_refused(calloc(10, 10)));
    CHECK(is_refused(realloc(NULL, 100)));
    CHECK(is_refused(aligned_alloc(64, 640)));
    CHECK(is_refused(malloc(100000)));
    CHECK(is_refused(malloc((size_t)1 << 30)));
    void *untouched = &untouched;
    CHECK(posix_memalign(&untouched, 64, 100) == ENOMEM && untouched == &untouched);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    CHECK(mallinfo2().uordblks == 0);
    CHECK(malloc_trim(0) == 0);
    malloc_stats();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!strcmp(argv[1], "maps"))
        use_up_maps();
    else
        use_up_addresses();
    check_refusals();
    while (count) {
        count--;
        CHECK(munmap(taken[count], lengths[count]) == 0);
    }
    for (size_t size = 1; size < (size_t)4 << 20; size = size * 3 + 8) {
        unsigned char *block = malloc(size);
        CHECK(block && malloc_usable_size(block) >= size);
        memset(block, 1, size);
        CHECK(block[size - 1] == 1);
        free(block);
    }
    static const char ok[] = "no_room: ok\n";
    CHECK(write(1, ok, sizeof ok - 1) == sizeof ok - 1);
    return 0;
}
