/* wan.c - the encoder and the decoder of AutoencoderKLWan and AutoencoderKLQwenImage: see wan.h */
#include "precompute/vae/wan.h"

#include "common/nn/fold.h"

/* Each frame attends to itself. */
static vt_tensor *attend(const nn_video *n, const wan_attention *a, vt_tensor *x)
{
    vt_ctx *g = n->g;

    if (!x)
        return NULL;
    const int64_t t = x->dim[1], places = x->dim[2] * x->dim[3], c = x->dim[4];
    const int64_t head[] = { t, places, 1, c }, row[] = { t, places, c };
    vt_lin qkv = { .w = vt_reshape(g, a->qkv.w, 2, (int64_t[]){ 3 * c, c }), .b = a->qkv.b };
    vt_lin out = { .w = vt_reshape(g, a->out.w, 2, (int64_t[]){ c, c }), .b = a->out.b };
    vt_tensor *w = vt_reshape(g, a->norm, 1, (int64_t[]){ c }), *part[3];
    vt_scope s = vt_scope_begin(g);
    vt_tensor *h = vt_rms_norm(g, vt_reshape(g, x, 3, row), w, WAN_EPS / (float)c);

    vt_chunk(g, vt_linear(g, h, &qkv), 2, 3, part);
    for (int i = 0; i < 3; i++)
        part[i] = vt_reshape(g, part[i], 4, head);
    h = vt_attention(g, part[0], part[1], part[2], NULL);
    vt_scope_end(g, s, 1, &h);
    h = vt_linear(g, vt_reshape(g, h, 3, row), &out);
    h = vt_add(g, vt_reshape(g, h, 5, x->dim), x);
    vt_scope_end(g, s, 1, &h);
    return h;
}

