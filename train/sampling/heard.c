/* heard.c - see heard.h */
#include "train/sampling/heard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

void heard_size(sampling_heard *s, const vtrain *t, int64_t rows, int frames, double fps)
{
    const vtrain_sound *is = vtrain_data_sound(t->data);
    *s = (sampling_heard){ .n = 0 };
    if (!is->channels)
        return;
    const int64_t dim[5] = { rows, is->channels, vtrain_data_sound_frames(t->data, frames, fps), 1,
                             is->bins };
    memcpy(s->dim, dim, sizeof dim);
    s->n = (size_t)(dim[1] * dim[2] * dim[4]);
}

int heard_open(sampling_heard *s, int prompts, uint64_t seed, uint32_t number, vc_err *err)
{
    const size_t one = s->n * sizeof *s->x, rows = (size_t)s->dim[0];
    if (!s->n)
        return 0;
    s->length = malloc(rows * sizeof *s->length);
    s->x = malloc(one);
    s->in = malloc(rows * one);
    s->out = malloc((size_t)prompts * one);
    s->past = malloc(2 * one);
    s->noise = malloc(one);
    if (!s->length || !s->x || !s->in || !s->out || !s->past || !s->noise)
        return vc_no_memory(err);
    for (size_t i = 0; i < rows; i++)
        s->length[i] = (int32_t)s->dim[2];
    vc_train_normals(s->x, 0, s->n, seed, number, 0, VC_DRAW_SOUND_VALIDATION);
    return 0;
}

void heard_close(sampling_heard *s)
{
    free(s->length);
    free(s->x);
    free(s->in);
    free(s->out);
    free(s->past);
    free(s->noise);
}

void heard_ask(sampling_heard *s, vtrain_question *q, int prompt)
{
    if (!s->n)
        return;
    for (int64_t row = 0; row < s->dim[0]; row++)
        memcpy(s->in + (size_t)row * s->n, s->x, s->n * sizeof *s->x);
    q->sound_dim = s->dim;
    q->sound = s->in;
    q->sound_length = s->length;
    q->sound_out = s->out + (size_t)prompt * s->n;
}

void heard_guide(sampling_heard *s, double weight, double rescale)
{
    if (s->n)
        vtrain_guide(s->out, s->out + s->n, s->n, weight, rescale);
}

void heard_step(sampling_heard *s, const vtrain_solver_step *step, uint64_t seed, uint32_t number,
                int i)
{
    if (!s->n)
        return;
    if (step->noise != 0)
        vc_train_normals(s->noise, 0, s->n, seed, number, (uint32_t)i + 1,
                         VC_DRAW_SOUND_VALIDATION);
    vtrain_solver_apply(step, s->x, s->past, s->out, s->noise, s->n);
}

int heard_end(sampling_heard *s, const vtrain *t, vf_view *v, vc_err *err)
{
    const vtrain_norm *norm = &vtrain_data_sound(t->data)->norm;
    const size_t bins = (size_t)s->dim[4], of_channel = (size_t)s->dim[2] * bins;
    for (size_t i = 0; i < s->n; i++) {
        const size_t k = i / of_channel * bins + i % bins;
        s->x[i] = s->x[i] / norm->mul[k] + norm->sub[k];
        if (!isfinite(s->x[i]))
            return vc_fail(err, VC_ENUMERIC, "the sample's sound is not finite");
    }
    *v = (vf_view){ .name = vc_roles[VC_ROLE_AUDIO].name, .dtype = VC_F32, .nd = 4, .data = s->x,
                    .dim = { s->dim[1], s->dim[2], 1, s->dim[4] }, .bytes = s->n * sizeof *s->x };
    return 0;
}
