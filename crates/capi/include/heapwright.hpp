/* heapwright.hpp - shared heaps for C++17: handles that close themselves, pointers that mean the same in every process,
 * an allocator for containers, and a mutex. Header only, over heapwright.h and its library.
 *
 *     c++ -std=c++17 program.cpp -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * Containers must use the allocator's pointer type for everything that they store, as those of Boost.Container do.
 * Those of most standard libraries store raw pointers in their nodes and do not work at another address: of libstdc++
 * and libc++, only std::vector and std::basic_string (libc++) are safe to share.
 *
 * Operations throw heapwright::error, and std::bad_alloc where an allocator must: the header does not compile without
 * exceptions (-fno-exceptions).
 */
#ifndef HEAPWRIGHT_HPP
#define HEAPWRIGHT_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "heapwright.h"

namespace heapwright {

/* A call that failed: its status, and a text that says what failed, where, and what to do next. */
class error : public std::runtime_error {
public:
    error(hw_status status, const std::string &text) : std::runtime_error(text), status_(status) {}

    hw_status status() const noexcept { return status_; }

private:
    hw_status status_;
};

namespace detail {

inline void require(hw_status status) {
    if (status != HW_OK) throw error(status, hw_shared_last_error());
}

/* The text of a name. Behind a NUL it would be cut off, and be another name. */
inline const char *text_of(const std::string &name, hw_status refused) {
    if (name.find('\0') != std::string::npos) throw error(refused, "a name has a NUL in it: leave it out");
    return name.c_str();
}

/* The heaps that are open in this process, by the addresses of their first bytes. An allocator in a segment finds its
 * heap here, because a handle means nothing in another process. There is no lock: in the child of a fork it could be
 * that of a thread which the child does not have. Entries are used again and never freed. */
class open_heaps {
public:
    static void add(hw_shared *heap) {
        const void *base = hw_shared_base(heap);
        for (entry *it = first().load(); it != nullptr; it = it->next) {
            hw_shared *none = nullptr;
            if (!it->heap.compare_exchange_strong(none, heap)) continue;
            it->base = base;
            return;
        }
        entry *made = new entry(base, heap, first().load());
        while (!first().compare_exchange_weak(made->next, made)) {
        }
    }

    static void remove(hw_shared *heap) noexcept {
        for (entry *it = first().load(); it != nullptr; it = it->next) {
            if (it->heap.load() != heap) continue;
            it->base = nullptr;
            it->heap = nullptr;
            return;
        }
    }

    /* Returns the heap whose first byte is at `base`; null if it is not open. */
    static hw_shared *at(const void *base) noexcept {
        for (entry *it = first().load(); it != nullptr; it = it->next) {
            if (it->base.load() == base) return it->heap.load();
        }
        return nullptr;
    }

private:
    struct entry {
        entry(const void *at, hw_shared *of, entry *behind) : base(at), heap(of), next(behind) {}

        std::atomic<const void *> base; /* null while the entry is not used */
        std::atomic<hw_shared *> heap;
        entry *next;
    };

    static std::atomic<entry *> &first() {
        static std::atomic<entry *> first{nullptr};
        return first;
    }
};

} // namespace detail

/* A pointer that contains its distance to what it points at. Both may lie in a segment, which every process maps at an
 * address of its own; or the pointer in a variable of this process. A random-access iterator, and a pointer type for
 * allocators. It cannot point at the byte behind its own first one: that distance stands for null. */
template <class T> class offset_ptr {
    template <class U> friend class offset_ptr;

public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = offset_ptr;
    using reference = std::add_lvalue_reference_t<T>;
    using iterator_category = std::random_access_iterator_tag;
    template <class U> using rebind = offset_ptr<U>;

    offset_ptr() noexcept : distance_(null) {}
    offset_ptr(T *target) noexcept { set(target); }
    offset_ptr(const offset_ptr &other) noexcept { set(other.get()); }
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    offset_ptr(const offset_ptr<U> &other) noexcept {
        set(other.get());
    }
    template <class U, class = std::enable_if_t<!std::is_convertible_v<U *, T *>>, class = void>
    explicit offset_ptr(const offset_ptr<U> &other) noexcept {
        set(static_cast<T *>(other.get()));
    }

    offset_ptr &operator=(const offset_ptr &other) noexcept {
        set(other.get());
        return *this;
    }
    offset_ptr &operator=(T *target) noexcept {
        set(target);
        return *this;
    }

    T *get() const noexcept {
        if (distance_ == null) return nullptr;
        return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(this) + distance_);
    }

