/* zero.h - AdamW and moving averages whose state the ranks of a group split (ZeRO, Rajbhandari et
 * al. 2020): each holds moments and averages of its shard, updates its part of the values from its
 * sums of gradients (dist.h), and all parts are gathered again. Values stay whole on each rank.
 *
 * Collective but for what says local. Every rank's values are the same before and after. */
#ifndef TRAIN_PARALLEL_ZERO_H
#define TRAIN_PARALLEL_ZERO_H

#include "formats/tensors/safetensors.h"
#include "train/parallel/dist.h"

typedef struct vtrain_zero vtrain_zero;

/* d is sharded, and borrowed with g and p, whose values become those of d's kind (vt_adamw_train).
 * ema: averages too; they start as the values. Local. */
int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p, bool ema,
                     vc_err *err);
void vtrain_zero_close(vtrain_zero *z);                      /* NULL is fine */

/* Global norm of the summed gradients. */
int vtrain_zero_norm(vtrain_zero *z, double *norm, vc_err *err);
int vtrain_zero_step(vtrain_zero *z, const vt_adamw *o, vc_err *err);
void vtrain_zero_ema(vtrain_zero *z, double decay);          /* local */

/* Gathers the state of all shards. keep: this rank gets it, in *adam and, if there are averages,
 * *ema, to be closed as usual; others only give. Either may be NULL: not wanted, by any rank. */
int vtrain_zero_gather(vtrain_zero *z, bool keep, vt_adamw_state *adam, vt_tensor ***ema,
                       vc_err *err);
/* Reads this rank's shard of the state from the tensors m/NAME, v/NAME, peak/NAME, ema/NAME.
 * Local. */
int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, vc_err *err);
/* Bytes of state on this rank. */
size_t vtrain_zero_bytes(const vtrain_zero *z);

#endif
