/* Shared heaps used by threads and processes that exchange data, die, fork and stop. Compiles as C11 and as
 * C++17. */
#include "shared_heap.h"

#include <pthread.h>
#include <time.h>

static void *pairs(void *argument) {
    hw_shared *heap = (hw_shared *)argument;
    for (int i = 0; i < 3000; ++i) {
        char *block = (char *)hw_shared_allocate(heap, 1 + (size_t)i % 500);
        CHECK(block != NULL);
        memset(block, i & 0xFF, 1 + (size_t)i % 500);
        CHECK(hw_shared_free(heap, block) == HW_OK);
    }
    return NULL;
}

static void threads_share_a_handle(unsigned policy) {
    hw_shared_settings settings = settings_of(policy);
    hw_shared *heap = created(&settings);
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, pairs, heap) == 0);
    for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    hw_counters counters;
    CHECK(hw_shared_counters_of(heap, &counters) == HW_OK && counters.live == 0 && counters.frees == 4 * 3000);
    removed(heap);
}

static void *move_root(void *argument) {
    hw_shared *heap = (hw_shared *)argument;
    uint64_t block = 0;
    CHECK(hw_shared_allocate_offset(heap, 1, 1, &block) == HW_OK);
    for (int i = 0; i < 20000; ++i) CHECK(hw_shared_set_root(heap, "moved", block, NULL) == HW_OK);
    return NULL;
}

/* A root can be removed while other threads keep moving it. */
static void threads_contend_for_a_root(void) {
    hw_shared *heap = created(NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, move_root, heap) == 0);
    uint64_t mine = 0, old = 0;
    CHECK(hw_shared_allocate_offset(heap, 1, 1, &mine) == HW_OK);
    for (int i = 0; i < 10000; ++i) {
        CHECK(hw_shared_set_root(heap, "moved", mine, NULL) == HW_OK);
        CHECK(hw_shared_remove_root(heap, "moved", &old) == HW_OK && old != 0);
    }
    for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(hw_shared_remove_root(heap, "moved", NULL) == HW_OK);
    CHECK(hw_shared_remove_root(heap, "moved", &old) == HW_OK && old == 0);
    removed(heap);
}

/* A list that one process builds is read by another at addresses of its own. */
struct link {
    uint64_t next;
    int number;
};

enum { LINKS = 40 };

static void push(hw_shared *heap, int number) {
    uint64_t offset = 0;
    CHECK(hw_shared_allocate_offset(heap, sizeof(struct link), 16, &offset) == HW_OK);
    struct link *link = (struct link *)hw_shared_pointer_of(heap, offset);
    link->number = number;
    do {
        CHECK(hw_shared_get_root(heap, "list", &link->next) == HW_OK);
    } while (hw_shared_replace_root(heap, "list", link->next, offset) == HW_ROOT_DIFFERS);
}

static void push_all(void *first) {
    hw_shared *heap = NULL;
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    for (int i = 0; i < LINKS; ++i) push(heap, *(int *)first + i);
    CHECK(hw_shared_close(heap) == HW_OK);
}

static int count_closed(const hw_shared_process *process, void *context) {
    if (process->state == HW_CLOSED) {
        *(uint64_t *)context += process->blocks;
        CHECK(process->bytes >= process->blocks * sizeof(struct link));
    } else {
        CHECK(process->state == HW_ATTACHED && process->pid == (uint32_t)getpid() && process->blocks == 0);
    }
    return 0;
}

static void processes_exchange_data(unsigned policy) {
    hw_shared_settings settings = settings_of(policy);
    hw_shared *heap = created(&settings);
    int first = 0, second = LINKS;
    pid_t pushers[] = {child(push_all, &first), child(push_all, &second)};
    ended_well(pushers[0]);
    ended_well(pushers[1]);
    char seen[2 * LINKS] = {0};
    uint64_t at = 0;
    CHECK(hw_shared_get_root(heap, "list", &at) == HW_OK);
    while (at != 0) {
        struct link *link = (struct link *)hw_shared_pointer_of(heap, at);
        CHECK(link->number >= 0 && link->number < 2 * LINKS && seen[link->number]++ == 0);
        at = link->next;
    }
    CHECK(memchr(seen, 0, sizeof seen) == NULL);
    uint64_t closed = 0;
    CHECK(hw_shared_walk_processes(heap, count_closed, &closed) == HW_OK && closed == 2 * LINKS);
    hw_shared_reclaimed reclaimed;
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD, &reclaimed) == HW_OK && reclaimed.blocks == 0);
    CHECK(hw_shared_get_root(heap, "list", &at) == HW_OK && hw_shared_adopt(heap, at) == HW_OK);
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD_AND_CLOSED, &reclaimed) == HW_OK);
    CHECK(reclaimed.blocks == 2 * LINKS - 1 && reclaimed.kept == 0);
    removed(heap);
}

