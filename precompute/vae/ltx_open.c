/* ltx_open.c - AutoencoderKLLTXVideo's config.json and weights: see ltx.h */
#include <stdio.h>

#include "formats/json/config.h"
#include "precompute/vae/ltx.h"

enum { MAX_WIDTH = 8192, MAX_PATCH = 64 };
enum { TILE_SIDE = 512 };                        /* in pixels */
#define TILE_OVERLAP 0.125

/* ---- config.json ---- */

enum type { TYPE_090, TYPE_095 };
#define TYPES "LTXVideoDownBlock3D|LTXVideo095DownBlock3D"
enum step { STEP_CONV, STEP_SPATIAL, STEP_TEMPORAL, STEP_BOTH };
#define STEPS "conv|spatial|temporal|spatiotemporal"

enum { L = LTX_LEVELS };

/* The lists of the encoder or of the decoder, which begin with the finest level, and their
 * lengths n_... */
typedef struct lists {
    int n_width, width[L + 1], n_layers, layers[L + 1], n_halves;
    bool halves[L];
} lists;

typedef struct fields {
    int latent, patch, ratio, ratio_t;           /* a ratio is 0 where config.json has none */
    double eps;
    bool timed, causal;
    lists encoder, decoder;
    int n_type, type[L], n_step, step[L];        /* of the encoder */
    int n_noisy, n_residual, n_factor, factor[L];            /* of the decoder */
    bool noisy[L + 1], residual[L];
    double scaling;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", LTX_CLASS, LTX_CLASS),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_INT(fields, latent, "latent_channels", 128, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, patch, "patch_size", 4, 1, MAX_PATCH),
    VF_ONLY_INT("patch_size_t", 1),
    VF_NUM(fields, eps, "resnet_norm_eps", 1e-6, VF_ABOVE_0, 1),
    VF_ONLY_FLAG("encoder_causal", true),
    VF_FLAG(fields, causal, "decoder_causal", false),
    VF_FLAG(fields, timed, "timestep_conditioning", false),
    VF_INTS(fields, encoder.width, encoder.n_width, "block_out_channels", 1, 1, MAX_WIDTH),
    VF_INTS(fields, encoder.layers, encoder.n_layers, "layers_per_block", 2, 1, LTX_LAYERS),
    VF_FLAGS(fields, encoder.halves, encoder.n_halves, "spatio_temporal_scaling", 1),
    VF_WORD_LIST(fields, type, n_type, "down_block_types", 1, TYPES),
    VF_WORD_LIST(fields, step, n_step, "downsample_type", 1, STEPS),
    VF_INTS(fields, decoder.width, decoder.n_width, "decoder_block_out_channels", 1, 1, MAX_WIDTH),
    VF_INTS(fields, decoder.layers, decoder.n_layers, "decoder_layers_per_block", 2, 1,
            LTX_LAYERS),
    VF_FLAGS(fields, decoder.halves, decoder.n_halves, "decoder_spatio_temporal_scaling", 1),
    VF_FLAGS(fields, noisy, n_noisy, "decoder_inject_noise", 2),
    VF_FLAGS(fields, residual, n_residual, "upsample_residual", 1),
    VF_INTS(fields, factor, n_factor, "upsample_factor", 1, 1, 8),
    VF_INT(fields, ratio, "spatial_compression_ratio", 0, 1, MAX_WIDTH),
    VF_INT(fields, ratio_t, "temporal_compression_ratio", 0, 1, MAX_WIDTH),
    VF_NUM(fields, scaling, "scaling_factor", 1, VF_ABOVE_0, INFINITY),
    { 0 }
};

/* The lists of 0.9.0, whose config.json has no lists for the decoder. */
static const lists lists_090 = { .n_width = 4, .width = { 128, 256, 512, 512 }, .n_layers = 5,
                                 .layers = { 4, 3, 3, 3, 4 }, .n_halves = 4,
                                 .halves = { true, true, true } };

/* Checks that a list has n entries, where config.json has this list. */
static int check_length(const char *field, int has, int n, const char *per, vc_err *err)
{
    return !has || has == n ? 0 : vc_fail(err, VC_EFORMAT, "%s has %d entries, not %d, as %s "
                                          "require", field, has, n, per);
}

