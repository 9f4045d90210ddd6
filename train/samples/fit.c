/* fit.c - checks that the dataset and the flags have what the model takes */
#include <stdio.h>
#include <stdlib.h>

#include "common/cli/inputs.h"
#include "common/cli/kinds.h"
#include "train/families/families.h"
#include "train/samples/samples.h"

/* Lets all clips begin clean, as `why` says. */
static int begin_clean(vtrain *t, const char *why)
{
    t->cfg.first_frame_conditioning_p = 1;
    vc_say(t->ui, "%s: all clips begin with a clean frame (--first_frame_conditioning_p 1), which "
           "the loss leaves out", why);
    return 0;
}

/* Takes --extra_inputs input_image, or what the model was made for: all clips of a model whose
 * picture is the first latent begin clean; other models need the role of a picture. */
static int take_first_frame(vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    const unsigned pictures = VC_ROLE_BIT(VC_ROLE_IMAGE) | VC_ROLE_BIT(VC_ROLE_VIDEO);
    const vc_family *is = vc_family_find(vtrain_data_family(t->data));
    if (t->model.begins && (fit->token_times || fit->clean_rows))
        return begin_clean(t, t->model.begins);
    if (fit->begins && !t->model.begins_as_set)
        return begin_clean(t, "this transformer marks the first frame");
    if (!vc_inputs_have(t->cfg.extra_inputs, VC_INPUT_FIRST) || fit->clean_first ||
        fit->roles & pictures)
        return 0;
    if (!is || !is->begins_with_latent || !(fit->token_times || fit->clean_rows))
        return vc_fail(err, VC_EUSAGE, "--extra_inputs input_image: this %s takes no first frame: "
                       "leave the flag out, or give an image-to-video --model",
                       t->model.family->class_name);
    if (t->cfg.first_frame_conditioning_p > 0)
        return 0;
    return begin_clean(t, "--extra_inputs input_image");
}

/* Checks the flags of inputs that not every model takes. */
static int check_inputs(vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    double *clean = &t->cfg.first_frame_conditioning_p;
    int rc = take_first_frame(t, fit, err);
    if (rc)
        return rc;
    if (fit->clean_first && *clean == 0)
        *clean = 1;
    if (fit->clean_first && *clean != 1)
        return vc_fail(err, VC_EUSAGE, "--first_frame_conditioning_p: all clips of this %s begin "
                       "with a clean frame: leave the flag out", t->model.family->class_name);
    if (!fit->token_times && !fit->clean_first && !fit->clean_rows && *clean > 0)
        return vc_fail(err, VC_EUSAGE, "--first_frame_conditioning_p: %s takes one timestep for "
                       "all tokens of a sample: leave the flag out", t->model.family->class_name);
    if (t->cfg.true_cfg_scale > 1 && (!fit->guidance || fit->two_prompts))
        return vc_fail(err, VC_EUSAGE, "--true_cfg_scale: samples of this %s are guided by the "
                       "negative prompt at --guidance_scale: give that flag",
                       t->model.family->class_name);
    if (t->cfg.guidance_rescale > 0 && t->model.family->renormalised)
        return vc_fail(err, VC_EUSAGE, "--guidance_rescale: samples of this %s have each token of "
                       "a guided prediction scaled to the norm of the prompt's own: leave the flag "
                       "out", t->model.family->class_name);
    if (!t->validation.own_guidance && t->cfg.true_cfg_scale > 1)
        t->cfg.guidance_scale = 1;
    else if (!t->validation.own_guidance && fit->sample_guidance > 0)
        t->cfg.guidance_scale = fit->sample_guidance;
    if (!fit->guidance && t->cfg.embedded_guidance != 1)
        return vc_fail(err, VC_EUSAGE, "--embedded_guidance: this %s does not take guidance as an "
                       "input (guidance_embeds in its config.json): leave the flag out",
                       t->model.family->class_name);
    return 0;
}

/* Texts with other states of a first frame than the transformer was trained with. */
static int refuse_pictures(const vtrain *t, const vtrain_slot *s, int interleave, vc_err *err)
{
    char want[64] = "no first frame", have[64] = "no first frame";
    if (interleave)
        snprintf(want, sizeof want, "every state %d of the first frame", interleave);
    if (s->interleave)
        snprintf(have, sizeof have, "every state %lld of the first frame",
                 (long long)s->interleave);
    return vc_fail(err, VC_EMISMATCH, "the dataset's %s has texts with %s, the transformer %s "
                   "takes texts with %s (image_condition_type in its config.json): run vprep with "
                   "the --model folder of this transformer's pipeline (--allow_mismatch takes "
                   "them)",
                   s->name, have, t->model.family->class_name, want);
}

