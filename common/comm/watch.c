/* watch.c - a thread on each rank that hears the others; see watch.h */
#include "common/comm/watch.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOTE = 64, HOST = 64, NAMED = 16 };
/* Seconds: between beats; between beats with other notes; until silence is a warning; until a rank
 * that lets the others wait is named. The last two double with each line. */
#define BEAT 5.0
#define NEWS 0.25
#define WARN 30.0
#define BEHIND 300.0

typedef struct beat {
    char note[NOTE], host[HOST];
    int pid;
    bool ended;                  /* after a loss: this rank has nothing left to do */
    double waited;               /* seconds that this rank has been in one wait; 0: it computes */
    int n_lost, lost[NAMED];     /* ranks that this rank has lost */
} beat;

typedef struct peer {
    beat last;
    bool heard, lost;
    double silent;               /* seconds */
    double warn_at;              /* silence of the next warning */
} peer;

struct vc_watch {
    vc_comm *world;
    pthread_t thread;
    atomic_bool lost;
    atomic_int waiting, waits;   /* threads that wait; waits that have ended */
    pthread_mutex_t lock;        /* guards all fields below */
    pthread_cond_t changed;
    vc_comm_watch_opts o;
    bool quit, news;             /* news: the note has not been sent */
    beat mine;
    int waits_then;              /* at the last beat */
    double beat_at;              /* seconds (vc_seconds) */
    double behind_at;            /* wait of the next line about a rank that is behind */
    peer *peer;                  /* [size]; this rank's own has `lost` only */
};

/* ---- times ---- */

static double warn_after(const vc_watch *w)
{
    return w->o.patience > 0 && w->o.patience < 2 * WARN ? w->o.patience / 2 : WARN;
}

static double each(const vc_watch *w)
{
    return fmin(BEAT, warn_after(w) / 6);
}

/* Seconds until the next beat. With a new note it comes sooner, on few ranks. */
static double until_beat(const vc_watch *w)
{
    double news = fmax(NEWS, 0.005 * w->world->size);
    return w->beat_at + (w->news ? fmin(news, each(w)) : each(w)) - vc_seconds();
}

/* ---- text ---- */

static void name_rank(char *text, size_t n, const vc_watch *w, int r)
{
    const beat *b = &w->peer[r].last;
    if (w->peer[r].heard)
        snprintf(text, n, "rank %d (%s, process %d; %s)", r, b->host, b->pid, b->note);
    else
        snprintf(text, n, "rank %d (not heard yet)", r);
}

/* Names the ranks for which `is` holds, "rank 1 (...), rank 3 (...)"; returns their number. */
static int name_ranks(char *text, size_t n, const vc_watch *w, bool (*is)(const peer *p))
{
    int k = 0;
    size_t at = 0;
    *text = '\0';
    for (int r = 0; r < w->world->size; r++) {
        char one[HOST + NOTE + 60];
        if (r == w->world->rank || !is(&w->peer[r]))
            continue;
        name_rank(one, sizeof one, w, r);
        if (at < n)
            at += (size_t)snprintf(text + at, n - at, "%s%s", k ? ", " : "", one);
        k++;
    }
    return k;
}

static bool is_lost(const peer *p)
{
    return p->lost;
}

/* ---- the others ---- */

static int first(const vc_watch *w)
{
    for (int r = 0; r < w->world->size; r++)
        if (!w->peer[r].lost)
            return r;
    return -1;
}

/* The lowest rank that answers prints. */
static bool speaks(const vc_watch *w)
{
    int r = 0;
    while (r != w->world->rank && w->peer[r].silent >= warn_after(w))
        r++;
    return r == w->world->rank;
}

static void lose(vc_watch *w, int r)
{
    if (r < 0 || r >= w->world->size || w->peer[r].lost)
        return;
    w->peer[r].lost = true;
    if (w->mine.n_lost < NAMED)
        w->mine.lost[w->mine.n_lost++] = r;
    atomic_store(&w->lost, true);
}

