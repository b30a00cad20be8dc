/* Prints `secure` and uses the heap, if this process has more rights than its caller. */
#include <sys/auxv.h>

#include "check.h"

int main(void)
{
    if (!getauxval(AT_SECURE)) {
        puts("skipped: the program got no further rights (not root, or its file system ignores them)");
        return 77;
    }
    for (size_t length = 1; length < 10000000; length *= 2) {
        void *block = malloc(length);
        CHECK(block);
        free(block);
    }
    puts("secure");
    return 0;
}
