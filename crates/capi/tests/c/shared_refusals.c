/* What shared heaps refuse: settings, names, files that are no segments, handles that are none. Compiles as C11 and
 * as C++17. */
#include "shared_heap.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

static hw_shared_settings settings_of_zeros(void) {
    hw_shared_settings settings;
    memset(&settings, 0, sizeof settings);
    return settings;
}

static void refused(const hw_shared_settings *settings, hw_status why, const char *words) {
    hw_shared *heap = (hw_shared *)&heap;
    CHECK(hw_shared_create(name, settings, &heap) == why && heap == NULL && SAYS(words));
    heap = (hw_shared *)&heap;
    CHECK(hw_shared_open_or_create(name, settings, &heap) == why && heap == NULL);
    CHECK(hw_shared_open(name, NULL, &heap) == HW_NOT_FOUND);
}

static void refuse_bad_settings(void) {
    hw_shared_settings settings = settings_of_zeros();
    settings.policy = 8;
    refused(&settings, HW_UNKNOWN_POLICY, "policies");
    settings = settings_of_zeros();
    settings.granule = 24;
    refused(&settings, HW_BAD_OPTIONS, "granule");
    settings.granule = 8;
    refused(&settings, HW_BAD_OPTIONS, "granule");
    settings = settings_of_zeros();
    settings.processes = 251;
    refused(&settings, HW_BAD_OPTIONS, "processes");
    settings = settings_of_zeros();
    settings.roots = 65537;
    refused(&settings, HW_BAD_OPTIONS, "roots");
    settings = settings_of_zeros();
    settings.mode = 01777;
    refused(&settings, HW_BAD_OPTIONS, "mode");
    settings = settings_of_zeros();
    settings.small_blocks = 2;
    refused(&settings, HW_BAD_OPTIONS, "small_blocks");
    settings = settings_of_zeros();
    settings.max_size = 4096;
    refused(&settings, HW_BAD_OPTIONS, "maximum");
    settings = settings_of_zeros();
    settings.size = (size_t)-1;
    refused(&settings, HW_BAD_OPTIONS, "most");
}

static void refuse_sizes_that_no_segment_has(void) {
    hw_shared *heap = NULL;
    hw_shared_settings settings = settings_of_zeros();
    const size_t beyond[] = {((size_t)1 << 46) + 1, (size_t)1 << 47, (size_t)1 << 63, (size_t)-4096, (size_t)-1};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; ++i) {
        settings.size = beyond[i];
        refused(&settings, HW_BAD_OPTIONS, "64 TiB");
        settings.size = 0;
        settings.max_size = beyond[i];
        refused(&settings, HW_BAD_OPTIONS, "64 TiB");
        settings.max_size = 0;
    }
    settings.size = (size_t)1 << 45;
    refused(&settings, HW_OUT_OF_MEMORY, "the system has no");
    settings.policy = HW_FIRST;
    refused(&settings, HW_BAD_OPTIONS, "2^36");
    settings.size = 1;
    CHECK(hw_shared_create(name, &settings, &heap) == HW_OK && hw_shared_size(heap) == 64);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
    for (int power = 31; power <= 40; ++power) {
        settings.policy = 0;
        settings.max_size = ((size_t)1 << power) - 1;
        CHECK(hw_shared_create(name, &settings, &heap) == HW_OK && hw_shared_max_size(heap) == (size_t)1 << power);
        CHECK(hw_shared_grow(heap, ((size_t)1 << power) + 1) == HW_BEYOND_MAXIMUM);
        CHECK(hw_shared_grow(heap, (size_t)-1) == HW_BEYOND_MAXIMUM && hw_shared_check(heap, NULL) == HW_OK);
        CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
    }
}

