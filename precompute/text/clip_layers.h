/* clip_layers.h - the transformer layers that CLIP's text and vision models share (Radford et al.
 * 2021), and SigLIP's (Zhai et al. 2023): layer norm before each half, attention with biases, and a
 * feed-forward network with quick-GELU or GELU.
 *
 * The residual stream is f32. */
#ifndef PRECOMPUTE_TEXT_CLIP_LAYERS_H
#define PRECOMPUTE_TEXT_CLIP_LAYERS_H

#include "precompute/text/stack.h"

typedef struct clip_config {
    int64_t width, hidden, layers, heads;
    double eps;
    enum { CLIP_QUICK_GELU, CLIP_GELU, CLIP_GELU_TANH } act;
} clip_config;

typedef struct clip_norm {
    vt_tensor *w, *b;                             /* [D] */
} clip_norm;

typedef struct clip_layer {
    clip_norm norm1, norm2;
    vt_lin q, k, v, out, fc1, fc2;
} clip_layer;

/* Reads and checks the fields that the config.json of all these models have; siglip: missing ones
 * are SigLIP's. */
int clip_config_read(clip_config *c, bool siglip, const cJSON *o, vc_err *err);
void clip_config_hash(vf_hasher *h, const clip_config *c);

/* The two rows of a norm in a table of weights. */
#define CLIP_NORM(type, field, name) \
    { name ".weight", VT_W_TENSOR, offsetof(type, field.w), { CLIP_D }, VT_INIT_ZERO }, \
    { name ".bias", VT_W_TENSOR, offsetof(type, field.b), { CLIP_D }, VT_INIT_ZERO }
enum { CLIP_D = -1, CLIP_HIDDEN = -2, CLIP_SIZES = 3 };       /* sizes of the layers' weights */

/* Binds the tensors of the first n layers, whose names begin with `prefix` and "encoder.layers.".
 * The caller frees *out. */
int clip_layers_bind(clip_layer **out, text_stack *s, const clip_config *c, int64_t n,
                     const char *prefix, vc_err *err);
/* Runs `count` layers on x f32 [1,total,D] -> [1,total,D], the rows of at most TEXT_BATCH texts;
 * the activations of one layer are held at a time. */
vt_tensor *clip_layers_run(vt_ctx *g, const clip_config *c, const clip_layer *layer, int64_t count,
                           bool causal, vt_tensor *x, const text_ids *t, int texts);
/* The layer norm of x f32 [1,n,D]. */
vt_tensor *clip_norm_run(vt_ctx *g, const clip_config *c, const clip_norm *w, vt_tensor *x);

#endif
