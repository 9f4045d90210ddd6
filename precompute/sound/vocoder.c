/* vocoder.c - see vocoder.h */
#include "precompute/sound/vocoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/config.h"
#include "formats/tensors/component.h"
#include "precompute/sound/generator.h"
#include "precompute/sound/generator_fields.h"

#define PLAIN "LTX2Vocoder"
#define WIDER "LTX2VocoderWithBWE"
#define FLOOR 1e-5f                  /* of a magnitude, before the logarithm */
enum { MAX_WINDOW = 4096, MAX_BINS = 1024, CROSSINGS = 6 };
#define ROLLOFF 0.99

/* Fields of the part that extends the band. */
typedef struct wider_fields {
    int window, hop, length, bins, rate_in, rate_out;
} wider_fields;

struct vocoder {
    vt_ctx *g;
    vf_model *file;
    gen_weights weights;
    generator first, second;         /* second.f.in 0: there is none */
    wider_fields w;
    float *basis, *filters;          /* [2*lines,window], [bins,lines]: of the second's
                                      * spectrogram */
    vocoder_info info;
};

/* ---- opening ---- */

static const vf_config_row wider_rows[] = {
    VF_INT(wider_fields, window, "filter_length", 512, 16, MAX_WINDOW),
    VF_INT(wider_fields, hop, "hop_length", 80, 1, MAX_WINDOW),
    VF_INT(wider_fields, length, "window_length", 512, 16, MAX_WINDOW),
    VF_INT(wider_fields, bins, "num_mel_channels", 64, 1, MAX_BINS),
    VF_INT(wider_fields, rate_in, "input_sampling_rate", 16000, 1000, 192000),
    VF_INT(wider_fields, rate_out, "output_sampling_rate", 48000, 1000, 192000),
    { 0 }
};

static int check_wider(const vocoder *v, vc_err *err)
{
    const wider_fields *w = &v->w;
    const int ratio = w->rate_out / w->rate_in, hop = gen_hop(&v->first.f);

    if (ratio < 1 || w->rate_out % w->rate_in || ratio * w->hop != gen_hop(&v->second.f))
        return vc_fail(err, VC_EFORMAT, "bwe_upsample_factors make %d samples of %d; rates of %d "
                       "and %d Hz take %d", gen_hop(&v->second.f), w->hop, w->rate_in, w->rate_out,
                       ratio * w->hop);
    if (w->length != w->window || hop % w->hop || w->window < w->hop)
        return vc_fail(err, VC_EFORMAT, "filter_length %d, window_length %d, hop_length %d: the "
                       "lengths must be equal, and the hop divide the %d samples of a frame",
                       w->window, w->length, w->hop, hop);
    if (v->second.f.in != v->first.f.out * w->bins || v->second.f.out != v->first.f.out)
        return vc_fail(err, VC_EFORMAT, "bwe_in_channels: %d for %d channels of %d bins",
                       v->second.f.in, v->first.f.out, w->bins);
    return 0;
}

static int configure_wider(vocoder *v, const cJSON *json, vc_err *err)
{
    int rc = gen_read(&v->second.f, json, "bwe_", err);

    if (!rc)
        rc = vf_config_read(&v->w, wider_rows, json, err);
    if (!rc)
        rc = check_wider(v, err);
    v->info.rate = v->w.rate_out;
    v->info.hop = rc ? 0 : gen_hop(&v->first.f) * (v->w.rate_out / v->w.rate_in);
    return rc;
}

static int configure(vocoder *v, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = vf_component_config(&json, o->dir, "vocoder", NULL, err);

    if (rc)
        return rc;
    const char *class = cJSON_GetStringValue(cJSON_GetObjectItem(json, "_class_name"));
    const bool wider = class && !strcmp(class, WIDER);
    if (!wider && (!class || strcmp(class, PLAIN)))
        rc = vc_fail(err, VC_EUSAGE, "_class_name is %s; vocoders are " PLAIN " and " WIDER,
                     class ? class : "missing");
    if (!rc)
        rc = gen_read(&v->first.f, json, "", err);
    if (!wider && !cJSON_GetObjectItem(json, "final_act_fn"))
        v->first.f.last = GEN_TANH;
    v->info = (vocoder_info){ .class = wider ? WIDER : PLAIN, .rate = v->first.f.rate,
                              .inputs = v->first.f.in, .channels = v->first.f.out,
                              .hop = rc ? 0 : gen_hop(&v->first.f) };
    if (!rc && wider)
        rc = configure_wider(v, json, err);
    cJSON_Delete(json);
    return vc_context(err, rc, "%s/config.json", o->dir);
}

