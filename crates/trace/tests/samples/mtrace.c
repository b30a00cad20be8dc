#include <mcheck.h>
#include <stdlib.h>

static void *volatile kept[20];

int main(void) {
    mtrace();
    for (int i = 0; i < 10; i++) kept[i] = malloc(10 + 100 * i);
    kept[10] = calloc(7, 9);
    kept[11] = aligned_alloc(256, 512);
    kept[0] = realloc(kept[0], 3000);
    kept[15] = realloc(kept[1], (size_t)1 << 62);
    kept[12] = realloc(NULL, 33);
    kept[13] = malloc((size_t)1 << 62);
    for (int i = 0; i < 13; i += 2) free(kept[i]);
    muntrace();
    return 0;
}
