/* Heaps of kinds that are easily misread. Prints "ready", then waits for the end of its input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <iconv.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink;

static void fill(int count) {
    for (int index = 0; index < count; index++) memset(sink = malloc(200), 1, 200);
}

/* A long block that is never touched, and sparse short ones. */
static void untouched(void) {
    enum { COUNT = 100000 };
    static void *blocks[COUNT];
    sink = malloc(1UL << 30);
    for (int index = 0; index < COUNT; index++) memset(blocks[index] = malloc(500), 1, 500);
    for (int index = 0; index < COUNT; index++)
        if (index % 8 != 0) free(blocks[index]);
}

/* Long blocks of each of which a part has other advice, or other access: the kernel shows each as several mappings. */
static void split(void) {
    enum { LENGTH = 4 << 20 };
    for (int index = 0; index < 9; index++) {
        char *block = malloc(LENGTH), *page = block - 16 + 4096;
        memset(block, 1, LENGTH);
        int failed = index % 3 == 0   ? madvise(page, LENGTH, MADV_HUGEPAGE)
                     : index % 3 == 1 ? madvise(page, LENGTH, MADV_DONTDUMP)
                                      : mprotect(page + (1 << 20), 1 << 20, index == 2 ? PROT_NONE : PROT_READ);
        /* Kernels without huge pages. */
        if (failed && index % 3 != 0) abort();
    }
}

/* Blocks of an arena, of which a few pages have other access. */
static void protect(int access) {
    enum { COUNT = 20000 };
    static char *blocks[COUNT];
    for (int index = 0; index < COUNT; index++) memset(blocks[index] = malloc(1000), 1, 1000);
    for (int index = 1000; index < COUNT; index += 3000)
        if (mprotect((char *)(((size_t)blocks[index] + 4095) & ~4095UL), 4096, access) != 0) abort();
}
static void *protect_in_thread(void *access) {
    protect(*(int *)access);
    write(1, "ready\n", 6);
    pause();
    return NULL;
}
static void protected(int access) {
    pthread_t made;
    if (pthread_create(&made, NULL, protect_in_thread, &access) != 0) abort();
    pthread_join(made, NULL);
}

/* Stacks of coroutines: the lowest page of each guards it, and was never touched. */
static void guard_stacks(void) {
    for (int stack = 0; stack < 10; stack++) {
        void *memory;
        if (posix_memalign(&memory, 4096, 65536) != 0 || mprotect(memory, 4096, PROT_NONE) != 0) abort();
        for (int index = 0; index < 1000; index++) memset(sink = malloc(1000), 1, 1000);
    }
}

