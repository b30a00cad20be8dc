// A program, or a library, that replaces some of the operators by its own, over a pool of its own. Which ones is said by
// a macro: BASIC, ALIGNED, ARRAY, NOTHROW or SIZED; none of them replaces nothing. LIBRARY leaves out the program, and
// USER replaces nothing because a library does so.
//
// Each form by default calls another ([new.delete] of the standard), so that a program that replaces the forms that the
// others end in gets every block.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

// To replace a form without its sized one is allowed, and what is tested.
#pragma GCC diagnostic ignored "-Wsized-deallocation"

struct Calls {
    int news;
    int deletes;
};

extern Calls calls;
bool is_pooled(const void *);

#ifndef USER
Calls calls;

// Blocks lie behind a header of their length, aligned to 64, and are never used again: what is freed is overwritten.
static struct alignas(64) Pool {
    unsigned char bytes[16 << 20];
    std::size_t used;
} pool;

bool is_pooled(const void *p)
{
    auto address = reinterpret_cast<std::uintptr_t>(p), start = reinterpret_cast<std::uintptr_t>(pool.bytes);
    return address - start < sizeof pool.bytes;
}

[[maybe_unused]] static void *take(std::size_t size)
{
    std::size_t whole = (size + 64 + 63) / 64 * 64;
    if (size > sizeof pool.bytes - pool.used || whole > sizeof pool.bytes - pool.used) return nullptr;
    unsigned char *header = pool.bytes + pool.used;
    pool.used += whole;
    std::memcpy(header, &size, sizeof size);
    calls.news++;
    return header + 64;
}

[[maybe_unused]] static void give(void *p)
{
    if (!p) return;
    CHECK(is_pooled(p));
    std::size_t size;
    std::memcpy(&size, static_cast<unsigned char *>(p) - 64, sizeof size);
    CHECK(size != SIZE_MAX);
    std::memset(p, 0xdd, size);
    std::memset(static_cast<unsigned char *>(p) - 64, 0xff, sizeof size);
    calls.deletes++;
}

[[maybe_unused]] static void *take_or_throw(std::size_t size)
{
    void *p = take(size);
    if (!p) throw std::bad_alloc();
    return p;
}
#endif

#if defined BASIC
void *operator new(std::size_t size) { return take_or_throw(size); }
void operator delete(void *p) noexcept { give(p); }
#elif defined ALIGNED
void *operator new(std::size_t size, std::align_val_t) { return take_or_throw(size); }
void operator delete(void *p, std::align_val_t) noexcept { give(p); }
#elif defined ARRAY
void *operator new[](std::size_t size) { return take_or_throw(size); }
void operator delete[](void *p) noexcept { give(p); }
#elif defined NOTHROW
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return take(size); }
void operator delete(void *p, const std::nothrow_t &) noexcept { give(p); }
#elif defined SIZED
void operator delete(void *p, std::size_t) noexcept
{
    calls.deletes++;
    ::operator delete(p);
}
#endif

#ifndef LIBRARY

enum { PLAIN, ALIGN, BRACKETS, NO_THROW, SIZE };

// Whether the calls that a form ends in by default are replaced. `kinds` is what the form is, in bits of the enum.
static int is_replaced(const char *variant, bool is_new, int kinds)
{
    auto has = [kinds](int kind) { return (kinds >> kind & 1) != 0; };
    if (!std::strcmp(variant, "basic")) return !has(ALIGN);
    if (!std::strcmp(variant, "aligned")) return has(ALIGN);
    if (!std::strcmp(variant, "array")) return has(BRACKETS) && !has(ALIGN);
    if (!std::strcmp(variant, "nothrow")) return kinds == 1 << NO_THROW;
    if (!std::strcmp(variant, "sized")) return !is_new && kinds == 1 << SIZE;
    return 0;
}

static const char *variant;

// Makes a block by one form and drops it by another that goes with it, and checks which of the program's forms that was.
template <class Make, class Drop> static void check(int made, Make make, int dropped, Drop drop)
{
    for (std::size_t size : {1, 48, 1000, 20000, 300000}) {
        Calls before = calls;
        int news = is_replaced(variant, true, made), deletes = is_replaced(variant, false, dropped);
        void *p = make(size), *q = make(size);
        CHECK(p && q && p != q);
        std::memset(p, 1, size);
        std::memset(q, 2, size);
        for (std::size_t i = 0; i < size; i++) CHECK(static_cast<unsigned char *>(p)[i] == 1);
        CHECK(is_pooled(p) == (news != 0) && is_pooled(q) == (news != 0));
        CHECK(calls.news - before.news == 2 * news);
        // A delete that would get a block of the other kind is not called: the program would be wrong.
        if (news == deletes || !std::strcmp(variant, "sized")) {
            drop(p, size);
            drop(q, size);
            CHECK(calls.deletes - before.deletes == 2 * deletes);
        }
    }
}

