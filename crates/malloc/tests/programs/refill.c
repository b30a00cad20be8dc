/* What a program under a limit can have after it has freed all that the limit allows.
 *
 *   refill SIZE again NEXT   blocks of SIZE bytes until malloc returns null, all freed and trimmed; then blocks of NEXT
 *                            bytes until it returns null. Prints the sum of their sizes.
 *   refill SIZE map          the same, and then the longest mapping that the program itself can have. Prints its length.
 */
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

static size_t fill(size_t size)
{
    static void *last;
    size_t sum = 0;
    for (void *block; (block = malloc(size)); sum += size) {
        memset(block, 1, size);
        *(void **)block = last;
        last = block;
    }
    while (last) {
        void *before = *(void **)last;
        free(last);
        last = before;
    }
    return sum;
}

static size_t longest_mapping(void)
{
    size_t longest = 0;
    for (size_t step = (size_t)1 << 40; step >= 1 << 20; step /= 2) {
        void *mapped = mmap(NULL, longest + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped != MAP_FAILED) {
            longest += step;
            CHECK(munmap(mapped, longest) == 0);
        }
    }
    return longest;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK(fill(strtoul(argv[1], NULL, 10)) > 0);
    malloc_trim(0);
    printf("%zu\n", strcmp(argv[2], "map") ? fill(strtoul(argv[3], NULL, 10)) : longest_mapping());
    return 0;
}