static int check_encoder(const fields *f, int levels, vc_err *err)
{
    const char *per = "the levels of block_out_channels";
    int rc = levels > 0 && levels <= L ? 0
             : vc_fail(err, VC_EFORMAT, "block_out_channels: %d levels, 1 to %d are possible",
                       levels, L);

    if (!rc)
        rc = check_length("layers_per_block", f->encoder.n_layers, levels + 1, per, err);
    if (!rc)
        rc = check_length("spatio_temporal_scaling", f->encoder.n_halves, levels, per, err);
    if (!rc)
        rc = check_length("down_block_types", f->n_type, levels, per, err);
    if (!rc)
        rc = check_length("downsample_type", f->n_step, levels, per, err);
    for (int i = 1; !rc && i < f->n_type; i++)
        if (f->type[i] != f->type[0])
            rc = vc_fail(err, VC_EFORMAT, "down_block_types: entries 0 and %d name blocks of two "
                         "versions of LTX-Video", i);
    return rc;
}

static int check_decoder(const fields *f, int levels, vc_err *err)
{
    const char *per = "the levels of decoder_block_out_channels";
    int rc = levels <= L ? 0 : vc_fail(err, VC_EFORMAT, "decoder_block_out_channels: %d levels, "
                                       "at most %d are possible", levels, L);

    if (!rc)
        rc = check_length("decoder_layers_per_block", f->decoder.n_layers, levels + 1, per, err);
    if (!rc)
        rc = check_length("decoder_spatio_temporal_scaling", f->decoder.n_halves, levels, per, err);
    if (!rc)
        rc = check_length("decoder_inject_noise", f->n_noisy, levels + 1, per, err);
    if (!rc)
        rc = check_length("upsample_residual", f->n_residual, levels, per, err);
    if (!rc)
        rc = check_length("upsample_factor", f->n_factor, levels, per, err);
    return rc;
}

/* ---- the networks' blocks ---- */

static void set_steps(ltx_block *b, int t, int side)
{
    b->by[0] = t;
    b->by[1] = b->by[2] = side;
}

/* Plans level i of the encoder. The sampler of 0.9.5 widens by folding; 0.9.0 widens by a residual
 * block. */
static int plan_down(ltx_block *b, const fields *f, int i, vc_err *err)
{
    const int *step = f->step;
    bool new = f->type[0] == TYPE_095, halves = f->encoder.halves[i];

    b->n = f->encoder.layers[i];
    b->folds = new && halves && step[i] != STEP_CONV;
    set_steps(b, halves && !(b->folds && step[i] == STEP_SPATIAL) ? 2 : 1,
              halves && !(b->folds && step[i] == STEP_TEMPORAL) ? 2 : 1);
    int places = b->by[0] * b->by[1] * b->by[2];
    b->sampled[0] = b->in;
    b->sampled[1] = b->folds ? b->out / places : b->in;
    if (new && !b->folds && b->in != b->out)
        return vc_fail(err, VC_EFORMAT, "block_out_channels: level %d widens %d to %d channels, "
                       "but its downsample_type keeps the number of channels", i, b->in, b->out);
    if (b->folds && (b->out % places || b->in * places % b->out))
        return vc_fail(err, VC_EFORMAT, "block_out_channels: level %d cannot fold %d channels of "
                       "%d places into %d channels", i, b->in, places, b->out);
    return 0;
}

static int plan_encoder(ltx_net *net, const fields *f, vc_err *err)
{
    const int *width = f->encoder.width;
    bool new = f->type[0] == TYPE_095;
    int rc = 0, have = net->first = width[0];

    net->levels = f->encoder.n_width - new;
    for (int i = 0; !rc && i < net->levels; i++) {
        ltx_block *b = &net->level[i];
        b->in = have;
        have = b->out = new || i + 1 < net->levels ? width[i + 1] : width[i];
        rc = plan_down(b, f, i, err);
    }
    net->mid.in = net->mid.out = net->last = have;
    net->mid.n = f->encoder.layers[net->levels];
    set_steps(&net->mid, 1, 1);
    return rc;
}

