/* Every function of heapwright.h that is about shared heaps, with valid and invalid arguments, under every policy.
 * Compiles as C11 and as C++17. */
#include "shared_heap.h"

#include <sys/stat.h>

struct seen {
    int used;
    int holes;
    size_t bytes;
    uint64_t end;
};

static int count(const hw_shared_block *block, void *context) {
    struct seen *seen = (struct seen *)context;
    CHECK(seen->end == 0 || seen->end == block->offset);
    seen->end = block->offset + block->size;
    seen->bytes += block->size;
    if (block->used) {
        ++seen->used;
        CHECK(block->pid == (uint32_t)getpid() && block->state == HW_ATTACHED);
    } else {
        ++seen->holes;
        CHECK(block->pid == 0 && block->state == 0);
    }
    return 0;
}

static int stop_at_once(const hw_shared_block *block, void *context) {
    (void)block;
    ++*(int *)context;
    return 1;
}

static int free_what_is_used(const hw_shared_block *block, void *context) {
    hw_shared *heap = (hw_shared *)context;
    CHECK(hw_shared_pointer_of(heap, block->offset) == block->address);
    if (block->used) {
        CHECK(hw_shared_free(heap, block->address) == HW_OK);
    }
    return 0;
}

static void by_address(hw_shared *heap) {
    char *text = (char *)hw_shared_allocate(heap, 100);
    CHECK(text != NULL && (uintptr_t)text % 64 == 0 && hw_shared_usable_size(heap, text) >= 100);
    strcpy(text, "kept");
    char *next = (char *)hw_shared_allocate(heap, 1);
    char *aligned = (char *)hw_shared_allocate_aligned(heap, 10, 64);
    CHECK(next != NULL && aligned != NULL && (uintptr_t)aligned % 64 == 0);
    text = (char *)hw_shared_resize(heap, text, 5000);
    CHECK(text != NULL && strcmp(text, "kept") == 0 && hw_shared_usable_size(heap, text) >= 5000);
    void *block = text;
    CHECK(hw_shared_try_resize(heap, &block, 50) == HW_OK && strcmp((char *)block, "kept") == 0);
    void *fresh = NULL;
    CHECK(hw_shared_try_resize(heap, &fresh, 50) == HW_OK && fresh != NULL);
    CHECK(hw_shared_resize(heap, NULL, 50) != NULL);
    void *nothing = NULL;
    CHECK(hw_shared_try_allocate(heap, 0, 1, &nothing) == HW_OK && nothing != NULL);
    CHECK(hw_shared_free(heap, next) == HW_OK && hw_shared_free(heap, NULL) == HW_OK);
    CHECK(hw_shared_free(heap, next) == HW_ALREADY_FREE && SAYS("freed before"));
    CHECK(hw_shared_usable_size(heap, next) == 0);
}

static void by_offset(hw_shared *heap) {
    uint64_t block = 0, other = 0;
    CHECK(hw_shared_allocate_offset(heap, 100, 1, &block) == HW_OK && block != 0);
    CHECK(hw_shared_resize_offset(heap, &other, 100) == HW_OK && other != 0 && other != block);
    char *text = (char *)hw_shared_pointer_of(heap, block);
    CHECK(text != NULL && hw_shared_offset_of(heap, text) == block && hw_shared_offset_of(heap, text + 1) == block + 1);
    strcpy(text, "kept");
    CHECK(hw_shared_resize_offset(heap, &block, 6000) == HW_OK && hw_shared_usable_size_offset(heap, block) >= 6000);
    CHECK(strcmp((char *)hw_shared_pointer_of(heap, block), "kept") == 0);
    CHECK(hw_shared_resize_in_place(heap, block, 60) == HW_OK && hw_shared_resize_in_place(heap, block, 1) == HW_OK);
    CHECK(hw_shared_resize_in_place(heap, block, 1 << 20) == HW_NO_ROOM && SAYS("let it move"));
    CHECK(hw_shared_free_offset(heap, other) == HW_OK && hw_shared_free_offset(heap, 0) == HW_OK);
    CHECK(hw_shared_free_offset(heap, other) == HW_ALREADY_FREE);
    CHECK(hw_shared_adopt(heap, block) == HW_OK && hw_shared_adopt(heap, other) == HW_ALREADY_FREE);
    CHECK(hw_shared_pointer_of(heap, 0) == NULL && hw_shared_offset_of(heap, NULL) == 0);
}

