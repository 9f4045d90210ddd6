/* order.c - finds the epoch of a micro-batch, and its samples; see order.h */
#include "train/data/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buckets/sampler.h"

struct vtrain_order {
    const vtrain_data *d;
    uint32_t batch, visits;
    uint64_t seed;
    vtrain_origin origin;
    uint32_t *row;               /* [visits] of the epoch */
    uint32_t *count;             /* [groups] scratch */
    uint64_t epoch, start;       /* the epoch of row and group, and its first micro-batch */
    uint64_t batches;            /* micro-batches of that epoch */
    vb_sampler *sampler;         /* of that epoch; of all epochs where groups never change */
};

/* Counts the epoch's micro-batches; a group's leftovers make a smaller one. */
static uint64_t count_batches(const vtrain_order *o)
{
    uint32_t groups = vtrain_data_groups(o->d);
    uint64_t n = 0;

    memset(o->count, 0, groups * sizeof *o->count);
    for (uint32_t i = 0; i < o->visits; i++)
        o->count[vtrain_data_sample(o->d, o->row[i])->group]++;
    for (uint32_t g = 0; g < groups; g++)
        n += ((uint64_t)o->count[g] + o->batch - 1) / o->batch;
    return n;
}

static void go_to(vtrain_order *o, uint64_t epoch, uint64_t start)
{
    o->epoch = epoch;
    o->start = start;
    vtrain_data_epoch(o->d, epoch, o->row, NULL);
    if (vtrain_data_varied(o->d) || !o->batches)
        o->batches = count_batches(o);
}

static int no_room(const vtrain_order *o, vc_err *err)
{
    return vc_fail(err, VC_ENOMEM, "out of memory for an epoch of %" PRIu32 " samples", o->visits);
}

static int open_sampler(vtrain_order *o, vc_err *err)
{
    vb_sampler_close(o->sampler);
    o->sampler = NULL;
    uint32_t *group = malloc(o->visits * sizeof *group);
    if (!group)
        return no_room(o, err);
    for (uint32_t i = 0; i < o->visits; i++)
        group[i] = vtrain_data_sample(o->d, o->row[i])->group;
    int rc = vb_sampler_open(&o->sampler, group, o->visits, vtrain_data_groups(o->d), o->batch,
                             VB_LEFTOVER_SMALL, o->seed, err);
    free(group);
    return rc;
}

int vtrain_order_open(vtrain_order **out, const vtrain_data *d, uint32_t batch, uint64_t seed,
                      vtrain_origin origin, vc_err *err)
{
    *out = NULL;
    vtrain_order *o = calloc(1, sizeof *o);
    if (!o)
        return vc_no_memory(err);
    *o = (vtrain_order){ .d = d, .batch = batch, .seed = seed, .origin = origin,
                         .visits = vtrain_data_visits(d) };
    o->row = malloc(o->visits * sizeof *o->row);
    o->count = malloc(vtrain_data_groups(d) * sizeof *o->count);
    int rc = 0;
    if (!batch)
        rc = vc_fail(err, VC_EINVAL, "batches of 0 rows");
    else if (!o->row || !o->count)
        rc = no_room(o, err);
    if (!rc) {
        go_to(o, origin.epoch, origin.micro);
        rc = open_sampler(o, err);
    }
    if (rc) {
        vtrain_order_close(o);
        return rc;
    }
    *out = o;
    return 0;
}

void vtrain_order_close(vtrain_order *o)
{
    if (!o)
        return;
    vb_sampler_close(o->sampler);
    free(o->row);
    free(o->count);
    free(o);
}

/* Makes the epoch of micro-batch m the current one. */
static int seek(vtrain_order *o, uint64_t m, vc_err *err)
{
    const vtrain_origin from = o->origin;
    uint64_t was = o->epoch;

    if (m < from.micro || m > UINT32_MAX)
        return vc_fail(err, VC_EINVAL, "micro-batch %" PRIu64 ": a run has at most 2^32, those of "
                       "these data begin at %" PRIu64, m, from.micro);
    if (!vtrain_data_varied(o->d)) {
        uint64_t passed = (m - from.micro) / o->batches;
        if (from.epoch + passed != o->epoch)
            go_to(o, from.epoch + passed, from.micro + passed * o->batches);
        return 0;
    }
    if (m < o->start)
        go_to(o, from.epoch, from.micro);
    while (m - o->start >= o->batches)
        go_to(o, o->epoch + 1, o->start + o->batches);
    return o->epoch == was && o->sampler ? 0 : open_sampler(o, err);
}

int vtrain_order_get(vtrain_order *o, uint64_t m, uint32_t *rows, uint32_t *n, vc_err *err)
{
    *n = 0;
    int rc = seek(o, m, err);
    if (!rc)                             /* all epochs of the sampler are as long as this one */
        vb_sampler_get(o->sampler, o->epoch * o->batches + (m - o->start), rows, n);
    for (uint32_t i = 0; i < *n; i++)
        rows[i] = o->row[rows[i]];
    return rc;
}

int vtrain_order_epoch(vtrain_order *o, uint64_t m, uint64_t *epoch, uint64_t *end, vc_err *err)
{
    int rc = seek(o, m, err);
    *epoch = rc ? 0 : o->epoch;
    *end = rc ? 0 : o->start + o->batches;
    return rc;
}

uint64_t vtrain_order_count(vtrain_order *o, uint64_t epochs, uint64_t limit)
{
    uint64_t was = o->epoch, start = o->start, n = 0;

    if (!vtrain_data_varied(o->d))
        return epochs > limit / o->batches ? limit : epochs * o->batches;
    for (uint64_t e = 0; e < epochs && n < limit; e++) {
        go_to(o, o->origin.epoch + e, 0);
        n += o->batches;
    }
    go_to(o, was, start);
    return n < limit ? n : limit;
}
