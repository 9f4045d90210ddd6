/* cogvideox_net.c - the encoder and the decoder of CogVideoX: see cogvideox.h */
#include <stdlib.h>

#include "precompute/vae/cogvideox.h"

enum { PIXEL_FRAMES = 8, LATENT_FRAMES = 2, CARRIED = 2 };
#define EPS 1e-6f                              /* of norm_out and of the decoder */

/* A pass: which chunk of how many it is at, and the latent that spatial norms read. */
typedef struct pass {
    vt_ctx *g;
    const cog_net *net;
    int groups, chunk, chunks;
    vt_tensor *z;                              /* decoder: [1,t,h,w,C] of the chunk; else NULL */
} pass;

/* ---- layers: x [1,T,H,W,C] ---- */

static vt_tensor *causal(const pass *p, const cog_conv *c, vt_tensor *x)
{
    vt_conv how = { .stride = { 1, 1, 1 }, .before = { CARRIED, 1, 1 }, .after = { 0, 1, 1 } };

    if (!x)
        return NULL;
    how.front = p->chunk > 0 ? c->front : vt_slice(p->g, x, 1, 0, 1);
    vt_tensor *y = vt_conv3d(p->g, x, c->w, c->b, &how);
    if (p->chunk + 1 < p->chunks)
        vt_assign(p->g, c->front, vt_slice(p->g, x, 1, x->dim[1] - CARRIED, x->dim[1]));
    return y;
}

static vt_tensor *pointwise(const pass *p, const cog_conv *c, vt_tensor *x)
{
    return vt_conv3d(p->g, x, c->w, c->b, &(vt_conv){ .stride = { 1, 1, 1 } });
}

/* 3 x 3 in each frame */
static vt_tensor *per_frame(const pass *p, const cog_conv *c, vt_tensor *x, int stride, int before)
{
    vt_conv how = { .stride = { 1, stride, stride }, .before = { 0, before, before },
                    .after = { 0, 1, 1 } };
    const int64_t *k = c->w->dim;

    return vt_conv3d(p->g, x, vt_reshape(p->g, c->w, 5, (int64_t[]){ k[0], k[1], 1, k[2], k[3] }),
                     c->b, &how);
}

/* The decoder's norms are spatial: a pointwise convolution of the nearest latent is the nearest of
 * the convolved latent, so it is made at the latent's size. */
static vt_tensor *norm_silu(const pass *p, const cog_norm *n, vt_tensor *x, float eps)
{
    vt_group how = { .groups = p->groups, .eps = eps, .silu = true };

    if (!x)
        return NULL;
    if (p->z) {
        how.scale = pointwise(p, &n->scale, p->z);
        how.shift = pointwise(p, &n->shift, p->z);
        how.first = x->dim[1] > 1 && x->dim[1] % 2;
        if (!how.scale || !how.shift)
            return NULL;
    }
    return vt_group_norm(p->g, x, n->w, n->b, &how);
}

/* x + conv2(silu(norm2(conv1(silu(norm1(x)))))), with three of these activations in memory */
static vt_tensor *resnet(const pass *p, const cog_resnet *r, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(p->g);
    vt_tensor *h = norm_silu(p, &r->norm1, x, p->net->eps);

    h = causal(p, &r->conv1, h);
    vt_scope_end(p->g, s, 1, &h);
    h = norm_silu(p, &r->norm2, h, p->net->eps);
    vt_scope_end(p->g, s, 1, &h);
    h = causal(p, &r->conv2, h);
    vt_scope_end(p->g, s, 1, &h);
    if (r->shortcut.w)
        x = pointwise(p, &r->shortcut, x);
    h = vt_add(p->g, h, x);
    vt_scope_end(p->g, s, 1, &h);
    return h;
}

/* s: the scope x was made in, so that x is given back as soon as the first resnet has read it. */
static vt_tensor *resnets(const pass *p, const cog_block *b, vt_tensor *x, vt_scope s)
{
    for (int i = 0; i < b->n; i++) {
        x = resnet(p, &b->resnet[i], x);
        vt_scope_end(p->g, s, 1, &x);
    }
    return x;
}

static vt_tensor *down(const pass *p, const cog_block *b, vt_tensor *x, bool time)
{
    return per_frame(p, &b->sampler, time ? vt_pool_frames(p->g, x) : x, 2, 0);
}