/* Plans level i of the decoder's lists, which begin with the finest level. The level's input has
 * `have` channels; its sampler reads out * factor channels, from this input or from widen. */
static int plan_up(ltx_block *b, const fields *f, int i, int have, vc_err *err)
{
    int factor = f->n_factor ? f->factor[i] : 1, width = f->decoder.width[i];
    bool halves = f->decoder.halves[i];

    b->in = have / factor;
    b->out = width / factor;
    b->n = f->decoder.layers[i];
    b->residual = f->n_residual && f->residual[i];
    b->noisy = f->n_noisy && f->noisy[i];
    set_steps(b, halves ? 2 : 1, halves ? 2 : 1);
    b->sampled[0] = b->out * factor;
    b->sampled[1] = b->out * 8;
    if (have % factor || width % factor || 8 % factor)
        return vc_fail(err, VC_EFORMAT, "upsample_factor: %d of level %d does not divide %d and %d "
                       "channels and 8", factor, i, have, width);
    if (factor > 1 && (b->in != b->out || !halves))
        return vc_fail(err, VC_EFORMAT, "upsample_factor: %d of level %d needs "
                       "decoder_spatio_temporal_scaling, and as many decoder_block_out_channels as "
                       "the level before has (%d)", factor, i, have);
    if (b->in != b->out && (f->timed || b->noisy))
        return vc_fail(err, VC_EFORMAT, "decoder_block_out_channels: level %d widens %d to %d "
                       "channels, which is not supported with timestep_conditioning or "
                       "decoder_inject_noise", i, b->in, b->out);
    if (b->residual && b->sampled[0] % 8)
        return vc_fail(err, VC_EFORMAT, "upsample_residual: the number of channels of level %d, "
                       "%d, is not a multiple of 8", i, b->sampled[0]);
    return 0;
}

static int plan_decoder(ltx_net *net, const fields *f, vc_err *err)
{
    int levels = net->levels = f->decoder.n_width, rc = 0;
    int have = net->first = f->decoder.width[levels - 1];

    net->mid.in = net->mid.out = have;
    net->mid.n = f->decoder.layers[levels];
    net->mid.noisy = f->n_noisy && f->noisy[levels];
    set_steps(&net->mid, 1, 1);
    for (int i = 0; !rc && i < levels; i++) {
        rc = plan_up(&net->level[i], f, levels - 1 - i, have, err);
        have = net->level[i].out;
    }
    net->last = have;
    return rc;
}

/* ---- sizes ---- */

static int steps_of(const ltx_net *net, int axis)
{
    int n = 1;

    for (int i = 0; i < net->levels; i++)
        n *= net->level[i].by[axis];
    return n;
}

static int check_ratios(const ltx_vae *m, const fields *f, vc_err *err)
{
    int t = steps_of(&m->encoder, 0), side = f->patch * steps_of(&m->encoder, 1);
    int up_t = steps_of(&m->decoder, 0), up_side = f->patch * steps_of(&m->decoder, 1);

    if (t != LTX_RATIO_T || up_t != t)
        return vc_fail(err, VC_EFORMAT, "%s: the encoder compresses time by %d and the decoder "
                       "expands time by %d; only %d is supported",
                       up_t == t ? "spatio_temporal_scaling" : "decoder_spatio_temporal_scaling",
                       t, up_t, LTX_RATIO_T);
    if (up_side != side)
        return vc_fail(err, VC_EFORMAT, "decoder_spatio_temporal_scaling: the decoder expands "
                       "width and height by %d, but the encoder compresses them by %d", up_side,
                       side);
    if (f->ratio && f->ratio != side)
        return vc_fail(err, VC_EFORMAT, "spatial_compression_ratio: %d, but the blocks compress "
                       "width and height by %d", f->ratio, side);
    return f->ratio_t && f->ratio_t != t
               ? vc_fail(err, VC_EFORMAT, "temporal_compression_ratio: %d, but the blocks "
                         "compress time by %d", f->ratio_t, t)
               : 0;
}