/* The tokens and the pooled vector of a text encoder, where the transformer reads them. */
static int fit_text(const vtrain *t, const vtrain_fit *fit, int i, vc_err *err)
{
    const vtrain_slot *s = i < vtrain_data_slots(t->data) ? vtrain_data_slot(t->data, i) : NULL;
    const char *name = s ? s->name : "missing text encoder", *class = t->model.family->class_name;
    int64_t width = fit->text_width[i], pooled = fit->pooled_width[i];
    if (s && width && !s->embeds)
        return vc_fail(err, VC_EMISMATCH, "the dataset's %s has pooled embeddings only, but the "
                       "transformer %s needs its tokens' embeddings", name, class);
    if (width && (!s || (s->width != width && s->width != width + fit->text_more[i])))
        return vc_fail(err, VC_EMISMATCH, "the dataset's %s is %lld wide, the transformer %s "
                       "takes %lld: encode the captions with this model's text encoder (vprep "
                       "--model)", name, s ? (long long)s->width : 0, class, (long long)width);
    if (fit->text_rows[i] && s && s->max_length > fit->text_rows[i])
        return vc_fail(err, VC_EMISMATCH, "the dataset's %s has prompts of up to %lld tokens, the "
                       "transformer %s takes %lld: run vprep with --tokenizer_max_length %lld",
                       name, (long long)s->max_length, class, (long long)fit->text_rows[i],
                       (long long)fit->text_rows[i]);
    if (s && width && s->interleave >= 0 && s->interleave != fit->interleave[i] &&
        !t->cfg.allow_mismatch)
        return refuse_pictures(t, s, fit->interleave[i], err);
    if (pooled && (!s || s->pooled != pooled))
        return vc_fail(err, VC_EMISMATCH, "the dataset's %s has a pooled vector of %lld numbers, "
                       "the transformer %s takes %lld: encode the captions with this model's "
                       "text encoders (vprep --model)", name, s ? (long long)s->pooled : 0, class,
                       (long long)pooled);
    return 0;
}

/* A model whose positions are seconds needs the frame rate of every clip. */
static int check_rates(const vtrain *t, const vtrain_fit *fit, vc_err *err)
{
    char key[VTRAIN_KEY];
    for (uint32_t i = 0; fit->fps > 0 && i < vtrain_data_samples(t->data); i++) {
        const vtrain_sample *s = vtrain_data_sample(t->data, i);
        const vf_dataset *set = vtrain_data_set(t->data, s->dataset);
        bool clip = vtrain_data_group(t->data, s->group)->f > 1;
        if (clip && !(vf_dataset_entry(set, s->index)->fps > 0))
            return vc_fail(err, VC_EMISMATCH, "sample %s has no frame rate (fps), which the "
                           "positions of %s need: prepare it with vprep",
                           vtrain_data_key(t->data, i, key), t->model.family->class_name);
    }
    return 0;
}

/* The kind of samples whose records have none, for a ControlNet-Union. */
static int fit_kinds(const vtrain *t, vtrain_fit *fit, vc_err *err)
{
    const char *word = t->cfg.controlnet_mode;
    fit->control_kind = word ? vc_kind_of(word) : VC_NO_KIND;
    if (word && !fit->control_kinds)
        return vc_fail(err, VC_EUSAGE, "--controlnet_mode %s: the ControlNet is no Union, which "
                       "reads the kind of its picture: leave the flag out", word);
    if (fit->control_kinds && fit->control_kind >= fit->control_kinds)
        return vc_fail(err, VC_EUSAGE, "--controlnet_mode %s: the ControlNet-Union knows %d kinds, "
                       "from 0 on", word, fit->control_kinds);
    return 0;
}

/* Errors name the dataset's value and the transformer's. */
int vtrain_fit_data(vtrain *t, vc_err *err)
{
    char *note;
    vtrain_fit fit = vtrain_fit_of(t);
    int rc = check_inputs(t, &fit, err);
    if (rc)
        return rc;
    t->model.guidance = fit.guidance;
    fit.needs_image = fit.needs_image && !t->cfg.allow_mismatch;
    fit.sound_least = (int)t->cfg.sp;
    int channels = vtrain_data_norm(t->data)->channels;
    if (fit.channels != channels)
        return vc_fail(err, VC_EMISMATCH, "the dataset's latents have %d channels (VAE %s), the "
                       "transformer %s takes %d: encode the clips with this model's VAE (vprep "
                       "--model)", channels, vtrain_data_vae(t->data), t->model.family->class_name,
                       fit.channels);
    if (fit.sound)
        rc = vtrain_data_sound_check(t->data, err);
    else if (vtrain_family_with_sound(t->model.family) && !vtrain_data_sound_check(t->data, NULL))
        vc_say(t->ui, "the clips' sound is left out: --with_audio trains it too");
    for (int i = 0; !rc && i < fit.n_texts; i++)
        rc = fit_text(t, &fit, i, err);
    if (!rc)
        rc = check_rates(t, &fit, err);
    if (!rc)
        rc = fit_kinds(t, &fit, err);
    if (!rc)
        rc = vtrain_data_fit(t->data, t->model.family, &fit, &note, err);
    if (rc)
        return rc;
    if (note)
        vc_say(t->ui, "%s", note);
    free(note);
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        if (g->padded % fit.mult[0] || g->h % fit.mult[1] || g->w % fit.mult[2])
            return vc_fail(err, VC_EMISMATCH, "bucket %s: the transformer's patches need latent "
                           "frames, rows and columns that are multiples of %d, %d and %d",
                           g->name, fit.mult[0], fit.mult[1], fit.mult[2]);
        if (fit.clean_first && !fit.token_times && g->padded <= fit.mult[0])
            return vc_fail(err, VC_EMISMATCH, "bucket %s: this %s takes the first frame for a "
                           "clean picture, and these samples have no other to learn from: leave "
                           "stills out of the dataset", g->name, t->model.family->class_name);
    }
    return 0;
}
