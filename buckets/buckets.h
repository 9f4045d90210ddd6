/* buckets.h - which size, which crop, which frames: one sample's selection from its draws.
 *
 * A pure function of (rules, source, id, variant, seed): no files, no state, thread-safe.
 * Rules and names are those of VideoX-Fun; docs/sampling.md has each of them, and where ours
 * differ. hw is (height, width); k is the VAE's temporal ratio, q the side multiple. */
#ifndef BUCKETS_BUCKETS_H
#define BUCKETS_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/families.h"

typedef enum { VB_RULE_DOC, VB_RULE_PEER, VB_RULE_TOKENS } vb_frame_rule;
typedef enum { VB_COUNT_ALL, VB_COUNT_PEER } vb_frame_count;     /* (N-1)//s + 1 | N//s frames */
/* drawn for the clip | before cuts | frame 0 */
typedef enum { VB_START_WHOLE, VB_START_PEER, VB_START_FIRST } vb_start_rule;
typedef enum { VB_FIT_CROP, VB_FIT_STRETCH } vb_fit;             /* of a fixed size */
typedef enum { VB_METRIC_PEER, VB_METRIC_LOG } vb_metric;        /* of the nearest bucket */
typedef enum { VB_SMALL_ENLARGE, VB_SMALL_DROP } vb_on_small;

/* The sampling flags (defaults by vb_rules_default); checked once by vb_rules_check. */
typedef struct vb_rules {
    const vc_family *family;
    bool enable_bucket;                  /* on */
    int64_t video_sample_size;           /* V, 512 */
    int64_t image_sample_size;           /* I, 512 */
    int64_t token_sample_size;           /* T, 512 */
    int64_t fix_h, fix_w;                /* fix_sample_size; 0: none */
    int64_t max_pixels;                  /* each source's own size, up to this area; 0: buckets */
    bool random_hw_adapt;
    bool token_length;                   /* training_with_video_token_length */
    bool random_ratio_crop;
    bool random_frame_crop;
    int64_t stride;                      /* video_sample_stride, 4 */
    int64_t n_frames;                    /* video_sample_n_frames, 17 */
    bool peer;                           /* sizes and shapes as VideoX-Fun computes them, in doubles
                                          * and from a picture shrunk once before */
    vb_frame_rule frame_rule;
    vb_frame_count frame_count;
    vb_start_rule start_rule;
    vb_fit fit;
    vb_metric metric;
    double max_upscale;                  /* 1.25; six decimals count */
    vb_on_small on_small;
    bool allow_upscale;                  /* lets I < V through */
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
/* --sampling peer: every switch that has VideoX-Fun's way goes to it. A sample is chosen as that
 * chooses a batch of one. Call it before the switches that were given by themselves are set. */
void vb_rules_peer(vb_rules *r);

/* VC_EUSAGE names the flag, its value and what is allowed. Applies fix_sample_size's side
 * effects: V and I become at least its longer side, random_hw_adapt and token_length go off, as
 * they do with max_pixels.
 * *warning, if not NULL, gets a static line about flags that do nothing in this combination
 * (token length without random_hw_adapt, size flags without buckets), or NULL. */
int vb_rules_check(vb_rules *r, const char **warning, vc_err *err);

/* As vb_rules_check, and tells each thing that is wrong; err has the first. */
typedef void vb_tell(void *arg, const char *text);
int vb_rules_check_all(vb_rules *r, const char **warning, vb_tell *tell, void *arg, vc_err *err);

typedef struct vb_source {
    bool is_video;
    int w, h;                /* displayed size */
    int64_t frames;          /* of a video, as counted; not read for a still */
    bool lr_caption;         /* a caption says "left" or "right": never flipped */
} vb_source;

enum { VB_MAX_DRAWS = 8, VB_MAX_OPTIONS = 128 };

/* One random choice as the plan tells it. Choices with a single outcome are left out. */
typedef struct vb_draw {
    const char *purpose;     /* "size", "ratio", "frame_crop", "start", "flip", in this order */
    bool is_range;           /* range lo..hi and pick, or a list of options and an index into it */
    int64_t lo, hi, pick;    /* is_range: both ends included; flip is 0..1 */
    int n_options, picked;   /* otherwise */
    char options[VB_MAX_OPTIONS][12];    /* as text: "512", "1.25", "0.57" */
} vb_draw;

/* Everything that is decided for one sample and variant. Unless it is dropped:
 *   target sides are multiples of q (of ratio * patch, if fixed) and at least that; the resized
 *   picture covers the target and the crop lies inside it (with `peer` and random_ratio_crop one
 *   side may be one pixel short: then top or left is 0, and what is missing is black); frames is
 *   kj+1 with latent_f a multiple of pt, or 1; every source frame start + i * stride is inside the
 *   file; under the rule "tokens" the latent frames times (target_h / q) * (target_w / q) stay
 *   within the budget, or frames is 1.
 * A dropped choice has only `reason` and whatever was decided before it was dropped. */
typedef struct vb_choice {
    bool drop;
    char reason[160];                    /* why, with the numbers, if dropped */
    char key[16];                        /* bucket key as text: "0.57"; fixed or without buckets
                                          * the target's hw: "480x832" */
    int load_h, load_w;                  /* `peer`: the picture is shrunk to this first, in 8 bits
                                          * and without low-pass; 0: it is not */
    int target_h, target_w;
    int resize_h, resize_w, top, left;
    bool flip;
    int64_t start, stride;               /* source frame i of the clip: start + i * stride */
    int frames;                          /* kj+1 pixel frames kept */
    int loaded;                          /* before size, frame crop and kj+1 cut them */
    double upscale;                      /* factor of enlargement, 1 if none */
    int latent_f, latent_h, latent_w;
    int64_t tokens;                      /* of the transformer's picture sequence */
    int n_draws;
    vb_draw draws[VB_MAX_DRAWS];         /* 12 KiB, last: only n_draws of them are ever set */
} vb_choice;

/* id: XXH3-64 of the path as written, seeded by the count of earlier rows with the same path.
 * r has passed vb_rules_check. Never fails: a sample that fits no rule is dropped with a reason. */
void vb_choose(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id, uint32_t variant,
               uint64_t seed);

/* Candidate sizes of --variants sizes for this source, ascending, in whole pixels (819 stands for
 * 1024 / 1.25); returns their number (1 to max, which should be VB_MAX_OPTIONS). One where the
 * flags draw no size. vb_choose_size is vb_choose with the candidate of that whole part taken
 * instead of drawn; a p that is no candidate takes the nearest. */
int vb_sizes(const vb_rules *r, const vb_source *s, int64_t *p, int max);
void vb_choose_size(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                    uint32_t variant, uint64_t seed, int64_t p);

#endif
