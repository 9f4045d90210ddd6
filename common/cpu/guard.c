/* guard.c - see guard.h. Only what may be called in a signal handler is called there. */
#include "common/cpu/guard.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 2 };                          /* SIGBUS is a map's that cannot be read (map.h) */
static const int signals[SIGNALS] = { SIGABRT, SIGSEGV };
static struct sigaction before[SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local const char *volatile doing;
static _Atomic(const char *) team_doing;       /* by whichever thread began last */
static atomic_int guarded;                     /* threads between begin and end */

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;                                /* nothing else can be done about it */
}

/* Not guarded: the action there was before; the signal comes again when this returns, or is sent. */
static void last_words(int sig)
{
    const char *what = doing ? doing : atomic_load(&guarded) && omp_in_parallel() ? team_doing : NULL;

    for (int i = 0; !what && i < SIGNALS; i++)
        if (signals[i] == sig)
            sigaction(sig, &before[i], NULL);
    if (!what) {
        raise(sig);
        return;
    }
    say(program_invocation_short_name);
    say(": out of memory while ");
    say(what);
    say(", which does not survive that. Give the process more (ulimit -v, a control group's memory.max), "
        "or let it need less: fewer --threads, a smaller batch, and in vtrain --kernels plain, which "
        "does without oneDNN\n");
    _exit(1);
}

static void install(void)
{
    struct sigaction act = { .sa_handler = last_words, .sa_flags = SA_ONSTACK };

    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &act, &before[i]);
}

void cpu_guard_begin(const char *what)
{
    pthread_once(&once, install);
    atomic_store(&team_doing, what);
    atomic_fetch_add(&guarded, 1);
    doing = what;
}

void cpu_guard_end(void)
{
    doing = NULL;
    atomic_fetch_sub(&guarded, 1);
}
