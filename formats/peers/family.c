/* family.c - what is known of families, and the constants of their VAEs. See exchange.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/peers/exchange.h"

/* vae/config.json of Wan 2.1, whose VAE Qwen-Image has too */
static const double wan_mean[16] = {
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
    0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921
};
static const double wan_std[16] = {
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160
};

#define T5 { "T5EncoderModel", 226, false }
static const xport_family families[] = {
    { "cogvideox", "AutoencoderKLCogVideoX", 16, { 4, 8, 8 }, 2, 0.7, false, NULL, NULL, { T5 } },
    { "cogvideox1.5", "AutoencoderKLCogVideoX", 16, { 4, 8, 8 }, 2, 0.7, true, NULL, NULL, { T5 } },
    { "hunyuanvideo", "AutoencoderKLHunyuanVideo", 16, { 4, 8, 8 }, 2, 0.476986, false, NULL, NULL,
      { { "LlamaModel", 256, true }, { "CLIPTextModel", 77, false } } },
    { "ltx-video", "AutoencoderKLLTXVideo", 128, { 8, 32, 32 }, 1, 1, false, NULL, NULL,
      { { "T5EncoderModel", 128, true } } },
    { "wan2.1", "AutoencoderKLWan", 16, { 4, 8, 8 }, 2, 1, false, wan_mean, wan_std,
      { { "UMT5EncoderModel", 512, true } } },
    { "qwen-image", "AutoencoderKLQwenImage", 16, { 1, 8, 8 }, 2, 1, false, wan_mean, wan_std,
      { { "Qwen2_5_VLForConditionalGeneration", 1024, true } } },
    { 0 },
};

const xport_family *xport_family_find(const char *name)
{
    for (const xport_family *f = families; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

const xport_family *xport_family_need(const char *name, vc_err *err)
{
    char list[160] = "";
    const xport_family *f = xport_family_find(name);
    if (f)
        return f;
    for (f = families; f->name; f++)
        strcat(strcat(list, *list ? ", " : ""), f->name);
    vc_fail(err, VC_EUSAGE, "family \"%.60s\": there are %s", name, list);
    return NULL;
}

bool xport_family_same_texts(const char *name, const xport_family *f)
{
    const xport_family *other = xport_family_find(name);
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

void xport_norm_family(xport_norm *n, const xport_family *f)
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
