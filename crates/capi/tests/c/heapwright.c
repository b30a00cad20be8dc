/* Every function of heapwright.h, with valid and invalid arguments. Compiles as C11 and as C++17. */
#include <heapwright.h>

#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct seen {
    int used;
    int holes;
    size_t bytes;
    const char *end;
    int in_order;
};

static int count(const hw_block *block, void *context) {
    struct seen *seen = (struct seen *)context;
    seen->in_order = seen->in_order && (seen->end == NULL || seen->end == (const char *)block->address);
    seen->end = (const char *)block->address + block->size;
    seen->used += block->used;
    seen->holes += !block->used;
    seen->bytes += block->size;
    return 0;
}

static int stop_at_once(const hw_block *block, void *context) {
    (void)block;
    ++*(int *)context;
    return 1;
}

static int free_what_is_used(const hw_block *block, void *context) {
    if (block->used) {
        CHECK(hw_free((hw_heap *)context, block->address) == HW_OK);
    }
    return 0;
}

/* The requirements of every heap, of any kind and policy. */
static void exercise(hw_heap *heap, unsigned policy) {
    CHECK(hw_policy_of(heap) == policy);
    CHECK(hw_capacity(heap) > 2000);
    char *text = (char *)hw_allocate(heap, 100);
    CHECK(text != NULL && (uintptr_t)text % 16 == 0);
    CHECK(hw_usable_size(heap, text) >= 100);
    strcpy(text, "kept");
    void *aligned = hw_allocate_aligned(heap, 10, 64);
    CHECK(aligned != NULL && (uintptr_t)aligned % 64 == 0);
    text = (char *)hw_resize(heap, text, 600);
    CHECK(text != NULL && strcmp(text, "kept") == 0);
    void *block = text;
    CHECK(hw_try_resize(heap, &block, 600, 50) == HW_OK);
    CHECK(strcmp((char *)block, "kept") == 0);
    void *nothing = hw_allocate(heap, 0);
    CHECK(nothing != NULL && nothing != block);

    struct seen seen = {0, 0, 0, NULL, 1};
    CHECK(hw_walk(heap, count, &seen) == HW_OK);
    CHECK(seen.used == 3 && seen.in_order);
    hw_holes holes;
    CHECK(hw_holes_of(heap, &holes) == HW_OK);
    CHECK(holes.count == (size_t)seen.holes);
    hw_counters counters;
    CHECK(hw_counters_of(heap, &counters) == HW_OK);
    CHECK(counters.blocks == (uint64_t)(seen.used + seen.holes) && counters.holes == holes.count);
    CHECK(counters.heap_size == seen.bytes);
    int calls = 0;
    CHECK(hw_walk(heap, stop_at_once, &calls) == HW_OK && calls == 1);

    CHECK(hw_free(heap, (char *)block + 1) == HW_NOT_A_BLOCK);
    CHECK(hw_free(heap, &counters) == HW_NOT_A_BLOCK);
    CHECK(hw_free_sized(heap, block, 4000) == HW_WRONG_SIZE);
    CHECK(hw_resize(heap, &counters, 10) == NULL);
    CHECK(hw_try_resize(heap, &block, 4000, 10) == HW_WRONG_SIZE);
    CHECK(hw_free_sized(heap, block, 50) == HW_OK);
    hw_status again = hw_free(heap, block);
    CHECK(again == HW_ALREADY_FREE);
    CHECK(hw_usable_size(heap, block) == 0);
    CHECK(hw_try_allocate(heap, 1, 48, &block) == HW_BAD_ALIGNMENT);
    CHECK(hw_try_allocate(heap, 1, 0, &block) == HW_BAD_ALIGNMENT);
    CHECK(hw_try_allocate(heap, (size_t)-1, 1, &block) == HW_FULL);
    CHECK(hw_try_allocate(heap, (size_t)-1 / 2, 1, &block) == HW_FULL);
    CHECK(hw_allocate(heap, (size_t)-1 / 4) == NULL);
    CHECK(hw_free(heap, NULL) == HW_OK);
    CHECK(hw_check(heap, NULL) == HW_OK);
    CHECK(hw_walk(heap, free_what_is_used, heap) == HW_OK);
    CHECK(hw_counters_of(heap, &counters) == HW_OK && counters.live == 0);
    hw_violation violation;
    CHECK(hw_check(heap, &violation) == HW_OK);
    CHECK(hw_destroy(heap) == HW_OK);
}