static void hear(vc_watch *w)
{
    beat b;
    int from;
    while (w->world->ops->hear(w->world, &from, &b, sizeof b)) {
        peer *p = &w->peer[from];
        char who[HOST + NOTE + 60], time[32];
        b.note[NOTE - 1] = b.host[HOST - 1] = '\0';
        p->last = b;
        p->heard = true;
        if (p->warn_at > warn_after(w) && speaks(w)) {
            name_rank(who, sizeof who, w, from);
            vc_say(w->o.ui, "%s answers again, after %s", who, vc_human_time(time, p->silent));
        }
        p->silent = 0;
        p->warn_at = warn_after(w);
        for (int i = 0; i < b.n_lost && i < NAMED; i++)
            lose(w, b.lost[i]);
    }
}

static void warn_of(vc_watch *w, int r)
{
    peer *p = &w->peer[r];
    char who[HOST + NOTE + 60], after[32], limit[32], end[80] = "";
    p->warn_at = 2 * p->silent;
    if (!speaks(w))
        return;
    name_rank(who, sizeof who, w, r);
    if (w->o.patience > 0)
        snprintf(end, sizeof end, ", and the run ends after %s (--comm_timeout)",
                 vc_human_time(limit, w->o.patience));
    vc_warn(w->o.ui, "%s has not answered for %s: it is stopped, killed or cut off; the others "
            "wait for it%s", who, vc_human_time(after, p->silent), end);
}

/* Counts silence, warns, and gives ranks up. Ranks of one machine fall silent at the same moment:
 * with the first of them all are given up that are about to be. A user who wants the run to stop
 * does not have to wait for a rank that does not answer. */
static void judge(vc_watch *w, double passed)
{
    bool over = false;
    double slack = 3 * each(w), limit = w->o.patience > 0 ? w->o.patience : INFINITY;
    if (*vc_stop_flag())
        limit = fmin(limit, warn_after(w) + slack);
    for (int r = 0; r < w->world->size; r++) {
        peer *p = &w->peer[r];
        if (r == w->world->rank || p->lost)
            continue;
        p->silent += passed;
        over |= p->silent >= limit;
        if (p->silent >= p->warn_at && p->silent < limit)
            warn_of(w, r);
    }
    for (int r = 0; over && r < w->world->size; r++)
        if (r != w->world->rank && w->peer[r].silent >= limit - slack)
            lose(w, r);
}

static void note_wait(vc_watch *w, double passed)
{
    int waits = atomic_load(&w->waits);
    bool same = atomic_load(&w->waiting) > 0 && waits == w->waits_then;
    w->mine.waited = same ? w->mine.waited + passed : 0;
    w->waits_then = waits;
}

/* Names a rank that answers but does not come to a call in which all others have waited for long:
 * it writes a checkpoint, or its file system hangs. */
static void look_behind(vc_watch *w)
{
    double least = INFINITY;
    int late = -1, n_late = 0;
    char who[HOST + NOTE + 60], time[32];
    for (int r = 0; r < w->world->size; r++) {
        bool own = r == w->world->rank;
        double waited = own ? w->mine.waited : w->peer[r].last.waited;
        if ((!own && !w->peer[r].heard) || w->peer[r].silent >= warn_after(w))
            return;
        if (waited > 0) {
            least = fmin(least, waited);
            continue;
        }
        n_late++;
        late = own ? -1 : r;
    }
    if (n_late != 1 || !isfinite(least))
        w->behind_at = BEHIND;
    if (n_late != 1 || late < 0 || least < w->behind_at || !isfinite(least))
        return;
    w->behind_at = 2 * least;
    if (w->world->rank != (late == 0))
        return;                                          /* the lowest rank that waits prints */
    name_rank(who, sizeof who, w, late);
    vc_say(w->o.ui, "the others have waited for %s for %s; it answers, but is still at work", who,
           vc_human_time(time, least));
}

static void tell(vc_watch *w)
{
    w->news = false;
    for (int r = 0; r < w->world->size; r++)
        if (r != w->world->rank && !w->peer[r].lost)
            w->world->ops->tell(w->world, r, &w->mine, sizeof w->mine);
}

static void tick(vc_watch *w)
{
    double now = vc_seconds(), passed = fmin(now - w->beat_at, 2 * each(w));
    int lost = w->mine.n_lost;
    w->beat_at = now;
    note_wait(w, passed);
    tell(w);
    hear(w);
    judge(w, passed);
    look_behind(w);
    if (w->mine.n_lost != lost)
        tell(w);
    pthread_cond_broadcast(&w->changed);
}

/* ---- the thread ---- */

