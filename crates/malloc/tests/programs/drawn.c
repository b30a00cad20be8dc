/* Maps 30,000 chunks at addresses that are drawn below 2^46, as V8 does, and then allocates 4 GiB in blocks of 30,000
 * bytes, which are not touched. A chunk behind a heap that cannot grow elsewhere would end its growth: at 64 TiB of
 * addresses, a chunk lies in its next 4 GiB with a probability of 5 in 6. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "process.h"

static void *volatile last;

static uint64_t drawn(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(void)
{
    const uintptr_t below = ((uintptr_t)1 << 46) - 1;
    const size_t chunk = 4096, blocks = ((size_t)4 << 30) / 30000;
    last = malloc(100);
    for (int i = 0; i < 30000; i++) {
        void *hint = (void *)(drawn() & below & -(uintptr_t)chunk);
        CHECK(mmap(hint, chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    }
    for (size_t i = 0; i < blocks; i++) CHECK((last = malloc(30000)));
    puts("drawn");
    return 0;
}
