/* predict.c - see predict.h */
#include "train/steps/predict.h"

#include "train/steps/both.h"
#include "train/steps/upload.h"

int vtrain_predict(vtrain *t, const vtrain_question *q, float *out, vc_err *err)
{
    vtrain_levels v;
    float fps[VTRAIN_ROWS];
    int32_t kind[VTRAIN_ROWS];
    for (int64_t i = 0; i < q->dim[0]; i++) {
        fps[i] = (float)q->fps;
        kind[i] = q->control_kind;
    }
    vtrain_levels_set(&v, t, q->dim[0], q->level, q->clean_first);
    if (q->paced)
        vtrain_levels_pace(&v, t, q->dim, q->paced);
    vtrain_both_use(t, v.low);
    vt_step_begin(t->g, 0);
    const float scale = (float)t->cfg.controlnet_conditioning_scale;
    vtrain_in in = { .x = vt_from_host(t->g, VC_F32, 5, q->dim, q->x, VC_F32), .fps = fps,
                     .control_kind = kind, .causal = q->paced ? q->paced->causal : 0, .skip = q->skip,
                     .control_scale = t->cfg.controlnet && scale != 1 ? &scale : NULL };
    vtrain_times_load(t, &in, q->dim, &v);
    vtrain_upload_guidance(t, &in, q->dim[0], q->guidance);
    vtrain_upload_texts(t->g, &in, vtrain_data_slots(t->data), q->text, q->dim[0]);
    vtrain_upload_cond(t, &in, q->dim, q->roles, q->own, q->cond);
    vtrain_in side;
    if (q->prompt) {
        vtrain_first_row(t->g, &in, &side);
        vtrain_upload_texts(t->g, &side, vtrain_data_slots(t->data), q->prompt, 1);
        in.side = &side;
    }
    if (q->sound_dim)
        in.sound = vt_from_host(t->g, VC_F32, 5, q->sound_dim, q->sound, VC_F32);
    in.sound_length = q->sound_length;
    vt_tensor *sound = NULL, *y = vtrain_forward(t->g, q->model ? q->model : t->model.dit, &in,
                                                   &sound);
    int rc = y ? vt_to_host(t->g, y, out, err) : 0;
    if (!rc && sound && q->sound_out)
        rc = vt_to_host(t->g, sound, q->sound_out, err);
    vc_err step = { 0 };
    int step_rc = vt_step_end(t->g, &step);
    if (step_rc && err)
        *err = step;
    return step_rc ? step_rc : rc;
}