/* Something is in the way of the program break: the arena grows by pieces, whose ends have all remainders. */
static void grow_by_pieces(void) {
    void *brk = (void *)(((size_t)sbrk(0) + 4095) & ~4095UL);
    if (mmap((char *)brk + (1 << 20), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    void *before = NULL;
    for (int index = 0; index < 100000; index++) {
        void *block = memset(malloc(600 + index % 7 * 16), 1, 600);
        if (index % 3 == 0) free(before), before = block;
    }
}

/* The first block of a list of the thread cache becomes its own successor. */
static void circle(void) {
    size_t *blocks[3];
    for (int index = 0; index < 3; index++) blocks[index] = malloc(100);
    for (int index = 0; index < 3; index++) free(blocks[index]);
    *blocks[2] = (size_t)blocks[2] ^ (size_t)blocks[2] >> 12;
}

#ifdef NAMESPACE
/* Another C library with blocks of its own, for which it maps several pieces. */
static void load_another(void) {
    enum { COUNT = 5000 };
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    void *(*other)(size_t) = library == NULL ? NULL : dlsym(library, "malloc");
    if (other == NULL) abort();
    for (int index = 0; index < COUNT; index++) memset(sink = other(2000), 1, 2000);
}
#else
static void load_another(void) {
    if (iconv_open("UTF-16", "EBCDIC-US") == (iconv_t)-1) abort();
}
#endif

/* Memory of the program's own between the blocks. */
static void breaks(void) {
    fill(3000);
    memset(sbrk(1 << 20), 7, 100);
    fill(3000);
    memset(sbrk(300001), 7, 100);
    fill(3000);
}

#ifdef TLS
static __thread volatile char storage[TLS];
#else
static __thread volatile char storage[16];
#endif

/* Fills a cache, then allocates all the time and leaves the cache with something in it. */
static void *churn(void *ready) {
    void *blocks[4];
    storage[0] = 1;
    for (int size = 24; size < 1000; size += 16) {
        for (int index = 0; index < 4; index++) blocks[index] = malloc((size_t)size);
        for (int index = 0; index < 4; index++) free(blocks[index]);
    }
    if (pthread_barrier_wait(ready) != 0) {}
    for (unsigned size = 0;; size = (size + 48) % 900) {
        for (int index = 0; index < 3; index++) sink = blocks[index] = malloc(24 + size);
        for (int index = 0; index < 3; index++) free(blocks[index]);
    }
}

static void *wait_for_end(void *ready) {
    storage[0] = 1;
    free(malloc(100));
    pthread_barrier_wait(ready);
    pause();
    return NULL;
}

static void *fill_and_wait(void *ready) {
    fill(4000);
    return wait_for_end(ready);
}

/* The main thread ends, and the others go on. */
static void leave(void) {
    for (;;) {
        char state = 0;
        FILE *stat = fopen("/proc/self/stat", "r");
        if (stat == NULL || fscanf(stat, "%*d %*s %c", &state) != 1) abort();
        fclose(stat);
        if (state == 'Z') break;
        usleep(1000);
    }
    write(1, "ready\n", 6);
    pause();
}
static void *stay(void *unused) {
    fill(1000);
    leave();
    return unused;
}
static void without_main(void) {
    pthread_t made;
    if (pthread_create(&made, NULL, stay, NULL) != 0) abort();
    pthread_exit(NULL);
}

/* The heap of a child that was forked consists of two mappings once it has grown. */
static void fork_and_grow(void) {
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    fill(3000);
    pid_t child = fork();
    if (child != 0) {
        waitpid(child, NULL, 0);
        exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int index = 0; index < COUNT; index++) memset(blocks[index] = malloc(500), 1, 500);
    for (int index = 0; index < COUNT; index += 2) free(blocks[index]);
}

static void threads(void *(*function)(void *)) {
    static pthread_barrier_t ready;
    pthread_t made;
    pthread_barrier_init(&ready, NULL, 4);
    for (int index = 0; index < 3; index++)
        if (pthread_create(&made, NULL, function, &ready) != 0) abort();
    free(malloc(100));
    pthread_barrier_wait(&ready);
}

#ifdef OWN_MALLOC
/* Another malloc: nothing reaches glibc's. */
static char own[16 << 20];
static size_t taken;
void *malloc(size_t size) {
    size_t start = (taken + 31) / 16 * 16;
    taken = start + size;
    return taken > sizeof own ? NULL : own + start;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    char *other = malloc(size);
    for (size_t index = 0; other && block && index < size && (char *)block + index < own + sizeof own; index++)
        other[index] = ((char *)block)[index];
    return other;
}
#endif

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    if (strcmp(kind, "untouched") == 0) untouched();
    if (strcmp(kind, "breaks") == 0) breaks();
    if (strncmp(kind, "split", 5) == 0) split();
    if (strcmp(kind, "split and abort") == 0) abort();
    if (strcmp(kind, "churn") == 0) threads(churn);
    if (strcmp(kind, "threads") == 0) threads(wait_for_end);
    if (strcmp(kind, "read only") == 0) protect(PROT_READ);
    if (strcmp(kind, "closed") == 0) protect(PROT_NONE);
    if (strcmp(kind, "read only in thread") == 0) protected(PROT_READ);
    if (strcmp(kind, "closed in thread") == 0) protected(PROT_NONE);
    if (strcmp(kind, "guards") == 0) guard_stacks();
    if (strcmp(kind, "pieces") == 0) free(malloc(10)), grow_by_pieces();
    if (strcmp(kind, "circle") == 0) circle();
    if (strcmp(kind, "huge") == 0) fill(10000), threads(fill_and_wait), memset(sink = malloc(7 << 20), 1, 7 << 20);
    if (strcmp(kind, "two heaps") == 0) fill(50000), load_another();
    if (strcmp(kind, "forked") == 0) fork_and_grow();
    if (strcmp(kind, "named") == 0) fill(100), prctl(PR_SET_NAME, "\xc3\x1b[31m\nx");
    if (strcmp(kind, "own break") == 0) memset(sbrk(1 << 20), 1, 1 << 20);
    if (strcmp(kind, "without main") == 0) without_main();
    if (strcmp(kind, "asked") == 0) fill(100), mallinfo2();
    char line[16];
    write(1, "ready\n", 6);
    while (read(0, line, sizeof line) > 0) {}
    return 0;
}
