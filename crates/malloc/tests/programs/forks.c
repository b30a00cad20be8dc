/* Forks in hard places, as the first argument says; the second is a number of forks or of seconds. A hang is ended by
 * the test that runs this. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "process.h"

static atomic_bool stop;
static pid_t first_process;

/* Allocates and frees blocks of a class, of a longer class and of pages; each must keep what is written to it. */
static void use_malloc(unsigned salt)
{
    static const size_t sizes[] = {1, 24, 500, 3000, 20000, 40000, 300000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    unsigned char *blocks[COUNT];
    for (unsigned at = 0; at < COUNT; at++) {
        blocks[at] = malloc(sizes[at] + salt % 16);
        CHECK(blocks[at]);
        blocks[at][0] = (unsigned char)(salt + at);
        blocks[at][sizes[at] - 1] = (unsigned char)(salt + at);
    }
    for (unsigned at = 0; at < COUNT; at++) {
        CHECK(blocks[at][0] == (unsigned char)(salt + at));
        CHECK(blocks[at][sizes[at] - 1] == (unsigned char)(salt + at));
        free(blocks[at]);
    }
}

static void *allocate_until_stopped(void *unused)
{
    for (unsigned turn = 0; !stop; turn++)
        use_malloc(turn);
    return unused;
}

static void *use_malloc_once(void *unused)
{
    use_malloc(3);
    return unused;
}

/* Forks; the child allocates, starts a thread that does, and ends; returns when it has ended well. */
static void fork_once(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        use_malloc(7);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_malloc_once, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

enum { MOST_THREADS = 4 };
static pthread_t threads[MOST_THREADS];
static int thread_count;

static void start(void *(*run)(void *), void *argument)
{
    CHECK(thread_count < MOST_THREADS);
    CHECK(pthread_create(&threads[thread_count++], NULL, run, argument) == 0);
}

static void stop_all(void)
{
    stop = true;
    while (thread_count > 0)
        CHECK(pthread_join(threads[--thread_count], NULL) == 0);
}

/* Handlers registered before the first malloc, and more later, all of which allocate. */

static void handle_fork(void)
{
    use_malloc(5);
}

static void register_handlers(int count)
{
    for (int at = 0; at < count; at++)
        CHECK(pthread_atfork(handle_fork, handle_fork, handle_fork) == 0);
}

static void fork_with_handlers(int forks, int others)
{
    register_handlers(2);
    fork_once();
    /* More than the C library has room for without allocating. */
    register_handlers(60);
    for (int at = 0; at < others; at++)
        start(allocate_until_stopped, NULL);
    for (int at = 0; at < forks; at++)
        fork_once();
    stop_all();
    fork_once();
}

/* A storm of signals whose handler forks. */

static atomic_int signal_forks;

/* Whether every other child of the handler goes on where the signal interrupted its parent. */
static bool children_go_on = true;

/* The next signal comes some time after this one was handled: however slow the machine, the program goes on. */
static void send_signal_soon(void)
{
    struct itimerval time = {{0, 0}, {0, 50 + signal_forks % 16 * 20}};
    setitimer(ITIMER_REAL, &time, NULL);
}

/* Says how the child of the handler's call `turn` ended, without the streams that the signal may have interrupted. */
static void report_child(int turn, int status, pid_t ended)
{
    dprintf(STDERR_FILENO, "the child of signal %d ended with status %#x (waitpid: %d, errno %d)\n", turn,
            (unsigned)status, (int)ended, errno);
    _exit(9);
}

static void fork_in_handler(int number)
{
    (void)number;
    int saved = errno;
    int turn = signal_forks++;
    pid_t child = fork();
    if (child == 0) {
        if (!children_go_on || turn % 2 == 0) _exit(0);
        return;
    }
    if (child > 0) {
        int status = 0;
        pid_t ended = waitpid(child, &status, 0);
        if (ended != child || status != 0) report_child(turn, status, ended);
    }
    send_signal_soon();
    errno = saved;
}

/* Ends a child that returned from the handler, after it has used what the signal interrupted. */
static void end_if_child(void)
{
    if (getpid() != first_process) {
        use_malloc(9);
        _exit(0);
    }
}

static void start_storm(void)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    send_signal_soon();
}

/* No signal comes any more: a child of a later one would end as its parent does. */
static void end_storm(void)
{
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    end_if_child();
}

/* In a single thread, a signal may come anywhere, in malloc and in fork. */
static void fork_in_a_storm(int forks)
{
    start_storm();
    for (int at = 0; at + signal_forks < forks; at++) {
        for (unsigned turn = 0; turn < 4; turn++) {
            use_malloc(turn);
            end_if_child();
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(0);
        int status = 0;
        if (waitpid(child, &status, 0) != child) {
            /* The child of the handler has no such child. */
            end_if_child();
            CHECK(false);
        }
        CHECK(status == 0);
    }
    end_storm();
}

/* Beside other threads, the C library's own locks may hang when a signal handler that has interrupted fork forks:
 * signals come in malloc only. */
static void fork_in_a_storm_with_threads(int forks)
{
    for (int at = 0; at < 2; at++) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        start(allocate_until_stopped, NULL);
        pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    }
    start_storm();
    for (unsigned turn = 0; signal_forks < forks; turn++) {
        /* Long blocks: malloc is interrupted behind its lock then. */
        void *block = malloc(100000 + turn % 7 * 70000);
        CHECK(block);
        free(block);
        use_malloc(turn);
        end_if_child();
    }
    end_storm();
    stop_all();
}

/* Threads that use streams, which the C library locks and allocates for. */

static FILE *long_lines(void)
{
    enum { LINE = 300000, LINES = 10 };
    FILE *file = tmpfile();
    CHECK(file);
    for (int at = 0; at < LINE * LINES; at++)
        CHECK(putc_unlocked(at % LINE == LINE - 1 ? '\n' : 'x', file) != EOF);
    return file;
}

/* Reads lines for which getline has to allocate long blocks while it has the stream. */
static void *read_lines(void *unused)
{
    while (!stop) {
        FILE *file = long_lines();
        rewind(file);
        char *line = NULL;
        size_t length = 0;
        while (!stop && getline(&line, &length, file) > 0) {
            free(line);
            line = NULL;
            length = 0;
        }
        free(line);
        fclose(file);
    }
    return unused;
}

static void *flush_all(void *unused)
{
    while (!stop)
        fflush(NULL);
    return unused;
}

static void *print(void *unused)
{
    while (!stop) {
        FILE *file = fopen("/dev/null", "w");
        CHECK(file);
        for (int at = 0; at < 20; at++)
            CHECK(fprintf(file, "%d %0600d\n", at, at) > 0);
        fclose(file);
    }
    return unused;
}

/* Not the time of day, which may be set meanwhile. */
static time_t uptime_seconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec;
}

