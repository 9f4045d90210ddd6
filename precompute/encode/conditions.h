/* conditions.h - the values of a sample: which are stored, their keys, their pixels, their noise.
 *
 *   i2v      image         the first frame encoded alone, as a clip of one frame
 *            image_noised  K first frames with pixel noise, each alone (--image_noise_variants)
 *   inpaint  video         the clip, or the picture of the column flux_fill_image, with its
 *                         masked pixels at -1 (black), or 0 (grey)
 *            mask          1 = known, on the latent grid, or all pixels, 1 = to be generated
 *            vision        the first frame's states of a vision model, if the transformer has them
 *   control  control       the clip of the column control_file_path
 *   control_ref            control, image and vision
 *   edit     reference_1.. of rows with reference pictures: each encoded alone, in its own size
 *   vace     video         the clip of the column vace_video or control_file_path, or the clip
 *                          itself, with its masked pixels at 0 (grey)
 *            reactive      the same with the other pixels at 0; of the clip itself all are 0
 *            mask          all pixels, 1 = to be generated
 *            reference_1.. of rows with reference pictures, each in the clip's size
 *   any      loss_mask     of rows with a loss_mask_path: what counts in the loss (loss_mask.h)
 *
 * The rows of these roles (common/roles.h) say how each is made. Each value is an entry of the
 * dataset by a content key of its own, so that a change of mode encodes conditions and no clip. The
 * mask is the clip's (masks.h), drawn with the plan. */
#ifndef PRECOMPUTE_ENCODE_CONDITIONS_H
#define PRECOMPUTE_ENCODE_CONDITIONS_H

#include "common/roles.h"
#include "precompute/run/vprep.h"

/* VC_ROLE_BITs of the values that are stored of a row, and of a validation prompt's picture. */
unsigned vprep_values(const vprep *p, const vf_row *row);
unsigned vprep_prompt_roles(const vprep *p);
/* The file of an item whose pixels its mask divides: VF_FILLED, in the mode vace VF_CONTROL too, or
 * VF_BESIDE, the source itself. it NULL: of a prompt. */
vf_beside vprep_masked_from(const vprep *p, const vprep_item *it);
/* The samples of a clip's sound, and the frames of its latent: at least 1. */
int64_t vprep_sound_samples(const vprep *p, const vprep_clip *clip);
int vprep_sound_frames(const vprep *p, const vprep_clip *clip);
/* Whether a value of a divided clip is grey in all pixels: the masked part where the mask has all,
 * and the other part where the clip is the sample itself, whose pixels are to be generated. */
bool vprep_is_grey(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role);
/* Whether the autoencoder takes as many frames for the value as the clip has. */
bool vprep_is_whole(vc_role role);
vf_key vprep_value_key(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role);
/* The same for a clip that is no sample (of a validation prompt), from a file with that hash. */
vf_key vprep_prompt_key(const vprep *p, vf_key source, const vprep_clip *clip, vc_role role);
/* The key of the picture in an item's texts, its clip's first frame; and in those of a prompt whose
 * picture is a file with that hash. */
vf_key vprep_picture_key(const vprep *p, const vprep_item *it, const vprep_clip *clip);
vf_key vprep_prompt_picture_key(vf_key source, const vprep_clip *clip);
/* The reference pictures of the model, and whether the run stores them, where rows have some. */
const vc_references *vprep_references(const vprep *p);
bool vprep_takes_references(const vprep *p);
/* Checks that a row's references are as many as models take; it may have none. */
int vprep_check_references(const vprep *p, const vf_row *row, vc_err *err);
/* The size of a reference picture beside a clip of that choice (NULL: none is known), dropped with
 * a reason where none is possible. */
void vprep_reference_size(const vprep *p, const prep_beside *b, const vb_choice *clip,
                          vb_choice *c);
/* The reference picture of a row's file `which`, beside a clip of that choice, as a clip of one
 * frame that vprep_clip_free frees. */
int vprep_reference_clip(const vprep *p, const vprep_item *it, vf_beside which,
                         const vb_choice *of, vprep_clip *clip, vc_err *err);
/* The copy of a reference picture for the text encoder: the file's picture as `read` cuts it, which
 * the encoder brings to h x w. Its key. */
typedef struct prep_look {
    vb_choice read;
    int h, w;
} prep_look;
void vprep_look(const vprep *p, const prep_beside *b, prep_look *l);
vf_key vprep_look_key(const prep_look *l, vf_key shown, media_tonemap tonemap);
/* The pictures of an item's texts: none, its clip's first frame, or its references; the clip is not
 * read for these. */
void vprep_pictures_of(const vprep *p, const vprep_item *it, const vprep_clip *clip,
                       prep_pictures *is);
/* Frames of the clip that a value of an item (NULL: of a prompt) is made from: all, 1, or 0. */
int vprep_value_frames(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role);
/* Channels of a mask's value. */
int vprep_mask_channels(const vprep *p);
/* Rows of a `vision` value: the vision model's of one frame, or of the first and the last. */
int vprep_seen_tokens(const vprep *p);
/* Bytes of a value of the item as stored, without its header: for estimates. */
double vprep_value_bytes(const vprep *p, const vprep_item *it, const vb_choice *c, vc_role role);

/* Standard normals of a sample's (seed, id, variant, purpose), one after the other, from block
 * place * 2^28 on. Place 0 is vc_draw_normals. it NULL: id and variant 0, for prompts. */
typedef struct vprep_normals {
    vc_draws d;
    float z[4];
    unsigned at;
} vprep_normals;
vprep_normals vprep_normals_of(const vprep *p, const vprep_item *it, uint32_t purpose,
                               uint32_t place);
float vprep_normal(vprep_normals *s);
/* Leaves out n normals of an s whose last block is used up, or that has none yet. */
void vprep_normals_skip(vprep_normals *s, size_t n);

/* Sigma of the pixel noise of image-to-video training: exp(N(-3, 0.5)) from the first block of s,
 * whose other normals are not used. */
float vprep_noise_sigma(vprep_normals *s);
#define VPREP_PROMPT_SIGMA 0.0563f   /* of validation prompts, as VideoX-Fun samples */
/* x += sigma * n in place, with the next normals of s. keep_masked: values of exactly -1 stay. */
void vprep_pixel_noise(float *x, size_t n, float sigma, bool keep_masked, vprep_normals *s);

/* The value of masked pixels. */
float vprep_mask_fill(const vprep *p);
/* Frame t of the clip as the VAE gets it, x f32 [h,w,3], with `fill` on the pixels that the mask
 * has (masked), or on the others. scratch: h*w. */
void vprep_apply_mask(float *x, const mask *m, int t, bool masked, float fill, uint8_t *scratch);

#endif
