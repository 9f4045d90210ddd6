/* cogvideox_open.c - AutoencoderKLCogVideoX from its folder: config.json and weights. See
 * cogvideox.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/vae/cogvideox.h"

enum { MAX_WIDTH = 8192, MAX_SAMPLE = 1 << 14, MAX_CONFIG = 1 << 20 };

/* ---- config.json ---- */

static int read_int(const cJSON *o, const char *field, int64_t min, int64_t max, int *v,
                    vc_err *err)
{
    int64_t n = *v;
    int rc = vf_json_int_opt(o, field, &n, err);

    if (!rc && (n < min || n > max))
        rc = vc_fail(err, VC_EFORMAT, "%s: %lld is not within %lld..%lld", field, (long long)n,
                     (long long)min, (long long)max);
    *v = (int)n;
    return rc;
}

static int read_widths(cog_config *c, const cJSON *o, vc_err *err)
{
    static const char field[] = "block_out_channels";
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, field), *e;

    if (!list)
        return 0;
    int rc = vf_json_arr(o, field, &list, err);
    if (rc)
        return rc;
    c->levels = cJSON_GetArraySize(list);
    if (c->levels < 3 || c->levels > COG_LEVELS)
        return vc_fail(err, VC_EFORMAT, "%s: %d levels, 3 to %d are possible", field, c->levels,
                       COG_LEVELS);
    int i = 0;
    cJSON_ArrayForEach(e, list) {
        if (!cJSON_IsNumber(e) || !(e->valuedouble >= 1 && e->valuedouble <= MAX_WIDTH) ||
            e->valuedouble != floor(e->valuedouble))
            return vc_fail(err, VC_EFORMAT, "%s: widths are integers of 1 to %d", field, MAX_WIDTH);
        c->width[i++] = (int)e->valuedouble;
    }
    return 0;
}

/* down_block_types and up_block_types: one of the kind per level, or absent */
static int check_blocks(const cJSON *o, const char *field, const char *kind, int levels,
                        vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, field), *e;

    if (!list)
        return 0;
    int rc = vf_json_arr(o, field, &list, err);
    if (!rc && cJSON_GetArraySize(list) != levels)
        rc = vc_fail(err, VC_EFORMAT, "%s: %d of them for %d block_out_channels", field,
                     cJSON_GetArraySize(list), levels);
    if (rc)
        return rc;
    cJSON_ArrayForEach(e, list)
        if (!cJSON_IsString(e) || strcmp(e->valuestring, kind))
            return vc_fail(err, VC_EFORMAT, "%s: only %s can be run", field, kind);
    return 0;
}

/* Fields with one value that can be run. */
static int check_fixed(const cJSON *o, vc_err *err)
{
    static const struct { const char *field; int64_t value; } fixed[] = {
        { "in_channels", 3 }, { "out_channels", 3 }, { "temporal_compression_ratio", COG_RATIO_T },
    };
    static const char *const never[] = { "use_quant_conv", "use_post_quant_conv" };
    const char *act = "silu", *class = COG_CLASS;
    int rc = cJSON_IsObject(o) ? vf_json_str_opt(o, "_class_name", &class, err)
                               : vc_fail(err, VC_EFORMAT, "no JSON object");

    if (!rc && strcmp(class, COG_CLASS))
        rc = vc_fail(err, VC_EFORMAT, "_class_name: %s is not " COG_CLASS, class);
    for (size_t i = 0; !rc && i < sizeof fixed / sizeof *fixed; i++) {
        int64_t v = fixed[i].value;
        rc = vf_json_int_opt(o, fixed[i].field, &v, err);
        if (!rc && v != fixed[i].value)
            rc = vc_fail(err, VC_EFORMAT, "%s: %lld; only %lld can be run", fixed[i].field,
                         (long long)v, (long long)fixed[i].value);
    }
    for (size_t i = 0; !rc && i < sizeof never / sizeof *never; i++) {
        bool on = false;
        rc = vf_json_bool_opt(o, never[i], &on, err);
        if (!rc && on)
            rc = vc_fail(err, VC_EFORMAT, "%s: true; only models without it can be run", never[i]);
    }
    if (!rc) rc = vf_json_str_opt(o, "act_fn", &act, err);
    if (!rc && strcmp(act, "silu") && strcmp(act, "swish"))
        rc = vc_fail(err, VC_EFORMAT, "act_fn: %s; only silu can be run", act);
    return rc;
}

