/* Threads that start and end, exchange blocks through slots, and allocate and free in their last destructors; forks
 * meanwhile, whose children continue with their parents' blocks; libraries loaded and unloaded; exit handlers. The
 * contents of every block are checked.
 *
 *   stress PLUGIN [SECONDS] [SEED] [THREADS]
 *
 * From 60 seconds on, the resident memory of the process must not grow either. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "process.h"

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

enum { SLOTS = 4096, MOST_THREADS = 64, SHORTEST = 2 * sizeof(size_t) };

typedef struct {
    size_t size;
    size_t seed;
    unsigned char rest[];
} block;

/* A thread that takes a block out of a slot owns it. */
static _Atomic(block *) slots[SLOTS];

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The next byte that is written and checked: all of the first 128, then one in 509. */
static size_t after(size_t at) { return at < 128 ? at + 1 : at + 509; }

static unsigned char byte_at(size_t seed, size_t at) { return (unsigned char)(seed * 31 + at * 7); }

static block *fill(block *b, size_t size, size_t seed)
{
    CHECK(b && (uintptr_t)b % 16 == 0 && malloc_usable_size(b) >= size);
    b->size = size;
    b->seed = seed;
    for (size_t at = 0; at < size - SHORTEST; at = after(at)) b->rest[at] = byte_at(seed, at);
    return b;
}

static void check_up_to(const block *b, size_t size)
{
    for (size_t at = 0; at < size - SHORTEST; at = after(at)) CHECK(b->rest[at] == byte_at(b->seed, at));
}

static void check(const block *b)
{
    CHECK(b->size >= SHORTEST && b->size <= malloc_usable_size((void *)b));
    check_up_to(b, b->size);
}

static size_t any_size(unsigned *random)
{
    unsigned most = next_random(random) % 128 == 0 ? 20 : 12;
    return SHORTEST + next_random(random) % ((size_t)16 << next_random(random) % most);
}

static block *make(unsigned *random)
{
    size_t size = any_size(random), seed = next_random(random);
    switch (next_random(random) % 8) {
    case 0: {
        block *b = calloc(1, size);
        for (size_t at = 0; b && at < size - SHORTEST; at = after(at)) CHECK(b->rest[at] == 0);
        return fill(b, size, seed);
    }
    case 1: {
        size_t align = (size_t)16 << next_random(random) % 9;
        block *b = aligned_alloc(align, size);
        CHECK((uintptr_t)b % align == 0);
        return fill(b, size, seed);
    }
    default:
        return fill(malloc(size), size, seed);
    }
}

static block *resize(block *b, unsigned *random)
{
    size_t before = b->size, size = any_size(random);
    b = realloc(b, size);
    CHECK(b);
    check_up_to(b, before < size ? before : size);
    return fill(b, size, b->seed);
}

static void drop(block *b)
{
    if (!b) return;
    check(b);
    memset(b, 0xdd, b->size < 64 ? b->size : 64);
    free(b);
}

static _Atomic(block *) *any_slot(unsigned *random) { return &slots[next_random(random) % SLOTS]; }

/* Puts a block into a random slot, and frees the one that was there. */
static void pass_on(block *b, unsigned *random) { drop(atomic_exchange(any_slot(random), b)); }

static void churn(unsigned *random, unsigned rounds)
{
    while (rounds--) {
        switch (next_random(random) % 8) {
        case 0: {
            block *theirs = atomic_exchange(any_slot(random), NULL);
            if (theirs) pass_on(resize(theirs, random), random);
            break;
        }
        case 1: {
            /* Blocks with short lifetimes. */
            block *some[32];
            unsigned count = 1 + next_random(random) % 32;
            for (unsigned i = 0; i < count; i++) some[i] = make(random);
            for (unsigned i = 0; i < count; i++) drop(some[i]);
            break;
        }
        case 2:
            pass_on(NULL, random);
            break;
        default:
            pass_on(make(random), random);
        }
    }
}

/* Made after the first allocation: its destructor runs when the heap's own has run. */
static pthread_key_t late;

/* The maximum number of rounds of destructors for a thread. */
enum { ROUNDS = 4 };

/* The destructor of a thread's last value. It allocates and frees in every round of destructors, also in the last,
 * after which the heap is not notified of the thread's end. */
static void at_end(void *value)
{
    static __thread int round;
    block *own = value;
    unsigned random = (unsigned)own->seed;
    drop(own);
    churn(&random, 3);
    if (++round < ROUNDS) CHECK(pthread_setspecific(late, make(&random)) == 0);
    pass_on(make(&random), &random);
}

