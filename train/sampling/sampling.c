/* sampling.c - see sampling.h */
#include "train/sampling/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "train/sampling/frames.h"
#include "train/sampling/skipped.h"
#include "train/sampling/pictures.h"
#include "train/sampling/texts.h"

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
        s->copies = s->front;
    }
    for (int k = 0; k < VC_REFERENCES && fit->references_in_front && s->p.own.size[k][0]; k++) {
        s->front++;
        s->p.f++;
    }
    bool any = s->p.aside[VTRAIN_START].x, clip = false;
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

static int make_plan(sampling *s, const vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_model *m = &t->model;
    const vtrain_solver_opts o = vtrain_scheduler_plan(
        &m->scheduler, (vtrain_sampler)(c->validation_sampler - 1),
        m->pipeline, t->objective, (int64_t)s->tokens, s->steps);
    s->start = vtrain_solver_start(&o);
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
    s->out = malloc(one * (size_t)(s->prompts + (s->skipped != 0)));
    const bool norms = t->model.family->renormalised && s->prompts > 1;
    if (norms)
        s->norm = calloc(2 * s->tokens, sizeof *s->norm);
    if (!s->x || !s->past || !s->noise || !s->in || !s->out || (norms && !s->norm))
        return vc_no_memory(err);
    for (int k = 0; !rc && k < vtrain_data_slots(t->data); k++) {
        const vtrain_embeds *row[2] = { &s->p.pos[k], &s->p.neg[k] };
        const vtrain_slot *slot = vtrain_data_slot(t->data, k);
        const int texts = s->unprompted ? 1 : s->prompts;
        rc = sampling_text(&s->text[k], row, texts, slot, err);
        if (!rc)
            rc = sampling_pooled(&s->text[k], row, texts, slot->pooled, err);
        if (!rc && s->unprompted && !(s->no_text[k] = calloc((size_t)s->text[k].width,
                                                             sizeof *s->no_text[k])))
            rc = vc_no_memory(err);
    }
    return rc;
}

int sampling_open(sampling *s, const vtrain *t, const vtrain_fit *fit, uint32_t i, vc_err *err)
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
    s->unprompted = s->prompts > 1 && t->model.unconditional.dit;
    if (!rc && s->prompts > 1)
        rc = sampling_skipped(&s->skipped, t, err);
    const int rows = t->validation.apart || s->unprompted ? 1 : s->prompts;
    const int64_t dim[5] = { rows, vtrain_data_norm(t->data)->channels, s->p.f, s->p.h, s->p.w };
    memcpy(s->dim, dim, sizeof dim);
    s->n = (size_t)(dim[1] * dim[2] * dim[3] * dim[4]);
    if (!rc)
        rc = sampling_frames_size(s, t, fit, err);
    heard_size(&s->heard, t, rows, s->p.frames, s->p.fps);
    s->tokens = 1;
    for (int k = 0; k < 3; k++) {
        s->patch[k] = fit->mult[k];
        s->tokens *= (size_t)(dim[2 + k] / fit->mult[k]);
    }
    return rc;
}

int sampling_begin(sampling *s, vtrain *t, uint32_t i, vc_err *err)
{
    const vtrain_fit fit = vtrain_fit_of(t);
    int rc = sampling_open(s, t, &fit, i, err);
    if (!rc)
        rc = make_plan(s, t, err);
    if (!rc)
        rc = make_rows(s, t, err);
    if (!rc)
        rc = sampling_conditions(s, t, &fit, err);
    if (!rc)
        rc = sampling_first(s, t, &fit, err);
    if (rc)
        return rc;
    sampling_report(s, t, &fit);
    s->seed = s->p.has_seed ? s->p.seed : (uint64_t)t->cfg.seed;
    vc_train_normals(s->x, 0, s->n, s->seed, i, 0, VC_DRAW_VALIDATION);
    for (size_t k = 0; s->start != 1 && k < s->n; k++)
        s->x[k] *= (float)s->start;
    sampling_mix_image(s, &fit);
    rc = heard_open(&s->heard, s->prompts, s->seed, i, err);
    s->skip = fit.skip_frames < s->p.frames ? fit.skip_frames : 0;
    return rc;
}

void sampling_free(sampling *s)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        free(s->text[i].embeds);
        free(s->text[i].length);
        free(s->text[i].pooled);
        free(s->no_text[i]);
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
    free(s->last);
    heard_close(&s->heard);
    vtrain_prompt_free(&s->p);
}
