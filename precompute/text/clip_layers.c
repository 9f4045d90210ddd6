/* clip_layers.c - CLIP's transformer layers: see clip_layers.h */
#include "precompute/text/clip_layers.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- config.json ---- */

static const vf_config_row rows[] = {
    VF_INT_NEEDED(clip_config, width, "hidden_size", 1, 1 << 16),
    VF_INT_NEEDED(clip_config, hidden, "intermediate_size", 1, 1 << 18),
    VF_INT_NEEDED(clip_config, layers, "num_hidden_layers", 1, 1 << 10),
    VF_INT_NEEDED(clip_config, heads, "num_attention_heads", 1, 1 << 10),
    VF_UNSET("quantization_config", "use the f32, bf16 or f16 files"),
    { 0 }
};
#define OWN(eps_, act_) \
    { VF_NUM(clip_config, eps, "layer_norm_eps", eps_, 0, 1), \
      VF_WORD(clip_config, act, "hidden_act", act_, "quick_gelu|gelu|gelu_pytorch_tanh"), { 0 } }
static const vf_config_row clip_rows[] = OWN(1e-5, "quick_gelu");
static const vf_config_row siglip_rows[] = OWN(1e-6, "gelu_pytorch_tanh");

int clip_config_read(clip_config *c, bool siglip, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(c, rows, o, err);

    if (!rc)
        rc = vf_config_read(c, siglip ? siglip_rows : clip_rows, o, err);
    if (!rc && (c->width % c->heads || c->width / c->heads % 8 || c->width / c->heads > 256))
        rc = vc_fail(err, VC_EFORMAT, "hidden_size: %lld for num_attention_heads: %lld: a head's "
                     "width has to be a multiple of 8, at most 256", (long long)c->width,
                     (long long)c->heads);
    return rc;
}

void clip_config_hash(vf_hasher *h, const clip_config *c)
{
    vf_hasher_int(h, "hidden_size", c->width);
    vf_hasher_int(h, "intermediate_size", c->hidden);
    vf_hasher_int(h, "num_hidden_layers", c->layers);
    vf_hasher_int(h, "num_attention_heads", c->heads);
    vf_hasher_bytes(h, "layer_norm_eps", &c->eps, sizeof c->eps);
    vf_hasher_int(h, "hidden_act", c->act);
}

/* ---- weights ---- */

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(clip_layer, field), { out, in }, VT_INIT_ZERO }

static const vt_weight layer_table[] = {
    CLIP_NORM(clip_layer, norm1, "layer_norm1"),
    LIN(q, "self_attn.q_proj", CLIP_D, CLIP_D),
    LIN(k, "self_attn.k_proj", CLIP_D, CLIP_D),
    LIN(v, "self_attn.v_proj", CLIP_D, CLIP_D),
    LIN(out, "self_attn.out_proj", CLIP_D, CLIP_D),
    CLIP_NORM(clip_layer, norm2, "layer_norm2"),
    LIN(fc1, "mlp.fc1", CLIP_HIDDEN, CLIP_D),
    LIN(fc2, "mlp.fc2", CLIP_D, CLIP_HIDDEN),
    { 0 }
};

int clip_layers_bind(clip_layer **out, text_stack *s, const clip_config *c, int64_t n,
                     const char *prefix, vc_err *err)
{
    const int64_t sizes[CLIP_SIZES] = { 0, c->width, c->hidden };
    const vt_source src = vf_model_source(s->model);
    char name[80];
    int rc = 0;

    snprintf(name, sizeof name, "%sencoder.layers.%%d.", prefix);
    *out = calloc((size_t)n + 1, sizeof **out);
    if (!*out)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld layers", (long long)n);
    for (int i = 0; !rc && i < n; i++)
        rc = vt_params_bind(s->p, layer_table, name, i, &(*out)[i], sizes, &src, err);
    return rc;
}

/* ---- forward ---- */

vt_tensor *clip_norm_run(vt_ctx *g, const clip_config *c, const clip_norm *w, vt_tensor *x)
{
    return vt_layer_norm(g, x, w->w, w->b, (float)c->eps);
}

/* The input of each half of a layer: the norm of x, in the type of activations. */
static vt_tensor *norm(vt_ctx *g, const clip_config *c, vt_tensor *x, const clip_norm *w)
{
    return vt_cast(g, clip_norm_run(g, c, w, x), vt_compute(g));
}

static vt_tensor *attend(vt_ctx *g, const clip_config *c, const clip_layer *w, bool causal,
                         vt_tensor *x, const text_ids *t, int texts)
{
    vt_tensor *y = norm(g, c, x, &w->norm1);
    vt_tensor *q = text_heads(g, vt_linear(g, y, &w->q), c->heads);
    vt_tensor *k = text_heads(g, vt_linear(g, y, &w->k), c->heads);
    vt_tensor *v = text_heads(g, vt_linear(g, y, &w->v), c->heads);
    vt_tensor *o = text_attention(g, q, k, v, t, texts, NULL, NULL, NULL,
                                  &(vt_attn){ .causal = causal });

    return vt_add(g, x, vt_linear(g, o, &w->out));
}

static vt_tensor *feed(vt_ctx *g, const clip_config *c, const clip_layer *w, vt_tensor *x)
{
    vt_tensor *h = vt_linear(g, norm(g, c, x, &w->norm2), &w->fc1);

    h = c->act == CLIP_GELU ? vt_gelu_erf(g, h)
        : c->act == CLIP_GELU_TANH ? vt_gelu(g, h) : vt_quick_gelu(g, h);
    return vt_add(g, x, vt_linear(g, h, &w->fc2));
}

vt_tensor *clip_layers_run(vt_ctx *g, const clip_config *c, const clip_layer *layer, int64_t count,
                           bool causal, vt_tensor *x, const text_ids *t, int texts)
{
    vt_scope s = vt_scope_begin(g);               /* its end frees the tensors of each half */

    for (int64_t i = 0; i < count; i++) {
        x = attend(g, c, &layer[i], causal, x, t, texts);
        vt_scope_end(g, s, 1, &x);
        x = feed(g, c, &layer[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    return x;
}