static void at_end_of_thread_local(void *value)
{
    block *own = value;
    unsigned random = (unsigned)own->seed;
    churn(&random, 2);
    drop(own);
}

static void *live(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    unsigned rounds = next_random(&random) % 4 ? next_random(&random) % 200 : next_random(&random) % 5000;
    if (next_random(&random) % 2) {
        CHECK(pthread_setspecific(late, make(&random)) == 0);
        CHECK(__cxa_thread_atexit_impl(at_end_of_thread_local, make(&random), &__dso_handle) == 0);
    }
    churn(&random, rounds);
    return make(&random);
}

static void start(pthread_t *thread, unsigned *random)
{
    CHECK(pthread_create(thread, NULL, live, (void *)(uintptr_t)next_random(random)) == 0);
}

static void finish(pthread_t thread)
{
    void *left;
    CHECK(pthread_join(thread, &left) == 0);
    drop(left);
}

static void at_exit(void)
{
    unsigned random = (unsigned)getpid();
    churn(&random, 50);
    for (int i = 0; i < SLOTS; i++) drop(atomic_exchange(&slots[i], NULL));
}

static void go_on(unsigned random, unsigned depth);

/* Forks, with `depth` nested forks in the child, and waits. */
static void fork_and_wait(unsigned random, unsigned depth)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(120);
        go_on(random, depth);
        if (random & 256) exit(0);
        _exit(0);
    }
    int status = status_of(child);
    if (status) fprintf(stderr, "a child ended with status %#x\n", status);
    CHECK(status == 0);
}

/* Runs in the child of a fork, which has one thread, and the blocks of all. */
static void go_on(unsigned random, unsigned depth)
{
    churn(&random, 200);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) start(&threads[i], &random);
    churn(&random, 200);
    if (depth) fork_and_wait(next_random(&random), depth - 1);
    for (int i = 0; i < 2; i++) finish(threads[i]);
    malloc_trim(0);
    for (int i = next_random(&random) % SLOTS; i < SLOTS; i++) drop(atomic_exchange(&slots[i], NULL));
    churn(&random, 200);
}

static void load_and_unload(const char *plugin)
{
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(library, "make");
    CHECK(copy);
    char *text = copy("a text");
    CHECK(dlclose(library) == 0);
    CHECK(strcmp(text, "a text") == 0);
    free(text);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The peak in each quarter of the time. */
static long highest[4];

static void watch_memory(double part)
{
    int quarter = part < 1 ? (int)(part * 4) : 3;
    long resident = resident_kib();
    if (resident > highest[quarter]) highest[quarter] = resident;
}

/* Compares the last quarter with the second: in the first, the heap grows to its working size. */
static int has_grown(void) { return highest[3] > highest[1] + highest[1] / 4 + 8192; }

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    double seconds = argc > 2 ? atof(argv[2]) : 3;
    unsigned random = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    int count = argc > 4 ? atoi(argv[4]) : 6;
    CHECK(count > 0 && count <= MOST_THREADS);
    free(malloc(1));
    CHECK(pthread_key_create(&late, at_end) == 0);
    CHECK(atexit(at_exit) == 0);

    pthread_t threads[MOST_THREADS];
    for (int i = 0; i < count; i++) start(&threads[i], &random);
    unsigned long lives = 0, forks = 0;
    double begun = now();
    for (double part = 0; part < 1; part = (now() - begun) / seconds, lives++) {
        int i = (int)(next_random(&random) % (unsigned)count);
        finish(threads[i]);
        start(&threads[i], &random);
        if (lives % 8 == 0) {
            fork_and_wait(next_random(&random), lives / 8 % 2);
            forks++;
        }
        if (lives % 64 == 0) load_and_unload(argv[1]);
        if (lives % 256 == 0) malloc_trim(0);
        watch_memory(part);
    }
    for (int i = 0; i < count; i++) finish(threads[i]);
    fprintf(stderr, "%lu threads, %lu forks; peak resident KiB of each quarter: %ld %ld %ld %ld\n", lives, forks,
        highest[0], highest[1], highest[2], highest[3]);
    if (seconds >= 60 && has_grown()) {
        fprintf(stderr, "stress: the resident memory of the process has grown\n");
        return 1;
    }
    puts("stress: ok");
    return 0;
}
