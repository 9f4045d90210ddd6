/* ltx_batch.h - what the models of LTX-Video and LTX-2 share: the rotations of a batch, whose clips
 * may have frame rates of their own, and the head. For train/models/ltx/ltx*.c. */
#ifndef TRAIN_MODELS_LTX_BATCH_H
#define TRAIN_MODELS_LTX_BATCH_H

#include "train/models/dit.h"
#include "train/models/ltx/ltx.h"

/* The frame rate of row b. A still has no rate; its only position is 0 s at any rate. */
double ltx_rate_of(const vtrain_in *in, int64_t b);

/* Makes the tables of cosines and sines: [tokens,D/2] for all rows, or [B*tokens,D/2] where rows
 * have different frame rates. Returns false and fails the step where a clip has no frame rate
 * (VC_EMISMATCH), or memory is out. A grid of sound needs no frame rates, and its tables are of all
 * rows. */
bool ltx_make_rope(vt_ctx *g, const ltx_grid *grid, const vtrain_in *in, vt_tensor *table[2]);
/* Traces the positions that those of a video are made of, as video_coords [B,3,tokens]. */
void ltx_note_positions(vt_ctx *g, const ltx_grid *grid, const vtrain_in *in);

/* The modulation [B,k,D] or [B,N,k,D] for this process's tokens of a shared sequence. */
vt_tensor *ltx_own_times(vt_ctx *g, vt_tensor *mod);
/* The output of this process's tokens x: a layer norm, shifted and scaled by table [2,D] plus the
 * embedding of the time e [B,D] or [B,N,D], then the layer `out`. */
vt_tensor *ltx_out(vt_ctx *g, vt_tensor *x, vt_tensor *e, vt_tensor *table, const vt_lin *out);
/* The prediction [B,C,f,h,w] that is made of it. */
vt_tensor *ltx_head(vt_ctx *g, const vtrain_in *in, vt_tensor *x, vt_tensor *e, vt_tensor *table,
                    const vt_lin *out);

#endif
