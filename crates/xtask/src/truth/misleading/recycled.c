/* Zeroed blocks in memory that was used before, of lengths for which some allocators map fresh pages instead. */
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60, BLOCKS = 24 };
static char *blocks[BLOCKS];

int main(void) {
  long sum = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (int at = 0; at < BLOCKS; at++) {
      size_t bytes = 8192 + (size_t)(at * 7919 + round * 104729) % 200000;
      blocks[at] = calloc(1, bytes);
      if (!blocks[at]) return 1;
      sum += blocks[at][bytes / 2];
      memset(blocks[at], at, bytes / 2);
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
  }
  return sum != 0;
}
