/* Measures operations that a malloc must keep bounded. Prints one figure per line: a name and a number.
 *
 *   bars WHAT NAME    only the number of this name
 *
 *   bars holes        100,000 blocks of 66,000 bytes, every other one freed; the time of mallocs that need slabs
 *   bars pairs        pairs of malloc and free of 33 to 256 KiB by one and two threads, and a loop that only computes
 *   bars vectors-1.5  two vectors that grow in turns to 290 MB, by the factor 1.5
 *   bars vectors-2    the same, by the factor 2
 *   bars sleeper      111 MB allocated by a thread that sleeps, freed by others
 *   bars batches      blocks of a few KB handed from one thread to another, until nothing is live
 *   bars successors   page faults of 200 threads, one after another, each with 25 MB that it frees
 *   bars moves        how often malloc(10), realloc(12), realloc(14) moves in 1,000 trials, whose blocks stay live
 *   bars steps        how often a block moves that grows to 50 MB and shrinks again, in steps of 64 KiB; contents are kept */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "process.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_of_thread(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The only figure to print, if there is one. */
static const char *selected;

static void print(const char *name, double figure)
{
    if (!selected) printf("%s %.10g\n", name, figure);
    else if (!strcmp(name, selected)) printf("%.10g\n", figure);
}

static double resident_bytes(void) { return (double)resident_kib() * 1024; }

/* --- holes --- */

enum { HOLES = 100000, HOLE = 66000, SLABS = 12000, SLAB = 65536, SMALL = 16000 };

/* Of the holes one in eight has room for an aligned slab. The small blocks are not touched: page faults are not what is
 * measured. */
static void measure_holes(void)
{
    void **blocks = malloc(HOLES * sizeof *blocks);
    for (int i = 0; i < HOLES; i++) CHECK((blocks[i] = malloc(HOLE)));
    for (int i = 0; i < HOLES; i += 2) free(blocks[i]);
    double longest = 0, begin = cpu_of_thread(), last = begin;
    for (int i = 1; i <= SLABS; i++) {
        for (int at = 0; at < SLAB / SMALL; at++) CHECK(malloc(SMALL));
        if (i % 1000) continue;
        double time = cpu_of_thread();
        if (time - last > longest) longest = time - last;
        last = time;
    }
    print("per-slab-us", (cpu_of_thread() - begin) / SLABS * 1e6);
    print("worst-thousand-us", longest / 1000 * 1e6);
}

/* --- pairs --- */

enum { PAIRS = 15000, REPEATS = 15 };

/* What the threads do, and the times at which the first began and the last ended. Each runs on a processor of its own:
 * the system may leave two new threads on one for longer than a measurement takes. */
static struct {
    pthread_barrier_t start;
    pthread_mutex_t lock;
    int only_computes;
    double begin, end;
} pairs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t compute(uint64_t state, int steps)
{
    for (int i = 0; i < steps; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

static uint64_t make_pairs(uint64_t state)
{
    void *live[16] = {0};
    for (int i = 0; i < PAIRS; i++) {
        state = compute(state, 50);
        size_t slot = state % 16, length = (33 << 10) + (state >> 8) % (223 << 10);
        free(live[slot]);
        char *block = live[slot] = malloc(length);
        CHECK(block);
        block[0] = block[length - 1] = 1;
    }
    for (int i = 0; i < 16; i++) free(live[i]);
    return state;
}

/* Binds the thread to the `number`-th processor that the process may use, if there are as many. */
static void bind_to(unsigned number)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || number-- > 0) continue;
        CPU_SET(cpu, &one);
        CHECK(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0);
        return;
    }
}

static void *work(void *number)
{
    uint64_t state = ((uintptr_t)number + 1) * 0x9E3779B97F4A7C15u | 1;
    bind_to((unsigned)(uintptr_t)number);
    pthread_barrier_wait(&pairs.start);
    double begin = now();
    state = pairs.only_computes ? compute(state, 300 * PAIRS) : make_pairs(state);
    double end = now();
    pthread_mutex_lock(&pairs.lock);
    if (begin < pairs.begin) pairs.begin = begin;
    if (end > pairs.end) pairs.end = end;
    pthread_mutex_unlock(&pairs.lock);
    return (void *)(uintptr_t)(state >> 1);
}

