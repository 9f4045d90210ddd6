/* sample.c - samples the validation prompts, each from noise to latents in a file; see sample.h */
#include "train/sampling/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/sampling/heard.h"
#include "train/sampling/inputs.h"
#include "train/sampling/texts.h"
#include "train/sampling/watching.h"
#include "train/steps/predict.h"
#include "train/steps/step.h"

/* One prompt being sampled. */
typedef struct sampling {
    vtrain_prompt p;
    uint32_t number;             /* of the prompt */
    int prompts;                 /* 2 with classifier-free guidance, else 1 */
    int64_t dim[5];              /* of one forward, which has a row for each prompt, or for one */
    int front;                   /* frames that are sampled, then dropped */
    int steps;                   /* the prompt's own, else the run's; so is guidance */
    double guidance;
    double input;                /* the guidance that the model gets, if it takes one */
    double scale;                /* of guidance by the negative prompt; 1 and below: none */
    size_t n;                    /* elements of a row */
    size_t tokens;               /* of the transformer */
    int patch[3];                /* frames, rows and columns of a token */
    float *x, *in, *out;         /* [n], [rows,n], [prompts,n] */
    float *past, *noise;         /* [2,n]: clean latents of the two steps before; [n]: the step's
                                  * noise */
    double *norm;                /* [tokens,2]: the sums of squares of the prompt's prediction and
                                  * of the guided one; NULL: the guided one keeps its norm */
    vtrain_solver_step *step;    /* [steps] */
    vtrain_text text[VTRAIN_TEXTS];
    float *cond[VC_ROLES];       /* conditions of all rows, which are equal, as the model takes
                                  * them, or NULL */
    float *first;                /* [C,h,w] the sample's clean first frame, or NULL */
    int clean;                   /* clean frames: the latent frames of a token */
    int skip;                    /* frames of the decoded sample that are no part of the clip */
    uint64_t seed;
    sampling_heard heard;        /* the sound, of models with sound */
    double sound_scale;          /* of its guidance */
    vtrain_watching *w;          /* how far the rank's samples are */
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
    free(s->past);
    free(s->noise);
    free(s->norm);
    free(s->step);
    for (int i = 0; i < VC_ROLES; i++)
        free(s->cond[i]);
    free(s->first);
    heard_close(&s->heard);
    vtrain_prompt_free(&s->p);
}

/* ---- beginning ---- */

/* Cuts a prompt's size to whole patches; a model that pads in front gets more frames instead. */
static int whole_patches(sampling *s, const vtrain_fit *fit, vc_err *err)
{
    int *size[3] = { &s->p.f, &s->p.h, &s->p.w };
    const int h = s->p.h, w = s->p.w, f = s->p.f;
    for (int i = 0; i < 3; i++) {
        int cut = *size[i] / fit->mult[i] * fit->mult[i];
        *size[i] = cut ? cut : fit->mult[i];
    }
    if (fit->pad_front) {
        s->front = (fit->mult[0] - f % fit->mult[0]) % fit->mult[0];
        s->p.f = f + s->front;
    }
    bool any = false, clip = false;
    for (int i = 0; i < VC_ROLES; i++) {
        any |= s->p.cond[i] && vc_roles[i].kind != VC_VALUE_EMBEDS && !vc_roles[i].own_size;
        clip |= s->p.cond[i] && vc_roles[i].clip;
    }
    if (!any || (h == s->p.h && w == s->p.w && (!clip || f + s->front == s->p.f)))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "its image has %d x %d x %d latent frames, rows and columns, "
                   "but the transformer takes multiples of %d, %d and %d", clip ? f : 1, h, w,
                   fit->mult[0], fit->mult[1], fit->mult[2]);
}

/* Normalises one of the prompt's conditions and copies the result to every row; frames padded in
 * front are copies of the first frame. */
static int make_condition(sampling *s, const vtrain *t, vc_role role, vc_err *err)
{
    const vtrain_norm *norm = vtrain_data_role_norm(t->data, role);
    int64_t of[5];
    vtrain_data_role_dim(t->data, role, s->dim, &s->p.own, of);
    size_t plane = (size_t)(of[3] * of[4]), front = (size_t)s->front;
    size_t f = (size_t)s->dim[2] - front;
    if (!vc_roles[role].clip) {
        f = 1;
        front = 0;
    }
    size_t clip = (f + front) * plane, all = clip * (size_t)norm->channels;
    float *x = s->cond[role] = malloc(sizeof *x * all * (size_t)s->dim[0]);
    if (!x)
        return vc_no_memory(err);
    for (size_t i = 0; i < all; i++) {
        size_t c = i / clip, at = i % clip / plane;
        size_t from = (c * f + (at > front ? at - front : 0)) * plane + i % plane;
        x[i] = (s->p.cond[role][from] - norm->sub[c]) * norm->mul[c];
    }
    for (int64_t row = 1; row < s->dim[0]; row++)
        memcpy(x + (size_t)row * all, x, sizeof *x * all);
    return 0;
}

