/* order.c - finds the epoch of a micro-batch, and its samples; see order.h */
#include "train/data/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buckets/sampler.h"

struct vtrain_order {
    const vtrain_data *d;
    vtrain_order_plan plan;
    uint32_t visits;             /* of a whole epoch */
    uint32_t *row;               /* [visits] of the epoch */
    uint32_t *left;              /* [n_left] visits that the first epoch has, or NULL: all */
    uint32_t n_left;
    uint32_t *count;             /* [groups] scratch */
    uint64_t epoch, start;       /* the epoch of row, and its first micro-batch */
    uint64_t batches;            /* micro-batches of that epoch */
    uint64_t first, whole;       /* micro-batches of the first epoch, and of a later one where all
                                  * are equally long; whole 0: not counted yet */
    vb_sampler *sampler;         /* of the epoch that is `sampled`; of all whole epochs where groups
                                  * never change */
    uint64_t sampled;
};

static bool is_part(const vtrain_order *o, uint64_t epoch)
{
    return o->left && epoch == o->plan.origin.epoch;
}

/* The i-th visit of the epoch. */
static uint32_t visit_at(const vtrain_order *o, uint32_t i)
{
    return is_part(o, o->epoch) ? o->left[i] : i;
}

static uint32_t visits_now(const vtrain_order *o)
{
    return is_part(o, o->epoch) ? o->n_left : o->visits;
}

static uint32_t group_at(const vtrain_order *o, uint32_t i)
{
    return vtrain_data_sample(o->d, o->row[visit_at(o, i)])->group;
}

/* Counts the epoch's micro-batches; a group's leftovers make a smaller one. */
static uint64_t count_batches(const vtrain_order *o)
{
    uint32_t groups = vtrain_data_groups(o->d);
    uint64_t n = 0;

    memset(o->count, 0, groups * sizeof *o->count);
    for (uint32_t i = 0; i < visits_now(o); i++)
        o->count[group_at(o, i)]++;
    for (uint32_t g = 0; g < groups; g++)
        n += ((uint64_t)o->count[g] + o->plan.batch - 1) / o->plan.batch;
    return n;
}

static void go_to(vtrain_order *o, uint64_t epoch, uint64_t start)
{
    o->epoch = epoch;
    o->start = start;
    vtrain_data_epoch(o->d, epoch, o->row, NULL);
    if (vtrain_data_varied(o->d)) {
        o->batches = count_batches(o);
        return;
    }
    uint64_t *known = is_part(o, epoch) ? &o->first : &o->whole;
    if (!*known)
        *known = count_batches(o);
    o->batches = *known;
}

static int no_room(const vtrain_order *o, vc_err *err)
{
    return vc_fail(err, VC_ENOMEM, "out of memory for an epoch of %" PRIu32 " samples", o->visits);
}

static int open_sampler(vtrain_order *o, vc_err *err)
{
    uint32_t n = visits_now(o), *group = malloc(n * sizeof *group);
    vb_sampler_close(o->sampler);
    o->sampler = NULL;
    if (!group)
        return no_room(o, err);
    for (uint32_t i = 0; i < n; i++)
        group[i] = group_at(o, i);
    int rc = vb_sampler_open(&o->sampler, group, n, vtrain_data_groups(o->d), o->plan.batch,
                             VB_LEFTOVER_SMALL, o->plan.seed, err);
    free(group);
    o->sampled = o->epoch;
    return rc;
}

/* Lists the visits that the first epoch still has. */
static int list_left(vtrain_order *o, vc_err *err)
{
    const uint8_t *done = o->plan.done;
    if (!done)
        return 0;
    o->left = malloc(((size_t)o->visits + 1) * sizeof *o->left);
    if (!o->left)
        return no_room(o, err);
    for (uint32_t i = 0; i < o->visits; i++)
        if (!done[i])
            o->left[o->n_left++] = i;
    return o->n_left ? 0 : vc_fail(err, VC_EINVAL, "all samples of the epoch have been visited");
}

int vtrain_order_open(vtrain_order **out, const vtrain_data *d, const vtrain_order_plan *plan,
                      vc_err *err)
{
    *out = NULL;
    vtrain_order *o = calloc(1, sizeof *o);
    if (!o)
        return vc_no_memory(err);
    *o = (vtrain_order){ .d = d, .plan = *plan, .visits = vtrain_data_visits(d) };
    o->row = malloc(o->visits * sizeof *o->row);
    o->count = malloc(vtrain_data_groups(d) * sizeof *o->count);
    int rc = 0;
    if (!plan->batch)
        rc = vc_fail(err, VC_EINVAL, "batches of 0 rows");
    else if (!o->row || !o->count)
        rc = no_room(o, err);
    if (!rc)
        rc = list_left(o, err);
    if (!rc) {
        go_to(o, plan->origin.epoch, plan->origin.micro);
        rc = open_sampler(o, err);
    }
    if (rc) {
        vtrain_order_close(o);
        return rc;
    }
    *out = o;
    return 0;
}

