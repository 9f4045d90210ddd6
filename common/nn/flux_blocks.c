/* flux_blocks.c - blocks of FLUX.1 and HunyuanVideo; see flux_blocks.h */
#include "common/nn/flux_blocks.h"

#include <stddef.h>

#define EPS 1e-6f

enum { MLP = 4, D = NN_FLUX_D, HEAD = NN_FLUX_HEAD, HIDDEN = NN_FLUX_HIDDEN };

void nn_flux_sizes(int64_t *sizes, int64_t heads, int64_t head)
{
    const int64_t d = heads * head;
    sizes[-NN_FLUX_D] = d;
    sizes[-NN_FLUX_HEAD] = head;
    sizes[-NN_FLUX_HIDDEN] = MLP * d;
    sizes[-NN_FLUX_2D] = 2 * d;
    sizes[-NN_FLUX_3D] = 3 * d;
    sizes[-NN_FLUX_6D] = 6 * d;
    sizes[-NN_FLUX_JOINED] = (1 + MLP) * d;
}

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define NORM(type, field, name) \
    { name, VT_W_TENSOR, offsetof(type, field), { HEAD }, VT_INIT_ONE }
#define DUAL(field, name, out, in) LIN(nn_dual_weights, field, name, out, in)
#define SINGLE(field, name, out, in) LIN(nn_single_weights, field, name, out, in)

#define ATTENTION(i, norms, q_, k_, v_, out_) \
    NORM(nn_dual_weights, stream[i].attn.norm_q.w, norms "q.weight"), \
    NORM(nn_dual_weights, stream[i].attn.norm_k.w, norms "k.weight"), \
    DUAL(stream[i].attn.q, q_, D, D), \
    DUAL(stream[i].attn.k, k_, D, D), \
    DUAL(stream[i].attn.v, v_, D, D), \
    DUAL(stream[i].attn.out, out_, D, D)

const vt_weight nn_dual_table[] = {
    DUAL(stream[0].mod, "norm1.linear", NN_FLUX_6D, D),
    DUAL(stream[1].mod, "norm1_context.linear", NN_FLUX_6D, D),
    ATTENTION(0, "attn.norm_", "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"),
    ATTENTION(1, "attn.norm_added_", "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj",
              "attn.to_add_out"),
    DUAL(stream[0].up, "ff.net.0.proj", HIDDEN, D),
    DUAL(stream[0].down, "ff.net.2", D, HIDDEN),
    DUAL(stream[1].up, "ff_context.net.0.proj", HIDDEN, D),
    DUAL(stream[1].down, "ff_context.net.2", D, HIDDEN),
    { 0 }
};

const vt_weight nn_single_table[] = {
    SINGLE(mod, "norm.linear", NN_FLUX_3D, D),
    NORM(nn_single_weights, attn.norm_q.w, "attn.norm_q.weight"),
    NORM(nn_single_weights, attn.norm_k.w, "attn.norm_k.weight"),
    SINGLE(attn.q, "attn.to_q", D, D),
    SINGLE(attn.k, "attn.to_k", D, D),
    SINGLE(attn.v, "attn.to_v", D, D),
    SINGLE(mlp, "proj_mlp", HIDDEN, D),
    SINGLE(out, "proj_out", D, NN_FLUX_JOINED),
    { 0 }
};

vt_tensor *nn_single_block(vt_ctx *g, vt_tensor *x, const nn_times *t, const nn_single_weights *w,
                           const nn_heads *heads, vt_tensor *kv_len)
{
    static const nn_norm plain;
    vt_tensor *h, *y[2], *part[2][NN_MOD];
    nn_time_parts(g, t, &w->mod, 3, part);
    const nn_groups e = nn_part_groups(t, part, 0);
    h = nn_modulate(g, x, &plain, &e, EPS);
    y[0] = nn_heads_attention(g, h, &w->attn, heads, kv_len);
    y[1] = vt_gelu(g, vt_linear(g, h, &w->mlp));
    return nn_gate(g, x, vt_linear(g, vt_concat(g, 2, 2, y), &w->out), &e);
}

vt_tensor *nn_flux_head(vt_ctx *g, vt_tensor *x, vt_tensor *e, const vt_lin *mod,
                        const vt_lin *out)
{
    vt_tensor *part[2];
    vt_chunk(g, nn_modulation(g, e, mod, 2), 1, 2, part);
    return vt_linear(g, vt_layer_norm_modulate(g, x, NULL, NULL, part[1], part[0], EPS), out);
}
