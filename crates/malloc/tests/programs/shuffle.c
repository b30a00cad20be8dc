/* Allocates and frees in one thread and always alike, and leaves a heap with many holes. */
#include <stdlib.h>

int main(void)
{
    enum { N = 300 };
    void *blocks[N] = {0};
    unsigned state = 1;
    for (int i = 0; i < 20000; i++) {
        state = state * 1103515245 + 12345;
        unsigned at = state >> 16 & 0x7fff;
        free(blocks[at % N]);
        blocks[at % N] = malloc(16 + at * 7 % 2000);
    }
    return 0;
}
