// Sets a locale and has no file made longer from then on: a filter of system calls answers with an error of input and
// output. Forks a child that allocates. Exits with 1 when the child does not end within 10 seconds.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    if (!setlocale(LC_ALL, "C.UTF-8")) return 2;
    free(malloc(10));
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 3;
    pid_t child = fork();
    if (child == 0) {
        free(malloc(10));
        _exit(0);
    }
    for (int waited = 0; waited < 1000; waited++) {
        if (waitpid(child, NULL, WNOHANG) == child) return 0;
        usleep(10000);
    }
    kill(child, SIGKILL);
    return 1;
}
