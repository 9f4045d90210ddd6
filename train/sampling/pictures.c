/* pictures.c - see pictures.h */
#include "train/sampling/pictures.h"

#include <stdlib.h>
#include <string.h>

/* Normalises one of the prompt's conditions and copies the result to every row; frames padded in
 * front are copies of the first frame. */
static int make_condition(sampling *s, const vtrain *t, vc_role role, vc_err *err)
{
    const vtrain_norm *norm = vtrain_data_role_norm(t->data, role);
    int64_t of[5];
    vtrain_data_role_dim(t->data, role, s->dim, &s->p.own, of);
    size_t plane = (size_t)(of[3] * of[4]), front = (size_t)s->copies;
    size_t f = (size_t)s->dim[2] - (size_t)s->front;
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

int sampling_conditions(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < VC_ROLES; i++)
        if (fit->roles & 1u << i && vc_roles[i].kind == VC_VALUE_EMBEDS)
            rc = make_embeds(s, t, (vc_role)i, err);
        else if ((fit->roles | fit->references) & 1u << i && s->p.cond[i])
            rc = make_condition(s, t, (vc_role)i, err);
    return rc;
}

unsigned sampling_roles(const sampling *s)
{
    unsigned roles = 0;
    for (int i = 0; i < VC_ROLES; i++)
        roles |= s->cond[i] ? 1u << i : 0;
    return roles;
}

/* *to: x as the model takes latents, of `each` elements a channel; x NULL: nothing. */
static int normalise(float **to, const vtrain *t, const float *x, size_t each, vc_err *err)
{
    const vtrain_norm *norm = vtrain_data_norm(t->data);
    const size_t n = each * (size_t)norm->channels;
    if (!x)
        return 0;
    *to = malloc(sizeof **to * n);
    for (size_t i = 0; *to && i < n; i++)
        (*to)[i] = (x[i] - norm->sub[i / each]) * norm->mul[i / each];
    return *to ? 0 : vc_no_memory(err);
}

int sampling_first(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    const vtrain_aside *start = &s->p.aside[VTRAIN_START];
    const float *image = s->p.cond[VC_ROLE_IMAGE];
    const size_t plane = (size_t)(s->dim[3] * s->dim[4]);
    s->clean = start->x ? (int)start->dim[1] : fit->mult[0];
    if (!(t->cfg.first_frame_conditioning_p > 0) || s->dim[2] <= s->clean)
        image = NULL;
    int rc = start->x ? normalise(&s->first, t, start->x, plane * (size_t)start->dim[1], err)
                      : normalise(&s->first, t, image, plane, err);
    return rc ? rc : normalise(&s->last, t, s->p.aside[VTRAIN_LAST].x, plane, err);
}

void sampling_put_first(sampling *s, double share)
{
    size_t plane = (size_t)(s->dim[3] * s->dim[4]), clip = (size_t)s->dim[2] * plane;
    size_t front = (size_t)s->clean * plane;
    for (size_t i = 0; s->first && i < (size_t)s->dim[1] * front; i++) {
        size_t c = i / front, at = c * clip + i % front;
        float noise = share > 0 ? (float)share * s->noise[at] : 0;
        s->x[at] = s->first[c * plane + i % plane] + noise;
    }
}

void sampling_mix_image(sampling *s, const vtrain_fit *fit)
{
    const float *image = s->first ? s->first : s->cond[VC_ROLE_IMAGE];
    const size_t plane = (size_t)(s->dim[3] * s->dim[4]), clip = (size_t)s->dim[2] * plane;
    const float share = (float)fit->image_start;
    for (size_t i = 0; share > 0 && image && i < s->n; i++)
        s->x[i] = s->x[i] * (1 - share) + image[i / clip * plane + i % plane] * share;
}

void sampling_report(const sampling *s, const vtrain *t, const vtrain_fit *fit)
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
               : !fit->token_times && !fit->clean_rows ? "which this transformer does not take"
               : t->cfg.first_frame_conditioning_p > 0 ? "that would be all of its sample, which "
               "has one latent frame: give the prompt more num_frames"
               : "that is not its first frame without --first_frame_conditioning_p");
}
