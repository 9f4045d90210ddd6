/* distill.c - see distill.h */
#include "train/steps/distill.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "train/data/starts.h"

enum { STEPS = 4 };                           /* where neither flags nor records give a number */

/* ---- the number of steps ---- */

/* The steps of the first sample's record. */
static int recorded_steps(int64_t *steps, const vtrain *t, vc_err *err)
{
    const vtrain_sample *s = vtrain_data_sample(t->data, 0);
    vtrain_start start;
    cJSON *record;
    char key[VTRAIN_KEY];
    int rc = vf_dataset_sample(vtrain_data_set(t->data, s->dataset), s->index, &record, err);
    if (rc)
        return rc;
    rc = vtrain_start_read(&start, record, err);
    cJSON_Delete(record);
    *steps = start.steps;
    return vc_context(err, rc, "sample %s", vtrain_data_key(t->data, 0, key));
}

/* Reads --distill_sigmas: levels that fall from 1 at most. */
static int read_levels(vtrain_distilled *d, const vc_list *list, vc_err *err)
{
    if (list->n > VTRAIN_WALK)
        return vc_fail(err, VC_EUSAGE, "--distill_sigmas: %d levels, at most %d are possible",
                       list->n, VTRAIN_WALK);
    for (int i = 0; i < list->n; i++) {
        char *end;
        const double v = strtod(list->item[i], &end), before = i ? d->level[i - 1] : 1;
        if (end == list->item[i] || *end || !(v > 0 && (i ? v < before : v <= 1)))
            return vc_fail(err, VC_EUSAGE, "--distill_sigmas %s: levels are numbers that fall, "
                           "from at most 1 to above 0", list->item[i]);
        d->level[d->levels++] = v;
    }
    return 0;
}

static int find_steps(vtrain *t, vc_err *err)
{
    vtrain_distilled *d = &t->distill;
    int64_t steps = t->cfg.distill_steps;
    int rc = read_levels(d, &t->cfg.distill_sigmas, err);
    if (!rc && !steps)
        rc = d->levels ? 0 : recorded_steps(&steps, t, err);
    if (rc)
        return rc;
    if (!steps)
        steps = d->levels ? d->levels : STEPS;
    if (steps < 0 || steps > VTRAIN_WALK)
        return vc_fail(err, VC_EUSAGE, "num_inference_steps %" PRId64 " of the samples: 1 to %d "
                       "steps are trained: give --distill_steps", steps, VTRAIN_WALK);
    if (d->levels && d->levels != steps)
        return vc_fail(err, VC_EUSAGE, "--distill_sigmas has %d levels, --distill_steps says "
                       "%" PRId64, d->levels, steps);
    d->steps = (int)steps;
    return 0;
}

/* ---- what does not go together ---- */

static int check_model(const vtrain *t, vc_err *err)
{
    if (t->cfg.objective == 1 + VTRAIN_V)
        return vc_fail(err, VC_EUSAGE, "--task direct_distill: the steps follow a flow, and this "
                       "%s predicts v", t->model.family->class_name);
    if (t->cfg.first_frame_conditioning_p > 0)
        return vc_fail(err, VC_EUSAGE, "--task direct_distill: clips that begin with a clean frame "
                       "(--first_frame_conditioning_p) are not distilled, in DiffSynth-Studio "
                       "neither");
    if (t->model.boundary > 0)
        return vc_fail(err, VC_EUSAGE, "--task direct_distill: the few steps go through all levels "
                       "of noise, and each of this model's two transformers knows a part of them: "
                       "give a model of one transformer");
    if (t->cfg.with_audio)
        return vc_fail(err, VC_EUSAGE, "--task direct_distill: the steps go through the video "
                       "alone: leave --with_audio out");
    if (vtrain_data_holds(t->data, true))
        return vc_fail(err, VC_EUSAGE, "--latents: :prior, :blank and :preserve hold a prediction "
                       "at one level, and --task direct_distill trains the result of several "
                       "steps: leave one out");
    return 0;
}

int vtrain_distill_open(vtrain *t, vc_err *err)
{
    const int task = t->cfg.task;
    if (task < VTRAIN_TASK_DISTILL || task > VTRAIN_TASK_DISTILL_TRAIN)
        return 0;
    int rc = check_model(t, err);
    return rc ? rc : find_steps(t, err);
}

/* ---- a walk ---- */

int vtrain_walk_plan(vtrain_walk *w, const vtrain *t, int64_t tokens, vc_err *err)
{
    const vtrain_distilled *d = &t->distill;
    vtrain_solver_step step[VTRAIN_WALK];
    *w = (vtrain_walk){ .n = d->steps };
    if (!d->levels) {
        vtrain_solver_opts o = vtrain_scheduler_plan(&t->model.scheduler, VTRAIN_EULER,
                                                     t->model.pipeline, t->objective, tokens,
                                                     d->steps);
        o.sigmas = VC_SIGMAS_EVEN;
        int rc = vtrain_solver_plan(step, &o, err);
        if (rc)
            return rc;
    }
    for (int i = 0; i < w->n; i++) {
        w->sigma[i] = (float)(d->levels ? d->level[i] : step[i].level);
        w->time[i] = (float)(d->levels ? VTRAIN_TIMES * d->level[i] : step[i].t);
    }
    return 0;
}

vt_tensor *vtrain_walk_run(vt_ctx *g, void *dit, vtrain_in *in, const vtrain_walk *w,
                           const vtrain_walk_times *times)
{
    for (int i = 0; i < w->n; i++) {
        in->t = times->t[i];
        in->t_next = i + 1 < w->n ? times->t[i + 1] : vt_scale(g, in->t, 0);
        vt_tensor *v = vt_cast(g, vtrain_dit_forward(g, dit, in, NULL), VC_F32);
        in->x = vt_add(g, in->x, vt_scale(g, v, w->sigma[i + 1] - w->sigma[i]));
    }
    return in->x;
}

char *vtrain_distill_line(const vtrain *t)
{
    const vtrain_group *g = vtrain_data_group(t->data, 0);
    vtrain_walk w;
    vc_buf b = { 0 };
    if (vtrain_walk_plan(&w, t, (int64_t)g->tokens, NULL))
        return NULL;
    vc_buf_printf(&b, "the result of %d steps from noise (levels", w.n);
    for (int i = 0; i < w.n; i++)
        vc_buf_printf(&b, "%s %.4g", i ? "," : "", (double)w.sigma[i]);
    vc_buf_printf(&b, "%s) against the stored latents",
                  t->distill.levels || !vtrain_objective_by_tokens(t->objective)
                      ? "" : " in the first bucket");
    return vc_buf_take(&b);
}
