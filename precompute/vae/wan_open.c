/* wan_open.c - config.json and weights of AutoencoderKLWan and AutoencoderKLQwenImage: see wan.h */
#include <stdio.h>
#include <string.h>

#include "formats/json/config.h"
#include "precompute/vae/wan.h"

enum { MAX_WIDTH = 8192, MAX_HEAD = 1024, MAX_FACTOR = 64, MAX_PATCH = 64 };
enum { TILE_SIDE = 256 };                        /* in pixels */
#define TILE_OVERLAP 0.25

/* ---- config.json ---- */

typedef struct fields {
    wan_config c;
    double mean[VAE_MAX_CHANNELS], std[VAE_MAX_CHANNELS];
    int n_mean, n_std, ratio;                    /* ratio 0: the file has none */
} fields;

static const vf_config_row rows[] = {
    VF_INT(fields, c.base, "base_dim", 96, 1, MAX_WIDTH),
    VF_INT(fields, c.latent, "z_dim", 16, 1, VAE_MAX_CHANNELS),
    VF_INTS(fields, c.factor, c.levels, "dim_mult", 1, 1, MAX_FACTOR),
    VF_INT(fields, c.layers, "num_res_blocks", 2, 1, WAN_LAYERS - 1),
    VF_UNSET("attn_scales", "attention is supported in the middle block only"),
    VF_FLAGS(fields, c.in_time, c.steps, "temperal_downsample", 0),
    VF_NUMS(fields, mean, n_mean, "latents_mean", 1, -INFINITY, INFINITY),
    VF_NUMS(fields, std, n_std, "latents_std", 1, VF_ABOVE_0, INFINITY),
    { 0 }
};

/* The fields of one class. */
static const vf_config_row wan_rows[] = {
    VF_ONLY("_class_name", WAN_CLASS, WAN_CLASS),
    VF_INT(fields, c.decoder_base, "decoder_base_dim", 0, 1, MAX_WIDTH),
    VF_FLAG(fields, c.residual, "is_residual", false),
    VF_INT(fields, c.in, "in_channels", 3, 3, 3 * MAX_PATCH * MAX_PATCH),
    VF_INT(fields, c.out, "out_channels", 3, 3, 3 * MAX_PATCH * MAX_PATCH),
    VF_INT(fields, c.patch, "patch_size", 1, 1, MAX_PATCH),
    VF_ONLY_INT("scale_factor_temporal", WAN_RATIO_T),
    VF_INT(fields, ratio, "scale_factor_spatial", 0, 1, MAX_WIDTH),
    { 0 }
};
static const vf_config_row qwen_rows[] = {
    VF_ONLY("_class_name", WAN_QWEN_CLASS, WAN_QWEN_CLASS),
    VF_ONLY_INT("input_channels", 3),
    { 0 }
};

/* Rows or columns of a latent's row or column. */
static int side_of(const wan_config *c) { return c->patch << (c->levels - 1); }

static int check_lists(const fields *f, vc_err *err)
{
    const wan_config *c = &f->c;
    int halvings = 0;

    if (c->steps != c->levels - 1)
        return vc_fail(err, VC_EFORMAT, "temperal_downsample: a list of %d, not of %d for the "
                       "steps between the levels of dim_mult", c->steps, c->levels - 1);
    for (int i = 0; i < c->steps; i++)
        halvings += c->in_time[i];
    if (1 << halvings != WAN_RATIO_T)
        return vc_fail(err, VC_EFORMAT, "temperal_downsample: it makes one frame of %d; only %d "
                       "are supported", 1 << halvings, WAN_RATIO_T);
    for (int i = 0; i < 2; i++)
        if ((i ? f->n_std : f->n_mean) != c->latent)
            return vc_fail(err, VC_EFORMAT, "latents_%s: a list of %d, not of %d for z_dim",
                           i ? "std" : "mean", i ? f->n_std : f->n_mean, c->latent);
    for (int i = 0; i < 2; i++)
        if ((i ? c->out : c->in) != 3 * c->patch * c->patch)
            return vc_fail(err, VC_EFORMAT, "%s: %d, not the %d of 3 channels and a patch_size of "
                           "%d", i ? "out_channels" : "in_channels", i ? c->out : c->in,
                           3 * c->patch * c->patch, c->patch);
    return f->ratio && f->ratio != side_of(c)
               ? vc_fail(err, VC_EFORMAT, "scale_factor_spatial: %d, but the levels of dim_mult "
                         "make %d", f->ratio, side_of(c))
               : 0;
}

