/* Bursts of other sizes each, with pauses between them: allocators that purge by time give back what is idle. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURSTS = 3, BLOCKS = 1500, PAUSE_US = 300000 };
static char *blocks[BLOCKS];

int main(void) {
  unsigned state = 1;
  for (int burst = 0; burst < BURSTS; burst++) {
    for (int at = 0; at < BLOCKS; at++) {
      state = state * 1103515245 + 12345;
      size_t bytes = (size_t)(1024 << (2 * burst % 5)) + (state >> 16) % 32768;
      blocks[at] = malloc(bytes);
      if (!blocks[at]) return 1;
      memset(blocks[at], at, bytes);
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    if (burst + 1 < BURSTS) usleep(PAUSE_US);
  }
  return 0;
}