/* Twice the rows and columns and, in time, twice the frames; an odd count leaves frame 0 alone.
 * Frames are convolved one by one, so the doubled ones are convolved once. */
static vt_tensor *up(const pass *p, const cog_block *b, vt_tensor *x, bool time)
{
    vt_ctx *g = p->g;

    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = 2 * x->dim[2], w = 2 * x->dim[3], to = 0;
    bool doubled = time && t > 1;
    vt_tensor *y = vt_new(g, vt_compute(g), 5, (int64_t[]){ 1, doubled ? 2 * t - t % 2 : t, h, w,
                                                            b->sampler.w->dim[0] });
    for (int64_t i = 0; i < t && y; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = vt_nearest(g, vt_slice(g, x, 1, i, i + 1), 1, h, w);
        f = per_frame(p, &b->sampler, f, 1, 1);
        for (int n = doubled && !(t % 2 && i == 0) ? 2 : 1; n > 0; n--, to++)
            vt_assign(g, vt_slice(g, y, 1, to, to + 1), f);
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

static vt_tensor *head(const pass *p, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(p->g);
    vt_tensor *y = causal(p, &p->net->conv_out, norm_silu(p, &p->net->norm_out, x, EPS));

    vt_scope_end(p->g, s, 1, &y);
    return y;
}

/* Only the two outer levels of three halvings compress time. */
static bool in_time(int level) { return level < 2; }

static vt_tensor *encode_chunk(const pass *p, int levels, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(p->g);

    x = causal(p, &p->net->conv_in, x);
    vt_scope_end(p->g, s, 1, &x);
    for (int i = 0; i < levels; i++) {
        const cog_block *b = &p->net->level[i];
        x = resnets(p, b, x, s);
        if (b->sampler.w)
            x = down(p, b, x, in_time(i));
        vt_scope_end(p->g, s, 1, &x);
    }
    x = head(p, resnets(p, &p->net->mid, x, s));
    vt_scope_end(p->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_chunk(const pass *p, int levels)
{
    vt_scope s = vt_scope_begin(p->g);
    vt_tensor *x = causal(p, &p->net->conv_in, p->z);

    x = resnets(p, &p->net->mid, x, s);
    for (int i = 0; i < levels; i++) {
        const cog_block *b = &p->net->level[i];
        x = resnets(p, b, x, s);
        if (b->sampler.w)
            x = up(p, b, x, in_time(i));
        vt_scope_end(p->g, s, 1, &x);
    }
    x = head(p, x);
    vt_scope_end(p->g, s, 1, &x);
    return x;
}

/* ---- what is carried ---- */

static void carry(const pass *p, cog_conv *c, int64_t h, int64_t w)
{
    c->front = p->chunks == 1 ? NULL
             : vt_new(p->g, vt_compute(p->g), 5,
                      (int64_t[]){ 1, CARRIED, h, w, c->w->dim[1] });
}

static void carry_block(const pass *p, cog_block *b, int64_t h, int64_t w)
{
    for (int i = 0; i < b->n; i++) {
        carry(p, &b->resnet[i].conv1, h, w);
        carry(p, &b->resnet[i].conv2, h, w);
    }
}

/* Room for all that a pass carries, so that it is at the bottom of the pool; h, w of the input. */
static void carry_encoder(const pass *p, cog_net *net, int levels, int64_t h, int64_t w)
{
    carry(p, &net->conv_in, h, w);
    for (int i = 0; i < levels; i++) {
        carry_block(p, &net->level[i], h, w);
        if (net->level[i].sampler.w) {
            h /= 2;
            w /= 2;
        }
    }
    carry_block(p, &net->mid, h, w);
    carry(p, &net->conv_out, h, w);
}

static void carry_decoder(const pass *p, cog_net *net, int levels, int64_t h, int64_t w)
{
    carry(p, &net->conv_in, h, w);
    carry_block(p, &net->mid, h, w);
    for (int i = 0; i < levels; i++) {
        carry_block(p, &net->level[i], h, w);
        if (net->level[i].sampler.w) {
            h *= 2;
            w *= 2;
        }
    }
    carry(p, &net->conv_out, h, w);
}

/* ---- passes ---- */

/* Frames begin..end-1 of chunk i: `unit` of them, the first chunk with the remainder. */
static void chunk_of(int frames, int unit, int i, int *begin, int *end)
{
    int rest = frames % unit;

    *begin = i ? unit * i + rest : 0;
    *end = unit * (i + 1) + rest;
    if (*end > frames)
        *end = frames;
}

static vt_tensor *pixels(const pass *p, const cog_pass *a, int begin, int end)
{
    int64_t dim[] = { 1, end - begin, a->h, a->w, 3 };
    const float *from = a->source ? a->source + (size_t)begin * (size_t)a->h * (size_t)a->w * 3
                                  : NULL;
    vt_tensor *x = vt_from_host(p->g, vt_compute(p->g), 5, dim, from, VC_F32);

    x = vt_slice(p->g, x, 2, a->y, a->y + a->rows);
    return vt_pack(p->g, vt_slice(p->g, x, 3, a->x, a->x + a->columns));
}

/* z: the whole latent [1,f,h,w,C], a view */
static vt_tensor *latents(const pass *p, const cog_pass *a, vt_tensor *z, int begin, int end)
{
    z = vt_slice(p->g, z, 1, begin, end);
    z = vt_slice(p->g, z, 2, a->y, a->y + a->rows);
    z = vt_slice(p->g, z, 3, a->x, a->x + a->columns);
    return vt_pack(p->g, vt_cast(p->g, z, vt_compute(p->g)));
}

/* A chunk's result to the host and to the taker. */
static int hand_over(const pass *p, cog_pass *a, vt_tensor *y, int *frame, vc_err *err)
{
    if (!y || !a->take)
        return 0;                              /* vt_step_end says why, or a dry pass */
    float *values = malloc((size_t)vt_count(y) * sizeof *values);
    if (!values)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld values", (long long)vt_count(y));
    int n = (int)y->dim[1], rc = vt_to_host(p->g, y, values, err);
    if (!rc)
        a->take(a->arg, values, *frame, n, (int)y->dim[2], (int)y->dim[3]);
    *frame += n;
    free(values);
    return rc;
}

static int run(pass *p, int levels, int unit, bool decodes, cog_pass *a, vc_err *err)
{
    vt_tensor *z = NULL;
    int begin, end, frame = 0, rc = 0;

    if (decodes) {
        int64_t dim[] = { 1, p->net->conv_in.w->dim[1], a->f, a->h, a->w };
        z = vt_from_host(p->g, VC_F32, 5, dim, a->source, VC_F32);
        z = vt_permute(p->g, z, (int[]){ 0, 2, 3, 4, 1 });
    }
    vt_scope s = vt_scope_begin(p->g);
    for (p->chunk = 0; p->chunk < p->chunks && !rc && !vt_failed(p->g); p->chunk++) {
        vt_tensor *y;
        chunk_of(a->f, unit, p->chunk, &begin, &end);
        p->z = decodes ? latents(p, a, z, begin, end) : NULL;
        y = decodes ? decode_chunk(p, levels) : encode_chunk(p, levels, pixels(p, a, begin, end));
        rc = hand_over(p, a, y, &frame, err);
        vt_scope_end(p->g, s, 0, NULL);
    }
    return rc;
}

static int step(vae *v, cog_net *net, bool decodes, cog_pass *a, vc_err *err)
{
    int unit = decodes ? LATENT_FRAMES : PIXEL_FRAMES;
    pass p = { .g = v->g, .net = net, .groups = v->c.groups,
               .chunks = a->f < unit ? 1 : a->f / unit };

    vt_step_begin(v->g, a->take ? 0 : VT_DRY);
    (decodes ? carry_decoder : carry_encoder)(&p, net, v->c.levels, a->rows, a->columns);
    vc_err first = { 0 };
    int rc = run(&p, v->c.levels, unit, decodes, a, &first);
    int end = vt_step_end(v->g, err);
    vt_usage use = vt_usage_of(v->g);
    a->peak = use.pool_peak + use.scratch;
    return end ? end : rc ? vc_fail(err, rc, "%s", first.text) : 0;
}

int cog_encode(vae *v, cog_pass *p, vc_err *err)
{
    return step(v, &v->encoder, false, p, err);
}

int cog_decode(vae *v, cog_pass *p, vc_err *err)
{
    return step(v, &v->decoder, true, p, err);
}
