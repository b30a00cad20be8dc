// Frees blocks by operators and functions that are told their sizes: "right" many of them with their own; any other
// argument is the name of a form, the block's size, and the size that the form is told.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "check.h"

extern "C" void free_sized(void *, std::size_t) __attribute__((weak)); // C23: not every C library has them
extern "C" void free_aligned_sized(void *, std::size_t, std::size_t) __attribute__((weak));

static void free_as(const char *form, std::size_t size, std::size_t told, std::size_t align)
{
    const std::align_val_t wide{align};
    if (!std::strcmp(form, "delete")) {
        ::operator delete(::operator new(size), told);
    } else if (!std::strcmp(form, "delete[]")) {
        ::operator delete[](::operator new[](size), told);
    } else if (!std::strcmp(form, "aligned delete")) {
        ::operator delete(::operator new(size, wide), told, wide);
    } else if (!std::strcmp(form, "aligned delete[]")) {
        ::operator delete[](::operator new[](size, wide), told, wide);
    } else if (!std::strcmp(form, "free_sized")) {
        free_sized(std::malloc(size), told);
    } else if (!std::strcmp(form, "free_aligned_sized")) {
        free_aligned_sized(aligned_alloc(align, size), align, told);
    } else if (!std::strcmp(form, "realloc")) {
        void *p = std::malloc(size / 2 + 1);
        p = std::realloc(p, size * 3 + 1);
        free_sized(std::realloc(p, size), told);
    } else {
        CHECK(!"a form");
    }
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        free_as(argv[1], std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10), 64);
    } else {
        static const char *const forms[] = {"delete", "delete[]", "aligned delete", "aligned delete[]", "free_sized",
            "free_aligned_sized", "realloc"};
        std::mt19937_64 random(1);
        for (int i = 0; i < 40000; i++) {
            std::size_t size = random() >> (44 + random() % 20);
            if (i % 4) size %= 40000;
            std::size_t align = std::size_t(1) << random() % 14;
            const char *form = forms[random() % 7];
            if (size || std::strcmp(form, "realloc")) free_as(form, size, size, align);
        }
    }
    std::puts("went on");
}