static void refuse_bad_creations(void) {
    static char memory[4096];
    hw_heap *heap = (hw_heap *)memory;
    CHECK(hw_create_in(NULL, 4096, HW_BEST, NULL, &heap) == HW_NULL_POINTER && heap == NULL);
    CHECK(hw_create_in(memory, 4096, HW_BEST, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_create_in(memory, 4096, 0, NULL, &heap) == HW_UNKNOWN_POLICY && heap == NULL);
    CHECK(hw_create_in(memory, 4096, 99, NULL, &heap) == HW_UNKNOWN_POLICY);
    CHECK(hw_create_in(memory, (size_t)-1, HW_BEST, NULL, &heap) == HW_BAD_OPTIONS);
    char *last = (char *)~(uintptr_t)7; /* memory that would go on behind the last address */
    CHECK(hw_create_in(last, 100, HW_BEST, NULL, &heap) == HW_BAD_OPTIONS && heap == NULL);
    CHECK(hw_create_beside(last, 100, memory, 4096, HW_BEST, NULL, &heap) == HW_BAD_OPTIONS && heap == NULL);
    CHECK(hw_create_beside(memory, 4096, last, 100, HW_BEST, NULL, &heap) == HW_BAD_OPTIONS && heap == NULL);
    for (size_t bytes = 0; bytes < 100; ++bytes) {
        CHECK(hw_create_in(memory, bytes, HW_BEST, NULL, &heap) == HW_TOO_SHORT && heap == NULL);
    }
    hw_options options;
    memset(&options, 0, sizeof options);
    options.granule = 24;
    CHECK(hw_create_in(memory, 4096, HW_BEST, &options, &heap) == HW_BAD_OPTIONS);
    CHECK(hw_create_growing(HW_BEST, &options, &heap) == HW_BAD_OPTIONS && heap == NULL);
    options.granule = 0;
    options.statistics = 7;
    CHECK(hw_create_in(memory, 4096, HW_BEST, &options, &heap) == HW_BAD_OPTIONS);
    CHECK(hw_create_growing(HW_BEST, &options, &heap) == HW_BAD_OPTIONS);
    CHECK(hw_create_growing(0, NULL, &heap) == HW_UNKNOWN_POLICY && heap == NULL);
    CHECK(hw_create_growing(HW_BEST, NULL, NULL) == HW_NULL_POINTER);
}

/* A heap that is longer than what the system gives, and one that is not. */
static void say_who_refused(void) {
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_DATA, &before) == 0);
    limit = before;
    limit.rlim_cur = (rlim_t)256 << 20;
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        hw_heap *heap = NULL;
        CHECK(hw_create_growing(policy, NULL, &heap) == HW_OK);
        void *block = NULL, *kept = NULL;
        CHECK(hw_try_allocate(heap, (size_t)300 << 20, 1, &block) == HW_OUT_OF_MEMORY && block == NULL);
        CHECK(hw_try_allocate(heap, (size_t)1 << 41, 1, &block) == HW_FULL);
        CHECK((kept = hw_allocate(heap, 100)) != NULL);
        CHECK(hw_try_resize(heap, &kept, 100, (size_t)300 << 20) == HW_OUT_OF_MEMORY);
        CHECK(hw_try_resize(heap, &kept, 100, (size_t)1 << 41) == HW_FULL);
        CHECK(hw_free(heap, kept) == HW_OK && hw_destroy(heap) == HW_OK);
        hw_options options;
        memset(&options, 0, sizeof options);
        options.capacity = 1 << 20;
        CHECK(hw_create_growing(policy, &options, &heap) == HW_OK);
        CHECK(hw_try_allocate(heap, (size_t)2 << 20, 1, &block) == HW_FULL && hw_destroy(heap) == HW_OK);
    }
    CHECK(setrlimit(RLIMIT_DATA, &before) == 0);
}

