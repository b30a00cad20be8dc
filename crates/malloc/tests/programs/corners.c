/* What test suites of C libraries and of other mallocs check of the malloc family, beside what `conformance.c` does. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static volatile size_t most = SIZE_MAX;

static int is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return 0;
    return 1;
}

/* Blocks in constructors and before `main`. */
static char *early;

__attribute__((constructor)) static void allocate_early(void)
{
    early = malloc(1000);
    CHECK(early);
    strcpy(early, "early");
}

/* calloc zeroes what malloc_usable_size grants, also of blocks that were used before. */
static void test_calloc_usable(void)
{
    enum { N = 40 };
    unsigned char *blocks[N];
    for (size_t n = 0; n < (size_t)3 << 20; n += n / 16 + 1) {
        int count = n < 100000 ? N : 3;
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < count; i++) {
                blocks[i] = round ? calloc(1, n) : malloc(n);
                CHECK(blocks[i]);
                size_t usable = malloc_usable_size(blocks[i]);
                CHECK(usable >= n && (!round || is_zero(blocks[i], usable)));
                memset(blocks[i], 0xa5, usable);
            }
            for (int i = 0; i < count; i++) free(blocks[i]);
        }
    }
}

/* A success leaves errno alone, and so does free. */
static void test_errno(void)
{
    for (size_t n = 0; n < (size_t)64 << 20; n = n * 3 + 1) {
        errno = 1234;
        void *a = malloc(n), *b = calloc(n, 1), *c = memalign(256, n), *d = realloc(NULL, n);
        d = realloc(d, n * 2 + 1);
        void *e = NULL;
        CHECK(a && b && c && d && posix_memalign(&e, 4096, n) == 0 && errno == 1234);
        malloc_usable_size(a);
        free(a), free(b), free(c), free(d), free(e);
        malloc_trim(0);
        CHECK(errno == 1234);
    }
}

static void expect_no_memory(void *p)
{
    CHECK(p == NULL && errno == ENOMEM);
    errno = 0;
}

/* Sizes that nothing holds, by every function and with every alignment. */
static void test_too_large(void)
{
    size_t sizes[200], count = 0;
    for (size_t i = 0; i < 64; i++) {
        sizes[count++] = most - (i < 32 ? i : (size_t)1 << (i - 20) % 14);
        sizes[count++] = (size_t)PTRDIFF_MAX + 1 + i;
    }
    for (int bit = 50; bit < 64; bit++) sizes[count++] = (size_t)1 << bit;
    unsigned char *volatile kept = malloc(16); /* so that the compiler does not warn of what it cannot know */
    CHECK(kept);
    memset(kept, 7, 16);
    for (size_t s = 0; s < count; s++) {
        size_t size = sizes[s];
        errno = 0;
        expect_no_memory(malloc(size));
        expect_no_memory(realloc(kept, size));
        expect_no_memory(realloc(NULL, size));
        for (size_t parts = 1; parts <= 1 << 12; parts *= 2) {
            expect_no_memory(calloc(size / parts + (parts > 1), parts));
            expect_no_memory(reallocarray(kept, size / parts + (parts > 1), parts));
            expect_no_memory(reallocarray(NULL, parts, size / parts + (parts > 1)));
        }
        expect_no_memory(valloc(size));
        expect_no_memory(pvalloc(size));
        for (size_t align = 1; align && align <= (size_t)1 << 62; align *= 2) {
            expect_no_memory(memalign(align, size));
            expect_no_memory(aligned_alloc(align, size));
            void *p = kept;
            errno = 77;
            int refused = posix_memalign(&p, align, size);
            int invalid = align < sizeof(void *);
            CHECK(refused == (invalid ? EINVAL : ENOMEM) && p == kept && errno == (invalid ? 77 : ENOMEM));
            errno = 0;
        }
    }
    for (int i = 0; i < 16; i++) CHECK(kept[i] == 7);
    free(kept);
    volatile size_t half = (size_t)1 << 63, quarter = (size_t)1 << 62;
    errno = 0;
    expect_no_memory(aligned_alloc(half, half));
    expect_no_memory(aligned_alloc(quarter, half + quarter + 1));
    expect_no_memory(aligned_alloc(16, most - 15));
    expect_no_memory(memalign(half, 1));
    /* Products that wrap around to little. */
    for (int bit = 1; bit < 64; bit++) {
        size_t a = (size_t)1 << bit, b = ((size_t)1 << (64 - bit)) + 1;
        expect_no_memory(calloc(a, b));
        expect_no_memory(reallocarray(NULL, a, b));
    }
}

