/* hunyuan.c - AutoencoderKLHunyuanVideo: its configuration, weights, encoder and decoder.
 *
 * The norms and the attention of this causal autoencoder (Kong et al. 2024, HunyuanVideo, 4.1) read
 * all frames of their input, so longer clips are cut into tiles of 17 frames, and a tile begins
 * every twelve frames. Padding repeats a frame's border and a clip's first frame. */
#include <stdio.h>

#include "formats/json/config.h"
#include "precompute/vae/group_blocks.h"

#define CLASS "AutoencoderKLHunyuanVideo"
#define EPS 1e-6f

enum { RATIO_T = 4, RATIO = 8, HALVINGS_T = 2, HALVINGS = 3 };
enum { TILE_FRAMES = 16, TILE_SIDE = 256 };         /* a tile has one frame more than this, and
                                                     * TILE_SIDE rows and columns of pixels */
#define TILE_OVERLAP 0.25
enum { LEVELS = 6, LAYERS = 8, MAX_WIDTH = 8192 };

typedef struct config {
    int levels, width[LEVELS], layers, latent, groups;
    bool attention;                  /* the middle has attention */
} config;

/* A level runs residual blocks, then a step to the next level. */
typedef struct level {
    nn_video_resnet resnet[LAYERS];
    int n, by[3];                    /* factors of the step in t, h, w; all 1: no step */
    nn_video_conv sampler;
} level;

/* The encoder runs conv_in, the levels from the finest on, the middle, norm_out, conv_out and
 * quant; the decoder runs quant, conv_in, the middle, the levels up to the finest, norm_out and
 * conv_out. */
typedef struct coder {
    nn_video_conv quant, conv_in, conv_out;
    level level[LEVELS];
    nn_video_resnet mid[2];
    vae_attention attention;         /* runs between mid[0] and mid[1]; q.w NULL: no attention */
    nn_video_norm norm_out;
} coder;

typedef struct hunyuan {
    vae all;
    config c;
    coder encoder, decoder;
} hunyuan;

/* ---- the network ---- */

