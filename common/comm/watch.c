/* watch.c - a thread on each rank that hears the others; see watch.h */
#include "common/comm/watch.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOTE = 64, HOST = 64, NAMED = 16, REPORTS = 4 };
/* Seconds: between beats; between beats with other notes, and more per rank that hears them; until
 * silence is a warning; until a rank that lets the others wait is named. The last two double with
 * each line. */
#define BEAT 5.0
#define NEWS 0.25
#define NEWS_EACH 0.1
#define WARN 30.0
#define BEHIND 300.0

typedef struct place {
    char note[NOTE], host[HOST];
    int pid;
} place;

/* What a rank that watches another says about it: it is silent. */
typedef struct report {
    int rank;
    bool known;                  /* at */
    place at;
    double silent;               /* seconds */
} report;

typedef struct beat {
    place at;                    /* where the sender is */
    bool alert;                  /* the sender's beats go to all */
    bool ended;                  /* after a loss: this rank has nothing left to do */
    double waited;               /* seconds that this rank has been in one wait; 0: it computes */
    int n_lost, lost[NAMED];     /* ranks that this rank has lost */
    int n_reports;
    report report[REPORTS];      /* the message ends after the last one */
} beat;

typedef struct peer {
    place at;
    bool known, heard;           /* at; a beat of its own has been heard */
    bool ended, lost;
    bool direct;                 /* its last beat went to all */
    bool quiet;                  /* in an alert: its last beat did not, so that it is not missed */
    double waited;
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
    double alert;                /* seconds that the alert still lasts; 0: there is none */
    double far_at;               /* time of the next beat to all without an alert */
    double behind_at;            /* wait of the next line about a rank that is behind */
    int turn;                    /* of the reports */
    peer *peer;                  /* [size]; this rank's own has `lost` only */
};

/* ---- who hears whom ---- */

/* True if rank `to` hears the beats of rank `from` without an alert: it is 1, 2, 4, 8, ... ranks
 * further on. */
static bool hears(const vc_watch *w, int to, int from)
{
    int far = (to - from + w->world->size) % w->world->size;
    return far > 0 && !(far & (far - 1));
}

/* True if this rank hears the beats of rank r without an alert. */
static bool watches(const vc_watch *w, int r)
{
    return hears(w, w->world->rank, r);
}

/* Number of ranks that hear this one. */
static int hearers(const vc_watch *w)
{
    int n = 0;
    for (int far = 1; far < w->world->size; far *= 2)
        n++;
    return n;
}

/* ---- times ---- */

static double warn_after(const vc_watch *w)
{
    return w->o.patience > 0 && w->o.patience < 2 * WARN ? w->o.patience / 2 : WARN;
}

static double each(const vc_watch *w)
{
    return fmin(BEAT, warn_after(w) / 6);
}

/* Seconds until the next beat. With a new note it comes sooner, but not to all ranks. */
static double until_beat(const vc_watch *w)
{
    double news = w->news && !w->mine.alert ? fmax(NEWS, NEWS_EACH * hearers(w)) : BEAT;
    return w->beat_at + fmin(news, each(w)) - vc_seconds();
}

/* ---- text ---- */

