/* clip_layers.h - the layers that CLIP's text and vision models have in common (Radford et al.
 * 2021): layer norm before each half, attention with biases, a feed-forward layer by quick-GELU or
 * GELU.
 *
 * The sums of layers are kept in f32. */
#ifndef PRECOMPUTE_TEXT_CLIP_LAYERS_H
#define PRECOMPUTE_TEXT_CLIP_LAYERS_H

#include "precompute/text/stack.h"

typedef struct clip_config {
    int64_t width, hidden, layers, heads;
    double eps;
    enum { CLIP_QUICK_GELU, CLIP_GELU } act;
} clip_config;

typedef struct clip_norm {
    vt_tensor *w, *b;                             /* [D] */
} clip_norm;

typedef struct clip_layer {
    clip_norm norm1, norm2;
    vt_lin q, k, v, out, fc1, fc2;
} clip_layer;

/* The fields that both kinds of config.json have, and the rules between them. */
int clip_config_read(clip_config *c, const cJSON *o, vc_err *err);
void clip_config_hash(vf_hasher *h, const clip_config *c);

/* A row of a table of weights: a norm's two tensors. */
#define CLIP_NORM(type, field, name) \
    { name ".weight", VT_W_TENSOR, offsetof(type, field.w), { CLIP_D }, VT_INIT_ZERO }, \
    { name ".bias", VT_W_TENSOR, offsetof(type, field.b), { CLIP_D }, VT_INIT_ZERO }
enum { CLIP_D = -1, CLIP_HIDDEN = -2, CLIP_SIZES = 3 };       /* sizes of the layers' weights */

/* *out: the first n layers, malloc'ed, whose names begin with `prefix` and "encoder.layers.". */
int clip_layers_bind(clip_layer **out, text_stack *s, const clip_config *c, int64_t n,
                     const char *prefix, vc_err *err);
/* x f32 [1,n,D] through `count` layers, in the memory of one */
vt_tensor *clip_layers_run(vt_ctx *g, const clip_config *c, const clip_layer *layer, int64_t count,
                           bool causal, vt_tensor *x);
/* x f32 [1,n,D], normalised */
vt_tensor *clip_norm_run(vt_ctx *g, const clip_config *c, const clip_norm *w, vt_tensor *x);

#endif
