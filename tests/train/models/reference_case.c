/* reference_case.c - reads the inputs and results of a golden's case; see reference.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

float *ref_values(const vf_safetensors *f, const char *name, const char *what, int64_t *dim)
{
    char full[160];
    int64_t d[8];
    vf_view v;
    snprintf(full, sizeof full, "%s/%s", name, what);
    if (vf_safetensors_get(f, full, &v, NULL))
        return NULL;
    float *x = golden_values(f, full, d);
    if (dim)
        memcpy(dim, d, sizeof *d * (size_t)v.nd);
    return x;
}

/* Reads the texts of a slot and their lengths; without these all rows are tokens. */
static float *read_text(const vf_safetensors *f, const char *name, const char *what,
                        const char *lengths, int64_t dim[3], int32_t length[8])
{
    float *text = ref_values(f, name, what, dim), *n = ref_values(f, name, lengths, NULL);
    for (int i = 0; text && i < dim[0] && i < 8; i++)
        length[i] = (int32_t)(n ? n[i] : (float)dim[1]);
    free(n);
    return text;
}

void ref_case_open(ref_case *c, const vf_safetensors *f, const char *name)
{
    static const char *const roles[VC_ROLES] = {
        [VC_ROLE_IMAGE] = "cond.image", [VC_ROLE_VIDEO] = "cond.video",
        [VC_ROLE_MASK] = "cond.mask", [VC_ROLE_VISION] = "cond.vision",
        [VC_ROLE_CONTROL] = "cond.control", [VC_ROLE_REACTIVE] = "cond.reactive",
        [VC_ROLE_REFERENCE] = "cond.reference_1",
        [VC_ROLE_REFERENCE + 1] = "cond.reference_2", [VC_ROLE_REFERENCE + 2] = "cond.reference_3",
    };
    *c = (ref_case){ 0 };
    c->x = ref_values(f, name, "x", c->dim);
    c->target = ref_values(f, name, "target", NULL);
    c->t = ref_values(f, name, "t", NULL);
    c->t_next = ref_values(f, name, "t_next", NULL);
    c->text = read_text(f, name, "text", "length", c->text_dim, c->length);
    c->text_2 = read_text(f, name, "text_2", "length_2", c->text_2_dim, c->length_2);
    c->text_3 = read_text(f, name, "text_3", "length_3", c->text_3_dim, c->length_3);
    c->pooled_2 = ref_values(f, name, "pooled_2", c->pooled_2_dim);
    c->pooled = ref_values(f, name, "pooled", c->pooled_dim);
    c->output = ref_values(f, name, "output", NULL);
    float *loss = ref_values(f, name, "loss", NULL);
    c->loss = loss ? loss[0] : 0;
    free(loss);
    for (int i = 0; i < VC_ROLES; i++)
        c->cond[i] = roles[i] ? ref_values(f, name, roles[i], c->cond_dim[i]) : NULL;
    c->token_t = ref_values(f, name, "token_t", c->token_dim);
    c->frame_t = ref_values(f, name, "frame_t", c->frame_dim);
    c->sound = ref_values(f, name, "sound", c->sound_dim);
    c->sound_target = ref_values(f, name, "sound_target", NULL);
    c->sound_output = ref_values(f, name, "sound_output", NULL);
    float *heard = ref_values(f, name, "sound_length", NULL);
    for (int i = 0; heard && i < c->dim[0]; i++)
        c->sound_length[i] = (int32_t)heard[i];
    free(heard);
    c->guidance = ref_values(f, name, "guidance", NULL);
    c->control_scale = ref_values(f, name, "control_scale", NULL);
    c->first_row = ref_values(f, name, "first_row", NULL);
    float *kind = ref_values(f, name, "control_mode", NULL);
    float *fps = ref_values(f, name, "fps", NULL);
    c->has_kinds = kind != NULL;
    for (int i = 0; kind && i < c->dim[0]; i++)
        c->control_kind[i] = (int32_t)kind[i];
    free(kind);
    float *clean = ref_values(f, name, "clean", NULL);
    for (int i = 0; i < c->dim[0]; i++) {
        c->fps[i] = fps ? fps[i] : 0;
        c->clean[i] = clean && clean[i];
    }
    free(fps);
    free(clean);
    assert_true(c->x && c->target && c->t && c->text && c->dim[0] <= 8);
}

void ref_case_close(ref_case *c)
{
    free(c->x);
    free(c->target);
    free(c->t);
    free(c->t_next);
    free(c->text);
    free(c->text_2);
    free(c->text_3);
    free(c->pooled_2);
    free(c->pooled);
    free(c->token_t);
    free(c->frame_t);
    free(c->guidance);
    free(c->control_scale);
    free(c->first_row);
    free(c->output);
    free(c->sound);
    free(c->sound_target);
    free(c->sound_output);
    for (int i = 0; i < VC_ROLES; i++)
        free(c->cond[i]);
}