static void fork_with_streams(int seconds)
{
    time_t end = uptime_seconds() + seconds;
    start(read_lines, NULL);
    start(read_lines, NULL);
    start(flush_all, NULL);
    start(print, NULL);
    while (uptime_seconds() < end)
        fork_once();
    stop_all();
    /* The C library's list of streams is free: it is recursive, so that another thread has to ask for it. */
    pthread_t thread;
    stop = false;
    CHECK(pthread_create(&thread, NULL, flush_all, NULL) == 0);
    stop = true;
    CHECK(pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        stop = false;
        CHECK(pthread_create(&thread, NULL, print, NULL) == 0);
        usleep(1000);
        stop = true;
        CHECK(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

/* A handler of SIGABRT that forks, after a bad free. */

static void fork_at_abort(int number)
{
    (void)number;
    use_malloc(1);
    fork_once();
    _exit(42);
}

static void abort_by_bad_free(int others)
{
    for (int at = 0; at < others; at++)
        start(allocate_until_stopped, NULL);
    signal(SIGABRT, fork_at_abort);
    char *block = malloc(200000);
    static char *volatile hidden;
    CHECK(block);
    hidden = block + 4096;
    free(hidden);
}

/* Cancellation while the statistics are being written. */

static int pipe_ends[2];
static atomic_bool has_begun;

static void *print_statistics(void *unused)
{
    has_begun = true;
    malloc_stats();
    pthread_testcancel();
    return unused;
}

static void *print_information(void *stream)
{
    has_begun = true;
    malloc_info(0, stream);
    pthread_testcancel();
    return stream;
}

static void *drain(void *unused)
{
    char buffer[4096];
    while (read(pipe_ends[0], buffer, sizeof buffer) > 0) {}
    return unused;
}

static void fill_pipe(void)
{
    char byte = 'x';
    CHECK(fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(pipe_ends[1], &byte, 1) == 1) {}
    CHECK(fcntl(pipe_ends[1], F_SETFL, 0) == 0);
}

static void cancel(void *(*run)(void *), void *argument)
{
    pthread_t thread, reader;
    void *result;
    fill_pipe();
    has_begun = false;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    while (!has_begun)
        usleep(100);
    usleep(100 * 1000);
    /* The pipe is full: the thread writes, and no lock is held meanwhile. */
    use_malloc(2);
    (void)mallinfo();
    fork_once();
    CHECK(pthread_cancel(thread) == 0);
    usleep(100 * 1000);
    use_malloc(3);
    CHECK(pthread_create(&reader, NULL, drain, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    usleep(100 * 1000);
    CHECK(pthread_cancel(reader) == 0 && pthread_join(reader, NULL) == 0);
    (void)mallinfo();
    use_malloc(4);
}

static void cancel_statistics(void)
{
    CHECK(pipe(pipe_ends) == 0);
    int standard_error = dup(2);
    CHECK(standard_error >= 0);
    FILE *stream = fdopen(pipe_ends[1], "w");
    CHECK(stream);
    setvbuf(stream, NULL, _IONBF, 0);
    CHECK(dup2(pipe_ends[1], 2) == 2);
    cancel(print_statistics, NULL);
    CHECK(dup2(standard_error, 2) == 2);
    cancel(print_information, stream);
}

/* No thread-specific key is left when malloc is first called. */

static void use_up_keys(int count)
{
    pthread_key_t key, latest = 0;
    int keys = 0;
    while (pthread_key_create(&key, NULL) == 0) {
        latest = key;
        keys++;
    }
    CHECK(keys > 100);
    use_malloc(1);
    long before = 0;
    for (int at = 0; at < count; at++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_malloc_once, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        if (at == 20) before = resident_kib();
    }
    CHECK(resident_kib() - before < 8 << 10);
    fork_once();
    /* A key that is given back later is used. */
    CHECK(pthread_key_delete(latest) == 0);
    for (int at = 0; at < 20; at++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_malloc_once, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 1;
    first_process = getpid();
    if (!strcmp(what, "handlers")) {
        fork_with_handlers(count, 0);
    } else if (!strcmp(what, "handlers-threads")) {
        fork_with_handlers(count, 2);
    } else if (!strcmp(what, "storm")) {
        fork_in_a_storm(count);
    } else if (!strcmp(what, "storm-threads")) {
        fork_in_a_storm_with_threads(count);
    } else if (!strcmp(what, "storm-threads-exit")) {
        children_go_on = false;
        fork_in_a_storm_with_threads(count);
    } else if (!strcmp(what, "streams")) {
        fork_with_streams(count);
    } else if (!strcmp(what, "abort")) {
        abort_by_bad_free(0);
    } else if (!strcmp(what, "abort-threads")) {
        abort_by_bad_free(2);
    } else if (!strcmp(what, "cancel")) {
        cancel_statistics();
    } else if (!strcmp(what, "keys")) {
        use_up_keys(count);
    } else {
        return 2;
    }
    return first_process == getpid() ? 0 : 1;
}
