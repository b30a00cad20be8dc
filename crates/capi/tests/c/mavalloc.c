/* mavalloc.h as its exercise describes it. Compiles as C11 and as C++17. */
#include <mavalloc.h>

#include "check.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const enum ALGORITHM ALL[] = {BEST_FIT, FIRST_FIT, WORST_FIT, NEXT_FIT};

static void without_a_region(void) {
    CHECK(mavalloc_size() == 0);
    CHECK(mavalloc_alloc(4) == NULL);
    mavalloc_free(NULL);
    mavalloc_destroy();
    CHECK(mavalloc_init(0, FIRST_FIT) == -1);
    CHECK(mavalloc_init((size_t)-1, FIRST_FIT) == -1);
    CHECK(mavalloc_init((size_t)1 << 62, FIRST_FIT) == -1);
    CHECK(mavalloc_alloc(4) == NULL);
}

static void whole_region(enum ALGORITHM algorithm) {
    CHECK(mavalloc_init(65535, algorithm) == 0);
    CHECK(mavalloc_size() == 1);
    void *all = mavalloc_alloc(65536);
    CHECK(all != NULL && mavalloc_size() == 1);
    CHECK(mavalloc_alloc(1) == NULL);
    mavalloc_free(all);
    mavalloc_free(all);
    CHECK(mavalloc_size() == 1 && mavalloc_alloc(65537) == NULL);
    mavalloc_destroy();
    CHECK(mavalloc_size() == 0 && mavalloc_alloc(4) == NULL);
}

static void neighbours(enum ALGORITHM algorithm) {
    CHECK(mavalloc_init(1024, algorithm) == 0);
    char *a = (char *)mavalloc_alloc(1);
    char *b = (char *)mavalloc_alloc(3);
    char *c = (char *)mavalloc_alloc(5);
    CHECK(b == a + 4 && c == b + 4 && mavalloc_size() == 4);
    mavalloc_free(a);
    mavalloc_free(c);
    CHECK(mavalloc_size() == 3);
    mavalloc_free(b + 1);
    CHECK(mavalloc_size() == 3);
    mavalloc_free(b);
    CHECK(mavalloc_size() == 1);
    mavalloc_destroy();
}

/* Holes of 40, 16, 64 and 24 bytes, and where each algorithm puts 16 bytes more. */
static void choice(enum ALGORITHM algorithm, int expected) {
    static const size_t holes[] = {40, 16, 64, 24};
    char *block[4];
    CHECK(mavalloc_init(4 * 4 + 40 + 16 + 64 + 24, algorithm) == 0);
    for (int i = 0; i < 4; ++i) {
        block[i] = (char *)mavalloc_alloc(holes[i]);
        CHECK(mavalloc_alloc(4) != NULL);
    }
    mavalloc_free(block[0]);
    mavalloc_free(block[2]);
    mavalloc_free(block[3]);
    mavalloc_free(block[1]);
    CHECK(mavalloc_size() == 8);
    CHECK(mavalloc_alloc(16) == block[expected]);
    if (algorithm == NEXT_FIT) {
        CHECK(mavalloc_alloc(16) == block[0] + 16);
        CHECK(mavalloc_alloc(16) == block[1]);
    }
    mavalloc_destroy();
}

/* Regions shorter than the engine's shortest: their end is neither allocated nor counted. */
static void tiny_regions(enum ALGORITHM algorithm) {
    for (size_t size = 1; size <= 80; ++size) {
        size_t blocks = (size + 3) / 4;
        CHECK(mavalloc_init(size, algorithm) == 0 && mavalloc_size() == 1);
        char *first = (char *)mavalloc_alloc(size);
        CHECK(first != NULL && mavalloc_alloc(1) == NULL && mavalloc_size() == 1);
        mavalloc_free(first);
        for (size_t i = 0; i < blocks; ++i) {
            CHECK(mavalloc_alloc(4) == first + 4 * i);
        }
        CHECK(mavalloc_alloc(1) == NULL && mavalloc_size() == (int)blocks);
    }
    mavalloc_destroy();
}

static volatile int forks_are_done;

static void *pairs(void *nothing) {
    while (!forks_are_done) mavalloc_free(mavalloc_alloc(8));
    return nothing;
}

/* A child is a copy of one thread: what another one holds at the fork must not be held in it. */
static void children_of_threads(void) {
    CHECK(mavalloc_init(1024, FIRST_FIT) == 0);
    pthread_t others[2];
    for (int i = 0; i < 2; ++i) CHECK(pthread_create(&others[i], NULL, pairs, NULL) == 0);
    for (int i = 0; i < 500; ++i) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(mavalloc_alloc(8) == NULL);
        }
        int status = 0;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    forks_are_done = 1;
    for (int i = 0; i < 2; ++i) CHECK(pthread_join(others[i], NULL) == 0);
    mavalloc_destroy();
}

int main(void) {
    without_a_region();
    for (int i = 0; i < 4; ++i) {
        whole_region(ALL[i]);
        neighbours(ALL[i]);
        tiny_regions(ALL[i]);
    }
    choice(FIRST_FIT, 0);
    choice(BEST_FIT, 1);
    choice(WORST_FIT, 2);
    choice(NEXT_FIT, 0);
    children_of_threads();
    puts("mavalloc: ok");
    return 0;
}
