/* Allocates blocks of one size until malloc returns null, and prints the sum of their sizes.
 *
 *   fill SIZE MOST TOUCH   no more than MOST bytes; TOUCH is `all` (every page is written), `first` or `none` */
#include <string.h>

#include "check.h"

static void *last;

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    size_t size = strtoul(argv[1], NULL, 10), most = strtoul(argv[2], NULL, 10), sum = 0;
    int touches_all = !strcmp(argv[3], "all"), touches = touches_all || !strcmp(argv[3], "first");
    setvbuf(stdout, NULL, _IONBF, 0);
    while (sum < most) {
        errno = 0;
        char *block = malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM);
            break;
        }
        if (touches_all)
            for (size_t at = 4096; at < size; at += 4096) block[at] = 1;
        if (touches) {
            *(void **)block = last;
            last = block;
        }
        sum += size;
    }
    size_t freed = 0;
    while (last) {
        void *before = *(void **)last;
        free(last);
        last = before;
        freed++;
    }
    CHECK(!touches || freed == sum / size);
    free(malloc(100));
    printf("%zu\n", sum);
    return 0;
}