static void name_rank(char *text, size_t n, const vc_watch *w, int r)
{
    const place *at = &w->peer[r].at;
    if (w->peer[r].known)
        snprintf(text, n, "rank %d (%s, process %d; %s)", r, at->host, at->pid, at->note);
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

/* The lowest rank that answers prints. Ranks of one machine fall silent at the same moment, but
 * within a beat. */
static bool speaks(const vc_watch *w)
{
    int r = 0;
    while (r != w->world->rank && w->peer[r].silent >= warn_after(w) - 1.5 * each(w))
        r++;
    return r == w->world->rank;
}

/* Something is wrong: for a while from here on this rank's beats go to all, and it misses those of
 * all others. Of these it does not know yet which have been silent, and how long. */
static void raise_alert(vc_watch *w)
{
    bool was = w->alert > 0;
    w->alert = fmax(w->alert, warn_after(w));
    for (int r = 0; !was && r < w->world->size; r++) {
        peer *p = &w->peer[r];
        if (watches(w, r) || p->direct)
            continue;
        p->silent = warn_after(w) - 4 * each(w);
        p->quiet = false;
    }
}

static void end_alert(vc_watch *w)
{
    w->alert = 0;
    for (int r = 0; r < w->world->size; r++)
        w->peer[r].direct = false;
}

/* True if this rank would hear from rank r if that were well. */
static bool misses(const vc_watch *w, int r)
{
    const peer *p = &w->peer[r];
    return r != w->world->rank && (watches(w, r) || p->lost || (w->alert > 0 && !p->quiet));
}

static void lose(vc_watch *w, int r)
{
    if (r < 0 || r >= w->world->size || w->peer[r].lost)
        return;
    w->peer[r].lost = true;
    if (w->mine.n_lost < NAMED)
        w->mine.lost[w->mine.n_lost++] = r;
    raise_alert(w);
    atomic_store(&w->lost, true);
}

static void take_place(peer *p, const place *at)
{
    p->at = *at;
    p->at.note[NOTE - 1] = p->at.host[HOST - 1] = '\0';
    p->known = true;
}

/* Another rank reports one that is silent; this rank's own ears count more. */
static void take_report(vc_watch *w, const report *k)
{
    if (k->rank < 0 || k->rank >= w->world->size || k->rank == w->world->rank)
        return;
    peer *p = &w->peer[k->rank];
    if (watches(w, k->rank) || p->direct)
        return;
    if (k->known)
        take_place(p, &k->at);
    p->silent = fmax(p->silent, k->silent);
    p->quiet = false;
}

static void take_beat(vc_watch *w, int from, const beat *b)
{
    peer *p = &w->peer[from];
    char name[HOST + NOTE + 60], time[32];
    take_place(p, &b->at);
    if (p->warn_at > warn_after(w)) {                    /* this rank has warned of it */
        name_rank(name, sizeof name, w, from);
        vc_say(w->o.ui, "%s answers again, after %s", name, vc_human_time(time, p->silent));
    }
    p->heard = true;
    p->waited = b->waited;
    p->ended = b->ended;
    p->direct = b->alert;
    p->quiet = !b->alert;
    p->silent = 0;
    p->warn_at = warn_after(w);
    if (b->n_lost || b->n_reports || b->ended)
        raise_alert(w);
    for (int i = 0; i < b->n_lost && i < NAMED; i++)
        lose(w, b->lost[i]);
    for (int i = 0; i < b->n_reports && i < REPORTS; i++)
        take_report(w, &b->report[i]);
}

static void hear(vc_watch *w)
{
    beat b = { 0 };
    int from;
    while (w->world->ops->hear(w->world, &from, &b, sizeof b))
        take_beat(w, from, &b);
}

static void warn_of(vc_watch *w, int r)
{
    peer *p = &w->peer[r];
    char who[HOST + NOTE + 60], after[32], limit[32], end[80] = "";
    if (!speaks(w))
        return;
    p->warn_at = 2 * p->silent;
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
        p->silent = misses(w, r) ? p->silent + passed : 0;
        if (p->silent >= warn_after(w))
            raise_alert(w);
        if (p->lost)
            continue;
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
        double waited = own ? w->mine.waited : w->peer[r].waited;
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

/* ---- this rank ---- */

/* Puts the silent ranks that this one watches into its beat, in turn. */
static void add_reports(vc_watch *w)
{
    int silent[32], n = 0;
    for (int far = 1; far < w->world->size; far *= 2) {
        int r = (w->world->rank - far + w->world->size) % w->world->size;
        if (w->peer[r].silent >= warn_after(w))
            silent[n++] = r;
    }
    w->mine.n_reports = n < REPORTS ? n : REPORTS;
    for (int i = 0; i < w->mine.n_reports; i++) {
        int r = silent[w->turn++ % n];
        const peer *p = &w->peer[r];
        w->mine.report[i] = (report){ r, p->known, p->at, p->silent };
    }
    w->turn %= n ? n : 1;
}

static void tell(vc_watch *w, bool all)
{
    size_t n = offsetof(beat, report) + (size_t)w->mine.n_reports * sizeof *w->mine.report;
    w->news = false;
    for (int r = 0; r < w->world->size; r++)
        if (r != w->world->rank && !w->peer[r].lost && (all || hears(w, r, w->world->rank)))
            w->world->ops->tell(w->world, r, &w->mine, n);
}

/* True from time to time while ranks wait for long, so that all know which one does not. */
static bool tells_waits(vc_watch *w)
{
    double longest = w->mine.waited;
    for (int r = 0; r < w->world->size; r++)
        if (watches(w, r))
            longest = fmax(longest, w->peer[r].waited);
    if (longest < BEHIND / 2 || w->beat_at < w->far_at)
        return false;
    w->far_at = w->beat_at + BEHIND / 10;
    return true;
}

static void tick(vc_watch *w)
{
    double now = vc_seconds(), passed = fmin(now - w->beat_at, 2 * each(w));
    bool was = w->mine.alert;
    w->beat_at = now;
    note_wait(w, passed);
    w->alert = fmax(w->alert - passed, 0);
    hear(w);
    judge(w, passed);
    if (w->mine.n_lost || w->mine.ended)
        raise_alert(w);
    look_behind(w);
    add_reports(w);
    w->mine.alert = w->alert > 0;
    if (!w->mine.alert)
        end_alert(w);
    bool waits = tells_waits(w);
    tell(w, w->mine.alert || was || waits);
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
    place *own = &w->mine.at;
    own->pid = (int)getpid();
    snprintf(own->note, sizeof own->note, "starting");
    if (gethostname(own->host, sizeof own->host - 1))
        snprintf(own->host, sizeof own->host, "unknown host");
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
    snprintf(w->mine.at.note, sizeof w->mine.at.note, "%s", text);
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
        if (r != w->world->rank && !p->lost && !p->ended && p->silent < warn_after(w))
            return false;
    }
    return who < 0 || who == w->world->rank;
}

void vc_watch_leave(vc_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->mine.ended = true;
    tell(w, true);
    while (!may_end(w))
        rest(w, each(w));
    pthread_mutex_unlock(&w->lock);
}
