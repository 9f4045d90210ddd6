/* trace.h - writes all tensors of the first micro-batches, so that another program can recompute
 * and compare a step.
 *
 * DIR/step-000001-mb-00-rank-00.safetensors, all f32, with the names and layouts of
 * docs/interface.md: latents, noise, timesteps, sigmas, noisy_latents, the text tensors by their
 * forward() names, model_output, target, loss_weight, loss, tensors that the model's forward adds
 * (hidden_states, image_rotary_emb_cos, image_rotary_emb_sin), param/<name> before the step and, in
 * the step's last file, grad/<name>. Videos are in the layout of diffusers' forward() of the
 * family. */
#ifndef TRAIN_STEPS_TRACE_H
#define TRAIN_STEPS_TRACE_H

#include "train/vtrain.h"

typedef struct vtrain_trace vtrain_trace;

int vtrain_trace_open(vtrain_trace **out, const char *dir, int rank, vc_err *err);
void vtrain_trace_close(vtrain_trace *t);                    /* NULL is fine */
/* Adds a copy, on the host, of a tensor of the current step under a name. */
int vtrain_trace_tensor(vtrain_trace *t, vt_ctx *g, const char *name, const vt_tensor *x,
                        vc_err *err);
/* Adds a copy of values that are on the host. */
int vtrain_trace_values(vtrain_trace *t, const char *name, int nd, const int64_t *dim,
                        const float *x, vc_err *err);
/* Adds a trained parameter's values as param/<name>, or its gradient times `scale` as
 * grad/<name>. */
int vtrain_trace_param(vtrain_trace *t, vt_ctx *g, const vt_param *p, bool grad, float scale,
                       vc_err *err);
/* Writes the file of this micro-batch and frees the tensors' copies. */
int vtrain_trace_write(vtrain_trace *t, int64_t step, int64_t micro_in_step, vc_err *err);

#endif
