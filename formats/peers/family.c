/* family.c - finds the families for which other trainers have caches, and the constants of their
 * VAEs. See exchange.h */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/json/config.h"
#include "formats/peers/exchange.h"
#include "formats/tensors/component.h"

enum { MAX_CONFIG = 16 << 20 };

const vc_family *exchange_family_find(const char *name)
{
    const vc_family *f = vc_family_find(name);
    return f && f->cached ? f : NULL;
}

const vc_family *exchange_family_need(const char *name, vc_err *err)
{
    char list[240] = "";
    const vc_family *f = exchange_family_find(name);
    if (f)
        return f;
    for (f = vc_families(); f->name; f++)
        if (f->cached)
            strcat(strcat(list, *list ? ", " : ""), f->name);
    vc_fail(err, VC_EUSAGE, "family \"%.60s\": there are %s", name, list);
    return NULL;
}

bool exchange_family_same_texts(const char *name, const vc_family *f)
{
    const vc_family *other = exchange_family_find(name);
    if (!other)
        return !strcmp(name, f->name);
    for (size_t i = 0; i < sizeof f->text / sizeof *f->text; i++) {
        const char *a = f->text[i].class, *b = other->text[i].class;
        if (!a != !b || (a && strcmp(a, b)) || f->text[i].masked != other->text[i].masked ||
            f->text[i].max_length != other->text[i].max_length)
            return false;
    }
    return true;
}

/* ---- constants ---- */

void exchange_norm_family(exchange_norm *n, const vc_family *f)
{
    *n = (exchange_norm){ .channels = f->channels, .scaling = f->scaling, .shift = f->shift,
                          .per_channel = f->mean };
    for (int c = 0; f->mean && c < f->channels; c++) {
        n->mean[c] = f->mean[c];
        n->std[c] = f->std[c];
    }
}

typedef struct constants {
    exchange_norm n;
    int n_mean, n_std;
} constants;

/* Replaces the fields of n that o has; without lists in o, n has no constants per channel. */
static int read_norm(exchange_norm *n, const cJSON *o, const char *mean, const char *std,
                     vc_err *err)
{
    const vf_config_row rows[] = {
        VF_NUM(constants, n.scaling, "scaling_factor", n->scaling, VF_ABOVE_0, INFINITY),
        VF_NUM(constants, n.shift, "shift_factor", n->shift, -INFINITY, INFINITY),
        VF_NUMS(constants, n.mean, n_mean, mean, 1, -INFINITY, INFINITY),
        VF_NUMS(constants, n.std, n_std, std, 1, VF_ABOVE_0, INFINITY),
        { 0 }
    };
    constants c = { .n = *n };
    if (n->channels < 1 || n->channels > EXCHANGE_CHANNELS)
        return vc_fail(err, VC_EFORMAT, "channels: %d: at most %d", n->channels, EXCHANGE_CHANNELS);
    int rc = vf_config_read(&c, rows, o, err);
    if (!rc && (c.n_mean != c.n_std || (c.n_mean && c.n_mean != n->channels)))
        rc = vc_fail(err, VC_EFORMAT, "%s and %s: lists of %d and %d, %d numbers each expected",
                     mean, std, c.n_mean, c.n_std, n->channels);
    if (rc)
        return rc;
    *n = c.n;
    n->per_channel = c.n_mean != 0;
    return 0;
}

int exchange_norm_manifest(exchange_norm *n, const cJSON *manifest, vc_err *err)
{
    const cJSON *vae, *norm;
    int64_t channels = 0;
    int rc = vf_json_obj(manifest, "vae", &vae, err);
    if (!rc)
        rc = vf_json_int(vae, "channels", &channels, err);
    if (!rc)
        rc = vf_json_obj(manifest, "normalization", &norm, err);
    bool sane = channels >= 0 && channels <= EXCHANGE_CHANNELS;
    *n = (exchange_norm){ .channels = sane ? (int)channels : 0, .scaling = 1 };
    return rc ? rc : vc_context(err, read_norm(n, norm, "mean", "std", err), "normalization");
}

/* ---- constants among an autoencoder's weights ---- */

static const struct stored {
    const char *mean, *spread;
    bool variance;                           /* spread is that of a batch norm, and eps is added */
} in_weights[] = {
    { "latents_mean", "latents_std", false }, { "bn.running_mean", "bn.running_var", true },
};

