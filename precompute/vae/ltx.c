/* ltx.c - the encoder and the decoder of LTX-Video's and LTX-2's autoencoders: see ltx.h */
#include "precompute/vae/ltx.h"

#include <assert.h>

#include "common/base/rng.h"
#include "common/nn/embeddings.h"
#include "common/nn/fold.h"

/* The state of one run of the encoder or the decoder. */
typedef struct pass {
    const nn_video *n;
    const ltx_vae *m;
    nn_centred *decoder;             /* NULL: the encoder runs */
    vt_tensor *t;                    /* the decoder's timestep [1], or NULL */
    uint32_t draws;                  /* pictures of noise drawn by now */
} pass;

static vt_tensor *convolve(const pass *p, nn_video_conv *c, vt_tensor *x)
{
    return p->decoder ? nn_centred_conv(p->decoder, c, x) : nn_video_causal(p->n, c, x);
}

/* The frames of x that belong to those of y, which at most `most` convolutions have made of x. */
static vt_tensor *beside(const pass *p, nn_waiting *w, vt_tensor *x, vt_tensor *y, int most)
{
    return p->decoder ? nn_centred_wait(p->decoder, w, x, y, most) : x;
}

/* ---- residual blocks ---- */

/* Returns silu(norm(x) * (1 + scale) + shift). */
static vt_tensor *norm_silu(vt_ctx *g, vt_tensor *x, vt_tensor *shift, vt_tensor *scale)
{
    return x ? vt_silu(g, vt_rms_norm_modulate(g, x, NULL, shift, scale, LTX_EPS)) : NULL;
}

/* Adds the table [n,C] to the embedding of a timestep [n*C]: row[i] of the sum is [1,C]. Without a
 * table row[i] is NULL. */
static void modulation(vt_ctx *g, vt_tensor *time, vt_tensor *table, int n, vt_tensor **row)
{
    for (int i = 0; i < n; i++)
        row[i] = NULL;
    if (table)
        vt_chunk(g, vt_add(g, vt_reshape(g, time, 2, (int64_t[]){ n, -1 }), table), 0, n, row);
}

static vt_tensor *embed(const pass *p, const ltx_time *t)
{
    return t->up.w ? nn_embed_number(p->n->g, p->t, &t->up, &t->down, VC_F32) : NULL;
}

/* Adds one picture of noise, multiplied by each channel's scale, to all frames. */
static vt_tensor *add_noise(pass *p, vt_tensor *x, vt_tensor *scale)
{
    vt_ctx *g = p->n->g;

    if (!scale)
        return x;
    const uint32_t draw = ++p->draws;
    if (!x)
        return NULL;
    int64_t t = x->dim[1], places = x->dim[2] * x->dim[3], c = x->dim[4];
    vt_lin spread = { .w = vt_reshape(g, scale, 2, (int64_t[]){ c, 1 }) };
    vt_tensor *noise = vt_randn(g, 3, (int64_t[]){ 1, places, 1 }, 0, 0, draw,
                                VC_DRAW_DECODE);
    if (!spread.w)
        return NULL;
    noise = vt_linear_f32(g, noise, &spread);
    vt_tensor *y = vt_add(g, vt_reshape(g, x, 4, (int64_t[]){ 1, t, places, c }), noise);
    return vt_reshape(g, y, 5, x->dim);
}

static vt_tensor *resnet(pass *p, ltx_resnet *r, vt_tensor *time, vt_tensor *x)
{
    vt_ctx *g = p->n->g;
    vt_tensor *row[4], *h;

    modulation(g, time, r->table, 4, row);
    vt_scope s = vt_scope_begin(g);
    h = norm_silu(g, x, row[0], row[1]);
    vt_scope_end(g, s, 1, &h);
    h = add_noise(p, convolve(p, &r->conv1, h), r->noise1);
    vt_scope_end(g, s, 1, &h);
    h = norm_silu(g, h, row[2], row[3]);
    vt_scope_end(g, s, 1, &h);
    h = add_noise(p, convolve(p, &r->conv2, h), r->noise2);
    vt_scope_end(g, s, 1, &h);
    x = beside(p, &r->waiting, x, h, 2);
    if (r->shortcut.w && x) {
        x = vt_layer_norm(g, x, r->norm3_w, r->norm3_b, (float)p->m->eps);
        x = nn_video_pointwise(p->n, &r->shortcut, x);
    }
    h = h && x ? vt_add(g, h, x) : NULL;
    vt_scope_end(g, s, 1, &h);
    return h;
}

