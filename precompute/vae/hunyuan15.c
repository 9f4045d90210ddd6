/* hunyuan15.c - AutoencoderKLHunyuanVideo15: its configuration, its levels and its attention.
 *
 * A causal autoencoder whose norms see one place. A level's step moves places into channels behind
 * a convolution, or back, and adds its input: means of the channels that join, or copies of them. A
 * clip's first frame has no neighbour in time, and its channels are doubled or halved instead. In
 * the middle a place attends to all places of its own frame and of those before, so the keys and
 * values of a clip's latent places are carried from chunk to chunk. Padding repeats a frame's
 * border and a clip's first frame. */
#include <stdio.h>

#include "common/nn/fold.h"
#include "formats/json/config.h"
#include "precompute/vae/vae.h"

#define CLASS "AutoencoderKLHunyuanVideo15"

enum { RATIO_T = 4, RATIO = 16, HALVINGS = 4, HALVINGS_T = 2 };
enum { MAX_LEVELS = 8, MAX_LAYERS = 8, MAX_WIDTH = 8192, MAX_HEAD = 1024 };
enum { TILE_SIDE = 256 };                            /* in pixels */
#define TILE_OVERLAP 0.25
/* The squared length of a place below which its norm is zero. */
#define NORM_EPS 1e-24f

typedef struct level {
    nn_video_resnet resnet[MAX_LAYERS];
    int n, width, to;                                /* channels of the blocks, of the step; to 0:
                                                      * there is none */
    nn_video_conv sampler;
    bool time;                                       /* the step joins or makes pairs of frames */
} level;

typedef struct attention {
    nn_video_norm norm;
    nn_video_conv q, k, v, out;
    vt_tensor *keys, *values;                        /* [1,F,h,w,C] of the clip's latent frames;
                                                      * NULL: the clip is one chunk */
    int64_t seen;                                    /* frames that these have */
} attention;

typedef struct coder {
    nn_video_conv conv_in, conv_out;
    level level[MAX_LEVELS];
    nn_video_resnet mid[2];
    attention attention;                             /* between the two */
    nn_video_norm norm_out;
} coder;

typedef struct config { int levels, width[MAX_LEVELS], layers, latent; } config;

typedef struct hunyuan15_vae {
    vae all;
    config c;
    coder encoder, decoder;
} hunyuan15_vae;

/* ---- places and channels ---- */

/* Moves places into channels, in the order t, h, w, C (nn_fold's is C, t, h, w): x [1,t,h,w,C] of
 * t = by[0] frames -> [1,1,h/by[1],w/by[2],t*by[1]*by[2]*C]. */
static vt_tensor *fold(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    const int64_t h = x->dim[2] / by[1], w = x->dim[3] / by[2];
    x = vt_reshape(g, x, 6, (int64_t[]){ by[0], h, by[1], w, by[2], x->dim[4] });
    x = vt_permute(g, x, (int[]){ 1, 3, 0, 2, 4, 5 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, 1, h, w, -1 });
}

/* Moves them back. */
static vt_tensor *unfold(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    const int64_t h = x->dim[2], w = x->dim[3], c = x->dim[4] / (by[0] * by[1] * by[2]);
    x = vt_reshape(g, x, 6, (int64_t[]){ h, w, by[0], by[1], by[2], c });
    x = vt_permute(g, x, (int[]){ 2, 0, 3, 1, 4, 5 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, by[0], h * by[1], w * by[2], c });
}

/* x [1,t,h,w,C] -> [1,t,h,w,c]: c / C copies of each channel, side by side. */
static vt_tensor *repeat(vt_ctx *g, vt_tensor *x, int64_t c)
{
    if (!x || x->dim[4] == c)
        return x;
    const int64_t *d = x->dim, places = d[1] * d[2] * d[3];
    vt_tensor *y = vt_reshape(g, x, 5, (int64_t[]){ 1, 1, places, d[4], 1 });
    y = vt_nearest(g, y, 1, places, c);
    return vt_reshape(g, y, 5, (int64_t[]){ 1, d[1], d[2], d[3], c });
}

static vt_tensor *frame_of(vt_ctx *g, vt_tensor *x, int64_t i)
{
    return vt_slice(g, x, 1, i, i + 1);
}

