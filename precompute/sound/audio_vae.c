/* audio_vae.c - see audio_vae.h
 *
 * The network is that of Rombach et al. 2022 on spectrograms, with RMS norms without weights and
 * convolutions that see no later frame. Activations are [1,1,T,F,C]: time and frequency are the
 * rows and columns of one picture. */
#include "precompute/sound/audio_vae.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/config.h"
#include "formats/tensors/component.h"
#include "precompute/sound/net.h"

#define CLASS "AutoencoderKLLTX2Audio"
#define EPS 1e-6f

enum { LEVELS = 6, LAYERS = 8, MAX_WIDTH = 8192, MAX_MULT = 64 };
enum { WINDOW = 1024 };              /* samples of a spectrogram's frame, in all of LTX-2's files;
                                      * config.json has no field for it */
enum { RATIO = 4, STEPS = 2 };       /* of time and bins, in two steps */

typedef struct resnet {
    nn_video_conv conv1, conv2, shortcut;        /* shortcut.w NULL: as wide as its input */
} resnet;

typedef struct level {
    resnet block[LAYERS + 1];
    nn_video_conv sampler;           /* w NULL: no step to the next level */
} level;

typedef struct coder {
    nn_video_conv conv_in, conv_out;
    resnet mid[2];
    level level[LEVELS];             /* level 0 is the finest */
} coder;

typedef struct fields {
    int base, latent, layers, levels, mult[LEVELS], in, out, bins, rate, hop;
} fields;

struct audio_vae {
    sound_net net;
    fields f;
    coder encoder, decoder;
};

/* ---- config.json ---- */

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INT(fields, base, "base_channels", 128, 1, MAX_WIDTH),
    VF_INT(fields, out, "output_channels", 2, 1, 2),
    VF_INT(fields, in, "in_channels", 2, 1, 2),
    VF_INTS(fields, mult, levels, "ch_mult", 1, 1, MAX_MULT),
    VF_INT(fields, layers, "num_res_blocks", 2, 1, LAYERS),
    VF_INT(fields, latent, "latent_channels", 8, 1, VAE_MAX_CHANNELS),
    VF_ONLY("norm_type", "pixel", "pixel"),
    VF_ONLY("causality_axis", "height", "height"),
    VF_ONLY_FLAG("mid_block_add_attention", false),
    VF_UNSET("attn_resolutions", "autoencoders of sound without attention are supported"),
    VF_INT(fields, rate, "sample_rate", 16000, 1000, 192000),
    VF_INT(fields, hop, "mel_hop_length", 160, 1, WINDOW),
    VF_ONLY_FLAG("is_causal", true),
    VF_INT(fields, bins, "mel_bins", 64, RATIO, 1024),
    VF_ONLY_FLAG("double_z", true),
    { 0 }
};

static int check(const fields *f, vc_err *err)
{
    const int numbers = f->latent * (f->bins / RATIO);

    if (f->levels != STEPS + 1)
        return vc_fail(err, VC_EFORMAT, "ch_mult has %d entries; a latent frame of %d frames takes "
                       "%d", f->levels, RATIO, STEPS + 1);
    if (f->bins % RATIO)
        return vc_fail(err, VC_EFORMAT, "mel_bins: %d is no multiple of %d", f->bins, RATIO);
    if (f->in != f->out)
        return vc_fail(err, VC_EFORMAT, "in_channels is %d and output_channels %d: they must be "
                       "equal", f->in, f->out);
    if (numbers != f->base || numbers > VAE_MAX_CHANNELS)
        return vc_fail(err, VC_EFORMAT, "base_channels is %d, which is also the length of "
                       "latents_mean; a latent of %d channels of %d bins has %d, at most %d",
                       f->base, f->latent, f->bins / RATIO, numbers, VAE_MAX_CHANNELS);
    return 0;
}