static int read_numbers(double *out, const vf_model *m, const char *name, int n, vc_err *err)
{
    float f[EXCHANGE_CHANNELS];
    vf_view v;
    int rc = vf_model_get(m, name, &v, err);
    if (rc)
        return rc;
    if (v.nd != 1 || v.dim[0] != n || v.dtype > VC_F16)
        return vc_fail(err, VC_EFORMAT, "tensor %s: %d numbers expected", name, n);
    vc_to_f32(f, v.data, v.dtype, (size_t)n);
    for (int i = 0; i < n; i++)
        out[i] = (double)f[i];
    return 0;
}

static int read_stored(exchange_norm *n, const vf_model *m, const struct stored *s, double eps,
                       vc_err *err)
{
    int rc = read_numbers(n->mean, m, s->mean, n->channels, err);
    if (!rc)
        rc = read_numbers(n->std, m, s->spread, n->channels, err);
    for (int i = 0; !rc && i < n->channels; i++) {
        double *d = &n->std[i];
        if (s->variance)
            *d = sqrt(*d + eps);
        if (!(*d > 0 && isfinite(*d)) || !isfinite(n->mean[i]))
            return vc_fail(err, VC_EFORMAT, "tensors %s and %s: channel %d: %g, %g", s->mean,
                           s->spread, i, n->mean[i], *d);
    }
    n->per_channel = !rc;
    return rc;
}

/* Reads the constants of weights that have some. Weights that cannot be read have none. */
static int read_weights(exchange_norm *n, const char *path, double eps, vc_err *err)
{
    vf_model *m;
    vf_view v;
    int rc = 0;
    if (vf_component_open(&m, path, "vae", NULL))
        return 0;
    for (size_t i = 0; !rc && i < sizeof in_weights / sizeof *in_weights; i++)
        if (!vf_model_get(m, in_weights[i].mean, &v, NULL))
            rc = read_stored(n, m, &in_weights[i], eps, err);
    vf_model_close(m);
    return rc;
}

int exchange_norm_config(exchange_norm *n, const char *path, vc_err *err)
{
    struct batch_norm { double eps; } norm;
    const vf_config_row rows[] = {
        VF_NUM(struct batch_norm, eps, "batch_norm_eps", 1e-4, 0, 1), { 0 }
    };
    cJSON *o;
    struct stat st;
    const bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    const bool weights = folder || strcmp(vc_path_ext(path), ".json");
    int rc = weights ? vf_component_config(&o, path, "vae", NULL, err)
                     : vf_json_read(&o, path, MAX_CONFIG, err);
    if (!rc)
        rc = vc_context(err, read_norm(n, o, "latents_mean", "latents_std", err), "%s%s", path,
                        folder ? "/config.json" : "");
    if (!rc)
        rc = vf_config_read(&norm, rows, o, err);
    cJSON_Delete(o);
    if (!rc && weights && !n->per_channel)
        rc = vc_context(err, read_weights(n, path, norm.eps, err), "%s", path);
    return rc;
}

int exchange_norm_check(const exchange_norm *n, const vc_family *f, const char *vae, vc_err *err)
{
    const bool stored = f->scaling == 1 && !f->mean;
    if (n->per_channel || n->scaling != 1 || (vae && !stored))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "the constants of %s's VAE lie in its weights%s%s%s: give "
                   "its folder or file as --vae, or a config.json with latents_mean and "
                   "latents_std", f->name, vae ? ", and " : "", vae ? vae : "",
                   vae ? " has none" : "");
}

static double sub(const exchange_norm *n, int c)
{
    return n->shift + (n->per_channel ? n->mean[c] : 0);
}

static double mul(const exchange_norm *n, int c)
{
    return n->scaling / (n->per_channel ? n->std[c] : 1);
}

void exchange_normalize(const exchange_norm *n, int c, float *x, size_t count)
{
    double s = sub(n, c), m = mul(n, c);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(((double)x[i] - s) * m);
}

void exchange_denormalize(const exchange_norm *n, int c, float *x, size_t count)
{
    double s = sub(n, c), m = mul(n, c);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)x[i] / m + s);
}

/* ---- the families of a format ---- */

const char *const exchange_only_cogvideox[] = { "cogvideox", "cogvideox1.5", NULL };

const char *exchange_layout_name(const exchange_format *f, size_t i)
{
    return *(const char *const *)(const void *)((const char *)f->layouts + i * f->layout_size);
}

const void *exchange_layout(const exchange_format *f, const char *family)
{
    for (size_t i = 0; f->layouts && exchange_layout_name(f, i); i++)
        if (!strcmp(exchange_layout_name(f, i), family))
            return (const char *)f->layouts + i * f->layout_size;
    return NULL;
}
