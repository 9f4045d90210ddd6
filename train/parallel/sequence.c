/* sequence.c - connects the ranks that share sequences; see sequence.h
 *
 * On GPUs exchanges are queued on a second stream, which waits for the kernels before and for which
 * the kernels after wait, by events. The host may then wait for a kernel that waits for another
 * rank, so a thread watches the queued exchanges: if a rank fails or does not come, the thread ends
 * them, and the kernels go on with whatever data there is until the step ends with the failure. */
#include "train/parallel/sequence.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/memory/second_stream.h"

enum { NAP = 500000 };           /* ns between looks at queued exchanges */

struct vtrain_sequence {
    vt_ctx *g, *second;          /* second: NULL on memory of the host */
    double patience;
    vc_comm *ranks;              /* those that share a sequence */
    vc_comm *device;             /* the same for memory of a device, else NULL */
    vt_peers peers;
    vt_event *before, *after;    /* of an exchange */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;        /* guards device and all fields below */
    pthread_cond_t changed;
    bool queued, quit;
    int rc;                      /* the first failure of an exchange on a device */
    vc_err err;
};

/* ---- exchanges ---- */

static int failed(const vtrain_sequence *s, vc_err *err)
{
    if (s->rc && err)
        *err = s->err;
    return s->rc;
}

static int queue(vtrain_sequence *s, void *to, const vc_piece *in, const void *from,
                 const vc_piece *out, vc_err *err)
{
    vt_record_event(s->g, s->before);
    pthread_mutex_lock(&s->lock);
    vt_after(s->second, s->before);
    if (!s->rc)
        s->rc = vc_comm_exchange(s->device, to, in, from, out, &s->err);
    vt_record_event(s->second, s->after);
    s->queued = true;
    int rc = failed(s, err);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    vt_after(s->g, s->after);
    return rc;
}

static int exchange(void *arg, void *to, const vc_piece *in, const void *from, const vc_piece *out,
                    vc_err *err)
{
    vtrain_sequence *s = arg;
    return (s->device ? queue(s, to, in, from, out, err)
                      : vc_comm_exchange(s->ranks, to, in, from, out, err));
}

static void *watch(void *arg)
{
    vtrain_sequence *s = arg;
    const struct timespec nap = { .tv_nsec = NAP };
    vt_adopt(s->second);
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        vc_err err;
        if (!s->queued) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        int rc = vc_comm_look(s->device, &s->queued, &err);
        if (rc && !s->rc) {
            s->rc = rc;
            s->err = err;
        }
        pthread_mutex_unlock(&s->lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- open, close ---- */

/* Opens what a device needs besides. Collective: no rank returns before the others know. */
static int open_device(vtrain_sequence *s, vc_comm *all, vc_err *err)
{
    int rc = vt_second_stream_open(&s->second, s->g, err);
    if (!rc)
        rc = vt_event_open(&s->before, s->g, err);
    if (!rc)
        rc = vt_event_open(&s->after, s->g, err);
    rc = vc_comm_agree(all, rc, err);
    const vc_comm_device_opts o = {
        .second = s->second, .all = s->ranks, .patience = s->patience,
        .first = vc_comm_rank(all) - vc_comm_rank(s->ranks),
    };
    if (!rc)
        rc = vc_comm_agree(all, vc_comm_device(&s->device, s->ranks, &o, err), err);
    if (!rc && pthread_create(&s->thread, NULL, watch, s))
        rc = vc_fail(err, VC_EFAIL, "cannot start the thread that watches exchanges");
    else
        s->started = !rc;
    return rc;
}

static int open_ranks(vtrain_sequence *s, vc_comm *all, int sp, vc_err *err)
{
    int rc = vc_comm_same_memory(all, vt_host_memory(s->g), err);
    if (!rc)
        rc = vc_comm_split(&s->ranks, all, vc_comm_rank(all) / sp, err);
    if (!rc && !vt_host_memory(s->g))
        rc = open_device(s, all, err);
    return vc_comm_agree(all, rc, err);
}

int vtrain_sequence_open(vtrain_sequence **out, vc_comm *all, vt_ctx *g, int sp, double patience,
                         vc_err *err)
{
    *out = NULL;
    if (sp == 1)
        return 0;
    vtrain_sequence *s = calloc(1, sizeof *s);
    int rc = vc_comm_agree(all, s ? 0 : vc_no_memory(err), err);
    if (rc) {
        free(s);
        return rc;
    }
    *s = (vtrain_sequence){ .g = g, .patience = patience };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    rc = open_ranks(s, all, sp, err);
    if (rc) {
        vtrain_sequence_close(s);
        return rc;
    }
    s->peers = (vt_peers){ .n = sp, .me = vc_comm_rank(s->ranks), .exchange = exchange, .arg = s };
    vt_set_peers(g, &s->peers);
    *out = s;
    return 0;
}

static void close_ranks(vtrain_sequence *s)
{
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->quit = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    vc_comm_close(s->device);
    vt_event_close(s->g, s->before);
    vt_event_close(s->g, s->after);
    vt_close(s->second);
    vc_comm_close(s->ranks);
}

int vtrain_sequence_again(vtrain_sequence *s, vc_comm *all, vc_err *err)
{
    if (!s)
        return 0;
    close_ranks(s);
    s->device = s->ranks = NULL;
    s->before = s->after = NULL;
    s->second = NULL;
    s->started = s->quit = s->queued = false;
    s->rc = 0;
    return open_ranks(s, all, s->peers.n, err);
}

void vtrain_sequence_close(vtrain_sequence *s)
{
    if (!s)
        return;
    vt_set_peers(s->g, NULL);
    close_ranks(s);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- failures ---- */

int vtrain_sequence_agree(vtrain_sequence *s, int rc, vc_err *err)
{
    double failures = rc != 0;
    vc_err why = { 0 };
    if (!s)
        return rc;
    int sum_rc = vc_comm_reduce(s->ranks, &failures, 1, VC_COMM_MAX, &why);
    if (rc || (!sum_rc && failures < 0.5))
        return rc;
    if (sum_rc && err)
        *err = why;
    return sum_rc ? sum_rc : vc_fail(err, VC_ESTOP, "another rank has failed");
}

int vtrain_sequence_end(vtrain_sequence *s, int rc, vc_err *err)
{
    vc_err stop;
    if (!s)
        return rc;
    if (!rc) {
        pthread_mutex_lock(&s->lock);
        rc = failed(s, err);
        pthread_mutex_unlock(&s->lock);
    }
    vc_fail(&stop, VC_ESTOP, "another rank has failed");
    if (rc)
        vc_comm_leave(s->ranks, &stop);
    return rc;
}
