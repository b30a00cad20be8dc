/* A process that frees much and then is quiet.
 *
 *   quiet purged         the freed pages go back to the system while the process sleeps, in a fork's child too; prints
 *                        the number of threads besides the first
 *   quiet kept           they stay for some time
 *   quiet refused        the same where the system starts no threads
 *   quiet first-leaves   the first thread ends by pthread_exit; the process ends all the same
 *   quiet limited        blocks beyond HEAPWRIGHT_LIMIT are allocated */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

enum { BLOCKS = 24000, LENGTH = 1500, ROUNDS = 12 };

static const double MUCH = 8 << 20, LITTLE = 5 << 20;

/* Memory that is asked for again at once after it was purged is kept for longer. */
static void allocate_and_free(void)
{
    static unsigned char *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            CHECK((blocks[i] = malloc(LENGTH)));
            memset(blocks[i], i, LENGTH);
        }
        for (int i = 0; i < BLOCKS; i++) {
            CHECK(blocks[i][LENGTH - 1] == (unsigned char)i);
            free(blocks[i]);
        }
    }
}

static int is_purged_within(int seconds, double most)
{
    for (int i = 0; i < seconds * 100; i++) {
        if ((double)resident_kib() * 1024 < most) return 1;
        usleep(10000);
    }
    return 0;
}

/* Counts the threads besides the first, none of which takes any signal. */
static int other_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[200];
        unsigned long long blocked = 0;
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        if (!status) continue;
        while (fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &blocked);
        fclose(status);
        CHECK(blocked >> (SIGTERM - 1) & blocked >> (SIGCHLD - 1) & 1);
        count++;
    }
    closedir(tasks);
    return count;
}

static void *last_of_all(void *unused)
{
    usleep(100000);
    puts("quiet");
    return unused;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *way = argv[1];
    double before = (double)resident_kib() * 1024;
    if (!strcmp(way, "limited")) {
        for (int i = 0; i < 4 * BLOCKS; i++) CHECK(memset(malloc(LENGTH), i, LENGTH));
        puts("quiet");
        return 0;
    }
    allocate_and_free();
    if (!strcmp(way, "kept")) {
        CHECK(!is_purged_within(1, before + MUCH));
    } else if (!strcmp(way, "refused")) {
        CHECK(other_threads() == 0);
    } else if (!strcmp(way, "first-leaves")) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, last_of_all, NULL) == 0);
        pthread_exit(NULL);
    } else {
        CHECK(!strcmp(way, "purged"));
        CHECK(is_purged_within(30, before + LITTLE));
        CHECK(other_threads() == 1);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(other_threads() == 0);
            allocate_and_free();
            CHECK(is_purged_within(30, before + LITTLE));
            CHECK(other_threads() == 1);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    puts("quiet");
    return 0;
}
