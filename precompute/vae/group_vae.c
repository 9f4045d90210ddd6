/* group_vae.c - see group_vae.h */
#include "precompute/vae/group_vae.h"

#include <stdio.h>

enum { MAX_HEAD = 512 };             /* the attention's largest width */

static int check_widths(const group_config *c, const char *field, const int *width, vc_err *err)
{
    const int last = width[c->levels - 1];

    for (int i = 0; i < c->levels; i++)
        if (width[i] % c->groups)
            return vc_fail(err, VC_EFORMAT, "%s: %d is not a multiple of norm_num_groups %d",
                           field, width[i], c->groups);
    if (c->attention && (last % 8 || last > MAX_HEAD))
        return vc_fail(err, VC_EFORMAT, "%s: the last entry, %d, is the width of the attention in "
                       "the middle, which must be a multiple of 8 and at most %d", field, last,
                       MAX_HEAD);
    return 0;
}

int group_check(const group_config *c, int n_down, int n_up, vc_err *err)
{
    for (int i = 0; i < 2; i++) {
        int n = i ? n_up : n_down;
        if (n && n != c->levels)
            return vc_fail(err, VC_EFORMAT, "%s_block_types has %d entries for %d "
                           "block_out_channels", i ? "up" : "down", n, c->levels);
    }
    if (c->decoder_levels && c->decoder_levels != c->levels)
        return vc_fail(err, VC_EFORMAT, "decoder_block_out_channels has %d entries for %d "
                       "block_out_channels", c->decoder_levels, c->levels);
    int rc = check_widths(c, "block_out_channels", c->width, err);
    return rc || !c->decoder_levels ? rc :
           check_widths(c, "decoder_block_out_channels", c->decoder, err);
}

/* ---- weights ---- */

static const vt_weight attention_rows[] = {
    { "group_norm.weight", VT_W_TENSOR, offsetof(group_attention, norm.w), { -1 }, VT_INIT_ZERO },
    { "group_norm.bias", VT_W_TENSOR, offsetof(group_attention, norm.b), { -1 }, VT_INIT_ZERO },
    { "to_q", VT_W_LINEAR, offsetof(group_attention, q), { -1, -1 }, VT_INIT_ZERO },
    { "to_k", VT_W_LINEAR, offsetof(group_attention, k), { -1, -1 }, VT_INIT_ZERO },
    { "to_v", VT_W_LINEAR, offsetof(group_attention, v), { -1, -1 }, VT_INIT_ZERO },
    { "to_out.0", VT_W_LINEAR, offsetof(group_attention, out), { -1, -1 }, VT_INIT_ZERO },
    { 0 }
};

/* The names of a coder's weights begin with `coder`. */
typedef struct binding {
    vae_binder *b;
    const group_config *c;
    const group_convs *k;
    const char *coder;               /* "encoder." or "decoder." */
} binding;

static void bind_norm(const binding *of, nn_video_norm *n, int64_t width, const char *below,
                      const char *name)
{
    n->groups = of->c->groups;
    n->eps = GROUP_EPS;
    vae_bind(of->b, nn_video_affine, n, width, 0, below, name);
}

static void bind_conv(const binding *of, const vt_weight *table, nn_video_conv *c, int64_t out,
                      int64_t in, const char *below, const char *name)
{
    char full[40];

    snprintf(full, sizeof full, "%s%s", name, of->k->suffix);
    vae_bind(of->b, table, c, out, in, below, full);
}

/* Binds n residual blocks below `below`: resnets.0, resnets.1, ... The first has `in` channels, and
 * all give `out`. */
static void bind_resnets(const binding *of, nn_video_resnet *r, int n, int64_t in, int64_t out,
                         const char *below)
{
    char block[72];

    for (int i = 0; i < n; i++, r++, in = out) {
        snprintf(block, sizeof block, "%sresnets.%d.", below, i);
        bind_norm(of, &r->norm1, in, block, "norm1");
        bind_conv(of, of->k->conv, &r->conv1, out, in, block, "conv1");
        bind_norm(of, &r->norm2, out, block, "norm2");
        bind_conv(of, of->k->conv, &r->conv2, out, out, block, "conv2");
        if (in != out)
            bind_conv(of, of->k->point, &r->shortcut, out, in, block, "conv_shortcut");
    }
}

static void bind_middle(const binding *of, group_coder *net, int64_t width)
{
    char name[48];

    snprintf(name, sizeof name, "%smid_block.", of->coder);
    bind_resnets(of, net->mid, 2, width, width, name);
    if (!of->c->attention)
        return;
    net->attention.norm.groups = of->c->groups;
    net->attention.norm.eps = GROUP_EPS;
    vae_bind(of->b, attention_rows, &net->attention, width, 0, name, "attentions.0");
}