static struct steps ready;

/* Leaves a block that a root points at and two others, and dies in the middle of an operation. */
static void be_busy_until_killed(void *unused) {
    (void)unused;
    hw_shared *heap = NULL;
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    char *kept = (char *)hw_shared_allocate(heap, 100);
    strcpy(kept, "kept");
    CHECK(hw_shared_set_root(heap, "kept", hw_shared_offset_of(heap, kept), NULL) == HW_OK);
    CHECK(hw_shared_allocate(heap, 200) != NULL && hw_shared_allocate(heap, 300) != NULL);
    done(&ready);
    for (size_t size = 1;; size = size % 2000 + 1) {
        CHECK(hw_shared_free(heap, hw_shared_allocate(heap, size)) == HW_OK);
    }
}

static int count_dead(const hw_shared_block *block, void *context) {
    CHECK(block->used && block->state == HW_DEAD && block->pid == *(uint32_t *)context);
    return 0;
}

static void outlive_the_killed(unsigned policy) {
    hw_shared_settings settings = settings_of(policy);
    hw_shared *heap = created(&settings);
    for (int round = 0; round < 5; ++round) {
        pid_t busy = child(be_busy_until_killed, NULL);
        await(&ready);
        usleep(500);
        kill_hard(busy);
        hw_shared_reclaimed reclaimed;
        uint32_t pid = (uint32_t)busy;
        uint64_t root = 0;
        CHECK(hw_shared_check(heap, NULL) == HW_OK);
        CHECK(hw_shared_walk_left_behind(heap, count_dead, &pid) == HW_OK);
        CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD, &reclaimed) == HW_OK);
        /* Two, and the one of its last operation. */
        CHECK(reclaimed.kept == 1 && (reclaimed.blocks == 2 || reclaimed.blocks == 3) && reclaimed.bytes >= 500);
        CHECK(hw_shared_remove_root(heap, "kept", &root) == HW_OK);
        CHECK(strcmp((char *)hw_shared_pointer_of(heap, root), "kept") == 0);
        CHECK(hw_shared_free_offset(heap, root) == HW_OK);
    }
    hw_counters counters;
    CHECK(hw_shared_counters_of(heap, &counters) == HW_OK && counters.live == 0);
    removed(heap);
}

static void work_as_oneself(void *argument) {
    hw_shared *heap = (hw_shared *)argument;
    uint64_t mine = 0;
    CHECK(hw_shared_allocate_offset(heap, 10, 1, &mine) == HW_OK);
    CHECK(hw_shared_set_root(heap, "the child's", mine, NULL) == HW_OK);
    CHECK(hw_shared_close(heap) == HW_OK);
}

static int owned_by(const hw_shared_block *block, void *context) {
    if (block->used) CHECK(block->state == HW_CLOSED && block->pid == *(uint32_t *)context);
    return 0;
}

static void children_count_for_themselves(void) {
    hw_shared_settings settings = settings_of(HW_GOOD);
    settings.processes = 2;
    hw_shared *heap = created(&settings), *other = NULL;
    pid_t worker = child(work_as_oneself, heap);
    ended_well(worker);
    uint32_t pid = (uint32_t)worker;
    CHECK(hw_shared_walk(heap, owned_by, &pid) == HW_OK);
    CHECK(hw_shared_open(name, NULL, &other) == HW_OK);
    hw_shared *third = NULL;
    CHECK(hw_shared_open(name, NULL, &third) == HW_TOO_MANY_PROCESSES && third == NULL && SAYS("close it in one"));
    CHECK(hw_shared_close(other) == HW_OK);
    removed(heap);
}

