/* Commits the mistake named by its argument. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void free_sized(void *, size_t) __attribute__((weak)); /* C23: not every C library has it */

static void *volatile hidden; /* keeps the compiler from seeing what is done */

int main(int argc, char **argv)
{
    const char *mistake = argc > 1 ? argv[1] : "";
    char local[64];
    char *block = malloc(1000);
    void *wall = malloc(16);
    if (!strcmp(mistake, "double")) {
        hidden = block;
        free(hidden);
        free(hidden);
    } else if (!strcmp(mistake, "interior")) {
        hidden = block + 160;
        free(hidden);
    } else if (!strcmp(mistake, "misaligned")) {
        hidden = block + 1;
        free(hidden);
    } else if (!strcmp(mistake, "foreign")) {
        hidden = local + 16 - (uintptr_t)local % 16;
        free(hidden);
    } else if (!strcmp(mistake, "realloc")) {
        hidden = block + 32;
        hidden = realloc(hidden, 5000);
        if (hidden) return 3;
    } else if (!strcmp(mistake, "size")) {
        hidden = block;
        free_sized(hidden, 100000);
    } else {
        return 2;
    }
    free(wall);
    puts("went on");
    return 0;
}