    explicit operator bool() const noexcept { return distance_ != null; }
    T *operator->() const noexcept { return get(); }
    reference operator*() const noexcept { return *get(); }
    template <class D> std::enable_if_t<std::is_integral_v<D>, std::add_lvalue_reference_t<T>> operator[](D index) const {
        return get()[index];
    }

    template <class U = T> static offset_ptr pointer_to(std::enable_if_t<!std::is_void_v<U>, U> &target) noexcept {
        return offset_ptr(std::addressof(target));
    }

    offset_ptr &operator+=(difference_type count) noexcept {
        set(get() + count);
        return *this;
    }
    offset_ptr &operator-=(difference_type count) noexcept { return *this += -count; }
    offset_ptr &operator++() noexcept { return *this += 1; }
    offset_ptr &operator--() noexcept { return *this += -1; }
    offset_ptr operator++(int) noexcept {
        offset_ptr before(*this);
        ++*this;
        return before;
    }
    offset_ptr operator--(int) noexcept {
        offset_ptr before(*this);
        --*this;
        return before;
    }
    friend offset_ptr operator+(const offset_ptr &start, difference_type count) noexcept {
        return offset_ptr(start.get() + count);
    }
    friend offset_ptr operator+(difference_type count, const offset_ptr &start) noexcept { return start + count; }
    friend offset_ptr operator-(const offset_ptr &start, difference_type count) noexcept {
        return offset_ptr(start.get() - count);
    }
    friend difference_type operator-(const offset_ptr &end, const offset_ptr &start) noexcept {
        return end.get() - start.get();
    }

    friend bool operator==(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() == b.get(); }
    friend bool operator!=(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() != b.get(); }
    friend bool operator<(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() < b.get(); }
    friend bool operator>(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() > b.get(); }
    friend bool operator<=(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() <= b.get(); }
    friend bool operator>=(const offset_ptr &a, const offset_ptr &b) noexcept { return a.get() >= b.get(); }

private:
    static constexpr std::uintptr_t null = 1;

    void set(T *target) noexcept {
        distance_ = target == nullptr
                        ? null
                        : reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(this);
    }

    std::uintptr_t distance_;
};

template <class T> class allocator;

/* An open shared heap, closed when the handle is destroyed. All blocks must then be out of use in this process. */
class shared_heap {
public:
    static shared_heap create(const std::string &name, const hw_shared_settings &settings = {}) {
        hw_shared *heap = nullptr;
        detail::require(hw_shared_create(detail::text_of(name, HW_BAD_NAME), &settings, &heap));
        return shared_heap(heap);
    }
    static shared_heap open(const std::string &name, const hw_shared_access &access = {}) {
        hw_shared *heap = nullptr;
        detail::require(hw_shared_open(detail::text_of(name, HW_BAD_NAME), &access, &heap));
        return shared_heap(heap);
    }
    static shared_heap open_or_create(const std::string &name, const hw_shared_settings &settings = {}) {
        hw_shared *heap = nullptr;
        detail::require(hw_shared_open_or_create(detail::text_of(name, HW_BAD_NAME), &settings, &heap));
        return shared_heap(heap);
    }
    /* Removes the segment's name. */
    static void unlink(const std::string &name) {
        detail::require(hw_shared_unlink(detail::text_of(name, HW_BAD_NAME)));
    }

