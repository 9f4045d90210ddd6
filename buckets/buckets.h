/* buckets.h - chooses size, crop and frames of one sample from its random draws.
 *
 * The choice is a pure function of (rules, source, id, variant, seed): no files, no state,
 * thread-safe. Rules and names are those of VideoX-Fun; docs/sampling.md lists each rule and each
 * difference. hw is (height, width); k is the VAE's temporal ratio, pt the patch's length in latent
 * frames, q the side multiple. */
#ifndef BUCKETS_BUCKETS_H
#define BUCKETS_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/families.h"

typedef enum { VB_RULE_DOC, VB_RULE_PEER, VB_RULE_TOKENS } vb_frame_rule;
typedef enum { VB_COUNT_ALL, VB_COUNT_PEER } vb_frame_count;     /* (N-1)//s + 1 | N//s frames */
/* The start is drawn for the clip as it is kept | for the clip before it is cut | is frame 0. */
typedef enum { VB_START_WHOLE, VB_START_PEER, VB_START_FIRST } vb_start_rule;
typedef enum { VB_FIT_CROP, VB_FIT_STRETCH } vb_fit;             /* to fix_sample_size */
typedef enum { VB_METRIC_PEER, VB_METRIC_LOG } vb_metric;        /* finds the nearest bucket */
typedef enum { VB_SMALL_ENLARGE, VB_SMALL_DROP } vb_on_small;

/* The sampling flags: vb_rules_default sets defaults, vb_rules_check checks them once. */
typedef struct vb_rules {
    const vc_family *family;
    bool enable_bucket;                  /* default: true */
    int64_t video_sample_size;           /* V, default 512 */
    int64_t image_sample_size;           /* I, default 512 */
    int64_t token_sample_size;           /* T, default 512 */
    int64_t fix_h, fix_w;                /* fix_sample_size; 0: no fixed size */
    int64_t max_pixels;                  /* each source keeps its size up to this area; 0:
                                          * buckets */
    bool random_hw_adapt;
    bool token_length;                   /* training_with_video_token_length */
    bool random_ratio_crop;
    bool random_frame_crop;
    int64_t stride;                      /* video_sample_stride, default 4 */
    int64_t n_frames;                    /* video_sample_n_frames, default 17 */
    bool peer;                           /* sizes and shapes are computed as VideoX-Fun does: in
                                          * doubles, from a picture that was shrunk once before */
    vb_frame_rule frame_rule;
    vb_frame_count frame_count;
    vb_start_rule start_rule;
    vb_fit fit;
    vb_metric metric;
    double max_upscale;                  /* default 1.25; rounded to six decimals */
    vb_on_small on_small;
    bool allow_upscale;                  /* allows I < V */
    bool random_flip;
} vb_rules;

enum {
    VB_MAX_SAMPLE_SIZE = 16384,          /* V, I, T and each side of fix_sample_size */
    VB_MAX_FRAMES = 65536,               /* video_sample_n_frames */
    VB_MAX_STRIDE = 1000000,
    VB_MAX_PIXELS = 1 << 28,
    VB_MAX_RESIZED_SIDE = 65535          /* a source that needs a longer side is dropped */
};

void vb_rules_default(vb_rules *r, const vc_family *family);
/* --sampling peer: sets every switch that has a value for VideoX-Fun's rule to that value. A sample
 * is then chosen as VideoX-Fun chooses a batch of one. Call this function before you set the
 * switches that the user typed. */
void vb_rules_peer(vb_rules *r);

/* VC_EUSAGE names the flag, its value and the allowed values. Applies the effects of
 * fix_sample_size: V and I become at least its longer side, and random_hw_adapt and token_length
 * become false. max_pixels makes both false too.
 * *warning, unless the pointer is NULL, becomes a static line about flags that do nothing in this
 * combination (token length without random_hw_adapt, size flags without buckets), or NULL. */
int vb_rules_check(vb_rules *r, const char **warning, vc_err *err);