/* Checks the channels of a coder's levels. */
static int check_widths(const wan_config *c, const char *field, int base, vc_err *err)
{
    int last = base * c->factor[c->levels - 1];

    for (int i = 0; i < c->levels; i++)
        if (base * c->factor[i] > MAX_WIDTH ||
            (i && !c->residual && base * c->factor[i] % 2))
            return vc_fail(err, VC_EFORMAT, "%s: level %d has %d channels: an even number, at most "
                           "%d, is supported", field, i, base * c->factor[i], MAX_WIDTH);
    return last % 8 || last > MAX_HEAD
               ? vc_fail(err, VC_EFORMAT, "%s: the last level's %d channels are the width of the "
                         "attention in the middle: a multiple of 8, at most %d", field, last,
                         MAX_HEAD)
               : 0;
}

static int read_fields(fields *f, const cJSON *json, bool qwen, vc_err *err)
{
    wan_config *c = &f->c;
    int rc = vf_config_read(f, qwen ? qwen_rows : wan_rows, json, err);

    if (!rc)
        rc = vf_config_read(f, rows, json, err);
    if (!c->decoder_base)
        c->decoder_base = c->base;
    if (!rc)
        rc = check_lists(f, err);
    if (!rc)
        rc = check_widths(c, "base_dim", c->base, err);
    return rc ? rc : check_widths(c, "decoder_base_dim", c->decoder_base, err);
}

/* ---- levels ---- */

/* Finds which places of the decoder's step are channels of the level's input: of `copies` equal
 * channels, the last places come first. */
static bool share_places(wan_level *l, int copies)
{
    for (int a = 2; a >= 0; a--)
        if (l->step[a] > 1 && copies % l->step[a] == 0) {
            copies /= l->step[a];
            l->by[a] = 1;
        }
    return copies == 1;
}

/* Plans a level of `n` residual blocks; steps: it has a step, which may be in time as well. */
static wan_level plan(const wan_config *c, int n, int in, int out, bool steps, bool in_time)
{
    int side = steps ? 2 : 1, t = steps && in_time ? 2 : 1;

    return (wan_level){ .n = n, .in = in, .out = out, .step = { t, side, side },
                        .by = { t, side, side }, .residual = c->residual };
}

static int plan_encoder(wan_coder *net, const wan_config *c, vc_err *err)
{
    for (int i = 0, width = c->base; i < c->levels; i++, width = net->level[i - 1].out) {
        wan_level *l = &net->level[i];
        *l = plan(c, c->layers, width, c->base * c->factor[i], i < c->steps, c->in_time[i]);
        int places = l->step[0] * l->step[1] * l->step[2];
        if (l->residual && l->in * places % l->out)
            return vc_fail(err, VC_EFORMAT, "dim_mult: the %d channels of the %d places that level "
                           "%d joins are no multiple of its %d channels", l->in, places, i,
                           l->out);
    }
    return 0;
}

/* In version 2.1 a step halves the channels. */
static int plan_decoder(wan_coder *net, const wan_config *c, vc_err *err)
{
    int last = c->levels - 1, width = c->decoder_base * c->factor[last];

    for (int i = 0; i <= last; i++) {
        wan_level *l = &net->level[i];
        *l = plan(c, c->layers + 1, width, c->decoder_base * c->factor[last - i], i < last,
                  i < last && c->in_time[last - 1 - i]);
        int channels = l->out * l->step[0] * l->step[1] * l->step[2];
        l->residual = c->residual && i < last;
        if (l->residual && (channels % l->in || !share_places(l, channels / l->in)))
            return vc_fail(err, VC_EFORMAT, "dim_mult: the %d channels before the decoder's level "
                           "%d cannot be spread over its %d channels", l->in, i, l->out);
        width = c->residual || i == last ? l->out : l->out / 2;
    }
    return 0;
}

