/* frames.c - see frames.h */
#include "train/sampling/frames.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "train/sampling/guidance.h"

enum { USUAL_WINDOW = 97 };                   /* the default of --base_num_frames */

/* ---- flags ---- */

static bool wanted(const vtrain_config *c)
{
    return c->ar_step > 0 || c->causal_block_size > 1 || c->overlap_history > 0 ||
           c->addnoise_condition > 0;
}

static const char *flag_of(const vtrain_config *c)
{
    return c->ar_step > 0 ? "--ar_step" : c->causal_block_size > 1 ? "--causal_block_size"
           : c->overlap_history > 0 ? "--overlap_history" : "--addnoise_condition";
}

/* by: what asks for levels of frames, a `what` that can be left out. */
static int check_model(const vtrain *t, const char *by, const char *what, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_fit fit = vtrain_fit_of(t);
    const bool long_ones = c->overlap_history > 0;
    const struct { bool is; const char *what; } without[] = {
        { !fit.frame_times || fit.mult[0] > 1, "the model takes one timestep for all frames of a "
          "sample: give a --model of SkyReels V2, Wan or LTX-Video, or" },
        { fit.sound > 0, "the sound of a sample has one level:" },
        { fit.references_in_front, "reference pictures are frames of the sample:" },
        { c->objective == 1 + VTRAIN_V, "the levels are those of a flow, and the model predicts "
          "v:" },
        { t->model.boundary > 0, "the frames of a sample would belong to both transformers:" },
        { c->guidance_schedule > 0, "the frames are at different steps, and --guidance_schedule "
          "has a weight for a step: leave that out, or" },
        { c->causal_block_size > 1 && !fit.causal, "the tokens of the model's blocks attend to all "
          "frames: give --causal_block_size 1, or" },
        { long_ones && fit.roles, "windows of a sample have no pictures beside the latents:" },
        { long_ones && vtrain_data_latents(t->data, c->overlap_history) >=
                       vtrain_data_latents(t->data, c->base_num_frames),
          "a window of --base_num_frames has more frames than it shares with the one before: give "
          "a smaller number, or" },
    };
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (without[i].is)
            return vc_fail(err, VC_EUSAGE, "%s: %s leave the %s out", by, without[i].what, what);
    return 0;
}

int sampling_frames_check(const vtrain *t, vc_err *err)
{
    return wanted(&t->cfg) ? check_model(t, flag_of(&t->cfg), "flag", err) : 0;
}

/* ---- known frames ---- */

#define START "video_path"
#define LAST "last_image_path"

/* Whether the prompt has known frames besides a first one. */
static bool has_known(const vtrain_prompt *p)
{
    return p->aside[VTRAIN_START].x || p->aside[VTRAIN_LAST].x;
}

/* The known frames at the beginning of the sample. */
static int known_at_start(const sampling *s, const vtrain *t)
{
    const vtrain_aside *start = &s->p.aside[VTRAIN_START];
    return start->x ? (int)start->dim[1]
                    : s->p.cond[VC_ROLE_IMAGE] && t->cfg.first_frame_conditioning_p > 0;
}

/* Checks the clip that the sample goes on from, and the picture behind it. */
static int check_known(const sampling *s, const vtrain *t, vc_err *err)
{
    const sampling_windows *w = &s->windows;
    const bool last = w->behind;
    if (!has_known(&s->p))
        return 0;
    int rc = check_model(t, last ? LAST : START, "field", err);
    if (rc)
        return rc;
    if (last && !w->known)
        return vc_fail(err, VC_EUSAGE, LAST ": the sample begins with no picture: give it an "
                       "image_path and the run --first_frame_conditioning_p, or leave the field "
                       "out");
    if (last && w->block > 1)
        return vc_fail(err, VC_EUSAGE, LAST ": blocks of %d frames attend to no later frame, and "
                       "so to no last picture: leave the field or --causal_block_size out",
                       w->block);
    if (w->known >= w->window)
        return vc_fail(err, VC_EUSAGE, "%s: %d latent frames are known, and the sample%s has %d: "
                       "give more num_frames%s", last ? LAST : START, w->known,
                       w->window < w->n ? "'s first window" : "", w->window, w->window < w->n ?
                       " to a window (--base_num_frames), or a smaller overlap_history" : "");
    return 0;
}

/* ---- sizes ---- */

/* Windows, too, are whole blocks. */
static int check_blocks(const sampling_windows *w, vc_err *err)
{
    for (int at = -1; (at = sampling_window_next(w, at)) >= 0;) {
        const int n = sampling_window_size(w, at);
        if (n % w->block || (at && w->shared % w->block))
            return vc_fail(err, VC_EUSAGE, "--causal_block_size %d: a window of %d latent frames, "
                           "%d of them known, is no whole number of blocks: give the prompt "
                           "num_frames, or --base_num_frames and --overlap_history, of whole "
                           "blocks", w->block, n, at ? w->shared : 0);
    }
    return 0;
}