static void bind_wider(vocoder *v)
{
    const int lines = v->w.window / 2 + 1;
    gen_weights *w = &v->weights;

    gen_bind(&v->second, w, "bwe_generator.");
    v->basis = gen_weights_read(w, "mel_stft.stft_fn.forward_basis", 3,
                                (int64_t[]){ 2 * lines, 1, v->w.window });
    v->filters = gen_weights_read(w, "mel_stft.mel_basis", 2, (int64_t[]){ v->w.bins, lines });
    free(gen_weights_read(w, "mel_stft.stft_fn.inverse_basis", 3,
                          (int64_t[]){ 2 * lines, 1, v->w.window }));
}

static int bind_all(vocoder *v, vc_err *err)
{
    gen_weights *w = &v->weights;

    w->g = v->g;
    w->file = v->file;
    w->err = err;
    w->used = calloc((size_t)vf_model_count(v->file) + 1, sizeof *w->used);
    if (!w->used)
        return vc_no_memory(err);
    gen_bind(&v->first, w, v->second.f.in ? "vocoder." : "");
    if (v->second.f.in)
        bind_wider(v);
    for (int i = 0; !w->rc && i < vf_model_count(v->file); i++)
        if (!w->used[i])
            w->rc = vc_fail(err, VC_EMISMATCH, "tensor %s is none of this vocoder's",
                            vf_model_at(v->file, i)->name);
    return w->rc;
}

int vocoder_open(vocoder **out, const encoder_opts *o, vocoder_info *info, vc_err *err)
{
    vt_options device = encoder_device(o);

    *out = NULL;
    if (!o->dir)
        return vc_fail(err, VC_EUSAGE, "a vocoder: give the folder with its config.json and "
                       "weights");
    vocoder *v = calloc(1, sizeof *v);
    if (!v)
        return vc_no_memory(err);
    device.compute = VC_F32;
    int rc = configure(v, o, err);
    if (!rc)
        rc = vf_component_open(&v->file, o->dir, "vocoder", err);
    if (!rc)
        rc = vt_open(&v->g, &device, err);
    if (!rc)
        rc = vc_context(err, bind_all(v, err), "%s", o->dir);
    if (rc) {
        vocoder_close(v);
        return rc;
    }
    *info = v->info;
    *out = v;
    return 0;
}

void vocoder_close(vocoder *v)
{
    if (!v)
        return;
    gen_weights_close(&v->weights);
    vt_close(v->g);
    vf_model_close(v->file);
    free(v->basis);
    free(v->filters);
    free(v);
}

/* ---- running ---- */

static float limit(const gen_fields *f, float x)
{
    return f->last == GEN_CLAMP ? fminf(fmaxf(x, -1), 1) : x;
}

/* Runs a network on mel [channels,t,bins]; *wave [channels,n] is malloc'ed. */
static int generate(vocoder *v, const generator *m, const float *mel, int64_t t, float **wave,
                    vc_err *err)
{
    const int64_t bins = m->f.in / m->f.out, c = m->f.out, n = t * gen_hop(&m->f);
    vc_err first = { 0 };
    float *x = NULL;
    int rc = 0;

    *wave = NULL;
    vt_step_begin(v->g, 0);
    vt_tensor *y = vt_from_host(v->g, VC_F32, 4, (int64_t[]){ 1, c, t, bins }, mel, VC_F32);
    y = vt_pack(v->g, vt_permute(v->g, y, (int[]){ 0, 2, 1, 3 }));
    y = gen_run(v->g, m, vt_reshape(v->g, y, 5, (int64_t[]){ 1, 1, t, 1, c * bins }));
    if (y) {
        x = malloc((size_t)(n * c) * sizeof *x);
        *wave = malloc((size_t)(n * c) * sizeof **wave);
        rc = x && *wave ? vt_to_host(v->g, y, x, &first) : vc_no_memory(&first);
        for (int64_t i = 0; !rc && i < n * c; i++)
            (*wave)[i % c * n + i / c] = limit(&m->f, x[i]);
    }
    free(x);
    const int end = vt_step_end(v->g, err);
    rc = end ? end : rc ? vc_fail(err, rc, "%s", first.text) : 0;
    if (rc) {
        free(*wave);
        *wave = NULL;
    }
    return rc;
}

