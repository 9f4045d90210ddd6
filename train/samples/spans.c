/* spans.c - the epochs of a run by their samples, and the order of these samples; see spans.h */
#include "train/samples/spans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

vtrain_span *vtrain_span_last(const vtrain_samples *s)
{
    return &s->span[s->n_spans - 1];
}

const vtrain_span *vtrain_span_of(const vtrain_samples *s, uint64_t micro)
{
    int i = s->n_spans - 1;
    while (i > 0 && s->span[i].micro > micro)
        i--;
    return &s->span[i];
}

int vtrain_span_add(vtrain_samples *s, const vtrain_data *d, vtrain_origin origin, double done,
                    vc_err *err)
{
    int n = vtrain_data_sets(d);
    vtrain_span new = { .epoch = origin.epoch, .micro = origin.micro, .done = done, .n_parts = n };
    vtrain_span *more = realloc(s->span, ((size_t)s->n_spans + 1) * sizeof *more);
    if (more)
        s->span = more;
    new.part = more ? calloc((size_t)n, sizeof *new.part) : NULL;
    if (!new.part)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d datasets", n);
    for (int i = 0; i < n; i++) {
        const vf_dataset *set = vtrain_data_set(d, i);
        new.part[i] = (vtrain_part){ .shards = vf_dataset_shards(set),
                                     .samples = vf_dataset_count(set) };
        snprintf(new.part[i].root, sizeof new.part[i].root, "%s", vtrain_data_root(d, i));
    }
    s->span[s->n_spans++] = new;
    return 0;
}

int vtrain_span_next(vtrain_samples *s, const vtrain_data *d, const vtrain_state *checkpoint,
                     vc_err *err)
{
    const vtrain_origin origin = { (uint64_t)ceil(checkpoint->epochs), checkpoint->micro };
    return vtrain_span_add(s, d, origin, checkpoint->epochs, err);
}

/* ---- orders ---- */

vtrain_order_plan vtrain_order_of(const vtrain_span *s, const uint8_t *done)
{
    return (vtrain_order_plan){ .batch = (uint32_t)s->batch, .seed = s->seed,
                                .origin = { s->epoch, s->micro }, .done = s->rest ? done : NULL };
}

vtrain_order_plan vtrain_order_now(const vtrain_samples *s)
{
    return vtrain_order_of(vtrain_span_last(s), s->done);
}

int vtrain_epoch_at(const vtrain_samples *s, const vtrain_data *d, uint64_t micro, uint64_t *epoch,
                    uint64_t *end, vc_err *err)
{
    const vtrain_order_plan plan = vtrain_order_now(s);
    uint64_t begin;
    vtrain_order *order;
    int rc = vtrain_order_open(&order, d, &plan, err);
    if (!rc)
        rc = vtrain_order_epoch(order, micro, epoch, &begin, end, err);
    vtrain_order_close(order);
    return rc;
}

int vtrain_visits_hash(uint64_t *hash, const vtrain_data *d, uint64_t epoch, vc_err *err)
{
    uint32_t n = vtrain_data_visits(d), *row = malloc((size_t)n * sizeof *row);
    if (!row)
        return vc_no_memory(err);
    vtrain_data_epoch(d, epoch, row, NULL);
    *hash = XXH3_64bits(row, (size_t)n * sizeof *row);
    free(row);
    return 0;
}

/* ---- the epochs done ---- */

/* The share of an epoch that the spans before the last one have made of its first epoch. */
static double share_done(const vtrain_samples *s, const vtrain_data *d)
{
    uint32_t n = vtrain_data_visits(d), done = 0;
    for (uint32_t i = 0; s->done && i < n; i++)
        done += s->done[i];
    return (double)done / (double)n;
}

/* Counts from the last span, whose epochs the plan measured. */
double vtrain_epoch(const vtrain *t)
{
    const vtrain_span *s = vtrain_span_last(&t->samples);
    double passed = (double)t->at.micro - (double)s->micro, of = (double)t->plan.epoch_batches;
    double rest = (double)t->plan.rest_batches;
    double share = rest > 0 ? share_done(&t->samples, t->data) : 0;
    if (rest > 0 && passed < rest)
        return s->done + share + (1 - share) * passed / rest;
    if (rest > 0)
        return s->done + 1 + (passed - rest) / of;
    return s->done + (of > 0 ? passed / of : 0);
}