static void test_forms()
{
    const std::align_val_t wide{64};
    auto sized = [](void *p, std::size_t n) { ::operator delete(p, n); };
    auto plain = [](void *p, std::size_t) { ::operator delete(p); };
    auto nothrow = [](void *p, std::size_t) { ::operator delete(p, std::nothrow); };
    auto make = [](std::size_t n) { return ::operator new(n); };
    auto make_nothrow = [](std::size_t n) { return ::operator new(n, std::nothrow); };
    check(0, make, 0, plain);
    check(0, make, 1 << SIZE, sized);
    check(0, make, 1 << NO_THROW, nothrow);
    check(1 << NO_THROW, make_nothrow, 0, plain);
    check(1 << NO_THROW, make_nothrow, 1 << SIZE, sized);
    check(1 << NO_THROW, make_nothrow, 1 << NO_THROW, nothrow);

    const int array = 1 << BRACKETS;
    auto sized_array = [](void *p, std::size_t n) { ::operator delete[](p, n); };
    auto plain_array = [](void *p, std::size_t) { ::operator delete[](p); };
    auto nothrow_array = [](void *p, std::size_t) { ::operator delete[](p, std::nothrow); };
    auto make_array = [](std::size_t n) { return ::operator new[](n); };
    auto make_nothrow_array = [](std::size_t n) { return ::operator new[](n, std::nothrow); };
    check(array, make_array, array, plain_array);
    check(array, make_array, array | 1 << SIZE, sized_array);
    check(array, make_array, array | 1 << NO_THROW, nothrow_array);
    check(array | 1 << NO_THROW, make_nothrow_array, array, plain_array);
    check(array | 1 << NO_THROW, make_nothrow_array, array | 1 << SIZE, sized_array);
    check(array | 1 << NO_THROW, make_nothrow_array, array | 1 << NO_THROW, nothrow_array);

    const int align = 1 << ALIGN;
    auto make_aligned = [=](std::size_t n) { return ::operator new(n, wide); };
    auto make_aligned_nothrow = [=](std::size_t n) { return ::operator new(n, wide, std::nothrow); };
    check(align, make_aligned, align, [=](void *p, std::size_t) { ::operator delete(p, wide); });
    check(align, make_aligned, align | 1 << SIZE, [=](void *p, std::size_t n) { ::operator delete(p, n, wide); });
    check(align | 1 << NO_THROW, make_aligned_nothrow, align | 1 << NO_THROW,
        [=](void *p, std::size_t) { ::operator delete(p, wide, std::nothrow); });

    const int aligned_array = align | array;
    auto make_aligned_array = [=](std::size_t n) { return ::operator new[](n, wide); };
    auto make_aligned_nothrow_array = [=](std::size_t n) { return ::operator new[](n, wide, std::nothrow); };
    check(aligned_array, make_aligned_array, aligned_array,
        [=](void *p, std::size_t) { ::operator delete[](p, wide); });
    check(aligned_array, make_aligned_array, aligned_array | 1 << SIZE,
        [=](void *p, std::size_t n) { ::operator delete[](p, n, wide); });
    check(aligned_array | 1 << NO_THROW, make_aligned_nothrow_array, aligned_array | 1 << NO_THROW,
        [=](void *p, std::size_t) { ::operator delete[](p, wide, std::nothrow); });
}

struct alignas(128) Wide {
    char bytes[128];
};

static void test_library()
{
    {
        std::map<std::string, std::vector<int>> map;
        for (int i = 0; i < 2000; i++) map[std::to_string(i * 7919 % 2003) + std::string(50, 'x')].push_back(i);
        std::size_t total = 0;
        for (auto &entry : map) total += entry.second.size();
        CHECK(total == 2000);
        auto wides = std::make_unique<Wide[]>(3);
        auto strings = std::make_unique<std::string[]>(9);
        for (int i = 0; i < 100; i++) {
            try {
                throw std::runtime_error("of text that is longer than a short string is " + std::to_string(i));
            } catch (const std::exception &error) {
                CHECK(std::string(error.what()).size() > 40);
            }
        }
    }
    if (!std::strcmp(variant, "basic")) CHECK(calls.news > 4000);
}

int main(int argc, char **argv)
{
    variant = argc > 1 ? argv[1] : "";
    test_forms();
    test_library();
    // A request that the pool refuses: the throwing form throws, the others catch.
    if (!std::strcmp(variant, "basic")) {
        volatile std::size_t much = std::size_t(1) << 30;
        CHECK(::operator new(much, std::nothrow) == nullptr);
        CHECK(::operator new[](much, std::nothrow) == nullptr);
        bool is_thrown = false;
        try {
            ::operator delete[](::operator new[](much));
        } catch (const std::bad_alloc &) {
            is_thrown = true;
        }
        CHECK(is_thrown);
    }
    std::puts("replaced: ok");
}

#endif
