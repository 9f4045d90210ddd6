/* inputs.c - DiffSynth's --extra_inputs and --control_directory as modes of training; see
 * components.h */
#include "precompute/run/components.h"

#include <string.h>

#include "common/cli/inputs.h"
#include "precompute/run/vprep.h"

/* A mode that a flag of vprep chose is left, and is checked elsewhere. */
static void select_mode(vprep *p, const char *flag, vc_mode mode, const char *what)
{
    if (vc_flags_given(p->flags, "train_mode"))
        return;
    vc_say(p->progress, "--%s selects --train_mode %s, with %s", flag, vc_mode_names[mode], what);
    p->c.train_mode = mode;
}

/* The control clips are the rows' control_video. */
static void take_control(vprep *p, vc_mode mode)
{
    const bool takes = mode == VC_MODE_CONTROL || mode == VC_MODE_CONTROL_REF;

    if (p->encoders.family.is->controlnet)
        select_mode(p, strstr(p->c.extra_inputs, "blockwise_") ?
                    "extra_inputs blockwise_controlnet_image" : "extra_inputs controlnet_image",
                    VC_MODE_CONTROL, "the ControlNet's picture of each row");
    else if (!takes && p->c.train_mode < VC_MODE_CONTROL)
        vc_flags_wrong(p->flags, "--extra_inputs control_video: %s takes no control clip: leave "
                       "the flag out, or give a Fun-Control --model of CogVideoX or Wan 2.1",
                       p->c.model ? p->c.model : "the built-in model");
    else if (takes)
        select_mode(p, "extra_inputs control_video", mode,
                    "the control clip of each row's control_video");
}

/* The mask covers the ControlNet's picture. Masked pixels are black, as ControlNets have them. */
static void take_control_mask(vprep *p, vc_mode mode)
{
    const vc_family *f = p->encoders.family.is;

    if (!f->controlnet)
        vc_flags_wrong(p->flags, "--extra_inputs: a ControlNet with a mask is trained for FLUX.1 "
                       "and Qwen-Image, and not for %s: leave the inputs out", f->name);
    else if (f->grey_masks && mode == VC_MODE_INPAINT)
        vc_flags_wrong(p->flags, "--extra_inputs: %s fills masked pictures itself and has no "
                       "ControlNet: give the --model folder of FLUX.1 dev", p->c.model);
    else
        select_mode(p, "extra_inputs", VC_MODE_INPAINT,
                    "the ControlNet's picture of each row and its mask");
    p->encoders.black = f->grey_masks && p->c.train_mode == VC_MODE_INPAINT;
}

/* The references are the rows' edit_image or kontext_images. */
static void take_references(vprep *p)
{
    const vc_family *f = p->encoders.family.is;

    if (!vc_family_references(f, p->encoders.family.pipeline)->most)
        vc_flags_wrong(p->flags, "--extra_inputs edit_image: models of %s take no reference "
                       "pictures here: leave the flag out, or give a --model that edits pictures",
                       f->name);
    else
        select_mode(p, "extra_inputs edit_image", VC_MODE_EDIT,
                    "the reference pictures of each row");
}

/* The mask is the row's flux_fill_mask, and flux_fill_image the picture that it covers. */
static void take_fill(vprep *p)
{
    const vc_family *f = p->encoders.family.is;

    if (!f->pixel_masks || !f->grey_masks || f->max_frames != 1)
        vc_flags_wrong(p->flags, "--extra_inputs flux_fill_mask: models of %s fill no masked "
                       "pictures: leave the flag out, or give the --model of FLUX.1 Fill", f->name);
    else
        select_mode(p, "extra_inputs flux_fill_mask", VC_MODE_INPAINT,
                    "the masked picture of each row");
}