static int configure(audio_vae *a, const encoder_opts *o, audio_info *info, vc_err *err)
{
    fields *f = &a->f;
    cJSON *json;
    vf_hasher h;
    int rc = vf_component_config(&json, o->dir, "audio_vae", CLASS, err);

    if (rc)
        return rc;
    *f = (fields){ .levels = STEPS + 1, .mult = { 1, 2, 4 } };
    rc = vf_config_read(f, rows, json, err);
    cJSON_Delete(json);
    if (!rc)
        rc = check(f, err);
    if (rc)
        return vc_context(err, rc, "%s/config.json", o->dir);
    vf_hasher_begin(&h, "audio_vae");
    vf_hasher_str(&h, "class", CLASS);
    vf_hasher_bytes(&h, "weights", o->weights.b, sizeof o->weights.b);
    const int hashed[] = { f->base, f->latent, f->layers, f->in, f->bins, f->rate, f->hop, WINDOW,
                           f->mult[0], f->mult[1], f->mult[2] };
    for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++)
        vf_hasher_int(&h, "field", hashed[i]);
    *info = (audio_info){ .class = CLASS, .fingerprint = vf_hasher_end(&h),
                          .mel = { f->rate, WINDOW, f->hop, f->bins }, .inputs = f->in,
                          .channels = f->latent, .bins = f->bins / RATIO, .ratio = RATIO };
    return 0;
}

static int statistics(const audio_vae *a, audio_info *info, vc_err *err)
{
    const int n = info->channels * info->bins;
    int rc = sound_net_numbers(&a->net, "latents_mean", n, info->mean, err);

    if (!rc)
        rc = sound_net_numbers(&a->net, "latents_std", n, info->std, err);
    for (int i = 0; !rc && i < n; i++)
        if (!(info->std[i] > 0))
            rc = vc_fail(err, VC_EFORMAT, "tensor latents_std: value %d is %g, not above 0", i,
                         info->std[i]);
    return rc;
}

/* ---- weights ---- */

static void bind_resnet(audio_vae *a, resnet *r, int out, int in, const char *name)
{
    sound_net_bind(&a->net, nn_video_plane, &r->conv1, out, in, "%s.conv1.conv.", name);
    sound_net_bind(&a->net, nn_video_plane, &r->conv2, out, out, "%s.conv2.conv.", name);
    if (in != out)
        sound_net_bind(&a->net, nn_video_pixel, &r->shortcut, out, in, "%s.nin_shortcut.conv.",
                       name);
}

static void bind_mid(audio_vae *a, coder *c, int width, const char *name)
{
    char block[96];
    for (int i = 0; i < 2; i++) {
        snprintf(block, sizeof block, "%s.mid.block_%d", name, i + 1);
        bind_resnet(a, &c->mid[i], width, width, block);
    }
}

static void bind_level(audio_vae *a, level *l, int n, int out, int in, const char *name)
{
    char block[96];
    for (int i = 0; i < n; i++, in = out) {
        snprintf(block, sizeof block, "%s.block.%d", name, i);
        bind_resnet(a, &l->block[i], out, in, block);
    }
}

static void bind_all(audio_vae *a)
{
    const fields *f = &a->f;
    const int last = f->levels - 1, top = f->base * f->mult[last];
    coder *e = &a->encoder, *d = &a->decoder;
    char name[48];

    sound_net_bind(&a->net, nn_video_plane, &e->conv_in, f->base, f->in, "encoder.conv_in.conv.");
    for (int i = 0, in = f->base; i <= last; i++) {
        const int out = f->base * f->mult[i];
        snprintf(name, sizeof name, "encoder.down.%d", i);
        bind_level(a, &e->level[i], f->layers, out, in, name);
        if (i < last)
            sound_net_bind(&a->net, nn_video_plane, &e->level[i].sampler, out, out,
                           "%s.downsample.conv.", name);
        in = out;
    }
    bind_mid(a, e, top, "encoder");
    sound_net_bind(&a->net, nn_video_plane, &e->conv_out, 2 * f->latent, top,
                   "encoder.conv_out.conv.");
    sound_net_bind(&a->net, nn_video_plane, &d->conv_in, top, f->latent, "decoder.conv_in.conv.");
    bind_mid(a, d, top, "decoder");
    for (int i = last, in = top; i >= 0; i--) {
        const int out = f->base * f->mult[i];
        snprintf(name, sizeof name, "decoder.up.%d", i);
        bind_level(a, &d->level[i], f->layers + 1, out, in, name);
        if (i)
            sound_net_bind(&a->net, nn_video_plane, &d->level[i].sampler, out, out,
                           "%s.upsample.conv.conv.", name);
        in = out;
    }
    sound_net_bind(&a->net, nn_video_plane, &d->conv_out, f->out, f->base * f->mult[0],
                   "decoder.conv_out.conv.");
}

