/* place.c - what ends the calls of a place and its attempts to bring a file; see place.h */
#include "formats/vlat/place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { PAUSE_MS = 50,                        /* doubles with each attempt that fails */
       LONGEST_WAIT = 120,                   /* seconds that a server may ask for */
       PATIENCE = 10 };                      /* seconds of silence before the first warning */

void vlat_place_asks(vlat_place *p)
{
    if (!p->told)
        p->since = vc_seconds();
    p->asked = true;
}

void vlat_place_hears(vlat_place *p)
{
    p->asked = false;
    p->told = 0;
}

void vlat_place_rests(vlat_place *p)
{
    p->asked = false;
}

static void warn_of_silence(vlat_place *p)
{
    const vlat_limits *l = p->limits;
    double first = (double)l->timeout / 2 < PATIENCE ? (double)l->timeout / 2 : PATIENCE;
    double silent = vc_seconds() - p->since;
    char buf[32];
    if (!p->asked || silent < (p->told ? 2 * p->told : first))
        return;
    p->told = silent;
    vc_warn(l->ui, "%s has not answered for %s (--timeout and --max_time end the wait)", p->shown,
            vc_human_time(buf, silent));
}

int vlat_place_stopped(vlat_place *p, vc_err *err)
{
    const vlat_limits *l = p->limits;
    warn_of_silence(p);
    if (*vc_stop_flag() || l->stop)
        return vc_fail(err, VC_ESTOP, "stopped; the same command continues");
    if (l->end > 0 && vc_seconds() >= l->end)
        return vc_fail(err, VC_EIO, "the %" PRId64 " s of --max_time are over; the same command "
                       "continues", l->max_time);
    return 0;
}

/* Sleeps, but not beyond a stop. */
static void pause_for(vlat_place *p, double seconds)
{
    const struct timespec some = { .tv_nsec = PAUSE_MS * 1000000L };
    double end = vc_seconds() + seconds;
    while (vc_seconds() < end && !vlat_place_stopped(p, NULL))
        nanosleep(&some, NULL);
}

vlat_tries vlat_tries_of(vlat_place *p, uint64_t at)
{
    return (vlat_tries){ .place = p, .at = at, .began = vc_seconds() };
}

bool vlat_try_again(vlat_tries *t, uint64_t at)
{
    vlat_place *p = t->place;
    double least = (double)p->limits->lowest_speed * (vc_seconds() - t->began);
    bool brought = at > t->at && (double)(at - t->at) >= least;
    t->failed = brought ? 0 : t->failed + 1;
    if (t->failed == VLAT_TRIES || vlat_place_stopped(p, NULL))
        return false;
    int64_t wait = p->wait < LONGEST_WAIT ? p->wait : LONGEST_WAIT;
    double longer = t->failed ? (PAUSE_MS << t->failed) / 1e3 : 0;
    pause_for(p, (double)wait > longer ? (double)wait : longer);
    t->at = at;
    t->began = vc_seconds();
    return true;
}

void vlat_place_close(vlat_place *p)
{
    if (!p)
        return;
    free(p->shown);
    p->kind->close(p);
}