/* x was made in the scope s, so the end of the first block's scope frees the memory of x. */
static vt_tensor *resnets(pass *p, ltx_block *b, vt_tensor *x, vt_scope s)
{
    vt_tensor *keep[] = { x, embed(p, &b->time) };

    for (int i = 0; i < b->n; i++) {
        keep[0] = resnet(p, &b->resnet[i], keep[1], keep[0]);
        vt_scope_end(p->n->g, s, 2, keep);
    }
    return keep[0];
}

static vt_tensor *widen(pass *p, ltx_block *b, vt_tensor *x, vt_scope s)
{
    if (!b->widen.conv1.w)
        return x;
    x = resnet(p, &b->widen, NULL, x);
    vt_scope_end(p->n->g, s, 1, &x);
    return x;
}

/* ---- samplers ---- */

/* Folds the convolution's result and adds channel means of the folded x (0.9.5). A copy of the
 * clip's first frame makes the number of frames even. */
static vt_tensor *fold_down(const pass *p, ltx_block *b, vt_tensor *x)
{
    vt_ctx *g = p->n->g;
    int t = b->by[0];

    if (t > 1 && p->n->first)
        x = vt_concat(g, 1, 2, (vt_tensor *[]){ vt_slice(g, x, 1, 0, t - 1), x });
    vt_tensor *y = convolve(p, &b->sampler, x);
    if (!y)
        return NULL;
    int64_t dim[] = { 1, y->dim[1] / t, y->dim[2] / b->by[1], y->dim[3] / b->by[2], b->out };
    vt_tensor *z = vt_new(g, vt_compute(g), 5, dim);
    for (int64_t i = 0; i < dim[1] && z; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = nn_fold(g, vt_slice(g, y, 1, i * t, i * t + t), b->by);
        vt_tensor *means = nn_fold(g, vt_slice(g, x, 1, i * t, i * t + t), b->by);
        vt_assign(g, vt_slice(g, z, 1, i, i + 1), vt_add(g, f, nn_group_means(g, means, b->out)));
        vt_scope_end(g, s, 0, NULL);
    }
    return z;
}

/* Adds x to y [1,t,h,w,C]; the channels of x are repeated to the C channels of y. */
static vt_tensor *add_repeated(vt_ctx *g, vt_tensor *y, vt_tensor *x)
{
    if (!x || !y)
        return NULL;
    const int64_t *d = y->dim, c = x->dim[4];
    vt_tensor *z = vt_add(g, vt_reshape(g, y, 5, (int64_t[]){ d[1], d[2], d[3], d[4] / c, c }),
                          vt_reshape(g, x, 5, (int64_t[]){ d[1], d[2], d[3], 1, c }));

    return vt_reshape(g, z, 5, d);
}

/* Unfolds the convolution's result and, in a block with a residual, adds the unfolded x. The clip's
 * first frame becomes one frame, and every other frame becomes two. */
static vt_tensor *unfold_up(const pass *p, ltx_block *b, vt_tensor *x)
{
    vt_ctx *g = p->n->g;
    vt_tensor *y = convolve(p, &b->sampler, x);

    x = b->residual ? beside(p, &b->waiting, x, y, 1) : NULL;
    if (p->n->first)
        b->begun = false;
    if (!y)
        return NULL;
    int64_t t = y->dim[1], to = 0, cut = b->begun ? 0 : b->by[0] - 1;
    b->begun = true;
    vt_tensor *z = vt_new(g, vt_compute(g), 5,
                          (int64_t[]){ 1, b->by[0] * t - cut, y->dim[2] * b->by[1],
                                       y->dim[3] * b->by[2], b->out });
    for (int64_t i = 0; i < t && z; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = nn_unfold(g, vt_slice(g, y, 1, i, i + 1), b->by);
        if (b->residual)
            f = add_repeated(g, f, nn_unfold(g, vt_slice(g, x, 1, i, i + 1), b->by));
        if (i == 0 && cut)
            f = vt_slice(g, f, 1, cut, b->by[0]);
        int64_t end = to + b->by[0] - (i ? 0 : cut);
        vt_assign(g, vt_slice(g, z, 1, to, end), f);
        to = end;
        vt_scope_end(g, s, 0, NULL);
    }
    return z;
}

