/* sampler.h - the epoch's batches: every sample once (times its repeats), each micro-batch of one
 * group (stored shape and kind), in an order that is a pure function of (seed, epoch).
 *
 * The plan of an epoch is made ahead from the groups alone, so the length of an epoch is known
 * and a run resumes at any micro-batch without saved state. Memory: 12 bytes a sample and 12 a
 * group. One thread.
 *
 * The plan of epoch e:
 *   1. order = vc_permutation(n, seed, e).
 *   2. In that order each sample joins the list of its group; a list that reaches `batch` becomes
 *      a micro-batch at once and empties. These follow each other in the order of their last
 *      samples.
 *   3. What is left makes at most one micro-batch of each group, as the leftover policy says, and
 *      these are spread over the epoch, every arrangement being as likely as every other. With
 *      the draws of (seed, id = e, variant 1, VC_DRAW_ORDER): first they are shuffled from group
 *      order, Fisher-Yates from the top as in vc_permutation; then the places are dealt from the
 *      last to the first: of r places with l leftover batches still to place, u = vc_draw_int(r)
 *      gives this place to the last of those if u < l, and otherwise to the last full micro-batch
 *      not yet placed. Once either kind is used up the others keep their order, without draws. */
#ifndef BUCKETS_SAMPLER_H
#define BUCKETS_SAMPLER_H

#include <stdint.h>

#include "common/base/err.h"

typedef struct vb_sampler vb_sampler;

typedef enum {
    VB_LEFTOVER_SMALL,       /* a smaller batch: every sample exactly once an epoch */
    VB_LEFTOVER_WRAP,        /* filled up with the group's first samples of this epoch's order, over
                              * and over if the group is smaller than a batch */
    VB_LEFTOVER_DROP         /* left out of this epoch */
} vb_leftover;

/* group[i] < n_groups of each of n samples (copied); batch: rows of a full micro-batch. A sample
 * that repeats is listed as often. A group may be empty. VC_EINVAL: no samples, batch 0, a group
 * out of range, or no micro-batch at all because every group is dropped. */
int vb_sampler_open(vb_sampler **out, const uint32_t *group, uint32_t n, uint32_t n_groups,
                    uint32_t batch, vb_leftover leftover, uint64_t seed, vc_err *err);
void vb_sampler_close(vb_sampler *s);

/* Micro-batches in an epoch: the same number, at least 1, in every epoch. */
uint64_t vb_sampler_epoch_batches(const vb_sampler *s);

/* Micro-batch number m of the run (epoch m / epoch_batches): up to `batch` sample indices into
 * rows, which has room for `batch`; *n how many. Random access; the first of another epoch than
 * the last call's makes that epoch's plan (0.1 s for a million samples), others cost nothing. */
void vb_sampler_get(vb_sampler *s, uint64_t m, uint32_t *rows, uint32_t *n);

#endif