int sampling_frames_size(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    sampling_windows *w = &s->windows;
    const int64_t window = vtrain_data_latents(t->data, c->base_num_frames);
    if (c->base_num_frames && c->base_num_frames != USUAL_WINDOW && !c->overlap_history &&
        window < s->p.f)
        return vc_fail(err, VC_EUSAGE, "--base_num_frames: the windows of a longer sample share "
                       "--overlap_history frames: give that flag too, or leave this one out for a "
                       "single window");
    if (!has_known(&s->p) && (!wanted(c) || s->p.f < 2))
        return 0;
    *w = (sampling_windows){ .n = s->p.f, .window = s->p.f, .lag = (int)c->ar_step,
                             .known = known_at_start(s, t),
                             .behind = s->p.aside[VTRAIN_LAST].x != NULL,
                             .block = c->causal_block_size ? (int)c->causal_block_size
                                      : fit->causal ? fit->causal : 1,
                             .noise = c->addnoise_condition / VTRAIN_TIMES };
    if (c->overlap_history > 0 && window < w->n) {
        w->window = (int)window;
        w->shared = (int)vtrain_data_latents(t->data, c->overlap_history);
    }
    s->dim[2] = w->window + w->behind;
    s->n = s->n / (size_t)w->n * (size_t)s->dim[2];
    int rc = check_known(s, t, err);
    return rc ? rc : check_blocks(w, err);
}

const vtrain_paced *sampling_frames_paced(const sampling *s, vtrain_paced *p)
{
    *p = (vtrain_paced){ .causal = s->windows.block };
    return s->windows.n ? p : NULL;
}

/* The first frames of the window at `from` that take no step. */
static int known_frames(const sampling *s, int from)
{
    return from ? s->windows.shared : s->windows.known;
}

static int open_pace(sampling_pace *p, const sampling *s, int from, vc_err *err)
{
    const sampling_windows *w = &s->windows;
    return sampling_pace_open(p, sampling_window_size(w, from) / w->block,
                              known_frames(s, from) / w->block, s->steps, w->lag, err);
}

int sampling_frames_forwards(const sampling *s, int *n, vc_err *err)
{
    *n = s->windows.n ? 0 : s->steps;
    for (int at = -1; s->windows.n && (at = sampling_window_next(&s->windows, at)) >= 0;) {
        sampling_pace p;
        int rc = open_pace(&p, s, at, err);
        if (rc)
            return rc;
        while (sampling_pace_next(&p))
            ++*n;
        sampling_pace_close(&p);
    }
    return 0;
}

/* ---- the sample ---- */

/* All frames, each in one piece, so that a step of one is a step of vtrain_solver_apply. */
typedef struct frames {
    size_t plane, each;          /* elements of a frame's channel, and of a frame */
    float *x, *past;             /* [n,each], [n,2,each] */
    float *drawn;                /* [C,n,h,w] the noise of this forward */
    float *v;                    /* [each] the model's answer for a frame */
    float *time;                 /* [window, and 1 behind it] */
    int forward, forwards;       /* from 0; of the sample */
} frames;

/* Copies frame i of n of x [C,n,h,w] to `frame`, or back. */
static void copy_frame(const frames *a, float *frame, float *x, int i, int n, bool back)
{
    for (size_t c = 0; c < a->each / a->plane; c++) {
        float *one = frame + c * a->plane, *at = x + (c * (size_t)n + (size_t)i) * a->plane;
        memcpy(back ? at : one, back ? one : at, a->plane * sizeof *x);
    }
}

static void draw(const frames *a, const sampling *s, int micro)
{
    vc_train_normals(a->drawn, 0, a->each * (size_t)s->windows.n, s->seed, s->number,
                     (uint32_t)micro, VC_DRAW_VALIDATION);
}

static void close_frames(frames *a)
{
    free(a->x);
    free(a->past);
    free(a->drawn);
    free(a->v);
    free(a->time);
}

static int open_frames(frames *a, const sampling *s, vc_err *err)
{
    const int n = s->windows.n;
    const size_t plane = (size_t)(s->dim[3] * s->dim[4]), each = (size_t)s->dim[1] * plane;
    const size_t all = each * (size_t)n;
    *a = (frames){ .plane = plane, .each = each, .x = malloc(all * sizeof *a->x),
                   .past = malloc(2 * all * sizeof *a->past),
                   .drawn = malloc(all * sizeof *a->drawn), .v = malloc(each * sizeof *a->v),
                   .time = malloc((size_t)s->dim[2] * sizeof *a->time) };
    if (!a->x || !a->past || !a->drawn || !a->v || !a->time)
        return vc_no_memory(err);
    draw(a, s, 0);
    for (int i = 0; i < n; i++)
        copy_frame(a, a->x + (size_t)i * each, a->drawn, i, n, false);
    for (int i = 0; i < s->windows.known; i++)
        copy_frame(a, a->x + (size_t)i * each, s->first, i, s->windows.known, false);
    return sampling_frames_forwards(s, &a->forwards, err);
}

