/* sampler.h - orders the samples of an epoch into batches. An epoch has every sample once (times
 * its repeats), all samples of a micro-batch have one group (stored shape and kind), and the order
 * is a pure function of (seed, epoch).
 *
 * The plan of an epoch is made ahead from the groups alone, so the length of an epoch is known
 * and a run resumes at any micro-batch without saved state. A sampler takes 12 bytes a sample and
 * 12 a group, and serves one thread.
 *
 * The plan of epoch e:
 *   1. order = vc_permutation(n, seed, e).
 *   2. In that order each sample joins the list of its group; a list that reaches `batch` becomes
 *      a micro-batch at once and empties. Full micro-batches follow each other in the order of
 *      their last samples.
 *   3. The remaining samples make at most one leftover batch a group, as the leftover policy says.
 *      Leftover batches are spread over the epoch, every arrangement being equally likely, with the
 *      draws of (seed, id = e, variant 1, VC_DRAW_ORDER). First they are shuffled from group order,
 *      Fisher-Yates from the top as in vc_permutation. Then the places are dealt from the last to
 *      the first: of r places with l leftover batches still to place, u = vc_draw_int(r) gives this
 *      place to the last of the leftover batches if u < l, and otherwise to the last full
 *      micro-batch not yet placed. Once either kind is used up, the other keeps its order, without
 *      draws. */
#ifndef BUCKETS_SAMPLER_H
#define BUCKETS_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vb_sampler vb_sampler;

typedef enum {
    VB_LEFTOVER_SMALL,       /* the batch is smaller: every sample occurs exactly once an epoch */
    VB_LEFTOVER_WRAP,        /* the batch is filled with the group's first samples of this epoch's
                              * order, repeatedly if the group is smaller than a batch */
    VB_LEFTOVER_DROP         /* this epoch leaves the samples out */
} vb_leftover;

/* group[i] < n_groups is the group of sample i of n (copied); `batch` is the size of a full
 * micro-batch. A sample with repeats is listed once a repeat. A group may be empty. VC_EINVAL: no
 * samples, batch 0, a group out of range, or no micro-batch because every group is dropped. */
int vb_sampler_open(vb_sampler **out, const uint32_t *group, uint32_t n, uint32_t n_groups,
                    uint32_t batch, vb_leftover leftover, uint64_t seed, vc_err *err);
void vb_sampler_close(vb_sampler *s);

size_t vb_sampler_bytes(const vb_sampler *s);               /* of all its buffers */

/* Returns the micro-batches in an epoch: at least 1, and the same number in every epoch. */
uint64_t vb_sampler_epoch_batches(const vb_sampler *s);

/* Reads micro-batch number m of the run, of epoch m / epoch_batches: writes up to `batch` sample
 * indices into rows, which has room for `batch`, and their number into *n. m may be any number; a
 * call for another epoch than the last call's makes that epoch's plan (0.1 s for a million
 * samples), other calls cost nothing. */
void vb_sampler_get(vb_sampler *s, uint64_t m, uint32_t *rows, uint32_t *n);

#endif
