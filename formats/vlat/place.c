/* place.c - the choice among the kinds of places, and what ends their calls and attempts. See
 * place.h */
#include "formats/vlat/place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/base/secrets.h"

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

int vlat_place_open(vlat_place **out, const char *where, const vlat_limits *limits, vc_err *err)
{
    static const char *const web[] = { "http://", "https://" };
    const char *colon = strchr(where, ':');
    bool http = !strncasecmp(where, web[0], 7) || !strncasecmp(where, web[1], 8);
    bool remote = colon && colon > where && strcspn(where, "/") > (size_t)(colon - where);
    char *shown = vc_without_secrets(where, true);
    int rc = shown ? 0 : vc_no_memory(err);
    *out = NULL;
    if (!rc && !http && strstr(where, "://"))
        rc = vc_fail(err, VC_EUSAGE, "%s: give an address that begins with http:// or https://, "
                     "a path USER@HOST:FOLDER for ssh, or a folder", shown);
    else if (!rc && !http && vc_has_password(where))
        rc = vc_fail(err, VC_EUSAGE, "%s: ssh takes no password from an address: give "
                     "USER@HOST:FOLDER, and a key (ssh-copy-id); if this is HOST:FOLDER, write "
                     "HOST:./FOLDER", shown);
    if (!rc)
        rc = http ? vlat_http_open(out, shown, err)
                  : remote ? vlat_ssh_open(out, where, err) : vlat_folder_open(out, where, err);
    if (rc) {
        free(shown);
        return rc;
    }
    (*out)->where = where;
    (*out)->shown = shown;
    (*out)->limits = limits;
    return 0;
}

void vlat_place_close(vlat_place *p)
{
    if (!p)
        return;
    free(p->shown);
    p->kind->close(p);
}
