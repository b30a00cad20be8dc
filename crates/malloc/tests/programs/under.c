/* Starts a program in a surrounding: limits, refused system calls, missing file systems, closed streams.
 *
 *   under [--OPTION[=VALUE]]... PROGRAM [ARGUMENT]...
 *
 * Only the program has the libraries of `--preload` and the variables of `--set`: this launcher runs without them. A
 * surrounding that needs rights which this process lacks ends it with status 77 and the reason on standard output. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SKIPPED = 77, ANY_ADVICE = -1, CAP_IPC_LOCK = 14, CAP_SYS_RESOURCE = 24 };

/* A system call that fails. `advice` is the third argument for which it does, or ANY_ADVICE. */
struct refusal {
    const char *name;
    int call, advice, error;
};

static const struct refusal refusals[] = {
    {"populate", SYS_madvise, 23, EINVAL},        /* MADV_POPULATE_WRITE, Linux 5.14 */
    {"guard", SYS_madvise, 102, EINVAL},          /* MADV_GUARD_INSTALL, Linux 6.13 */
    {"collapse", SYS_madvise, 25, EINVAL},        /* MADV_COLLAPSE, Linux 6.1 */
    {"madvise", SYS_madvise, ANY_ADVICE, EPERM},
    {"process-madvise", SYS_process_madvise, ANY_ADVICE, EPERM},
    {"mremap", SYS_mremap, ANY_ADVICE, EPERM},
    {"munmap", SYS_munmap, ANY_ADVICE, EPERM},
    {"getrandom", SYS_getrandom, ANY_ADVICE, ENOSYS},
    {"membarrier", SYS_membarrier, ANY_ADVICE, ENOSYS},
    {"rseq", SYS_rseq, ANY_ADVICE, ENOSYS},
    {"clone", SYS_clone, ANY_ADVICE, EPERM},
    {"clone3", SYS_clone3, ANY_ADVICE, EPERM},
    {"prctl", SYS_prctl, ANY_ADVICE, EPERM},
};

static void skip(const char *reason)
{
    printf("skipped: %s: %s\n", reason, strerror(errno));
    exit(SKIPPED);
}

static rlim_t bytes(const char *text)
{
    return strcmp(text, "unlimited") ? strtoull(text, NULL, 10) : RLIM_INFINITY;
}

static void limit(int resource, const char *value)
{
    struct rlimit both = {bytes(value), bytes(value)};
    if (setrlimit(resource, &both) != 0) skip("the limit cannot be set");
}

/* Makes the system call fail in this process and in the programs that it executes. */
static void refuse(const struct refusal *refused)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused->call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused->advice, 0, refused->advice == ANY_ADVICE ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refused->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) skip("no filter of system calls");
}

static void refuse_named(const char *name)
{
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 || errno == EPERM);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (!strcmp(refusals[i].name, name)) {
            refuse(&refusals[i]);
            return;
        }
    CHECK(!"a system call of the list");
}

static void own_mounts(void)
{
    if (unshare(CLONE_NEWNS) != 0) skip("no mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) skip("mounts stay shared");
}

static void hide_proc(void)
{
    own_mounts();
    if (mount("none", "/proc", "tmpfs", MS_RDONLY, NULL) != 0) skip("/proc cannot be hidden");
    CHECK(access("/proc/self", F_OK) != 0);
}

static void protect_sys(void)
{
    own_mounts();
    if (mount("/sys", "/sys", NULL, MS_BIND | MS_REC, NULL) != 0) skip("/sys cannot be bound");
    if (mount(NULL, "/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0) skip("/sys stays writable");
}

/* Drops the rights by which root is above the limits on locked memory and on processes. */
static void drop_rights(void)
{
    for (int right = CAP_IPC_LOCK; right <= CAP_SYS_RESOURCE; right += CAP_SYS_RESOURCE - CAP_IPC_LOCK)
        CHECK(prctl(PR_CAPBSET_DROP, right, 0, 0, 0) == 0 || errno == EPERM);
}

/* What is left to do in the last moment before the program. */
struct start {
    char *environment[16];
    int variables;
    const char *preload;
    int is_bare, closes_streams;
};

static void execute(const struct start *start, char **program)
{
    char *arguments[32] = {"ld.so", "--preload", (char *)start->preload};
    char **command = program;
    const char *path = program[0];
    if (start->is_bare && start->preload) { /* LD_PRELOAD would be an environment */
        int count = 3;
        while (*program && count < 31) arguments[count++] = *program++;
        path = "/lib64/ld-linux-x86-64.so.2";
        command = arguments;
    }
    if (start->closes_streams)
        for (int stream = 0; stream < 3; stream++) close(stream);
    execvpe(path, command, (char **)start->environment);
    _Exit(126);
}

/* Runs the program once under each limit on the address space. Returns how many runs ended otherwise than with status
 * 0, or because the program could not be loaded. */
static int run_in_steps(const struct start *start, char **program, const char *steps)
{
    unsigned long from, to, step;
    int failed = 0;
    CHECK(sscanf(steps, "%lu-%lu/%lu", &from, &to, &step) == 3);
    for (unsigned long kib = from; kib <= to; kib += step) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            struct rlimit limit = {kib << 10, kib << 10};
            CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
            execute(start, program);
        }
        CHECK(waitpid(child, &status, 0) == child);
        int loads = !(WIFEXITED(status) && (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 126)) &&
                    !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (loads && status != 0) {
            fprintf(stderr, "under %lu KiB: wait status %#x\n", kib, (unsigned)status);
            failed++;
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct start start = {0};
    const char *steps = NULL;
    char preload[8192];
    int at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        const char *name = argv[at] + 2, *equals = strchr(name, '='), *value = equals ? equals + 1 : "";
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
#define IS(option) (length == strlen(option) && !strncmp(name, option, length))
        if (IS("data")) limit(RLIMIT_DATA, value);
        else if (IS("as")) limit(RLIMIT_AS, value);
        else if (IS("memlock")) limit(RLIMIT_MEMLOCK, value);
        else if (IS("drop-rights")) drop_rights();
        else if (IS("refuse")) refuse_named(value);
        else if (IS("no-proc")) hide_proc();
        else if (IS("read-only-sys")) protect_sys();
        else if (IS("closed")) start.closes_streams = 1;
        else if (IS("bare")) start.is_bare = 1;
        else if (IS("as-steps")) steps = value;
        else if (IS("preload")) start.preload = value;
        else if (IS("set")) {
            CHECK(start.variables < 12);
            start.environment[start.variables++] = (char *)value;
        } else CHECK(!"an option of the list");
    }
    CHECK(at < argc);
    if (!start.is_bare) {
        start.environment[start.variables++] = "PATH=/usr/local/bin:/usr/bin:/bin";
        start.environment[start.variables++] = "LC_ALL=C";
    }
    if (start.preload && !start.is_bare) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", start.preload);
        start.environment[start.variables++] = preload;
    }
    if (steps) return run_in_steps(&start, argv + at, steps) != 0;
    execute(&start, argv + at);
}