static vt_tensor *middle(const nn_video *n, coder *net, vt_tensor *x, vt_scope s)
{
    x = nn_video_resnets(n, net->mid, 1, x, s);
    if (net->attention.q.w)
        x = vae_attend(n, &net->attention, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_resnets(n, net->mid + 1, 1, x, s);
}

/* Repeats x's rows by[1] times, its columns by[2] times, and frames after the first by[0] times. */
static vt_tensor *spread(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = by[1] * x->dim[2], w = by[2] * x->dim[3], to = 0;
    vt_tensor *y = vt_new(g, vt_compute(g), 5,
                          (int64_t[]){ 1, by[0] * (t - 1) + 1, h, w, x->dim[4] });
    for (int64_t i = 0; i < t && y; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = vt_nearest(g, vt_slice(g, x, 1, i, i + 1), 1, h, w);
        for (int copies = i ? by[0] : 1; copies > 0; copies--, to++)
            vt_assign(g, vt_slice(g, y, 1, to, to + 1), f);
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

static vt_tensor *head(const nn_video *n, coder *net, vt_tensor *x, vt_scope s)
{
    x = nn_video_norm_silu(n, &net->norm_out, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_causal(n, &net->conv_out, x);
}

static vt_tensor *encode_tile(vae *v, const nn_video *n, vt_tensor *x)
{
    hunyuan *m = (hunyuan *)v;
    coder *net = &m->encoder;
    vt_scope s = vt_scope_begin(n->g);

    x = nn_video_causal(n, &net->conv_in, x);
    for (int i = 0; i < m->c.levels; i++) {
        level *l = &net->level[i];
        x = nn_video_resnets(n, l->resnet, l->n, x, s);
        if (l->sampler.w)
            x = nn_video_causal_steps(n, &l->sampler, x, l->by);
        vt_scope_end(n->g, s, 1, &x);
    }
    x = head(n, net, middle(n, net, x, s), s);
    x = nn_video_pointwise(n, &net->quant, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_tile(vae *v, const nn_video *n, vt_tensor *z)
{
    hunyuan *m = (hunyuan *)v;
    coder *net = &m->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = nn_video_causal(n, &net->conv_in, nn_video_pointwise(n, &net->quant, z));

    x = middle(n, net, x, s);
    for (int i = 0; i < m->c.levels; i++) {
        level *l = &net->level[i];
        x = nn_video_resnets(n, l->resnet, l->n, x, s);
        if (!l->sampler.w)
            continue;
        x = spread(n->g, x, l->by);
        vt_scope_end(n->g, s, 1, &x);
        x = nn_video_causal(n, &l->sampler, x);
        vt_scope_end(n->g, s, 1, &x);
    }
    x = head(n, net, x, s);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and those that the manifest records. */
typedef struct fields {
    config c;
    vae_info info;
    int n_down, n_up;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INTS(fields, c.width, c.levels, "block_out_channels", HALVINGS, 1, MAX_WIDTH),
    VF_WORDS(fields, n_down, "down_block_types", "HunyuanVideoDownBlock3D"),
    VF_WORDS(fields, n_up, "up_block_types", "HunyuanVideoUpBlock3D"),
    VF_INT(fields, c.layers, "layers_per_block", 2, 1, LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 16, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, c.groups, "norm_num_groups", 32, 1, MAX_WIDTH),
    VF_FLAG(fields, c.attention, "mid_block_add_attention", true),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY_INT("spatial_compression_ratio", RATIO),
    VF_ONLY_INT("temporal_compression_ratio", RATIO_T),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_NUM(fields, info.scaling_factor, "scaling_factor", 0.476986, VF_ABOVE_0, INFINITY),
    { 0 }
};

static int check(const fields *f, vc_err *err)
{
    const config *c = &f->c;
    int last = c->width[c->levels - 1];

    for (int i = 0; i < 2; i++) {
        int n = i ? f->n_up : f->n_down;
        if (n && n != c->levels)
            return vc_fail(err, VC_EFORMAT, "%s_block_types has %d entries for %d "
                           "block_out_channels", i ? "up" : "down", n, c->levels);
    }
    for (int i = 0; i < c->levels; i++)
        if (c->width[i] % c->groups)
            return vc_fail(err, VC_EFORMAT, "block_out_channels: %d is not a multiple of "
                           "norm_num_groups %d", c->width[i], c->groups);
    if (c->attention && (last % 8 || last > VAE_MAX_HEAD))
        return vc_fail(err, VC_EFORMAT, "block_out_channels: the last entry, %d, is the width of "
                       "the attention in the middle, which must be a multiple of 8 and at most %d",
                       last, VAE_MAX_HEAD);
    return 0;
}

static int configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    fields f = { .c = { .levels = 4, .width = { 128, 256, 512, 512 } },
                 .info = { .class = CLASS, .has_logvar = true } };
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = check(&f, err);
    if (rc)
        return rc;
    const config *c = &f.c;
    ((hunyuan *)v)->c = *c;
    *info = f.info;
    info->channels = c->latent;
    info->ratio[0] = RATIO_T;
    info->ratio[1] = info->ratio[2] = RATIO;
    v->tiling = (vae_tiling){ .size = { TILE_FRAMES }, .overlap = { TILE_OVERLAP } };
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    vf_hasher_int(h, "layers_per_block", c->layers);
    vf_hasher_int(h, "latent_channels", c->latent);
    vf_hasher_int(h, "norm_num_groups", c->groups);
    vf_hasher_int(h, "mid_block_add_attention", c->attention);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(h, "block_out_channels", c->width[i]);
    for (int i = 0; i < 3; i++)
        vf_hasher_int(h, "tile", v->tiling.size[i]);
    return 0;
}

/* ---- weights ---- */

static vae_blocks blocks_of(const config *c)
{
    return (vae_blocks){ c->groups, EPS, nn_video_cube, nn_video_point, ".conv" };
}

/* Binds level i of the encoder or the decoder, in the order of running. The last HALVINGS_T steps
 * halve or double time, and the first HALVINGS steps halve or double rows and columns. */
static void bind_level(vae_binder *b, level *l, const config *c, int i, int n, int64_t in,
                       int64_t out, const char *below, const char *sampler)
{
    const vae_blocks blocks = blocks_of(c);
    int last = c->levels - 1;

    l->n = n;
    l->by[0] = i >= last - HALVINGS_T && i < last ? 2 : 1;
    l->by[1] = l->by[2] = i < HALVINGS ? 2 : 1;
    vae_bind_resnets(b, &blocks, l->resnet, n, in, out, below);
    if (l->by[0] * l->by[1] > 1)
        vae_bind(b, nn_video_cube, &l->sampler, out, out, below, sampler);
}

static void bind_encoder(vae_binder *b, coder *net, const config *c)
{
    const vae_blocks blocks = blocks_of(c);
    int last = c->levels - 1, z = 2 * c->latent;
    char name[48];

    vae_bind(b, nn_video_cube, &net->conv_in, c->width[0], 3, "encoder.", "conv_in.conv");
    for (int i = 0; i <= last; i++) {
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_level(b, &net->level[i], c, i, c->layers, c->width[i ? i - 1 : 0], c->width[i], name,
                   "downsamplers.0.conv.conv");
    }
    vae_bind_middle(b, &blocks, net->mid, c->attention ? &net->attention : NULL,
                    c->width[c->levels - 1], "encoder.");
    vae_bind_norm(b, &blocks, &net->norm_out, c->width[last], "encoder.", "conv_norm_out");
    vae_bind(b, nn_video_cube, &net->conv_out, z, c->width[last], "encoder.", "conv_out.conv");
    vae_bind(b, nn_video_point, &net->quant, z, z, "", "quant_conv");
}

static void bind_decoder(vae_binder *b, coder *net, const config *c)
{
    const vae_blocks blocks = blocks_of(c);
    int last = c->levels - 1, z = c->latent;
    char name[48];

    vae_bind(b, nn_video_point, &net->quant, z, z, "", "post_quant_conv");
    vae_bind(b, nn_video_cube, &net->conv_in, c->width[last], z, "decoder.", "conv_in.conv");
    vae_bind_middle(b, &blocks, net->mid, c->attention ? &net->attention : NULL,
                    c->width[c->levels - 1], "decoder.");
    for (int i = 0; i <= last; i++) {
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        bind_level(b, &net->level[i], c, i, c->layers + 1,
                   c->width[i ? last - i + 1 : last], c->width[last - i], name,
                   "upsamplers.0.conv.conv");
    }
    vae_bind_norm(b, &blocks, &net->norm_out, c->width[0], "decoder.", "conv_norm_out");
    vae_bind(b, nn_video_cube, &net->conv_out, 3, c->width[0], "decoder.", "conv_out.conv");
}

static void bind(vae *v, vae_binder *b)
{
    hunyuan *m = (hunyuan *)v;

    bind_encoder(b, &m->encoder, &m->c);
    bind_decoder(b, &m->decoder, &m->c);
}

static int frames(int f) { return RATIO_T * (f - 1) + 1; }

/* Each tile in time runs as one chunk. */
static const vae_net net = {
    .class = CLASS, .size = sizeof(hunyuan), .pixel_frames = TILE_FRAMES + 1,
    .latent_frames = TILE_FRAMES / RATIO_T + 1, .edge = true, .frames = frames,
    .configure = configure, .bind = bind, .encode_chunk = encode_tile, .decode_chunk = decode_tile,
};

static int open_hunyuan(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    return vae_open(out, &net, o, info, err);
}

const vae_class vae_hunyuan = { CLASS, open_hunyuan, vae_close, vae_encode, vae_decode, frames,
                                vae_memory };
