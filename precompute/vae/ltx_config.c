/* ltx_config.c - config.json of LTX-Video's and LTX-2's autoencoders: see ltx.h */
#include <string.h>

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
enum up { UP_SPATIAL, UP_TEMPORAL, UP_BOTH };
#define UPS "spatial|temporal|spatiotemporal"
enum padding { PAD_ZEROS, PAD_REFLECT };

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
    int n_up, up[L];                             /* of the decoder, which begin with the coarsest
                                                  * level */
    int padding;                                 /* around the decoder's frames */
    double scaling;
} fields;

#define SHARED(class, types, causal_) \
    VF_ONLY("_class_name", class, class), \
    VF_ONLY_INT("in_channels", 3), \
    VF_ONLY_INT("out_channels", 3), \
    VF_INT(fields, latent, "latent_channels", 128, 1, VAE_MAX_CHANNELS), \
    VF_INT(fields, patch, "patch_size", 4, 1, MAX_PATCH), \
    VF_ONLY_INT("patch_size_t", 1), \
    VF_NUM(fields, eps, "resnet_norm_eps", 1e-6, VF_ABOVE_0, 1), \
    VF_ONLY_FLAG("encoder_causal", true), \
    VF_FLAG(fields, causal, "decoder_causal", causal_), \
    VF_FLAG(fields, timed, "timestep_conditioning", false), \
    VF_INTS(fields, encoder.width, encoder.n_width, "block_out_channels", 1, 1, MAX_WIDTH), \
    VF_INTS(fields, encoder.layers, encoder.n_layers, "layers_per_block", 2, 1, LTX_LAYERS), \
    VF_FLAGS(fields, encoder.halves, encoder.n_halves, "spatio_temporal_scaling", 1), \
    VF_WORD_LIST(fields, type, n_type, "down_block_types", 1, types), \
    VF_WORD_LIST(fields, step, n_step, "downsample_type", 1, STEPS), \
    VF_INTS(fields, decoder.width, decoder.n_width, "decoder_block_out_channels", 1, 1, \
            MAX_WIDTH), \
    VF_INTS(fields, decoder.layers, decoder.n_layers, "decoder_layers_per_block", 2, 1, \
            LTX_LAYERS), \
    VF_FLAGS(fields, decoder.halves, decoder.n_halves, "decoder_spatio_temporal_scaling", 1), \
    VF_FLAGS(fields, noisy, n_noisy, "decoder_inject_noise", 2), \
    VF_FLAGS(fields, residual, n_residual, "upsample_residual", 1), \
    VF_INTS(fields, factor, n_factor, "upsample_factor", 1, 1, 8), \
    VF_INT(fields, ratio, "spatial_compression_ratio", 0, 1, MAX_WIDTH), \
    VF_INT(fields, ratio_t, "temporal_compression_ratio", 0, 1, MAX_WIDTH), \
    VF_NUM(fields, scaling, "scaling_factor", 1, VF_ABOVE_0, INFINITY)

static const vf_config_row rows[] = { SHARED(LTX_CLASS, TYPES, false), { 0 } };
static const vf_config_row rows2[] = {
    SHARED(LTX2_CLASS, "LTX2VideoDownBlock3D", true),
    VF_WORD_LIST(fields, up, n_up, "upsample_type", 1, UPS),
    VF_ONLY("encoder_spatial_padding_mode", "zeros", "zeros"),
    VF_WORD(fields, padding, "decoder_spatial_padding_mode", "reflect", "zeros|reflect"),
    { 0 }
};

/* The lists of 0.9.0, whose config.json has no lists for the decoder. */
static const lists lists_090 = { .n_width = 4, .width = { 128, 256, 512, 512 }, .n_layers = 5,
                                 .layers = { 4, 3, 3, 3, 4 }, .n_halves = 4,
                                 .halves = { true, true, true } };

