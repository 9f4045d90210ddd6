/* meet.c - a thread that watches MPI_Init; see meet.h */
#include "common/comm/meet.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/os/streams.h"

#define WARN 30.0                /* seconds to the first line; the next are at twice the time */
#define TICK 0.25                /* seconds */
#define SLACK 2.0                /* seconds that others leave the rank that prints */
enum { NAME = 16, MOST = 256, TEXT = 400, ENVIRON = 1 << 16 };

typedef struct fellow {          /* a process that the launcher made one of the run's ranks */
    long rank;
    int pid;
    char name[NAME];             /* of the program, as in /proc/PID/stat */
    bool stopped, waits;         /* waits: the program is this one, and it runs */
} fellow;

struct vc_meet {
    const vc_comm_start *o;
    long ranks;
    int leader;                  /* the process that printed the last line or will; 0: none */
    pthread_t thread;
    pthread_mutex_t lock;        /* guards `met` */
    pthread_cond_t changed;
    bool met;
};

/* ---- the ranks of this machine ---- */

/* Returns the value of a variable in an environment of n bytes, or NULL. */
static const char *value_of(const char *env, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < n; at += strlen(env + at) + 1)
        if (!strncmp(env + at, name, len) && env[at + len] == '=')
            return env + at + len + 1;
    return NULL;
}

static size_t read_file(const char *pid, const char *what, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, what);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(buf, 1, size - 1, f) : 0;
    if (f)
        fclose(f);
    buf[n] = '\0';
    return n;
}

/* Reads a process of this run; false if it is another, or has ended. */
static bool read_fellow(fellow *p, const char *pid, const char *run, const char *own, char *buf)
{
    size_t n = read_file(pid, "environ", buf, ENVIRON);
    const char *its = value_of(buf, n, "PMIX_NAMESPACE"), *rank = value_of(buf, n, "PMIX_RANK");
    if (!its || !rank || strcmp(its, run))
        return false;
    p->rank = strtol(rank, NULL, 10);
    p->pid = atoi(pid);
    read_file(pid, "stat", buf, ENVIRON);
    char *open = strchr(buf, '('), *close = strrchr(buf, ')');
    if (!open || !close || close[1] != ' ')
        return false;
    *close = '\0';
    snprintf(p->name, sizeof p->name, "%.15s", open + 1);
    p->stopped = close[2] == 'T' || close[2] == 't';
    p->waits = !p->stopped && !strcmp(p->name, own);
    return close[2] != 'Z' && close[2] != 'X';
}

static int by_rank(const void *a, const void *b)
{
    const fellow *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Adds p, or lets it replace a process of the same rank: a script that runs the program is one, and
 * the program itself is preferred. */
static int add(fellow *list, int n, const fellow *p, const char *own)
{
    for (int i = 0; i < n; i++)
        if (list[i].rank == p->rank) {
            if (strcmp(list[i].name, own))
                list[i] = *p;
            return n;
        }
    if (n < MOST)
        list[n++] = *p;
    return n;
}

/* Lists the run's ranks on this machine in their order, as far as the launcher tells them. */
static int find_fellows(fellow list[MOST], const char *own)
{
    const char *run = getenv("PMIX_NAMESPACE");
    char *buf = run ? malloc(ENVIRON) : NULL;
    DIR *d = buf ? opendir("/proc") : NULL;
    fellow p;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)*e->d_name) && read_fellow(&p, e->d_name, run, own, buf))
            n = add(list, n, &p, own);
    if (d)
        closedir(d);
    free(buf);
    qsort(list, (size_t)n, sizeof *list, by_rank);
    return n;
}

/* ---- text ---- */

typedef struct view {            /* what this process sees of the others */
    int first;                   /* process of the lowest rank that waits here; it prints */
    char text[TEXT];
} view;

