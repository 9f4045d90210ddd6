/* family.c - families that other trainers keep caches of, and the constants of their VAEs. See
 * exchange.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/peers/exchange.h"

const vc_family *xport_family_find(const char *name)
{
    const vc_family *f = vc_family_find(name);
    return f && f->cached ? f : NULL;
}

const vc_family *xport_family_need(const char *name, vc_err *err)
{
    char list[160] = "";
    const vc_family *f = xport_family_find(name);
    if (f)
        return f;
    for (f = vc_families(); f->name; f++)
        if (f->cached)
            strcat(strcat(list, *list ? ", " : ""), f->name);
    vc_fail(err, VC_EUSAGE, "family \"%.60s\": there are %s", name, list);
    return NULL;
}

bool xport_family_same_texts(const char *name, const vc_family *f)
{
    const vc_family *other = xport_family_find(name);
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

void xport_norm_family(xport_norm *n, const vc_family *f)
{
    *n = (xport_norm){ .channels = f->channels, .scaling = f->scaling, .per_channel = f->mean };
    for (int c = 0; f->mean && c < f->channels; c++) {
        n->mean[c] = f->mean[c];
        n->std[c] = f->std[c];
    }
}

/* An array of exactly n numbers; false if it is missing or null. */
static bool read_vector(const cJSON *o, const char *field, int n, double *v)
{
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(o, field), *x;
    int i = 0;
    if (!cJSON_IsArray(a) || cJSON_GetArraySize(a) != n)
        return false;
    cJSON_ArrayForEach(x, a)
        v[i++] = cJSON_IsNumber(x) ? x->valuedouble : NAN;
    return true;
}

static int read_norm(xport_norm *n, const cJSON *o, const char *mean, const char *std, vc_err *err)
{
    int rc;
    if (n->channels < 1 || n->channels > XPORT_CHANNELS)
        return vc_fail(err, VC_EFORMAT, "channels: %d: at most %d", n->channels, XPORT_CHANNELS);
    if ((rc = vf_json_num_opt(o, "scaling_factor", &n->scaling, err)) ||
        (rc = vf_json_num_opt(o, "shift_factor", &n->shift, err)))
        return rc;
    bool has_mean = read_vector(o, mean, n->channels, n->mean);
    if (has_mean != read_vector(o, std, n->channels, n->std))
        return vc_fail(err, VC_EFORMAT, "%s and %s: %d numbers each expected", mean, std, n->channels);
    n->per_channel = has_mean;
    for (int c = 0; c < n->channels && has_mean; c++)
        if (!isfinite(n->mean[c]) || !(n->std[c] > 0) || !isfinite(n->std[c]))
            return vc_fail(err, VC_EFORMAT, "channel %d: mean %g, std %g", c, n->mean[c], n->std[c]);
    return n->scaling > 0 ? 0 : vc_fail(err, VC_EFORMAT, "scaling_factor: %g is not positive",
                                        n->scaling);
}

int xport_norm_manifest(xport_norm *n, const cJSON *manifest, vc_err *err)
{
    const cJSON *vae, *norm;
    int64_t channels = 0;
    int rc = vf_json_obj(manifest, "vae", &vae, err);
    if (!rc) rc = vf_json_int(vae, "channels", &channels, err);
    if (!rc) rc = vf_json_obj(manifest, "normalization", &norm, err);
    *n = (xport_norm){ .channels = channels > XPORT_CHANNELS || channels < 0 ? 0 : (int)channels,
                       .scaling = 1 };
    return rc ? rc : vc_context(err, read_norm(n, norm, "mean", "std", err), "normalization");
}

int xport_norm_config(xport_norm *n, const char *path, vc_err *err)
{
    cJSON *o;
    struct stat st;
    bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    char *file = folder ? vc_path_join(path, "config.json") : strdup(path);
    int rc = file ? vf_json_read(&o, file, 16 << 20, err) : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc) {
        rc = vc_context(err, read_norm(n, o, "latents_mean", "latents_std", err), "%s", file);
        cJSON_Delete(o);
    }
    free(file);
    return rc;
}

static double sub(const xport_norm *n, int c)
{
    return n->shift + (n->per_channel ? n->mean[c] : 0);
}

static double mul(const xport_norm *n, int c)
{
    return n->scaling / (n->per_channel ? n->std[c] : 1);
}

void xport_normalize(const xport_norm *n, int c, float *x, size_t count)
{
    double s = sub(n, c), m = mul(n, c);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(((double)x[i] - s) * m);
}

void xport_denormalize(const xport_norm *n, int c, float *x, size_t count)
{
    double s = sub(n, c), m = mul(n, c);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)x[i] / m + s);
}
