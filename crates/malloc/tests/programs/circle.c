/* Makes a circle of the free blocks of a thread, then queries the heap in the way named by the argument. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile hidden; /* keeps the compiler from seeing what is done */

int main(int argc, char **argv)
{
    const char *mistake = argc > 2 ? argv[1] : "", *query = argc > 2 ? argv[2] : "";
    char *blocks[3];
    for (int i = 0; i < 3; i++) blocks[i] = malloc(64);
    if (!strcmp(mistake, "double")) {
        hidden = blocks[0];
        free(hidden);
        free(blocks[1]);
        free(hidden);
    } else if (!strcmp(mistake, "write")) {
        for (int i = 0; i < 3; i++) free(blocks[i]);
        hidden = blocks[2]; /* refers to the second, which then refers to itself */
        memcpy(blocks[1], hidden, sizeof(uintptr_t));
    } else {
        return 2;
    }
    if (!strcmp(query, "mallinfo2")) mallinfo2();
    else if (!strcmp(query, "malloc_info")) malloc_info(0, stderr);
    else if (!strcmp(query, "malloc_stats")) malloc_stats();
    else if (strcmp(query, "exit")) return 2;
    if (strcmp(query, "exit")) _Exit(0);
    return 0;
}