    shared_heap(shared_heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    shared_heap &operator=(shared_heap &&other) noexcept {
        std::swap(heap_, other.heap_);
        return *this;
    }
    shared_heap(const shared_heap &) = delete;
    shared_heap &operator=(const shared_heap &) = delete;
    ~shared_heap() {
        if (heap_ == nullptr) return;
        detail::open_heaps::remove(heap_);
        hw_shared_close(heap_);
    }

    /* The handle, for the functions of heapwright.h; do not close it. */
    hw_shared *get() const noexcept { return heap_; }

    /* Allocates `bytes` bytes. */
    void *allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
        void *block = nullptr;
        detail::require(hw_shared_try_allocate(heap_, bytes, alignment, &block));
        return block;
    }
    /* Allocates, fills and publishes in one step: `word`, in a block of the segment, contains the block's offset
     * afterwards. `fill(void *block, std::uint64_t old)` runs under the heap's lock and must not throw. Returns the
     * block's address. See hw_shared_allocate_into. */
    template <typename Fill> void *allocate_into(std::uint64_t &word, std::size_t bytes, Fill fill) {
        std::uint64_t offset = 0;
        auto call = [](void *block, std::uint64_t old, void *context) { (*static_cast<Fill *>(context))(block, old); };
        detail::require(hw_shared_allocate_into(heap_, offset_of_word(word), bytes, call, &fill, &offset));
        return hw_shared_pointer_of(heap_, offset);
    }
    /* Resizes the block that `word` shows; the word follows it. Returns its address. */
    void *resize_into(std::uint64_t &word, std::size_t bytes) {
        std::uint64_t offset = 0;
        detail::require(hw_shared_resize_into(heap_, offset_of_word(word), bytes, &offset));
        return hw_shared_pointer_of(heap_, offset);
    }
    /* Frees the block that `word` shows, which contains what `next(const void *block)` returned afterwards. Returns
     * whether there was one. */
    template <typename Next> bool free_from(std::uint64_t &word, Next next) {
        std::uint64_t offset = 0;
        auto call = [](const void *block, void *context) -> std::uint64_t {
            return (*static_cast<Next *>(context))(block);
        };
        detail::require(hw_shared_free_from(heap_, offset_of_word(word), call, &next, &offset));
        return offset != 0;
    }
    bool free_from(std::uint64_t &word) {
        return free_from(word, [](const void *) { return std::uint64_t{0}; });
    }
    void deallocate(void *block) { detail::require(hw_shared_free(heap_, block)); }

    /* Allocates and constructs a value. A process that is killed here leaves a block that reclaiming finds. */
    template <class T, class... Arguments> T *construct(Arguments &&...arguments) {
        void *block = allocate(sizeof(T), alignof(T));
        try {
            return new (block) T(std::forward<Arguments>(arguments)...);
        } catch (...) {
            hw_shared_free(heap_, block);
            throw;
        }
    }
    /* Destroys a value and frees its block. Null has no effect. */
    template <class T> void destroy(T *value) {
        if (value == nullptr) return;
        value->~T();
        deallocate(value);
    }

    /* Returns what the root points at; null if it is not set. The type is the one that the root was set with. */
    template <class T> T *root(const std::string &name) const {
        std::uint64_t offset = 0;
        detail::require(hw_shared_get_root(heap_, detail::text_of(name, HW_BAD_ROOT_NAME), &offset));
        return static_cast<T *>(hw_shared_pointer_of(heap_, offset));
    }
    /* Points a root at the start of a block. */
    template <class T> void set_root(const std::string &name, T *value) {
        detail::require(hw_shared_set_root(heap_, detail::text_of(name, HW_BAD_ROOT_NAME),
                                           hw_shared_offset_of(heap_, value), nullptr));
    }
    void remove_root(const std::string &name) {
        detail::require(hw_shared_remove_root(heap_, detail::text_of(name, HW_BAD_ROOT_NAME), nullptr));
    }
    /* Returns the root's value. If the root is not set, constructs one and sets the root: one process does, even if
     * several try at once. */
    template <class T, class... Arguments> T *find_or_construct(const std::string &name, Arguments &&...arguments) {
        if (T *found = root<T>(name)) return found;
        T *made = construct<T>(std::forward<Arguments>(arguments)...);
        hw_status status = hw_shared_replace_root(heap_, name.c_str(), 0, hw_shared_offset_of(heap_, made));
        if (status == HW_OK) return made;
        std::string text = hw_shared_last_error();
        destroy(made);
        if (status == HW_ROOT_DIFFERS) return root<T>(name);
        throw error(status, text);
    }

