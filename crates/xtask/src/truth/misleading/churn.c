/* 200 short threads, one after the other; each leaves a few blocks, which the next one frees. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 200, BLOCKS = 800, LEFT = 20 };
static char *left[LEFT];

static void *work(void *unused) {
  char *blocks[BLOCKS];
  unsigned state = 1;
  for (int at = 0; at < LEFT; at++) free(left[at]);
  for (int at = 0; at < BLOCKS; at++) {
    state = state * 1103515245 + 12345;
    size_t bytes = 16 + (state >> 16) % 2000;
    blocks[at] = malloc(bytes);
    if (blocks[at]) memset(blocks[at], at, bytes);
  }
  memcpy(left, blocks, sizeof left);
  for (int at = LEFT; at < BLOCKS; at++) free(blocks[at]);
  return unused;
}

int main(void) {
  for (int at = 0; at < THREADS; at++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
    pthread_join(thread, NULL);
  }
  return 0;
}
