/* place.c - what ends the calls of a place and its attempts to bring a file; see place.h */
#include "formats/vlat/place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { PAUSE_MS = 50,                        /* doubles with each attempt that fails */
       LONGEST_WAIT = 120 };                 /* seconds that a server may ask for */

int vlat_place_stopped(const vlat_place *p, vc_err *err)
{
    const vlat_limits *l = p->limits;
    if (*vc_stop_flag() || l->stop)
        return vc_fail(err, VC_ESTOP, "stopped; the same command continues");
    if (l->end > 0 && vc_seconds() >= l->end)
        return vc_fail(err, VC_EIO, "the %" PRId64 " s of --max_time are over; the same command "
                       "continues", l->max_time);
    return 0;
}

/* Sleeps, but not beyond a stop. */
static void pause_for(const vlat_place *p, double seconds)
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
