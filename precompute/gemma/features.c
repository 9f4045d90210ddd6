/* features.c - see features.h */
#include "precompute/gemma/features.h"

#include <math.h>
#include <stdlib.h>

#include "formats/tensors/component.h"

#define EPS 1e-6
#define RANGE 8                                   /* of normalised states of 2.0 */

enum { BLOCK = 64 };                              /* tokens of a call of the linear layer */

struct ltx2_features {
    vt_ctx *g;
    vf_model *file;
    vt_params *params;
    vt_lin project[2];                            /* of the video, of the sound; w NULL: none */
    int64_t channels, states, width[2];
    bool by_token, bias;                          /* 2.3; the linear layer has biases */
};

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", "LTX2TextConnectors", "LTX2TextConnectors"),
    VF_INT(ltx2_features, channels, "caption_channels", 3840, 1, 1 << 16),
    VF_INT(ltx2_features, states, "text_proj_in_factor", 49, 1, 1 << 10),
    VF_FLAG(ltx2_features, by_token, "per_modality_projections", false),
    VF_INT(ltx2_features, width[0], "video_hidden_dim", 4096, 1, 1 << 16),
    VF_INT(ltx2_features, width[1], "audio_hidden_dim", 2048, 1, 1 << 16),
    VF_FLAG(ltx2_features, bias, "proj_bias", false),
    { 0 }
};

/* The fields are bound in the vt_lin of one of the two. */
#define PROJECT(kind) { { "proj_in", kind, 0, { -1, -2 }, VT_INIT_ZERO }, { 0 } }
static const vt_weight table[] = PROJECT(VT_W_LINEAR_NO_BIAS), biased[] = PROJECT(VT_W_LINEAR);

/* ---- open and close ---- */

static int read_config(ltx2_features *f, const char *dir, int states, int channels, bool sound,
                       vc_err *err)
{
    cJSON *config;
    int rc = vf_component_config(&config, dir, "connectors", NULL, err);

    if (!rc)
        rc = vf_config_read(f, rows, config, err);
    if (!rc && (f->states != states || f->channels != channels))
        rc = vc_fail(err, VC_EMISMATCH, "text_proj_in_factor: %lld and caption_channels: %lld, but "
                     "the text encoder has %d states of %d channels: give the text encoder of "
                     "these connectors", (long long)f->states, (long long)f->channels, states,
                     channels);
    if (!f->by_token)
        f->width[0] = f->channels;
    if (!f->by_token || !sound)
        f->width[1] = 0;
    cJSON_Delete(config);
    return vc_context(err, rc, "%s/config.json", dir);
}

static int bind(ltx2_features *f, int which, const vt_source *src, vc_err *err)
{
    static const char *const prefix[2] = { "video_text_", "audio_text_" };
    const int64_t sizes[] = { 0, f->width[which], f->channels * f->states };

    if (!f->width[which])
        return 0;
    return vt_params_bind(f->params, f->bias ? biased : table,
                          f->by_token ? prefix[which] : "text_", 0, &f->project[which], sizes, src,
                          err);
}

static int set_up(ltx2_features *f, const char *dir, int states, int channels, bool sound,
                  vc_err *err)
{
    int rc = read_config(f, dir, states, channels, sound, err);

    if (!rc)
        rc = vf_component_open(&f->file, dir, "connectors", err);
    if (!rc)
        rc = vt_params_open(&f->params, f->g, err);
    if (rc)
        return rc;
    const vt_source src = vf_model_source(f->file);
    rc = bind(f, 0, &src, err);
    if (!rc)
        rc = bind(f, 1, &src, err);
    return vc_context(err, rc, "%s", dir);
}