/* Sets by to what a step joins, or makes; alone: of a clip's first frame. */
static void places_of(int by[3], const level *l, bool alone)
{
    by[0] = l->time && !alone ? 2 : 1;
    by[1] = by[2] = 2;
}

/* ---- levels ---- */

/* The step's frame i of x, and of h, which the convolution makes of x. */
static vt_tensor *joined_frame(const nn_video *n, const level *l, vt_tensor *x, vt_tensor *h,
                               int64_t i)
{
    vt_ctx *g = n->g;
    const bool alone = n->first && i == 0;
    const int64_t from = !l->time ? i : !n->first ? 2 * i : alone ? 0 : 2 * i - 1;
    int by[3];
    places_of(by, l, alone);
    vt_tensor *y = fold(g, vt_slice(g, h, 1, from, from + by[0]), by);
    if (l->time && alone)
        y = vt_concat(g, 4, 2, (vt_tensor *[]){ y, y });
    return vt_add(g, y, nn_group_means(g, fold(g, vt_slice(g, x, 1, from, from + by[0]), by),
                                       l->to));
}

static vt_tensor *step_down(const nn_video *n, level *l, vt_tensor *x)
{
    vt_ctx *g = n->g;
    vt_tensor *h = nn_video_causal(n, &l->sampler, x);
    if (!h)
        return NULL;
    const int64_t t = !l->time ? x->dim[1] : (x->dim[1] + (n->first ? 1 : 0)) / 2;
    vt_tensor *y = vt_new(g, vt_compute(g), 5,
                          (int64_t[]){ 1, t, x->dim[2] / 2, x->dim[3] / 2, l->to });
    for (int64_t i = 0; y && i < t; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_assign(g, frame_of(g, y, i), joined_frame(n, l, x, h, i));
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

/* The frames that the step makes of the frame i of x, and of h, which the convolution makes of x.
 * Half of the channels of a clip's first frame are not used. */
static vt_tensor *spread_frame(const nn_video *n, const level *l, vt_tensor *x, vt_tensor *h,
                               int64_t i)
{
    vt_ctx *g = n->g;
    int by[3];
    places_of(by, l, n->first && i == 0);
    vt_tensor *y = vt_slice(g, unfold(g, frame_of(g, h, i), by), 4, 0, l->to);
    x = frame_of(g, x, i);
    x = l->time ? repeat(g, unfold(g, x, by), l->to) : unfold(g, repeat(g, x, 4 * l->to), by);
    return vt_add(g, y, x);
}

static vt_tensor *step_up(const nn_video *n, level *l, vt_tensor *x)
{
    vt_ctx *g = n->g;
    vt_tensor *h = nn_video_causal(n, &l->sampler, x);
    if (!h)
        return NULL;
    const int64_t t = !l->time ? x->dim[1] : 2 * x->dim[1] - (n->first ? 1 : 0);
    vt_tensor *y = vt_new(g, vt_compute(g), 5,
                          (int64_t[]){ 1, t, 2 * x->dim[2], 2 * x->dim[3], l->to });
    for (int64_t i = 0, to = 0; y && i < x->dim[1]; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = spread_frame(n, l, x, h, i);
        const int64_t made = l->time && !(n->first && i == 0) ? 2 : 1;
        vt_assign(g, vt_slice(g, y, 1, to, to + made), f);
        vt_scope_end(g, s, 0, NULL);
        to += made;
    }
    return y;
}

/* Runs a level whose residual blocks have room. x was made in the scope s. */
static vt_tensor *run_level(const nn_video *n, level *l, vt_tensor *x, bool up, vt_scope s)
{
    x = nn_video_resnets(n, l->resnet, l->n, x, s);
    if (l->to)
        x = (up ? step_up : step_down)(n, l, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* ---- the middle ---- */

/* Adds the keys or values x of a chunk to those of the clip. */
static vt_tensor *with_earlier(vt_ctx *g, const attention *a, vt_tensor *all, vt_tensor *x)
{
    if (!all || !x)
        return x;
    const int64_t end = a->seen + x->dim[1];
    vt_assign(g, vt_slice(g, all, 1, a->seen, end), x);
    return vt_slice(g, all, 1, 0, end);
}

/* The places of the frames from..to-1 of x, as those of one head. */
static vt_tensor *places(vt_ctx *g, vt_tensor *x, int64_t from, int64_t to)
{
    return vt_reshape(g, vt_slice(g, x, 1, from, to), 4, (int64_t[]){ 1, -1, 1, x->dim[4] });
}

static void begin_attention(const nn_video *n, attention *a, const vt_tensor *x)
{
    const int64_t dim[] = { 1, n->frames, x->dim[2], x->dim[3], x->dim[4] };
    a->seen = 0;
    a->keys = n->last ? NULL : vt_new_for_step(n->g, vt_compute(n->g), 5, dim);
    a->values = n->last ? NULL : vt_new_for_step(n->g, vt_compute(n->g), 5, dim);
}

static vt_tensor *attend(const nn_video *n, attention *a, vt_tensor *x)
{
    vt_ctx *g = n->g;
    if (!x)
        return NULL;
    if (n->first)
        begin_attention(n, a, x);
    vt_tensor *w = vt_reshape(g, a->norm.w, 1, (int64_t[]){ -1 }), *y = vt_new_like(g, x);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *h = vt_rms_norm(g, x, w, a->norm.eps), *q = nn_video_pointwise(n, &a->q, h);
    vt_tensor *k = with_earlier(g, a, a->keys, nn_video_pointwise(n, &a->k, h));
    vt_tensor *v = with_earlier(g, a, a->values, nn_video_pointwise(n, &a->v, h));

    for (int64_t i = 0; y && q && k && v && i < x->dim[1]; i++) {
        const int64_t end = k->dim[1] - x->dim[1] + i + 1;
        vt_tensor *o = vt_attention(g, places(g, q, i, i + 1), places(g, k, 0, end),
                                    places(g, v, 0, end), NULL);
        vt_tensor *f = frame_of(g, y, i);
        vt_assign(g, f, f ? vt_reshape(g, o, 5, f->dim) : NULL);
    }
    a->seen += x->dim[1];
    vt_scope_end(g, s, 0, NULL);
    return vt_add(g, nn_video_pointwise(n, &a->out, y), x);
}

/* wan.c has the same order around attention within a frame, which has no state. */
static vt_tensor *middle(const nn_video *n, coder *net, vt_tensor *x, vt_scope s)
{
    nn_video_make_room(n, net->mid, 2, x);
    x = nn_video_resnets(n, net->mid, 1, x, s);
    x = attend(n, &net->attention, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_resnets(n, net->mid + 1, 1, x, s);
}

/* ---- the network ---- */

/* Means of the neighbouring channels of each frame: [1,t,h,w,C] -> [1,t,h,w,c]. */
static vt_tensor *channel_means(vt_ctx *g, vt_tensor *x, int64_t c)
{
    if (!x)
        return NULL;
    vt_tensor *y = vt_new(g, VC_F32, 5, (int64_t[]){ 1, x->dim[1], x->dim[2], x->dim[3], c });
    for (int64_t i = 0; y && i < x->dim[1]; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_assign(g, frame_of(g, y, i), nn_group_means(g, frame_of(g, x, i), c));
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

static vt_tensor *encode_chunk(vae *v, const nn_video *n, vt_tensor *x)
{
    hunyuan15_vae *m = (hunyuan15_vae *)v;
    coder *net = &m->encoder;
    vt_scope s = vt_scope_begin(n->g);

    nn_video_make_room(n, net->level[0].resnet, net->level[0].n, x);
    x = nn_video_causal(n, &net->conv_in, x);
    for (int i = 0; i < m->c.levels; i++) {
        if (i > 0)
            nn_video_make_room(n, net->level[i].resnet, net->level[i].n, x);
        x = run_level(n, &net->level[i], x, false, s);
    }
    x = middle(n, net, x, s);
    vt_tensor *means = channel_means(n->g, x, 2 * m->c.latent);
    x = nn_video_causal(n, &net->conv_out, nn_video_norm_silu(n, &net->norm_out, x));
    x = vt_add(n->g, x, means);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_chunk(vae *v, const nn_video *n, vt_tensor *z)
{
    hunyuan15_vae *m = (hunyuan15_vae *)v;
    coder *net = &m->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = nn_video_causal(n, &net->conv_in, z);

    x = x ? vt_add(n->g, x, repeat(n->g, z, x->dim[4])) : NULL;
    x = middle(n, net, x, s);
    for (int i = 0; i < m->c.levels; i++) {
        nn_video_make_room(n, net->level[i].resnet, net->level[i].n, x);
        x = run_level(n, &net->level[i], x, true, s);
    }
    return nn_video_head(n, &net->norm_out, &net->conv_out, x, s);
}

/* ---- config.json ---- */

typedef struct fields {
    config c;
    vae_info info;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INTS(fields, c.width, c.levels, "block_out_channels", HALVINGS + 1, 1, MAX_WIDTH),
    VF_INT(fields, c.layers, "layers_per_block", 2, 1, MAX_LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 32, 1, VAE_MAX_CHANNELS / 2),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY_INT("spatial_compression_ratio", RATIO),
    VF_ONLY_INT("temporal_compression_ratio", RATIO_T),
    VF_ONLY_FLAG("downsample_match_channel", true),
    VF_ONLY_FLAG("upsample_match_channel", true),
    VF_NUM(fields, info.scaling_factor, "scaling_factor", 1.03682, VF_ABOVE_0, INFINITY),
    { 0 }
};

/* The step between level i and the next moves 4 or 8 places, by the encoder into channels and by
 * the decoder back. */
static bool divides(const config *c, int i)
{
    const bool time = i >= HALVINGS - HALVINGS_T;
    const int from = c->width[i], to = c->width[i + 1], factor = time ? 8 : 4;
    return to % factor == 0 && factor * from % to == 0 && !(time && factor * from / to % 2);
}

static int check_widths(const config *c, vc_err *err)
{
    const int last = c->width[c->levels - 1];
    for (int i = 0; i < HALVINGS; i++)
        if (!divides(c, i))
            return vc_fail(err, VC_EFORMAT, "block_out_channels: %d and %d of neighbouring levels "
                           "cannot share the places of a step", c->width[i], c->width[i + 1]);
    if (last % 8 || last > MAX_HEAD || last % (2 * c->latent))
        return vc_fail(err, VC_EFORMAT, "block_out_channels: the last level's %d channels must be "
                       "a multiple of 8, at most %d, and of twice latent_channels, which are %d",
                       last, MAX_HEAD, c->latent);
    return 0;
}

/* Plans both networks. The decoder's widths are the encoder's from the last to the first, and its
 * steps in time are its first ones. */
static void plan(hunyuan15_vae *m)
{
    const config *c = &m->c;
    const int last = c->levels - 1;
    for (int i = 0; i <= last; i++) {
        const int down = c->width[i], up = c->width[last - i];
        const bool steps = i < HALVINGS;
        m->encoder.level[i] = (level){ .n = c->layers, .width = down,
                                       .to = steps ? c->width[i + 1] : 0,
                                       .time = steps && i >= HALVINGS - HALVINGS_T };
        m->decoder.level[i] = (level){ .n = c->layers + 1, .width = up,
                                       .to = steps ? c->width[last - i - 1] : 0,
                                       .time = i < HALVINGS_T };
    }
}

static int configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    fields f = { .c = { .levels = 5, .width = { 128, 256, 512, 1024, 1024 } },
                 .info = { .class = CLASS, .has_logvar = true } };
    hunyuan15_vae *m = (hunyuan15_vae *)v;
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = check_widths(&f.c, err);
    if (rc)
        return rc;
    m->c = f.c;
    plan(m);
    *info = f.info;
    info->channels = f.c.latent;
    info->ratio[0] = RATIO_T;
    info->ratio[1] = info->ratio[2] = RATIO;
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    vf_hasher_int(h, "layers_per_block", f.c.layers);
    vf_hasher_int(h, "latent_channels", f.c.latent);
    for (int i = 0; i < f.c.levels; i++)
        vf_hasher_int(h, "block_out_channels", f.c.width[i]);
    for (int i = 1; i < 3; i++)
        vf_hasher_int(h, "tile", v->tiling.size[i]);
    return 0;
}

/* ---- weights ---- */

static void bind_norm(vae_binder *b, nn_video_norm *n, int width, const char *below,
                      const char *name)
{
    n->eps = NORM_EPS / (float)width;
    vae_bind(b, nn_video_gamma, n, width, 0, below, name);
}

static void bind_resnets(vae_binder *b, nn_video_resnet *r, int n, int width, const char *below)
{
    for (int i = 0; i < n; i++, r++) {
        char name[80];
        snprintf(name, sizeof name, "%sresnets.%d.", below, i);
        bind_norm(b, &r->norm1, width, name, "norm1");
        vae_bind(b, nn_video_cube, &r->conv1, width, width, name, "conv1.conv");
        bind_norm(b, &r->norm2, width, name, "norm2");
        vae_bind(b, nn_video_cube, &r->conv2, width, width, name, "conv2.conv");
    }
}

static void bind_middle(vae_binder *b, coder *net, int width, const char *above)
{
    const struct { nn_video_conv *conv; const char *name; } convs[] = {
        { &net->attention.q, "to_q" }, { &net->attention.k, "to_k" },
        { &net->attention.v, "to_v" }, { &net->attention.out, "proj_out" }
    };
    char below[48], name[72];

    snprintf(below, sizeof below, "%smid_block.", above);
    bind_resnets(b, net->mid, 2, width, below);
    snprintf(name, sizeof name, "%sattentions.0.", below);
    bind_norm(b, &net->attention.norm, width, name, "norm");
    for (int i = 0; i < 4; i++)
        vae_bind(b, nn_video_point, convs[i].conv, width, width, name, convs[i].name);
}

static void bind_levels(vae_binder *b, coder *net, int levels, bool up)
{
    for (int i = 0; i < levels; i++) {
        level *l = &net->level[i];
        const int factor = l->time ? 8 : 4;
        char name[48];
        snprintf(name, sizeof name, up ? "decoder.up_blocks.%d." : "encoder.down_blocks.%d.", i);
        bind_resnets(b, l->resnet, l->n, l->width, name);
        if (l->to)
            vae_bind(b, nn_video_cube, &l->sampler, up ? l->to * factor : l->to / factor,
                     l->width, name, up ? "upsamplers.0.conv.conv" : "downsamplers.0.conv.conv");
    }
}

static void bind(vae *v, vae_binder *b)
{
    hunyuan15_vae *m = (hunyuan15_vae *)v;
    const config *c = &m->c;
    const int first = c->width[0], last = c->width[c->levels - 1];

    vae_bind(b, nn_video_cube, &m->encoder.conv_in, first, 3, "encoder.", "conv_in.conv");
    bind_levels(b, &m->encoder, c->levels, false);
    bind_middle(b, &m->encoder, last, "encoder.");
    bind_norm(b, &m->encoder.norm_out, last, "encoder.", "norm_out");
    vae_bind(b, nn_video_cube, &m->encoder.conv_out, 2 * c->latent, last, "encoder.",
             "conv_out.conv");
    vae_bind(b, nn_video_cube, &m->decoder.conv_in, last, c->latent, "decoder.", "conv_in.conv");
    bind_middle(b, &m->decoder, last, "decoder.");
    bind_levels(b, &m->decoder, c->levels, true);
    bind_norm(b, &m->decoder.norm_out, first, "decoder.", "norm_out");
    vae_bind(b, nn_video_cube, &m->decoder.conv_out, 3, first, "decoder.", "conv_out.conv");
}

static int frames(int f) { return RATIO_T * (f - 1) + 1; }

/* A latent frame and its pixel frames go through at a time. The first chunk of an encoder has the
 * clip's first frame as well, that of a decoder has only its first latent frame. */
static const vae_net net = {
    .class = CLASS, .size = sizeof(hunyuan15_vae), .pixel_frames = RATIO_T, .latent_frames = 1,
    .edge = true, .frames = frames, .configure = configure, .bind = bind,
    .encode_chunk = encode_chunk, .decode_chunk = decode_chunk,
};

VAE_CLASS(vae_hunyuan15, CLASS, net, frames);