/* Copies embeddings to every row; those of a prompt without a picture are zeros. */
static int make_embeds(sampling *s, const vtrain *t, vc_role role, vc_err *err)
{
    int64_t of[5];
    vtrain_data_role_dim(t->data, role, s->dim, &s->p.own, of);
    size_t all = (size_t)(of[1] * of[2]);
    float *x = s->cond[role] = calloc((size_t)of[0] * all, sizeof *x);
    if (!x)
        return vc_no_memory(err);
    for (int64_t row = 0; row < of[0] && s->p.cond[role]; row++)
        memcpy(x + (size_t)row * all, s->p.cond[role], sizeof *x * all);
    return 0;
}

static int make_conditions(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < VC_ROLES; i++)
        if (fit->roles & 1u << i && vc_roles[i].kind == VC_VALUE_EMBEDS)
            rc = make_embeds(s, t, (vc_role)i, err);
        else if ((fit->roles | fit->references) & 1u << i && s->p.cond[i])
            rc = make_condition(s, t, (vc_role)i, err);
    return rc;
}

/* Makes the clean first latent frame of the prompt's image, for a model trained on such frames. */
static int make_first(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    const vtrain_norm *norm = vtrain_data_norm(t->data);
    const float *image = s->p.cond[VC_ROLE_IMAGE];
    size_t plane = (size_t)(s->dim[3] * s->dim[4]);
    s->clean = fit->mult[0];
    if (!(t->cfg.first_frame_conditioning_p > 0) || !image || s->dim[2] <= s->clean)
        return 0;
    s->first = malloc(sizeof *s->first * plane * (size_t)norm->channels);
    if (!s->first)
        return vc_no_memory(err);
    for (size_t i = 0; i < plane * (size_t)norm->channels; i++)
        s->first[i] = (image[i] - norm->sub[i / plane]) * norm->mul[i / plane];
    return 0;
}

/* Puts the clean first frame into the sample, with a share of s->noise. */
static void put_first(sampling *s, double share)
{
    size_t plane = (size_t)(s->dim[3] * s->dim[4]), clip = (size_t)s->dim[2] * plane;
    size_t front = (size_t)s->clean * plane;
    for (size_t i = 0; s->first && i < (size_t)s->dim[1] * front; i++) {
        size_t c = i / front, at = c * clip + i % front;
        float noise = share > 0 ? (float)share * s->noise[at] : 0;
        s->x[at] = s->first[c * plane + i % plane] + noise;
    }
}

/* Mixes a share of the prompt's image into the noise of all frames, in f32 as diffusers does. */
static void mix_image(sampling *s, const vtrain_fit *fit)
{
    const float *image = s->first ? s->first : s->cond[VC_ROLE_IMAGE];
    const size_t plane = (size_t)(s->dim[3] * s->dim[4]), clip = (size_t)s->dim[2] * plane;
    const float share = (float)fit->image_start;
    for (size_t i = 0; share > 0 && image && i < s->n; i++)
        s->x[i] = s->x[i] * (1 - share) + image[i / clip * plane + i % plane] * share;
}

/* Reports, once a run, the inputs that samples lack: a clip may ignore its prompt's image. */
static void report_conditions(const sampling *s, const vtrain *t, const vtrain_fit *fit)
{
    unsigned has = 0, used = 0;
    for (int i = 0; i < VC_ROLES; i++) {
        has |= s->p.cond[i] ? 1u << i : 0;
        used |= s->cond[i] ? 1u << i : 0;
    }
    if (s->first)
        has &= ~(1u << VC_ROLE_IMAGE);
    if (t->validation.reported)
        return;
    if (!s->first && t->cfg.first_frame_conditioning_p == 1 && s->dim[2] > s->clean)
        vc_say(t->ui, "validation prompt %u: sampled without a clean first frame, which all "
               "training clips have, because the prompt has no image", s->number);
    if ((used & fit->roles) != fit->roles)
        vc_say(t->ui, "validation prompt %u: sampled without %s (zeros)%s", s->number,
               fit->roles & 1u << VC_ROLE_CONTROL ? "a control clip"
               : fit->roles & 1u << VC_ROLE_IMAGE ? "a first frame" : "a mask and a masked clip",
               has ? "" : ", because the prompt has none");
    if (has & ~used)
        vc_say(t->ui, "validation prompt %u has an image %s", s->number,
               fit->roles ? "that was stored for another --train_mode"
               : fit->token_times ? "that is not its first frame without "
                                    "--first_frame_conditioning_p"
                                  : "which this transformer does not take");
}

