/* Limits that a process meets or sets while it runs. Prints `lowered`, or the number of mappings.
 *
 *   lowered            lowers the limit on its own address space, and goes on with threads, libraries and blocks
 *   lowered nothing    has one block or null, wherever the limit under which it was started lies
 *   lowered mappings   has 40,000 long blocks, and then still maps memory and starts a thread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { BLOCK = 1 << 20, MOST = 512, LONG_BLOCKS = 40000, LONG = 40000 };

static void *use(void *unused)
{
    for (size_t length = 1; length < 100000; length *= 3) free(malloc(length));
    return unused;
}

static void start_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void lower(void)
{
    static void *blocks[MOST];
    struct rlimit limit = {(rlim_t)MOST * BLOCK, (rlim_t)MOST * BLOCK};
    int count = 0;
    for (; count < 16; count++) CHECK((blocks[count] = malloc(BLOCK)));
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    start_threads();
    void *library = dlopen("libutil.so.1", RTLD_NOW);
    if (!library) library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library);
    errno = 0;
    CHECK(!malloc((size_t)MOST * BLOCK) && errno == ENOMEM);
    while (count < MOST && (blocks[count] = malloc(BLOCK))) memset(blocks[count++], 1, BLOCK);
    CHECK(count > MOST / 2 && count < MOST && errno == ENOMEM);
    for (int i = 0; i < count; i++) free(blocks[i]);
    start_threads();
    CHECK((blocks[0] = malloc(100)) && (blocks[1] = malloc(BLOCK)));
}

static void allocate_or_fail(void)
{
    errno = 0;
    void *block = malloc(100);
    CHECK(block || errno == ENOMEM);
    free(block);
    errno = 0;
    block = malloc(BLOCK);
    CHECK(block || errno == ENOMEM);
    free(block);
    errno = 0;
    CHECK(!malloc((size_t)1 << 40) && errno == ENOMEM);
}

static unsigned long count_mappings(void)
{
    FILE *mappings = fopen("/proc/self/maps", "r");
    unsigned long count = 0;
    CHECK(mappings);
    for (int byte; (byte = getc_unlocked(mappings)) != EOF;) count += byte == '\n';
    fclose(mappings);
    return count;
}

static unsigned long allocate_long_blocks(void)
{
    for (int i = 0; i < LONG_BLOCKS; i++) CHECK(malloc(LONG));
    for (int i = 0; i < 100; i++) { /* readable and inaccessible by turns, so that they do not merge */
        void *page = mmap(NULL, 4096, i % 2 ? PROT_NONE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
    }
    start_threads();
    return count_mappings();
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(way, "mappings")) {
        printf("%lu\n", allocate_long_blocks());
        return 0;
    }
    if (!strcmp(way, "nothing")) allocate_or_fail();
    else lower();
    puts("lowered");
    return 0;
}