/* Returns rounds of work per second of all threads together. */
static double throughput(int threads, int only_computes)
{
    pthread_t all[2];
    pairs.only_computes = only_computes;
    pairs.begin = 1e300;
    pairs.end = 0;
    CHECK(pthread_barrier_init(&pairs.start, NULL, (unsigned)threads) == 0);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i], NULL, work, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(all[i], NULL) == 0);
    return threads * (double)PAIRS / (pairs.end - pairs.begin);
}

static int compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, compare);
    return values[REPEATS / 2];
}

/* Short measurements by turns, so that the load of the machine is the same for all. */
static void measure_pairs(void)
{
    static double of_pairs[REPEATS], of_computing[REPEATS], over[REPEATS], times[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        double one = throughput(1, 0), two = throughput(2, 0);
        of_pairs[i] = two / one;
        of_computing[i] = throughput(2, 1) / throughput(1, 1);
        over[i] = of_pairs[i] / of_computing[i];
        times[i] = 1e9 / one;
    }
    print("scaling", median(of_pairs));
    print("scaling-computing", median(of_computing));
    print("scaling-over-computing", median(over));
    print("ns-per-pair", median(times));
}

/* --- vectors --- */

static char *append(char *vector, size_t from, size_t to, double *taken)
{
    double before = now();
    vector = realloc(vector, to);
    *taken += now() - before;
    CHECK(vector);
    memset(vector + from, 1, to - from);
    return vector;
}

static void measure_vectors(size_t numerator, size_t denominator)
{
    struct rusage usage;
    char *first = NULL, *second = NULL;
    size_t length = 0, longer = 4096;
    double taken = 0;
    for (; longer < 290000000; longer = longer * numerator / denominator) {
        first = append(first, length, longer, &taken);
        second = append(second, length, longer, &taken);
        length = longer;
    }
    first = append(first, length, 290000000, &taken);
    second = append(second, length, 290000000, &taken);
    print("realloc-us", taken * 1e6);
    free(first);
    free(second);
    getrusage(RUSAGE_SELF, &usage);
    print("peak-bytes", (double)usage.ru_maxrss * 1024);
}

/* --- sleeper --- */

enum { SLEEPERS_BLOCKS = 111000, SLEEPERS_BLOCK = 1000 };

static void *slept_on[SLEEPERS_BLOCKS];
static pthread_barrier_t is_allocated;
static pthread_mutex_t until_the_end = PTHREAD_MUTEX_INITIALIZER;

static void *allocate_and_sleep(void *unused)
{
    for (int i = 0; i < SLEEPERS_BLOCKS; i++) {
        CHECK((slept_on[i] = malloc(SLEEPERS_BLOCK)));
        memset(slept_on[i], 1, SLEEPERS_BLOCK);
    }
    pthread_barrier_wait(&is_allocated);
    pthread_mutex_lock(&until_the_end);
    return unused;
}

static void *free_half(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < SLEEPERS_BLOCKS; i += 2) free(slept_on[i]);
    return NULL;
}

static void *trim(void *unused)
{
    malloc_trim(0);
    return unused;
}

static void run_in_thread(void *(*work)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, argument) == 0 && pthread_join(thread, NULL) == 0);
}

static void measure_sleeper(void)
{
    pthread_t sleeper;
    double before = resident_bytes();
    CHECK(pthread_barrier_init(&is_allocated, NULL, 2) == 0);
    pthread_mutex_lock(&until_the_end);
    CHECK(pthread_create(&sleeper, NULL, allocate_and_sleep, NULL) == 0);
    pthread_barrier_wait(&is_allocated);
    print("allocated-bytes", resident_bytes() - before);
    before += sizeof slept_on; /* touched by now */
    run_in_thread(free_half, (void *)0);
    run_in_thread(free_half, (void *)1);
    double kept = resident_bytes() - before;
    print("kept-bytes", kept > 0 ? kept : 0);
    run_in_thread(trim, NULL);
    kept = resident_bytes() - before;
    print("kept-after-trim-bytes", kept > 0 ? kept : 0);
}

