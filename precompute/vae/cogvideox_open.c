/* cogvideox_open.c - AutoencoderKLCogVideoX from its folder: config.json and weights. See
 * cogvideox.h */
#include <stdio.h>
#include <stdlib.h>

#include "formats/json/config.h"
#include "precompute/vae/cogvideox.h"

enum { MAX_WIDTH = 8192, MAX_SAMPLE = 1 << 14, MAX_CONFIG = 1 << 20 };

/* ---- config.json ---- */

/* What config.json says: of the network, and the constants of normalisation, which are kept in the
 * manifest and no part of what is encoded. */
typedef struct config {
    cog_config c;
    vae_info info;
    int n_down, n_up, n_mean, n_std;
} config;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", COG_CLASS, COG_CLASS),
    VF_INTS(config, c.width, c.levels, "block_out_channels", 3, 1, MAX_WIDTH),
    VF_WORDS(config, n_down, "down_block_types", "CogVideoXDownBlock3D"),
    VF_WORDS(config, n_up, "up_block_types", "CogVideoXUpBlock3D"),
    VF_INT(config, c.layers, "layers_per_block", 3, 1, COG_LAYERS - 1),
    VF_INT(config, c.latent, "latent_channels", 16, 1, VAE_MAX_CHANNELS),
    VF_INT(config, c.groups, "norm_num_groups", 32, 1, MAX_WIDTH),
    VF_INT(config, c.sample[0], "sample_height", 480, 1, MAX_SAMPLE),
    VF_INT(config, c.sample[1], "sample_width", 720, 1, MAX_SAMPLE),
    VF_NUM(config, c.eps, "norm_eps", 1e-6, VF_ABOVE_0, 1),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY_INT("temporal_compression_ratio", COG_RATIO_T),
    VF_ONLY_FLAG("use_quant_conv", false),
    VF_ONLY_FLAG("use_post_quant_conv", false),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_NUM(config, info.scaling_factor, "scaling_factor", 1.15258426, VF_ABOVE_0, INFINITY),
    VF_NUM(config, info.shift_factor, "shift_factor", 0, -INFINITY, INFINITY),
    VF_FLAG(config, info.invert_scale_latents, "invert_scale_latents", false),
    VF_NUMS(config, info.mean, n_mean, "latents_mean", 1, -INFINITY, INFINITY),
    VF_NUMS(config, info.std, n_std, "latents_std", 1, VF_ABOVE_0, INFINITY),
    { 0 }
};

/* That a list, where there is one, has an entry for each of n. */
static int check_length(const char *field, int has, int n, const char *what, vc_err *err)
{
    return !has || has == n ? 0 : vc_fail(err, VC_EFORMAT, "%s: a list of %d for %d %s", field, has,
                                          n, what);
}

static int check_config(const config *f, vc_err *err)
{
    const cog_config *c = &f->c;
    int rc = check_length("down_block_types", f->n_down, c->levels, "block_out_channels", err);

    if (!rc) rc = check_length("up_block_types", f->n_up, c->levels, "block_out_channels", err);
    if (!rc) rc = check_length("latents_mean", f->n_mean, c->latent, "latent_channels", err);
    if (!rc) rc = check_length("latents_std", f->n_std, c->latent, "latent_channels", err);
    if (!rc && f->n_mean != f->n_std)
        rc = vc_fail(err, VC_EFORMAT, "latents_mean and latents_std go together");
    for (int i = 0; !rc && i < c->levels; i++)
        if (c->width[i] % c->groups)
            rc = vc_fail(err, VC_EFORMAT, "block_out_channels: %d is no multiple of "
                         "norm_num_groups %d", c->width[i], c->groups);
    return rc;
}