static int plan(ltx_vae *m, const fields *f, vc_err *err)
{
    int levels = f->encoder.n_width - (f->type[0] == TYPE_095);
    int rc = check_encoder(f, levels, err);

    if (!rc)
        rc = check_decoder(f, f->decoder.n_width, err);
    if (!rc)
        rc = plan_encoder(&m->encoder, f, err);
    if (!rc)
        rc = plan_decoder(&m->decoder, f, err);
    return rc ? rc : check_ratios(m, f, err);
}

/* Hashes the fields of the configuration that change latents. */
static void hash(vf_hasher *h, const ltx_vae *m)
{
    vf_hasher_int(h, "latent_channels", m->latent);
    vf_hasher_int(h, "patch_size", m->patch);
    vf_hasher_bytes(h, "resnet_norm_eps", &m->eps, sizeof m->eps);
    for (int i = 0; i <= m->encoder.levels; i++) {
        const ltx_block *b = i < m->encoder.levels ? &m->encoder.level[i] : &m->encoder.mid;
        vf_hasher_int(h, "layers", b->n);
        vf_hasher_int(h, "width", b->out);
        vf_hasher_int(h, "folds", b->folds);
        for (int a = 0; a < 3; a++)
            vf_hasher_int(h, "step", b->by[a]);
    }
    for (int i = 1; i < 3; i++)
        vf_hasher_int(h, "tile", m->all.tiling.size[i]);
}