static void what_is_there(hw_shared *heap) {
    struct seen seen = {0, 0, 0, 0};
    hw_holes holes;
    hw_counters counters;
    CHECK(hw_shared_walk(heap, count, &seen) == HW_OK && seen.used > 0);
    CHECK(seen.bytes == hw_shared_size(heap));
    CHECK(hw_shared_holes_of(heap, &holes) == HW_OK && holes.count == (size_t)seen.holes);
    CHECK(hw_shared_counters_of(heap, &counters) == HW_OK);
    CHECK(counters.blocks == (uint64_t)(seen.used + seen.holes) && counters.holes == holes.count);
    int calls = 0;
    CHECK(hw_shared_walk(heap, stop_at_once, &calls) == HW_OK && calls == 1);
    CHECK(hw_shared_walk_left_behind(heap, stop_at_once, &calls) == HW_OK && calls == 1);
    hw_shared_reclaimed reclaimed;
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD_AND_CLOSED, &reclaimed) == HW_OK);
    CHECK(reclaimed.blocks == 0 && reclaimed.bytes == 0 && reclaimed.kept == 0);
    CHECK(hw_shared_walk(heap, free_what_is_used, heap) == HW_OK);
    CHECK(hw_shared_counters_of(heap, &counters) == HW_OK && counters.live == 0);
    hw_violation violation;
    CHECK(hw_shared_check(heap, &violation) == HW_OK);
    uint64_t recoveries = 1;
    CHECK(hw_shared_recoveries(heap, &recoveries) == HW_OK && recoveries == 0);
}

static void refuse_what_is_no_block(hw_shared *heap) {
    char here = 0;
    char *block = (char *)hw_shared_allocate(heap, 200);
    uint64_t offset = hw_shared_offset_of(heap, block);
    void *wrong[] = {&here, block + 1, block + 64, (void *)(uintptr_t)-1, block - offset, (void *)(uintptr_t)1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        void *it = wrong[i];
        CHECK(hw_shared_free(heap, it) == HW_NOT_A_BLOCK && SAYS("block"));
        CHECK(hw_shared_resize(heap, it, 10) == NULL && hw_shared_usable_size(heap, it) == 0);
        CHECK(hw_shared_try_resize(heap, &it, 10) == HW_NOT_A_BLOCK && it == wrong[i]);
    }
    uint64_t none[] = {1, 8, offset + 1, offset + 64, (uint64_t)1 << 40, (uint64_t)-1, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof none / sizeof *none; ++i) {
        uint64_t it = none[i];
        CHECK(hw_shared_free_offset(heap, it) == HW_NOT_A_BLOCK);
        CHECK(hw_shared_resize_offset(heap, &it, 10) == HW_NOT_A_BLOCK && it == none[i]);
        CHECK(hw_shared_resize_in_place(heap, it, 10) == HW_NOT_A_BLOCK);
        CHECK(hw_shared_usable_size_offset(heap, it) == 0);
        CHECK(hw_shared_adopt(heap, it) == HW_NOT_A_BLOCK);
        CHECK(hw_shared_set_root(heap, "wrong", it, NULL) == HW_NOT_A_BLOCK);
    }
    CHECK(hw_shared_pointer_of(heap, 8) == NULL && hw_shared_pointer_of(heap, (uint64_t)-1) == NULL);
    CHECK(hw_shared_offset_of(heap, &here) == 0);
    CHECK(hw_shared_usable_size_offset(heap, 0) == 0 && hw_shared_adopt(heap, 0) == HW_NOT_A_BLOCK);
    uint64_t out = 7;
    void *kept = &here;
    CHECK(hw_shared_allocate_offset(heap, (size_t)-1, 1, &out) == HW_FULL && out == 7 && SAYS("free something"));
    CHECK(hw_shared_try_allocate(heap, (size_t)1 << 40, 1, &kept) == HW_FULL && kept == &here);
    CHECK(hw_shared_try_allocate(heap, 1, 48, &kept) == HW_BAD_ALIGNMENT && SAYS("48"));
    CHECK(hw_shared_try_allocate(heap, 1, 0, &kept) == HW_BAD_ALIGNMENT && kept == &here);
    CHECK(hw_shared_allocate_offset(heap, 1, 8192, &out) == HW_BAD_ALIGNMENT && SAYS("8192"));
    CHECK(hw_shared_allocate_aligned(heap, 1, 3) == NULL);
    CHECK(hw_shared_free(heap, block) == HW_OK);
}