static void refuse_what_is_no_heap(void) {
    static uint64_t memory[512];
    hw_heap *heap = NULL;
    void *block = memory;
    CHECK(hw_create_in(memory, sizeof memory, HW_FIRST, NULL, &heap) == HW_OK);
    CHECK(hw_destroy(heap) == HW_OK);
    hw_heap *none[] = {NULL, heap, (hw_heap *)((char *)heap + 1)};
    const hw_status why[] = {HW_NULL_POINTER, HW_NOT_A_HEAP, HW_NOT_A_HEAP};
    for (int i = 0; i < 3; ++i) {
        hw_holes holes;
        hw_counters counters;
        int calls = 0;
        CHECK(hw_destroy(none[i]) == why[i]);
        CHECK(hw_allocate(none[i], 1) == NULL);
        CHECK(hw_allocate_aligned(none[i], 1, 16) == NULL);
        CHECK(hw_try_allocate(none[i], 1, 1, &block) == why[i]);
        CHECK(hw_resize(none[i], NULL, 1) == NULL);
        CHECK(hw_try_resize(none[i], &block, 1, 1) == why[i]);
        CHECK(hw_free(none[i], block) == why[i]);
        CHECK(hw_free_sized(none[i], block, 1) == why[i]);
        CHECK(hw_usable_size(none[i], block) == 0 && hw_policy_of(none[i]) == 0 && hw_capacity(none[i]) == 0);
        CHECK(hw_walk(none[i], stop_at_once, &calls) == why[i] && calls == 0);
        CHECK(hw_holes_of(none[i], &holes) == why[i]);
        CHECK(hw_counters_of(none[i], &counters) == why[i]);
        CHECK(hw_check(none[i], NULL) == why[i]);
    }
}

static void refuse_null_results(void) {
    static uint64_t memory[512];
    hw_heap *heap = NULL;
    CHECK(hw_create_in(memory, sizeof memory, HW_FIRST, NULL, &heap) == HW_OK);
    CHECK(hw_try_allocate(heap, 1, 1, NULL) == HW_NULL_POINTER);
    CHECK(hw_try_resize(heap, NULL, 1, 1) == HW_NULL_POINTER);
    CHECK(hw_walk(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_holes_of(heap, NULL) == HW_NULL_POINTER);
    CHECK(hw_counters_of(heap, NULL) == HW_NULL_POINTER);
    hw_holes holes;
    CHECK(hw_allocate(heap, hw_capacity(heap)) != NULL);
    CHECK(hw_holes_of(heap, &holes) == HW_OK);
    CHECK(holes.count == 0 && isnan(holes.mean) && isnan(holes.deviation) && isnan(holes.fragmentation));
    /* Corruption of the metadata is detected. */
    memset(memory + 16, 0xA5, 256);
    hw_violation violation;
    CHECK(hw_check(heap, &violation) == HW_DAMAGED && strlen(violation.invariant) > 10);
}

static void name_everything(void) {
    static const char *const names[] = {"first", "next", "best", "worst", "random", "buddy", "good"};
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        CHECK(strcmp(hw_policy_name(policy), names[policy - 1]) == 0);
        CHECK(hw_policy_from_name(names[policy - 1]) == policy);
    }
    CHECK(hw_policy_from_name("quickest") == 0 && hw_policy_from_name("") == 0 && hw_policy_from_name(NULL) == 0);
    CHECK(hw_policy_name(0) == NULL && hw_policy_name(8) == NULL);
    for (int status = HW_OK; status <= HW_IN_USE; ++status) {
        CHECK(strcmp(hw_status_text(status), hw_status_text(-1)) != 0);
    }
    CHECK(strcmp(hw_status_text(HW_IN_USE + 1), hw_status_text(-1)) == 0);
}

static void small_heap(void) {
    static char memory[1024];
    hw_options options;
    memset(&options, 0, sizeof options);
    options.granule = 8;
    options.statistics = HW_STATISTICS_OFF;
    hw_heap *heap = NULL;
    hw_counters counters;
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        CHECK(hw_create_in(memory + 1, 500, policy, &options, &heap) == HW_OK);
        CHECK(hw_counters_of(heap, &counters) == HW_NO_STATISTICS);
        char *block = (char *)hw_allocate(heap, 40);
        CHECK(block >= memory && block + 40 <= memory + sizeof memory);
        CHECK(hw_destroy(heap) == HW_OK);
        CHECK(hw_create_in(memory, sizeof memory, policy, NULL, &heap) == HW_OK);
        CHECK(hw_allocate(heap, 256) != NULL);
    }
}

