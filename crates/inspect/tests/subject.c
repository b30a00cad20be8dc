/* Allocates in several threads, prints what glibc itself says of its heap, and trims it when a line comes. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t bytes_of_each;
static pthread_barrier_t done;

static uint64_t random_of(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* Blocks that the next thread frees: its cache then has blocks of another arena. */
enum { PASSED = 64, THREADS = 64 };
static void *passed[THREADS][PASSED];

/* Fills, then frees most: in runs, so that whole pages are free. */
static void work(uint64_t seed) {
    size_t count = bytes_of_each / 500, index;
    void **blocks = calloc(count, sizeof *blocks);
    for (index = 0; index < count; index++) {
        uint64_t random = random_of(&seed);
        size_t size = 1 + random % (random % 1000 == 0 ? 200000 : 900);
        if ((blocks[index] = malloc(size)) == NULL) abort();
        memset(blocks[index], 1, size);
    }
    for (index = 0; index < count; index++)
        if (index / 100 % 4 != 0 || random_of(&seed) % 4 == 0) free(blocks[index]), blocks[index] = NULL;
    for (index = 0; index < count; index++)
        if (blocks[index] != NULL && random_of(&seed) % 16 == 0) free(blocks[index]), blocks[index] = NULL;
}

static void pass_on(int number, int threads) {
    for (int index = 0; index < PASSED; index++) passed[number][index] = malloc(200 + 16 * (size_t)index);
    pthread_barrier_wait(&done);
    for (int index = 0; index < PASSED; index++) free(passed[(number + 1) % threads][index]);
    pthread_barrier_wait(&done);
}

static int threads;

static void *thread(void *number) {
    work(7919 * (uint64_t)(uintptr_t)number);
    pass_on((int)(uintptr_t)number, threads);
    pause();
    return NULL;
}

static void *churn(void *seed) {
    for (uint64_t state = (uint64_t)(uintptr_t)seed;;) {
        void *block = malloc(random_of(&state) % 4000);
        free(block);
    }
}

static long resident(void) {
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &pages) != 2) abort();
    fclose(file);
    return pages * 4096;
}

/* Before 2.33 glibc had the short form only. */
#pragma weak mallinfo2
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static struct mallinfo2 own_report(void) {
    if (mallinfo2 != NULL) return mallinfo2();
    struct mallinfo all = mallinfo();
    return (struct mallinfo2){.arena = (unsigned)all.arena, .uordblks = (unsigned)all.uordblks,
        .fordblks = (unsigned)all.fordblks, .hblkhd = (unsigned)all.hblkhd};
}

int main(int count, char **arguments) {
    int index;
    threads = count > 1 ? atoi(arguments[1]) : 1;
    if (threads > THREADS) abort();
    pthread_t made;
    char line[16];
    bytes_of_each = (count > 2 ? strtoul(arguments[2], NULL, 10) : 1 << 20) / (unsigned)threads;
    pthread_barrier_init(&done, NULL, (unsigned)threads);
    for (index = 1; index < threads; index++)
        if (pthread_create(&made, NULL, thread, (void *)(uintptr_t)index) != 0) abort();
    work(42);
    pass_on(0, threads);
    /* A guard in front of memory that is no stack. */
    char *guarded = mmap(NULL, 3 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mprotect(guarded + (1 << 20), 1 << 20, PROT_READ | PROT_WRITE) != 0) abort();
    memset(guarded + (1 << 20), 1, 1 << 20);
    void *own = malloc(3 << 20);
    memset(own, 1, 1 << 20);
    if (count > 3 && strcmp(arguments[3], "churn") == 0) {
        for (index = 0; index < 2; index++) pthread_create(&made, NULL, churn, (void *)(uintptr_t)(index + 5));
    }
    /* The streams' buffers exist before anything is measured. */
    char output[1 << 12];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    resident();
    struct mallinfo2 all = own_report();
    printf("%zu %zu %zu %zu\n", all.arena, all.uordblks, all.fordblks, all.hblkhd), fflush(stdout);
    malloc_info(0, stdout), fflush(stdout), puts("end"), fflush(stdout);
    if (count > 3 && strcmp(arguments[3], "abort") == 0) abort();
    /* The top moves up and down by megabytes. */
    while (count > 3 && strcmp(arguments[3], "breathe") == 0) {
        static void *blocks[100];
        for (index = 0; index < 100; index++) memset(blocks[index] = malloc(100000), 1, 100000);
        for (index = 0; index < 100; index++) free(blocks[index]);
    }
    if (count > 3 && strcmp(arguments[3], "leak") == 0)
        for (; read(0, line, sizeof line) > 0; puts("made"), fflush(stdout))
            for (index = 0; index < 100; index++) memset(malloc(776), 1, 776);
    if (read(0, line, sizeof line) <= 0) return 0;
    long before = resident();
    malloc_trim(0);
    printf("%ld\n", before - resident()), fflush(stdout);
    while (read(0, line, sizeof line) > 0) {}
    return own == NULL;
}
