/* Nine threads request 64 MiB of zeros each and touch one byte: almost nothing is resident. */
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 9, BYTES = 64 << 20 };
static pthread_barrier_t all_have_theirs;

static void *request(void *unused) {
  volatile char *block = calloc(1, BYTES);
  if (block) block[BYTES / 2] = 1;
  pthread_barrier_wait(&all_have_theirs);
  free((void *)block);
  return unused;
}

int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&all_have_theirs, NULL, THREADS);
  for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, request, NULL);
  for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
  return 0;
}