/* The least memory of a heap, and heaps of exactly eight blocks. */
static void short_regions(unsigned policy) {
    static union {
        char bytes[40000];
        uint64_t aligned;
    } memory;
    const uint32_t granules[] = {1, 2, 4, 8, 16, 128, 4096};
    for (size_t i = 0; i < 7; ++i) {
        hw_options options;
        memset(&options, 0, sizeof options);
        options.granule = granules[i];
        size_t least = hw_least_bytes(policy, &options);
        char *start = memory.bytes + (size_t)(-(uintptr_t)memory.bytes % 4096);
        hw_heap *heap = NULL;
        CHECK(least > 0 && least < 20000);
        for (size_t at = 0; at <= 4096; at += granules[i]) {
            CHECK(hw_create_in(start + at, least, policy, &options, &heap) == HW_OK);
            CHECK(hw_capacity(heap) >= granules[i] && hw_destroy(heap) == HW_OK);
        }
        CHECK(hw_create_in(start, 20, policy, &options, &heap) == HW_TOO_SHORT && heap == NULL);
    }
    CHECK(strstr(hw_status_text(HW_TOO_SHORT), "hw_least_bytes") != NULL);

    hw_options options;
    memset(&options, 0, sizeof options);
    options.granule = 128;
    char *region = memory.bytes + (size_t)(-(uintptr_t)memory.bytes % 128);
    size_t metadata = hw_metadata_bytes(1024, policy, &options);
    hw_heap *heap = NULL;
    char *beside = memory.bytes + 20001;
    CHECK(metadata > 0 && hw_create_beside(region, 1024, beside, metadata, policy, &options, &heap) == HW_OK);
    CHECK(hw_capacity(heap) == 1024);
    for (int i = 0; i < 8; ++i) CHECK(hw_allocate(heap, 128) != NULL);
    CHECK(hw_allocate(heap, 1) == NULL && hw_check(heap, NULL) == HW_OK && hw_destroy(heap) == HW_OK);
    CHECK(hw_create_beside(region, 1024, beside, 60, policy, &options, &heap) == HW_TOO_SHORT && heap == NULL);
    CHECK(hw_create_beside(region, 127, beside, metadata, policy, &options, &heap) == HW_TOO_SHORT);
    char *middle = region + 8192;
    char *overlapping[] = {middle, middle + 512, middle + 1023, middle - metadata + 1};
    for (int i = 0; i < 4; ++i) {
        heap = (hw_heap *)middle;
        CHECK(hw_create_beside(middle, 1024, overlapping[i], metadata, policy, &options, &heap) == HW_OVERLAP);
        CHECK(heap == NULL);
    }
    CHECK(hw_create_beside(middle, 1024, middle - metadata, metadata, policy, &options, &heap) == HW_OK);
    CHECK(hw_check(heap, NULL) == HW_OK && hw_destroy(heap) == HW_OK);
    CHECK(hw_create_beside(NULL, 1024, beside, metadata, policy, &options, &heap) == HW_NULL_POINTER);
    CHECK(hw_create_beside(region, 1024, NULL, metadata, policy, &options, &heap) == HW_NULL_POINTER);
    CHECK(hw_metadata_bytes(1024, 99, &options) == 0 && hw_least_bytes(99, NULL) == 0);
}

/* Heaps of one page, and sizes that no heap of granules of 16 bytes can have. */
static void least_and_most(unsigned policy) {
    static struct {
        char metadata[4096];
        uint64_t memory[64];
    } parts;
    size_t most = (size_t)16 << (policy == HW_BEST || policy == HW_GOOD ? 42 : 36);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    hw_heap *heap = NULL;
    hw_options options;
    memset(&options, 0, sizeof options);
    for (options.capacity = 1; options.capacity <= 2 * page; options.capacity += page / 2) {
        CHECK(hw_create_growing(policy, &options, &heap) == HW_OK);
        CHECK(hw_capacity(heap) == (options.capacity + page - 1) / page * page);
        CHECK(hw_allocate(heap, 1) != NULL && hw_allocate(heap, hw_capacity(heap)) == NULL);
        CHECK(hw_destroy(heap) == HW_OK);
    }
    const size_t beyond[] = {most + 16, (size_t)1 << 47, (size_t)1 << 63, (size_t)-4096, (size_t)-1};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; ++i) {
        options.capacity = beyond[i];
        heap = (hw_heap *)parts.memory;
        CHECK(hw_create_growing(policy, &options, &heap) == HW_BAD_OPTIONS && heap == NULL);
        heap = (hw_heap *)parts.memory;
        CHECK(hw_create_beside(parts.memory, beyond[i], parts.metadata, sizeof parts.metadata, policy, NULL, &heap)
              == HW_BAD_OPTIONS);
        CHECK(heap == NULL && hw_metadata_bytes(beyond[i], policy, NULL) == 0);
    }
    CHECK(hw_metadata_bytes(0, policy, NULL) == 0 && hw_metadata_bytes(15, policy, NULL) == 0);
    CHECK(hw_create_beside(parts.memory, (size_t)1 << 31, parts.metadata, sizeof parts.metadata, policy, NULL, &heap)
          == HW_TOO_SHORT);
}