static int make_plan(sampling *s, const vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_model *m = &t->model;
    const vtrain_solver_opts o = vtrain_scheduler_plan(
        &m->scheduler, (vtrain_sampler)(c->validation_sampler - 1),
        m->pipeline, t->objective, (int64_t)s->tokens, s->steps);
    s->step = calloc((size_t)o.steps, sizeof *s->step);
    if (!s->step)
        return vc_no_memory(err);
    return vtrain_solver_plan(s->step, &o, err);
}

static int make_rows(sampling *s, const vtrain *t, vc_err *err)
{
    int rc = 0;
    size_t one = sizeof(float) * s->n;
    s->x = malloc(one);
    s->past = malloc(2 * one);
    s->noise = malloc(one);
    s->in = malloc(one * (size_t)s->dim[0]);
    s->out = malloc(one * (size_t)s->prompts);
    const bool norms = t->model.family->renormalised && s->prompts > 1;
    if (norms)
        s->norm = calloc(2 * s->tokens, sizeof *s->norm);
    if (!s->x || !s->past || !s->noise || !s->in || !s->out || (norms && !s->norm))
        return vc_no_memory(err);
    for (int k = 0; !rc && k < vtrain_data_slots(t->data); k++) {
        const vtrain_embeds *row[2] = { &s->p.pos[k], &s->p.neg[k] };
        const vtrain_slot *slot = vtrain_data_slot(t->data, k);
        rc = sampling_text(&s->text[k], row, s->prompts, slot->rows, err);
        if (!rc)
            rc = sampling_pooled(&s->text[k], row, s->prompts, slot->pooled, err);
    }
    return rc;
}

/* Reads the prompt, and finds the size of its sample. */
static int open_prompt(sampling *s, const vtrain *t, const vtrain_fit *fit, uint32_t i, vc_err *err)
{
    s->number = i;
    int rc = vtrain_data_prompt(t->data, i, &s->p, err);
    if (!rc)
        rc = whole_patches(s, fit, err);
    if (!(s->p.fps > 0))
        s->p.fps = fit->fps;
    s->steps = s->p.steps ? s->p.steps : (int)t->cfg.num_inference_steps;
    s->guidance = s->p.has_guidance ? s->p.guidance : t->cfg.guidance_scale;
    bool beside = !t->model.guidance || fit->two_prompts;
    s->input = beside ? t->cfg.embedded_guidance : s->guidance;
    s->scale = beside ? s->guidance + t->model.family->guidance_added : t->cfg.true_cfg_scale;
    s->sound_scale = fit->sound ? t->cfg.audio_guidance_scale : 0;
    s->prompts = fmax(s->scale, s->sound_scale) > (t->cfg.guidance_schedule ? 0 : 1) ? 2 : 1;
    const int rows = t->validation.apart ? 1 : s->prompts;
    const int64_t dim[5] = { rows, vtrain_data_norm(t->data)->channels, s->p.f, s->p.h, s->p.w };
    memcpy(s->dim, dim, sizeof dim);
    s->n = (size_t)(dim[1] * dim[2] * dim[3] * dim[4]);
    heard_size(&s->heard, t, rows, s->p.frames, s->p.fps);
    s->tokens = 1;
    for (int k = 0; k < 3; k++) {
        s->patch[k] = fit->mult[k];
        s->tokens *= (size_t)(dim[2 + k] / fit->mult[k]);
    }
    return rc;
}

static int begin(sampling *s, vtrain *t, uint32_t i, vc_err *err)
{
    vtrain_fit fit;
    t->model.family->fit(t->model.dit, &fit);
    int rc = open_prompt(s, t, &fit, i, err);
    if (!rc)
        rc = make_plan(s, t, err);
    if (!rc)
        rc = make_rows(s, t, err);
    if (!rc)
        rc = make_conditions(s, t, &fit, err);
    if (!rc)
        rc = make_first(s, t, &fit, err);
    if (rc)
        return rc;
    report_conditions(s, t, &fit);
    s->seed = s->p.has_seed ? s->p.seed : (uint64_t)t->cfg.seed;
    vc_train_normals(s->x, 0, s->n, s->seed, i, 0, VC_DRAW_VALIDATION);
    mix_image(s, &fit);
    rc = heard_open(&s->heard, s->prompts, s->seed, i, err);
    s->skip = fit.skip_frames < s->p.frames ? fit.skip_frames : 0;
    return rc;
}

