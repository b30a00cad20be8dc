/* Long blocks, of which one page in eight is touched. */
#include <stdlib.h>

enum { ROUNDS = 40, BLOCKS = 48, PAGE = 4096, PAGES = 400, STRIDE = 8 };
static char *blocks[BLOCKS];

int main(void) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int at = round % 2; at < BLOCKS; at += 1 + (round > 0)) {
      free(blocks[at]);
      blocks[at] = malloc((size_t)(PAGES + 8 * at) * PAGE);
      if (!blocks[at]) return 1;
      for (int page = at % STRIDE; page < PAGES; page += STRIDE) ((volatile char *)blocks[at])[page * PAGE] = 1;
    }
  }
  for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
  return 0;
}
