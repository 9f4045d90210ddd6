/* ltx_batch.h - the rotations of a batch of LTX-Video or LTX-2, whose clips may have frame rates of
 * their own. For train/models/ltx*.c. */
#ifndef TRAIN_MODELS_LTX_BATCH_H
#define TRAIN_MODELS_LTX_BATCH_H

#include "train/models/dit.h"
#include "train/models/ltx.h"

/* The frame rate of row b. A still has no rate; its only position is 0 s at any rate. */
double ltx_rate_of(const vtrain_in *in, int64_t b);

/* Makes the tables of cosines and sines: [tokens,D/2] for all rows, or [B*tokens,D/2] where rows
 * have different frame rates. Returns false and fails the step where a clip has no frame rate
 * (VC_EMISMATCH), or memory is out. */
bool ltx_make_rope(vt_ctx *g, const ltx_grid *grid, const vtrain_in *in, vt_tensor *table[2]);

#endif