void audio_vae_close(audio_vae *a)
{
    if (!a)
        return;
    sound_net_close(&a->net);
    free(a);
}

int audio_vae_open(audio_vae **out, const encoder_opts *o, audio_info *info, vc_err *err)
{
    static const char *const spare[] = { "latents_mean", "latents_std", NULL };

    *out = NULL;
    if (!o->dir)
        return vc_fail(err, VC_EUSAGE, CLASS ": give the folder with its config.json and weights");
    audio_vae *a = calloc(1, sizeof *a);
    if (!a)
        return vc_no_memory(err);
    int rc = configure(a, o, info, err);
    if (!rc)
        rc = sound_net_begin(&a->net, o, err);
    if (!rc) {
        bind_all(a);
        rc = sound_net_end(&a->net, spare);
    }
    if (!rc)
        rc = vc_context(err, statistics(a, info, err), "%s", o->dir);
    if (rc) {
        audio_vae_close(a);
        return rc;
    }
    *out = a;
    return 0;
}

/* ---- the network ---- */

static vt_tensor *convolve(vt_ctx *g, const nn_video_conv *c, vt_tensor *x, const vt_conv *how)
{
    const int64_t *k = c->w->dim;

    return vt_conv3d(g, x, vt_reshape(g, c->w, 5, (int64_t[]){ k[0], k[1], 1, k[2], k[3] }), c->b,
                     how);
}

/* Convolves among zeros; no row sees a later one. */
static vt_tensor *causal(vt_ctx *g, const nn_video_conv *c, vt_tensor *x)
{
    return convolve(g, c, x, &(vt_conv){ .stride = { 1, 1, 1 }, .before = { 0, 2, 1 },
                                         .after = { 0, 0, 1 } });
}

static vt_tensor *norm_silu(vt_ctx *g, vt_tensor *x)
{
    return vt_silu(g, vt_rms_norm(g, x, NULL, EPS));
}

static vt_tensor *run_resnet(vt_ctx *g, const resnet *r, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(g);
    vt_tensor *h = causal(g, &r->conv1, norm_silu(g, x));

    vt_scope_end(g, s, 1, &h);
    h = causal(g, &r->conv2, norm_silu(g, h));
    vt_scope_end(g, s, 1, &h);
    if (r->shortcut.w)
        x = convolve(g, &r->shortcut, x, &(vt_conv){ .stride = { 1, 1, 1 } });
    h = vt_add(g, h, x);
    vt_scope_end(g, s, 1, &h);
    return h;
}

