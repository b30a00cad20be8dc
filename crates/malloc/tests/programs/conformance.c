/* The malloc family as glibc's manual describes it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "process.h"

/* A size that is not a constant for the compiler, so that it neither warns nor removes a call. */
static volatile size_t huge = SIZE_MAX;

static int is_aligned(const void *p, size_t align) { return (uintptr_t)p % align == 0; }

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(seed + i * 7);
}

static int holds(const unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)(seed + i * 7)) return 0;
    return 1;
}

static int is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return 0;
    return 1;
}

static void test_malloc(void)
{
    enum { N = 600 };
    static unsigned char *blocks[N];
    for (size_t i = 0; i < N; i++) {
        size_t n = i < 300 ? i : i * i;
        blocks[i] = malloc(n);
        CHECK(blocks[i] && is_aligned(blocks[i], 16));
        CHECK(malloc_usable_size(blocks[i]) >= n && malloc_usable_size(blocks[i]) > 0);
        fill(blocks[i], malloc_usable_size(blocks[i]), (unsigned)i);
    }
    for (size_t i = 0; i < N; i++) CHECK(holds(blocks[i], malloc_usable_size(blocks[i]), (unsigned)i));
    for (size_t i = 0; i < N; i += 2) free(blocks[i]);
    for (size_t i = 1; i < N; i += 2) CHECK(holds(blocks[i], malloc_usable_size(blocks[i]), (unsigned)i));
    for (size_t i = 1; i < N; i += 2) free(blocks[i]);
    void *a = malloc(0), *b = malloc(0);
    CHECK(a && b && a != b);
    free(a);
    free(b);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
}

