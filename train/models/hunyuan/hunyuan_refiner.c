/* hunyuan_refiner.c - see hunyuan_refiner.h */
#include "train/models/hunyuan/hunyuan_refiner.h"

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"

#define EPS 1e-6f

enum { D = NN_FLUX_D, HIDDEN = NN_FLUX_HIDDEN, TWO_D = NN_FLUX_2D };

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(hunyuan_refiner_weights, field), { out, in }, VT_INIT_XAVIER }
#define VEC(field, name, start) \
    { name, VT_W_TENSOR, offsetof(hunyuan_refiner_weights, field), { D }, start }

const vt_weight hunyuan_refiner_table[] = {
    VEC(norm1.w, "norm1.weight", VT_INIT_ONE),
    VEC(norm1.b, "norm1.bias", VT_INIT_ZERO),
    LIN(attn.q, "attn.to_q", D, D),
    LIN(attn.k, "attn.to_k", D, D),
    LIN(attn.v, "attn.to_v", D, D),
    LIN(attn.out, "attn.to_out.0", D, D),
    VEC(norm2.w, "norm2.weight", VT_INIT_ONE),
    VEC(norm2.b, "norm2.bias", VT_INIT_ZERO),
    LIN(up, "ff.net.0.proj", HIDDEN, D),
    LIN(down, "ff.net.2", D, HIDDEN),
    LIN(gates, "norm_out.linear", TWO_D, D),
    { 0 }
};

vt_tensor *hunyuan_refiner_embed(vt_ctx *g, const hunyuan_refiner_time *w, vt_tensor *t,
                                 vt_tensor *text, vt_tensor *keys)
{
    vt_tensor *mean = nn_mean_tokens(g, text, keys);
    return vt_silu(g, vt_add(g, nn_embed_number(g, t, &w->time1, &w->time2, VC_F32),
                             nn_embed_vector(g, mean, &w->text1, &w->text2, VC_F32)));
}

vt_tensor *hunyuan_refine(vt_ctx *g, vt_tensor *x, vt_tensor *e, const hunyuan_refiner_weights *w,
                          int64_t heads, vt_tensor *keys)
{
    const nn_heads plain = { .n = heads };
    vt_tensor *h, *gate[2];
    vt_chunk(g, nn_modulation(g, e, &w->gates, 2), 1, 2, gate);

    h = vt_layer_norm(g, x, w->norm1.w, w->norm1.b, EPS);
    h = nn_self_attention(g, h, &w->attn, &plain, keys);
    x = vt_gated_add(g, x, h, gate[0]);

    h = vt_layer_norm(g, x, w->norm2.w, w->norm2.b, EPS);
    h = vt_linear(g, vt_silu(g, vt_linear(g, h, &w->up)), &w->down);
    return vt_gated_add(g, x, h, gate[1]);
}

int64_t hunyuan_rope(vt_ctx *g, const vt_tensor *x, const int64_t patch[3], const int64_t axis[3],
                     double theta, vt_tensor **made)
{
    nn_axis of[3];
    for (int i = 0; i < 3; i++)
        of[i] = (nn_axis){ x->dim[2 + i] / patch[i], 0, 1, axis[i] / 2 };
    nn_rope(g, of, theta, made);
    return of[0].n * of[1].n * of[2].n;
}

vt_tensor *hunyuan_first_frame_mask(vt_ctx *g, vt_tensor *x)
{
    vt_tensor *zero = vt_scale(g, vt_slice(g, x, 1, 0, 1), 0);
    float one = 1;
    vt_tensor *ones = vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &one, VC_F32);
    vt_tensor *part[2] = { vt_add(g, vt_slice(g, zero, 2, 0, 1), ones), NULL };
    if (!x || x->dim[2] == 1)
        return part[0];
    part[1] = vt_slice(g, zero, 2, 1, x->dim[2]);
    return vt_concat(g, 2, 2, part);
}