/* The spectrogram y [t,bins] of x that the second network reads: a frame sees no later sample. */
static void spectrum(const vocoder *v, const float *x, int64_t t, float *y)
{
    const wider_fields *w = &v->w;
    const int lines = w->window / 2 + 1;
    float size[MAX_WINDOW / 2 + 1];

    for (int64_t f = 0; f < t; f++) {
        const int64_t from = f * w->hop - (w->window - w->hop);
        for (int k = 0; k < lines; k++) {
            const float *re = v->basis + (size_t)k * (size_t)w->window;
            const float *im = re + (size_t)lines * (size_t)w->window;
            double a = 0, b = 0;
            for (int64_t i = from < 0 ? -from : 0; i < w->window; i++) {
                a += (double)(re[i] * x[from + i]);
                b += (double)(im[i] * x[from + i]);
            }
            size[k] = (float)sqrt(a * a + b * b);
        }
        for (int m = 0; m < w->bins; m++) {
            double sum = 0;
            for (int k = 0; k < lines; k++)
                sum += (double)(v->filters[m * lines + k] * size[k]);
            y[f * w->bins + m] = logf(fmaxf((float)sum, FLOOR));
        }
    }
}

/* Adds x [n] at `ratio` times its rate to y [ratio n], and keeps the sum within 1: a sinc under
 * Hann's window (torchaudio's, with ends repeated). */
static void add_upsampled(const float *x, int64_t n, int ratio, float *y)
{
    const int width = (int)ceil(CROSSINGS / ROLLOFF);

    for (int s = 0; s < ratio; s++) {
        float w[2 * CROSSINGS + 4];
        for (int k = -width; k <= width; k++) {
            const double t = ((double)s / ratio - k) * ROLLOFF;
            const double in = fmax(-CROSSINGS, fmin(CROSSINGS, t));
            const double window = cos(in * M_PI / CROSSINGS / 2);
            const double sinc = t ? sin(M_PI * t) / (M_PI * t) : 1;
            w[k + width] = (float)(sinc * window * window * ROLLOFF);
        }
        for (int64_t i = 0; i < n; i++) {
            float sum = 0;
            for (int k = -width; k <= width; k++) {
                const int64_t at = i + k < 0 ? 0 : i + k >= n ? n - 1 : i + k;
                sum += w[k + width] * x[at];
            }
            float *to = y + i * ratio + s;
            *to = fminf(fmaxf(*to + sum, -1), 1);
        }
    }
}

/* Extends the band of wave [channels,n]: x gets `ratio` times as many samples. */
static int extend(vocoder *v, const float *wave, int64_t n, float *x, vc_err *err)
{
    const wider_fields *w = &v->w;
    const int64_t t = n / w->hop, c = v->first.f.out, ratio = w->rate_out / w->rate_in;
    float *mel = malloc((size_t)(c * t * w->bins) * sizeof *mel), *more = NULL;
    int rc = mel ? 0 : vc_no_memory(err);

    for (int64_t k = 0; !rc && k < c; k++)
        spectrum(v, wave + k * n, t, mel + k * t * w->bins);
    if (!rc)
        rc = generate(v, &v->second, mel, t, &more, err);
    for (int64_t k = 0; !rc && k < c; k++) {
        memcpy(x + k * n * ratio, more + k * n * ratio, (size_t)(n * ratio) * sizeof *x);
        add_upsampled(wave + k * n, n, (int)ratio, x + k * n * ratio);
    }
    free(mel);
    free(more);
    return rc;
}

int vocoder_run(vocoder *v, const float *mel, int t, int bins, float *x, vc_err *err)
{
    const int c = v->info.channels;
    const int64_t n = (int64_t)t * gen_hop(&v->first.f);
    float *wave;

    if (t < 1 || t > VOCODER_MAX_FRAMES || bins * c != v->info.inputs)
        return vc_fail(err, VC_EINVAL, "%s: %d frames of %d bins; possible are 1 to %d of %d",
                       v->info.class, t, bins, VOCODER_MAX_FRAMES, v->info.inputs / c);
    int rc = generate(v, &v->first, mel, t, &wave, err);
    if (!rc && v->second.f.in)
        rc = extend(v, wave, n, x, err);
    else if (!rc)
        memcpy(x, wave, (size_t)(n * c) * sizeof *x);
    free(wave);
    return vc_context(err, rc, "%s: %d frames", v->info.class, t);
}
