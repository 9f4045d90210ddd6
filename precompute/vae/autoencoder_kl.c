/* autoencoder_kl.c - AutoencoderKL of FLUX.1 and of Stable Diffusion, and AutoencoderKLFlux2: their
 * configurations and steps.
 *
 * An autoencoder of pictures (Rombach et al. 2022, High-Resolution Image Synthesis with Latent
 * Diffusion Models, 3.1), whose frames go through one by one. FLUX.2's transformer reads squares of
 * 2 x 2 places of its latent: a channel c of the network becomes the channels 4c + 2 row + column
 * of a latent with half the rows and columns. The statistics of these channels, those of a batch
 * norm, lie beside the network's weights. */
#include <math.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "formats/json/config.h"
#include "precompute/vae/group_vae.h"

#define CLASS "AutoencoderKL"
#define FLUX2_CLASS "AutoencoderKLFlux2"
#define TILE_OVERLAP 0.25

enum { MAX_SAMPLE = 1 << 14 };
enum { SIDE = 2, PATCH = SIDE * SIDE };         /* of the squares of FLUX.2's latent */

/* ---- the network ---- */

static vt_tensor *step_down(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    (void)s;
    return nn_video_down(n, &l->sampler, x, false);
}

static vt_tensor *step_up(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    (void)s;
    return nn_video_up(n, &l->sampler, x, false);
}

static vt_tensor *encode_frame(vae *v, const nn_video *n, vt_tensor *x)
{
    return group_encode((group_vae *)v, n, step_down, x);
}

static vt_tensor *decode_frame(vae *v, const nn_video *n, vt_tensor *z)
{
    return group_decode((group_vae *)v, n, step_up, z);
}

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and those that the manifest keeps. */
typedef struct fields {
    group_config c;
    vae_info info;
    int n_down, n_up;
    int sample;                      /* pixels of a tile's side */
    double batch_norm_eps;
    int patch[2], patch_axes;
} fields;

static const vf_config_row network_rows[] = {
    VF_INTS(fields, c.width, c.levels, "block_out_channels", 1, 1, GROUP_MAX_WIDTH),
    VF_WORDS(fields, n_down, "down_block_types", "DownEncoderBlock2D"),
    VF_WORDS(fields, n_up, "up_block_types", "UpDecoderBlock2D"),
    VF_INT(fields, c.groups, "norm_num_groups", 32, 1, GROUP_MAX_WIDTH),
    VF_FLAG(fields, c.attention, "mid_block_add_attention", true),
    VF_FLAG(fields, c.quant, "use_quant_conv", true),
    VF_FLAG(fields, c.post_quant, "use_post_quant_conv", true),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_UNSET("latents_mean", "other constants of normalisation are supported"),
    VF_UNSET("latents_std", "other constants of normalisation are supported"),
    { 0 }
};
static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INT(fields, c.layers, "layers_per_block", 1, 1, GROUP_LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 4, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, sample, "sample_size", 32, 1, MAX_SAMPLE),
    VF_NUM(fields, info.scaling_factor, "scaling_factor", 0.18215, VF_ABOVE_0, INFINITY),
    VF_NUM(fields, info.shift_factor, "shift_factor", 0, -INFINITY, INFINITY),
    { 0 }
};
static const vf_config_row flux2_rows[] = {
    VF_ONLY("_class_name", FLUX2_CLASS, FLUX2_CLASS),
    VF_INT(fields, c.layers, "layers_per_block", 2, 1, GROUP_LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 32, 1, VAE_MAX_CHANNELS / PATCH),
    VF_INT(fields, sample, "sample_size", 1024, 1, MAX_SAMPLE),
    VF_NUM(fields, batch_norm_eps, "batch_norm_eps", 1e-4, 0, 1),
    VF_INTS(fields, patch, patch_axes, "patch_size", 2, SIDE, SIDE),
    VF_INTS(fields, c.decoder, c.decoder_levels, "decoder_block_out_channels", 1, 1,
            GROUP_MAX_WIDTH),
    { 0 }
};

