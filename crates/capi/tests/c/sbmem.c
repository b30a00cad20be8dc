/* sbmem.h as its exercise describes it, with valid and invalid arguments, by processes that live and die. Compiles
 * as C11 and as C++17. */
#include "segment.h"

#include <heapwright.h>
#include <sbmem.h>

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

enum { KIB = 1024, MOST = 4096, LEAST = 128, PROCESSES = 10 };

static void without_a_segment(void) {
    CHECK(sbmem_remove() == -1);
    CHECK(sbmem_open() == -1);
    CHECK(sbmem_alloc(LEAST) == NULL);
    sbmem_free(NULL);
    CHECK(sbmem_close() == -1);
}

static void refuse_bad_sizes(void) {
    static const int sizes[] = {0,        -1,       1,        127,      16 * KIB,  31 * KIB,     33 * KIB,    48 * KIB,
                                96 * KIB, 65 * KIB, 65535,    255 * KIB, 257 * KIB, 512 * KIB, 1024 * KIB, INT32_MAX,
                                INT32_MIN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        CHECK(sbmem_init(sizes[i]) == -1);
        CHECK(sbmem_open() == -1);
    }
    CHECK(sbmem_init(32 * KIB) == 0);
    CHECK(sbmem_init(31 * KIB) == -1);
    /* The refusal did not change the existing segment. */
    CHECK(sbmem_open() == 0 && sbmem_close() == 0);
    CHECK(sbmem_remove() == 0);
}