/* Waits for a change, or for some seconds at most. */
static void rest(vc_watch *w, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double at = (double)until.tv_nsec * 1e-9 + seconds, whole = floor(at);
    until.tv_sec += (time_t)whole;
    until.tv_nsec = (long)((at - whole) * 1e9);
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

static void *beats(void *arg)
{
    vc_watch *w = arg;
    pthread_mutex_lock(&w->lock);
    tick(w);
    while (!w->quit) {
        double left = until_beat(w);
        if (left > 0)
            rest(w, left);
        else
            tick(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int vc_watch_open(vc_watch **out, vc_comm *world, vc_err *err)
{
    pthread_condattr_t how;
    *out = NULL;
    vc_watch *w = calloc(1, sizeof *w);
    if (w)
        w->peer = calloc((size_t)world->size, sizeof *w->peer);
    if (!w || !w->peer) {
        free(w);
        return vc_no_memory(err);
    }
    w->world = world;
    w->o.patience = VC_COMM_PATIENCE;
    w->behind_at = BEHIND;
    w->beat_at = vc_seconds();
    w->mine.pid = (int)getpid();
    snprintf(w->mine.note, sizeof w->mine.note, "starting");
    if (gethostname(w->mine.host, sizeof w->mine.host - 1))
        snprintf(w->mine.host, sizeof w->mine.host, "unknown host");
    for (int r = 0; r < world->size; r++)
        w->peer[r].warn_at = WARN;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &how);
    pthread_condattr_destroy(&how);
    if (pthread_create(&w->thread, NULL, beats, w)) {
        free(w->peer);
        free(w);
        return vc_fail(err, VC_EFAIL, "cannot start the thread that watches the other ranks");
    }
    *out = w;
    return 0;
}

void vc_watch_close(vc_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->peer);
    free(w);
}

/* ---- the rank's own threads ---- */

void vc_watch_set(vc_watch *w, const vc_comm_watch_opts *o)
{
    pthread_mutex_lock(&w->lock);
    w->o = *o;
    for (int r = 0; r < w->world->size; r++)
        w->peer[r].warn_at = warn_after(w);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void vc_watch_note(vc_watch *w, const char *text)
{
    pthread_mutex_lock(&w->lock);
    snprintf(w->mine.note, sizeof w->mine.note, "%s", text);
    if (!w->news)
        pthread_cond_broadcast(&w->changed);
    w->news = true;
    pthread_mutex_unlock(&w->lock);
}

void vc_watch_wait(vc_watch *w)
{
    if (w)
        atomic_fetch_add(&w->waiting, 1);
}

void vc_watch_waited(vc_watch *w)
{
    if (w)
        atomic_fetch_add(&w->waits, 1);
    if (w)
        atomic_fetch_sub(&w->waiting, 1);
}

bool vc_watch_lost(const vc_watch *w)
{
    return w && atomic_load(&w->lost);
}

int vc_watch_fail(vc_watch *w, vc_err *err)
{
    char who[700], time[32];
    if (!vc_watch_lost(w))
        return 0;
    pthread_mutex_lock(&w->lock);
    int n = name_ranks(who, sizeof who, w, is_lost);
    double silent = 0;
    for (int r = 0; r < w->world->size; r++)
        if (w->peer[r].lost)
            silent = fmax(silent, w->peer[r].silent);
    if (n)
        vc_fail(err, VC_ELOST, "%s %s not answered for %s (--comm_timeout): stopped, killed or cut "
                "off", who, n > 1 ? "have" : "has", vc_human_time(time, silent));
    else
        vc_fail(err, VC_ELOST, "the other ranks gave this one up, as it did not answer them "
                "(--comm_timeout)");
    pthread_mutex_unlock(&w->lock);
    return VC_ELOST;
}

int vc_watch_first(vc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    int r = first(w);
    pthread_mutex_unlock(&w->lock);
    return r;
}

/* True if this rank has to end the run now. */
static bool may_end(const vc_watch *w)
{
    int who = first(w);
    for (int r = 0; r < w->world->size; r++) {
        const peer *p = &w->peer[r];
        if (r != w->world->rank && !p->lost && !p->last.ended && p->silent < warn_after(w))
            return false;
    }
    return who < 0 || who == w->world->rank;
}

void vc_watch_leave(vc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->mine.ended = true;
    tell(w);
    while (!may_end(w))
        rest(w, each(w));
    pthread_mutex_unlock(&w->lock);
}
