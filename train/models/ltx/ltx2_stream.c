/* ltx2_stream.c - see ltx2.h
 *
 * A stream's part of a block is LTX-Video's block (ltx.c) with a norm before the attention to the
 * prompt. In 2.3 heads are gated, and that attention is modulated too: its queries by the timestep
 * of each token, its keys and values by the level of the sample's noise. */
#include "common/nn/embeddings.h"
#include "train/models/ltx/ltx2.h"

ltx2_inputs ltx2_stream_begin(vt_ctx *g, const ltx2 *m, const ltx2_outer *w, vt_tensor *patches,
                              vt_tensor *text, vt_tensor *t, vt_tensor *level)
{
    ltx2_inputs s = { .x = vt_linear(g, patches, &w->proj_in) };
    s.prompt = m->projected ? vt_feed_forward(g, text, &w->text1, &w->text2) : text;
    s.e = nn_embed_number(g, t, &w->time1, &w->time2, VC_F32);
    s.mod = nn_modulation(g, vt_silu(g, s.e), &w->time_proj, m->modulated ? 9 : 6);
    s.prompt_mod = s.mod;                     /* of 2.0, which reads none */
    if (m->modulated) {
        vt_tensor *of = nn_embed_number(g, level, &w->prompt1, &w->prompt2, VC_F32);
        s.prompt_mod = nn_modulation(g, vt_silu(g, of), &w->prompt_proj, 2);
    }
    return s;
}

/* Adds the attention to the prompt; e are shift, scale and gate of the tokens, or NULL. */
static vt_tensor *attend_prompt(vt_ctx *g, const ltx2 *m, const ltx2_block *w, vt_tensor *x,
                                const ltx2_part *p, vt_tensor *const *e)
{
    const nn_heads heads = { p->heads, LTX2_QK_EPS, NULL, NULL, 0 };
    vt_tensor *text = p->prompt, *part[2], *h;
    if (!m->modulated) {
        h = vt_rms_norm(g, x, NULL, (float)m->eps);
        return vt_add(g, x, nn_cross_attention(g, h, text, &w->cross, &heads, p->keys));
    }
    nn_chunk(g, vt_add(g, p->prompt_mod, w->prompt), 2, part);
    text = vt_add(g, vt_gated_add(g, text, text, part[1]), part[0]);
    h = vt_rms_norm_modulate(g, x, NULL, e[0], e[1], (float)m->eps);
    h = nn_cross_attention(g, h, text, &w->cross, &heads, p->keys);
    return vt_gated_add(g, x, h, e[2]);
}

vt_tensor *ltx2_stream_attend(vt_ctx *g, const ltx2 *m, const ltx2_block *w, vt_tensor *x,
                              const ltx2_part *p, vt_tensor *e[LTX2_MODS])
{
    const nn_heads heads = { p->heads, LTX2_QK_EPS, p->cos, p->sin, 0 };
    nn_chunk(g, vt_add(g, ltx_own_times(g, p->mod), w->table), m->modulated ? 9 : 6, e);
    vt_tensor *h = vt_rms_norm_modulate(g, x, NULL, e[0], e[1], (float)m->eps);
    h = m->rope == LTX2_SPLIT ? nn_halves_attention(g, h, &w->self, &heads, p->tokens)
                              : nn_self_attention(g, h, &w->self, &heads, p->tokens);
    x = vt_gated_add(g, x, h, e[2]);
    return attend_prompt(g, m, w, x, p, e + 6);
}

vt_tensor *ltx2_stream_feed(vt_ctx *g, const ltx2 *m, const ltx2_block *w, vt_tensor *x,
                            vt_tensor *const e[LTX2_MODS])
{
    vt_tensor *h = vt_rms_norm_modulate(g, x, NULL, e[3], e[4], (float)m->eps);
    return vt_gated_add(g, x, vt_feed_forward(g, h, &w->up, &w->down), e[5]);
}