/* Every byte of the segment is for blocks: no headers, and no block that is longer than the next power of two. */
static void fill(int segment) {
    static char *blocks[256 * KIB / LEAST];
    CHECK(sbmem_init(segment) == 0 && sbmem_open() == 0);
    for (int size = LEAST; size <= MOST; size *= 2) {
        for (int asked = size; asked > size / 2 && asked >= LEAST; asked -= size / 4 + 1) {
            int count = 0;
            for (char *block; (block = (char *)sbmem_alloc(asked)) != NULL; ++count) {
                CHECK(count < segment / size && (uintptr_t)block % LEAST == 0);
                memset(block, count & 0xFF, (size_t)asked);
                blocks[count] = block;
            }
            CHECK(count == segment / size);
            for (int i = 0; i < count; ++i) {
                CHECK((blocks[i][0] & 0xFF) == (i & 0xFF) && (blocks[i][asked - 1] & 0xFF) == (i & 0xFF));
            }
            /* In another order each time; all blocks must be merged again in the next round. */
            for (int i = 0; i < count; i += 2) sbmem_free(blocks[i]);
            for (int i = 1; i < count; i += 2) sbmem_free(blocks[i]);
        }
    }
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

static void refuse_bad_requests(void) {
    CHECK(sbmem_init(32 * KIB) == 0);
    CHECK(sbmem_alloc(LEAST) == NULL);
    CHECK(sbmem_open() == 0 && sbmem_open() == 0);
    static const int sizes[] = {0, -1, 1, 127, 4097, 8192, 32 * KIB, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        CHECK(sbmem_alloc(sizes[i]) == NULL);
    }
    char *first = (char *)sbmem_alloc(LEAST);
    char *second = (char *)sbmem_alloc(MOST);
    CHECK(first != NULL && second != NULL);
    memset(second, 7, MOST);
    /* None of these is a block. */
    int here = 0;
    sbmem_free(NULL);
    sbmem_free(&here);
    sbmem_free(first + 1);
    sbmem_free(second + LEAST);
    sbmem_free(first - 64 * KIB);
    sbmem_free((void *)(uintptr_t)-1);
    sbmem_free(first);
    sbmem_free(first);
    char *again = (char *)sbmem_alloc(LEAST);
    CHECK(again == first && sbmem_alloc(LEAST) != first);
    for (int i = 0; i < MOST; ++i) CHECK(second[i] == 7);
    CHECK(sbmem_close() == 0 && sbmem_close() == -1);
    CHECK(sbmem_alloc(LEAST) == NULL);
    sbmem_free(second);
    CHECK(sbmem_remove() == 0 && sbmem_remove() == -1);
}

static void keep_to_the_user(const char *name) {
    char path[96];
    struct stat status;
    snprintf(path, sizeof path, "/dev/shm/%s", name);
    umask(0);
    CHECK(sbmem_init(256 * KIB) == 0);
    CHECK(stat(path, &status) == 0);
    CHECK(S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0600);
    /* The overhead is 2.5 % at most. */
    CHECK(status.st_size >= 256 * KIB && status.st_size <= 256 * KIB + 256 * KIB / 40);
    CHECK(sbmem_remove() == 0);
    CHECK(stat(path, &status) == -1);
}

/* A process that has a segment open keeps it when it is replaced or removed. */
static void replace(void) {
    CHECK(sbmem_init(32 * KIB) == 0 && sbmem_open() == 0);
    char *old = (char *)sbmem_alloc(1000);
    CHECK(old != NULL);
    strcpy(old, "kept");
    CHECK(sbmem_init(64 * KIB) == 0);
    CHECK(strcmp(old, "kept") == 0);
    sbmem_free(old);
    int blocks = 0;
    while (sbmem_alloc(MOST) != NULL) ++blocks;
    CHECK(blocks == 8);
    CHECK(sbmem_close() == 0 && sbmem_open() == 0);
    for (blocks = 0; sbmem_alloc(MOST) != NULL; ++blocks) {}
    CHECK(blocks == 16);
    CHECK(sbmem_remove() == 0);
    CHECK(sbmem_alloc(MOST) == NULL && sbmem_close() == 0 && sbmem_open() == -1);
}

/* A shared heap under the segment's name that sbmem_init has not created is refused. */
static void refuse_other_heaps(const char *name) {
    hw_shared_settings settings;
    hw_shared *heap = NULL;
    memset(&settings, 0, sizeof settings);
    settings.size = 64 * KIB;
    for (int other = 0; other < 4; ++other) {
        settings.policy = other == 1 ? HW_BEST : HW_BUDDY;
        settings.granule = other == 2 ? 64 : 128;
        settings.size = other == 3 ? 512 * KIB : 64 * KIB;
        CHECK(hw_shared_create(name, &settings, &heap) == HW_OK && hw_shared_close(heap) == HW_OK);
        CHECK(sbmem_open() == (other == 0 ? 0 : -1) && sbmem_close() == (other == 0 ? 0 : -1));
        CHECK(sbmem_remove() == 0);
    }
}

/* Blocks stay when all processes have closed the segment. */
static void come_back(void) {
    CHECK(sbmem_init(32 * KIB) == 0 && sbmem_open() == 0);
    for (int i = 0; i < 7; ++i) CHECK(sbmem_alloc(MOST) != NULL);
    CHECK(sbmem_close() == 0 && sbmem_open() == 0);
    CHECK(sbmem_alloc(MOST) != NULL && sbmem_alloc(LEAST) == NULL);
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

static struct steps opened, leave;

static void use_until_told(void *unused) {
    (void)unused;
    CHECK(sbmem_open() == 0);
    char *block = (char *)sbmem_alloc(LEAST);
    CHECK(block != NULL);
    done(&opened);
    await(&leave);
    sbmem_free(block);
    CHECK(sbmem_close() == 0);
}

static void find_it_full(void *unused) {
    (void)unused;
    CHECK(sbmem_open() == -1);
    CHECK(sbmem_alloc(LEAST) == NULL && sbmem_close() == -1);
}

static void ten_processes(void) {
    pid_t users[PROCESSES];
    opened = steps_of();
    leave = steps_of();
    CHECK(sbmem_init(64 * KIB) == 0);
    for (int i = 0; i < PROCESSES; ++i) {
        users[i] = child(use_until_told, NULL);
        await(&opened);
    }
    ended_well(child(find_it_full, NULL));
    find_it_full(NULL);
    /* A process that dies makes room, as one that closes the segment does. */
    kill_hard(users[3]);
    users[3] = child(use_until_told, NULL);
    await(&opened);
    ended_well(child(find_it_full, NULL));
    for (int i = 0; i < PROCESSES; ++i) done(&leave);
    for (int i = 0; i < PROCESSES; ++i) ended_well(users[i]);
    /* Everything is free again but the block of the dead process. */
    CHECK(sbmem_open() == 0);
    int blocks = 0;
    while (sbmem_alloc(LEAST) != NULL) ++blocks;
    CHECK(blocks == 64 * KIB / LEAST - 1);
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

static void inherit(void *block) {
    /* The child of a fork has its parent's segment at the same address, and counts as a process of its own. */
    CHECK(strcmp((char *)block, "from the parent") == 0);
    CHECK(sbmem_open() == 0);
    char *mine = (char *)sbmem_alloc(LEAST);
    CHECK(mine != NULL && mine != block);
    sbmem_free(block);
    CHECK(sbmem_alloc(LEAST) == block);
    CHECK(sbmem_close() == 0);
}

static void be_one_too_many(void *unused) {
    (void)unused;
    CHECK(sbmem_open() == -1);
    CHECK(sbmem_alloc(LEAST) == NULL);
}

static void forks(void) {
    CHECK(sbmem_init(32 * KIB) == 0 && sbmem_open() == 0);
    char *block = (char *)sbmem_alloc(LEAST);
    CHECK(block != NULL);
    strcpy(block, "from the parent");
    ended_well(child(inherit, block));
    opened = steps_of();
    leave = steps_of();
    pid_t users[PROCESSES - 1];
    for (int i = 0; i < PROCESSES - 1; ++i) {
        users[i] = child(use_until_told, NULL);
        await(&opened);
    }
    ended_well(child(be_one_too_many, NULL));
    for (int i = 0; i < PROCESSES - 1; ++i) done(&leave);
    for (int i = 0; i < PROCESSES - 1; ++i) ended_well(users[i]);
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

static void be_busy(void *ready) {
    CHECK(sbmem_open() == 0);
    done((struct steps *)ready);
    unsigned random = (unsigned)getpid();
    char *held[4] = {NULL, NULL, NULL, NULL};
    for (;;) {
        random = random * 1664525u + 1013904223u;
        char **slot = &held[random >> 30];
        sbmem_free(*slot);
        *slot = (char *)sbmem_alloc(LEAST + (int)((random >> 8) % (MOST - LEAST + 1)));
        if (*slot != NULL) memset(*slot, 1, LEAST);
    }
}

/* When a process is killed at any moment, the others go on, and only its own blocks are lost. */
static void kill_the_busy(void) {
    struct steps ready = steps_of();
    CHECK(sbmem_init(256 * KIB) == 0 && sbmem_open() == 0);
    for (int round = 0; round < 12; ++round) {
        pid_t busy[3];
        for (int i = 0; i < 3; ++i) {
            busy[i] = child(be_busy, &ready);
            await(&ready);
        }
        usleep(2000);
        for (int i = 0; i < 3; ++i) {
            kill_hard(busy[i]);
            char *block = (char *)sbmem_alloc(LEAST);
            CHECK(block != NULL);
            sbmem_free(block);
        }
        /* Each dead process had four blocks and was allocating another. */
        int blocks = 0;
        static void *all[64];
        while (blocks < 64 && (all[blocks] = sbmem_alloc(MOST)) != NULL) ++blocks;
        CHECK(blocks >= 64 - 15);
        CHECK(sbmem_close() == 0 && sbmem_init(256 * KIB) == 0 && sbmem_open() == 0);
    }
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

static void *pairs(void *unused) {
    (void)unused;
    for (int i = 0; i < 5000; ++i) {
        char *block = (char *)sbmem_alloc(LEAST + i % 900);
        CHECK(block != NULL);
        *block = 1;
        sbmem_free(block);
    }
    return NULL;
}

static void nothing(void *unused) {
    (void)unused;
    void *block = sbmem_alloc(LEAST);
    CHECK(block != NULL);
    sbmem_free(block);
}

/* All threads may use the heap while the process forks. */
static void threads(void) {
    pthread_t threads[4];
    CHECK(sbmem_init(64 * KIB) == 0 && sbmem_open() == 0);
    for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, pairs, NULL) == 0);
    for (int i = 0; i < 30; ++i) ended_well(child(nothing, NULL));
    for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(sbmem_close() == 0 && sbmem_remove() == 0);
}

int main(void) {
    const char *name = segment_name("sbmem");
    CHECK(setenv("HEAPWRIGHT_SBMEM", "..", 1) == 0);
    CHECK(sbmem_init(32 * KIB) == -1);
    CHECK(setenv("HEAPWRIGHT_SBMEM", name, 1) == 0);
    without_a_segment();
    refuse_bad_sizes();
    for (int segment = 32 * KIB; segment <= 256 * KIB; segment *= 2) fill(segment);
    refuse_bad_requests();
    keep_to_the_user(name);
    replace();
    refuse_other_heaps(name);
    come_back();
    ten_processes();
    forks();
    kill_the_busy();
    threads();
    puts("sbmem: ok");
    return 0;
}
