/* Every block is freed by a thread that did not allocate it, batch by batch. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 150, BLOCKS = 4000 };
static char *blocks[2][BLOCKS];
static sem_t is_full[2], is_empty[2];

static void *free_all(void *unused) {
  for (int batch = 0; batch < BATCHES; batch++) {
    sem_wait(&is_full[batch % 2]);
    for (int at = 0; at < BLOCKS; at++) free(blocks[batch % 2][at]);
    sem_post(&is_empty[batch % 2]);
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  unsigned state = 1;
  for (int at = 0; at < 2; at++) {
    sem_init(&is_full[at], 0, 0);
    sem_init(&is_empty[at], 0, 1);
  }
  pthread_create(&thread, NULL, free_all, NULL);
  for (int batch = 0; batch < BATCHES; batch++) {
    sem_wait(&is_empty[batch % 2]);
    for (int at = 0; at < BLOCKS; at++) {
      state = state * 1103515245 + 12345;
      size_t bytes = 16 + (state >> 16) % 400;
      char *block = malloc(bytes);
      if (!block) return 1;
      memset(block, at, bytes);
      blocks[batch % 2][at] = block;
    }
    sem_post(&is_full[batch % 2]);
  }
  pthread_join(thread, NULL);
  return 0;
}
