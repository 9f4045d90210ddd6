/* zero.h - the optimiser's state and moving averages, which the ranks of a group split (ZeRO,
 * Rajbhandari et al. 2020): each holds both of its shard, updates its part of the values from its
 * sums of gradients (dist.h), and all parts are gathered again. Values stay whole on each rank.
 *
 * All functions not marked as local are collective. The ranks' values are equal before and after
 * each call. */
#ifndef TRAIN_PARALLEL_ZERO_H
#define TRAIN_PARALLEL_ZERO_H

#include "formats/tensors/safetensors.h"
#include "train/parallel/dist.h"

typedef struct vtrain_zero vtrain_zero;

typedef struct vtrain_zero_opts {
    bool ema;                    /* keeps averages too, which start as the values */
    const char *folder;          /* state and averages are in a file there, and so is what rank 0
                                  * gathers; NULL: in memory */
    bool host;                   /* of a device with its own memory: the state and what rank 0
                                  * gathers of it are on the host (hosted.h), averages are not */
    bool dry;                    /* no file is made */
} vtrain_zero_opts;
/* Borrows d, which is sharded, g and p. The values of p are converted to the type of d's optimiser
 * (vt_opt_convert). Local. */
int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p,
                     const vtrain_zero_opts *opts, vc_err *err);
void vtrain_zero_close(vtrain_zero *z);                      /* NULL is fine */

/* Global norm of the summed gradients. */
int vtrain_zero_norm(vtrain_zero *z, double *norm, vc_err *err);
/* Takes a step. */
int vtrain_zero_step(vtrain_zero *z, const vt_opt_step *o, vc_err *err);
/* Updates the averages, if z keeps some. Local. */
void vtrain_zero_ema(vtrain_zero *z, double decay);

/* Gathers the state of all shards. With `keep` this rank gets it in *state and, if z keeps
 * averages, *ema, and closes both as usual; a rank without `keep` only sends its shard. state or
 * ema is NULL, on all ranks, where it is not needed. */
int vtrain_zero_gather(vtrain_zero *z, bool keep, vt_opt_state *state, vt_tensor ***ema,
                       vc_err *err);
/* Gathers state k of all shards into *to, f32, on all ranks, which close it by vt_ema_close. */
int vtrain_zero_gather_state(vtrain_zero *z, int k, vt_tensor ***to, vc_err *err);
/* Reads this rank's shard of the state from the tensors of its rows, m/NAME, and, with
 * `averages`, ema/NAME; without it averages that z keeps begin as the values. Local. */
int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, bool averages, vc_err *err);
/* The numbers of the run (vt_opt_run), VT_OPT_NUMBERS of them. */
double *vtrain_zero_numbers(vtrain_zero *z);
/* Bytes of state on this rank: in the device's memory, on the host of such a device, and in
 * files. */
size_t vtrain_zero_bytes(const vtrain_zero *z);
size_t vtrain_zero_hosted(const vtrain_zero *z);
size_t vtrain_zero_spilled(const vtrain_zero *z);
/* The first error of the shards' file, or 0. Local. */
int vtrain_zero_check(const vtrain_zero *z, vc_err *err);
/* The file of what this rank gathers; NULL: it is in memory. */
struct vc_spill *vtrain_zero_gathered(const vtrain_zero *z);

#endif