static vt_tensor *run_resnets(vt_ctx *g, const resnet *r, int n, vt_tensor *x, vt_scope s)
{
    for (int i = 0; i < n; i++) {
        x = run_resnet(g, &r[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    return x;
}

static vt_tensor *encode(const audio_vae *a, vt_tensor *x)
{
    static const vt_conv halve = { .stride = { 1, 2, 2 }, .before = { 0, 2, 0 },
                                   .after = { 0, 0, 1 } };
    vt_ctx *g = a->net.g;
    const coder *c = &a->encoder;
    vt_scope s = vt_scope_begin(g);

    x = causal(g, &c->conv_in, x);
    for (int i = 0; i < a->f.levels; i++) {
        x = run_resnets(g, c->level[i].block, a->f.layers, x, s);
        if (c->level[i].sampler.w)
            x = convolve(g, &c->level[i].sampler, x, &halve);
        vt_scope_end(g, s, 1, &x);
    }
    x = run_resnets(g, c->mid, 2, x, s);
    return causal(g, &c->conv_out, norm_silu(g, x));
}

/* Doubles rows and columns; the first row, which has no earlier one, stays single. */
static vt_tensor *twice(vt_ctx *g, const nn_video_conv *c, vt_tensor *x)
{
    if (!x)
        return NULL;
    x = causal(g, c, vt_nearest(g, x, 1, 2 * x->dim[2], 2 * x->dim[3]));
    return x ? vt_pack(g, vt_slice(g, x, 2, 1, x->dim[2])) : NULL;
}

static vt_tensor *decode(const audio_vae *a, vt_tensor *x)
{
    vt_ctx *g = a->net.g;
    const coder *c = &a->decoder;
    vt_scope s = vt_scope_begin(g);

    x = run_resnets(g, c->mid, 2, causal(g, &c->conv_in, x), s);
    for (int i = a->f.levels - 1; i >= 0; i--) {
        x = run_resnets(g, c->level[i].block, a->f.layers + 1, x, s);
        if (c->level[i].sampler.w)
            x = twice(g, &c->level[i].sampler, x);
        vt_scope_end(g, s, 1, &x);
    }
    return causal(g, &c->conv_out, norm_silu(g, x));
}

/* ---- calls ---- */

int audio_vae_latents(const audio_info *info, int t)
{
    return (t + info->ratio - 1) / info->ratio;
}

int audio_vae_frames(const audio_info *info, int l)
{
    return info->ratio * (l - 1) + 1;
}

/* Runs the network on x [C,t,f], channels outermost. *values: malloc'ed [t',f',C']; values NULL: a
 * dry step. */
static int run(audio_vae *a, bool decodes, const float *x, int t, float **values, size_t *bytes,
               vc_err *err)
{
    vt_ctx *g = a->net.g;
    const int64_t f = decodes ? a->f.bins / RATIO : a->f.bins;
    const int64_t dim[] = { 1, decodes ? a->f.latent : a->f.in, 1, t, f };
    vc_err first = { 0 };
    int rc = 0;

    if (t < 1 || t > AUDIO_MAX_FRAMES)
        return vc_fail(err, VC_EINVAL, CLASS ": %d frames; possible are 1 to %d", t,
                       AUDIO_MAX_FRAMES);
    vt_step_begin(g, values ? 0 : VT_DRY);
    vt_tensor *y = vt_from_host(g, vt_compute(g), 5, dim, x, VC_F32);
    y = vt_pack(g, vt_permute(g, y, (int[]){ 0, 2, 3, 4, 1 }));
    y = (decodes ? decode : encode)(a, y);
    if (y && values) {
        *values = malloc((size_t)vt_count(y) * sizeof **values);
        rc = *values ? vt_to_host(g, y, *values, &first) : vc_no_memory(&first);
    }
    const int end = vt_step_end(g, err);
    const vt_usage use = vt_usage_of(g);
    if (bytes)
        *bytes = use.pool_peak + use.scratch;
    return end ? end : rc ? vc_fail(err, rc, "%s", first.text) : 0;
}

int audio_vae_encode(audio_vae *a, const float *mel, int t, float *mean, float *logvar, vc_err *err)
{
    const int c = a->f.latent;
    float *values = NULL;
    int rc = run(a, false, mel, t, &values, NULL, err);
    const size_t n = (size_t)((t + RATIO - 1) / RATIO) * (size_t)(a->f.bins / RATIO);

    for (size_t i = 0; !rc && i < n; i++)
        for (int k = 0; k < c; k++) {
            const float *at = values + i * 2 * (size_t)c + k;
            mean[(size_t)k * n + i] = at[0];
            if (logvar)
                logvar[(size_t)k * n + i] = fminf(fmaxf(at[c], -30), 20);
        }
    free(values);
    return vc_context(err, rc, CLASS ": encoding %d frames", t);
}

int audio_vae_decode(audio_vae *a, const float *z, int l, float *mel, vc_err *err)
{
    float *values = NULL;
    int rc = run(a, true, z, l, &values, NULL, err);
    const size_t n = (size_t)(RATIO * (l - 1) + 1) * (size_t)a->f.bins, c = (size_t)a->f.out;

    for (size_t i = 0; !rc && i < n * c; i++)
        mel[i % c * n + i / c] = values[i];
    free(values);
    return vc_context(err, rc, CLASS ": decoding %d latent frames", l);
}

int audio_vae_memory(audio_vae *a, bool decode_, int t, size_t *bytes, vc_err *err)
{
    *bytes = 0;
    return run(a, decode_, NULL, t, NULL, bytes, err);
}