/* ---- the two networks ---- */

static vt_tensor *head(pass *p, ltx_net *net, vt_tensor *x, vt_scope s)
{
    vt_ctx *g = p->n->g;
    vt_tensor *row[2];

    modulation(g, embed(p, &net->time), net->table, 2, row);
    x = norm_silu(g, x, row[0], row[1]);
    vt_scope_end(g, s, 1, &x);
    return convolve(p, &net->conv_out, x);
}

static vt_tensor *down(pass *p, ltx_block *b, vt_tensor *x, vt_scope s)
{
    x = resnets(p, b, x, s);
    if (b->sampler.w)
        x = b->folds ? fold_down(p, b, x) : nn_video_causal_steps(p->n, &b->sampler, x, b->by);
    vt_scope_end(p->n->g, s, 1, &x);
    return widen(p, b, x, s);
}

static vt_tensor *encode_chunk(vae *v, const nn_video *n, vt_tensor *x)
{
    ltx_vae *m = (ltx_vae *)v;
    ltx_net *net = &m->encoder;
    pass p = { .n = n, .m = m };
    vt_scope s = vt_scope_begin(n->g);

    x = convolve(&p, &net->conv_in, nn_squares(n->g, x, m->patch));
    for (int i = 0; i < net->levels; i++)
        x = down(&p, &net->level[i], x, s);
    x = head(&p, net, resnets(&p, &net->mid, x, s), s);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *up(pass *p, ltx_block *b, vt_tensor *x, vt_scope s)
{
    x = widen(p, b, x, s);
    if (b->sampler.w)
        x = unfold_up(p, b, x);
    vt_scope_end(p->n->g, s, 1, &x);
    return resnets(p, b, x, s);
}

static vt_tensor *decode_chunk(vae *v, const nn_video *n, vt_tensor *z)
{
    ltx_vae *m = (ltx_vae *)v;
    ltx_net *net = &m->decoder;
    nn_centred way = { .n = n, .causal = m->causal, .reflect = m->reflect, .end = net->end };
    pass p = { .n = n, .m = m, .decoder = &way };
    vt_ctx *g = n->g;
    const float t = (float)v->decode_timestep;

    if (m->timed)
        p.t = vt_mul(g, vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &t, VC_F32),
                     net->multiplier);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = convolve(&p, &net->conv_in, z);
    x = resnets(&p, &net->mid, x, s);
    for (int i = 0; i < net->levels; i++)
        x = up(&p, &net->level[i], x, s);
    x = head(&p, net, x, s);
    if (x)
        x = nn_unsquares(g, x, m->patch);
    vt_scope_end(g, s, 1, &x);
    assert(way.convs == net->convs);
    return x;
}

/* A causal convolution is never late. */
static int decode_ends(const vae *v)
{
    const ltx_vae *m = (const ltx_vae *)v;

    return m->causal ? 0 : m->decoder.end[m->decoder.convs - 1];
}

/* Mixes noise into the latent z for a decoder that removes noise. */
static vt_tensor *noisy_latent(vae *v, vt_tensor *z)
{
    const float share = (float)v->decode_noise_scale;

    if (!z || !((ltx_vae *)v)->timed || share == 0.0f)
        return z;
    vt_tensor *noise = vt_randn(v->g, 5, z->dim, 0, 0, 0, VC_DRAW_DECODE);
    return vt_add(v->g, vt_scale(v->g, z, 1 - share), vt_scale(v->g, noise, share));
}

static int frames(int f) { return LTX_RATIO_T * (f - 1) + 1; }

#define NET(class_, configure_) { \
    .class = class_, .size = sizeof(ltx_vae), .pixel_frames = LTX_ENCODE_CHUNK * LTX_RATIO_T, \
    .latent_frames = LTX_CHUNK, .one_logvar = true, .frames = frames, .configure = configure_, \
    .bind = ltx_bind, .statistics = ltx_statistics, .spare = ltx_statistics_names, \
    .encode_chunk = encode_chunk, .decode_chunk = decode_chunk, .decode_ends = decode_ends, \
    .latent = noisy_latent }
static const vae_net net = NET(LTX_CLASS, ltx_configure), net2 = NET(LTX2_CLASS, ltx2_configure);

VAE_CLASS(vae_ltx, LTX_CLASS, net, frames);
VAE_CLASS(vae_ltx2, LTX2_CLASS, net2, frames);
