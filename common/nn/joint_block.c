/* joint_block.c - the block of an MM-DiT; see joint_block.h */
#include "common/nn/joint_block.h"

#include "common/tensor/exchange.h"

#define EPS 1e-6f                             /* of the layer norms, in all models named there */

enum { ATTENTION = 0, FEED_FORWARD = 3, OWN = 6,     /* where shift, scale and gate of each begin */
       PARTS = 6, PARTS_WITH_OWN = 9 };

static const nn_norm plain;                   /* without weights */

static bool changes(const nn_stream_weights *w)
{
    return w->attn.out.w != NULL;
}

static bool has_own(const nn_stream_weights *w)
{
    return w->own.q.w != NULL;
}

/* A stream's tokens as the attention reads them; part becomes its shifts, scales and gates. */
static vt_tensor *modulated(vt_ctx *g, vt_tensor *x, const nn_times *t, const nn_stream_weights *w,
                            vt_tensor *part[2][NN_MOD])
{
    nn_time_parts(g, t, &w->mod, !changes(w) ? 2 : has_own(w) ? PARTS_WITH_OWN : PARTS, part);
    if (!changes(w))
        return vt_layer_norm_modulate(g, x, NULL, NULL, part[1][1], part[1][0], EPS);
    const nn_groups m = nn_part_groups(t, part, ATTENTION);
    return nn_modulate(g, x, &plain, &m, EPS);
}

/* The second attention, in which the tokens of the first part of a shared sequence are all. */
static vt_tensor *own_attention(vt_ctx *g, vt_tensor *x, const nn_stream_weights *w,
                                const nn_heads *heads)
{
    int64_t first, second;
    if (!vt_shared_tokens(g))
        return nn_self_attention(g, x, &w->own, heads, NULL);
    vt_shared_parts(g, &first, &second);
    vt_share_tokens(g, first);
    x = nn_self_attention(g, x, &w->own, heads, NULL);
    vt_share_parts(g, first, second);
    return x;
}

/* Adds to y the result of the second attention of the tokens x. */
static vt_tensor *with_own(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_times *t,
                           const nn_stream_weights *w, const nn_heads *heads,
                           vt_tensor *const part[2][NN_MOD])
{
    const nn_groups own = nn_part_groups(t, part, OWN);
    vt_tensor *h = nn_modulate(g, x, &plain, &own, EPS);
    return nn_gate(g, y, own_attention(g, h, w, heads), &own);
}

/* Adds the attention's result y, then the feed-forward's. */
static vt_tensor *finished(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_times *t,
                           const nn_stream_weights *w, const nn_heads *heads,
                           vt_tensor *const part[2][NN_MOD])
{
    const nn_groups attention = nn_part_groups(t, part, ATTENTION);
    const nn_groups mlp = nn_part_groups(t, part, FEED_FORWARD);
    y = nn_gate(g, x, y, &attention);
    x = has_own(w) ? with_own(g, x, y, t, w, heads, part) : y;
    y = nn_modulate(g, x, &plain, &mlp, EPS);
    return nn_gate(g, x, vt_feed_forward(g, y, &w->up, &w->down), &mlp);
}

void nn_joint_block(vt_ctx *g, vt_tensor *const x[2], const nn_times t[2],
                    const nn_stream_weights w[2], const nn_heads heads[2], vt_tensor *kv_len,
                    vt_tensor *out[2])
{
    vt_tensor *part[2][2][NN_MOD], *y[2];
    nn_stream s[2];
    for (int i = 0; i < 2; i++)
        s[i] = (nn_stream){ modulated(g, x[i], &t[i], &w[i], part[i]), &w[i].attn, &heads[i] };
    nn_joint_attention(g, s, kv_len, y);
    for (int i = 0; i < 2; i++)
        if (changes(&w[i]))
            out[i] = finished(g, x[i], y[i], &t[i], &w[i], &heads[i], part[i]);
}