/* Gives the model frame `from + i`, which is known, with the share of noise that it is to have. */
static void blur(const frames *a, const sampling *s, int from, int i)
{
    const float share = (float)s->windows.noise;
    const int all = s->windows.n, n = (int)s->dim[2];
    for (size_t k = 0; k < a->each; k++) {
        const size_t c = k / a->plane, at = k % a->plane;
        float *x = s->x + (c * (size_t)n + (size_t)i) * a->plane + at;
        *x = *x * (1 - share) +
             a->drawn[(c * (size_t)all + (size_t)(from + i)) * a->plane + at] * share;
    }
}

/* The model's time for a block. */
static double time_of(const sampling *s, const sampling_pace *p, int block)
{
    const int at = p->at[block];
    return at > p->steps ? 0 : s->step[at ? at - 1 : 0].t;
}

/* Makes the input of a forward of the window at `from`, whose first frames are known, as is the one
 * behind it. */
static void set_input(frames *a, const sampling *s, const sampling_pace *p, int from, int known)
{
    const int all = (int)s->dim[2], n = sampling_window_size(&s->windows, from);
    if (known && s->windows.noise > 0)
        draw(a, s, a->forward + 1);
    for (int i = n; i < all; i++) {
        copy_frame(a, s->last, s->x, i, all, true);
        a->time[i] = 0;
    }
    for (int i = 0; i < n; i++) {
        copy_frame(a, a->x + (size_t)(from + i) * a->each, s->x, i, all, true);
        a->time[i] = (float)(i < known ? VTRAIN_TIMES * s->windows.noise
                                       : time_of(s, p, i / s->windows.block));
        if (i < known && s->windows.noise > 0)
            blur(a, s, from, i);
    }
}

/* Lets the frames of a window whose blocks move take a step by the answer in s->out. */
static void step_frames(frames *a, const sampling *s, const sampling_pace *p, int from, int known)
{
    const int all = (int)s->dim[2], n = sampling_window_size(&s->windows, from);
    for (int i = known; i < n; i++) {
        const int block = i / s->windows.block;
        const size_t at = (size_t)(from + i) * a->each;
        if (!p->moves[block])
            continue;
        copy_frame(a, a->v, s->out, i, all, false);
        vtrain_solver_apply(&s->step[p->at[block] - 1], a->x + at, a->past + 2 * at, a->v, NULL,
                            a->each);
    }
}

static int walk_window(frames *a, sampling *s, vtrain *t, int from, vc_err *err)
{
    const sampling_windows *w = &s->windows;
    const int known = known_frames(s, from);
    const vtrain_paced paced = { a->time, w->block };
    const vtrain_level l = vtrain_level_at(t->objective, s->step[0].level);
    sampling_pace p;
    s->dim[2] = sampling_window_size(w, from) + sampling_window_behind(w, from);
    s->n = a->each * (size_t)s->dim[2];
    int rc = open_pace(&p, s, from, err);
    s->paced = &paced;
    for (; !rc && sampling_pace_next(&p); a->forward++) {
        if (*t->stop)
            rc = vc_fail(err, VC_ESTOP, "stopped");
        if (rc)
            break;
        vtrain_watch_step(s->w, a->forward, a->forwards);
        set_input(a, s, &p, from, known);
        rc = sampling_predict(s, t, &l, 0, err);
        if (!rc)
            step_frames(a, s, &p, from, known);
    }
    s->paced = NULL;
    sampling_pace_close(&p);
    return rc;
}

/* Makes s->x the whole sample. */
static int end_frames(frames *a, sampling *s, vc_err *err)
{
    const int n = s->windows.n;
    float *x = malloc(a->each * (size_t)n * sizeof *x);
    if (!x)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++)
        copy_frame(a, a->x + (size_t)i * a->each, x, i, n, true);
    free(s->x);
    s->x = x;
    s->dim[2] = n;
    s->n = a->each * (size_t)n;
    return 0;
}

int sampling_frames_walk(sampling *s, vtrain *t, vc_err *err)
{
    frames a;
    int rc = open_frames(&a, s, err);
    for (int at = -1; !rc && (at = sampling_window_next(&s->windows, at)) >= 0;)
        rc = walk_window(&a, s, t, at, err);
    if (!rc)
        rc = end_frames(&a, s, err);
    close_frames(&a);
    return rc;
}