static void test_alignments(void)
{
    for (size_t align = 0; align <= 300; align++) {
        size_t rounded = 1;
        while (rounded < align) rounded *= 2;
        unsigned char *p = memalign(align, 1024);
        CHECK(p && (uintptr_t)p % rounded == 0 && malloc_usable_size(p) >= 1024);
        memset(p, 1, 1024);
        free(p);
        errno = 0;
        p = aligned_alloc(align, 100);
        CHECK(rounded == align && align ? p != NULL : p == NULL && errno == EINVAL);
        free(p);
        void *kept = &rounded;
        int refused = posix_memalign(&kept, align, 100);
        if (rounded == align && align % sizeof(void *) == 0 && align) {
            CHECK(refused == 0 && (uintptr_t)kept % align == 0);
            free(kept);
        } else {
            CHECK(refused == EINVAL && kept == &rounded);
        }
    }
    for (size_t n = 1; n < 5000; n++) {
        void *p = malloc(n);
        CHECK((uintptr_t)p % _Alignof(max_align_t) == 0);
        free(p);
    }
    void *p = NULL;
    CHECK(posix_memalign(&p, sizeof(void *), 0) == 0);
    free(p);
    /* What was aligned may be resized; the bytes stay. */
    for (size_t align = 16; align <= 8192; align *= 2)
        for (size_t n = 1; n < 100000; n = n * 5 + 3) {
            unsigned char *block = memalign(align, n);
            CHECK(block);
            memset(block, 0x5a, n);
            block = realloc(block, n * 2);
            CHECK(block);
            for (size_t i = 0; i < n; i++) CHECK(block[i] == 0x5a);
            block = realloc(block, n / 2 + 1);
            CHECK(block && block[n / 2] == 0x5a);
            free(block);
        }
}

/* Alignments and lengths of 2 and 4 GiB. Buddies align to 1 GiB. */
static void test_gigabytes(void)
{
    const char *policy = getenv("HEAPWRIGHT_POLICY");
    int is_buddy = policy && !strcmp(policy, "buddy");
    size_t least = (size_t)1 << 30;
    for (size_t align = least; align <= least * (is_buddy ? 1 : 4); align *= 2)
        for (size_t n = 100; n <= least * 4; n = n == 100 ? least * 2 : n * 2) {
            unsigned char *p = NULL;
            CHECK(posix_memalign((void **)&p, align, n) == 0 && (uintptr_t)p % align == 0);
            p[0] = 1;
            p[n - 1] = 2;
            CHECK(malloc_usable_size(p) >= n);
            free(p);
            p = aligned_alloc(align, n);
            CHECK(p && (uintptr_t)p % align == 0);
            free(p);
        }
    unsigned char *p = calloc(3, least);
    CHECK(p && p[0] == 0 && p[3 * least - 1] == 0);
    free(p);
}

static void test_zero_sizes(void)
{
    enum { N = 100 };
    void *blocks[N];
    for (int i = 0; i < N; i++) {
        blocks[i] = i % 3 == 0 ? malloc(0) : i % 3 == 1 ? calloc(0, 0) : realloc(NULL, 0);
        CHECK(blocks[i]);
        for (int j = 0; j < i; j++) CHECK(blocks[i] != blocks[j]);
    }
    for (int i = 0; i < N; i++) {
        if (i % 2) {
            errno = 55;
            CHECK(realloc(blocks[i], 0) == NULL && errno == 55);
        } else {
            free(blocks[i]);
        }
    }
    CHECK(malloc_usable_size(NULL) == 0);
}

static void test_settings(void)
{
    static const int accepted[][2] = {{M_MMAP_THRESHOLD, 1 << 20}, {M_MMAP_THRESHOLD, INT_MAX},
        {M_TRIM_THRESHOLD, 0}, {M_TRIM_THRESHOLD, -1}, {M_TOP_PAD, 1 << 16}, {M_MMAP_MAX, 0}, {M_ARENA_MAX, 1}, {M_ARENA_MAX, 0}, {M_ARENA_TEST, 1}, {M_MXFAST, 0}, {M_MXFAST, 160},
        {M_CHECK_ACTION, 3}, {M_PERTURB, 0}};
    static const int refused[][2] = {{M_MXFAST, 161}, {M_MXFAST, -1}, {-1000, 1}, {0, 0}, {INT_MAX, 1}};
    errno = 55;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        CHECK(mallopt(accepted[i][0], accepted[i][1]) == 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) CHECK(mallopt(refused[i][0], refused[i][1]) == 0);
    CHECK(errno == 55);
}