/* --- batches --- */

enum { HANDED = 64, KINDS = 24, TURNS = 40 };

static void *handed[KINDS * HANDED];
static pthread_barrier_t turn;

static void *free_what_is_handed(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&turn);
        for (int at = 0; at < KINDS * HANDED; at++) free(handed[at]);
        pthread_barrier_wait(&turn);
    }
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    return unused;
}

/* One thread allocates blocks of 24 lengths up to 32 KiB, and four others free them. */
static void measure_batches(void)
{
    enum { FREEING = 4 };
    pthread_t threads[FREEING];
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    double before = resident_bytes();
    for (int thread = 0; thread < FREEING; thread++) {
        CHECK(pthread_create(&threads[thread], NULL, free_what_is_handed, NULL) == 0);
        for (int i = 0; i < TURNS; i++) {
            for (int at = 0; at < KINDS * HANDED; at++) {
                size_t length = 1024 + (size_t)(at % KINDS) * 1320;
                CHECK((handed[at] = malloc(length)));
                memset(handed[at], 1, length);
            }
            pthread_barrier_wait(&turn);
            pthread_barrier_wait(&turn);
        }
        pthread_barrier_wait(&turn); /* the thread lives on, and its batches stay on their way */
        pthread_barrier_wait(&turn);
        pthread_join(threads[thread], NULL);
    }
    double kept = resident_bytes() - before;
    print("kept-bytes", kept > 0 ? kept : 0);
}

/* --- successors --- */

static void *fill_and_free(void *unused)
{
    enum { BLOCKS = 25000, LENGTH = 1000 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(LENGTH)));
        memset(blocks[i], 1, LENGTH);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return unused;
}

static void measure_successors(void)
{
    enum { THREADS = 200 };
    for (int i = 0; i < THREADS; i++) run_in_thread(fill_and_free, NULL);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    print("faults", (double)usage.ru_minflt);
}

/* --- moves --- */

static void measure_moves(void)
{
    enum { TRIALS = 1000 };
    int moves = 0;
    for (int i = 0; i < TRIALS; i++) {
        char *block = malloc(10);
        for (size_t length = 12; length <= 14; length += 2) {
            char *resized = realloc(block, length);
            moves += resized != block;
            block = resized;
        }
        CHECK(block);
    }
    print("moves", moves);
}

/* --- steps --- */

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 31 + at / 4096);
}

static void measure_steps(void)
{
    enum { STEP = 64 << 10, STEPS = 760 };
    int moves = 0;
    unsigned char *block = NULL;
    for (int i = 1; i < 2 * STEPS; i++) {
        size_t length = (size_t)STEP * (size_t)(i <= STEPS ? i : 2 * STEPS - i);
        unsigned char *resized = realloc(block, length);
        CHECK(resized && malloc_usable_size(resized) >= length);
        moves += block && resized != block;
        block = resized;
        if (i <= STEPS)
            for (size_t at = length - STEP; at < length; at++) block[at] = byte_at(at);
        for (size_t at = 0; at < length; at += 4095) CHECK(block[at] == byte_at(at));
        CHECK(block[length - 1] == byte_at(length - 1));
    }
    free(block);
    print("moves", moves);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    const char *what = argv[1];
    selected = argc > 2 ? argv[2] : NULL;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(what, "holes")) measure_holes();
    else if (!strcmp(what, "pairs")) measure_pairs();
    else if (!strcmp(what, "vectors-1.5")) measure_vectors(3, 2);
    else if (!strcmp(what, "vectors-2")) measure_vectors(2, 1);
    else if (!strcmp(what, "sleeper")) measure_sleeper();
    else if (!strcmp(what, "batches")) measure_batches();
    else if (!strcmp(what, "successors")) measure_successors();
    else if (!strcmp(what, "moves")) measure_moves();
    else if (!strcmp(what, "steps")) measure_steps();
    else CHECK(!"a figure of the list");
    exit(0); /* the sleeper sleeps on */
}
