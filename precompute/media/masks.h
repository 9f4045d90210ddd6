/* masks.h - random inpainting masks: which pixels of a clip are to be generated.
 *
 * A mask is a kind and a few integers, so that a plan line holds and replays the whole mask. The
 * kinds, their probabilities and the ranges of their numbers are VideoX-Fun's (docs/sampling.md,
 * section 13). Mask value 1: to be generated. Pixels are those after crop and flip. Pure functions,
 * thread-safe. */
#ifndef PRECOMPUTE_MEDIA_MASKS_H
#define PRECOMPUTE_MEDIA_MASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/rng.h"
#include "formats/json/json.h"

typedef enum mask_kind {
    MASK_BLOCK,              /* cx cy bw bh: a block in all frames */
    MASK_ALL,                /* everything */
    MASK_KEEP_HEAD,          /* c: frames from c on */
    MASK_KEEP_ENDS,          /* c: frames c to f-c-1, if there are any */
    MASK_BLOCK_IN_TIME,      /* cx cy bw bh t0 t1: a block in frames t0 to t1-1 */
    MASK_NOISE,              /* pattern: seeds a fair Philox bit for each frame and pixel */
    MASK_SMALL_BOXES,        /* (frame bh bw y x) for each of some frames */
    MASK_ELLIPSE,            /* cx cy rx ry n: in frames 0 to n-1 */
    MASK_CIRCLE,             /* cx cy r n */
    MASK_WHOLE_FRAMES,       /* numbers of the frames that are masked, ascending */
    MASK_FILE,               /* of a picture, for all frames, or of a clip; plans do not have it */
    MASK_KINDS
} mask_kind;

typedef struct mask {
    mask_kind kind;
    int f, h, w;             /* of the clip */
    int n;                   /* count of numbers */
    int32_t *v;              /* [n], as the kind has them */
    uint8_t *pixels;         /* of MASK_FILE, 0 or 1, malloc'ed; NULL before they are read */
    int n_pixels;            /* their frames: f, or 1 that holds for all */
} mask;

/* Draws a mask for a clip of f frames (1: with the odds of stills), the kind and the numbers from
 * separate streams. all_frames: ellipse and circle lie in every frame instead of the first. The
 * caller frees with mask_free. */
int mask_draw(mask *m, int f, int h, int w, bool all_frames, vc_draws *kind, vc_draws *numbers,
              vc_err *err);
/* Makes the mask of image-to-video: every frame but the first is to be generated, and the last is
 * known too if `ends`. A clip of one frame has no other. The caller frees with mask_free. */
int mask_keep(mask *m, int f, int h, int w, bool ends, vc_err *err);
/* Cuts the mask to the first f frames; its numbers or its kind change where the mask depended on
 * the end of the clip. */
void mask_cut(mask *m, int f);
void mask_free(mask *m);                             /* an all-zero mask is fine */

/* The draw of a plan line: {"purpose":"mask","options":[kinds],"pick":"block","numbers":[...]}.
 * NULL when out of memory. */
cJSON *mask_json(const mask *m);
/* Reads such a draw for a clip of f, h, w. VC_EFORMAT, VC_EINVAL: an unknown kind, numbers that
 * are not of that kind. */
int mask_parse(mask *m, const cJSON *draw, int f, int h, int w, vc_err *err);

/* Writes the 0s and 1s of frame t to out [h,w]. */
void mask_frame(const mask *m, int t, uint8_t *out);
/* Whether the numbers show that every pixel of every frame is 1. (They do not for noise, and for
 * several small boxes that fill a frame only together.) */
bool mask_is_all(const mask *m);

/* The mask on the latent grid as the model gets it, 1 = known: out f32 [(f-1)/k+1, h/r, w/r]. The
 * complement, resized trilinearly without low-pass, frame 0 by itself: for even k and r the mean
 * of the two middle rows and columns of each r x r block, in frame 0 and in the two middle frames
 * of each k. scratch: h*w bytes. */
void mask_to_grid(float *out, const mask *m, int k, int r, uint8_t *scratch);
/* The same for folded masks: out f32 [k, (f-1)/k+1, h/r, w/r], whose channel j of latent frame i is
 * the mean of the middle of each block in pixel frame (i-1)k+1+j. All channels of latent frame 0
 * are of pixel frame 0. */
void mask_fold(float *out, const mask *m, int k, int r, uint8_t *scratch);
/* The pixels of the mask, 1 = to be generated: out f32 [r*r, (f-1)/k+1, h/r, w/r], whose channel
 * y*r+x is row y and column x of each r x r block, in the pixel frame nearest to the middle of the
 * latent frame's share of the clip. As FluxFillPipeline.prepare_mask_latents and
 * WanVACEPipeline.prepare_masks of diffusers. scratch: h*w bytes. */
void mask_pixels(float *out, const mask *m, int k, int r, uint8_t *scratch);

#endif
