/* sampler.c - plans an epoch and reads batches from the plan. See sampler.h
 *
 * by_group holds the samples group after group, each group in this epoch's order. A micro-batch is
 * a run of consecutive entries of by_group, and the plan lists where the runs begin:
 *
 *     by_group   | 7 2 9 4 0 | 3 8 | 1 5 6 |       batch 2: runs at 0, 2, 5, 7
 *     begin      0           5     7       10      leftovers at 4 and 9
 */
#include "buckets/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

struct vb_sampler {
    uint32_t n, n_groups, batch;
    vb_leftover leftover;
    uint64_t seed, epoch;            /* epoch of the plan; UINT64_MAX: no plan yet */
    uint32_t batches;                /* batches in an epoch */
    uint32_t *group;                 /* [n] group of each sample */
    uint32_t *by_group;              /* [n] samples, group after group */
    uint32_t *plan;                  /* [n] begin of micro-batch i; the order while make_plan
                                      * runs */
    uint32_t *begin;                 /* [n_groups + 1] begin of each group in by_group */
    uint32_t *fill;                  /* [n_groups] place of a group's next sample in by_group */
    uint32_t *rest;                  /* [n_groups] begin of each leftover batch */
};

size_t vb_sampler_bytes(const vb_sampler *s)
{
    const size_t a_sample = sizeof *s->group + sizeof *s->by_group + sizeof *s->plan;
    const size_t a_group = sizeof *s->begin + sizeof *s->fill + sizeof *s->rest;
    return s->n * a_sample + s->n_groups * a_group;
}

void vb_sampler_close(vb_sampler *s)
{
    if (!s)
        return;
    free(s->group);
    free(s->by_group);
    free(s->plan);
    free(s->begin);
    free(s->fill);
    free(s->rest);
    free(s);
}

static int allocate(vb_sampler *s, vc_err *err)
{
    const size_t n = s->n, groups = s->n_groups;

    s->group = malloc(n * sizeof *s->group);
    s->by_group = malloc(n * sizeof *s->by_group);
    s->plan = malloc(n * sizeof *s->plan);
    s->begin = calloc(groups + 1, sizeof *s->begin);
    s->fill = malloc(groups * sizeof *s->fill);
    s->rest = malloc(groups * sizeof *s->rest);
    if (!s->group || !s->by_group || !s->plan || !s->begin || !s->fill || !s->rest)
        return vc_fail(err, VC_ENOMEM, "sampler: out of memory for %u samples in %u groups", s->n,
                       s->n_groups);
    return 0;
}

/* Counts the groups and the micro-batches of an epoch. */
static int count_groups(vb_sampler *s, const uint32_t *group, vc_err *err)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (group[i] >= s->n_groups)
            return vc_fail(err, VC_EINVAL, "sampler: sample %u is in group %u of %u", i, group[i],
                           s->n_groups);
        s->begin[group[i] + 1]++;
    }
    for (uint32_t g = 0; g < s->n_groups; g++) {
        uint32_t size = s->begin[g + 1];
        s->batches += size / s->batch;
        if (size % s->batch && s->leftover != VB_LEFTOVER_DROP)
            s->batches++;
        s->begin[g + 1] += s->begin[g];
    }
    if (!s->batches)
        return vc_fail(err, VC_EINVAL,
                       "sampler: no group has %u samples, and leftovers are dropped: use smaller "
                       "batches or keep leftovers", s->batch);
    memcpy(s->group, group, s->n * sizeof *group);
    return 0;
}

int vb_sampler_open(vb_sampler **out, const uint32_t *group, uint32_t n, uint32_t n_groups,
                    uint32_t batch, vb_leftover leftover, uint64_t seed, vc_err *err)
{
    *out = NULL;
    if (!n || !n_groups || !batch)
        return vc_fail(err, VC_EINVAL, "sampler: %u samples in %u groups, batches of %u", n,
                       n_groups, batch);
    vb_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return vc_fail(err, VC_ENOMEM, "sampler: out of memory");
    *s = (vb_sampler){ .n = n, .n_groups = n_groups, .batch = batch, .leftover = leftover,
                       .seed = seed, .epoch = UINT64_MAX };

    int rc = allocate(s, err);
    if (!rc)
        rc = count_groups(s, group, err);
    if (rc) {
        vb_sampler_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

uint64_t vb_sampler_epoch_batches(const vb_sampler *s)
{
    return s->batches;
}

/* Deals the permutation to the groups and returns the number of complete runs. Each complete run
 * overwrites the plan's next entry; the loop over the permutation has read that entry already. */
static uint32_t deal(vb_sampler *s)
{
    uint32_t full = 0;

    memcpy(s->fill, s->begin, s->n_groups * sizeof *s->fill);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t row = s->plan[i], g = s->group[row], at = s->fill[g]++;
        s->by_group[at] = row;
        if ((at + 1 - s->begin[g]) % s->batch == 0)
            s->plan[full++] = at + 1 - s->batch;
    }
    return full;
}

/* Lists where the leftover batches begin, shuffled, and returns their number. */
static uint32_t leftovers(vb_sampler *s, vc_draws *d)
{
    uint32_t n = 0;

    if (s->leftover == VB_LEFTOVER_DROP)
        return 0;
    for (uint32_t g = 0; g < s->n_groups; g++) {
        uint32_t rest = (s->begin[g + 1] - s->begin[g]) % s->batch;
        if (rest)
            s->rest[n++] = s->begin[g + 1] - rest;
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = vc_draw_int(d, i), t = s->rest[i - 1];
        s->rest[i - 1] = s->rest[j];
        s->rest[j] = t;
    }
    return n;
}

static void make_plan(vb_sampler *s, uint64_t epoch)
{
    vc_permutation(s->plan, s->n, s->seed, epoch);

    vc_draws d = vc_draws_of(s->seed, epoch, 1, VC_DRAW_ORDER);
    uint32_t full = deal(s), rest = leftovers(s, &d);
    while (rest) {                                  /* fills place full + rest - 1 */
        if (!full || vc_draw_int(&d, full + rest) < rest) {
            rest--;
            s->plan[full + rest] = s->rest[rest];
        } else {
            full--;
            s->plan[full + rest] = s->plan[full];
        }
    }
    s->epoch = epoch;
}

void vb_sampler_get(vb_sampler *s, uint64_t m, uint32_t *rows, uint32_t *n)
{
    if (s->epoch != m / s->batches)
        make_plan(s, m / s->batches);

    uint32_t at = s->plan[m % s->batches], g = s->group[s->by_group[at]];
    uint32_t first = s->begin[g], end = s->begin[g + 1];
    uint32_t count = s->batch;
    if (s->leftover == VB_LEFTOVER_SMALL && count > end - at)
        count = end - at;
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = s->by_group[at];
        if (++at == end)
            at = first;
    }
    *n = count;
}
