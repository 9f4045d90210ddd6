/* choose.h - the parts of a choice, for buckets/ and its tests. Other folders include buckets.h. */
#ifndef BUCKETS_CHOOSE_H
#define BUCKETS_CHOOSE_H

#include "buckets/buckets.h"

/* An entry of the bucket table: hw at base size 512. */
typedef struct vb_bucket {
    const char *key;         /* "0.57": h/w to two decimals, the name in the plan */
    int key100;              /* value of the key in hundredths */
    int h, w;
} vb_bucket;

enum { VB_N_BUCKETS = 40, VB_N_RATIO_KEYS = 15 };
extern const vb_bucket vb_buckets[VB_N_BUCKETS];            /* by key, ascending */
/* Returns the bucket whose key differs least from h/w, computed exactly; of two equally near ones
 * the earlier (wider). h, w >= 1. */
const vb_bucket *vb_bucket_nearest(int h, int w);

/* The buckets from which random_ratio_crop draws, with their weights. */
typedef struct vb_ratio_keys {
    const vb_bucket *bucket[VB_N_RATIO_KEYS];
    uint32_t weight[VB_N_RATIO_KEYS];                       /* the weights sum to 62 */
} vb_ratio_keys;
extern const vb_ratio_keys vb_ratio_crop;

/* A base size p = num / den pixels. A plan shows p itself, or d with p = B / d. */
typedef struct vb_size {
    int64_t num, den;
    double shown;
    double d;                /* B / p as in VideoX-Fun: B is V for a video, I for a still */
} vb_size;

/* Lists the sizes a source may get, in drawing order, and returns their number, at least 1. A size
 * that enlarges beyond max_upscale is left out while a smaller one remains. */
int vb_size_list(const vb_rules *r, const vb_source *s, vb_size list[VB_MAX_OPTIONS]);
/* True if a square of area / den pixels has a side more than max_upscale times as long as a square
 * of the source's area. */
bool vb_enlarges_too_much(const vb_rules *r, const vb_source *s, int64_t area, int64_t den);
/* Returns the length of the longest list under these rules; vb_rules_check compares it with
 * VB_MAX_OPTIONS. */
int64_t vb_size_list_length(const vb_rules *r);

/* Scales a side x of the table to size p, rounded down to a multiple of q, at least q. */
int vb_side(const vc_family *f, int x, const vb_size *p);
/* Returns the bucket whose target at size p is nearest to h/w by the ratio of both ratios, computed
 * exactly. The twin of hw 352 672 is a candidate too. Of equally near targets the one nearer to
 * square wins, then the larger. */
const vb_bucket *vb_bucket_log(const vb_rules *r, const vb_source *s, const vb_size *p, int h,
                               int w);

/* ---- VideoX-Fun's arithmetic, in doubles (peer.c) ---- */

/* Sets the size to which a video's frames are shrunk when they are loaded: the short side becomes
 * the larger of V and I. */
void vb_peer_loaded(const vb_rules *r, const vb_source *s, int *h, int *w);
const vb_bucket *vb_peer_nearest(int h, int w);
/* Returns ((x/512)*B)/d, rounded down to a multiple of q; at least q. */
int vb_peer_side(const vb_rules *r, const vb_source *s, int x, const vb_size *p);
/* Keeps the sizes below max_upscale times the mean of both sides of the loaded picture, or all
 * sizes if none is below. Returns the number kept. */
int vb_peer_keep_sizes(const vb_rules *r, const vb_source *s, vb_size *list, int n);
/* Sets the resized size that covers (th, tw) under random_ratio_crop; one side may be one pixel
 * short. */
void vb_peer_cover(int h, int w, int th, int tw, int64_t *rh, int64_t *rw);

/* Scales a side of the table to size p, by vb_side or by vb_peer_side as the rules demand. */
int vb_scaled(const vb_rules *r, const vb_source *s, int x, const vb_size *p);
/* Returns F: the most frames for size p under "doc" or "peer", for the target hw under "tokens". */
int64_t vb_frame_limit(const vb_rules *r, int64_t p, int target_h, int target_w);
/* Returns the largest kj+1 <= count (>= 1) whose latent frames divide by pt, or 1. */
int64_t vb_align_frames(const vc_family *f, int64_t count);

/* Picks that the caller makes; a pick of -1 is drawn. Each must be one of the draw's outcomes. */
typedef struct vb_picks {
    int size, ratio, frame_crop;         /* indices into the options */
    int64_t start;
    int flip;
} vb_picks;
#define VB_NO_PICKS ((vb_picks){ -1, -1, -1, -1, -1 })

void vb_choose_given(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                     uint32_t variant, uint64_t seed, const vb_picks *given);

#endif