/* The bytes of a heap's blocks and holes. */
static uint64_t length_of(hw_heap *heap) {
    hw_counters counters;
    CHECK(hw_counters_of(heap, &counters) == HW_OK);
    return counters.heap_size;
}

/* Growing heaps by the rules of allocators with headers, and by rules that do not exist. */
static void rules_of_growth(unsigned policy) {
    hw_heap *heap = NULL;
    hw_options options;
    memset(&options, 0, sizeof options);
    options.granule = 4;
    options.header = 24;
    options.growth = HW_GROWTH_APPEND;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_OK);
    char *first = (char *)hw_allocate(heap, 98), *second = (char *)hw_allocate(heap, 10);
    CHECK(first != NULL && second == first + 100 + 24 && length_of(heap) == 2 * 24 + 100 + 12);
    CHECK(hw_usable_size(heap, first) == 100 && hw_free(heap, second) == HW_OK);
    /* Behind the hole, not in it. */
    CHECK(hw_allocate(heap, 40) == second + 12 + 24 && length_of(heap) == 160 + 24 + 40);
    CHECK(hw_destroy(heap) == HW_OK);

    options.growth = HW_GROWTH_EXTEND;
    options.min_remainder = 64;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_OK);
    first = (char *)hw_allocate(heap, 100);
    CHECK(hw_free(heap, first) == HW_OK && hw_allocate(heap, 160) == first && length_of(heap) == 24 + 160);
    CHECK(hw_free(heap, first) == HW_OK && hw_allocate(heap, 100) == first);
    /* The 60 bytes behind it are too few for a hole. */
    CHECK(hw_usable_size(heap, first) == 160 && hw_check(heap, NULL) == HW_OK && hw_destroy(heap) == HW_OK);

    options.growth = HW_GROWTH_STEPS;
    options.growth_step = 1000;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_OK);
    CHECK(hw_allocate(heap, 100) != NULL && length_of(heap) == 1000);
    CHECK(hw_allocate(heap, 900000) != NULL && length_of(heap) == 901000);
    CHECK(hw_destroy(heap) == HW_OK);

    options.growth_step = 1002;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_BAD_OPTIONS && heap == NULL);
    options.growth_step = 1000;
    options.growth = HW_GROWTH_EXTEND;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_BAD_OPTIONS);
    options.growth = 3;
    options.growth_step = 0;
    CHECK(hw_create_growing(policy, &options, &heap) == HW_BAD_OPTIONS);
    static char memory[16384];
    options.growth = HW_GROWTH_APPEND;
    CHECK(hw_create_in(memory, sizeof memory, policy, &options, &heap) == HW_BAD_OPTIONS);
    CHECK(hw_least_bytes(policy, &options) == 0 && hw_metadata_bytes(1024, policy, &options) == 0);
    options.growth = 0;
    CHECK(hw_create_in(memory, sizeof memory, policy, &options, &heap) == HW_OK && hw_destroy(heap) == HW_OK);
}

/* What lies in holes of a growing heap is purged when it is more than is kept, and when that is asked for. */
static void keep_and_trim(unsigned policy) {
    static void *blocks[2000];
    static char memory[4096];
    const size_t count = sizeof blocks / sizeof *blocks, page = 4096;
    hw_heap *heap = NULL;
    CHECK(hw_create_growing(policy, NULL, &heap) == HW_OK);
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < count; ++i) {
            blocks[i] = hw_allocate(heap, page);
            CHECK(blocks[i] != NULL);
            memset(blocks[i], 1, page);
        }
        for (size_t i = 0; i < count; ++i) CHECK(hw_free(heap, blocks[i]) == HW_OK);
        size_t purged = hw_trim(heap);
        /* First nothing was purged before; then everything was but a little. */
        CHECK(round == 0 ? purged > (count - 100) * page : purged < count * page / 2);
        CHECK(hw_trim(heap) == 0 && hw_check(heap, NULL) == HW_OK);
        CHECK(hw_set_kept(heap, 0) == HW_OK);
    }
    CHECK(hw_destroy(heap) == HW_OK);
    CHECK(hw_create_in(memory, sizeof memory, policy, NULL, &heap) == HW_OK);
    CHECK(hw_trim(heap) == 0 && hw_set_kept(heap, 0) == HW_BAD_OPTIONS && hw_destroy(heap) == HW_OK);
    CHECK(hw_trim(NULL) == 0 && hw_set_kept(NULL, 0) == HW_NULL_POINTER);
}