/* Beyond a limit on address space. */
static void refuse_what_the_system_lacks(void) {
    pid_t child = fork();
    if (child == 0) {
        hw_shared_settings settings = settings_of_zeros();
        settings.max_size = (size_t)1 << 40;
        hw_shared *heap = NULL;
        CHECK(hw_shared_create(name, &settings, &heap) == HW_OK && hw_shared_close(heap) == HW_OK);
        struct rlimit limit = {(rlim_t)1 << 39, (rlim_t)1 << 39};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        CHECK(hw_shared_open(name, NULL, &heap) == HW_OUT_OF_MEMORY && heap == NULL && SAYS("the system has no 11"));
        CHECK(hw_shared_unlink(name) == HW_OK);
        refused(&settings, HW_OUT_OF_MEMORY, "the system has no 11");
        limit.rlim_cur = limit.rlim_max = 3;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(hw_shared_create(name, NULL, &heap) == HW_REFUSED && heap == NULL && SAYS("descriptors"));
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void refuse_bad_names(void) {
    static char longest[300];
    hw_shared *heap = NULL;
    memset(longest, 'x', sizeof longest - 1);
    const char *bad[] = {"", "/", ".", "..", "/..", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        CHECK(hw_shared_create(bad[i], NULL, &heap) == HW_BAD_NAME && heap == NULL && SAYS("name"));
        CHECK(hw_shared_open(bad[i], NULL, &heap) == HW_BAD_NAME);
        CHECK(hw_shared_open_or_create(bad[i], NULL, &heap) == HW_BAD_NAME);
        CHECK(hw_shared_unlink(bad[i]) == HW_BAD_NAME);
    }
    CHECK(hw_shared_create(NULL, NULL, &heap) == HW_NULL_POINTER && SAYS("null"));
    CHECK(hw_shared_open(NULL, NULL, &heap) == HW_NULL_POINTER);
    CHECK(hw_shared_open_or_create(NULL, NULL, &heap) == HW_NULL_POINTER);
    CHECK(hw_shared_unlink(NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_create(name, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_open(name, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_open_or_create(name, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_open(name, NULL, &heap) == HW_NOT_FOUND && SAYS(name) && SAYS("or create it"));
    CHECK(hw_shared_unlink(name) == HW_NOT_FOUND);
    CHECK(hw_shared_create("/no/such/directory", NULL, &heap) == HW_NOT_FOUND && SAYS("no directory"));
    CHECK(hw_shared_open_or_create("/no/such/directory", NULL, &heap) == HW_NOT_FOUND && SAYS("no directory"));
}

static void names_are_taken_once(void) {
    hw_shared *heap = NULL, *again = NULL;
    hw_shared_access access;
    memset(&access, 0, sizeof access);
    CHECK(hw_shared_open_or_create(name, NULL, &heap) == HW_OK);
    CHECK(hw_shared_create(name, NULL, &again) == HW_EXISTS && again == NULL && SAYS("open it"));
    CHECK(hw_shared_open_or_create(name, NULL, &again) == HW_OK && hw_shared_close(again) == HW_OK);
    for (access.owner = HW_OWNER_MINE; access.owner <= HW_OWNER_ANYBODY; ++access.owner) {
        CHECK(hw_shared_open(name, &access, &again) == HW_OK && hw_shared_close(again) == HW_OK);
    }
    CHECK(hw_shared_open(name, &access, &again) == HW_BAD_OPTIONS && again == NULL);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
}

/* Returns a path of the segment, to change its bytes. */
static const char *path_of_segment(void) {
    static char path[128];
    snprintf(path, sizeof path, "/dev/shm/%s", name);
    return path;
}

static int opened_file(int flags) {
    int file = open(path_of_segment(), flags, 0600);
    CHECK(file >= 0);
    return file;
}

static void refuse_with(hw_status why, const char *words) {
    hw_shared *heap = (hw_shared *)&heap;
    CHECK(hw_shared_open(name, NULL, &heap) == why && heap == NULL && SAYS(words));
    if (why == HW_NOT_A_SEGMENT) {
        CHECK(hw_shared_unlink(name) == why && SAYS(words));
        CHECK(unlink(path_of_segment()) == 0);
    } else {
        CHECK(hw_shared_unlink(name) == HW_OK);
    }
}

static void create_and_leave(void) {
    hw_shared *heap = NULL;
    CHECK(hw_shared_create(name, NULL, &heap) == HW_OK && hw_shared_close(heap) == HW_OK);
}

static void overwrite(off_t at, const void *bytes, size_t count) {
    int file = opened_file(O_RDWR);
    CHECK(pwrite(file, bytes, count, at) == (ssize_t)count);
    close(file);
}

static void refuse_what_is_no_segment(void) {
    close(opened_file(O_RDWR | O_CREAT));
    refuse_with(HW_NOT_A_SEGMENT, "too short");
    int file = opened_file(O_RDWR | O_CREAT);
    for (int i = 0; i < 1000; ++i) CHECK(write(file, "rubbish ", 8) == 8);
    close(file);
    refuse_with(HW_NOT_A_SEGMENT, "does not begin like one");
    CHECK(symlink("/etc/hostname", path_of_segment()) == 0);
    refuse_with(HW_NOT_A_SEGMENT, "regular file");
    CHECK(mkfifo(path_of_segment(), 0600) == 0);
    refuse_with(HW_NOT_A_SEGMENT, "regular file");
    create_and_leave();
    CHECK(truncate(path_of_segment(), 8192) == 0);
    refuse_with(HW_WRONG_LENGTH, "8192");
    create_and_leave();
    CHECK(truncate(path_of_segment(), 100) == 0);
    refuse_with(HW_DAMAGED, "ends within its header");
    create_and_leave();
    overwrite(64, "?", 1);
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_RESPECT) == HW_DAMAGED && SAYS("a header"));
    refuse_with(HW_DAMAGED, "checksum");
    create_and_leave();
    overwrite(300, "?", 1);
    refuse_with(HW_DAMAGED, "checksum");
    create_and_leave();
    if (geteuid() == 0) {
        CHECK(chown(path_of_segment(), 4711, 4711) == 0);
        hw_shared *heap = NULL;
        hw_shared_access access = {0, HW_OWNER_USER, 4711};
        CHECK(hw_shared_open(name, &access, &heap) == HW_OK && hw_shared_close(heap) == HW_OK);
        access.user = 4712;
        CHECK(hw_shared_open(name, &access, &heap) == HW_NOT_OURS && SAYS("4711"));
        CHECK(SAYS("HW_OWNER_USER") && SAYS("--any-owner"));
        refuse_with(HW_NOT_OURS, "4711");
    } else {
        CHECK(hw_shared_unlink(name) == HW_OK);
    }
}

static int none_seen(const hw_shared_block *block, void *context) {
    (void)block;
    (void)context;
    exit(1);
}

static int no_process_seen(const hw_shared_process *process, void *context) {
    (void)process;
    (void)context;
    exit(1);
}

static int no_root_seen(const hw_shared_root *root, void *context) {
    (void)root;
    (void)context;
    exit(1);
}

static void refuse_the_handle(hw_shared *heap, hw_status why) {
    uint64_t offset = 7;
    void *block = &offset;
    hw_holes holes;
    hw_counters counters;
    hw_violation violation;
    hw_shared_reclaimed reclaimed;
    CHECK(hw_shared_close(heap) == why);
    CHECK(hw_shared_allocate(heap, 1) == NULL && hw_shared_allocate_aligned(heap, 1, 64) == NULL);
    CHECK(hw_shared_try_allocate(heap, 1, 1, &block) == why && hw_shared_allocate_offset(heap, 1, 1, &offset) == why);
    CHECK(hw_shared_resize(heap, NULL, 1) == NULL && hw_shared_try_resize(heap, &block, 1) == why);
    CHECK(hw_shared_resize_offset(heap, &offset, 1) == why && hw_shared_resize_in_place(heap, 64, 1) == why);
    CHECK(hw_shared_free(heap, block) == why && hw_shared_free_offset(heap, 64) == why);
    CHECK(hw_shared_usable_size(heap, block) == 0 && hw_shared_usable_size_offset(heap, 64) == 0);
    CHECK(hw_shared_pointer_of(heap, 64) == NULL && hw_shared_offset_of(heap, block) == 0);
    CHECK(hw_shared_get_root(heap, "r", &offset) == why && hw_shared_set_root(heap, "r", 64, &offset) == why);
    CHECK(hw_shared_replace_root(heap, "r", 0, 64) == why && hw_shared_remove_root(heap, "r", &offset) == why);
    CHECK(hw_shared_walk_roots(heap, no_root_seen, NULL) == why && hw_shared_grow(heap, 1) == why);
    CHECK(hw_shared_size(heap) == 0 && hw_shared_max_size(heap) == 0 && hw_shared_granule(heap) == 0);
    CHECK(hw_shared_overhead(heap) == 0 && hw_shared_policy_of(heap) == 0);
    CHECK(hw_shared_walk(heap, none_seen, NULL) == why && hw_shared_walk_left_behind(heap, none_seen, NULL) == why);
    CHECK(hw_shared_walk_processes(heap, no_process_seen, NULL) == why);
    CHECK(hw_shared_holes_of(heap, &holes) == why && hw_shared_counters_of(heap, &counters) == why);
    CHECK(hw_shared_check(heap, &violation) == why && hw_shared_adopt(heap, 64) == why);
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD, &reclaimed) == why && hw_shared_recoveries(heap, &offset) == why);
    CHECK(offset == 7 && block == &offset && strcmp(hw_shared_last_error(), hw_status_text(why)) == 0);
    CHECK(hw_shared_last_status() == why);
}

static void refuse_what_is_no_heap(void) {
    static uint64_t memory[512];
    hw_heap *fixed = NULL;
    refuse_the_handle(NULL, HW_NULL_POINTER);
    refuse_the_handle((hw_shared *)((char *)memory + 1), HW_NOT_A_HEAP);
    refuse_the_handle((hw_shared *)memory, HW_NOT_A_HEAP);
    CHECK(hw_create_in(memory, sizeof memory, HW_FIRST, NULL, &fixed) == HW_OK);
    refuse_the_handle((hw_shared *)fixed, HW_NOT_A_HEAP);
    hw_shared *heap = NULL;
    CHECK(hw_shared_create(name, NULL, &heap) == HW_OK);
    CHECK(hw_destroy((hw_heap *)heap) == HW_NOT_A_HEAP && hw_allocate((hw_heap *)heap, 1) == NULL);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
}

static void refuse_null_results(void) {
    hw_shared *heap = NULL;
    CHECK(hw_shared_create(name, NULL, &heap) == HW_OK);
    hw_counters before, after;
    CHECK(hw_shared_counters_of(heap, &before) == HW_OK);
    CHECK(hw_shared_try_allocate(heap, 1, 1, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_allocate_offset(heap, 1, 1, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_try_resize(heap, NULL, 1) == HW_NULL_POINTER);
    CHECK(hw_shared_resize_offset(heap, NULL, 1) == HW_NULL_POINTER);
    CHECK(hw_shared_get_root(heap, "r", NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_get_root(heap, NULL, &before.mallocs) == HW_NULL_POINTER);
    CHECK(hw_shared_set_root(heap, NULL, 64, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_set_root(heap, "r", 0, NULL) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_replace_root(heap, NULL, 0, 0) == HW_NULL_POINTER);
    CHECK(hw_shared_remove_root(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_walk(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_walk_roots(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_walk_processes(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_walk_left_behind(heap, NULL, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_holes_of(heap, NULL) == HW_NULL_POINTER && hw_shared_counters_of(heap, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_recoveries(heap, NULL) == HW_NULL_POINTER);
    CHECK(hw_shared_reclaim(heap, 2, NULL) == HW_BAD_OPTIONS && hw_shared_reclaim(heap, 0, NULL) == HW_OK);
    CHECK(hw_shared_counters_of(heap, &after) == HW_OK && after.mallocs == before.mallocs);
    hw_holes holes;
    CHECK(hw_shared_allocate(heap, hw_shared_size(heap)) != NULL);
    CHECK(hw_shared_holes_of(heap, &holes) == HW_OK && holes.count == 0 && isnan(holes.mean));
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
}

static void repair(void) {
    hw_shared *heap = NULL;
    uint64_t block = 0;
    hw_shared_access access = {0, HW_OWNER_ANYBODY + 1, 0};
    CHECK(hw_shared_repair(NULL, NULL, HW_STRANGERS_RESPECT) == HW_NULL_POINTER);
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_RESPECT) == HW_NOT_FOUND);
    CHECK(hw_shared_create(name, NULL, &heap) == HW_OK);
    CHECK(hw_shared_allocate_offset(heap, 100, 1, &block) == HW_OK
          && hw_shared_set_root(heap, "r", block, NULL) == HW_OK);
    overwrite((off_t)block, "kept", 5);
    size_t overhead = hw_shared_overhead(heap);
    CHECK(hw_shared_close(heap) == HW_OK);
    overwrite((off_t)overhead - 64, "?", 1);
    CHECK(hw_shared_open(name, NULL, &heap) == HW_DAMAGED && SAYS("repair"));
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_DISPLACE + 1) == HW_BAD_OPTIONS);
    CHECK(hw_shared_repair(name, &access, HW_STRANGERS_RESPECT) == HW_BAD_OPTIONS && SAYS("owner"));
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_RESPECT) == HW_OK);
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    CHECK(hw_shared_get_root(heap, "r", &block) == HW_OK);
    CHECK(strcmp((char *)hw_shared_pointer_of(heap, block), "kept") == 0 && hw_shared_check(heap, NULL) == HW_OK);
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_RESPECT) == HW_IN_USE && SAYS("in use by process"));
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_DISPLACE) == HW_IN_USE);
    hw_shared_reclaimed reclaimed;
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD_AND_CLOSED + 1, &reclaimed) == HW_BAD_OPTIONS && SAYS("whose"));
    CHECK(hw_shared_close(heap) == HW_OK);
    CHECK(hw_shared_repair(name, NULL, HW_STRANGERS_DISPLACE) == HW_OK && hw_shared_unlink(name) == HW_OK);
}