static void test_limits(void)
{
    size_t sizes[] = {huge, huge - 4096, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 46};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        CHECK(malloc(sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(1, sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(aligned_alloc(64, sizes[i]) == NULL && errno == ENOMEM);
        unsigned char *p = malloc(100);
        CHECK(p);
        fill(p, 100, 9);
        errno = 0;
        CHECK(realloc(p, sizes[i]) == NULL && errno == ENOMEM);
        CHECK(holds(p, 100, 9));
        free(p);
    }
    errno = 0;
    CHECK(calloc(huge / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(huge / 8, huge / 8) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(NULL, huge / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(pvalloc(huge - 5) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(valloc(huge - 5) == NULL && errno == ENOMEM);
    /* The heap works after the refusals. */
    for (size_t n = 1; n < (size_t)1 << 24; n *= 3) {
        unsigned char *p = malloc(n);
        CHECK(p);
        memset(p, 1, n);
        free(p);
    }
}

static void test_calloc(void)
{
    for (size_t n = 1; n < (size_t)40 << 20; n = n * 3 + 1) {
        unsigned char *p = malloc(n);
        CHECK(p);
        memset(p, 0xa5, n);
        free(p);
        unsigned char *q = calloc(n, 1);
        CHECK(q && is_zero(q, n));
        memset(q, 0x5a, n);
        unsigned char *r = calloc(1, n + 5);
        CHECK(r && is_zero(r, n + 5));
        free(q);
        free(r);
    }
    void *a = calloc(0, 8), *b = calloc(8, 0);
    CHECK(a && b && a != b);
    free(a);
    free(b);
}

static void test_realloc(void)
{
    unsigned char *p = realloc(NULL, 10);
    CHECK(p);
    fill(p, 10, 3);
    size_t have = 10;
    for (size_t n = 11; n < (size_t)20 << 20; n = n + n / 3 + 1) {
        void *wall = malloc(24); /* so that growing in place does not always succeed */
        p = realloc(p, n);
        CHECK(p && is_aligned(p, 16) && holds(p, have, 3) && malloc_usable_size(p) >= n);
        fill(p, n, 3);
        have = n;
        free(wall);
    }
    while (have > 1) {
        have /= 2;
        p = realloc(p, have);
        CHECK(p && holds(p, have, 3));
    }
    CHECK(realloc(p, 0) == NULL);
    p = reallocarray(NULL, 10, 10);
    CHECK(p && malloc_usable_size(p) >= 100);
    fill(p, 100, 1);
    p = reallocarray(p, 1000, 10);
    CHECK(p && holds(p, 100, 1));
    free(p);
    p = aligned_alloc(4096, 4096);
    CHECK(p);
    fill(p, 4096, 4);
    p = realloc(p, 100000);
    CHECK(p && holds(p, 4096, 4));
    free(p);
}

static void test_alignment(void)
{
    for (size_t align = 1; align <= (size_t)1 << 22; align *= 2) {
        for (size_t n = 0; n < 5000; n = n * 2 + 7) {
            unsigned char *blocks[4] = {aligned_alloc(align, n), memalign(align, n), NULL, memalign(align, n + 1)};
            if (align >= sizeof(void *)) CHECK(posix_memalign((void **)&blocks[2], align, n) == 0);
            for (int i = 0; i < 4; i++) {
                if (!blocks[i]) {
                    CHECK(i == 2 && align < sizeof(void *));
                    continue;
                }
                CHECK(is_aligned(blocks[i], align) && is_aligned(blocks[i], 16));
                CHECK(malloc_usable_size(blocks[i]) >= n);
                memset(blocks[i], i, n);
            }
            for (int i = 0; i < 4; i++) free(blocks[i]);
        }
    }
    void *kept = &kept, *p = kept;
    size_t bad[] = {0, 1, 2, 4, 3, 12, 24, 100};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 7;
        CHECK(posix_memalign(&p, bad[i], 10) == EINVAL && p == kept && errno == 7);
    }
    errno = 7;
    /* As with glibc: POSIX leaves errno open here, and programs written for glibc read it. */
    CHECK(posix_memalign(&p, 64, huge - 100) == ENOMEM && p == kept && errno == ENOMEM);
    errno = 0;
    CHECK(aligned_alloc(24, 10) == NULL && errno == EINVAL);
    p = memalign(24, 10);
    CHECK(p && is_aligned(p, 32));
    free(p);
    errno = 0;
    CHECK(memalign(huge - 2, 10) == NULL && errno == EINVAL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = valloc(10), *w = pvalloc(10), *z = pvalloc(0);
    CHECK(v && w && z && is_aligned(v, page) && is_aligned(w, page) && malloc_usable_size(w) >= page);
    memset(w, 1, page);
    free(v);
    free(w);
    free(z);
}

static void *symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    if (!found || !dladdr(found, &info) || !strstr(info.dli_fname, "heapwright")) {
        fprintf(stderr, "%s is not the library's\n", name);
        _exit(1);
    }
    return found;
}

static void test_every_name(void)
{
    static const char *names[] = {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign",
        "valloc", "pvalloc", "reallocarray", "cfree", "malloc_usable_size", "free_sized", "free_aligned_sized",
        "__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free", "__libc_memalign", "__libc_valloc",
        "__libc_pvalloc", "__libc_reallocarray", "__libc_cfree", "__posix_memalign", "malloc_trim", "mallinfo",
        "mallinfo2", "mallopt", "malloc_stats", "malloc_info"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) symbol(names[i]);
    void (*sized)(void *, size_t) = symbol("free_sized");
    void (*aligned_sized)(void *, size_t, size_t) = symbol("free_aligned_sized");
    void (*cfree_)(void *) = symbol("cfree");
    sized(malloc(100), 100);
    sized(malloc(0), 0);
    sized(NULL, 5);
    aligned_sized(aligned_alloc(256, 1000), 256, 1000);
    aligned_sized(NULL, 256, 5);
    cfree_(malloc(9));
    /* glibc's second names and the first ones share one heap. */
    void *(*libc_malloc)(size_t) = symbol("__libc_malloc");
    void *(*libc_realloc)(void *, size_t) = symbol("__libc_realloc");
    void (*libc_free)(void *) = symbol("__libc_free");
    void *p = libc_realloc(libc_malloc(10), 5000);
    CHECK(p && malloc_usable_size(p) >= 5000);
    free(p);
    libc_free(malloc(10));
    struct mallinfo2 before = mallinfo2();
    p = malloc((size_t)1 << 20);
    struct mallinfo2 with = mallinfo2();
    CHECK(with.uordblks + with.hblkhd >= before.uordblks + before.hblkhd + ((size_t)1 << 20));
    free(p);
    struct mallinfo2 after = mallinfo2();
    /* Blocks in the quarantine of a hardened heap count as used. */
    CHECK(after.uordblks + after.hblkhd == before.uordblks + before.hblkhd || getenv("HEAPWRIGHT_HARDEN"));
    CHECK(mallopt(M_TRIM_THRESHOLD, 1) == 1);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
}

static void test_errno_kept(void)
{
    for (size_t n = 1; n < (size_t)100 << 20; n *= 10) {
        void *p = malloc(n);
        CHECK(p);
        memset(p, 1, n);
        errno = 1234;
        free(p);
        CHECK(errno == 1234);
    }
}

/* Random operations on a set of blocks with known contents. */
static void churn(unsigned seed, int rounds)
{
    enum { N = 200 };
    struct {
        unsigned char *p;
        size_t n;
        unsigned seed;
    } set[N] = {{0}};
    for (int round = 0; round < rounds; round++) {
        int i = rand_r(&seed) % N;
        size_t n = (size_t)1 << (rand_r(&seed) % 14);
        n += (size_t)rand_r(&seed) % n;
        if (set[i].p) CHECK(holds(set[i].p, set[i].n, set[i].seed));
        switch (rand_r(&seed) % 4) {
        case 0:
            if (set[i].p) {
                size_t kept = n < set[i].n ? n : set[i].n;
                set[i].p = realloc(set[i].p, n);
                CHECK(set[i].p && holds(set[i].p, kept, set[i].seed));
                break;
            }
            /* fall through */
        case 1:
            free(set[i].p);
            set[i].p = calloc(1, n);
            CHECK(set[i].p && is_zero(set[i].p, n));
            break;
        case 2:
            free(set[i].p);
            set[i].p = aligned_alloc((size_t)16 << rand_r(&seed) % 8, n);
            break;
        default:
            free(set[i].p);
            set[i].p = malloc(n);
        }
        CHECK(set[i].p);
        set[i].n = n;
        set[i].seed = seed;
        fill(set[i].p, n, seed);
    }
    for (int i = 0; i < N; i++) free(set[i].p);
}

static void test_churn(void) { churn(1, 20000); }

static void *churn_in_thread(void *seed)
{
    churn((unsigned)(uintptr_t)seed, 3000);
    return malloc(100);
}

static void test_threads(void)
{
    for (int round = 0; round < 20; round++) {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, churn_in_thread, (void *)(i + 1)) == 0);
        for (int i = 0; i < 4; i++) {
            void *theirs;
            CHECK(pthread_join(threads[i], &theirs) == 0);
            free(theirs); /* freed by another thread than allocated it */
        }
    }
}

static void *use_keys(void *unused)
{
    pthread_key_t keys[64];
    for (int i = 0; i < 64; i++) {
        CHECK(pthread_key_create(&keys[i], free) == 0);
        CHECK(pthread_setspecific(keys[i], malloc(32)) == 0);
    }
    for (int i = 0; i < 32; i++) {
        free(pthread_getspecific(keys[i]));
        CHECK(pthread_key_delete(keys[i]) == 0);
    }
    return unused;
}

static void test_thread_keys(void)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_keys, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static volatile int stop;

static void *allocate_until_stopped(void *seed)
{
    unsigned s = (unsigned)(uintptr_t)seed;
    while (!stop) churn(s++, 200);
    return NULL;
}

static void *fork_often(void *count)
{
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            churn((unsigned)i, 300);
            pid_t grandchild = fork();
            if (grandchild == 0) {
                churn((unsigned)i, 100);
                _exit(0);
            }
            CHECK(grandchild > 0 && status_of(grandchild) == 0);
            _exit(0);
        }
        CHECK(status_of(child) == 0);
    }
    return NULL;
}

static void test_fork(void)
{
    pthread_t busy[2], forking[2];
    stop = 0;
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&busy[i], NULL, allocate_until_stopped, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&forking[i], NULL, fork_often, (void *)(intptr_t)25) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(forking[i], NULL) == 0);
    stop = 1;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(busy[i], NULL) == 0);
}

