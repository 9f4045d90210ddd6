/* joint_block.c - the block of an MM-DiT; see joint_block.h */
#include "common/nn/joint_block.h"

#define EPS 1e-6f                             /* of the layer norms, in all models named there */

enum { SHIFT, SCALE, GATE, N_MOD };

static bool changes(const nn_stream_weights *w)
{
    return w->attn.out.w != NULL;
}

/* A stream's tokens as the attention reads them; m becomes its shifts, scales and gates. */
static vt_tensor *modulated(vt_ctx *g, vt_tensor *x, vt_tensor *e, const nn_stream_weights *w,
                            vt_tensor *m[2 * N_MOD])
{
    int n = changes(w) ? 2 * N_MOD : 2;
    int shift = changes(w) ? SHIFT : 1, scale = changes(w) ? SCALE : 0;
    nn_chunk(g, nn_modulation(g, e, &w->mod, n), n, m);
    return vt_layer_norm_modulate(g, x, NULL, NULL, m[shift], m[scale], EPS);
}

/* Adds the attention's result y, then the feed-forward's. */
static vt_tensor *finished(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_stream_weights *w,
                           vt_tensor *const m[2 * N_MOD])
{
    vt_tensor *const *mlp = m + N_MOD;
    x = vt_gated_add(g, x, y, m[GATE]);
    y = vt_layer_norm_modulate(g, x, NULL, NULL, mlp[SHIFT], mlp[SCALE], EPS);
    return vt_gated_add(g, x, vt_feed_forward(g, y, &w->up, &w->down), mlp[GATE]);
}

void nn_joint_block(vt_ctx *g, vt_tensor *const x[2], vt_tensor *const e[2],
                    const nn_stream_weights w[2], const nn_heads heads[2], vt_tensor *kv_len,
                    vt_tensor *out[2])
{
    vt_tensor *m[2][2 * N_MOD], *y[2];
    nn_stream s[2];
    for (int i = 0; i < 2; i++)
        s[i] = (nn_stream){ modulated(g, x[i], e[i], &w[i], m[i]), &w[i].attn, &heads[i] };
    nn_joint_attention(g, s, kv_len, y);
    for (int i = 0; i < 2; i++)
        if (changes(&w[i])) out[i] = finished(g, x[i], y[i], &w[i], m[i]);
}