/* ---- steps ---- */

/* The token that element i of a sample belongs to. */
static size_t token_of(const sampling *s, size_t i)
{
    const size_t f = (size_t)s->dim[2], h = (size_t)s->dim[3], w = (size_t)s->dim[4];
    const size_t p[3] = { (size_t)s->patch[0], (size_t)s->patch[1], (size_t)s->patch[2] };
    const size_t frame = i / (h * w) % f / p[0], row = i / w % h / p[1], column = i % w / p[2];
    return (frame * (h / p[1]) + row) * (w / p[2]) + column;
}

/* Adds the squares of a prediction's elements to the sums of their tokens: which is 0 for the
 * prompt's, 1 for the guided one. */
static void add_squares(sampling *s, int which)
{
    for (size_t i = 0; s->norm && i < s->n; i++)
        s->norm[2 * token_of(s, i) + (size_t)which] += (double)s->out[i] * (double)s->out[i];
}

/* Guides the prompt's prediction, the first row of s->out, by the negative prompt's, the second.
 * With s->norm each token then gets the norm of the prompt's prediction. */
static void guide(sampling *s, double weight, double rescale)
{
    float *out = s->out;
    if (s->norm)
        memset(s->norm, 0, 2 * s->tokens * sizeof *s->norm);
    add_squares(s, 0);
    vtrain_guide(out, out + s->n, s->n, weight, rescale);
    add_squares(s, 1);
    for (size_t i = 0; s->norm && i < s->n; i++) {
        const double *norm = s->norm + 2 * token_of(s, i);
        if (norm[1] > 0)
            out[i] *= (float)sqrt(norm[0] / norm[1]);
    }
}

/* The texts of one forward, from a prompt on. */
static void texts_from(vtrain_text text[VTRAIN_TEXTS], const sampling *s, int prompt)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        vtrain_text *t = &text[i];
        *t = s->text[i];
        t->length += t->length ? prompt : 0;
        t->embeds += t->embeds ? prompt * t->n * t->width : 0;
        t->pooled += t->pooled ? prompt * t->pooled_width : 0;
    }
}

static unsigned roles_of(const sampling *s)
{
    unsigned roles = 0;
    for (int i = 0; i < VC_ROLES; i++)
        roles |= s->cond[i] ? 1u << i : 0;
    return roles;
}

/* Writes the predictions for all prompts to s->out, by one forward or by one for each. */
static int forward(sampling *s, vtrain *t, const vtrain_level *l, vc_err *err)
{
    vtrain_text text[VTRAIN_TEXTS];
    int rc = 0;
    for (int64_t row = 0; row < s->dim[0]; row++)
        memcpy(s->in + (size_t)row * s->n, s->x, sizeof(float) * s->n);
    vtrain_question q = {
        .dim = s->dim, .x = s->in, .level = l, .clean_first = s->first,
        .guidance = s->input, .fps = s->p.fps, .text = text, .roles = roles_of(s), .cond = s->cond,
        .own = &s->p.own,
    };
    for (int i = 0; !rc && i < s->prompts; i += (int)s->dim[0]) {
        texts_from(text, s, i);
        heard_ask(&s->heard, &q, i);
        vtrain_watch_forward(s->w, i / (int)s->dim[0], s->prompts / (int)s->dim[0]);
        rc = vtrain_predict(t, &q, s->out + (size_t)i * s->n, err);
        vtrain_watch_end(s->w);
    }
    return rc;
}

/* The weight of a guidance in step i. */
static double weight_at(const sampling *s, const vtrain_config *c, double scale, int i)
{
    return vtrain_guidance((vtrain_guiding)c->guidance_schedule, scale, (int)c->guidance_power, i,
                           s->steps, s->step[i].t);
}

/* Writes the guided prediction for s->x at the level of step i to the first row of s->out. */
static int predict(sampling *s, vtrain *t, const vtrain_level *l, int i, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    int rc = forward(s, t, l, err);
    if (rc || s->prompts < 2)
        return rc;
    guide(s, weight_at(s, c, s->scale, i), c->guidance_rescale);
    heard_guide(&s->heard, weight_at(s, c, s->sound_scale, i), c->guidance_rescale);
    return 0;
}

