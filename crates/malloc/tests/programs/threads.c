/* Threads as programs have them. Prints a figure or `threads`.
 *
 *   threads row COUNT      this many one after the other; prints by how many bytes resident memory has grown since the
 *                          hundredth
 *   threads crowd COUNT    this many at once, each with blocks of its own
 *   threads first-leaves   the first thread ends by pthread_exit, and others go on
 *   threads small-stacks   threads whose stacks are as small as the system allows
 *   threads little-left    the same, with some 6 KB left below what the program needs, while the heap grows by 96 MiB
 *   threads alternate      malloc in a signal handler on an alternate stack, which is the first malloc of its thread */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

static pthread_barrier_t barrier;

static void use(size_t longest)
{
    void *blocks[40];
    size_t length = 16;
    for (int i = 0; i < 40; i++) {
        CHECK((blocks[i] = malloc(length)));
        memset(blocks[i], i, length < 64 ? length : 64);
        length = length * 3 / 2 > longest ? 16 : length * 3 / 2;
    }
    for (int i = 0; i < 40; i++) CHECK((blocks[i] = realloc(blocks[i], 100 + 30 * (size_t)i)));
    for (int i = 0; i < 40; i++) free(blocks[i]);
}

static void *use_all_lengths(void *unused)
{
    use(300000);
    return unused;
}

/* Leaves a block to the next thread, and frees the one that it was left. */
static void *pass_on(void *left)
{
    use(5000);
    free(left);
    return malloc(500);
}

static void start_in_a_row(long count)
{
    void *left = NULL;
    long before = 0;
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, pass_on, left) == 0 && pthread_join(thread, &left) == 0);
        if (i == 99) before = resident_kib();
    }
    long growth = resident_kib() - before;
    printf("%ld\n", growth > 0 ? growth << 10 : 0);
}

static void *meet(void *unused)
{
    void *block = malloc(100);
    use(40000);
    pthread_barrier_wait(&barrier);
    use(40000);
    pthread_barrier_wait(&barrier);
    free(block);
    return unused;
}

static void start_at_once(long count)
{
    pthread_t threads[1000];
    pthread_attr_t attributes;
    CHECK(count <= 1000 && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 256 << 10) == 0);
    CHECK(pthread_barrier_init(&barrier, NULL, (unsigned)count) == 0);
    for (long i = 0; i < count; i++) CHECK(pthread_create(&threads[i], &attributes, meet, NULL) == 0);
    for (long i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *outlive(void *last)
{
    for (int i = 0; i < 50; i++) {
        use(100000);
        usleep(1000);
    }
    pthread_barrier_wait(&barrier);
    if (!last) return NULL;
    puts("threads");
    exit(0);
}

static void leave_to_others(void)
{
    pthread_t threads[4];
    CHECK(pthread_barrier_init(&barrier, NULL, 4) == 0);
    use(100000);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, outlive, i == 3 ? &barrier : NULL) == 0);
    pthread_exit(NULL);
}

static void *grow_with_little_left(void *unused)
{
    volatile char frame[6000];
    for (size_t i = 0; i < sizeof frame; i++) frame[i] = 1;
    static char *blocks[3 * 1024];
    const size_t count = sizeof blocks / sizeof *blocks, length = 32 << 10;
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = malloc(i % 3 ? length : 3 * length)));
        memset(blocks[i], 1, length);
    }
    for (size_t i = 0; i < count; i++) free(blocks[i]);
    use(300000);
    CHECK(frame[sizeof frame / 2] == 1);
    return unused;
}

static void start_with_small_stacks(void *(*run)(void *))
{
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    long least = sysconf(_SC_THREAD_STACK_MIN);
    CHECK(pthread_attr_setstacksize(&attributes, least < 16384 ? 16384 : (size_t)least) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    }
}

static void handle(int signal)
{
    use(300000);
    (void)signal;
}

static void *take_signal(void *unused)
{
    static _Alignas(16) char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    raise(SIGUSR1);
    use(300000);
    raise(SIGUSR1);
    alternate.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&alternate, NULL) == 0);
    return unused;
}

static void take_signals(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    take_signal(NULL);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take_signal, NULL) == 0 && pthread_join(thread, NULL) == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    const char *way = argv[1];
    long count = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(way, "row")) {
        start_in_a_row(count);
        return 0;
    }
    if (!strcmp(way, "crowd")) start_at_once(count);
    else if (!strcmp(way, "first-leaves")) leave_to_others();
    else if (!strcmp(way, "small-stacks")) start_with_small_stacks(use_all_lengths);
    else if (!strcmp(way, "little-left")) start_with_small_stacks(grow_with_little_left);
    else if (!strcmp(way, "alternate")) take_signals();
    else CHECK(!"a way of the list");
    puts("threads");
    return 0;
}
