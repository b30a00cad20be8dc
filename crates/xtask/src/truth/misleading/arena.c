/* Most of the program's memory is a mapping of its own, beside which its malloc hardly counts. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA = 96 << 20, BLOCKS = 20000 };
static char *blocks[BLOCKS];

int main(void) {
  char *arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned state = 1;
  if (arena == MAP_FAILED) return 1;
  memset(arena, 1, ARENA);
  for (int at = 0; at < 20 * BLOCKS; at++) {
    state = state * 1103515245 + 12345;
    size_t bytes = 16 + (state >> 16) % 160;
    char **block = &blocks[(state >> 8) % BLOCKS];
    free(*block);
    *block = malloc(bytes);
    if (!*block) return 1;
    memset(*block, at, bytes);
  }
  return 0;
}