static int read_config(cog_config *c, vae_info *info, const cJSON *o, vc_err *err)
{
    config f = { .c = { .levels = 4, .width = { 128, 256, 256, 512 } },
                 .info = { .class = COG_CLASS, .has_logvar = true } };
    int rc = vf_config_read(&f, rows, o, err);

    if (!rc) rc = check_config(&f, err);
    if (rc)
        return rc;
    *c = f.c;
    *info = f.info;
    info->channels = c->latent;
    info->ratio[0] = COG_RATIO_T;
    info->ratio[1] = info->ratio[2] = cog_ratio(c);
    info->per_channel = f.n_mean != 0;
    return 0;
}

/* Of the weights and of what else changes the output. */
static vf_key fingerprint(const cog_config *c, const encoder_opts *o)
{
    vf_hasher h;

    vf_hasher_begin(&h, "vae");
    vf_hasher_str(&h, "class", COG_CLASS);
    vf_hasher_bytes(&h, "weights", o->weights.b, sizeof o->weights.b);
    vf_hasher_int(&h, "layers_per_block", c->layers);
    vf_hasher_int(&h, "latent_channels", c->latent);
    vf_hasher_int(&h, "norm_num_groups", c->groups);
    vf_hasher_bytes(&h, "norm_eps", &c->eps, sizeof c->eps);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(&h, "block_out_channels", c->width[i]);
    for (int i = 0; i < 2 && o->tiling; i++)
        vf_hasher_int(&h, i ? "sample_width" : "sample_height", c->sample[i]);
    return vf_hasher_end(&h);
}

/* ---- weights ---- */

enum { OUT = -1, IN = -2 };

#define CONV(...) \
    { { "weight", VT_W_TENSOR, offsetof(cog_conv, w), { OUT, IN, __VA_ARGS__ }, VT_INIT_ZERO }, \
      { "bias", VT_W_TENSOR, offsetof(cog_conv, b), { OUT }, VT_INIT_ZERO }, { 0 } }
static const vt_weight cube[] = CONV(3, 3, 3), point[] = CONV(1, 1, 1), plane[] = CONV(3, 3);
static const vt_weight norm_table[] = {
    { "weight", VT_W_TENSOR, offsetof(cog_norm, w), { OUT }, VT_INIT_ZERO },
    { "bias", VT_W_TENSOR, offsetof(cog_norm, b), { OUT }, VT_INIT_ZERO },
    { 0 }
};

/* Binds tables below a name; the first failure sticks, as in vt_ctx. */
typedef struct binder {
    const vae *v;
    vt_source from;
    int latent;                      /* channels that spatial norms read; 0: plain norms */
    int rc;
    vc_err *err;
} binder;

static void bind(binder *b, const vt_weight *table, void *base, int64_t out, int64_t in,
                 const char *below, const char *name)
{
    const int64_t sizes[] = { 0, out, in };
    char prefix[128];

    snprintf(prefix, sizeof prefix, "%s%s.", below, name);
    if (!b->rc)
        b->rc = vt_params_bind(b->v->params, table, prefix, 0, base, sizes, &b->from, b->err);
}

static void bind_norm(binder *b, cog_norm *n, int64_t width, const char *below, const char *name)
{
    char inner[96];

    if (!b->latent) {
        bind(b, norm_table, n, width, 0, below, name);
        return;
    }
    snprintf(inner, sizeof inner, "%s%s.", below, name);
    bind(b, norm_table, n, width, 0, inner, "norm_layer");
    bind(b, point, &n->scale, width, b->latent, inner, "conv_y.conv");
    bind(b, point, &n->shift, width, b->latent, inner, "conv_b.conv");
}

static void bind_block(binder *b, cog_block *k, int n, int64_t in, int64_t out, const char *below)
{
    char name[72];

    k->n = n;
    for (int i = 0; i < n; i++, in = out) {
        cog_resnet *r = &k->resnet[i];
        snprintf(name, sizeof name, "%sresnets.%d.", below, i);
        bind_norm(b, &r->norm1, in, name, "norm1");
        bind(b, cube, &r->conv1, out, in, name, "conv1.conv");
        bind_norm(b, &r->norm2, out, name, "norm2");
        bind(b, cube, &r->conv2, out, out, name, "conv2.conv");
        if (in != out)
            bind(b, point, &r->shortcut, out, in, name, "conv_shortcut");
    }
}

