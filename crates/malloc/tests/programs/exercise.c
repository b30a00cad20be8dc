/* Uses the malloc family as an ordinary program does, with blocks of all lengths and from several threads, and verifies
 * every block's contents. Prints `exercised`.
 *
 *   exercise           all of it
 *   exercise refused   prints instead how many calls the shim refused
 *   exercise streams   the standard streams were closed, and must still be closed at the end; prints nothing
 *   exercise sandbox   the kernel ends this process if it opens a file after its start, or calls what services do not
 *   exercise pages N   pages are N bytes long */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, SLOTS = 2000, ROUNDS = 12000, LONGEST = 3 << 20 };

extern unsigned long shim_calls __attribute__((weak));

struct block {
    unsigned char *at;
    size_t length;
};

/* The blocks that threads hand to each other. */
static struct block shared[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Most lengths are short, a few are above 1 MiB. */
static size_t draw_length(uint64_t *state)
{
    size_t draw = next(state), bits = 4 + draw % 13;
    if (draw % 256 == 0) return 1 + (draw >> 8) % LONGEST;
    return 1 + (draw >> 8) % ((size_t)1 << bits);
}

static void mark(struct block block)
{
    block.at[0] = (unsigned char)block.length;
    block.at[block.length / 2] = (unsigned char)block.length;
    block.at[block.length - 1] = (unsigned char)block.length;
}

static void verify(struct block block, size_t length)
{
    CHECK(block.at[0] == (unsigned char)block.length);
    CHECK(block.length > length || block.at[block.length - 1] == (unsigned char)block.length);
}

static struct block allocate(uint64_t *state)
{
    struct block block = {NULL, draw_length(state)};
    switch (next(state) % 4) {
    case 0:
        block.at = calloc(1, block.length);
        CHECK(block.at && block.at[0] == 0 && block.at[block.length / 2] == 0 && block.at[block.length - 1] == 0);
        break;
    case 1:
        CHECK(posix_memalign((void **)&block.at, 256, block.length) == 0 && (uintptr_t)block.at % 256 == 0);
        break;
    default:
        block.at = malloc(block.length);
    }
    CHECK(block.at && malloc_usable_size(block.at) >= block.length);
    mark(block);
    return block;
}

static void resize(struct block *block, uint64_t *state)
{
    size_t length = draw_length(state);
    unsigned char *at = realloc(block->at, length);
    CHECK(at);
    block->at = at;
    verify(*block, length);
    block->length = length;
    mark(*block);
}

static void *work(void *seed)
{
    uint64_t state = (uintptr_t)seed * 0x9E3779B97F4A7C15u | 1;
    for (int round = 0; round < ROUNDS; round++) {
        size_t slot = next(&state) % SLOTS;
        pthread_mutex_lock(&lock);
        struct block block = shared[slot];
        shared[slot].at = NULL;
        pthread_mutex_unlock(&lock);
        if (!block.at) block = allocate(&state);
        verify(block, block.length);
        if (round % 3 == 0) resize(&block, &state);
        pthread_mutex_lock(&lock);
        struct block replaced = shared[slot];
        shared[slot] = block;
        pthread_mutex_unlock(&lock);
        free(replaced.at);
    }
    return seed;
}

/* A block that grows step by step keeps its contents, wherever it moves. */
static void grow(void)
{
    size_t length = 1000;
    uint32_t *numbers = malloc(length * 4), filled = 0;
    while (length < 6 << 20) {
        for (; filled < length; filled += 100) numbers[filled] = filled;
        length += length / 2;
        numbers = realloc(numbers, length * 4);
        CHECK(numbers);
    }
    for (uint32_t at = 0; at < filled; at += 100) CHECK(numbers[at] == at);
    free(numbers);
}

/* Filters of services allow what programs are expected to do, and end the process for anything else: not one of the
 * usual ones allows `mincore`, and few `process_madvise`. */
static void forbid_unusual_calls(void)
{
    const unsigned forbidden[] = {SYS_openat, SYS_readlinkat, SYS_mincore, SYS_process_madvise};
    enum { CALLS = sizeof forbidden / sizeof *forbidden };
    struct sock_filter filter[CALLS + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (unsigned char i = 0; i < CALLS; i++)
        filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], CALLS - i, 0);
    filter[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int are_streams_closed(void)
{
    for (int stream = 0; stream < 3; stream++)
        if (fcntl(stream, F_GETFD) != -1) return 0;
    return open("/dev/null", O_RDWR) == 0;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    pthread_t threads[THREADS];
    if (!strcmp(way, "sandbox")) forbid_unusual_calls();
    if (!strcmp(way, "pages")) CHECK(argc == 3 && sysconf(_SC_PAGESIZE) == atol(argv[2]));
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SLOTS; i++) {
        free(shared[i].at);
        shared[i].at = NULL;
    }
    grow();
    malloc_trim(0);
    work((void *)99);
    if (!strcmp(way, "streams")) return are_streams_closed() ? 0 : 3;
    if (!strcmp(way, "refused")) printf("%lu\n", &shim_calls ? shim_calls : 0);
    else puts("exercised");
    return 0;
}