static int walk(sampling *s, vtrain *t, vc_err *err)
{
    const double image_noise = t->model.pipeline && s->first ? t->model.pipeline->image_noise : 0;
    for (int i = 0; i < s->steps; i++) {
        if (*t->stop)
            return vc_fail(err, VC_ESTOP, "stopped");
        const vtrain_solver_step *step = &s->step[i];
        const double first = image_noise * step->level * step->level;
        vtrain_watch_step(s->w, i, s->steps);
        vtrain_level l = vtrain_level_at(t->objective, step->level);
        l.t = (float)step->t;
        if (step->noise != 0 || first > 0)
            vc_train_normals(s->noise, 0, s->n, s->seed, s->number, (uint32_t)i + 1,
                             VC_DRAW_VALIDATION);
        put_first(s, first);
        int rc = predict(s, t, &l, i, err);
        if (rc)
            return rc;
        vtrain_solver_apply(step, s->x, s->past, s->out, s->noise, s->n);
        heard_step(&s->heard, step, s->seed, s->number, i);
        put_first(s, first);
    }
    return 0;
}

/* ---- the end ---- */

/* Drops the frames that were padding. */
static void drop_front(sampling *s)
{
    size_t frame = (size_t)(s->dim[3] * s->dim[4]), had = (size_t)s->dim[2] * frame;
    size_t cut = (size_t)s->front * frame, kept = had - cut;
    for (int64_t c = 0; s->front && c < s->dim[1]; c++)
        memmove(s->x + (size_t)c * kept, s->x + (size_t)c * had + cut, sizeof(float) * kept);
    s->dim[2] -= s->front;
    s->n = kept * (size_t)s->dim[1];
}

/* Scales the sample back to raw VAE space. */
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
        if (!isfinite(s->x[i]))
            return vc_fail(err, VC_ENUMERIC, "the sample is not finite");
    return 0;
}

static int write(sampling *s, const vtrain *t, const char *dir, uint32_t i, vc_err *err)
{
    static const char *const samplers[] = { "ddim", "dpm", "euler", "unipc" };
    static const char *const schedules[] = { "constant", "cosine", "cosine_time" };
    char seed[24], fps[32], frames[16], steps[24], guidance[32], cfg[32], rescale[32], skip[16];
    char name[24], sound[32];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(fps, sizeof fps, "%.6g", s->p.fps);
    snprintf(frames, sizeof frames, "%d", s->p.frames);
    snprintf(steps, sizeof steps, "%d", s->steps);
    snprintf(guidance, sizeof guidance, "%.6g", s->guidance);
    snprintf(cfg, sizeof cfg, "%.6g", t->cfg.true_cfg_scale);
    snprintf(rescale, sizeof rescale, "%.6g", t->cfg.guidance_rescale);
    snprintf(skip, sizeof skip, "%d", s->skip);
    snprintf(name, sizeof name, "%03u.safetensors", i);
    snprintf(sound, sizeof sound, "%.6g", s->sound_scale);
    vf_meta meta[13] = {
        { "prompt", s->p.text }, { "negative_prompt", s->p.negative }, { "seed", seed },
        { "frames", frames }, { "num_inference_steps", steps }, { "guidance_scale", guidance },
        { "sampler", samplers[t->cfg.validation_sampler - 1] },
    };
    int n_meta = 7;
    if (s->p.fps > 0)
        meta[n_meta++] = (vf_meta){ "fps", fps };
    if (t->cfg.true_cfg_scale > 1)
        meta[n_meta++] = (vf_meta){ "true_cfg_scale", cfg };
    if (t->cfg.guidance_rescale > 0)
        meta[n_meta++] = (vf_meta){ "guidance_rescale", rescale };
    if (t->cfg.guidance_schedule)
        meta[n_meta++] = (vf_meta){ "guidance_schedule", schedules[t->cfg.guidance_schedule] };
    if (s->skip)
        meta[n_meta++] = (vf_meta){ "skip_frames", skip };
    if (s->heard.n)
        meta[n_meta++] = (vf_meta){ "audio_guidance_scale", sound };
    vf_view v[2] = { { .name = "latents", .dtype = VC_F32, .nd = 4, .data = s->x,
                       .dim = { s->dim[1], s->dim[2], s->dim[3], s->dim[4] },
                       .bytes = s->n * sizeof(float) } };
    int rc = s->heard.n ? heard_end(&s->heard, t, &v[1], err) : 0;
    if (rc)
        return rc;
    char *path = vc_path_join(dir, name);
    if (!path)
        return vc_no_memory(err);
    rc = vf_safetensors_write(path, v, s->heard.n ? 2 : 1, meta, n_meta, err);
    free(path);
    return rc;
}