size_t vtrain_order_bytes(const vtrain_order *o)
{
    const size_t lists = o->left ? 2 : 1;
    return lists * o->visits * sizeof *o->row + vtrain_data_groups(o->d) * sizeof *o->count +
           (o->sampler ? vb_sampler_bytes(o->sampler) : 0);
}

void vtrain_order_close(vtrain_order *o)
{
    if (!o)
        return;
    vb_sampler_close(o->sampler);
    free(o->row);
    free(o->left);
    free(o->count);
    free(o);
}

/* Goes to the epoch of micro-batch m, where all whole epochs are equally long. */
static void seek_even(vtrain_order *o, uint64_t m)
{
    const vtrain_origin from = o->plan.origin;
    uint64_t epoch = from.epoch, start = from.micro;
    if (o->left && m - start >= o->first) {
        epoch++;
        start += o->first;
        if (!o->whole)
            go_to(o, epoch, start);                /* counts the micro-batches of a whole epoch */
    }
    if (!is_part(o, epoch)) {
        uint64_t passed = (m - start) / o->whole;
        epoch += passed;
        start += passed * o->whole;
    }
    if (epoch != o->epoch)
        go_to(o, epoch, start);
}

/* Makes the epoch of micro-batch m the current one. */
static int seek(vtrain_order *o, uint64_t m, vc_err *err)
{
    const vtrain_origin from = o->plan.origin;

    if (m < from.micro || m > UINT32_MAX)
        return vc_fail(err, VC_EINVAL, "micro-batch %" PRIu64 ": a run has at most 2^32, those of "
                       "these data begin at %" PRIu64, m, from.micro);
    if (!vtrain_data_varied(o->d)) {
        seek_even(o, m);
        bool same = is_part(o, o->sampled) == is_part(o, o->epoch);
        return same && o->sampler ? 0 : open_sampler(o, err);
    }
    if (m < o->start)
        go_to(o, from.epoch, from.micro);
    while (m - o->start >= o->batches)
        go_to(o, o->epoch + 1, o->start + o->batches);
    return o->epoch == o->sampled && o->sampler ? 0 : open_sampler(o, err);
}

int vtrain_order_visits(vtrain_order *o, uint64_t m, uint32_t *visits, uint32_t *n, vc_err *err)
{
    *n = 0;
    int rc = seek(o, m, err);
    if (!rc)                             /* all epochs of the sampler are as long as this one */
        vb_sampler_get(o->sampler, o->epoch * o->batches + (m - o->start), visits, n);
    for (uint32_t i = 0; i < *n; i++)
        visits[i] = visit_at(o, visits[i]);
    return rc;
}

int vtrain_order_get(vtrain_order *o, uint64_t m, uint32_t *rows, uint32_t *n, vc_err *err)
{
    int rc = vtrain_order_visits(o, m, rows, n, err);
    for (uint32_t i = 0; i < *n; i++)
        rows[i] = o->row[rows[i]];
    return rc;
}

int vtrain_order_epoch(vtrain_order *o, uint64_t m, uint64_t *epoch, uint64_t *begin,
                       uint64_t *end, vc_err *err)
{
    int rc = seek(o, m, err);
    *epoch = rc ? 0 : o->epoch;
    *begin = rc ? 0 : o->start;
    *end = rc ? 0 : o->start + o->batches;
    return rc;
}

/* Micro-batches of the first `epochs` epochs, where all whole epochs are equally long. */
static uint64_t count_even(vtrain_order *o, uint64_t epochs, uint64_t limit)
{
    uint64_t n = 0;
    if (epochs && o->left) {
        n = o->first;
        epochs--;
    }
    if (!o->whole) {
        uint64_t was = o->epoch, start = o->start;
        go_to(o, o->plan.origin.epoch + 1, 0);
        go_to(o, was, start);
    }
    return epochs > limit / o->whole ? limit : n + epochs * o->whole;
}

uint64_t vtrain_order_count(vtrain_order *o, uint64_t epochs, uint64_t limit)
{
    uint64_t was = o->epoch, start = o->start, n = 0;

    if (!vtrain_data_varied(o->d)) {
        n = count_even(o, epochs, limit);
        return n < limit ? n : limit;
    }
    for (uint64_t e = 0; e < epochs && n < limit; e++) {
        go_to(o, o->plan.origin.epoch + e, 0);
        n += o->batches;
    }
    go_to(o, was, start);
    return n < limit ? n : limit;
}
