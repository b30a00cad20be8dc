// A plugin in C++ of a program that has no C++ library: what throws is loaded with it.
#include <cstddef>
#include <cstdint>
#include <new>

static volatile std::size_t huge = SIZE_MAX / 4;
static int handled;

static void handle()
{
    if (++handled == 3) std::set_new_handler(nullptr);
}

extern "C" int throws_bad_alloc()
{
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

extern "C" int returns_null()
{
    handled = 0;
    std::set_new_handler(handle);
    return !::operator new[](huge, std::nothrow) && handled == 3 && !::operator new(huge, std::nothrow);
}
