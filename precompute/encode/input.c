/* input.c - see input.h */
#include "precompute/encode/input.h"

static bool is_noisy(const vprep *p, const prep_job *j, const vc_recipe *r)
{
    if (r->pixels == VC_PIXELS_MASKED && j->clip.mask_all)
        return false;
    return r->noise == VC_NOISE_ALL || (r->noise == VC_NOISE_KNOWN && p->encoders.mask_noise);
}

static prep_frames *frames_of(const vprep *p, prep_job *j, vc_role role)
{
    const vc_pixels pixels = vc_roles[role].recipe.pixels;
    const int k = vc_role_reference(role);
    if (k >= 0)
        return &j->reference[k].pixels;
    if ((pixels == VC_PIXELS_MASKED || pixels == VC_PIXELS_REACTIVE) &&
        vprep_masked_from(p, j->item) != VF_BESIDE)
        return &j->filled;
    return pixels == VC_PIXELS_CONTROL ? &j->control : &j->pixels;
}

prep_input prep_input_of(const vprep *p, prep_job *j, vc_role role, int place, uint8_t *scratch)
{
    const vb_choice *c = prep_job_size(j, role);
    const vc_recipe *r = &vc_roles[role].recipe;
    prep_input in = { .p = p, .j = j, .role = role, .recipe = r, .from = frames_of(p, j, role),
                      .scratch = scratch,
                      .values = (size_t)c->target_h * (size_t)c->target_w * 3,
                      .noisy = is_noisy(p, j, r) };

    if (in.noisy) {
        in.normals = vprep_normals_of(p, j->item, VC_DRAW_COND_NOISE, (uint32_t)place);
        in.sigma = j->item ? vprep_noise_sigma(&in.normals) : VPREP_PROMPT_SIGMA;
    }
    return in;
}

int prep_input_frame(const prep_input *in, int t, float *x, vc_err *err)
{
    const vprep_clip *clip = &in->j->clip;
    const bool masked = in->recipe->pixels == VC_PIXELS_MASKED;
    const bool reactive = in->recipe->pixels == VC_PIXELS_REACTIVE;
    const bool grey = vprep_is_grey(in->p, in->j->item, clip, in->role);
    const float fill = vprep_mask_fill(in->p);
    int rc = 0;

    if (grey)
        for (size_t i = 0; i < in->values; i++)
            x[i] = fill;
    else
        rc = prep_frames_values(in->from, t, x, err);
    if (!rc && (masked || reactive) && !grey && !clip->mask_all)
        vprep_apply_mask(x, &clip->mask, t, masked, fill, in->scratch);
    if (!rc && in->noisy) {
        vprep_normals z = in->normals;
        vprep_normals_skip(&z, (size_t)t * in->values);
        vprep_pixel_noise(x, in->values, in->sigma, in->recipe->noise == VC_NOISE_KNOWN, &z);
    }
    return rc;
}

int prep_input_read(void *arg, int first, int n, float *x, vc_err *err)
{
    prep_input *in = arg;
    double begin = vc_seconds();
    int rc = *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : 0;

    for (int t = first; !rc && t < first + n; t++, x += in->values)
        rc = prep_input_frame(in, t, x, err);
    in->seconds += vc_seconds() - begin;
    return rc;
}