/* The rules for requests, in a heap without blocks. */
static void rules_of_requests(hw_heap *heap) {
    hw_requests requests;
    memset(&requests, 0, sizeof requests);
    requests.align = 64;
    requests.least = 100;
    requests.zero = HW_ZERO_NULL;
    char *before = (char *)hw_allocate(heap, 10);
    CHECK(hw_set_requests(heap, &requests) == HW_OK);

    CHECK(hw_allocate(heap, 0) == NULL && hw_resize(heap, NULL, 0) == NULL);
    void *block = heap;
    CHECK(hw_try_allocate(heap, 0, 1, &block) == HW_OK && block == NULL);
    CHECK(hw_try_allocate(heap, 0, 3, &block) == HW_BAD_ALIGNMENT);
    char *least = (char *)hw_allocate(heap, 1), *aligned = (char *)hw_allocate_aligned(heap, 300, 256);
    CHECK((uintptr_t)least % 64 == 0 && hw_usable_size(heap, least) >= 100);
    CHECK((uintptr_t)aligned % 256 == 0 && hw_usable_size(heap, aligned) >= 300);
    /* Blocks stay at least as long as that, and move to addresses aligned as much. */
    CHECK(hw_resize(heap, least, 0) == least && hw_usable_size(heap, least) >= 100);
    char *guard = (char *)hw_allocate(heap, 1);
    char *moved = (char *)hw_resize(heap, least, 900);
    CHECK(moved != NULL && (uintptr_t)moved % 64 == 0);
    CHECK(hw_free_sized(heap, moved, 900) == HW_OK && hw_free_sized(heap, guard, 1) == HW_OK);
    CHECK(hw_free_sized(heap, aligned, 300) == HW_OK && hw_free_sized(heap, before, 10) == HW_OK);
    hw_counters counters;
    CHECK(hw_counters_of(heap, &counters) == HW_OK && counters.unsized_frees == 0 && counters.live == 0);

    requests.align = 48;
    CHECK(hw_set_requests(heap, &requests) == HW_BAD_OPTIONS);
    requests.align = 8192;
    CHECK(hw_set_requests(heap, &requests) == HW_BAD_OPTIONS);
    requests.align = 0;
    requests.zero = 2;
    CHECK(hw_set_requests(heap, &requests) == HW_BAD_OPTIONS && hw_set_requests(NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_allocate(heap, 0) == NULL);
    CHECK(hw_set_requests(heap, NULL) == HW_OK);
    void *nothing = hw_allocate(heap, 0);
    CHECK(nothing != NULL && hw_usable_size(heap, nothing) < 100);
    CHECK(hw_check(heap, NULL) == HW_OK && hw_destroy(heap) == HW_OK);
}

int main(void) {
    static char memory[16384];
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        hw_heap *heap = NULL;
        for (size_t offset = 0; offset < 20; ++offset) {
            CHECK(hw_create_in(memory + offset, sizeof memory - offset, policy, NULL, &heap) == HW_OK);
            exercise(heap, policy);
        }
        CHECK(hw_create_growing(policy, NULL, &heap) == HW_OK);
        exercise(heap, policy);
        CHECK(hw_create_in(memory, sizeof memory, policy, NULL, &heap) == HW_OK);
        rules_of_requests(heap);
        CHECK(hw_create_growing(policy, NULL, &heap) == HW_OK);
        rules_of_requests(heap);
    }
    refuse_bad_creations();
    say_who_refused();
    refuse_what_is_no_heap();
    refuse_null_results();
    name_everything();
    small_heap();
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) keep_and_trim(policy);
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) short_regions(policy);
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) least_and_most(policy);
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        if (policy != HW_BUDDY) rules_of_growth(policy);
    }
    puts("heapwright: ok");
    return 0;
}
