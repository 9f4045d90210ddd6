/* roles.h - the values that a sample's record refers to: one row of facts a role.
 *
 * vprep makes a role's value by its recipe, `vlat verify` checks that the value has the row's kind
 * and frames, and vtrain brings the value to a transformer that takes the role. So a role that
 * combines these facts in another way is a row of the table, and no program names it. Values of
 * all roles are stored in the type that --dtype selects (docs/format.md). */
#ifndef COMMON_ROLES_H
#define COMMON_ROLES_H

#include "common/families.h"

/* New roles go to the end: draws of stored values depend on recipes' `place`, not on this order,
 * but channels of several clips are joined in this order (train/models/dit.h). */
typedef enum vc_role {
    VC_ROLE_CLIP, VC_ROLE_IMAGE, VC_ROLE_IMAGE_NOISED, VC_ROLE_VIDEO, VC_ROLE_MASK,
    VC_ROLE_LOSS_MASK, VC_ROLE_VISION, VC_ROLE_CONTROL,
    VC_ROLE_REFERENCE,               /* the first of VC_REFERENCES reference pictures, which a model
                                      * that edits pictures sees beside the sample */
    VC_ROLE_REFERENCE_END = VC_ROLE_REFERENCE + VC_REFERENCES,
    VC_ROLE_AUDIO = VC_ROLE_REFERENCE_END,           /* the clip's sound */
    VC_ROLE_REACTIVE,                /* what VC_ROLE_VIDEO leaves out of a clip */
    VC_ROLES
} vc_role;
#define VC_ROLE_BIT(role) (1u << (role))
#define VC_ROLES_REFERENCE (((1u << VC_REFERENCES) - 1) << VC_ROLE_REFERENCE)

/* Tensors of a value: C channels of the autoencoder on a latent grid of f, h, w. */
typedef enum vc_value {
    VC_VALUE_OTHER,                  /* none of these */
    VC_VALUE_MOMENTS,                /* mean [C,f,h,w] and logvar, or sample */
    VC_VALUE_VARIANTS,               /* the same of n pictures: [n,C,f,h,w] */
    VC_VALUE_MASK,                   /* mask [1,f,h,w]; of folded_masks [k,f,h,w], with a channel
                                      * for each of a latent frame's k pixel frames */
    VC_VALUE_EMBEDS                  /* image_embeds [n,D] */
} vc_value;

/* Pixels that vprep makes a value from. */
typedef enum vc_pixels {
    VC_PIXELS_NONE,                  /* vprep does not make the value */
    VC_PIXELS_CLIP,                  /* all frames */
    VC_PIXELS_FIRST,                 /* the first frame, encoded alone */
    VC_PIXELS_MASKED,                /* all frames, black or grey where the sample's mask is */
    VC_PIXELS_REACTIVE,              /* the same frames, grey where the mask is not */
    VC_PIXELS_SEEN,                  /* the frames that a vision model looks at: the first, and the
                                      * last of models that know the last frame */
    VC_PIXELS_MASK,                  /* the sample's mask (precompute/media/masks.h) */
    VC_PIXELS_CONTROL,               /* the frames of the row's control_file_path */
    VC_PIXELS_REFERENCE,             /* a reference picture of the row, in a size of its own */
    VC_PIXELS_LOSS_MASK,             /* the file of the row's loss_mask_path; without it, nothing */
    VC_PIXELS_SOUND                  /* no pixels: the sound during the clip's frames */
} vc_pixels;

/* Pixel noise that is added before the autoencoder. */
typedef enum vc_noise {
    VC_NOISE_NONE, VC_NOISE_ALL,
    VC_NOISE_KNOWN                   /* of models that ask for it: on pixels that no mask covers */
} vc_noise;

/* The fields that a content key hashes after the recipe's tag, in this order. */
enum {
    VC_KEYED_MASK = 1,               /* the sample's mask */
    VC_KEYED_NOISE = 2,              /* whether VC_NOISE_KNOWN applies */
    VC_KEYED_PIXELS = 4,             /* source file, frames, sizes, crop, flip */
    VC_KEYED_VARIANTS = 8,           /* --image_noise_variants */
    VC_KEYED_DRAWS = 16,             /* seed, id and variant, where pixels are noised */
    VC_KEYED_ENCODING = 32,          /* autoencoder, precision, tiling, types */
    VC_KEYED_GRID = 64,              /* ratios of the latent grid, type */
    VC_KEYED_VISION = 128,           /* vision model, precision, type */
    VC_KEYED_SOUND = 256             /* source file, first frame, samples, autoencoder of sound,
                                      * precision, types */
};

typedef struct vc_recipe {
    const char *tag;                 /* NULL: vprep does not make the value */
    unsigned keyed;                  /* VC_KEYED_ bits */
    vc_pixels pixels;
    vc_noise noise;
    unsigned place;                  /* of the value's posterior noise among the sample's draws */
} vc_recipe;

typedef struct vc_role_row {
    const char *name;                /* in `conditions` of a record; NULL: of the clip itself */
    vc_value kind;
    bool clip;                       /* the value has the clip's latent frames; else one frame */
    bool own_size;                   /* the value has rows and columns of its own, which a record's
                                      * `references` has; else the clip's */
    bool sound;                      /* the value is of sound: its latent [C,f,1,bins] has f frames
                                      * of its own */

    /* vprep */
    unsigned modes;                  /* 1 << vc_mode of each --train_mode that makes the value:
                                      * vc_role_of_mode */
    vc_recipe recipe;

    /* vtrain */
    const char *what;                /* in messages; NULL: no transformer takes the role */
    vc_role instead_of;              /* where a dataset has this value, training takes it in place
                                      * of that role's; VC_ROLE_CLIP: of none */
    unsigned draw;                   /* VC_DRAW_ purpose of the posterior noise in training */
} vc_role_row;

extern const vc_role_row vc_roles[VC_ROLES];

/* Whether vprep makes a role's value in a mode, for clips of a family. */
bool vc_role_of_mode(vc_role role, const vc_family *f, vc_mode mode);

/* The place of a role among the reference pictures, from 0; below 0: it is none. */
int vc_role_reference(vc_role role);

/* The role that training takes in place of `role` where a dataset has it; VC_ROLE_CLIP: none. */
vc_role vc_role_stand_in(vc_role role);

#endif
