/* heapwright.hpp: handles, pointers, containers at two addresses, errors, and mutexes. */
#include "shared_heap.h"

#include <heapwright.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

using heapwright::offset_ptr;
using heapwright::shared_heap;
using numbers = std::vector<std::uint64_t, heapwright::allocator<std::uint64_t>>;

static void pointers_keep_their_targets() {
    int values[4] = {1, 2, 3, 4};
    offset_ptr<int> first(values), none, copy = first;
    CHECK(!none && none == nullptr && first && copy == first && *copy == 1 && first[3] == 4);
    offset_ptr<int> end = first + 4;
    CHECK(end - first == 4 && first < end && *--end == 4 && *(2 + first) == 3);
    CHECK(*first++ == 1 && *first == 2 && *first-- == 2 && *first == 1);
    offset_ptr<const int> constant = first;
    offset_ptr<void> nothing = first;
    CHECK(constant == first && static_cast<offset_ptr<int>>(nothing) == first);
    CHECK(std::pointer_traits<offset_ptr<int>>::pointer_to(values[2]) == first + 2);
    first = nullptr;
    CHECK(!first && copy);
}

static void vectors_mean_the_same_at_two_addresses() {
    hw_shared_settings settings = settings_of(HW_BEST);
    settings.max_size = 16 << 20;
    shared_heap heap = shared_heap::create(name, settings);
    shared_heap there = shared_heap::open(name);
    CHECK(hw_shared_base(heap.get()) != hw_shared_base(there.get()));
    numbers *made = heap.find_or_construct<numbers>("numbers", heap.allocator<std::uint64_t>());
    for (std::uint64_t i = 0; i < 1000; ++i) made->push_back(i);
    numbers *found = there.find_or_construct<numbers>("numbers", there.allocator<std::uint64_t>());
    CHECK(static_cast<void *>(found) != static_cast<void *>(made) && found->size() == 1000 && (*found)[999] == 999);
    /* Grown through the other handle, read through the first. */
    for (std::uint64_t i = 1000; i < 5000; ++i) found->push_back(i);
    CHECK(made->size() == 5000 && made->back() == 4999);
    CHECK(made->get_allocator() == heap.allocator<char>() && made->get_allocator() != there.allocator<char>());
    there.remove_root("numbers");
    there.destroy(found);
    hw_counters counters;
    CHECK(hw_shared_counters_of(heap.get(), &counters) == HW_OK && counters.live == 0);
    shared_heap moved = std::move(heap);
    CHECK(heap.get() == nullptr && moved.root<int>("numbers") == nullptr);
    shared_heap::unlink(name);
}

static void failures_are_thrown_with_their_text() {
    try {
        shared_heap::open("there-is-no-such-heap");
        CHECK(false);
    } catch (const heapwright::error &error) {
        CHECK(error.status() == HW_NOT_FOUND && strstr(error.what(), "or create it") != nullptr);
    }
    hw_shared_settings settings = settings_of(HW_FIRST);
    shared_heap heap = shared_heap::create(name, settings);
    try {
        heap.remove_root(std::string("k\0a", 3));
        CHECK(false);
    } catch (const heapwright::error &error) {
        CHECK(error.status() == HW_BAD_ROOT_NAME);
    }
    try {
        heap.allocate(1 << 20);
        CHECK(false);
    } catch (const heapwright::error &error) {
        CHECK(error.status() == HW_FULL);
    }
    try {
        numbers many(1 << 20, 0, heap.allocator<std::uint64_t>());
        CHECK(false);
    } catch (const std::bad_alloc &) {
    }
    struct thrower {
        thrower() { throw 7; }
    };
    try {
        heap.construct<thrower>();
        CHECK(false);
    } catch (int) {
    }
    hw_counters counters;
    CHECK(hw_shared_counters_of(heap.get(), &counters) == HW_OK && counters.live == 0);
    shared_heap::unlink(name);
}

struct guarded {
    heapwright::robust_mutex mutex;
    std::uint64_t value = 0;
};

static void die_holding(void *) {
    shared_heap heap = shared_heap::open(name);
    guarded *data = heap.root<guarded>("guarded");
    heapwright::robust_lock lock(heap, data->mutex);
    CHECK(!lock.previous_holder_died());
    data->value = 1;
    raise(SIGKILL);
}

static void mutexes_tell_of_a_dead_holder() {
    hw_shared_settings settings = settings_of(HW_GOOD);
    shared_heap heap = shared_heap::create(name, settings);
    guarded *data = heap.find_or_construct<guarded>("guarded");
    pid_t holder = child(die_holding, nullptr);
    int status = status_of(holder);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    {
        heapwright::robust_lock lock(heap, data->mutex);
        CHECK(lock.previous_holder_died() && data->value == 1);
        lock.mark_consistent();
    }
    heapwright::robust_lock lock(heap, data->mutex);
    CHECK(!lock.previous_holder_died());
    shared_heap::unlink(name);
}

static void a_list_is_changed_with_its_blocks() {
    struct node {
        std::uint64_t next, value;
    };
    auto heap = heapwright::shared_heap::create(name);
    auto &head = *static_cast<std::uint64_t *>(heap.allocate(sizeof(std::uint64_t)));
    head = 0;
    for (std::uint64_t value = 0; value < 10; ++value) {
        heap.allocate_into(head, sizeof(node), [&](void *block, std::uint64_t old) { new (block) node{old, value}; });
    }
    CHECK(static_cast<node *>(heap.resize_into(head, 3000))->value == 9);
    std::uint64_t sum = 0;
    while (heap.free_from(head, [&](const void *block) {
        sum += static_cast<const node *>(block)->value;
        return static_cast<const node *>(block)->next;
    })) {
    }
    CHECK(sum == 45 && head == 0 && !heap.free_from(head));
    heapwright::shared_heap::unlink(name);
}

/* A thread that the child does not have is in the middle of an allocator's search for its heap. */
static void children_close_what_threads_use() {
    auto heap = shared_heap::create(name);
    std::atomic<bool> done{false};
    std::thread user([&] {
        while (!done) heap.allocator<int>().deallocate(nullptr, 1);
    });
    for (int round = 0; round < 300; ++round) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            { shared_heap mine = std::move(heap); }
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    done = true;
    user.join();
    shared_heap::unlink(name);
}

int main() {
    name = segment_name("cplusplus");
    pointers_keep_their_targets();
    vectors_mean_the_same_at_two_addresses();
    failures_are_thrown_with_their_text();
    mutexes_tell_of_a_dead_holder();
    a_list_is_changed_with_its_blocks();
    children_close_what_threads_use();
    puts("shared_cplusplus: ok");
    return 0;
}