static int stop_at_once(const hw_shared_block *block, void *context) {
    (void)block;
    ++*(int *)context;
    return 1;
}

static void hold_still(void *unused) {
    (void)unused;
    hw_shared *heap = NULL;
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    done(&ready);
    for (int calls = 0;;) hw_shared_walk(heap, stop_at_once, &calls);
}

/* A wait for a process that was stopped while it held the lock ends with a timeout. */
static void lose_patience(void) {
    hw_shared_settings settings = settings_of(HW_FIRST);
    settings.size = 4 << 20;
    settings.granule = 16;
    settings.patience = 50;
    hw_shared *heap = created(&settings);
    while (hw_shared_allocate(heap, 1) != NULL) {}
    pid_t walker = child(hold_still, NULL);
    await(&ready);
    hw_status status = HW_OK;
    time_t start = 0;
    for (int attempt = 0; attempt < 100 && status == HW_OK; ++attempt) {
        start = time(NULL);
        CHECK(kill(walker, SIGSTOP) == 0);
        uint64_t root = 0;
        status = hw_shared_get_root(heap, "r", &root);
        CHECK(status == HW_OK || (status == HW_TIMED_OUT && SAYS("lock")));
        if (status == HW_OK) {
            CHECK(kill(walker, SIGCONT) == 0);
            usleep(1000);
        }
    }
    CHECK(status == HW_TIMED_OUT && time(NULL) - start < 5);
    hw_shared *other = NULL;
    hw_shared_access access = {50, HW_OWNER_MINE, 0};
    start = time(NULL);
    CHECK(hw_shared_open(name, &access, &other) == HW_TIMED_OUT && other == NULL && time(NULL) - start < 5);
    kill_hard(walker);
    CHECK(hw_shared_size(heap) == 4 << 20);
    removed(heap);
}

struct guarded {
    hw_shared_mutex mutex;
    uint64_t first, second;
};

static struct guarded *guarded_of(hw_shared *heap) {
    uint64_t offset = 0;
    CHECK(hw_shared_get_root(heap, "guarded", &offset) == HW_OK);
    return (struct guarded *)hw_shared_pointer_of(heap, offset);
}

static void lock_and_stay(void *unused) {
    (void)unused;
    hw_shared *heap = NULL;
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    struct guarded *guarded = guarded_of(heap);
    CHECK(hw_shared_lock(heap, &guarded->mutex) == HW_OK);
    guarded->first = 1;
    done(&ready);
    for (;;) pause();
}

/* The holder of a mutex is killed: the next one is told, until the data is declared consistent. */
static void mutexes_survive_their_holders(void) {
    hw_shared_settings settings = settings_of(HW_BEST);
    settings.patience = 50;
    hw_shared *heap = created(&settings);
    uint64_t offset = 0;
    CHECK(hw_shared_allocate_offset(heap, sizeof(struct guarded), 8, &offset) == HW_OK);
    CHECK(hw_shared_set_root(heap, "guarded", offset, NULL) == HW_OK);
    struct guarded *guarded = guarded_of(heap);
    memset(guarded, 0, sizeof *guarded);
    CHECK((char *)hw_shared_base(heap) + offset == (char *)guarded && hw_shared_base(NULL) == NULL);
    pid_t holder = child(lock_and_stay, NULL);
    await(&ready);
    CHECK(hw_shared_lock(heap, &guarded->mutex) == HW_TIMED_OUT && SAYS("does not unlock it"));
    CHECK(hw_shared_unlock(heap, &guarded->mutex) == HW_NOT_THE_HOLDER && SAYS("lock it first"));
    CHECK(hw_shared_mark_consistent(heap, &guarded->mutex) == HW_NOT_THE_HOLDER);
    kill_hard(holder);
    for (int attempt = 0; attempt < 2; ++attempt) {
        CHECK(hw_shared_lock(heap, &guarded->mutex) == HW_PREVIOUS_HOLDER_DIED && guarded->first == 1);
        CHECK(hw_shared_unlock(heap, &guarded->mutex) == HW_OK);
    }
    CHECK(hw_shared_lock(heap, &guarded->mutex) == HW_PREVIOUS_HOLDER_DIED);
    guarded->second = guarded->first;
    CHECK(hw_shared_mark_consistent(heap, &guarded->mutex) == HW_OK);
    CHECK(hw_shared_unlock(heap, &guarded->mutex) == HW_OK);
    CHECK(hw_shared_lock(heap, &guarded->mutex) == HW_OK && hw_shared_unlock(heap, &guarded->mutex) == HW_OK);
    CHECK(hw_shared_lock(heap, NULL) == HW_NULL_POINTER);
    hw_shared_mutex elsewhere = {0, 0};
    CHECK(hw_shared_lock(heap, &elsewhere) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_lock(heap, (hw_shared_mutex *)((char *)guarded + 4)) == HW_NOT_A_BLOCK);
    /* Half of it lies in the segment. */
    char *end = (char *)hw_shared_base(heap) + hw_shared_overhead(heap) + hw_shared_max_size(heap);
    CHECK(hw_shared_lock(heap, (hw_shared_mutex *)(end - 8)) == HW_NOT_A_BLOCK);
    removed(heap);
    hw_shared_settings growing;
    memset(&growing, 0, sizeof growing);
    growing.size = 1 << 16;
    growing.max_size = 1 << 24;
    CHECK(hw_shared_create(name, &growing, &heap) == HW_OK);
    hw_shared_mutex *behind = (hw_shared_mutex *)hw_shared_pointer_of(heap, hw_shared_overhead(heap) + (1 << 20));
    CHECK(behind != NULL && hw_shared_lock(heap, behind) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_unlock(heap, behind) == HW_NOT_A_BLOCK);
    CHECK(hw_shared_grow(heap, 2 << 20) == HW_OK);
    CHECK(hw_shared_lock(heap, behind) == HW_OK && hw_shared_unlock(heap, behind) == HW_OK);
    removed(heap);
}

