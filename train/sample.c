#include "train/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/rng.h"

/* One prompt being sampled. */
typedef struct sampling {
    vtrain_prompt p;
    int64_t dim[5];              /* of one forward: rows 1, or 2 with guidance */
    size_t n;                    /* elements of a row */
    float *x, *in, *out;         /* [n], [rows,n], [rows,n] */
    vtrain_text text[VTRAIN_TEXTS];
    uint64_t seed;
} sampling;

static void sampling_free(sampling *s)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        free(s->text[i].embeds);
        free(s->text[i].length);
        free(s->text[i].pooled);
    }
    free(s->x);
    free(s->in);
    free(s->out);
    vtrain_prompt_free(&s->p);
}

/* Rows of one slot: the prompt, then with guidance the negative one, zero beyond their lengths. */
static int make_text(vtrain_text *t, const vtrain_embeds *const *row, int rows, vc_err *err)
{
    t->width = row[0]->width;
    for (int i = 0; i < rows; i++)
        if (row[i]->n > t->n) t->n = row[i]->n;
    size_t each = (size_t)(t->n * t->width);
    t->embeds = calloc((size_t)rows * each, sizeof *t->embeds);
    t->length = calloc((size_t)rows, sizeof *t->length);
    if (!t->embeds || !t->length) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; i < rows; i++) {
        t->length[i] = (int32_t)row[i]->n;
        memcpy(t->embeds + (size_t)i * each, row[i]->embeds,
               sizeof(float) * (size_t)(row[i]->n * t->width));
    }
    return 0;
}

static int make_pooled(vtrain_text *t, const vtrain_embeds *const *row, int rows, int64_t width,
                       vc_err *err)
{
    if (!width) return 0;
    t->pooled_width = width;
    t->pooled = malloc(sizeof(float) * (size_t)(rows * width));
    if (!t->pooled) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; i < rows; i++)
        memcpy(t->pooled + i * width, row[i]->pooled, sizeof(float) * (size_t)width);
    return 0;
}

/* A prompt's size, cut to whole patches. */
static void whole_patches(const vtrain *t, vtrain_prompt *p)
{
    vtrain_fit fit;
    int *size[3] = { &p->f, &p->h, &p->w };
    t->family->fit(t->model, &fit);
    for (int i = 0; i < 3; i++) {
        int cut = *size[i] / fit.mult[i] * fit.mult[i];
        *size[i] = cut ? cut : fit.mult[i];
    }
}

static int begin(sampling *s, vtrain *t, uint32_t i, vc_err *err)
{
    int rc = vtrain_data_prompt(t->data, i, &s->p, err);
    if (rc) return rc;
    whole_patches(t, &s->p);
    int rows = t->cfg.guidance_scale == 1 ? 1 : 2, slots = vtrain_data_slots(t->data);
    const int64_t dim[5] = { rows, vtrain_data_norm(t->data)->channels, s->p.f, s->p.h, s->p.w };
    memcpy(s->dim, dim, sizeof dim);
    s->n = (size_t)(dim[1] * dim[2] * dim[3] * dim[4]);
    s->x = malloc(sizeof(float) * s->n);
    s->in = malloc(sizeof(float) * s->n * (size_t)rows);
    s->out = malloc(sizeof(float) * s->n * (size_t)rows);
    if (!s->x || !s->in || !s->out) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int k = 0; !rc && k < slots; k++) {
        const vtrain_embeds *row[2] = { &s->p.pos[k], &s->p.neg[k] };
        rc = make_text(&s->text[k], row, rows, err);
        if (!rc)
            rc = make_pooled(&s->text[k], row, rows, vtrain_data_slot(t->data, k)->pooled, err);
    }
    s->seed = s->p.has_seed ? s->p.seed : (uint64_t)t->cfg.seed;
    vc_train_normals(s->x, 0, s->n, s->seed, i, 0, VC_DRAW_VALIDATION);
    return rc;
}

/* Guided prediction for s->x at a level, into the first row of s->out. */
static int predict(sampling *s, vtrain *t, const vtrain_level *l, vc_err *err)
{
    for (int64_t row = 0; row < s->dim[0]; row++)
        memcpy(s->in + (size_t)row * s->n, s->x, sizeof(float) * s->n);
    int rc = vtrain_predict(t, s->dim, s->in, l, s->text, s->out, err);
    if (rc || s->dim[0] == 1) return rc;
    float scale = (float)t->cfg.guidance_scale;
    const float *neg = s->out + s->n;
    for (size_t i = 0; i < s->n; i++)
        s->out[i] = neg[i] + scale * (s->out[i] - neg[i]);
    return 0;
}

