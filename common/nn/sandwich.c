/* sandwich.c - see sandwich.h */
#include "common/nn/sandwich.h"

static vt_tensor *feed(vt_ctx *g, vt_tensor *x, const nn_sandwich *w)
{
    vt_tensor *gate = vt_silu(g, vt_linear(g, x, &w->gate));
    return vt_linear(g, vt_mul(g, gate, vt_linear(g, x, &w->up)), &w->down);
}

vt_tensor *nn_sandwich_block(vt_ctx *g, vt_tensor *x, const nn_sandwich *w, vt_tensor *e,
                             nn_attention_fn *attention, const nn_heads *heads, vt_tensor *kv_len,
                             float eps)
{
    vt_tensor *mod[4] = { NULL };
    if (w->mod.w)
        vt_chunk(g, nn_modulation(g, e, &w->mod, 4), 1, 4, mod);
    for (int i = 0; i < 2; i++) {
        vt_tensor *scale = mod[2 * i], *zero = scale ? vt_scale(g, scale, 0) : NULL;
        vt_tensor *h = vt_rms_norm_modulate(g, x, w->before[i], zero, scale, eps);
        h = i == 0 ? attention(g, h, &w->attn, heads, kv_len) : feed(g, h, w);
        h = vt_rms_norm(g, h, w->behind[i], eps);
        x = w->mod.w ? vt_gated_add(g, x, h, vt_tanh(g, mod[2 * i + 1])) : vt_add(g, x, h);
    }
    return x;
}

vt_tensor *nn_sandwich_head(vt_ctx *g, vt_tensor *x, vt_tensor *e, const vt_lin *mod,
                            const vt_lin *out, float eps)
{
    vt_tensor *scale = nn_modulation(g, e, mod, 1);
    x = vt_layer_norm_modulate(g, x, NULL, NULL, vt_scale(g, scale, 0), scale, eps);
    return vt_linear(g, x, out);
}