/* Closes all descriptors from 3 on, as daemons do. Returns that of a new file, whose number may be a segment's. */
static int close_all_and_open_another(void) {
    for (int number = 3; number < 256; ++number) {
        close(number);
    }
    int other = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    CHECK(other >= 0);
    return other;
}

/* A file that has the number of the segment's descriptor is neither extended nor closed. */
static void leave_other_files_alone(void) {
    hw_shared *heap = NULL;
    hw_shared_settings settings = settings_of_zeros();
    settings.max_size = (size_t)64 << 20;
    CHECK(hw_shared_create(name, &settings, &heap) == HW_OK);
    void *block = hw_shared_allocate(heap, 100);
    int other = close_all_and_open_another();
    struct stat status;
    CHECK(hw_shared_grow(heap, settings.max_size) == HW_REFUSED && SAYS("closed the file descriptor"));
    CHECK(hw_shared_allocate(heap, (size_t)32 << 20) == NULL);
    CHECK(fstat(other, &status) == 0 && status.st_size == 0 && status.st_blocks == 0);
    CHECK(block != NULL && hw_shared_free(heap, block) == HW_OK && hw_shared_check(heap, NULL) == HW_OK);
    hw_shared_close(heap);
    CHECK(fstat(other, &status) == 0 && close(other) == 0);
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK && hw_shared_check(heap, NULL) == HW_OK);
    CHECK(hw_shared_grow(heap, settings.max_size) == HW_OK);
    CHECK(hw_shared_close(heap) == HW_OK && hw_shared_unlink(name) == HW_OK);
}