/* Binds level i in the order of running. */
static void bind_level(const binding *of, group_level *l, int i, int n, int64_t in, int64_t out,
                       const char *blocks, const char *sampler)
{
    const group_config *c = of->c;
    int last = c->levels - 1;
    char below[48];

    snprintf(below, sizeof below, "%s%s.%d.", of->coder, blocks, i);
    l->n = n;
    l->by[0] = i >= last - c->steps_t && i < last ? 2 : 1;
    l->by[1] = l->by[2] = i < c->steps ? 2 : 1;
    bind_resnets(of, l->resnet, n, in, out, below);
    if (l->by[0] * l->by[1] > 1)
        bind_conv(of, of->k->conv, &l->sampler, out, out, below, sampler);
}

static void bind_encoder(const binding *of, group_coder *net)
{
    const group_config *c = of->c;
    int last = c->levels - 1, z = 2 * c->latent;

    bind_conv(of, of->k->conv, &net->conv_in, c->width[0], 3, of->coder, "conv_in");
    for (int i = 0; i <= last; i++)
        bind_level(of, &net->level[i], i, c->layers, c->width[i ? i - 1 : 0], c->width[i],
                   "down_blocks", "downsamplers.0.conv");
    bind_middle(of, net, c->width[last]);
    bind_norm(of, &net->norm_out, c->width[last], of->coder, "conv_norm_out");
    bind_conv(of, of->k->conv, &net->conv_out, z, c->width[last], of->coder, "conv_out");
    if (c->quant)
        vae_bind(of->b, of->k->point, &net->quant, z, z, "", "quant_conv");
}

static void bind_decoder(const binding *of, group_coder *net)
{
    const group_config *c = of->c;
    const int *width = c->decoder_levels ? c->decoder : c->width;
    int last = c->levels - 1, z = c->latent;

    if (c->post_quant)
        vae_bind(of->b, of->k->point, &net->quant, z, z, "", "post_quant_conv");
    bind_conv(of, of->k->conv, &net->conv_in, width[last], z, of->coder, "conv_in");
    bind_middle(of, net, width[last]);
    for (int i = 0; i <= last; i++)
        bind_level(of, &net->level[i], i, c->layers + 1, width[i ? last - i + 1 : last],
                   width[last - i], "up_blocks", "upsamplers.0.conv");
    bind_norm(of, &net->norm_out, width[0], of->coder, "conv_norm_out");
    bind_conv(of, of->k->conv, &net->conv_out, 3, width[0], of->coder, "conv_out");
}

void group_bind(group_vae *m, vae_binder *b, const group_convs *k)
{
    bind_encoder(&(binding){ b, &m->c, k, "encoder." }, &m->encoder);
    bind_decoder(&(binding){ b, &m->c, k, "decoder." }, &m->decoder);
}

/* ---- the network ---- */

/* Returns x [1,T,H,W,C] + attention(norm(x)), in which each frame attends to itself and to the
 * earlier frames. */
static vt_tensor *attend(const nn_video *n, const group_attention *a, vt_tensor *x)
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

static vt_tensor *middle(const nn_video *n, group_coder *net, vt_tensor *x, vt_scope s)
{
    x = nn_video_resnets(n, net->mid, 1, x, s);
    if (net->attention.q.w)
        x = attend(n, &net->attention, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_resnets(n, net->mid + 1, 1, x, s);
}

static vt_tensor *levels(const nn_video *n, const group_vae *m, group_coder *net, group_step *step,
                         vt_tensor *x, vt_scope s)
{
    for (int i = 0; i < m->c.levels; i++) {
        group_level *l = &net->level[i];
        x = nn_video_resnets(n, l->resnet, l->n, x, s);
        if (l->sampler.w)
            x = step(n, l, x, s);
        vt_scope_end(n->g, s, 1, &x);
    }
    return x;
}

vt_tensor *group_encode(group_vae *m, const nn_video *n, group_step *step, vt_tensor *x)
{
    group_coder *net = &m->encoder;
    vt_scope s = vt_scope_begin(n->g);

    x = levels(n, m, net, step, nn_video_causal(n, &net->conv_in, x), s);
    x = nn_video_head(n, &net->norm_out, &net->conv_out, middle(n, net, x, s), s);
    if (net->quant.w)
        x = nn_video_pointwise(n, &net->quant, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

vt_tensor *group_decode(group_vae *m, const nn_video *n, group_step *step, vt_tensor *z)
{
    group_coder *net = &m->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = net->quant.w ? nn_video_pointwise(n, &net->quant, z) : z;

    x = middle(n, net, nn_video_causal(n, &net->conv_in, x), s);
    return nn_video_head(n, &net->norm_out, &net->conv_out, levels(n, m, net, step, x, s), s);
}
