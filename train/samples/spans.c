/* spans.c - the epochs of a run by their samples, and the order of these samples; see spans.h */
#include "train/samples/spans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

const vtrain_span *vtrain_span_now(const vtrain *t)
{
    int i = t->n_spans - 1;
    while (i > 0 && t->span[i].micro > t->micro)     /* a span begun in a step not finished */
        i--;
    return &t->span[i];
}

/* The share of an epoch that the spans before the last one have made of its first epoch. */
static double share_done(const vtrain *t)
{
    uint32_t n = vtrain_data_visits(t->data), done = 0;
    for (uint32_t i = 0; t->done && i < n; i++)
        done += t->done[i];
    return (double)done / (double)n;
}

/* Counts from the last span, whose epochs the plan measured. */
double vtrain_epoch(const vtrain *t)
{
    const vtrain_span *s = &t->span[t->n_spans - 1];
    double passed = (double)t->micro - (double)s->micro, of = (double)t->plan.epoch_batches;
    double rest = (double)t->plan.rest_batches, share = rest > 0 ? share_done(t) : 0;
    if (rest > 0 && passed < rest)
        return s->done + share + (1 - share) * passed / rest;
    if (rest > 0)
        return s->done + 1 + (passed - rest) / of;
    return s->done + (of > 0 ? passed / of : 0);
}

int vtrain_span_add(vtrain *t, vtrain_origin origin, double done, vc_err *err)
{
    int n = vtrain_data_sets(t->data);
    vtrain_span s = { .epoch = origin.epoch, .micro = origin.micro, .done = done, .n_parts = n };
    vtrain_span *more = realloc(t->span, ((size_t)t->n_spans + 1) * sizeof *more);
    if (more)
        t->span = more;
    s.part = more ? calloc((size_t)n, sizeof *s.part) : NULL;
    if (!s.part)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d datasets", n);
    for (int i = 0; i < n; i++) {
        const vf_dataset *d = vtrain_data_set(t->data, i);
        s.part[i] = (vtrain_part){ .shards = vf_dataset_shards(d), .samples = vf_dataset_count(d) };
        snprintf(s.part[i].root, sizeof s.part[i].root, "%s", vtrain_data_root(t->data, i));
    }
    t->span[t->n_spans++] = s;
    return 0;
}

int vtrain_span_next(vtrain *t, vc_err *err)
{
    const vtrain_origin origin = { (uint64_t)ceil(t->from.epochs), t->from.micro };
    return vtrain_span_add(t, origin, t->from.epochs, err);
}

vtrain_order_plan vtrain_order_of(const vtrain_span *s, const uint8_t *done)
{
    return (vtrain_order_plan){ .batch = (uint32_t)s->batch, .seed = s->seed,
                                .origin = { s->epoch, s->micro }, .done = s->rest ? done : NULL };
}

vtrain_order_plan vtrain_order_now(const vtrain *t)
{
    return vtrain_order_of(&t->span[t->n_spans - 1], t->done);
}

int vtrain_visits_hash(uint64_t *hash, const vtrain *t, uint64_t epoch, vc_err *err)
{
    uint32_t n = vtrain_data_visits(t->data), *row = malloc((size_t)n * sizeof *row);
    if (!row)
        return vc_no_memory(err);
    vtrain_data_epoch(t->data, epoch, row, NULL);
    *hash = XXH3_64bits(row, (size_t)n * sizeof *row);
    free(row);
    return 0;
}

int vtrain_epoch_at(const vtrain *t, uint64_t micro, uint64_t *epoch, uint64_t *end, vc_err *err)
{
    const vtrain_order_plan plan = vtrain_order_now(t);
    uint64_t begin;
    vtrain_order *order;
    int rc = vtrain_order_open(&order, t->data, &plan, err);
    if (!rc)
        rc = vtrain_order_epoch(order, micro, epoch, &begin, end, err);
    vtrain_order_close(order);
    return rc;
}
