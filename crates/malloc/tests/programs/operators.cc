// Every operator new and delete, with and without memory.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static volatile std::size_t huge = SIZE_MAX / 4;
static int handled;

struct alignas(256) Wide {
    char bytes[300];
};

static void give_up()
{
    if (++handled == 3) std::set_new_handler(nullptr);
}

struct Refusal {};

static void refuse() { throw Refusal(); }

template <class Act> static bool throws_bad_alloc(Act act)
{
    try {
        act();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void test_operators()
{
    const std::align_val_t wide{512};
    for (std::size_t n = 0; n < 3000; n = n * 2 + 1) {
        void *p = ::operator new(n);
        CHECK(p);
        ::operator delete(p);
        p = ::operator new[](n);
        ::operator delete[](p, n);
        p = ::operator new(n, std::nothrow);
        ::operator delete(p, std::nothrow);
        p = ::operator new[](n, std::nothrow);
        ::operator delete[](p, std::nothrow);
        p = ::operator new(n);
        ::operator delete(p, n);
        p = ::operator new(n, wide);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 0);
        ::operator delete(p, wide);
        p = ::operator new[](n, wide);
        ::operator delete[](p, n, wide);
        p = ::operator new(n, wide, std::nothrow);
        ::operator delete(p, wide, std::nothrow);
        p = ::operator new[](n, wide, std::nothrow);
        ::operator delete[](p, wide, std::nothrow);
        p = ::operator new(n, wide);
        ::operator delete(p, n, wide);
    }
    ::operator delete(nullptr);
    ::operator delete(nullptr, std::size_t(8));
    auto wides = std::make_unique<Wide[]>(5);
    CHECK(reinterpret_cast<std::uintptr_t>(wides.get()) % 256 == 0);
}

static void test_out_of_memory()
{
    const std::align_val_t wide{512};
    CHECK(throws_bad_alloc([] { ::operator delete(::operator new(huge)); }));
    CHECK(throws_bad_alloc([] { ::operator delete[](::operator new[](huge)); }));
    CHECK(throws_bad_alloc([=] { ::operator delete(::operator new(huge, wide), wide); }));
    CHECK(throws_bad_alloc([=] { ::operator delete[](::operator new[](huge, wide), wide); }));
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    CHECK(::operator new[](huge, std::nothrow) == nullptr);
    CHECK(::operator new(huge, wide, std::nothrow) == nullptr);
    CHECK(::operator new[](huge, wide, std::nothrow) == nullptr);
    CHECK(throws_bad_alloc([] { std::vector<char>().reserve(huge); }));
    std::set_new_handler(give_up);
    CHECK(throws_bad_alloc([] { ::operator delete(::operator new(huge)); }));
    CHECK(handled == 3);
    std::set_new_handler(refuse);
    bool refused = false;
    try {
        ::operator delete(::operator new(huge));
    } catch (const Refusal &) {
        refused = true;
    }
    CHECK(refused);
    std::set_new_handler(nullptr);
}

// The forms that return null are the throwing ones with a catch around them: the new-handler is called.
template <class Act> static void check_handled(Act act)
{
    handled = 0;
    std::set_new_handler(give_up);
    CHECK(act() == nullptr);
    CHECK(handled == 3 && std::get_new_handler() == nullptr);
    std::set_new_handler(refuse);
    CHECK(act() == nullptr);
    std::set_new_handler(nullptr);
    CHECK(act() == nullptr);
}

static void test_out_of_memory_without_exceptions()
{
    const std::align_val_t wide{512};
    check_handled([] { return ::operator new(huge, std::nothrow); });
    check_handled([] { return ::operator new[](huge, std::nothrow); });
    check_handled([=] { return ::operator new(huge, wide, std::nothrow); });
    check_handled([=] { return ::operator new[](huge, wide, std::nothrow); });
}

static void test_containers()
{
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 2000; i++) map[std::to_string(i * 7919 % 2003) + std::string(50, 'x')].push_back(i);
    std::size_t total = 0;
    for (auto &entry : map) total += entry.second.size();
    CHECK(total == 2000);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] {
            for (int round = 0; round < 2000; round++) std::string(static_cast<std::size_t>(round), 'y');
        });
    for (auto &thread : threads) thread.join();
}

int main()
{
    test_operators();
    test_out_of_memory();
    test_out_of_memory_without_exceptions();
    test_containers();
    std::puts("operators: ok");
}