static void hash(vf_hasher *h, const group_vae *m)
{
    const group_config *c = &m->c;

    vf_hasher_int(h, "layers_per_block", c->layers);
    vf_hasher_int(h, "latent_channels", c->latent);
    vf_hasher_int(h, "norm_num_groups", c->groups);
    vf_hasher_int(h, "mid_block_add_attention", c->attention);
    vf_hasher_int(h, "use_quant_conv", c->quant);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(h, "block_out_channels", c->width[i]);
    for (int i = 1; i < 3; i++)
        vf_hasher_int(h, "tile", m->all.tiling.size[i]);
}

/* Does what both classes have in common once their fields are set to the defaults. */
static int configure_all(vae *v, fields *f, const vf_config_row *own, const cJSON *json,
                         bool tiling, vae_info *info, vf_hasher *h, vc_err *err)
{
    group_vae *m = (group_vae *)v;
    int rc = vf_config_read(f, own, json, err);

    if (!rc)
        rc = vf_config_read(f, network_rows, json, err);
    if (!rc)
        rc = group_check(&f->c, f->n_down, f->n_up, err);
    if (rc)
        return rc;
    f->c.steps = f->c.levels - 1;
    m->c = f->c;
    *info = f->info;
    info->channels = f->c.latent;
    info->ratio[0] = 1;
    info->ratio[1] = info->ratio[2] = 1 << f->c.steps;
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = f->sample;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

static int configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    fields f = { .c = { .levels = 1, .width = { 64 } },
                 .info = { .class = CLASS, .has_logvar = true } };
    return configure_all(v, &f, rows, json, tiling, info, h, err);
}

static void bind(vae *v, vae_binder *b)
{
    group_bind((group_vae *)v, b, &(group_convs){ nn_video_plane, nn_video_pixel, "" });
}

static int frames(int f) { return f; }

static const vae_net net = {
    .class = CLASS, .size = sizeof(group_vae), .pixel_frames = 1, .latent_frames = 1,
    .frames = frames, .configure = configure, .bind = bind, .encode_chunk = encode_frame,
    .decode_chunk = decode_frame,
};

VAE_CLASS(vae_kl, CLASS, net, frames);

/* ---- FLUX.2 ---- */

typedef struct flux2_vae {
    group_vae all;
    double eps;                      /* of the batch norm */
} flux2_vae;

static int configure_flux2(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                           vc_err *err)
{
    fields f = { .c = { .levels = 4, .width = { 128, 256, 512, 512 } },
                 .info = { .class = FLUX2_CLASS, .scaling_factor = 1, .has_logvar = true } };
    int rc = configure_all(v, &f, flux2_rows, json, tiling, info, h, err);

    ((flux2_vae *)v)->eps = f.batch_norm_eps;
    return rc;
}

static const char *const flux2_spare[] = { "bn.running_mean", "bn.running_var",
                                           "bn.num_batches_tracked", NULL };
static const vae_net flux2_net = {
    .class = FLUX2_CLASS, .size = sizeof(flux2_vae), .pixel_frames = 1, .latent_frames = 1,
    .frames = frames, .configure = configure_flux2, .bind = bind, .spare = flux2_spare,
    .encode_chunk = encode_frame, .decode_chunk = decode_frame,
};

/* Describes the latent of squares: its channels, its ratio and the statistics of the batch norm,
 * where `given` is in place of config.json's batch_norm_eps unless it is 0. */
static int flux2_statistics(const vae *v, double given, vae_info *info, vc_err *err)
{
    const double eps = given ? given : ((const flux2_vae *)v)->eps;

    info->channels = PATCH * v->channels;
    info->ratio[1] = info->ratio[2] = SIDE * v->ratio[1];
    info->per_channel = true;
    int rc = vae_numbers(v->file, flux2_spare[0], info->channels, info->mean, err);
    if (!rc)
        rc = vae_numbers(v->file, flux2_spare[1], info->channels, info->std, err);
    for (int i = 0; !rc && i < info->channels; i++) {
        if (!(info->std[i] >= 0) || !(info->std[i] + eps > 0))
            return vc_fail(err, VC_EFORMAT, "tensor %s: value %d is %g, not a variance",
                           flux2_spare[1], i, info->std[i]);
        info->std[i] = sqrt(info->std[i] + eps);
    }
    return rc;
}

