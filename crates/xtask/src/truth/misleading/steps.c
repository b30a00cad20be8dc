/* A block that grows by 256 KiB at a time to 16 MiB; every new byte is written. */
#include <stdlib.h>
#include <string.h>

enum { STEP = 256 << 10, STEPS = 64 };

int main(void) {
  char *block = NULL;
  for (size_t step = 0; step < STEPS; step++) {
    char *longer = realloc(block, (step + 1) * STEP);
    if (!longer) return 1;
    block = longer;
    memset(block + step * STEP, 1, STEP);
  }
  free(block);
  return 0;
}
