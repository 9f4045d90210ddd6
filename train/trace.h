/* trace.h - everything of the first micro-batches, so that a step can be recomputed elsewhere.
 *
 * DIR/step-000001-mb-00-rank-00.safetensors, all f32, with the names and layouts of
 * docs/interface.md: latents, noise, timesteps, sigmas, noisy_latents, the text tensors by their
 * forward() names, model_output, target, loss_weight, loss, what the forward notes by itself
 * (hidden_states, image_rotary_emb_cos, image_rotary_emb_sin), param/<name> before the step and, in
 * the step's last file, grad/<name>. Videos are in the layout of diffusers' forward() of the
 * family. */
#ifndef TRAIN_TRACE_H
#define TRAIN_TRACE_H

#include "train/vtrain.h"

typedef struct vtrain_trace vtrain_trace;

int vtrain_trace_open(vtrain_trace **out, const char *dir, int rank, vc_err *err);
void vtrain_trace_close(vtrain_trace *t);                    /* NULL is fine */
/* Notes a tensor of the step in progress under a name (values are copied to the host). */
int vtrain_trace_tensor(vtrain_trace *t, vt_ctx *g, const char *name, const vt_tensor *x,
                        vc_err *err);
/* Values on the host, copied. */
int vtrain_trace_values(vtrain_trace *t, const char *name, int nd, const int64_t *dim,
                        const float *x, vc_err *err);
/* A trained parameter's values as param/<name>, or its gradient times `scale` as grad/<name>. */
int vtrain_trace_param(vtrain_trace *t, vt_ctx *g, const vt_param *p, bool grad, float scale,
                       vc_err *err);
/* Writes the file of this micro-batch and forgets its tensors. */
int vtrain_trace_write(vtrain_trace *t, int64_t step, int64_t micro_in_step, vc_err *err);

#endif