static int collect(const hw_shared_root *root, void *context) {
    strcat((char *)context, root->name);
    strcat((char *)context, root->offset == 0 ? "! " : " ");
    return 0;
}

static int stop(const hw_shared_root *root, void *context) {
    (void)root;
    ++*(int *)context;
    return 1;
}

static void roots(hw_shared *heap) {
    static const char forty[] = "1234567890123456789012345678901234567890";
    uint64_t a = 0, b = 0, found = 1, old = 1;
    CHECK(hw_shared_allocate_offset(heap, 1, 1, &a) == HW_OK && hw_shared_allocate_offset(heap, 1, 1, &b) == HW_OK);
    CHECK(hw_shared_get_root(heap, "list", &found) == HW_OK && found == 0);
    CHECK(hw_shared_set_root(heap, "list", a, &old) == HW_OK && old == 0);
    CHECK(hw_shared_set_root(heap, "list", b, &old) == HW_OK && old == a);
    CHECK(hw_shared_set_root(heap, forty, a, NULL) == HW_OK);
    CHECK(hw_shared_get_root(heap, "list", &found) == HW_OK && found == b);
    CHECK(hw_shared_replace_root(heap, "list", a, a) == HW_ROOT_DIFFERS && SAYS("look again"));
    CHECK(hw_shared_replace_root(heap, "list", b, a) == HW_OK);
    CHECK(hw_shared_replace_root(heap, "none", a, b) == HW_ROOT_DIFFERS);
    char names[200] = "";
    CHECK(hw_shared_walk_roots(heap, collect, names) == HW_OK);
    CHECK(strcmp(names, "1234567890123456789012345678901234567890 list ") == 0);
    int calls = 0;
    CHECK(hw_shared_walk_roots(heap, stop, &calls) == HW_OK && calls == 1);
    CHECK(hw_shared_replace_root(heap, "list", a, 0) == HW_OK);
    CHECK(hw_shared_get_root(heap, "list", &found) == HW_OK && found == 0);
    CHECK(hw_shared_remove_root(heap, forty, &old) == HW_OK && old == a);
    CHECK(hw_shared_remove_root(heap, forty, &old) == HW_OK && old == 0);
    const char *bad[] = {"", "12345678901234567890123456789012345678901", "\xff"};
    for (int i = 0; i < 3; ++i) {
        CHECK(hw_shared_get_root(heap, bad[i], &found) == HW_BAD_ROOT_NAME && SAYS("40"));
        CHECK(hw_shared_set_root(heap, bad[i], a, NULL) == HW_BAD_ROOT_NAME);
        CHECK(hw_shared_replace_root(heap, bad[i], a, b) == HW_BAD_ROOT_NAME);
        CHECK(hw_shared_remove_root(heap, bad[i], NULL) == HW_BAD_ROOT_NAME);
    }
    char each[8];
    for (int i = 0; i < 32; ++i) {
        snprintf(each, sizeof each, "r%d", i);
        CHECK(hw_shared_set_root(heap, each, a, NULL) == HW_OK);
    }
    CHECK(hw_shared_set_root(heap, "more", a, NULL) == HW_ROOTS_FULL && SAYS("32"));
    for (int i = 0; i < 32; ++i) {
        snprintf(each, sizeof each, "r%d", i);
        CHECK(hw_shared_remove_root(heap, each, NULL) == HW_OK);
    }
    CHECK(hw_shared_free_offset(heap, a) == HW_OK && hw_shared_free_offset(heap, b) == HW_OK);
    CHECK(hw_shared_set_root(heap, "list", a, NULL) == HW_ALREADY_FREE);
}

static void growth(unsigned policy) {
    hw_shared_settings settings = settings_of(policy);
    settings.max_size = 1 << 20;
    hw_shared *heap = created(&settings);
    CHECK(hw_shared_size(heap) == 64 << 10 && hw_shared_max_size(heap) == 1 << 20);
    CHECK(hw_shared_allocate(heap, 100 << 10) != NULL && hw_shared_size(heap) > 64 << 10);
    CHECK(hw_shared_grow(heap, 500 << 10) == HW_OK && hw_shared_size(heap) >= 500 << 10);
    CHECK(hw_shared_grow(heap, 1) == HW_OK && hw_shared_grow(heap, 1 << 20) == HW_OK);
    CHECK(hw_shared_size(heap) == 1 << 20);
    CHECK(hw_shared_grow(heap, (1 << 20) + 1) == HW_BEYOND_MAXIMUM && SAYS("1048576"));
    CHECK(hw_shared_grow(heap, (size_t)-1) == HW_BEYOND_MAXIMUM);
    CHECK(hw_shared_allocate(heap, 1 << 20) == NULL && SAYS("free something"));
    removed(heap);
}