    /* Returns an allocator for containers in this heap. */
    template <class T> heapwright::allocator<T> allocator() const noexcept;

private:
    std::uint64_t offset_of_word(const std::uint64_t &word) const { return hw_shared_offset_of(heap_, &word); }
    explicit shared_heap(hw_shared *heap) : heap_(heap) {
        try {
            detail::open_heaps::add(heap);
        } catch (...) {
            hw_shared_close(heap);
            throw;
        }
    }

    hw_shared *heap_;
};

/* An allocator that containers in a segment store with their data. In each process it allocates by the handle that the
 * process has open for its segment. */
template <class T> class allocator {
    template <class U> friend class allocator;

public:
    using value_type = T;
    using pointer = offset_ptr<T>;
    using const_pointer = offset_ptr<const T>;
    using void_pointer = offset_ptr<void>;
    using const_void_pointer = offset_ptr<const void>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;
    template <class U> struct rebind {
        using other = allocator<U>;
    };

    explicit allocator(const shared_heap &heap) noexcept : base_(static_cast<char *>(hw_shared_base(heap.get()))) {}
    allocator(const allocator &other) noexcept = default;
    allocator &operator=(const allocator &other) noexcept = default;
    template <class U> allocator(const allocator<U> &other) noexcept : base_(other.base_) {}

    pointer allocate(size_type count) {
        if (count > max_size()) throw std::bad_alloc();
        void *block = nullptr;
        if (hw_shared_try_allocate(heap(), count * sizeof(T), alignof(T), &block) != HW_OK) throw std::bad_alloc();
        return pointer(static_cast<T *>(block));
    }
    void deallocate(const pointer &block, size_type) noexcept { hw_shared_free(heap(), block.get()); }

    size_type max_size() const noexcept { return std::numeric_limits<difference_type>::max() / sizeof(T); }

    template <class U> bool operator==(const allocator<U> &other) const noexcept { return base_ == other.base_; }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept { return !(*this == other); }

private:
    hw_shared *heap() const noexcept { return detail::open_heaps::at(base_.get()); }

    offset_ptr<char> base_;
};

template <class T> heapwright::allocator<T> shared_heap::allocator() const noexcept {
    return heapwright::allocator<T>(*this);
}

/* A mutex for data in a segment. It is part of a value that is constructed there. */
class robust_mutex {
public:
    robust_mutex() noexcept : mutex_{0, 0} {}
    robust_mutex(const robust_mutex &) = delete;
    robust_mutex &operator=(const robust_mutex &) = delete;

    hw_shared_mutex *get() noexcept { return &mutex_; }

private:
    hw_shared_mutex mutex_;
};

/* Holds a mutex until it is destroyed. */
class robust_lock {
public:
    /* Throws error with HW_TIMED_OUT when a holder that lives does not unlock the mutex in time. */
    robust_lock(const shared_heap &heap, robust_mutex &mutex) : heap_(heap.get()), mutex_(mutex.get()) {
        hw_status status = hw_shared_lock(heap_, mutex_);
        if (status != HW_PREVIOUS_HOLDER_DIED) detail::require(status);
        died_ = status == HW_PREVIOUS_HOLDER_DIED;
    }
    robust_lock(const robust_lock &) = delete;
    robust_lock &operator=(const robust_lock &) = delete;
    ~robust_lock() { hw_shared_unlock(heap_, mutex_); }

    /* Returns whether a process died while it held the mutex and the data was not declared consistent since. */
    bool previous_holder_died() const noexcept { return died_; }

    void mark_consistent() {
        detail::require(hw_shared_mark_consistent(heap_, mutex_));
        died_ = false;
    }

private:
    hw_shared *heap_;
    hw_shared_mutex *mutex_;
    bool died_ = false;
};

} // namespace heapwright

#endif