/* The defaults of AutoencoderKLLTX2Video, which are LTX-2.0's values. */
static const fields fields_20 = {
    .encoder = { .n_width = 4, .width = { 256, 512, 1024, 2048 }, .n_layers = 5,
                 .layers = { 4, 6, 6, 2, 2 }, .n_halves = 4,
                 .halves = { true, true, true, true } },
    .decoder = { .n_width = 3, .width = { 256, 512, 1024 }, .n_layers = 4,
                 .layers = { 5, 5, 5, 5 }, .n_halves = 3, .halves = { true, true, true } },
    .n_type = 4, .n_step = 4, .step = { STEP_SPATIAL, STEP_TEMPORAL, STEP_BOTH, STEP_BOTH },
    .n_noisy = 4, .n_residual = 3, .residual = { true, true, true },
    .n_factor = 3, .factor = { 2, 2, 2 }, .n_up = 3, .up = { UP_BOTH, UP_BOTH, UP_BOTH },
};

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
    if (!rc)
        rc = check_length("upsample_type", f->n_up, levels, per, err);
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
    enum up up = f->n_up ? (enum up)f->up[f->n_up - 1 - i] : UP_BOTH;
    set_steps(b, halves && up != UP_SPATIAL ? 2 : 1, halves && up != UP_TEMPORAL ? 2 : 1);
    int places = halves ? b->by[0] * b->by[1] * b->by[2] : 8;
    b->sampled[0] = b->out * factor;
    b->sampled[1] = b->out * places;
    if (have % factor || width % factor || places % factor)
        return vc_fail(err, VC_EFORMAT, "upsample_factor: %d of level %d does not divide %d and %d "
                       "channels and %d", factor, i, have, width, places);
    if (factor > 1 && (b->in != b->out || !halves))
        return vc_fail(err, VC_EFORMAT, "upsample_factor: %d of level %d needs "
                       "decoder_spatio_temporal_scaling, and as many decoder_block_out_channels as "
                       "the level before has (%d)", factor, i, have);
    if (b->in != b->out && (f->timed || b->noisy))
        return vc_fail(err, VC_EFORMAT, "decoder_block_out_channels: level %d widens %d to %d "
                       "channels, which is not supported with timestep_conditioning or "
                       "decoder_inject_noise", i, b->in, b->out);
    if (b->residual && b->sampled[0] % places)
        return vc_fail(err, VC_EFORMAT, "upsample_residual: the number of channels of level %d, "
                       "%d, is not a multiple of %d", i, b->sampled[0], places);
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

/* Plans in which run n convolutions end, each of which then returns one frame more, 1/scale of a
 * latent frame. The frames of all that end in a run are at most those of a chunk; `used` counts
 * them in frames of LTX_RATIO_T to a latent frame. */
static void plan_ends(ltx_net *net, int n, int scale, int *used)
{
    const int all = LTX_CHUNK * LTX_RATIO_T, frames = LTX_RATIO_T / scale;

    for (; n > 0; n--) {
        int run = net->convs ? net->end[net->convs - 1] : 0;
        if (*used + frames > all) {
            run++;
            *used = 0;
        }
        *used += frames;
        net->end[net->convs++] = run;
    }
}

/* Goes through the decoder's convolutions in the order in which they run. In run 0 the last chunk
 * has frames of its own, so that little more than the first one ends. */
static void plan_all_ends(ltx_net *net)
{
    int scale = 1, used = LTX_CHUNK * LTX_RATIO_T - LTX_RATIO_T;

    plan_ends(net, 1 + 2 * net->mid.n, scale, &used);
    for (int i = 0; i < net->levels; i++) {
        const ltx_block *b = &net->level[i];
        const bool samples = b->by[0] * b->by[1] > 1;
        plan_ends(net, (b->in != b->out ? 2 : 0) + samples, scale, &used);
        scale *= b->by[0];
        plan_ends(net, 2 * b->n, scale, &used);
    }
    plan_ends(net, 1, scale, &used);
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
    if (!rc)
        rc = check_ratios(m, f, err);
    if (!rc)
        plan_all_ends(&m->decoder);
    return rc;
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

/* Plans the networks of these fields, and sets v, *info and h. */
static int configure(vae *v, const fields *f, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    ltx_vae *m = (ltx_vae *)v;
    int rc = plan(m, f, err);

    if (rc)
        return rc;
    m->latent = f->latent;
    m->patch = f->patch;
    m->eps = f->eps;
    m->timed = f->timed;
    m->causal = f->causal;
    m->reflect = f->padding == PAD_REFLECT;
    *info = (vae_info){ .class = v->net->class, .channels = f->latent,
                        .scaling_factor = f->scaling, .per_channel = true, .has_logvar = true };
    info->ratio[0] = LTX_RATIO_T;
    info->ratio[1] = info->ratio[2] = f->patch * steps_of(&m->encoder, 1);
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

int ltx_configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err)
{
    fields f = { .encoder = lists_090, .decoder = lists_090 };
    int rc = vf_config_read(&f, rows, json, err);

    return rc ? rc : configure(v, &f, tiling, info, h, err);
}

/* Makes the encoder's fields those of 0.9.5, whose block_out_channels begin with the channels of
 * the first convolution; LTX-2's has as many as the latent. */
static int widths_of_095(fields *f, vc_err *err)
{
    lists *e = &f->encoder;

    if (e->n_width > L)
        return vc_fail(err, VC_EFORMAT, "block_out_channels: %d levels, 1 to %d are possible",
                       e->n_width, L);
    memmove(e->width + 1, e->width, (size_t)e->n_width * sizeof *e->width);
    e->width[0] = f->latent;
    e->n_width++;
    for (int i = 0; i < f->n_type; i++)
        f->type[i] = TYPE_095;
    return 0;
}

int ltx2_configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                   vc_err *err)
{
    fields f = fields_20;
    int rc = vf_config_read(&f, rows2, json, err);

    ((ltx_vae *)v)->two = true;
    if (!rc)
        rc = widths_of_095(&f, err);
    return rc ? rc : configure(v, &f, tiling, info, h, err);
}