static int open_flux2(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    int rc = vae_open(out, &flux2_net, o, info, err);

    if (rc)
        return rc;
    rc = vc_context(err, flux2_statistics(*out, o->norm_eps, info, err), "%s", o->dir);
    if (rc) {
        vae_close(*out);
        *out = NULL;
    }
    return rc;
}

/* The sizes of a latent of squares. */
typedef struct squares {
    int channels, f, h, w;           /* channels of the network's latent; pictures; squares */
} squares;

/* The index, in the latent of squares, of the i-th value of the network's. */
static size_t square_at(const squares *s, size_t i)
{
    const size_t w = (size_t)s->w, h = (size_t)s->h, x = i % (SIDE * w), line = i / (SIDE * w);
    const size_t y = line % (SIDE * h), f = line / (SIDE * h) % (size_t)s->f;
    const size_t c = line / (SIDE * h) / (size_t)s->f * PATCH + y % SIDE * SIDE + x % SIDE;

    return ((c * (size_t)s->f + f) * h + y / SIDE) * w + x / SIDE;
}

static size_t squares_count(const squares *s)
{
    return (size_t)(s->channels * PATCH) * (size_t)s->f * (size_t)s->h * (size_t)s->w;
}

static float *latent_area(const squares *s, vc_err *err)
{
    float *x = malloc(squares_count(s) * sizeof *x);
    if (!x)
        vc_fail(err, VC_ENOMEM, "%s: out of memory for a latent", FLUX2_CLASS);
    return x;
}

static int check_sides(const vae *v, int h, int w, vc_err *err)
{
    const int side = SIDE * v->ratio[1];
    return h > 0 && w > 0 && h % side == 0 && w % side == 0 ? 0 :
           vc_fail(err, VC_EINVAL, "%s: %dx%d is not possible: width and height must be multiples "
                   "of %d", FLUX2_CLASS, w, h, side);
}

static int encode_flux2(vae *v, const vae_input *pixels, int f, int h, int w, float *mean,
                        float *logvar, vc_err *err)
{
    const int side = SIDE * v->ratio[1];
    const squares s = { v->channels, f, h / side, w / side };
    float *part[2] = { NULL, NULL }, *to[2] = { mean, logvar };
    int rc = f < 1 ? 0 : check_sides(v, h, w, err);

    for (int i = 0; !rc && f > 0 && i < 2; i++)
        if (to[i] && !(part[i] = latent_area(&s, err)))
            rc = VC_ENOMEM;
    if (!rc)
        rc = vae_encode(v, pixels, f, h, w, part[0], part[1], err);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; !rc && to[k] && i < squares_count(&s); i++)
            to[k][square_at(&s, i)] = part[k][i];
        free(part[k]);
    }
    return rc;
}

static int decode_flux2(vae *v, const float *z, int f, int h, int w, const vae_output *to,
                        vc_err *err)
{
    const squares s = { v->channels, f, h, w };

    if (f < 1 || h < 1 || w < 1 || h > MAX_SAMPLE || w > MAX_SAMPLE)
        return vae_decode(v, z, f, h, w, to, err);               /* the error names the sizes */
    float *places = latent_area(&s, err);
    if (!places)
        return VC_ENOMEM;
    for (size_t i = 0; i < squares_count(&s); i++)
        places[i] = z[square_at(&s, i)];
    int rc = vae_decode(v, places, f, SIDE * h, SIDE * w, to, err);
    free(places);
    return rc;
}

static int flux2_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err)
{
    int rc = decode || f < 1 ? 0 : check_sides(v, h, w, err);

    *bytes = 0;
    if (rc)
        return rc;
    return vae_memory(v, decode, f, decode ? SIDE * h : h, decode ? SIDE * w : w, bytes, err);
}

const vae_class vae_flux2 = { FLUX2_CLASS, open_flux2, vae_close, encode_flux2, decode_flux2,
                              frames, flux2_memory, vae_chunk };