/* dx/ds = n - x: from sigma to sigma along the prediction */
static int euler(sampling *s, vtrain *t, vc_err *err)
{
    int64_t steps = t->cfg.num_inference_steps;
    double a = t->cfg.flow_shift;
    for (int64_t i = 0; i < steps; i++) {
        if (*t->stop) return vc_fail(err, VC_ESTOP, "stopped");
        double sigma[2] = { 0, 0 };
        for (int64_t k = 0; k < 2 && i + k < steps; k++) {
            double u = steps == 1 ? 1 : 1 - (1 - 1e-3) * (double)(i + k) / (double)(steps - 1);
            sigma[k] = a * u / (1 + (a - 1) * u);
        }
        vtrain_level l = vtrain_level_at(t->objective, sigma[0]);
        int rc = predict(s, t, &l, err);
        if (rc) return rc;
        float ds = (float)(sigma[1] - sigma[0]);
        for (size_t k = 0; k < s->n; k++)
            s->x[k] += ds * s->out[k];
    }
    return 0;
}

/* Trailing timesteps 999, ..; each step goes down by 1000 / steps, the last one to the clean
 * end. */
static int ddim(sampling *s, vtrain *t, vc_err *err)
{
    int64_t steps = t->cfg.num_inference_steps;
    double d = (1000 - 1000.0 / (double)steps) - 1000;
    for (int64_t i = 0; i < steps; i++) {
        if (*t->stop) return vc_fail(err, VC_ESTOP, "stopped");
        int time = (int)nearbyint(1000 + (double)i * d) - 1, next = time - (int)(1000 / steps);
        vtrain_level l = vtrain_level_at(t->objective, time);
        int rc = predict(s, t, &l, err);
        if (rc) return rc;
        double a = vtrain_alpha_bar(t->objective, time);
        double b = next < 0 ? 1 : vtrain_alpha_bar(t->objective, next);
        double ra = sqrt(a), rna = sqrt(1 - a), rb = sqrt(b), rnb = sqrt(1 - b);
        for (size_t k = 0; k < s->n; k++) {
            double x = (double)s->x[k], v = (double)s->out[k];
            s->x[k] = (float)(rb * (ra * x - rna * v) + rnb * (ra * v + rna * x));
        }
    }
    return 0;
}

/* Back to raw VAE space. */
static void denormalise(sampling *s, const vtrain_norm *norm)
{
    size_t each = s->n / (size_t)norm->channels;
    for (int c = 0; c < norm->channels; c++)
        for (size_t i = 0; i < each; i++) {
            float *x = &s->x[(size_t)c * each + i];
            *x = *x / norm->mul[c] + norm->sub[c];
        }
}

static int check_finite(const sampling *s, vc_err *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (!isfinite(s->x[i])) return vc_fail(err, VC_ENUMERIC, "the sample is not finite");
    return 0;
}

static int write(const sampling *s, const vtrain *t, const char *dir, uint32_t i, vc_err *err)
{
    char seed[24], fps[32], frames[16], steps[24], guidance[32], name[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(fps, sizeof fps, "%.6g", s->p.fps);
    snprintf(frames, sizeof frames, "%d", s->p.frames);
    snprintf(steps, sizeof steps, "%lld", (long long)t->cfg.num_inference_steps);
    snprintf(guidance, sizeof guidance, "%.6g", t->cfg.guidance_scale);
    snprintf(name, sizeof name, "%03u.safetensors", i);
    const vf_meta meta[] = {
        { "prompt", s->p.text }, { "negative_prompt", s->p.negative }, { "seed", seed },
        { "frames", frames }, { "num_inference_steps", steps }, { "guidance_scale", guidance },
        { "fps", fps },
    };
    const vf_view v = { .name = "latents", .dtype = VC_F32, .nd = 4, .data = s->x,
                        .dim = { s->dim[1], s->dim[2], s->dim[3], s->dim[4] },
                        .bytes = s->n * sizeof(float) };
    char *path = vc_path_join(dir, name);
    if (!path) return vc_fail(err, VC_ENOMEM, "out of memory");
    int n_meta = (int)(sizeof meta / sizeof *meta) - (s->p.fps > 0 ? 0 : 1);
    int rc = vf_safetensors_write(path, &v, 1, meta, n_meta, err);
    free(path);
    return rc;
}

static int sample_one(vtrain *t, const char *dir, uint32_t i, vc_err *err)
{
    sampling s = { 0 };
    int rc = begin(&s, t, i, err);
    if (!rc) rc = vtrain_objective_kind(t->objective) == VTRAIN_FLOW ? euler(&s, t, err)
                                                                     : ddim(&s, t, err);
    if (!rc) rc = check_finite(&s, err);
    if (!rc) {
        denormalise(&s, vtrain_data_norm(t->data));
        rc = write(&s, t, dir, i, err);
    }
    sampling_free(&s);
    return vc_context(err, rc, "validation prompt %u", i);
}

int vtrain_validate(vtrain *t, vc_err *err)
{
    char *dir = vc_format("%s/validation/step-%lld", t->cfg.output_dir, (long long)t->step);
    if (!dir) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vc_mkdirs(dir, err);
    if (t->ema) vt_ema_swap(t->ema, t->params);
    for (uint32_t i = 0; !rc && i < vtrain_data_prompts(t->data); i++)
        rc = sample_one(t, dir, i, err);
    if (t->ema) vt_ema_swap(t->ema, t->params);
    free(dir);
    return rc;
}
