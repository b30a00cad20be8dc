/* One producer allocates messages, four consumers read and free them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CONSUMERS = 4, MESSAGES = 200000, PLACES = 256 };
static char *queue[PLACES];
static unsigned first, length;
static int is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_some = PTHREAD_COND_INITIALIZER, has_room = PTHREAD_COND_INITIALIZER;

static void *consume(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (length == 0 && !is_over) pthread_cond_wait(&has_some, &lock);
    if (length == 0) break;
    char *message = queue[first];
    first = (first + 1) % PLACES;
    length--;
    pthread_cond_signal(&has_room);
    pthread_mutex_unlock(&lock);
    free(message);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(void) {
  pthread_t consumers[CONSUMERS];
  unsigned state = 1;
  for (int at = 0; at < CONSUMERS; at++) pthread_create(&consumers[at], NULL, consume, NULL);
  for (int at = 0; at < MESSAGES; at++) {
    state = state * 1103515245 + 12345;
    size_t bytes = 32 + (state >> 16) % 1000;
    char *message = malloc(bytes);
    if (!message) return 1;
    memset(message, at, bytes);
    pthread_mutex_lock(&lock);
    while (length == PLACES) pthread_cond_wait(&has_room, &lock);
    queue[(first + length++) % PLACES] = message;
    pthread_cond_signal(&has_some);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_lock(&lock);
  is_over = 1;
  pthread_cond_broadcast(&has_some);
  pthread_mutex_unlock(&lock);
  for (int at = 0; at < CONSUMERS; at++) pthread_join(consumers[at], NULL);
  return 0;
}
