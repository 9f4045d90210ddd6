/* sample.c - samples the validation prompts, each from noise to latents in a file; see sample.h */
#include "train/sampling/sample.h"

#include <stdlib.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/sampling/frames.h"
#include "train/sampling/guidance.h"
#include "train/sampling/inputs.h"
#include "train/sampling/pictures.h"
#include "train/sampling/write.h"
#include "train/steps/step.h"

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
        l.t_next = i + 1 < s->steps ? (float)s->step[i + 1].t : 0;
        if (step->noise != 0 || first > 0)
            vc_train_normals(s->noise, 0, s->n, s->seed, s->number, (uint32_t)i + 1,
                             VC_DRAW_VALIDATION);
        sampling_put_first(s, first);
        int rc = sampling_predict(s, t, &l, i, err);
        if (rc)
            return rc;
        vtrain_solver_apply(step, s->x, s->past, s->out, s->noise, s->n);
        heard_step(&s->heard, step, s->seed, s->number, i);
        sampling_put_first(s, first);
    }
    return 0;
}

/* Writes what stands beside the prompt's samples; an image may be the clean first frame alone. */
static int write_inputs(const sampling *s, const vtrain *t, uint32_t i, vc_err *err)
{
    const unsigned roles = sampling_roles(s) | (s->first ? VC_ROLE_BIT(VC_ROLE_IMAGE) : 0);
    return vtrain_inputs_write(t, i, &s->p, roles, s->p.f - s->front, err);
}

static int sample_one(vtrain *t, const char *dir, uint32_t i, vtrain_watching *w, vc_err *err)
{
    sampling s = { .w = w };
    vtrain_watch_sample(w);
    int rc = sampling_begin(&s, t, i, err);
    if (!rc && !t->validation.reported)
        rc = write_inputs(&s, t, i, err);
    if (!rc)
        rc = s.windows.n ? sampling_frames_walk(&s, t, err) : walk(&s, t, err);
    if (!rc)
        rc = sampling_write(&s, t, dir, err);
    sampling_free(&s);
    return vc_context(err, rc, "validation prompt %u", i);
}

/* Makes a dry forward of a prompt. Where there is no memory for the two prompts of guidance at
 * once, this run computes them apart. */
static int check_memory(vtrain *t, sampling *s, vt_usage *use, vc_err *err)
{
    vtrain_paced all;
    const vtrain_paced *paced = sampling_frames_paced(s, &all);
    int rc = vtrain_micro_dry(t, s->dim, &s->p.own, false, (vtrain_recompute){ 0 }, paced, use,
                              err);
    if (s->dim[0] == 1 || (rc && rc != VC_ENOMEM) || (!rc && vtrain_memory_holds(t, use)))
        return rc;
    vc_say(t->ui, "validation prompt %u: guidance computes its two predictions one after the "
           "other, because there is no memory for both at once", s->number);
    t->validation.apart = true;
    s->dim[0] = 1;
    return vtrain_micro_dry(t, s->dim, &s->p.own, false, (vtrain_recompute){ 0 }, paced, use, err);
}

int vtrain_validate_check(vtrain *t, vc_err *err)
{
    const vtrain_fit fit = vtrain_fit_of(t);
    bool known = false;                          /* frames of a sample before its first step */
    int rc = sampling_frames_check(t, err);
    t->plan.sample_flops = 0;
    for (uint32_t i = 0; !rc && i < vtrain_data_prompts(t->data); i++) {
        sampling s = { 0 };
        rc = sampling_open(&s, t, &fit, i, err);
        known |= s.windows.known || s.windows.behind || s.windows.shared;
        vt_usage use = { 0 };
        int forwards = 0;
        if (!rc)
            rc = check_memory(t, &s, &use, err);
        if (!rc)
            rc = sampling_frames_forwards(&s, &forwards, err);
        t->plan.sample_flops += use.flops * forwards * s.prompts /
                                (double)(s.dim[0] ? s.dim[0] : 1);
        sampling_free(&s);
        if (rc)
            vc_context(err, rc, "validation prompt %u", i);
    }
    if (!rc && t->cfg.addnoise_condition > 0 && !known)
        vc_say(t->ui, "--addnoise_condition: has no effect: no validation sample has frames that "
               "are known before its first step (--overlap_history, --first_frame_conditioning_p "
               "with a picture, or the prompts' video_path)");
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