static int read_config(cog_config *c, const cJSON *o, vc_err *err)
{
    *c = (cog_config){ .levels = 4, .width = { 128, 256, 256, 512 }, .layers = 3, .latent = 16,
                       .groups = 32, .eps = 1e-6, .sample = { 480, 720 } };
    int rc = check_fixed(o, err);

    if (!rc) rc = read_widths(c, o, err);
    if (!rc) rc = check_blocks(o, "down_block_types", "CogVideoXDownBlock3D", c->levels, err);
    if (!rc) rc = check_blocks(o, "up_block_types", "CogVideoXUpBlock3D", c->levels, err);
    if (!rc) rc = read_int(o, "layers_per_block", 1, COG_LAYERS - 1, &c->layers, err);
    if (!rc) rc = read_int(o, "latent_channels", 1, VAE_MAX_CHANNELS, &c->latent, err);
    if (!rc) rc = read_int(o, "norm_num_groups", 1, MAX_WIDTH, &c->groups, err);
    if (!rc) rc = read_int(o, "sample_height", 1, MAX_SAMPLE, &c->sample[0], err);
    if (!rc) rc = read_int(o, "sample_width", 1, MAX_SAMPLE, &c->sample[1], err);
    if (!rc) rc = vf_json_num_opt(o, "norm_eps", &c->eps, err);
    if (!rc && !(c->eps > 0 && c->eps < 1))
        rc = vc_fail(err, VC_EFORMAT, "norm_eps: %g is not within 0..1", c->eps);
    for (int i = 0; !rc && i < c->levels; i++)
        if (c->width[i] % c->groups)
            rc = vc_fail(err, VC_EFORMAT, "block_out_channels: %d is no multiple of "
                         "norm_num_groups %d", c->width[i], c->groups);
    return rc;
}

/* latents_mean or latents_std: null, or one number a channel */
static int read_channels(const cJSON *o, const char *field, int n, double *v, bool *there,
                         vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, field), *e;
    int i = 0;

    *there = list && !cJSON_IsNull(list);
    if (!*there)
        return 0;
    int rc = vf_json_arr(o, field, &list, err);
    if (!rc && cJSON_GetArraySize(list) != n)
        rc = vc_fail(err, VC_EFORMAT, "%s: %d numbers for %d channels", field,
                     cJSON_GetArraySize(list), n);
    if (rc)
        return rc;
    cJSON_ArrayForEach(e, list) {
        if (!cJSON_IsNumber(e))
            return vc_fail(err, VC_EFORMAT, "%s: element %d is no number", field, i);
        v[i++] = e->valuedouble;
    }
    return 0;
}

/* The constants of normalisation: kept in the manifest, not part of what is encoded. */
static int read_info(vae_info *info, const cog_config *c, const cJSON *o, vc_err *err)
{
    int r = cog_ratio(c);
    bool mean = false, std = false;

    *info = (vae_info){ .class = COG_CLASS, .channels = c->latent, .ratio = { COG_RATIO_T, r, r },
                        .scaling_factor = 1.15258426, .has_logvar = true };
    int rc = vf_json_num_opt(o, "scaling_factor", &info->scaling_factor, err);
    if (!rc && !(info->scaling_factor > 0))
        rc = vc_fail(err, VC_EFORMAT, "scaling_factor: %g is not above 0", info->scaling_factor);
    if (!rc) rc = vf_json_num_opt(o, "shift_factor", &info->shift_factor, err);
    if (!rc) rc = vf_json_bool_opt(o, "invert_scale_latents", &info->invert_scale_latents, err);
    if (!rc) rc = read_channels(o, "latents_mean", c->latent, info->mean, &mean, err);
    if (!rc) rc = read_channels(o, "latents_std", c->latent, info->std, &std, err);
    if (!rc && mean != std)
        rc = vc_fail(err, VC_EFORMAT, "latents_mean and latents_std go together");
    for (int i = 0; !rc && std && i < c->latent; i++)
        if (!(info->std[i] > 0))
            rc = vc_fail(err, VC_EFORMAT, "latents_std: element %d is not above 0", i);
    info->per_channel = mean;
    return rc;
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
    char *path = vc_path_join(o->dir, "config.json");
    cJSON *config = NULL;
    int rc = path ? vf_json_read(&config, path, MAX_CONFIG, err)
                  : vc_fail(err, VC_ENOMEM, "out of memory");

    if (!rc) {
        rc = read_config(&v->c, config, err);
        if (!rc) rc = read_info(info, &v->c, config, err);
        rc = vc_context(err, rc, "%s", path);
    }
    if (!rc) {
        info->fingerprint = fingerprint(&v->c, o);
        rc = vf_model_open(&v->file, o->dir, err);
    }
    cJSON_Delete(config);
    free(path);
    return rc;
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
