// Calls every function of the malloc family: `all` in order, `threads`, `fork`, `exec`, `forever` and so on.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void require(int holds, const char *what) {
    if (holds) return;
    dprintf(2, "family: %s\n", what);
    _exit(1);
}

static void *seen(void *block) {
    require(block != 0, "an allocation failed");
    require((uintptr_t)block % 16 == 0, "a block is not aligned");
    return block;
}

// 14 blocks appear, 2 become others, 2 requests fail, everything is freed.
static void all(void) {
    void *place = 0;
    free(seen(malloc(1001)));
    char *zeros = seen(calloc(7, 143));
    for (int at = 0; at < 1001; at++) require(zeros[at] == 0, "calloc left something");
    char *block = seen(realloc(0, 10));
    strcpy(block, "contents!");
    block = seen(realloc(block, 100000));
    block = seen(reallocarray(block, 3, 1000));
    require(strcmp(block, "contents!") == 0, "contents were lost");
    require(malloc_usable_size(block) >= 3000, "the usable size is too small");
    require(realloc(block, 0) == 0, "realloc to 0 bytes frees");
    free(zeros);
    require(posix_memalign(&place, 4096, 100) == 0 && (uintptr_t)place % 4096 == 0, "posix_memalign");
    free(place);
    void *aligned[] = {aligned_alloc(64, 128), memalign(256, 10), valloc(10), pvalloc(10)};
    for (int at = 0; at < 4; at++) free(seen(aligned[at]));
    require((uintptr_t)aligned[1] % 256 == 0, "memalign");

    place = &place;
    require(posix_memalign(&place, 24, 8) == EINVAL && place == &place, "posix_memalign refuses and changes nothing");
    errno = 0;
    require(malloc(PTRDIFF_MAX) == 0 && errno == ENOMEM, "malloc of too much");
    errno = 0;
    require(calloc(SIZE_MAX / 2, 3) == 0 && errno == ENOMEM, "calloc of too much");
    errno = 0;
    block = seen(malloc(1));
    require(reallocarray(block, SIZE_MAX / 2, 3) == 0 && errno == ENOMEM, "reallocarray of too much");
    require(realloc(block, PTRDIFF_MAX) == 0, "realloc of too much");
    errno = 123;
    free(block);
    free(0);
    require(errno == 123, "free changed errno");
}

#define THREADS 8
#define ROUNDS 20000

// Blocks go from thread to thread, so that addresses are used again across them.
static void *slots[64];

static void *churn(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1103515245 + 12345;
        void *block = malloc(state >> 16 & 255);
        if (state & 4096) block = realloc(block, (state >> 20 & 1023) + 1);
        free(__atomic_exchange_n(&slots[state >> 24 & 63], block, __ATOMIC_ACQ_REL));
    }
    return 0;
}

static void threads(void) {
    pthread_t all[THREADS];
    for (intptr_t at = 0; at < THREADS; at++) pthread_create(&all[at], 0, churn, (void *)(at + 1));
    for (int at = 0; at < THREADS; at++) pthread_join(all[at], 0);
    for (int at = 0; at < 64; at++) free(slots[at]);
}

// Number of threads that have churned once.
static int busy;

static void *forever(void *seed) {
    churn(seed);
    __atomic_add_fetch(&busy, 1, __ATOMIC_ACQ_REL);
    for (;;) churn(seed);
}

// Killed from within, amid all threads' calls.
static void killed(void) {
    pthread_t all[THREADS];
    for (intptr_t at = 0; at < THREADS; at++) pthread_create(&all[at], 0, forever, (void *)(at + 1));
    while (__atomic_load_n(&busy, __ATOMIC_ACQUIRE) < THREADS) usleep(1000);
    kill(getpid(), 9);
}

static pthread_key_t key;

static void *last_words(void *argument) {
    pthread_setspecific(key, malloc(24));
    return malloc(72);
}

// Threads one after another, whose destructors allocate too; every block that a thread leaves is freed by the first.
static void destroyed(void *block) {
    free(block);
    free(malloc(96));
}

static void short_threads(void) {
    pthread_key_create(&key, destroyed);
    for (int at = 0; at < 5000; at++) {
        pthread_t thread;
        void *left;
        require(pthread_create(&thread, 0, last_words, 0) == 0, "a thread is started");
        pthread_join(thread, &left);
        free(left);
    }
}

