/* device.c - communication between memories of devices; see comm.h
 *
 * The device's table of links (backend.h) moves the data, by NCCL on a GPU. The ranks connect with
 * the id of rank 0, which is broadcast on the MPI comm of the same ranks. This file adds bf16 on
 * the wire, and a time limit for ranks that do not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/comm/parts.h"
#include "common/memory/second_stream.h"
#include "common/os/progress.h"

typedef struct device {
    vc_comm_device_opts o;
    const vt_links *links;
    vt_link *link;               /* NULL: aborted */
    float *half;                 /* on the device: bf16 values on the wire */
    size_t room;                 /* values that `half` has room for */
    double since;                /* seconds (vc_seconds) at the last call */
    char call[80];               /* the last call, as "all-reduce of 512 values" */
    vc_err err;                  /* the first failure */
} device;

/* ---- failures ---- */

static void give_up(vc_comm *c)
{
    device *d = c->state;
    if (d->link)
        d->links->close(d->link);
    d->link = NULL;
    if (!d->err.code)
        vc_fail(&d->err, VC_EFAIL, "%s: aborted after a failure of the run", d->links->name);
}

static int failed(vc_comm *c, vc_err *err)
{
    const device *d = c->state;
    if (err)
        *err = d->err;
    return d->err.code;
}

/* Aborts after a failure of this rank and sends it to the other ranks: "rank 2: NCCL: all-reduce of
 * 512 values: ..." */
static int raise_alarm(vc_comm *c, int rc, vc_err *err)
{
    device *d = c->state;
    vc_context(&d->err, rc, "rank %d: %s: %s", d->o.first + vc_comm_rank(d->o.all),
               d->links->name, d->call);
    if (d->o.all && d->o.all->ops)
        d->o.all->ops->alarm(d->o.all, &d->err);
    give_up(c);
    return failed(c, err);
}

/* Polls once: returns the state, or a failure of any rank. */
static int look(vc_comm *c, vt_link_state *state, vc_err *err)
{
    device *d = c->state;
    if (!d->link)
        return failed(c, err);
    int rc = d->links->look(d->link, state, &d->err);
    if (rc)
        return raise_alarm(c, rc, err);
    if (*state == VT_LINK_IDLE) {
        d->since = vc_seconds();
        return 0;
    }
    vc_comm *all = d->o.all;
    if (vc_comm_lost(all, &d->err) ||
        (all && all->ops && all->ops->alarmed(all, &d->err))) {
        give_up(c);
        return failed(c, err);
    }
    if (d->o.patience <= 0 || vc_seconds() - d->since < d->o.patience)
        return 0;
    rc = vc_fail(&d->err, VC_EFAIL, "not done after %g s: a rank does not answer "
                 "(--comm_timeout)", d->o.patience);
    return raise_alarm(c, rc, err);
}

static int device_look(vc_comm *c, bool *busy, vc_err *err)
{
    vt_link_state state = VT_LINK_IDLE;
    int rc = look(c, &state, err);
    *busy = !rc && state != VT_LINK_IDLE;
    return rc;
}

/* ---- calls ---- */

static int begin(vc_comm *c, const char *call, size_t n, vc_err *err)
{
    device *d = c->state;
    if (!d->link)
        return failed(c, err);
    snprintf(d->call, sizeof d->call, "%s of %zu values", call, n);
    d->since = vc_seconds();
    return 0;
}

/* Ends a call that returned rc: waits until the next call may be made. */
static int end(vc_comm *c, int rc, vc_err *err)
{
    const struct timespec nap = { .tv_nsec = 20000 };
    vt_link_state state = VT_LINK_CALLING;
    if (rc)
        return raise_alarm(c, rc, err);
    while (!(rc = look(c, &state, err)) && state == VT_LINK_CALLING)
        nanosleep(&nap, NULL);
    return rc;
}

/* Makes room for n values in bf16. */
static int make_room(device *d, size_t n, vc_err *err)
{
    if (n <= d->room)
        return 0;
    vt_values_free(d->o.second, d->half, (d->room + 1) / 2);
    d->room = 0;
    d->half = vt_values_new(d->o.second, (n + 1) / 2, err);
    if (d->half)
        d->room = n;
    return d->half ? 0 : VC_ENOMEM;
}

/* Queues the sum of n values of type wire at x. */
typedef int (*sum_fn)(const device *d, void *mine, void *x, size_t n, vc_dtype wire, vc_err *err);

static int sum_all(const device *d, void *mine, void *x, size_t n, vc_dtype wire, vc_err *err)
{
    (void)mine;
    return d->links->sum(d->link, x, n, wire, err);
}

static int sum_parts(const device *d, void *mine, void *x, size_t n, vc_dtype wire, vc_err *err)
{
    return d->links->sum_scatter(d->link, mine, x, n, wire, err);
}