static size_t put(view *v, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static size_t put(view *v, size_t at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = at < TEXT ? vsnprintf(v->text + at, TEXT - at, fmt, args) : 0;
    va_end(args);
    return at + (size_t)(n > 0 ? n : 0);
}

/* Writes the ranks that wait, as "0-2, 5". */
static size_t put_waiting(view *v, size_t at, const fellow *list, int n)
{
    const char *between = "";
    for (int i = 0, j; i < n; i = j + 1, between = ", ") {
        for (j = i; j + 1 < n && list[j + 1].rank == list[j].rank + 1;)
            j++;
        at = put(v, at, "%s%ld", between, list[i].rank);
        if (j > i)
            at = put(v, at, "-%ld", list[j].rank);
    }
    return at;
}

/* "waiting on n1: rank 0-2, 5; rank 3 (vtrain, process 71) is stopped" */
static void look(view *v)
{
    char own[NAME + 1] = "", self[24], host[64] = "this machine";
    fellow list[MOST], waiting[MOST];
    int n_waiting = 0;
    snprintf(self, sizeof self, "%d", (int)getpid());
    read_file(self, "comm", own, sizeof own);
    own[strcspn(own, "\n")] = '\0';
    (void)gethostname(host, sizeof host - 1);
    int n = find_fellows(list, own);
    for (int i = 0; i < n; i++)
        if (list[i].waits)
            waiting[n_waiting++] = list[i];
    v->first = n_waiting ? waiting[0].pid : (int)getpid();
    size_t at = put(v, 0, "waiting on %s: ", host);
    at = n_waiting ? put_waiting(v, put(v, at, "rank "), waiting, n_waiting)
                   : put(v, at, "process %d", (int)getpid());
    for (int i = 0; i < n; i++)
        if (!list[i].waits)
            at = put(v, at, "; rank %ld (%s, process %d) %s", list[i].rank, list[i].name,
                     list[i].pid, list[i].stopped ? "is stopped" : "has not come so far");
    if (n == n_waiting)
        put(v, at, "; others have not started, are stopped or cannot be reached");
}

static void warn(vc_meet *m, double waited)
{
    vc_progress *ui = NULL;
    char time[32], limit[32], end[80] = "";
    view v;
    look(&v);
    m->leader = v.first;
    if (v.first != (int)getpid())
        return;
    if (m->o->patience > 0)
        snprintf(end, sizeof end, "; the run ends after %s (--comm_timeout)",
                 vc_human_time(limit, m->o->patience));
    if (vc_progress_open(&ui, m->o->program, m->o->log_format, true, NULL))
        return;
    vc_warn(ui, "the %ld ranks are not connected after %s (MPI_Init): %s%s", m->ranks,
            vc_human_time(time, waited), v.text, end);
    vc_progress_close(ui);
}

/* ---- the thread ---- */

/* True also of a process that ends: it has no memory then, and no environment, but a number. */
static bool is_gone(int pid)
{
    char name[24], one[2];
    snprintf(name, sizeof name, "%d", pid);
    return pid && pid != (int)getpid() && !read_file(name, "environ", one, sizeof one);
}

/* Reports and ends the process. Where another process of this machine reports, this one leaves it
 * some time, and is silent once it has ended. */
static void end_process(const vc_meet *m, double waited)
{
    static const struct timespec tick = { .tv_nsec = (long)(TICK * 1e9) };
    char time[32], text[TEXT + 160];
    view v;
    look(&v);
    int leader = is_gone(m->leader) ? m->leader : v.first;
    snprintf(text, sizeof text, "the %ld ranks were not connected within %s (MPI_Init, "
             "--comm_timeout): %s", m->ranks, vc_human_time(time, waited), v.text);
    if (leader == (int)getpid())
        vc_std_complain(m->o->program, text, VC_ELOST);
    for (double t = 0; leader != (int)getpid() && t < SLACK && !is_gone(leader); t += TICK)
        nanosleep(&tick, NULL);
    _Exit(EXIT_FAILURE);
}

/* Waits for the end, at most a tick; returns the seconds that passed while the process ran. */
static double rest(vc_meet *m)
{
    struct timespec until;
    double from = vc_seconds();
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(TICK * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&m->changed, &m->lock, &until);
    return fmin(vc_seconds() - from, 2 * TICK);
}

static void *watch(void *arg)
{
    vc_meet *m = arg;
    double limit = m->o->patience > 0 ? m->o->patience : INFINITY, waited = 0;
    double warn_at = limit < 2 * WARN ? limit / 2 : WARN;
    pthread_mutex_lock(&m->lock);
    while (!m->met) {
        waited += rest(m);
        if (m->met)
            break;
        if (waited >= limit)
            end_process(m, waited);
        if (waited < limit - SLACK && is_gone(m->leader))
            m->leader = 0;
        if (waited >= warn_at) {
            warn(m, waited);
            warn_at = 2 * waited;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

int vc_meet_begin(vc_meet **out, const vc_comm_start *o, long ranks, vc_err *err)
{
    pthread_condattr_t how;
    vc_meet *m = *out = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    m->o = o;
    m->ranks = ranks;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &how);
    pthread_condattr_destroy(&how);
    if (!pthread_create(&m->thread, NULL, watch, m))
        return 0;
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
    *out = NULL;
    return vc_fail(err, VC_EFAIL, "cannot start the thread that watches MPI_Init");
}

void vc_meet_end(vc_meet *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->met = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}
