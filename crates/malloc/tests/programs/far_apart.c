/* Has 60 blocks that begin at multiples of 2 MiB. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    for (int number = 0; number < 60; number++) {
        char *block = aligned_alloc(2 << 20, 100000);
        if (!block || (unsigned long)block % (2 << 20)) return 1;
        memset(block, 1, 100000);
    }
    return 0;
}