static void test_dlopen(const char *plugin)
{
    for (int i = 0; i < 10; i++) {
        void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        char *(*make)(const char *) = (char *(*)(const char *))dlsym(library, "make");
        void (*drop)(char *) = (void (*)(char *))dlsym(library, "drop");
        CHECK(make && drop);
        char *theirs = make("across");
        CHECK(strcmp(theirs, "across") == 0 && malloc_usable_size(theirs) >= 7);
        drop(make("back"));
        free(theirs);
        CHECK(dlclose(library) == 0);
    }
}

static void test_memory_is_given_back(void)
{
    /* 256 MiB in blocks of 1 MiB, touched and freed; much more than any heap may keep. */
    enum { N = 256 };
    static unsigned char *blocks[N];
    for (int i = 0; i < N; i++) {
        blocks[i] = malloc((size_t)1 << 20);
        CHECK(blocks[i]);
        memset(blocks[i], 1, (size_t)1 << 20);
    }
    unsigned char *last = malloc(100);
    for (int i = 0; i < N; i++) free(blocks[i]);
    malloc_trim(0);
    CHECK(resident_kib() < 64l << 10);
    free(last);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    int emulated = argc > 2; /* an emulator's memory is not the program's */
    test_malloc();
    test_every_name();
    test_churn();
    test_threads();
    test_thread_keys();
    test_fork();
    test_dlopen(argv[1]);
    test_errno_kept();
    test_alignment();
    test_calloc();
    test_realloc();
    test_limits();
    if (!emulated) test_memory_is_given_back();
    puts("conformance: ok");
    return 0;
}