int ltx2_features_open(ltx2_features **out, vt_ctx *g, const char *dir, int states, int channels,
                       bool sound, vc_err *err)
{
    *out = NULL;
    ltx2_features *f = calloc(1, sizeof *f);
    if (!f)
        return vc_no_memory(err);
    f->g = g;
    int rc = set_up(f, dir, states, channels, sound, err);
    if (rc) {
        ltx2_features_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void ltx2_features_close(ltx2_features *f)
{
    if (!f)
        return;
    vt_params_close(f->params);
    vf_model_close(f->file);
    free(f);
}

int ltx2_features_width(const ltx2_features *f) { return (int)(f->width[0] + f->width[1]); }

int ltx2_features_hash(const ltx2_features *f, vf_hasher *h, vc_err *err)
{
    vf_hasher_int(h, "per_modality_projections", f->by_token);
    for (int i = 0; i < vt_params_count(f->params); i++) {
        const vt_param *p = vt_params_at(f->params, i);
        vf_view v;
        int rc = vf_model_get(f->file, p->name, &v, err);
        if (rc)
            return rc;
        vf_hasher_str(h, "tensor", p->name);
        vf_hasher_bytes(h, "values", v.data, v.bytes);
    }
    return 0;
}

/* ---- features ---- */

/* Normalises the n numbers x of one layer by their mean and range. */
static void by_range(float *x, size_t n)
{
    float low = x[0], high = x[0];
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    const double mean = sum / ((double)n + EPS), by = RANGE / ((double)high - (double)low + EPS);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) * by);
}

/* Normalises the n channels x of one layer of a token by their root mean square. */
static void by_size(float *x, size_t n, double scale)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    const double by = scale / sqrt(sum / (double)n + EPS);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] * by);
}

static void normalise(const ltx2_features *f, float *states, int n)
{
    const size_t c = (size_t)f->channels, layer = (size_t)n * c;
    const double scale = sqrt((double)f->width[0] / (double)f->channels);

    for (int64_t l = 0; l < f->states; l++) {
        float *x = states + (size_t)l * layer;
        if (!f->by_token)
            by_range(x, layer);
        for (size_t i = 0; f->by_token && i < (size_t)n; i++)
            by_size(x + i * c, c, scale);
    }
}

/* Puts the layers of each channel of tokens first..first+n-1 side by side: to [n,channels,states]
 * of states [states,all,channels]. */
static void interleave(const ltx2_features *f, const float *states, int all, int first, int n,
                       float *to)
{
    const size_t c = (size_t)f->channels, layers = (size_t)f->states;

    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t l = 0; l < layers; l++) {
            const float *x = states + (l * (size_t)all + (size_t)first + i) * c;
            for (size_t k = 0; k < c; k++)
                to[(i * c + k) * layers + l] = x[k];
        }
}

/* Makes the features of n tokens from their interleaved states x, which it scales anew for the
 * sound. */
static int project(ltx2_features *f, float *x, int n, float *features, vc_err *err)
{
    const int64_t dim[3] = { 1, n, f->channels * f->states };

    vt_step_begin(f->g, 0);
    vt_tensor *in = vt_from_host(f->g, vt_compute(f->g), 3, dim, x, VC_F32), *part[2];
    const double by = sqrt((double)f->width[1] / (double)f->width[0]);
    part[0] = vt_linear(f->g, in, &f->project[0]);
    if (f->width[1]) {
        for (int64_t i = 0; i < n * dim[2]; i++)
            x[i] = (float)((double)x[i] * by);
        in = vt_from_host(f->g, vt_compute(f->g), 3, dim, x, VC_F32);
        part[1] = vt_linear(f->g, in, &f->project[1]);
        part[0] = vt_concat(f->g, 2, 2, part);
    }
    text_stack s = { .g = f->g };
    return text_stack_end(&s, vt_cast(f->g, part[0], VC_F32), features, err);
}

int ltx2_features_make(ltx2_features *f, float *states, int n, float *features, vc_err *err)
{
    const size_t of_token = (size_t)(f->channels * f->states);
    float *x = malloc(BLOCK * of_token * sizeof *x);
    int rc = x ? 0 : vc_no_memory(err);

    normalise(f, states, n);
    for (int i = 0; !rc && i < n; i += BLOCK) {
        const int m = n - i < BLOCK ? n - i : BLOCK;
        interleave(f, states, n, i, m, x);
        rc = project(f, x, m, features + (size_t)i * (size_t)ltx2_features_width(f), err);
    }
    free(x);
    return rc;
}