/* Writes what stands beside the prompt's samples; an image may be the clean first frame alone. */
static int write_inputs(const sampling *s, const vtrain *t, uint32_t i, vc_err *err)
{
    const unsigned roles = roles_of(s) | (s->first ? VC_ROLE_BIT(VC_ROLE_IMAGE) : 0);
    return vtrain_inputs_write(t, i, &s->p, roles, s->p.f - s->front, err);
}

static int sample_one(vtrain *t, const char *dir, uint32_t i, vtrain_watching *w, vc_err *err)
{
    sampling s = { .w = w };
    vtrain_watch_sample(w);
    int rc = begin(&s, t, i, err);
    if (!rc && !t->validation.reported)
        rc = write_inputs(&s, t, i, err);
    if (!rc)
        rc = walk(&s, t, err);
    if (!rc)
        rc = check_finite(&s, err);
    if (!rc) {
        drop_front(&s);
        denormalise(&s, vtrain_data_norm(t->data));
        rc = write(&s, t, dir, i, err);
    }
    sampling_free(&s);
    return vc_context(err, rc, "validation prompt %u", i);
}

/* Makes a dry forward of a prompt. Where there is no memory for the two prompts of guidance at
 * once, this run computes them apart. */
static int check_memory(vtrain *t, sampling *s, vt_usage *use, vc_err *err)
{
    int rc = vtrain_micro_dry(t, s->dim, &s->p.own, false, (vtrain_recompute){ 0 }, use, err);
    if (s->dim[0] == 1 || (rc && rc != VC_ENOMEM) || (!rc && vtrain_memory_holds(t, use)))
        return rc;
    vc_say(t->ui, "validation prompt %u: guidance computes its two predictions one after the "
           "other, because there is no memory for both at once", s->number);
    t->validation.apart = true;
    s->dim[0] = 1;
    return vtrain_micro_dry(t, s->dim, &s->p.own, false, (vtrain_recompute){ 0 }, use, err);
}

int vtrain_validate_check(vtrain *t, vc_err *err)
{
    vtrain_fit fit;
    int rc = 0;
    t->model.family->fit(t->model.dit, &fit);
    t->plan.sample_flops = 0;
    for (uint32_t i = 0; !rc && i < vtrain_data_prompts(t->data); i++) {
        sampling s = { 0 };
        rc = open_prompt(&s, t, &fit, i, err);
        vt_usage use = { 0 };
        if (!rc)
            rc = check_memory(t, &s, &use, err);
        t->plan.sample_flops += use.flops * s.steps * s.prompts / (double)(s.dim[0] ? s.dim[0] : 1);
        sampling_free(&s);
        if (rc)
            vc_context(err, rc, "validation prompt %u", i);
    }
    return rc;
}

int vtrain_validate(vtrain *t, vc_err *err)
{
    char *dir = vc_format("%s/validation/step-%lld", t->cfg.output_dir, (long long)t->at.step);
    if (!dir)
        return vc_no_memory(err);
    int rc = vtrain_opt_show_all(t->optim.state, err);
    if (!rc)
        rc = vc_mkdirs(dir, err);
    uint32_t ranks = (uint32_t)vc_comm_size(t->comm), first = (uint32_t)vc_comm_rank(t->comm);
    uint32_t n = vtrain_data_prompts(t->data);
    vtrain_watching w = { .t = t, .begun = vc_seconds(),
                          .samples = n > first ? (int)((n - first + ranks - 1) / ranks) : 0 };
    for (uint32_t i = first; !rc && i < n; i += ranks)
        rc = sample_one(t, dir, i, &w, err);
    if (!rc)
        vtrain_watch_report(&w, dir, n);
    t->validation.reported = true;
    vtrain_opt_hide(t->optim.state);
    free(dir);
    return rc;
}

bool vtrain_validated(const vtrain *t)
{
    bool all = true;
    for (uint32_t i = 0; all && i < vtrain_data_prompts(t->data); i++) {
        char *path = vc_format("%s/validation/step-%lld/%03u.safetensors", t->cfg.output_dir,
                               (long long)t->at.step, i);
        all = path && vc_file_exists(path);
        free(path);
    }
    return all;
}
