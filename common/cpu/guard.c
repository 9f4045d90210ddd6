/* guard.c - an error message when oneDNN runs out of memory; see guard.h */
#include "common/cpu/guard.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 2 };                          /* without SIGBUS, which map.h handles */
static const int signals[SIGNALS] = { SIGABRT, SIGSEGV };
static struct sigaction before[SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local const char *volatile guarded_call;
static _Atomic(const char *) team_call;        /* the call of the thread that began last */
static atomic_int guarded;                     /* threads between begin and end */

static void print(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;                                /* the process ends anyway */
}

/* Uses async-signal-safe calls only. If no guarded call runs, restores the previous handler and
 * raises the signal again. */
static void on_signal(int sig)
{
    const char *call = guarded_call;

    if (!call && atomic_load(&guarded) && omp_in_parallel())
        call = team_call;
    for (int i = 0; !call && i < SIGNALS; i++)
        if (signals[i] == sig)
            sigaction(sig, &before[i], NULL);
    if (!call) {
        raise(sig);
        return;
    }
    print(program_invocation_short_name);
    print(": out of memory while ");
    print(call);
    print(", and oneDNN cannot continue. Give the process more memory (ulimit -v, a control "
          "group's memory.max), or reduce what it needs: fewer --threads, a smaller batch, or in "
          "vtrain --kernels plain, which does not use oneDNN\n");
    _exit(1);
}

static void install(void)
{
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &act, &before[i]);
}

void cpu_guard_begin(const char *call)
{
    pthread_once(&once, install);
    atomic_store(&team_call, call);
    atomic_fetch_add(&guarded, 1);
    guarded_call = call;
}

void cpu_guard_end(void)
{
    guarded_call = NULL;
    atomic_fetch_sub(&guarded, 1);
}
