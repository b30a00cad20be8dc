/* A process with a heap starts children that allocate, too, and replace some of the blocks that they inherit. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 60000, CHILDREN = 4 };
static char *blocks[BLOCKS];
static unsigned state = 1;

static size_t draw(size_t below) {
  state = state * 1103515245 + 12345;
  return (state >> 8) % below;
}

static void replace(size_t times) {
  for (; times > 0; times--) {
    size_t at = draw(BLOCKS), bytes = 16 + draw(500);
    free(blocks[at]);
    blocks[at] = malloc(bytes);
    if (!blocks[at]) _exit(1);
    memset(blocks[at], 1, bytes);
  }
}

int main(void) {
  replace(2 * BLOCKS);
  for (int child = 0; child < CHILDREN; child++) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
      replace(BLOCKS / 2);
      _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) return 1;
    replace(BLOCKS / 4);
  }
  return 0;
}
