/* roles.c - see roles.h */
#include "common/roles.h"

#include "common/base/rng.h"

enum { I2V = 1 << VC_MODE_I2V, INPAINT = 1 << VC_MODE_INPAINT, CONTROL = 1 << VC_MODE_CONTROL,
       CONTROL_REF = 1 << VC_MODE_CONTROL_REF, EDIT = 1 << VC_MODE_EDIT, VACE = 1 << VC_MODE_VACE,
       ALL_MODES = (1 << VC_MODES) - 1 };

/* A reference's key is that of a still of the file, so that a picture that is another sample's clip
 * and keeps its size is encoded once. */
#define REFERENCE(k) \
    [VC_ROLE_REFERENCE + k - 1] = { \
        .name = "reference_" #k, .kind = VC_VALUE_MOMENTS, .own_size = true, .modes = EDIT | VACE, \
        .recipe = { .tag = "latent", .keyed = VC_KEYED_PIXELS | VC_KEYED_ENCODING, \
                    .pixels = VC_PIXELS_REFERENCE }, \
        .what = "a reference picture" }

const vc_role_row vc_roles[VC_ROLES] = {
    [VC_ROLE_CLIP] = {
        .kind = VC_VALUE_MOMENTS, .clip = true, .modes = ALL_MODES,
        .recipe = { .tag = "latent", .keyed = VC_KEYED_PIXELS | VC_KEYED_ENCODING,
                    .pixels = VC_PIXELS_CLIP } },
    /* the recipe's key is that of a still of the first frame, and so are its draws */
    [VC_ROLE_IMAGE] = {
        .name = "image", .kind = VC_VALUE_MOMENTS, .modes = I2V | CONTROL_REF,
        .recipe = { .tag = "latent", .keyed = VC_KEYED_PIXELS | VC_KEYED_ENCODING,
                    .pixels = VC_PIXELS_FIRST },
        .what = "a first-frame image", .draw = VC_DRAW_IMAGE_LATENT },
    [VC_ROLE_IMAGE_NOISED] = {
        .name = "image_noised", .kind = VC_VALUE_VARIANTS, .modes = I2V,
        .recipe = { .tag = "image_noised", .keyed = VC_KEYED_PIXELS | VC_KEYED_VARIANTS |
                    VC_KEYED_DRAWS | VC_KEYED_ENCODING, .pixels = VC_PIXELS_FIRST,
                    .noise = VC_NOISE_ALL, .place = 2 },
        .instead_of = VC_ROLE_IMAGE },
    [VC_ROLE_VIDEO] = {
        .name = "video", .kind = VC_VALUE_MOMENTS, .clip = true, .modes = INPAINT | VACE,
        .recipe = { .tag = "video", .keyed = VC_KEYED_MASK | VC_KEYED_NOISE | VC_KEYED_PIXELS |
                    VC_KEYED_DRAWS | VC_KEYED_ENCODING, .pixels = VC_PIXELS_MASKED,
                    .noise = VC_NOISE_KNOWN, .place = 3 },
        .what = "a masked clip", .draw = VC_DRAW_VIDEO_LATENT },
    [VC_ROLE_MASK] = {
        .name = "mask", .kind = VC_VALUE_MASK, .clip = true, .modes = INPAINT | VACE,
        .recipe = { .tag = "mask", .keyed = VC_KEYED_MASK | VC_KEYED_GRID,
                    .pixels = VC_PIXELS_MASK }, .what = "a mask" },
    [VC_ROLE_LOSS_MASK] = {
        .name = "loss_mask", .kind = VC_VALUE_MASK, .clip = true, .modes = ALL_MODES,
        .recipe = { .tag = "loss_mask", .keyed = VC_KEYED_PIXELS | VC_KEYED_GRID,
                    .pixels = VC_PIXELS_LOSS_MASK } },
    [VC_ROLE_VISION] = {
        .name = "vision", .kind = VC_VALUE_EMBEDS, .modes = I2V | INPAINT | CONTROL_REF,
        .recipe = { .tag = "vision", .keyed = VC_KEYED_PIXELS | VC_KEYED_VISION,
                    .pixels = VC_PIXELS_SEEN },
        .what = "a vision model's states of the first frame" },
    [VC_ROLE_CONTROL] = {
        .name = "control", .kind = VC_VALUE_MOMENTS, .clip = true, .modes = CONTROL | CONTROL_REF,
        .recipe = { .tag = "control", .keyed = VC_KEYED_PIXELS | VC_KEYED_ENCODING,
                    .pixels = VC_PIXELS_CONTROL, .place = 4 },
        .what = "a control clip", .draw = VC_DRAW_CONTROL_LATENT },
    REFERENCE(1), REFERENCE(2), REFERENCE(3), REFERENCE(4),
    [VC_ROLE_AUDIO] = {
        .name = "audio", .kind = VC_VALUE_MOMENTS, .sound = true, .modes = ALL_MODES,
        .recipe = { .tag = "audio", .keyed = VC_KEYED_SOUND, .pixels = VC_PIXELS_SOUND,
                    .place = 5 } },
    [VC_ROLE_REACTIVE] = {
        .name = "reactive", .kind = VC_VALUE_MOMENTS, .clip = true, .modes = VACE,
        .recipe = { .tag = "reactive", .keyed = VC_KEYED_MASK | VC_KEYED_PIXELS |
                    VC_KEYED_ENCODING, .pixels = VC_PIXELS_REACTIVE, .place = 6 },
        .what = "the part of a clip to be made again", .draw = VC_DRAW_VIDEO_LATENT },
};
_Static_assert(VC_REFERENCES == 4, "a row for each reference picture");

bool vc_role_of_mode(vc_role role, const vc_family *f, vc_mode mode)
{
    const bool masked = mode == VC_MODE_I2V && f->masked_frames;

    return vc_roles[role].modes & 1u << (masked ? VC_MODE_INPAINT : mode) &&
           (role != VC_ROLE_CONTROL || f->inputs[mode] || f->controlnet) &&
           (!vc_roles[role].sound || f->audio_vae) &&
           vc_role_reference(role) < f->references.most;
}

int vc_role_reference(vc_role role)
{
    return role >= VC_ROLE_REFERENCE && role < VC_ROLE_REFERENCE_END
           ? (int)role - VC_ROLE_REFERENCE : -1;
}

vc_role vc_role_stand_in(vc_role role)
{
    for (int i = 1; i < VC_ROLES && role; i++)
        if (vc_roles[i].instead_of == role)
            return (vc_role)i;
    return VC_ROLE_CLIP;
}