/* The clip to edit is the row's vace_video, with the mask vace_video_mask. */
static void take_vace(vprep *p, vc_mode mode)
{
    if (mode != VC_MODE_VACE)
        vc_flags_wrong(p->flags, "--extra_inputs vace_video: %s has no blocks of VACE: leave the "
                       "flag out, or give the --model of Wan VACE",
                       p->c.model ? p->c.model : "the built-in model");
    else
        select_mode(p, "extra_inputs vace_video", VC_MODE_VACE, "the clip to edit of each row");
}

static void take_image(vprep *p, vc_mode mode)
{
    const vc_family *f = p->encoders.family.is;
    const bool takes = mode == VC_MODE_I2V || mode == VC_MODE_CONTROL_REF ||
                       (mode == VC_MODE_INPAINT && f->masked_frames);

    if (p->c.model && f->begins_with_latent && !takes)
        vc_say(p->progress, "--extra_inputs input_image: %s begins with the first latent of each "
               "clip, which every dataset has: vtrain trains so with this flag", p->c.model);
    else if (p->c.model && !takes && p->c.train_mode != VC_MODE_I2V)
        vc_flags_wrong(p->flags, "--extra_inputs input_image: %s takes no first frame: leave the "
                       "flag out, or give an image-to-video --model", p->c.model);
    else if (mode != VC_MODE_CONTROL_REF)
        select_mode(p, "extra_inputs input_image", VC_MODE_I2V, "the first frame of each clip");
}

/* The version of a model that is given by files. A model's folder says its own. */
static void take_version(vprep *p)
{
    const vc_pipeline *pipeline = p->encoders.family.pipeline;

    if (p->c.model)
        vc_say(p->progress, "--model_version: has no effect here: the family is read from the "
               "model's folder");
    else if (pipeline && pipeline->mode == VC_MODE_EDIT)
        select_mode(p, p->c.model_version ? "model_version" : p->c.edit ? "edit" : "edit_plus",
                    VC_MODE_EDIT, "the reference pictures of each row");
}

void prep_take_inputs(vprep *p, vc_mode mode)
{
    vprep_config *c = &p->c;
    const bool control = vc_inputs_have(c->extra_inputs, VC_INPUT_CONTROL);
    const bool last = vc_inputs_have(c->extra_inputs, VC_INPUT_LAST);

    if (c->train_mode >= VC_MODES)               /* VideoX-Fun's words */
        c->train_mode = VC_MODE_EDIT;
    if (c->control_directory.n)
        select_mode(p, "control_directory", VC_MODE_EDIT, "the pictures of its folders");
    else if (c->mask_directory)
        select_mode(p, "mask_directory", VC_MODE_INPAINT, "the masks of its folder");
    else if (c->model_version || c->edit || c->edit_plus)
        take_version(p);
    if (!c->extra_inputs)
        return;
    vc_inputs_refuse(p->flags, c->extra_inputs);
    if (last && !p->encoders.family.is->masked_frames)
        vc_flags_wrong(p->flags, "--extra_inputs end_image: models of %s know no last frame here: "
                       "leave it out", p->encoders.family.is->name);
    p->encoders.ends |= last;
    if (vc_inputs_have(c->extra_inputs, VC_INPUT_CONTROL_MASK))
        take_control_mask(p, mode);
    else if (control)
        take_control(p, mode);
    if (vc_inputs_have(c->extra_inputs, VC_INPUT_REFERENCES))
        take_references(p);
    if (vc_inputs_have(c->extra_inputs, VC_INPUT_FILL))
        take_fill(p);
    if (vc_inputs_have(c->extra_inputs, VC_INPUT_VACE))
        take_vace(p, mode);
    if (vc_inputs_have(c->extra_inputs, VC_INPUT_SOUND)) {
        c->with_audio = true;
        vc_say(p->progress, "--extra_inputs input_audio selects --with_audio: the sound of each "
               "clip's own file, whatever the list's column names");
    }
    if (last || vc_inputs_have(c->extra_inputs, VC_INPUT_FIRST))
        take_image(p, mode);
    c->extra_inputs = vc_inputs_columns(c->extra_inputs);
}
