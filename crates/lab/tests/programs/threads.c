// Threads for the tests of recordings: `threads brief NUMBER` runs threads that end after a few requests, one after the
// other; `threads short NUMBER` runs threads with the shortest stack that the system allows; those of
// `threads fork NUMBER` fork a child each, which makes requests, too.
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUESTS = 10 };

static void *volatile sink;

static __attribute__((noinline)) void request(int depth) {
    if (depth > 0) {
        request(depth - 1);
    } else {
        sink = malloc(1001);
        free(sink);
    }
    sink = NULL;
}

static void *work(void *forks) {
    for (int at = 0; at < REQUESTS; at++)
        request(at);
    if (forks) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            request(REQUESTS);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            abort();
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    int forks = !strcmp(arguments[1], "fork");
    if (forks || !strcmp(arguments[1], "short"))
        pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    for (int at = 0; at < atoi(arguments[2]); at++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, forks ? arguments : NULL) || pthread_join(thread, NULL))
            abort();
    }
    return 0;
}
