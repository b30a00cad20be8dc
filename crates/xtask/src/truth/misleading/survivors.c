/* Phases of one size each, of whose blocks one in 25 survives: the heap's pages fill with few blocks each. */
#include <stdlib.h>
#include <string.h>

enum { PHASES = 24, BLOCKS = 40000, SURVIVES = 25 };
static char *blocks[BLOCKS];

int main(void) {
  for (int phase = 0; phase < PHASES; phase++) {
    size_t bytes = 24 + 37 * (size_t)phase;
    for (int at = 0; at < BLOCKS; at++) {
      blocks[at] = malloc(bytes);
      if (!blocks[at]) return 1;
      memset(blocks[at], phase, bytes);
    }
    for (int at = 0; at < BLOCKS; at++) {
      if (at % SURVIVES != phase) free(blocks[at]);
    }
  }
  return 0;
}