/* Corruption while the heap is in use is detected too. */
static void find_damage(void) {
    hw_shared *heap = NULL;
    hw_violation violation;
    static char noise[64];
    memset(noise, 0xA5, sizeof noise);
    CHECK(hw_shared_create(name, NULL, &heap) == HW_OK);
    CHECK(hw_shared_allocate(heap, 100) != NULL && hw_shared_check(heap, &violation) == HW_OK);
    overwrite((off_t)hw_shared_overhead(heap) - 2 * (off_t)sizeof noise, noise, sizeof noise);
    CHECK(hw_shared_check(heap, &violation) == HW_DAMAGED && strlen(violation.invariant) > 10);
    CHECK(hw_shared_check(heap, NULL) == HW_DAMAGED && SAYS("repair"));
    CHECK(hw_shared_unlink(name) == HW_OK);
    hw_shared_close(heap);
}

static void *find_no_error(void *unused) {
    (void)unused;
    return hw_shared_last_error()[0] == '\0' ? NULL : &name;
}

static void errors_are_each_threads_own(void) {
    pthread_t thread;
    void *error = NULL;
    CHECK(hw_shared_unlink(name) == HW_NOT_FOUND && SAYS(name));
    CHECK(pthread_create(&thread, NULL, find_no_error, NULL) == 0 && pthread_join(thread, &error) == 0);
    CHECK(error == NULL);
    CHECK(SAYS(name));
}

int main(void) {
    name = segment_name("refusals");
    CHECK(strcmp(hw_shared_last_error(), "") == 0);
    refuse_bad_settings();
    refuse_sizes_that_no_segment_has();
    refuse_what_the_system_lacks();
    refuse_bad_names();
    names_are_taken_once();
    refuse_what_is_no_segment();
    refuse_what_is_no_heap();
    refuse_null_results();
    repair();
    leave_other_files_alone();
    find_damage();
    errors_are_each_threads_own();
    puts("shared_refusals: ok");
    return 0;
}
