/* Another kernel, for programs under the library: preloaded before it, this takes the place of the C library's mmap
 * and madvise. `SHIM` names one change:
 *
 *   populate   MADV_POPULATE_WRITE fails with EINVAL and is counted (before Linux 5.14)
 *   guard      MADV_GUARD_INSTALL fails with EINVAL and is counted (before Linux 6.13)
 *   pretends   madvise does nothing and says that it did, as emulators of other processors do for advice that they do
 *              not know: old ones for all of it
 *   pretends_guard   the same of MADV_GUARD_INSTALL and MADV_GUARD_REMOVE only
 *   hint       MAP_FIXED_NOREPLACE is not understood, so that the address is a hint (before Linux 4.17); one hint in
 *              three is not followed
 *   pages      mincore writes one byte per page of the program, as a kernel does whose pages are as long; an emulator
 *              leaves it to its own kernel, which writes one per page of its own
 *   thp        every private anonymous mapping may have huge pages, as under `always`; the setting itself would change
 *              what all other processes on the machine measure
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
enum { POPULATE_WRITE = 23, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

unsigned long shim_calls; /* refused, or placed elsewhere; programs read it as a weak symbol */

static int is(const char *change)
{
    const char *chosen = getenv("SHIM");
    return chosen && !strcmp(chosen, change);
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset)
{
    if ((flags & MAP_FIXED_NOREPLACE) && is("hint")) {
        flags &= ~MAP_FIXED_NOREPLACE;
        if (__atomic_add_fetch(&shim_calls, 1, __ATOMIC_RELAXED) % 3 == 0) at = NULL;
    }
    void *block = (void *)syscall(SYS_mmap, at, length, protection, flags, file, offset);
    if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) && is("thp")) {
        int error = errno;
        syscall(SYS_madvise, block, length, MADV_HUGEPAGE);
        errno = error;
    }
    return block;
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

int madvise(void *at, size_t length, int advice)
{
    if (is("pretends")) return 0;
    if ((advice == GUARD_INSTALL || advice == GUARD_REMOVE) && is("pretends_guard")) return 0;
    if ((advice == POPULATE_WRITE && is("populate")) ||
        ((advice == GUARD_INSTALL || advice == GUARD_REMOVE) && is("guard"))) {
        __atomic_fetch_add(&shim_calls, 1, __ATOMIC_RELAXED);
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, at, length, advice);
}

/* Page by page, into a vector that has room for the emulator's. */
int mincore(void *at, size_t length, unsigned char *residency)
{
    unsigned char own[64];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!is("pages")) return (int)syscall(SYS_mincore, at, length, residency);
    for (size_t from = 0; from < length; from += page) {
        if (syscall(SYS_mincore, (char *)at + from, page, own) != 0) return -1;
        residency[from / page] = own[0] & 1;
    }
    return 0;
}