static vt_tensor *middle(const nn_video *n, wan_coder *net, vt_tensor *x, vt_scope s)
{
    nn_video_make_room(n, net->mid, 2, x);
    x = nn_video_resnets(n, net->mid, 1, x, s);
    x = attend(n, &net->attention, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_resnets(n, net->mid + 1, 1, x, s);
}

/* ---- the encoder ---- */

/* Frames of x that the level's frame i is made of. Zeros stand before the clip. */
static vt_tensor *joined(const nn_video *n, const wan_level *l, vt_tensor *x, int64_t i)
{
    int64_t t = l->step[0], at = n->first ? t * i - (t - 1) : t * i;
    vt_tensor *frame = vt_slice(n->g, x, 1, at < 0 ? 0 : at, at + t);

    return at < 0 ? vt_concat(n->g, 1, 2, (vt_tensor *[]){ vt_scale(n->g, frame, 0), frame })
                  : frame;
}

/* Adds means of the level's input x to its result y. */
static void add_means(const nn_video *n, const wan_level *l, vt_tensor *y, vt_tensor *x)
{
    vt_ctx *g = n->g;

    for (int64_t i = 0; x && y && i < y->dim[1]; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = vt_slice(g, y, 1, i, i + 1);
        vt_tensor *means = nn_group_means(g, nn_fold(g, joined(n, l, x, i), l->by), l->out);
        vt_assign(g, f, vt_add(g, f, means));
        vt_scope_end(g, s, 0, NULL);
    }
}

/* Runs a level whose residual blocks have room. */
static vt_tensor *down(const nn_video *n, wan_level *l, vt_tensor *x, vt_scope s)
{
    vt_tensor *input = x;
    vt_scope own = l->residual ? vt_scope_begin(n->g) : s;      /* the input lives on */

    x = nn_video_resnets(n, l->resnet, l->n, x, own);
    if (l->sampler.w)
        x = nn_video_down(n, &l->sampler, x, false);
    vt_scope_end(n->g, own, 1, &x);
    if (l->time.w)
        x = nn_video_halve_frames(n, &l->time, x);
    if (l->residual)
        add_means(n, l, x, input);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *encode_chunk(vae *v, const nn_video *n, vt_tensor *x)
{
    wan_vae *m = (wan_vae *)v;
    wan_coder *net = &m->encoder;
    vt_scope s = vt_scope_begin(n->g);

    if (m->c.patch > 1)
        x = nn_squares(n->g, x, m->c.patch);
    nn_video_make_room(n, net->level[0].resnet, net->level[0].n, x);
    x = nn_video_causal(n, &net->conv_in, x);
    for (int i = 0; i < m->c.levels; i++) {
        wan_level *l = &net->level[i];
        if (i > 0)
            nn_video_make_room(n, l->resnet, l->n, x);
        x = down(n, l, x, s);
    }
    x = nn_video_head(n, &net->norm_out, &net->conv_out, middle(n, net, x, s), s);
    x = nn_video_pointwise(n, &net->quant, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* ---- the decoder ---- */

/* Adds the level's input x, spread, to its result y. A clip's first frame makes one frame. */
static void add_spread(const nn_video *n, const wan_level *l, vt_tensor *y, vt_tensor *x)
{
    vt_ctx *g = n->g;

    for (int64_t i = 0, to = 0, end; x && y && i < x->dim[1]; i++, to = end) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = nn_unfold(g, vt_slice(g, x, 1, i, i + 1), l->by), *sum;
        f = vt_nearest(g, f, l->step[0], y->dim[2], y->dim[3]);
        if (n->first && i == 0)
            f = vt_slice(g, f, 1, l->step[0] - 1, l->step[0]);
        end = to + (n->first && i == 0 ? 1 : l->step[0]);
        sum = vt_slice(g, y, 1, to, end);
        vt_assign(g, sum, vt_add(g, sum, f));
        vt_scope_end(g, s, 0, NULL);
    }
}

static vt_tensor *up(const nn_video *n, wan_level *l, vt_tensor *x, vt_scope s)
{
    vt_tensor *input = x;

    nn_video_make_room(n, l->resnet, l->n, x);
    vt_scope own = l->residual ? vt_scope_begin(n->g) : s;      /* the input lives on */
    x = nn_video_resnets(n, l->resnet, l->n, x, own);
    if (l->time.w)
        x = nn_video_double_frames(n, &l->time, x);
    vt_scope_end(n->g, own, 1, &x);
    if (l->sampler.w)
        x = nn_video_up(n, &l->sampler, x, false);
    if (l->residual)
        add_spread(n, l, x, input);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_chunk(vae *v, const nn_video *n, vt_tensor *z)
{
    wan_vae *m = (wan_vae *)v;
    wan_coder *net = &m->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = nn_video_causal(n, &net->conv_in, nn_video_pointwise(n, &net->quant, z));

    x = middle(n, net, x, s);
    for (int i = 0; i < m->c.levels; i++)
        x = up(n, &net->level[i], x, s);
    x = nn_video_head(n, &net->norm_out, &net->conv_out, x, s);
    if (m->c.patch > 1)
        x = nn_unsquares(n->g, x, m->c.patch);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static int frames(int f) { return WAN_RATIO_T * (f - 1) + 1; }

/* A latent frame and its pixel frames go through at a time. The first chunk of an encoder has the
 * clip's first frame as well, that of a decoder has only its first latent frame. */
#define NET(class_) { \
    .class = class_, .size = sizeof(wan_vae), .pixel_frames = WAN_RATIO_T, .latent_frames = 1, \
    .blank = true, .frames = frames, .configure = wan_configure, .bind = wan_bind, \
    .encode_chunk = encode_chunk, .decode_chunk = decode_chunk }
static const vae_net wan = NET(WAN_CLASS), qwen = NET(WAN_QWEN_CLASS);

VAE_CLASS(vae_wan, WAN_CLASS, wan, frames);
VAE_CLASS(vae_qwen_image, WAN_QWEN_CLASS, qwen, frames);
