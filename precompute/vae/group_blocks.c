/* group_blocks.c - see group_blocks.h */
#include "precompute/vae/group_blocks.h"

#include <stdio.h>

static const vt_weight rows[] = {
    { "group_norm.weight", VT_W_TENSOR, offsetof(vae_attention, norm.w), { -1 }, VT_INIT_ZERO },
    { "group_norm.bias", VT_W_TENSOR, offsetof(vae_attention, norm.b), { -1 }, VT_INIT_ZERO },
    { "to_q", VT_W_LINEAR, offsetof(vae_attention, q), { -1, -1 }, VT_INIT_ZERO },
    { "to_k", VT_W_LINEAR, offsetof(vae_attention, k), { -1, -1 }, VT_INIT_ZERO },
    { "to_v", VT_W_LINEAR, offsetof(vae_attention, v), { -1, -1 }, VT_INIT_ZERO },
    { "to_out.0", VT_W_LINEAR, offsetof(vae_attention, out), { -1, -1 }, VT_INIT_ZERO },
    { 0 }
};

void vae_bind_norm(vae_binder *b, const vae_blocks *k, nn_video_norm *n, int64_t width,
                   const char *below, const char *name)
{
    n->groups = k->groups;
    n->eps = k->eps;
    vae_bind(b, nn_video_affine, n, width, 0, below, name);
}

void vae_bind_resnets(vae_binder *b, const vae_blocks *k, nn_video_resnet *r, int n, int64_t in,
                      int64_t out, const char *below)
{
    char block[72], name[24];

    for (int i = 0; i < n; i++, r++, in = out) {
        snprintf(block, sizeof block, "%sresnets.%d.", below, i);
        vae_bind_norm(b, k, &r->norm1, in, block, "norm1");
        snprintf(name, sizeof name, "conv1%s", k->suffix);
        vae_bind(b, k->conv, &r->conv1, out, in, block, name);
        vae_bind_norm(b, k, &r->norm2, out, block, "norm2");
        snprintf(name, sizeof name, "conv2%s", k->suffix);
        vae_bind(b, k->conv, &r->conv2, out, out, block, name);
        snprintf(name, sizeof name, "conv_shortcut%s", k->suffix);
        if (in != out)
            vae_bind(b, k->shortcut, &r->shortcut, out, in, block, name);
    }
}

void vae_bind_middle(vae_binder *b, const vae_blocks *k, nn_video_resnet mid[2], vae_attention *a,
                     int64_t width, const char *coder)
{
    char name[48];

    snprintf(name, sizeof name, "%smid_block.", coder);
    vae_bind_resnets(b, k, mid, 2, width, width, name);
    if (!a)
        return;
    a->norm.groups = k->groups;
    a->norm.eps = k->eps;
    vae_bind(b, rows, a, width, 0, name, "attentions.0");
}

vt_tensor *vae_attend(const nn_video *n, const vae_attention *a, vt_tensor *x)
{
    vt_ctx *g = n->g;
    vt_scope s = vt_scope_begin(g);
    vt_tensor *h = vt_group_norm(g, x, a->norm.w, a->norm.b,
                                 &(vt_group){ .groups = a->norm.groups, .eps = a->norm.eps });
    if (!h)
        return NULL;
    const int64_t frame = x->dim[2] * x->dim[3], c = x->dim[4], head[] = { 1, -1, 1, c };
    h = vt_reshape(g, h, 3, (int64_t[]){ 1, -1, c });
    vt_tensor *q = vt_reshape(g, vt_linear(g, h, &a->q), 4, head);
    vt_tensor *k = vt_reshape(g, vt_linear(g, h, &a->k), 4, head);
    vt_tensor *v = vt_reshape(g, vt_linear(g, h, &a->v), 4, head);
    h = vt_attention(g, q, k, v, &(vt_attn){ .causal = frame });
    vt_scope_end(g, s, 1, &h);
    h = vt_linear(g, vt_reshape(g, h, 3, (int64_t[]){ 1, -1, c }), &a->out);
    h = vt_add(g, vt_reshape(g, h, 5, x->dim), x);
    vt_scope_end(g, s, 1, &h);
    return h;
}
