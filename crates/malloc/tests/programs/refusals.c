/* A system that refuses memory, as a program observes it: null and ENOMEM, and no other effect.
 *
 *   refusals calls         refuses each system call of a scenario, alone and with all later ones, each in a new process
 *   refusals data          limits data (RLIMIT_DATA) to several values above what is in use
 *   refusals within KIB    fills the address space of a process that is limited to this much
 *   refusals once          allocates a few blocks; refuses the calls from number REFUSE_FROM to before REFUSE_UNTIL
 *
 * The library's system calls come here: the program's own mmap and the others interpose the C library's. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "process.h"

/* The calls with these numbers, from the first up to before the second, are refused. */
static unsigned long first_refused = -1ul, end_of_refused = -1ul, calls;

static unsigned long number_in(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);
    return value ? strtoul(value, NULL, 10) : otherwise;
}

static int is_refused(void)
{
    static int has_begun;
    if (!__atomic_exchange_n(&has_begun, 1, __ATOMIC_RELAXED)) {
        first_refused = number_in("REFUSE_FROM", -1ul);
        end_of_refused = number_in("REFUSE_UNTIL", -1ul);
    }
    unsigned long call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (call < first_refused || call >= end_of_refused) return 0;
    errno = ENOMEM;
    return 1;
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset)
{
    return is_refused() ? MAP_FAILED : (void *)syscall(SYS_mmap, at, length, protection, flags, file, offset);
}

int mprotect(void *at, size_t length, int protection)
{
    return is_refused() ? -1 : (int)syscall(SYS_mprotect, at, length, protection);
}

int madvise(void *at, size_t length, int advice)
{
    return is_refused() ? -1 : (int)syscall(SYS_madvise, at, length, advice);
}

int munmap(void *at, size_t length) { return is_refused() ? -1 : (int)syscall(SYS_munmap, at, length); }

void *mremap(void *at, size_t before, size_t length, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *there = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    return is_refused() ? MAP_FAILED : (void *)syscall(SYS_mremap, at, before, length, flags, there);
}

/* Blocks and their contents. */
enum { MOST = 4096 };

static struct {
    unsigned char *at;
    size_t size;
} blocks[MOST];
static int count;

static void keep(void *at, size_t size)
{
    if (!at) {
        CHECK(errno == ENOMEM);
        return;
    }
    CHECK(count < MOST && malloc_usable_size(at) >= size);
    memset(at, count & 0xff, size);
    blocks[count].at = at;
    blocks[count++].size = size;
}

static void check_all(void)
{
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < blocks[i].size; at += at < 256 ? 1 : 977) CHECK(blocks[i].at[at] == (i & 0xff));
}

static void free_all(void)
{
    check_all();
    while (count) free(blocks[--count].at);
}

static void *in_thread(void *unused)
{
    for (size_t size = 24; size < (size_t)1 << 17; size *= 3) free(malloc(size));
    return unused;
}

static void all_kinds(void)
{
    for (size_t size = 16; size < (size_t)2 << 20; size = size * 2 + 24) {
        errno = 0;
        keep(malloc(size), size);
        errno = 0;
        unsigned char *zeros = calloc(1, size);
        for (size_t at = 0; zeros && at < size; at++) CHECK(zeros[at] == 0);
        keep(zeros, size);
        errno = 0;
        keep(aligned_alloc(4096, size), size);
        void *untouched = &untouched, *aligned = untouched;
        int error = posix_memalign(&aligned, 1 << 16, size);
        CHECK(error == 0 || (error == ENOMEM && aligned == untouched));
        errno = ENOMEM;
        keep(error ? NULL : aligned, size);
    }
    for (int i = 0; i < count; i += 3) {
        size_t size = blocks[i].size * 2;
        errno = 0;
        unsigned char *at = realloc(blocks[i].at, size);
        if (!at) {
            CHECK(errno == ENOMEM);
            continue;
        }
        memset(at + blocks[i].size, i & 0xff, size - blocks[i].size);
        blocks[i].at = at;
        blocks[i].size = size;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, NULL) == 0) CHECK(pthread_join(thread, NULL) == 0);
    for (int i = count / 2; i < count; i++) free(blocks[i].at);
    count /= 2;
    malloc_trim(0);
    check_all();
}

/* Has the C library allocate what it keeps after its first thread, so that later counts of used bytes agree. */
static void begin(void)
{
    all_kinds();
    free_all();
}

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Runs a function in a new process; returns its status. */
static int in_a_process(int (*run)(unsigned long, unsigned long), unsigned long a, unsigned long b)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(run(a, b));
    }
    return status_of(child);
}

enum { REFUSED = 3 << 8, RAN_THROUGH = 4 << 8 };

static int refuse_calls(unsigned long first, unsigned long end)
{
    size_t before = in_use();
    calls = 0;
    end_of_refused = end;
    first_refused = first;
    all_kinds();
    first_refused = end_of_refused = -1ul;
    unsigned long made = calls;
    all_kinds();
    free_all();
    CHECK(in_use() == before || getenv("HEAPWRIGHT_HARDEN")); /* whose quarantined blocks count as used */
    return (made > first ? REFUSED : RAN_THROUGH) >> 8;
}

static int limit_data(unsigned long kib, unsigned long unused)
{
    (void)unused;
    size_t before = in_use();
    char line[200];
    unsigned long data = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status)) sscanf(line, "VmData: %lu", &data);
    fclose(status);
    struct rlimit limit = {(data + kib) << 10, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(data && setrlimit(RLIMIT_DATA, &limit) == 0);
    all_kinds();
    CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
    all_kinds();
    free_all();
    CHECK(in_use() == before);
    return 0;
}

static int fill_all(void)
{
    size_t sizes[] = {1 << 20, 100000, 5000, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *at = NULL;
        while (count < MOST && (at = malloc(sizes[i]))) keep(at, sizes[i]);
        CHECK(at || errno == ENOMEM);
    }
    free_all();
    /* Freed memory is available again. */
    for (int i = 0; i < 100; i++) keep(malloc(1000), 1000);
    free_all();
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    int status = 0;
    unsigned long runs = 0;
    if (!strcmp(argv[1], "calls")) {
        begin();
        /* What is given back to the system depends on the time, too: the last runs may make a call more or less. */
        for (int with_rest = 0; status != RAN_THROUGH || with_rest != RAN_THROUGH; runs += 2) {
            unsigned long first = runs / 2;
            status = in_a_process(refuse_calls, first, first + 1);
            with_rest = in_a_process(refuse_calls, first, -1ul);
            if ((status != REFUSED && status != RAN_THROUGH) || (with_rest != REFUSED && with_rest != RAN_THROUGH)) {
                fprintf(stderr, "call %lu refused: %#x alone, %#x with all later ones\n", first, status, with_rest);
                return 1;
            }
        }
        CHECK(runs > 20);
    } else if (!strcmp(argv[1], "data")) {
        begin();
        for (unsigned long kib = 0; kib < 64 << 10; kib += kib < 4096 ? 256 : 4096, runs++)
            CHECK(in_a_process(limit_data, kib, 0) == 0);
    } else if (!strcmp(argv[1], "within")) {
        CHECK(argc == 3);
        struct rlimit limit = {strtoul(argv[2], NULL, 10) << 10, RLIM_INFINITY};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        execl("/proc/self/exe", argv[0], "fill", NULL);
        CHECK(!"exec");
    } else if (!strcmp(argv[1], "fill")) {
        CHECK(fill_all() == 0);
    } else {
        all_kinds();
        free_all();
    }
    puts("refusals: ok");
    return 0;
}
