/* Waits in the system call that the argument names, until the process that stops it has gone on. Prints how the call
 * ended. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 2 };
static struct timespec wait_time = {SECONDS, 0};

static struct timespec deadline(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    now.tv_sec += SECONDS;
    return now;
}

/* A listening socket with a time limit, if it is to have one. */
static int listener(int limit) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval time = {limit, 0};
    if (listen(made, 1) != 0) abort();
    if (limit != 0) setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    return made;
}

/* A datagram socket that nothing is sent to. */
static int silent(int limit) {
    int pair[2];
    struct timeval time = {limit, 0};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) abort();
    if (limit != 0) setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    return pair[0];
}

static void *writer(void *end) {
    sleep(SECONDS);
    if (write(*(int *)end, "12345678", 8) != 8) abort();
    return NULL;
}

/* The end of a pipe to which something is written later. */
static int later(void) {
    static int ends[2];
    pthread_t made;
    if (pipe(ends) != 0 || pthread_create(&made, NULL, writer, &ends[1]) != 0) abort();
    return ends[0];
}

static long wait_in(const char *call) {
#define CALL(name) if (strcmp(call, name) == 0)
    char bytes[8];
    CALL("nanosleep") return nanosleep(&wait_time, NULL);
    CALL("clock_nanosleep") {
        struct timespec end = deadline(CLOCK_MONOTONIC);
        errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
        return errno == 0 ? 0 : -1;
    }
    CALL("sleep") return sleep(SECONDS) == 0 ? 0 : (errno = EINTR, -1);
    CALL("read pipe") return read(later(), bytes, 8) == 8 ? 0 : -1;
    CALL("read eventfd") {
        static int event;
        pthread_t made;
        event = eventfd(0, 0);
        if (pthread_create(&made, NULL, writer, &event) != 0) abort();
        return read(event, bytes, 8) == 8 ? 0 : -1;
    }
    CALL("read timerfd") {
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        struct itimerspec when = {{0, 0}, wait_time};
        timerfd_settime(timer, 0, &when, NULL);
        return read(timer, bytes, 8) == 8 ? 0 : -1;
    }
    CALL("poll") return poll(NULL, 0, SECONDS * 1000);
    CALL("ppoll") return ppoll(NULL, 0, &wait_time, NULL);
    CALL("select") {
        struct timeval time = {SECONDS, 0};
        return select(0, NULL, NULL, NULL, &time);
    }
    CALL("pselect") return pselect(0, NULL, NULL, NULL, &wait_time, NULL);
    CALL("epoll_wait") {
        struct epoll_event event;
        return epoll_wait(epoll_create1(0), &event, 1, SECONDS * 1000);
    }
    CALL("epoll_pwait") {
        struct epoll_event event;
        sigset_t none;
        sigemptyset(&none);
        return epoll_pwait(epoll_create1(0), &event, 1, SECONDS * 1000, &none);
    }
    CALL("futex with timeout") {
        static int word;
        long result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &wait_time, NULL, 0);
        return result != 0 && errno == ETIMEDOUT ? 0 : -1;
    }
    CALL("pthread_cond_timedwait") {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
        struct timespec end = deadline(CLOCK_REALTIME);
        pthread_mutex_lock(&lock);
        errno = pthread_cond_timedwait(&never, &lock, &end);
        return errno == ETIMEDOUT ? 0 : -1;
    }
    CALL("sem_timedwait") {
        sem_t semaphore;
        struct timespec end = deadline(CLOCK_REALTIME);
        sem_init(&semaphore, 0, 0);
        return sem_timedwait(&semaphore, &end) != 0 && errno == ETIMEDOUT ? 0 : -1;
    }
    CALL("waitpid") {
        pid_t child = fork();
        if (child == 0) sleep(SECONDS), _exit(0);
        return waitpid(child, NULL, 0) == child ? 0 : -1;
    }
    CALL("flock") {
        char name[] = "/tmp/heapwright-waits-XXXXXX";
        int file = mkstemp(name), other = open(name, O_RDWR);
        unlink(name);
        pid_t child = fork();
        if (child == 0) flock(file, LOCK_EX), sleep(SECONDS), flock(file, LOCK_UN), _exit(0);
        usleep(200000);
        return flock(other, LOCK_EX);
    }
    CALL("accept with SO_RCVTIMEO") return accept(listener(SECONDS), NULL, NULL) < 0 && errno == EAGAIN ? 0 : -1;
    CALL("recv with SO_RCVTIMEO") return recv(silent(SECONDS), bytes, 8, 0) < 0 && errno == EAGAIN ? 0 : -1;
    CALL("accept") {
        alarm(SECONDS);
        return accept(listener(0), NULL, NULL);
    }
    CALL("recv") {
        alarm(SECONDS);
        return recv(silent(0), bytes, 8, 0);
    }
    CALL("pause") {
        alarm(SECONDS);
        return pause();
    }
    CALL("semtimedop") {
        int set = semget(IPC_PRIVATE, 1, 0600);
        struct sembuf take = {0, -1, 0};
        long result = semtimedop(set, &take, 1, &wait_time);
        int error = errno;
        semctl(set, 0, IPC_RMID);
        errno = error;
        return result != 0 && errno == EAGAIN ? 0 : -1;
    }
    CALL("sigtimedwait") {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        return sigtimedwait(&set, NULL, &wait_time) < 0 && errno == EAGAIN ? 0 : -1;
    }
    CALL("msgrcv") {
        struct { long type; char text[8]; } message;
        int queue = msgget(IPC_PRIVATE, 0600);
        alarm(SECONDS);
        long result = msgrcv(queue, &message, 8, 0, 0);
        int error = errno;
        msgctl(queue, IPC_RMID, NULL);
        errno = error;
        return result;
    }
    CALL("mq_timedreceive") {
        struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
        char name[64];
        snprintf(name, sizeof name, "/heapwright-waits-%d", (int)getpid());
        mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
        struct timespec end = deadline(CLOCK_REALTIME);
        if (queue < 0) return 0; /* not in this system */
        mq_unlink(name);
        return mq_timedreceive(queue, bytes, 8, NULL, &end) < 0 && errno == ETIMEDOUT ? 0 : -1;
    }
    CALL("io_getevents") {
        unsigned long context = 0;
        struct { unsigned long words[4]; } event;
        if (syscall(SYS_io_setup, 1, &context) != 0) return 0; /* not in this system */
        return syscall(SYS_io_getevents, context, 1, 1, &event, &wait_time);
    }
    abort();
}

/* A signal that came at last ends calls that have no time limit: this is no interruption by the command. */
static void on_alarm(int signal) {
    (void)signal;
    if (write(1, "waited\n", 7) != 7) abort();
    _exit(0);
}

int main(int count, char **arguments) {
    if (count != 2) abort();
    signal(SIGALRM, on_alarm);
    puts("ready"), fflush(stdout);
    long result = wait_in(arguments[1]);
    puts(result >= 0 ? "waited" : errno == EINTR ? "EINTR" : strerror(errno));
    return 0;
}
