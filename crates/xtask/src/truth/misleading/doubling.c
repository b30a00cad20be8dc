/* A block that doubles until it is 64 MiB long; every new byte is written. */
#include <stdlib.h>
#include <string.h>

int main(void) {
  size_t length = 4096, least = 0;
  char *block = NULL;
  for (; length <= (size_t)64 << 20; least = length, length *= 2) {
    char *longer = realloc(block, length);
    if (!longer) return 1;
    block = longer;
    memset(block + least, 1, length - least);
  }
  free(block);
  return 0;
}