/* Hashes the fields of the configuration that change latents. */
static void hash(vf_hasher *h, const wan_vae *m)
{
    const wan_config *c = &m->c;

    vf_hasher_int(h, "base_dim", c->base);
    vf_hasher_int(h, "z_dim", c->latent);
    vf_hasher_int(h, "num_res_blocks", c->layers);
    vf_hasher_int(h, "is_residual", c->residual);
    vf_hasher_int(h, "patch_size", c->patch);
    for (int i = 0; i < c->levels; i++) {
        vf_hasher_int(h, "dim_mult", c->factor[i]);
        vf_hasher_int(h, "temperal_downsample", c->in_time[i]);
    }
    for (int i = 1; i < 3; i++)
        vf_hasher_int(h, "tile", m->all.tiling.size[i]);
}

int wan_configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err)
{
    fields f = { .c = { .levels = 4, .factor = { 1, 2, 4, 4 }, .patch = 1, .steps = 3,
                        .in_time = { false, true, true }, .in = 3, .out = 3 } };
    wan_vae *m = (wan_vae *)v;
    int rc = read_fields(&f, json, !strcmp(v->net->class, WAN_QWEN_CLASS), err);

    if (rc)
        return rc;
    m->c = f.c;
    rc = plan_encoder(&m->encoder, &m->c, err);
    if (!rc)
        rc = plan_decoder(&m->decoder, &m->c, err);
    if (rc)
        return rc;
    *info = (vae_info){ .class = v->net->class, .channels = f.c.latent, .scaling_factor = 1,
                        .per_channel = true, .has_logvar = true };
    info->ratio[0] = WAN_RATIO_T;
    info->ratio[1] = info->ratio[2] = side_of(&f.c);
    memcpy(info->mean, f.mean, sizeof f.mean);
    memcpy(info->std, f.std, sizeof f.std);
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

/* ---- weights ---- */

#define POINT(part, field) \
    { part ".weight", VT_W_TENSOR, offsetof(wan_attention, field.w), { -1, -2, 1, 1 }, \
      VT_INIT_ZERO }, \
    { part ".bias", VT_W_TENSOR, offsetof(wan_attention, field.b), { -1 }, VT_INIT_ZERO }
static const vt_weight norm_rows[] = {
    { "norm.gamma", VT_W_TENSOR, offsetof(wan_attention, norm), { -1, 1, 1 }, VT_INIT_ZERO }, { 0 }
};
static const vt_weight qkv_rows[] = { POINT("to_qkv", qkv), { 0 } };
static const vt_weight out_rows[] = { POINT("proj", out), { 0 } };

static void bind_norm(vae_binder *b, nn_video_norm *n, int width, const char *below,
                      const char *name)
{
    n->eps = WAN_EPS / (float)width;
    vae_bind(b, nn_video_gamma, n, width, 0, below, name);
}

static void bind_resnet(vae_binder *b, nn_video_resnet *r, int in, int out, const char *below)
{
    bind_norm(b, &r->norm1, in, below, "norm1");
    vae_bind(b, nn_video_cube, &r->conv1, out, in, below, "conv1");
    bind_norm(b, &r->norm2, out, below, "norm2");
    vae_bind(b, nn_video_cube, &r->conv2, out, out, below, "conv2");
    if (in != out)
        vae_bind(b, nn_video_point, &r->shortcut, out, in, below, "conv_shortcut");
}

/* Binds `below`resnets.0., `below`resnets.1. and so on. */
static void bind_resnets(vae_binder *b, wan_level *l, const char *below)
{
    char name[96];

    for (int i = 0; i < l->n; i++) {
        snprintf(name, sizeof name, "%sresnets.%d.", below, i);
        bind_resnet(b, &l->resnet[i], i ? l->out : l->in, l->out, name);
    }
}

/* Binds the step behind a level, which makes `to` channels. */
static void bind_sampler(vae_binder *b, wan_level *l, int to, bool up, const char *below)
{
    if (l->step[1] > 1)
        vae_bind(b, nn_video_plane, &l->sampler, to, l->out, below, "resample.1");
    if (l->step[0] > 1)
        vae_bind(b, nn_video_time, &l->time, up ? 2 * l->out : l->out, l->out, below, "time_conv");
}

static void bind_middle(vae_binder *b, wan_coder *net, int width, const char *coder)
{
    char below[48], name[72];

    snprintf(below, sizeof below, "%smid_block.", coder);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%sresnets.%d.", below, i);
        bind_resnet(b, &net->mid[i], width, width, name);
    }
    vae_bind(b, norm_rows, &net->attention, width, 0, below, "attentions.0");
    vae_bind(b, qkv_rows, &net->attention, 3 * width, width, below, "attentions.0");
    vae_bind(b, out_rows, &net->attention, width, width, below, "attentions.0");
}