/* Checks like vb_rules_check and reports every fault; err gets the first. */
typedef void vb_report(void *arg, const char *text);
int vb_rules_check_all(vb_rules *r, const char **warning, vb_report *report, void *arg,
                       vc_err *err);

typedef struct vb_source {
    bool is_video;
    int w, h;                /* displayed size */
    int64_t frames;          /* a video's counted frames; ignored for a still */
    bool lr_caption;         /* the caption has "left" or "right": the picture is never flipped */
} vb_source;

enum { VB_MAX_DRAWS = 8, VB_MAX_OPTIONS = 128 };

/* One random choice as the plan records it. The plan leaves choices with a single outcome out. */
typedef struct vb_draw {
    const char *purpose;     /* "size", "ratio", "frame_crop", "start", "flip", in this order */
    bool is_range;           /* true: lo..hi and pick are set; false: options and picked */
    int64_t lo, hi, pick;    /* range with both ends included, and the number drawn; flip is 0..1 */
    int n_options, picked;   /* number of options, and the index drawn */
    char options[VB_MAX_OPTIONS][12];    /* options as text: "512", "1.25", "0.57" */
} vb_draw;

/* The decisions for one sample and variant. A sample that is not dropped has these properties:
 *   - target sides are positive multiples of q (with a fixed size: of ratio * patch);
 *   - the resized picture covers the target, and the crop lies inside the picture. With `peer` and
 *     random_ratio_crop one side may be one pixel short: top or left is then 0, and the missing
 *     pixels are black;
 *   - frames is kj+1 with latent_f a multiple of pt, or frames is 1;
 *   - every source frame start + i * stride is inside the file;
 *   - under the rule "tokens" the latent frames times (target_h / q) * (target_w / q) stay within
 *     the budget, or frames is 1.
 * A dropped sample has only `reason` and the decisions that came before the drop. */
typedef struct vb_choice {
    bool drop;
    char reason[192];                    /* why the sample was dropped, with the numbers */
    char key[16];                        /* bucket key as text: "0.57"; the target's hw, "480x832",
                                          * for a fixed size or without buckets */
    int load_h, load_w;                  /* `peer`: size to which the picture is shrunk first, in 8
                                          * bits and without low-pass; 0: the picture is not
                                          * shrunk */
    int target_h, target_w;
    int resize_h, resize_w, top, left;
    bool flip;
    bool framed;                         /* of a reference picture that a white frame surrounds:
                                          * brought to load_h x load_w by Lanczos' filter, then
                                          * bilinear to resize_h x resize_w */
    bool lanczos;                        /* of a reference picture that is resized: by the filter of
                                          * diffusers' pipelines, as Pillow has it */
    int64_t start, stride;               /* source frame i of the clip: start + i * stride */
    int frames;                          /* kj+1 pixel frames are kept */
    int loaded;                          /* frames before size, frame crop and kj+1 cut them */
    double upscale;                      /* factor of enlargement, at least 1 */
    int latent_f, latent_h, latent_w;
    int64_t tokens;                      /* length of the transformer's picture sequence */
    int n_draws;
    vb_draw draws[VB_MAX_DRAWS];         /* 12 KiB; the last field, as only n_draws of them are
                                          * set */
} vb_choice;

/* id is XXH3-64 of the path as written, seeded by the count of earlier rows with the same path.
 * r has passed vb_rules_check. Never fails: a sample that fits no rule is dropped with a reason. */
void vb_choose(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id, uint32_t variant,
               uint64_t seed);

/* Lists the sizes of `--variants sizes` for this source, ascending, in whole pixels (819 stands for
 * 1024 / 1.25), and returns their number, 1 to max (max should be VB_MAX_OPTIONS); the number is 1
 * if the flags draw no size. vb_choose_size is vb_choose with the listed size p instead of a drawn
 * one; if p is not listed, the nearest listed size is taken. */
int vb_sizes(const vb_rules *r, const vb_source *s, int64_t *p, int max);
void vb_choose_size(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                    uint32_t variant, uint64_t seed, int64_t p);

#endif
