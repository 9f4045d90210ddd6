/* sound.c - see sound.h */
#include "train/steps/sound.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

static vt_tensor *rows_of(vt_ctx *g, int64_t rows, const float *v)
{
    return vt_from_host(g, VC_F32, 1, &rows, v, VC_F32);
}

/* A row's weight on the frames that it has, so that their mean over all frames is the row's. */
static vt_tensor *make_weight(vt_ctx *g, const vtrain_batch *b, const vtrain_levels *v)
{
    const int64_t rows = b->sound_dim[0], l = b->sound_dim[2], dim[5] = { rows, 1, l, 1, 1 };
    float *x = calloc((size_t)(rows * l), sizeof *x);
    if (!x)
        return vt_fail(g, VC_ENOMEM, "weights of the sound: out of memory");
    for (int64_t i = 0; i < rows * l; i++)
        if (i % l < b->sound_length[i / l])
            x[i] = v->weight[i / l] * (float)l / (float)b->sound_length[i / l];
    vt_tensor *w = vt_from_host(g, VC_F32, 5, dim, x, VC_F32);
    free(x);
    return w;
}

void vtrain_heard_load(const vtrain *t, vtrain_heard *s, vtrain_in *in, const vtrain_batch *b,
                       const vtrain_levels *v, uint64_t seed, uint64_t number)
{
    vt_ctx *g = t->g;
    const int64_t *dim = b->sound_dim, rows = dim[0];
    if (!dim[1])
        return;
    vt_tensor *x = vt_from_host(g, VC_F32, 5, dim, b->sound, VC_F32);
    vt_tensor *noise = vt_randn(g, 5, dim, seed, b->first, (uint32_t)number, VC_DRAW_SOUND);
    s->noisy = vt_mix(g, x, noise, rows_of(g, rows, v->x_of), rows_of(g, rows, v->n_of));
    s->target = b->base ? vt_from_host(g, VC_F32, 5, dim, b->sound_target, VC_F32)
                        : vt_mix(g, x, noise, rows_of(g, rows, v->tx_of),
                                 rows_of(g, rows, v->tn_of));
    s->weight = make_weight(g, b, v);
    in->sound = s->noisy;
    in->sound_length = b->sound_length;
    vtrain_note(in, "audio_noise", noise);
    vtrain_note(in, "audio_latents", x);
    vtrain_note(in, "audio_target", s->target);
}

vt_tensor *vtrain_heard_loss(vt_ctx *g, const vtrain_heard *s, const vtrain_loss_opts *o)
{
    return vtrain_loss(g, s->pred, s->target, s->weight, o);
}

void vtrain_heard_dry(const vtrain *t, vtrain_batch *b, int32_t *length)
{
    const vtrain_sound *is = vtrain_data_sound(t->data);
    const int64_t *dim = b->dim;
    int most = 0;
    b->sound_length = length;
    if (!is->channels)
        return;
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        if (g->padded == dim[2] && g->h == dim[3] && g->w == dim[4] && g->sound > most)
            most = g->sound;
    }
    const vtrain_fit fit = vtrain_fit_of(t);
    if (!most)
        most = vtrain_data_sound_frames(t->data, 8 * (double)(dim[2] - 1) + 1, fit.fps);
    const int64_t of[5] = { dim[0], is->channels, most, 1, is->bins };
    memcpy(b->sound_dim, of, sizeof of);
    for (int64_t row = 0; row < dim[0]; row++)
        length[row] = most;
}