/* Binds the levels of version 2.1, where down_blocks counts residual blocks and steps one by one.
 */
static void bind_flat(vae_binder *b, wan_coder *net, const wan_config *c)
{
    char name[48];

    for (int i = 0, at = 0; i < c->levels; i++) {
        wan_level *l = &net->level[i];
        for (int k = 0; k < l->n; k++) {
            snprintf(name, sizeof name, "encoder.down_blocks.%d.", at++);
            bind_resnet(b, &l->resnet[k], k ? l->out : l->in, l->out, name);
        }
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", at);
        bind_sampler(b, l, l->out, false, name);
        at += l->step[1] > 1;
    }
}

static void bind_nested(vae_binder *b, wan_coder *net, const wan_config *c)
{
    char name[48], sampler[64];

    for (int i = 0; i < c->levels; i++) {
        wan_level *l = &net->level[i];
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_resnets(b, l, name);
        snprintf(sampler, sizeof sampler, "%sdownsampler.", name);
        bind_sampler(b, l, l->out, false, sampler);
    }
}

static void bind_encoder(vae_binder *b, wan_coder *net, const wan_config *c)
{
    int last = net->level[c->levels - 1].out;

    vae_bind(b, nn_video_cube, &net->conv_in, c->base, c->in, "encoder.", "conv_in");
    (c->residual ? bind_nested : bind_flat)(b, net, c);
    bind_middle(b, net, last, "encoder.");
    bind_norm(b, &net->norm_out, last, "encoder.", "norm_out");
    vae_bind(b, nn_video_cube, &net->conv_out, 2 * c->latent, last, "encoder.", "conv_out");
    vae_bind(b, nn_video_point, &net->quant, 2 * c->latent, 2 * c->latent, "", "quant_conv");
}

static void bind_decoder(vae_binder *b, wan_coder *net, const wan_config *c)
{
    int first = net->level[0].in, last = net->level[c->levels - 1].out;
    char name[48], sampler[64];

    vae_bind(b, nn_video_point, &net->quant, c->latent, c->latent, "", "post_quant_conv");
    vae_bind(b, nn_video_cube, &net->conv_in, first, c->latent, "decoder.", "conv_in");
    bind_middle(b, net, first, "decoder.");
    for (int i = 0; i < c->levels; i++) {
        wan_level *l = &net->level[i];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        bind_resnets(b, l, name);
        snprintf(sampler, sizeof sampler, "%s%s", name,
                 c->residual ? "upsampler." : "upsamplers.0.");
        bind_sampler(b, l, c->residual ? l->out : l->out / 2, true, sampler);
    }
    bind_norm(b, &net->norm_out, last, "decoder.", "norm_out");
    vae_bind(b, nn_video_cube, &net->conv_out, c->out, last, "decoder.", "conv_out");
}

void wan_bind(vae *v, vae_binder *b)
{
    wan_vae *m = (wan_vae *)v;

    bind_encoder(b, &m->encoder, &m->c);
    bind_decoder(b, &m->decoder, &m->c);
}
