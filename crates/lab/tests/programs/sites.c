// Requests from known places, for the tests of call sites. Lines that a test names are marked.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

static void *volatile sink;

// Nothing is a tail call where something is done with the result.
static KEPT void *kept(void *block) {
    sink = block;
    return block;
}

static KEPT void *leaf(size_t size) {
    return kept(malloc(size)); // leaf
}

static KEPT void *wide(size_t size) {
    char local[600];
    memset(local, (int)size, sizeof local);
    sink = local;
    return kept(leaf(size)); // wide
}

static KEPT void *varying(size_t size) {
    char *local = alloca(size);
    memset(local, 1, size);
    sink = local;
    return kept(leaf(size)); // varying
}

static inline __attribute__((always_inline)) void *inlined(size_t size) {
    return kept(calloc(1, size)); // inlined
}

static KEPT void *around(size_t size) {
    return kept(inlined(size)); // around
}

static KEPT void *resizing(size_t size) {
    void *block = kept(malloc(8));
    return kept(realloc(block, size)); // resizing
}

static KEPT void *aligned(size_t size) {
    void *block = NULL;
    if (posix_memalign(&block, 64, size)) // aligned
        abort();
    return kept(block);
}

static KEPT void refused(void) {
    kept(malloc((size_t)1 << 60)); // refused
}

static KEPT void *deep(int depth, size_t size) {
    return kept(depth ? deep(depth - 1, size) : leaf(size));
}

static void chains(void) {
    free(wide(101));
    free(varying(102));
    free(around(103));
    free(resizing(104));
    free(aligned(105));
    refused();
    free(deep(200, 106));
}

// A rhythm of sixteen requests.
static void rhythm(int rounds) {
    for (int round = 0; round < rounds; round++)
        for (size_t step = 0; step < 16; step++)
            free(leaf(1000 + step));
}

static KEPT void *of_thread(void *size) {
    for (int i = 0; i < 1000; i++)
        free(leaf((size_t)size));
    return NULL;
}

static void threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, of_thread, (void *)(200 + i));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++)
            free(wide(301));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    free(varying(302));
}

static ucontext_t outside, inside;

static KEPT void in_coroutine(void) {
    for (int i = 0; i < 100; i++)
        free(leaf(401)); // in_coroutine
}

// A stack that ends where its mapping does.
static void coroutine(void) {
    size_t length = 64 << 10;
    char *stack = mmap(NULL, 2 * length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(stack + length, length);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = length;
    inside.uc_link = &outside;
    makecontext(&inside, in_coroutine, 0);
    swapcontext(&outside, &inside);
    free(leaf(402));
}

static sigjmp_buf before;
static volatile size_t swelling;

// A handler on the stack of what it interrupts.
static KEPT void on_signal(int signal) {
    char *local = alloca(swelling + 16);
    memset(local, 1, swelling + 16);
    sink = local;
    free(leaf(signal == SIGSEGV ? 502 : 503)); // on_signal
    if (signal == SIGSEGV)
        siglongjmp(before, 1);
}

// With optimisation, the first instruction of the function is what is interrupted.
static KEPT int victim(volatile int *place) {
    return *place; // victim
}

static KEPT int middle(volatile int *place) {
    return victim(place) + 1; // middle
}

static KEPT int raising(void) {
    return raise(SIGUSR2) + 1; // raising
}

static void interruptions(void) {
    signal(SIGSEGV, on_signal);
    signal(SIGUSR2, on_signal);
    for (int i = 0; i < 100; i++)
        if (!sigsetjmp(before, 1))
            middle(NULL);
    // From some length of the handler's frame on, no more than a part of what the signal saved is in the copy of the
    // stack.
    for (int i = 0; i < 650; i++) {
        swelling = i < 100 ? 0 : 4000 + 8 * (i - 100);
        raising();
    }
}

static KEPT void handler(int signal) {
    (void)signal;
    free(leaf(501)); // handler
}

static void signals(void) {
    static char room[32 << 10];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1); // raised
}

// A library that comes, works and leaves; the program ends at once.
static void library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        abort();
    ((void (*)(void))(uintptr_t)dlsym(library, "work"))();
}

// Clock ticks of processor time that a process has used.
static long ticks_of(pid_t process) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file))
        abort();
    fclose(file);
    long user, system;
    if (sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
        abort();
    return user + system;
}

// A library that is opened while the command, the parent of this program, is stopped and much is left to be read. The
// program ends when the command has begun to read and is busy with it.
static void behind(const char *path) {
    pid_t command = getppid();
    kill(command, SIGSTOP);
    for (int i = 0; i < 30000; i++)
        free(wide(702));
    library(path);
    long before = ticks_of(command);
    kill(command, SIGCONT);
    while (ticks_of(command) < before + 3)
        ;
}

static KEPT void crash(void) {
    for (int i = 0; i < 100; i++)
        free(wide(601));
    *(volatile int *)8 = 0;
}

// Code without any information for unwinding, in no file.
static void generated(void) {
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x28, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x28, 0xc3}; // sub; call rdi; add; ret
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    ((void (*)(void (*)(void)))(uintptr_t)page)(in_coroutine);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "chains")) chains();
    if (!strcmp(what, "rhythm")) rhythm(5000);
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "fork")) forked();
    if (!strcmp(what, "clearenv") && !clearenv()) forked();
    if (!strcmp(what, "coroutine")) coroutine();
    if (!strcmp(what, "signals")) signals();
    if (!strcmp(what, "interruptions")) interruptions();
    if (!strcmp(what, "library")) library(arguments[2]);
    if (!strcmp(what, "behind")) behind(arguments[2]);
    if (!strcmp(what, "crash")) crash();
    if (!strcmp(what, "generated")) generated();
    return 0;
}