static void *come_and_go(void *argument) {
    (void)argument;
    for (;;) {
        hw_shared *heap = NULL;
        CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
        CHECK(hw_shared_grow(heap, hw_shared_size(heap) + 4096) == HW_OK);
        CHECK(hw_shared_close(heap) == HW_OK);
        pthread_testcancel();
    }
}

static void trace_nothing(const void *block, size_t size, hw_shared_reporter report, void *library, void *context) {
    (void)block, (void)size, (void)report, (void)library, (void)context;
}

/* In a thread that has not hashed anything yet: the C library's source of random keys is a cancellation point. */
static void *reclaim_while_cancelled(void *returned) {
    hw_shared *heap = NULL;
    CHECK(hw_shared_open(name, NULL, &heap) == HW_OK);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(hw_shared_reclaim(heap, HW_RECLAIM_DEAD, NULL) == HW_OK);
    CHECK(hw_shared_reclaim_unreachable(heap, HW_RECLAIM_DEAD, trace_nothing, NULL, NULL) == HW_OK);
    CHECK(hw_shared_close(heap) == HW_OK);
    *(int *)returned = 1;
    pthread_testcancel();
    return NULL;
}

static void a_thread_is_not_cancelled_while_it_reclaims(void) {
    hw_shared_settings settings = settings_of(HW_BEST);
    hw_shared *heap = created(&settings);
    int returned = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reclaim_while_cancelled, &returned) == 0);
    void *end = NULL;
    CHECK(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED && returned);
    removed(heap);
}

/* No call is a cancellation point, though it opens, closes and reads files. */
static void threads_are_cancelled_between_calls(void) {
    hw_shared_settings settings = settings_of(HW_BEST);
    settings.max_size = 64 << 20;
    hw_shared *heap = created(&settings);
    for (int round = 0; round < 100; ++round) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
        struct timespec time = {0, round * 10000};
        nanosleep(&time, NULL);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
    }
    removed(heap);
}

int main(void) {
    name = segment_name("processes");
    ready = steps_of();
    for (unsigned policy = HW_FIRST; policy <= HW_GOOD; ++policy) {
        threads_share_a_handle(policy);
        processes_exchange_data(policy);
        outlive_the_killed(policy);
    }
    threads_contend_for_a_root();
    children_count_for_themselves();
    lose_patience();
    mutexes_survive_their_holders();
    threads_are_cancelled_between_calls();
    a_thread_is_not_cancelled_while_it_reclaims();
    puts("shared_processes: ok");
    return 0;
}
