/* write.c - see write.h */
#include "train/sampling/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/os/file.h"

/* Drops the frames that were padding. */
static void drop_front(sampling *s)
{
    size_t frame = (size_t)(s->dim[3] * s->dim[4]), had = (size_t)s->dim[2] * frame;
    size_t cut = (size_t)s->front * frame, kept = had - cut;
    for (int64_t c = 0; s->front && c < s->dim[1]; c++)
        memmove(s->x + (size_t)c * kept, s->x + (size_t)c * had + cut, sizeof(float) * kept);
    s->dim[2] -= s->front;
    s->n = kept * (size_t)s->dim[1];
}

/* Scales the sample back to raw VAE space. */
static void denormalise(sampling *s, const vtrain_norm *norm)
{
    size_t each = s->n / (size_t)norm->channels;
    for (int c = 0; c < norm->channels; c++)
        for (size_t i = 0; i < each; i++) {
            float *x = &s->x[(size_t)c * each + i];
            *x = *x / norm->mul[c] + norm->sub[c];
        }
}

static int check_finite(const sampling *s, vc_err *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (!isfinite(s->x[i]))
            return vc_fail(err, VC_ENUMERIC, "the sample is not finite");
    return 0;
}

static int write_file(sampling *s, const vtrain *t, const char *dir, vc_err *err)
{
    static const char *const samplers[] = { "ddim", "dpm", "euler", "unipc" };
    static const char *const schedules[] = { "constant", "cosine", "cosine_time" };
    char seed[24], fps[32], frames[16], steps[24], guidance[32], cfg[32], rescale[32], skip[16];
    char name[24], sound[32], lag[16], shared[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(fps, sizeof fps, "%.6g", s->p.fps);
    snprintf(frames, sizeof frames, "%d", s->p.frames);
    snprintf(steps, sizeof steps, "%d", s->steps);
    snprintf(guidance, sizeof guidance, "%.6g", s->guidance);
    snprintf(cfg, sizeof cfg, "%.6g", t->cfg.true_cfg_scale);
    snprintf(rescale, sizeof rescale, "%.6g", t->cfg.guidance_rescale);
    snprintf(skip, sizeof skip, "%d", s->skip);
    snprintf(name, sizeof name, "%03u.safetensors", s->number);
    snprintf(sound, sizeof sound, "%.6g", s->sound_scale);
    snprintf(lag, sizeof lag, "%d", s->windows.lag);
    snprintf(shared, sizeof shared, "%lld", (long long)t->cfg.overlap_history);
    vf_meta meta[15] = {
        { "prompt", s->p.text }, { "negative_prompt", s->p.negative }, { "seed", seed },
        { "frames", frames }, { "num_inference_steps", steps }, { "guidance_scale", guidance },
        { "sampler", samplers[t->cfg.validation_sampler - 1] },
    };
    int n_meta = 7;
    if (s->p.fps > 0)
        meta[n_meta++] = (vf_meta){ "fps", fps };
    if (t->cfg.true_cfg_scale > 1)
        meta[n_meta++] = (vf_meta){ "true_cfg_scale", cfg };
    if (t->cfg.guidance_rescale > 0)
        meta[n_meta++] = (vf_meta){ "guidance_rescale", rescale };
    if (t->cfg.guidance_schedule)
        meta[n_meta++] = (vf_meta){ "guidance_schedule", schedules[t->cfg.guidance_schedule] };
    if (s->skip)
        meta[n_meta++] = (vf_meta){ "skip_frames", skip };
    if (s->windows.lag)
        meta[n_meta++] = (vf_meta){ "ar_step", lag };
    if (s->windows.shared)
        meta[n_meta++] = (vf_meta){ "overlap_history", shared };
    if (s->heard.n)
        meta[n_meta++] = (vf_meta){ "audio_guidance_scale", sound };
    vf_view v[2] = { { .name = "latents", .dtype = VC_F32, .nd = 4, .data = s->x,
                       .dim = { s->dim[1], s->dim[2], s->dim[3], s->dim[4] },
                       .bytes = s->n * sizeof(float) } };
    int rc = s->heard.n ? heard_end(&s->heard, t, &v[1], err) : 0;
    if (rc)
        return rc;
    char *path = vc_path_join(dir, name);
    if (!path)
        return vc_no_memory(err);
    rc = vf_safetensors_write(path, v, s->heard.n ? 2 : 1, meta, n_meta, err);
    free(path);
    return rc;
}

int sampling_write(sampling *s, const vtrain *t, const char *dir, vc_err *err)
{
    int rc = check_finite(s, err);
    if (rc)
        return rc;
    drop_front(s);
    denormalise(s, vtrain_data_norm(t->data));
    return write_file(s, t, dir, err);
}