/* Sums x [parts * n] over ranks into mine [n], by way of bf16 if wire is VC_BF16. */
static int sum(vc_comm *c, sum_fn f, float *mine, const float *x, size_t n, size_t parts,
               vc_dtype wire, vc_err *err)
{
    device *d = c->state;
    vt_ctx *g = d->o.second;
    float *from = (float *)(uintptr_t)x;
    if (wire == VC_F32)
        return end(c, f(d, mine, from, n, wire, &d->err), err);
    int rc = make_room(d, n * parts, &d->err);
    if (rc)
        return end(c, rc, err);
    uint16_t *half = (uint16_t *)d->half, *own = parts > 1 ? half + (size_t)c->rank * n : half;
    vt_values_cast(g, half, wire, x, VC_F32, n * parts);
    rc = end(c, f(d, own, half, n, wire, &d->err), err);
    if (!rc)
        vt_values_cast(g, mine, VC_F32, own, wire, n);
    return rc;
}

static int device_sum(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err)
{
    int rc = begin(c, "all-reduce", n, err);
    return rc ? rc : sum(c, sum_all, x, x, n, 1, wire, err);
}

static int device_sum_scatter(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                              vc_err *err)
{
    int rc = begin(c, "reduce-scatter", n, err);
    return rc ? rc : sum(c, sum_parts, mine, x, n, (size_t)c->size, wire, err);
}

static int device_gather(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err)
{
    device *d = c->state;
    int rc = begin(c, "all-gather", n, err);
    return rc ? rc : end(c, d->links->gather(d->link, all, mine, n, &d->err), err);
}

static int device_exchange(vc_comm *c, void *to, const vc_piece *in, const void *from,
                           const vc_piece *out, vc_err *err)
{
    device *d = c->state;
    size_t bytes = 0;
    for (int r = 0; r < c->size; r++)
        bytes += out[r].n;
    int rc = begin(c, "exchange", bytes, err);
    return rc ? rc : end(c, d->links->exchange(d->link, to, in, from, out, &d->err), err);
}

/* ---- open, close ---- */

static void device_close(vc_comm *c)
{
    device *d = c->state;
    give_up(c);
    vt_values_free(d->o.second, d->half, (d->room + 1) / 2);
    free(d);
}

static const vc_comm_ops device_ops = {
    .close = device_close, .gather = device_gather, .exchange = device_exchange,
    .sum = device_sum,
    .sum_scatter = device_sum_scatter, .look = device_look, .give_up = give_up,
};

/* Connects the ranks. All ranks call it, and none returns early because another fails. */
static int start(vc_comm *c, vc_comm *host, vc_err *err)
{
    device *d = c->state;
    vt_dev *dev;
    struct { vc_err err; char id[VT_LINK_ID]; } first = { 0 };
    vt_links_of(d->o.second, &dev);
    snprintf(d->call, sizeof d->call, "start of %d ranks", c->size);
    d->since = vc_seconds();
    if (c->rank == 0)
        d->links->id(first.id, &first.err);
    int rc = vc_comm_broadcast(host, &first, sizeof first, 0, err);
    if (rc)
        return rc;
    d->err = first.err;
    if (!d->err.code)
        d->links->open(&d->link, dev, c->rank, c->size, first.id, &d->err);
    return end(c, d->err.code, err);
}

int vc_comm_same_memory(vc_comm *c, bool host, vc_err *err)
{
    int ranks = vc_comm_size(c), rc = 0;
    bool *on_host = calloc((size_t)ranks, sizeof *on_host);
    if (!on_host)
        rc = vc_no_memory(err);
    rc = vc_comm_agree(c, rc, err);
    if (!rc)
        rc = vc_comm_gather(c, on_host, &host, sizeof host, err);
    for (int r = 1; !rc && r < ranks; r++)
        if (on_host[r] != on_host[0])
            rc = vc_fail(err, VC_EUSAGE, "rank %d computes on a GPU and rank %d on the CPU: start "
                         "as many ranks on a machine as it has GPUs, or give --device cpu",
                         on_host[0] ? r : 0, on_host[0] ? 0 : r);
    free(on_host);
    return rc;
}

int vc_comm_device(vc_comm **out, vc_comm *c, const vc_comm_device_opts *o, vc_err *err)
{
    vt_dev *dev;
    const vt_links *links = vt_links_of(o->second, &dev);
    *out = NULL;
    if (!links)
        return vc_fail(err, VC_EINVAL, "this build cannot sum between GPUs: it was made without "
                       "NCCL; name NCCL's folder in -DVLT_CUDA_ROOTS and build again");
    vc_comm *own = calloc(1, sizeof *own);
    device *d = calloc(1, sizeof *d);
    if (!own || !d) {
        free(own);
        free(d);
        return vc_no_memory(err);
    }
    *d = (device){ .o = *o, .links = links };
    *own = (vc_comm){ .ops = &device_ops, .state = d, .rank = vc_comm_rank(c),
                      .size = vc_comm_size(c), .local = vc_comm_local(c),
                      .locals = vc_comm_locals(c) };
    int rc = start(own, c, err);
    if (rc) {
        vc_comm_close(own);
        return rc;
    }
    *out = own;
    return 0;
}
