/* losses.c - see losses.h */
#include "train/steps/losses.h"

#include <math.h>

#include "train/diffusion/loss.h"

/* v[:,:,1:] - v[:,:,:-1]: the difference of each latent frame from the frame before. */
static vt_tensor *frame_steps(vt_ctx *g, vt_tensor *v)
{
    int64_t f = v ? v->dim[2] : 1;
    return vt_sub(g, vt_slice(g, v, 2, 1, f), vt_slice(g, v, 2, 0, f - 1));
}

static vtrain_loss_opts loss_opts(const vtrain *t)
{
    return (vtrain_loss_opts){ (vtrain_loss_type)t->cfg.loss_type, t->cfg.loss_delta,
                               t->cfg.loss_cutoff };
}

/* The loss of the video; with --motion_sub_loss, and at least three latent frames, blended with the
 * mean squared error of the frames' differences. */
static vt_tensor *video_loss(const vtrain *t, const vtrain_tensors *p)
{
    vt_ctx *g = t->g;
    const vtrain_noised *n = &p->n;
    const vtrain_loss_opts o = loss_opts(t);
    vt_tensor *loss = vtrain_loss(g, p->pred, n->target, n->weight, &o);
    if (!n->motion_weight)
        return loss;
    vt_tensor *motion = vt_mse(g, frame_steps(g, vt_cast(g, p->pred, VC_F32)),
                               frame_steps(g, n->target), n->motion_weight);
    double ratio = t->cfg.motion_sub_loss_ratio;
    return vt_add(g, vt_scale(g, loss, (float)(1 - ratio)), vt_scale(g, motion, (float)ratio));
}

static vt_tensor *sound_loss(const vtrain *t, const vtrain_tensors *p)
{
    const vtrain_loss_opts o = loss_opts(t);
    return vtrain_heard_loss(t->g, &p->heard, &o);
}

vt_tensor *vtrain_loss_of(const vtrain *t, const vtrain_tensors *p)
{
    vt_ctx *g = t->g;
    if (!p->heard.pred)
        return video_loss(t, p);
    return vt_add(g, vt_scale(g, video_loss(t, p), (float)t->cfg.video_loss_weight),
                  vt_scale(g, sound_loss(t, p), (float)t->cfg.audio_loss_weight));
}

/* ---- of rows ---- */

static vt_tensor *row_of(vt_ctx *g, vt_tensor *x, int64_t row)
{
    return x && x->dim[0] > 1 ? vt_slice(g, x, 0, row, row + 1) : x;
}

static vt_tensor *row_loss(const vtrain *t, const vtrain_tensors *p, int64_t row, int which)
{
    vt_ctx *g = t->g;
    const vtrain_heard *h = &p->heard;
    const vtrain_tensors one = {
        .pred = vt_detach(g, row_of(g, p->pred, row)),
        .n = { .target = row_of(g, p->n.target, row), .weight = row_of(g, p->n.weight, row),
               .motion_weight = row_of(g, p->n.motion_weight, row) },
        .heard = { .pred = h->pred ? vt_detach(g, row_of(g, h->pred, row)) : NULL,
                   .target = row_of(g, h->target, row), .weight = row_of(g, h->weight, row) },
    };
    return which == VTRAIN_OF_ROW ? vtrain_loss_of(t, &one)
           : which == VTRAIN_OF_VIDEO ? video_loss(t, &one) : sound_loss(t, &one);
}

vt_tensor *vtrain_losses_of(const vtrain *t, const vtrain_tensors *p)
{
    vt_ctx *g = t->g;
    const int64_t each = p->heard.pred ? VTRAIN_ROW_LOSSES : 1, one = 1;
    const int64_t rows = p->pred ? p->pred->dim[0] : 0, n = 1 + rows * each;
    if ((rows < 2 && each == 1) || !p->loss)
        return p->loss;
    vt_tensor *all = vt_new_for_step(g, VC_F32, 1, &n);
    for (int64_t i = 0; i < n && all; i++) {
        vt_tensor *loss = i ? row_loss(t, p, (i - 1) / each, (int)((i - 1) % each))
                            : vt_detach(g, p->loss);
        vt_assign(g, vt_slice(g, all, 0, i, i + 1), vt_reshape(g, loss, 1, &one));
    }
    return all;
}

static void add_loss(vtrain_part_loss *p, double loss)
{
    p->sum += loss;
    p->n++;
}

void vtrain_losses_note(const vtrain *t, const vtrain_levels *v, vtrain_micro *m,
                        const float *losses)
{
    const vtrain_batch *b = m->batch;
    const bool grows = vtrain_noise_grows(t), heard = b->sound_dim[1];
    for (int row = 0; row < b->counted; row++) {
        const float *of = b->rows > 1 || heard ? losses + 1 + row * (heard ? VTRAIN_ROW_LOSSES : 1)
                                               : losses;
        const double loss = (double)of[VTRAIN_OF_ROW] / b->share;
        if (heard && !b->held[row])
            add_loss(&m->of_kind[VTRAIN_LOSS_VIDEO], (double)of[VTRAIN_OF_VIDEO] / b->share);
        if (heard && !b->held[row] && b->sound_length[row])
            add_loss(&m->of_kind[VTRAIN_LOSS_AUDIO], (double)of[VTRAIN_OF_SOUND] / b->share);
        add_loss(&m->of_kind[b->held[row] ? VTRAIN_LOSS_PRIOR : VTRAIN_LOSS_OWN], loss);
        if (b->held[row] || isnan(v->quantile[row]))
            continue;
        const int at = (int)(VTRAIN_NOISE_LEVELS * v->quantile[row]);
        const int q = at < VTRAIN_NOISE_LEVELS ? at : VTRAIN_NOISE_LEVELS - 1;
        add_loss(&m->of_level[grows ? q : VTRAIN_NOISE_LEVELS - 1 - q], loss);
    }
}