int ltx_configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err)
{
    fields f = { .encoder = lists_090, .decoder = lists_090 };
    ltx_vae *m = (ltx_vae *)v;
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = plan(m, &f, err);
    if (rc)
        return rc;
    m->latent = f.latent;
    m->patch = f.patch;
    m->eps = f.eps;
    m->timed = f.timed;
    m->causal = f.causal;
    *info = (vae_info){ .class = LTX_CLASS, .channels = f.latent, .scaling_factor = f.scaling,
                        .per_channel = true, .has_logvar = true };
    info->ratio[0] = LTX_RATIO_T;
    info->ratio[1] = info->ratio[2] = f.patch * steps_of(&m->encoder, 1);
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

/* ---- statistics ---- */

const char *const ltx_statistics_names[] = { "latents_mean", "latents_std", NULL };

int ltx_statistics(const vf_model *file, vae_info *info, vc_err *err)
{
    double *const to[] = { info->mean, info->std };
    int rc = 0;

    for (int i = 0; !rc && i < 2; i++)
        rc = vae_numbers(file, ltx_statistics_names[i], info->channels, to[i], err);
    for (int k = 0; !rc && k < info->channels; k++)
        if (!(info->std[k] > 0))
            rc = vc_fail(err, VC_EFORMAT, "tensor %s: value %d is %g, not a finite number above 0",
                         ltx_statistics_names[1], k, info->std[k]);
    return rc;
}

/* ---- weights ---- */

static const vt_weight norm3_rows[] = {
    { "norm3.weight", VT_W_TENSOR, offsetof(ltx_resnet, norm3_w), { -2 }, VT_INIT_ZERO },
    { "norm3.bias", VT_W_TENSOR, offsetof(ltx_resnet, norm3_b), { -2 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight noise_rows[] = {
    { "per_channel_scale1", VT_W_TENSOR, offsetof(ltx_resnet, noise1), { -1, 1, 1 },
      VT_INIT_ZERO },
    { "per_channel_scale2", VT_W_TENSOR, offsetof(ltx_resnet, noise2), { -1, 1, 1 },
      VT_INIT_ZERO },
    { 0 }
};
static const vt_weight table_rows[] = {
    { "scale_shift_table", VT_W_TENSOR, offsetof(ltx_resnet, table), { 4, -1 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight time_rows[] = {
    { "linear_1", VT_W_LINEAR, offsetof(ltx_time, up), { -1, -2 }, VT_INIT_ZERO },
    { "linear_2", VT_W_LINEAR, offsetof(ltx_time, down), { -1, -1 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight head_rows[] = {
    { "scale_shift_table", VT_W_TENSOR, offsetof(ltx_net, table), { 2, -1 }, VT_INIT_ZERO },
    { "timestep_scale_multiplier", VT_W_TENSOR, offsetof(ltx_net, multiplier), { 0 },
      VT_INIT_ONE },
    { 0 }
};
enum { SINUSOID = 256 };

static void bind_resnet(vae_binder *b, ltx_resnet *r, int in, int out, bool timed, bool noisy,
                        const char *name)
{
    char below[104];

    snprintf(below, sizeof below, "%s.", name);
    vae_bind(b, nn_video_cube, &r->conv1, out, in, below, "conv1.conv");
    vae_bind(b, nn_video_cube, &r->conv2, out, out, below, "conv2.conv");
    if (in != out) {
        vae_bind(b, norm3_rows, r, out, in, "", name);
        vae_bind(b, nn_video_point, &r->shortcut, out, in, below, "conv_shortcut.conv");
    }
    if (timed)
        vae_bind(b, table_rows, r, out, in, "", name);
    if (noisy)
        vae_bind(b, noise_rows, r, out, in, "", name);
}

/* Binds a block whose resnets are `width` wide. */
static void bind_block(vae_binder *b, ltx_block *k, int width, bool timed, const char *below)
{
    char name[96];

    if (timed)
        vae_bind(b, time_rows, &k->time, 4 * width, SINUSOID, below,
                 "time_embedder.timestep_embedder");
    for (int i = 0; i < k->n; i++) {
        snprintf(name, sizeof name, "%sresnets.%d", below, i);
        bind_resnet(b, &k->resnet[i], width, width, timed, k->noisy, name);
    }
}

static void bind_encoder(vae_binder *b, ltx_net *n, const ltx_vae *m)
{
    char name[64];

    vae_bind(b, nn_video_cube, &n->conv_in, n->first, 3 * m->patch * m->patch, "encoder.",
             "conv_in.conv");
    for (int i = 0; i < n->levels; i++) {
        ltx_block *k = &n->level[i];
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_block(b, k, k->in, false, name);
        if (k->by[0] * k->by[1] > 1)
            vae_bind(b, nn_video_cube, &k->sampler, k->sampled[1], k->sampled[0], name,
                     k->folds ? "downsamplers.0.conv.conv" : "downsamplers.0.conv");
        snprintf(name, sizeof name, "encoder.down_blocks.%d.conv_out", i);
        if (!k->folds && k->in != k->out)
            bind_resnet(b, &k->widen, k->in, k->out, false, false, name);
    }
    bind_block(b, &n->mid, n->last, false, "encoder.mid_block.");
    vae_bind(b, nn_video_cube, &n->conv_out, m->latent + 1, n->last, "encoder.", "conv_out.conv");
}

static void bind_decoder(vae_binder *b, ltx_net *n, const ltx_vae *m)
{
    char name[64];

    vae_bind(b, nn_video_cube, &n->conv_in, n->first, m->latent, "decoder.", "conv_in.conv");
    bind_block(b, &n->mid, n->first, m->timed, "decoder.mid_block.");
    for (int i = 0; i < n->levels; i++) {
        ltx_block *k = &n->level[i];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.conv_in", i);
        if (k->in != k->out)
            bind_resnet(b, &k->widen, k->in, k->out, false, false, name);
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        if (k->by[0] > 1)
            vae_bind(b, nn_video_cube, &k->sampler, k->sampled[1], k->sampled[0], name,
                     "upsamplers.0.conv.conv");
        bind_block(b, k, k->out, m->timed, name);
    }
    if (m->timed) {
        vae_bind(b, head_rows, n, n->last, 0, "", "decoder");
        vae_bind(b, time_rows, &n->time, 2 * n->last, SINUSOID, "decoder.",
                 "time_embedder.timestep_embedder");
    }
    vae_bind(b, nn_video_cube, &n->conv_out, 3 * m->patch * m->patch, n->last, "decoder.",
             "conv_out.conv");
}

void ltx_bind(vae *v, vae_binder *b)
{
    ltx_vae *m = (ltx_vae *)v;

    bind_encoder(b, &m->encoder, m);
    bind_decoder(b, &m->decoder, m);
}