static void bind_encoder(binder *b, cog_net *n, const cog_config *c)
{
    int last = c->levels - 1;
    char name[48];

    n->eps = (float)c->eps;
    n->out = 2 * c->latent;
    bind(b, cube, &n->conv_in, c->width[0], 3, "encoder.", "conv_in.conv");
    for (int i = 0; i <= last; i++) {
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_block(b, &n->level[i], c->layers, c->width[i ? i - 1 : 0], c->width[i], name);
        if (i < last)
            bind(b, plane, &n->level[i].sampler, c->width[i], c->width[i], name,
                 "downsamplers.0.conv");
    }
    bind_block(b, &n->mid, COG_MID, c->width[last], c->width[last], "encoder.mid_block.");
    bind_norm(b, &n->norm_out, c->width[last], "encoder.", "norm_out");
    bind(b, cube, &n->conv_out, n->out, c->width[last], "encoder.", "conv_out.conv");
}

static void bind_decoder(binder *b, cog_net *n, const cog_config *c)
{
    int last = c->levels - 1;
    char name[48];

    n->eps = 1e-6f;
    n->out = 3;
    b->latent = c->latent;
    bind(b, cube, &n->conv_in, c->width[last], c->latent, "decoder.", "conv_in.conv");
    bind_block(b, &n->mid, COG_MID, c->width[last], c->width[last], "decoder.mid_block.");
    for (int i = 0; i <= last; i++) {
        int64_t out = c->width[last - i];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        bind_block(b, &n->level[i], c->layers + 1, c->width[i ? last - i + 1 : last], out, name);
        if (i < last)
            bind(b, plane, &n->level[i].sampler, out, out, name, "upsamplers.0.conv");
    }
    bind_norm(b, &n->norm_out, c->width[0], "decoder.", "norm_out");
    bind(b, cube, &n->conv_out, 3, c->width[0], "decoder.", "conv_out.conv");
}

static int bind_all(vae *v, vc_err *err)
{
    binder b = { .v = v, .from = vf_model_source(v->file), .err = err };

    bind_encoder(&b, &v->encoder, &v->c);
    bind_decoder(&b, &v->decoder, &v->c);
    return b.rc ? b.rc : vf_model_all_bound(v->file, v->params, NULL, err);
}

/* ---- open and close ---- */

void cog_close(vae *v)
{
    if (!v)
        return;
    vt_params_close(v->params);
    vt_close(v->g);
    vf_model_close(v->file);
    free(v);
}

static int read_folder(vae *v, const encoder_opts *o, vae_info *info, vc_err *err)
{
    cJSON *json;
    int rc = vf_json_read_in(&json, o->dir, "config.json", MAX_CONFIG, err);

    if (!rc)
        rc = vc_context(err, read_config(&v->c, info, json, err), "%s/config.json", o->dir);
    cJSON_Delete(json);
    if (rc)
        return rc;
    info->fingerprint = fingerprint(&v->c, o);
    return vf_model_open(&v->file, o->dir, err);
}

int cog_open(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    const vt_options device = encoder_device(o);

    *out = NULL;
    if (!o->dir)
        return vc_fail(err, VC_EUSAGE, COG_CLASS ": give its folder, with config.json and weights");
    vae *v = calloc(1, sizeof *v);
    if (!v)
        return vc_fail(err, VC_ENOMEM, COG_CLASS ": out of memory");
    v->tiling = o->tiling;
    int rc = read_folder(v, o, info, err);
    if (!rc) rc = vt_open(&v->g, &device, err);
    if (!rc) rc = vt_params_open(&v->params, v->g, err);
    if (!rc) rc = vc_context(err, bind_all(v, err), "%s", o->dir);
    if (rc) {
        cog_close(v);
        return rc;
    }
    *out = v;
    return 0;
}