/* The figures grow by what is allocated, for every size. */
static void test_figures(void)
{
    static const size_t sizes[] = {8, 32, 128, 4096, 32768, 131072, 1024000, 10240000, 20480000, 300000000};
    enum { N = 50 };
    void *blocks[N] = {NULL};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int passes = 0, count = 0;
        while (count < N && !passes) {
            struct mallinfo2 before = mallinfo2();
            CHECK(blocks[count] = malloc(sizes[s]));
            struct mallinfo2 after = mallinfo2();
            size_t usable = malloc_usable_size(blocks[count++]);
            passes = after.uordblks + after.hblkhd >= before.uordblks + before.hblkhd + usable;
        }
        CHECK(passes);
        while (count > 0) free(blocks[--count]);
    }
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
    return count;
}

static void test_information(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(stream);
    errno = 55;
    CHECK(malloc_info(0, stream) == 0 && errno == 55);
    CHECK(fclose(stream) == 0);
    CHECK(!strncmp(text, "<malloc version=", 16) && strstr(text, "</malloc>\n"));
    CHECK(count_of(text, "<heap ") == count_of(text, "</heap>"));
    CHECK(count_of(text, "<system type=\"current\"") > 0 && count_of(text, "<total ") > 0);
    free(text);
    CHECK(malloc_info(1, stdout) != 0);
    stream = fopen("/dev/full", "w");
    CHECK(stream && setvbuf(stream, NULL, _IONBF, 0) == 0);
    malloc_info(0, stream);
    CHECK(ferror(stream));
    fclose(stream);
    CHECK(malloc_trim(0) >= 0 && malloc_trim(most / 2) >= 0);
}

/* Destructors of thread-specific values and of `thread_local` ones allocate and free, in threads that come and go. */
static pthread_key_t key;
static __thread void *own;

static void at_end_of_thread(void *value)
{
    static __thread int rounds;
    free(value);
    free(own);
    own = malloc(500);
    memset(own, 1, 500);
    if (++rounds < 3) pthread_setspecific(key, malloc(64));
    else free(own);
}

static void *in_thread(void *theirs)
{
    free(theirs);
    own = malloc(200000);
    CHECK(pthread_setspecific(key, calloc(10, 10)) == 0);
    return realloc(malloc(10), 40000);
}

static void test_threads(void)
{
    CHECK(pthread_key_create(&key, at_end_of_thread) == 0);
    void *block = NULL;
    for (int i = 0; i < 300; i++) {
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            CHECK(pthread_create(&threads[t], NULL, in_thread, t ? malloc(100) : block) == 0);
        for (int t = 0; t < 4; t++) {
            void *result;
            CHECK(pthread_join(threads[t], &result) == 0 && result);
            if (t) free(result);
            else block = result;
        }
    }
    free(block);
}

/* free changes no errno even when the system refuses to unmap: the process has as many mappings as it may. */
static void test_free_among_mappings(void)
{
    enum { N = 64 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = 70000 * page;
    unsigned char *blocks[N];
    unsigned char *room = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED);
    for (int i = 0; i < N; i++) CHECK(blocks[i] = memset(malloc(300000 + 5 * page * (size_t)i), 1, 300000));
    for (size_t i = 0; i < 70000; i += 2)
        if (mprotect(room + i * page, page, PROT_READ) != 0) break;
    for (int i = 0; i < N; i += 2) {
        errno = 1234;
        free(blocks[i]);
        CHECK(errno == 1234);
    }
    for (int i = 1; i < N; i += 2) free(blocks[i]);
    CHECK(errno == 1234);
    CHECK(munmap(room, length) == 0);
    for (int i = 0; i < N; i++) CHECK(blocks[i] = malloc(300000));
    for (int i = 0; i < N; i++) free(blocks[i]);
}

static void at_exit(void)
{
    CHECK(!strcmp(early, "early"));
    early = realloc(early, 100000);
    CHECK(early && !strcmp(early, "early"));
    free(early);
    puts("corners: ok");
}

int main(int argc, char **argv)
{
    (void)argv;
    CHECK(atexit(at_exit) == 0);
    test_calloc_usable();
    test_errno();
    test_too_large();
    test_alignments();
    test_zero_sizes();
    test_settings();
    test_figures();
    test_information();
    test_threads();
    if (argc == 1) { /* an emulator's address space is short, and its mappings are not the program's */
        test_gigabytes();
        test_free_among_mappings();
    }
    return 0;
}
