// Interrupts a recorded call between each two of its instructions, one place after another. The handler makes as many
// calls as fill a buffer of the recorder. `interrupted CALLS` prints the number of calls.
//
// All calls are refused requests, which glibc answers without touching its heap: a handler may make them anywhere.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

// The processor's flag that raises SIGTRAP after each instruction.
#define TRAP 0x100

static long in_handler, calls;
static volatile long place, passed;

static void request(void) {
    void *volatile block = malloc(PTRDIFF_MAX);
    if (block) abort();
    calls++;
}

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (++passed != place) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
    for (long at = 0; at < in_handler; at++) request();
}

int main(int count, char **arguments) {
    long buffer = count > 1 ? atol(arguments[1]) : 0;
    in_handler = buffer - 1;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    // The interrupted calls are amid buffers: a call that begins a buffer blocks all signals.
    for (long at = 0; at < buffer / 2; at++) request();
    do {
        place++;
        passed = 0;
        __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(TRAP) : "memory", "cc");
        request();
        __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~TRAP) : "memory", "cc");
    } while (passed >= place);
    char line[64];
    int length = snprintf(line, sizeof line, "%ld\n", calls);
    fwrite(line, 1, length, stderr);
    return 0;
}
