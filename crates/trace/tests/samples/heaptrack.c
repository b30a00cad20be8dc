#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept[64];

static void *leaf(size_t size) {
    void *block = malloc(size);
    memset(block, 1, size);
    return block;
}

static void *work(void *nothing) {
    for (int i = 0; i < 20; i++) kept[i] = leaf(16 + i * 8);
    for (int i = 0; i < 20; i += 2) free(kept[i]);
    for (int i = 1; i < 20; i += 2) free(kept[i]);
    return nothing;
}

int main(void) {
    void *aligned = NULL;
    kept[40] = leaf(100);
    kept[41] = calloc(3, 50);
    if (posix_memalign(&aligned, 256, 1000)) return 1;
    kept[42] = aligned;
    kept[40] = realloc(kept[40], 5000);
    kept[40] = realloc(kept[40], 20);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    kept[43] = malloc((size_t)1 << 60);
    free(kept[41]);
    free(kept[42]);
    return 0;
}
