/* glibc's malloc that observes the process in which it serves: the time that clocks show, threads, live bytes, requests. At the end of the
   process it writes what it has observed to the file that OBSERVED_REPORT names. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { BLOCK = 4096, NEAR = 64, WORK = 123 };

static atomic_long live, most_live, threads, most_threads, purges, rounds, backwards, earlier;
static long first_second, first_time, first_day, first_own;
static _Atomic long last_free, latest;
static pthread_key_t key;
static int has_key;
static atomic_int has_work;
static __thread int counted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static long milliseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long day(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return now.tv_sec;
}

static void raise_to(atomic_long *most, long value)
{
    long before = *most;
    while (before < value && !atomic_compare_exchange_weak(most, &before, value)) {}
}

static void leave(void *value)
{
    (void)value;
    threads--;
}

static void count_thread(void)
{
    if (counted || !has_key)
        return;
    counted = 1;
    pthread_setspecific(key, &counted);
    raise_to(&most_threads, ++threads);
}

/* What was freed ten seconds ago is purged, by the clock at the next call. */
static void look_at_clock(void)
{
    long now = milliseconds(CLOCK_MONOTONIC), before = atomic_exchange(&latest, now);
    backwards += threads <= 1 && now < before;
    long freed = atomic_exchange(&last_free, 0);
    if (freed != 0 && now - freed >= 10000)
        purges++;
    else if (freed != 0)
        last_free = freed;
}

static void add(void *block, long sign)
{
    long usable = block == NULL ? 0 : (long)malloc_usable_size(block);
    if (usable >= BLOCK && usable < BLOCK + NEAR)
        raise_to(&most_live, live += sign * BLOCK);
}

static void announce_work(void)
{
    if (has_work)
        return;
    pthread_mutex_lock(&mutex);
    has_work = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
}

void *malloc(size_t size)
{
    if (size == WORK)
        announce_work();
    earlier += !has_work;
    count_thread();
    look_at_clock();
    void *block = __libc_malloc(size);
    add(block, 1);
    return block;
}

void free(void *block)
{
#ifdef SLOW
    if (block != NULL && malloc_usable_size(block) >= BLOCK)
        usleep(10);
#endif
    count_thread();
    add(block, -1);
    __libc_free(block);
    last_free = milliseconds(CLOCK_MONOTONIC);
}

void *calloc(size_t count, size_t size)
{
    earlier += !has_work;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    earlier += !has_work;
    return __libc_realloc(block, size);
}

void *memalign(size_t align, size_t size) { return __libc_memalign(align, size); }

#ifdef BACKGROUND
/* Wakes every ten seconds of the clock, from when there is work. */
static void *background(void *nothing)
{
    struct timeval now;
    pthread_mutex_lock(&mutex);
    while (!has_work)
        pthread_cond_wait(&condition, &mutex);
    gettimeofday(&now, NULL);
    struct timespec until = {now.tv_sec + 10, now.tv_usec * 1000};
    for (;;) {
        pthread_cond_timedwait(&condition, &mutex, &until);
        gettimeofday(&now, NULL);
        if (now.tv_sec >= until.tv_sec) {
            until.tv_sec = now.tv_sec + 10;
            rounds++;
        }
    }
    return nothing;
}
#endif

__attribute__((constructor)) static void begin(void)
{
    has_key = pthread_key_create(&key, leave) == 0;
    first_second = milliseconds(CLOCK_REALTIME) / 1000;
    first_time = time(NULL);
    first_day = day();
    first_own = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
#ifdef BACKGROUND
    pthread_t thread;
    pthread_create(&thread, NULL, background, NULL);
#endif
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("OBSERVED_REPORT");
    FILE *report = path == NULL ? NULL : fopen(path, "w");
    if (report == NULL)
        return;
    fprintf(report, "purges %ld\nrounds %ld\nbackwards %ld\n", purges, rounds, backwards);
    fprintf(report, "threads %ld\nlive %ld\nearlier %ld\n", most_threads, most_live, earlier);
    fprintf(report, "clock_gettime %ld\n", milliseconds(CLOCK_REALTIME) / 1000 - first_second);
    fprintf(report, "time %ld\ngettimeofday %ld\n", (long)time(NULL) - first_time, day() - first_day);
    fprintf(report, "processor %ld\n", (milliseconds(CLOCK_PROCESS_CPUTIME_ID) - first_own) / 1000);
    fprintf(report, "huge_pages_off %d\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    fclose(report);
}
