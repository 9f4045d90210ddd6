/* state.h - the optimiser's state and the moving average of the weights: whole on each rank, or
 * split over the ranks of a group (zero.h). Whoever takes steps, writes checkpoints or predicts
 * memory calls these functions, and knows neither which of both it is nor the optimiser.
 *
 * Functions marked as collective are called on all ranks or on none. The ranks' values are equal
 * before and after each call. */
#ifndef TRAIN_PARALLEL_STATE_H
#define TRAIN_PARALLEL_STATE_H

#include "formats/tensors/safetensors.h"
#include "train/parallel/dist.h"

typedef struct vtrain_opt vtrain_opt;

/* Borrows d, g and p, whose values are converted to the optimiser's type. d: the gradients' shards,
 * as which the state is split; NULL: it is whole. average: keeps the average too, which begins as
 * the values. Local. VC_EFULL: the disk has no room for it. */
typedef struct vtrain_opt_opts {
    vt_optimizer how;
    bool average;
    double beta1;                /* of the weights that an optimiser shows (vt_opt_run) */
    const char *folder;          /* state and average are in a file there (spill.h), on a device
                                  * whose memory is the host's; NULL: in memory */
    bool dry;                    /* no file is made */
    bool host;                   /* whole state is in the host's memory, of a device with its own */
    bool update;                 /* and the host updates there, by */
    int threads;
} vtrain_opt_opts;
int vtrain_opt_open(vtrain_opt **out, vtrain_dist *d, vt_ctx *g, vt_params *p,
                    const vtrain_opt_opts *opts, vc_err *err);
void vtrain_opt_close(vtrain_opt *o);                        /* NULL is fine */
/* The numbers of the run (vt_opt_run), VT_OPT_NUMBERS of them: equal on all ranks. */
double *vtrain_opt_numbers(vtrain_opt *o);
/* Bytes of state and average that this rank holds during the whole run: in memory, in a file. */
size_t vtrain_opt_bytes(const vtrain_opt *o);
size_t vtrain_opt_spilled(const vtrain_opt *o);
size_t vtrain_opt_hosted(const vtrain_opt *o);               /* on the host, beside the device */
size_t vtrain_opt_copies(const vtrain_opt *o);               /* of what the host updates, there */
/* The first error of the file, or 0: its values are then those that were written. Local. */
int vtrain_opt_check(const vtrain_opt *o, vc_err *err);
/* Lets a tensor of vtrain_opt_each leave the memory, if it is in a file. */
void vtrain_opt_rest(vtrain_opt *o, const vt_tensor *x);

/* Global norm of the summed gradients. Collective. */
int vtrain_opt_norm(vtrain_opt *o, double *norm, vc_err *err);
/* Takes a step, then updates the average by its decay. Collective. */
int vtrain_opt_step(vtrain_opt *o, const vt_opt_step *s, double decay, vc_err *err);

/* ---- checkpoints ---- */

/* With `keep` this rank holds the whole state until _part; a rank without `keep` sends its part, if
 * it has one. Collective. */
int vtrain_opt_whole(vtrain_opt *o, bool keep, vc_err *err);
void vtrain_opt_part(vtrain_opt *o);
/* True while this rank holds the whole state. */
bool vtrain_opt_is_whole(const vtrain_opt *o);
/* Calls f with each tensor of the whole state that this rank holds, those of the trained parameters
 * first, and with the prefix of its name in the file: "m/". */
typedef int (*vtrain_opt_fn)(void *arg, const char *prefix, const vt_param *p, vt_tensor *x,
                             vc_err *err);
int vtrain_opt_each(vtrain_opt *o, vtrain_opt_fn f, void *arg, vc_err *err);
/* Reads the values of the trained parameters and the state, or this rank's part of it. *averages:
 * the file has the average; where it has none, the average begins as the values. */
int vtrain_opt_read(vtrain_opt *o, const vf_safetensors *file, bool *averages, vc_err *err);

/* ---- the weights that files and samples have ---- */

/* These are the average, if one is kept, or those that the optimiser finds, or else the trained
 * values. True if files have the trained values too, beside the average. */
bool vtrain_opt_has_plain(const vtrain_opt *o);
/* Puts them in the values' place until _hide, if they are others; the state is whole. Gradients are
 * lost. _hide may be called where _show failed or was not called. */
int vtrain_opt_show(vtrain_opt *o, vc_err *err);
void vtrain_opt_hide(vtrain_opt *o);
/* Does the same on all ranks, whether the state is whole or not. Collective. Here and in _hide NULL
 * means that nothing is trained. */
int vtrain_opt_show_all(vtrain_opt *o, vc_err *err);

#endif