static pthread_barrier_t barrier;

static void *waits(void *argument) {
    free(seen(malloc(48)));
    pthread_barrier_wait(&barrier);
    free(seen(malloc(48)));
    return 0;
}

// More threads at once than have buffers of their own.
static void many_threads(void) {
    enum { MANY = 1100 };
    static pthread_t all[MANY];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&barrier, 0, MANY);
    for (int at = 0; at < MANY; at++) require(pthread_create(&all[at], &attributes, waits, 0) == 0, "a thread is started");
    for (int at = 0; at < MANY; at++) pthread_join(all[at], 0);
}

// One thread's calls, then more buffers at once than a short file has room for.
static void crowd(void) {
    churn((void *)1);
    many_threads();
}

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    free(malloc(112));
    ticks++;
}

// A handler that allocates while the program allocates. (It may find the C library's malloc at work, as a program must not do:
// therefore the program's own calls are such as do no work there.)
static void signals(void) {
    struct itimerval often = {{0, 100}, {0, 100}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &often, 0);
    while (ticks < 500) require(malloc(PTRDIFF_MAX) == 0, "malloc of too much");
    often = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
}

static void end_of(pid_t child) {
    int status;
    require(waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

static void of_fork(void) {
    void *inherited = seen(malloc(77));
    pid_t child = fork();
    if (child == 0) {
        free(inherited);
        for (int at = 0; at < 10; at++) free(seen(malloc(5001)));
        _exit(0);
    }
    for (int at = 0; at < 20; at++) free(seen(malloc(5002)));
    free(inherited);
    end_of(child);
}

// A child, and before its first request a child of its own.
static void of_heirs(void) {
    seen(malloc(78));
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            for (int at = 0; at < 10; at++) free(seen(malloc(5004)));
            _exit(0);
        }
        for (int at = 0; at < 10; at++) free(seen(malloc(5003)));
        end_of(grandchild);
        _exit(0);
    }
    end_of(child);
}

// A child that shares its parent's memory, and so its buffer, until it runs another program.
static void of_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        free(malloc(6001));
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    free(seen(malloc(6002)));
    end_of(child);
}

// What the C library's malloc has from the system: its break, and blocks with mappings of their own.
static void of_system(void) {
    char *first = sbrk(0);
    char *mapped = seen(malloc(10 << 20));
    mapped = seen(realloc(mapped, 20 << 20));
    for (int at = 0; at < 1000; at++) seen(malloc(4000));
    // Short ones with mappings of their own, which they give back: there is no room for them below the break.
    mallopt(M_MMAP_THRESHOLD, 4096);
    for (int at = 0; at < 4; at++) seen(malloc(40000));
    for (int at = 0; at < 1000; at++) free(seen(malloc(40000)));
    printf("%ld\n", (long)((char *)sbrk(0) - first));
    free(mapped);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "all";
    if (!strcmp(what, "all")) all();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "killed")) killed();
    if (!strcmp(what, "system")) of_system();
    if (!strcmp(what, "short")) short_threads();
    if (!strcmp(what, "many")) many_threads();
    if (!strcmp(what, "crowd")) crowd();
    if (!strcmp(what, "signals")) signals();
    if (!strcmp(what, "vfork")) of_vfork();
    if (!strcmp(what, "fork")) of_fork();
    if (!strcmp(what, "clearenv")) {
        require(!clearenv(), "clearenv");
        of_heirs();
    }
    if (!strcmp(what, "environ")) {
        environ = 0;
        of_heirs();
    }
    if (!strcmp(what, "setenv")) {
        setenv("HEAPWRIGHT_RECORD", "/no/such/directory", 1);
        of_heirs();
    }
    if (!strcmp(what, "exec")) {
        seen(malloc(33));
        execl(arguments[0], arguments[0], "all", (char *)0);
    }
    if (!strcmp(what, "forever")) {
        for (unsigned long number = 0;; number++) {
            free(seen(malloc(number % 1000)));
            if (number == 1000000) write(1, "going\n", 6);
        }
    }
    if (!strcmp(what, "kill")) {
        for (int at = 0; at < 12345; at++) seen(malloc(40));
        seen(malloc(41));
        kill(getpid(), 9);
    }
    return 0;
}
