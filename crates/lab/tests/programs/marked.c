/* Marks one block of its work, if the recorder allows that; prints by how much live memory grew in it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct marked { int64_t live, peak; };

static void *volatile kept[8];

int main(void)
{
    int (*begin)(struct marked *) = (int (*)(struct marked *))dlsym(RTLD_DEFAULT, "heapwright_record_begin");
    uint64_t (*end)(struct marked *) = (uint64_t (*)(struct marked *))dlsym(RTLD_DEFAULT, "heapwright_record_end");
    struct marked outer, inner;
    if (!begin || !end)
        return 1;
    for (int i = 0; i < 1000; i++)
        free(kept[0] = malloc(7001));
    kept[0] = malloc(7001);
    kept[1] = malloc(7002);
    if (!begin(&outer))
        return 2;
    kept[2] = malloc(30000);
    kept[3] = malloc(5000);
    kept[4] = malloc(5001);
    free(kept[0]);
    uint64_t nested = 0;
    if (begin(&inner)) {
        free(malloc(100000));
        nested = end(&inner);
    }
    free(kept[2]);
    uint64_t peak = end(&outer);
    kept[0] = malloc(7003);
    free(kept[3]);
    kept[4] = realloc(kept[4], 6000);
    kept[1] = realloc(kept[1], 7004);
    printf("%llu %llu\n", (unsigned long long)nested, (unsigned long long)peak);
    return 0;
}