static void link_to(void *block, uint64_t old, void *context) {
    ((uint64_t *)block)[0] = old;
    ((uint64_t *)block)[1] = *(uint64_t *)context;
}

static uint64_t link_of(const void *block, void *context) {
    *(uint64_t *)context = ((const uint64_t *)block)[1];
    return ((const uint64_t *)block)[0];
}

static void report_link(const void *block, size_t size, hw_shared_reporter report, void *library, void *context) {
    CHECK(size >= sizeof(uint64_t));
    ++*(int *)context;
    report(*(const uint64_t *)block, library);
}

static void by_word(hw_shared *heap) {
    uint64_t word = 0, block = 0, value = 0;
    CHECK(hw_shared_allocate_offset(heap, 8, 8, &word) == HW_OK);
    uint64_t *head = (uint64_t *)hw_shared_pointer_of(heap, word);
    *head = 0;
    CHECK(hw_shared_free_from(heap, word, NULL, NULL, &block) == HW_OK && block == 0);
    for (value = 1; value <= 3; ++value) {
        CHECK(hw_shared_allocate_into(heap, word, 16, link_to, &value, &block) == HW_OK && *head == block);
    }
    CHECK(hw_shared_resize_into(heap, word, 7000, &block) == HW_OK && *head == block);
    int traced = 0;
    hw_shared_reclaimed reclaimed;
    CHECK(hw_shared_set_root(heap, "word", word, NULL) == HW_OK);
    CHECK(hw_shared_reclaim_unreachable(heap, HW_RECLAIM_DEAD, report_link, &traced, &reclaimed) == HW_OK);
    CHECK(traced >= 4 && reclaimed.blocks == 0);
    CHECK(hw_shared_reclaim_unreachable(heap, HW_RECLAIM_DEAD, NULL, NULL, NULL) == HW_NULL_POINTER);
    for (uint64_t expected = 3; expected >= 1; --expected) {
        CHECK(hw_shared_free_from(heap, word, link_of, &value, NULL) == HW_OK && value == expected);
    }
    CHECK(*head == 0);
    CHECK(hw_shared_allocate_into(heap, word + 4, 16, NULL, NULL, NULL) == HW_NOT_A_BLOCK && SAYS("no word"));
    CHECK(hw_shared_resize_into(heap, word, 16, NULL) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_free_from(heap, 0, NULL, NULL, NULL) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_remove_root(heap, "word", NULL) == HW_OK && hw_shared_free_offset(heap, word) == HW_OK);
}

static void exercise(unsigned policy) {
    hw_shared_settings settings = settings_of(policy);
    hw_shared *heap = created(&settings);
    CHECK(hw_shared_policy_of(heap) == policy && hw_shared_granule(heap) == 64);
    CHECK(hw_shared_size(heap) == 64 << 10 && hw_shared_max_size(heap) == 64 << 10);
    CHECK(hw_shared_overhead(heap) > 0 && hw_shared_overhead(heap) < 64 << 10);
    by_address(heap);
    by_offset(heap);
    by_word(heap);
    what_is_there(heap);
    refuse_what_is_no_block(heap);
    roots(heap);
    removed(heap);
    growth(policy);
}

static void keep_to_the_mode(void) {
    char path[128];
    struct stat status;
    hw_shared_settings settings = settings_of(HW_BEST);
    hw_shared *heap = NULL;
    snprintf(path, sizeof path, "/tmp/%s", name);
    umask(077);
    settings.mode = 0640;
    CHECK(hw_shared_create(path, &settings, &heap) == HW_OK);
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0640);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(path) == HW_OK);
    umask(0);
    CHECK(hw_shared_create(path, NULL, &heap) == HW_OK);
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(path) == HW_OK);
}

int main(void) {
    name = segment_name("shared");
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) exercise(policy);
    keep_to_the_mode();
    puts("shared: ok");
    return 0;
}
