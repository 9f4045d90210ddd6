/* choose.h - the parts of a choice, for buckets/ and its tests; others include buckets.h. */
#ifndef BUCKETS_CHOOSE_H
#define BUCKETS_CHOOSE_H

#include "buckets/buckets.h"

/* One entry of the bucket table: hw at base size 512. */
typedef struct vb_bucket {
    const char *key;         /* "0.57": h/w to two decimals, the name the plan uses */
    int key100;              /* its value in hundredths */
    int h, w;
} vb_bucket;

enum { VB_N_BUCKETS = 40, VB_N_RATIO_KEYS = 15 };
extern const vb_bucket vb_buckets[VB_N_BUCKETS];            /* by key, ascending */
/* Nearest key to h/w by difference, exactly; a tie takes the earlier (wider). h, w >= 1. */
const vb_bucket *vb_bucket_nearest(int h, int w);

/* What random_ratio_crop draws from. */
typedef struct vb_ratio_keys {
    const vb_bucket *bucket[VB_N_RATIO_KEYS];
    uint32_t weight[VB_N_RATIO_KEYS];                       /* their sum is 62 */
} vb_ratio_keys;
extern const vb_ratio_keys vb_ratio_crop;

/* A base size p = num / den pixels; a plan shows p itself, or d where p = B / d. */
typedef struct vb_size {
    int64_t num, den;
    double shown;
    double d;                /* B / p as VideoX-Fun has it: B is V of a video, I of a still */
} vb_size;

/* The sizes a source may get, in drawing order; returns their number, at least 1. One that
 * enlarges beyond max_upscale is left out while a smaller one remains. */
int vb_size_list(const vb_rules *r, const vb_source *s, vb_size list[VB_MAX_OPTIONS]);
/* Whether a square of area / den pixels is more than max_upscale times as long as that of the
 * source's area. */
bool vb_enlarges_too_much(const vb_rules *r, const vb_source *s, int64_t area, int64_t den);
/* Entries of the longest list the rules can give: checked against VB_MAX_OPTIONS. */
int64_t vb_size_list_length(const vb_rules *r);

/* A side x of the table scaled to p and rounded down to a multiple of q, at least q. */
int vb_side(const vc_family *f, int x, const vb_size *p);
/* The bucket whose target at size p is nearest to h/w by the ratio of both ratios, exactly. Knows
 * the twin of hw 352 672 too; of equally near targets the one nearer to square, then the larger. */
const vb_bucket *vb_bucket_log(const vb_rules *r, const vb_source *s, const vb_size *p, int h, int w);

/* ---- as VideoX-Fun does it, in doubles (peer.c) ---- */

/* The size at which a video's frames arrive: short side down to the larger of V and I. */
void vb_peer_loaded(const vb_rules *r, const vb_source *s, int *h, int *w);
const vb_bucket *vb_peer_nearest(int h, int w);
/* ((x/512)*B)/d, down to a multiple of q; at least q. */
int vb_peer_side(const vb_rules *r, const vb_source *s, int x, const vb_size *p);
/* Sizes below max_upscale times the mean of both sides of the loaded picture are kept; if none is,
 * all are. Returns the number. */
int vb_peer_keep_sizes(const vb_rules *r, const vb_source *s, vb_size *list, int n);
/* Resized to cover (th, tw) under random_ratio_crop; may be one pixel short. */
void vb_peer_cover(int h, int w, int th, int tw, int64_t *rh, int64_t *rw);

/* A side of the table at size p, by the rules' arithmetic. */
int vb_scaled(const vb_rules *r, const vb_source *s, int x, const vb_size *p);
/* F: most frames for size p under "doc" or "peer", for the target hw under "tokens". */
int64_t vb_frame_limit(const vb_rules *r, int64_t p, int target_h, int target_w);
/* The largest kj+1 <= count (>= 1) whose latent frames divide by pt, or 1. */
int64_t vb_align_frames(const vc_family *f, int64_t count);

/* Picks made by the caller instead of drawn; -1: draw. Each must be within the draw's outcomes. */
typedef struct vb_picks {
    int size, ratio, frame_crop;         /* index into the options */
    int64_t start;
    int flip;
} vb_picks;
#define VB_NO_PICKS ((vb_picks){ -1, -1, -1, -1, -1 })

void vb_choose_given(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                     uint32_t variant, uint64_t seed, const vb_picks *given);

#endif
