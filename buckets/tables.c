/* tables.c - buckets, sizes and frame counts: see buckets.h and choose.h.
 *
 * The ratios are those of ratios.c. All arithmetic is in integers, so that no size depends on how a
 * machine rounds. */
#include "buckets/choose.h"

#include <stdlib.h>
#include <string.h>

const vb_bucket *vb_bucket_nearest(int h, int w)
{
    const vb_bucket *best = vb_buckets;
    int64_t least = INT64_MAX;

    for (const vb_bucket *b = vb_buckets; b < vb_buckets + VB_N_BUCKETS; b++) {
        int64_t d = (int64_t)b->key100 * w - (int64_t)100 * h;      /* 100 w (key - h/w) */
        if (llabs(d) < least) {
            least = llabs(d);
            best = b;
        }
    }
    return best;
}

int vb_side(const vc_family *f, int x, const vb_size *p)
{
    int64_t side = x * p->num / (512 * p->den) / f->multiple * f->multiple;
    return side < f->multiple ? f->multiple : (int)side;
}

int vb_scaled(const vb_rules *r, const vb_source *s, int x, const vb_size *p)
{
    return r->peer ? vb_peer_side(r, s, x, p) : vb_side(r->family, x, p);
}

typedef unsigned __int128 u128;

/* A target, and the distance of its ratio from the source's: far / near >= 1. */
typedef struct shape {
    uint64_t h, w, far, near;
} shape;

static shape shape_of(int h, int w, int th, int tw)
{
    uint64_t a = (uint64_t)h * (uint64_t)tw, b = (uint64_t)w * (uint64_t)th;
    return (shape){ (uint64_t)th, (uint64_t)tw, a > b ? a : b, a > b ? b : a };
}

static bool better(const shape *a, const shape *b)
{
    u128 far_a = (u128)a->far * b->near, far_b = (u128)b->far * a->near;
    if (far_a != far_b)
        return far_a < far_b;

    shape p = shape_of(1, 1, (int)a->h, (int)a->w), q = shape_of(1, 1, (int)b->h, (int)b->w);
    u128 long_a = (u128)p.far * q.near, long_b = (u128)q.far * p.near;
    return long_a != long_b ? long_a < long_b : a->h * a->w > b->h * b->w;
}

const vb_bucket *vb_bucket_log(const vb_rules *r, const vb_source *s, const vb_size *p, int h,
                               int w)
{
    static const vb_bucket twin = { "1.91", 191, 672, 352 };       /* 0.52 with its sides swapped */
    const vb_bucket *best = NULL;
    shape least = { 0 };

    for (int i = 0; i <= VB_N_BUCKETS; i++) {
        const vb_bucket *b = i < VB_N_BUCKETS ? &vb_buckets[i] : &twin;
        shape t = shape_of(h, w, vb_scaled(r, s, b->h, p), vb_scaled(r, s, b->w, p));
        if (!best || better(&t, &least)) {
            best = b;
            least = t;
        }
    }
    return best;
}

/* Compares squares in 128 bits: the left is below 2^91, the right below 2^124. */
bool vb_enlarges_too_much(const vb_rules *r, const vb_source *s, int64_t area, int64_t den)
{
    uint64_t x = (uint64_t)(r->max_upscale * 1e6 + 0.5);
    return (u128)area * 1000000000000u
         > (u128)x * x * ((uint64_t)s->h * (uint64_t)s->w) * (uint64_t)den;
}

static bool smaller(const vb_size *a, const vb_size *b)
{
    return a->num * b->den < b->num * a->den;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Lists the sizes under token length: V, V+128, ... and I; only I if it is not above V. */
static int video_sizes(const vb_rules *r, vb_size *list)
{
    int64_t v = r->video_sample_size, i = r->image_sample_size;
    int n = 0;

    for (int64_t p = v; p < i && n + 1 < VB_MAX_OPTIONS; p += 128, n++)
        list[n] = (vb_size){ p, 1, (double)p, (double)v / (double)p };
    list[n] = (vb_size){ i, 1, (double)i, (double)v / (double)i };
    return n + 1;
}

int64_t vb_size_list_length(const vb_rules *r)
{
    int64_t v = r->video_sample_size, i = r->image_sample_size;
    return v < i ? (i - v + 127) / 128 + 1 : 1;
}

/* Lists the sizes B/d of base size B for the ratios d. An image also gets d = I/V, so that size V
 * is listed; VideoX-Fun lists V even if another d gave V already, which changes the odds. */
static int ratio_sizes(const vb_rules *r, bool is_video, vb_size *list)
{
    static const struct { int num, den; } ratio[] = {
        { 1, 1 }, { 5, 4 }, { 3, 2 }, { 2, 1 }, { 5, 2 }, { 3, 1 }
    };
    int64_t s = is_video ? r->video_sample_size : r->image_sample_size;
    int n = s < 768 ? 1 : s < 1024 ? 3 : s < 1536 ? 4 : 6;

    for (int i = 0; i < n; i++) {
        double d = (double)ratio[i].num / ratio[i].den;
        list[i] = (vb_size){ s * ratio[i].den, ratio[i].num, d, d };
    }
    if (is_video || s < 512)
        return n;

    int64_t v = r->video_sample_size;
    for (int i = 0; i < n && !r->peer; i++)
        if (list[i].num == v * list[i].den)
            return n;
    list[n] = (vb_size){ v, 1, (double)s / (double)v, (double)s / (double)v };
    return n + 1;
}

/* Removes the sizes that enlarge too much from the list; if all do, the smallest stays. */
static int keep_sizes(const vb_rules *r, const vb_source *s, vb_size *list, int n)
{
    vb_size smallest = list[0];
    int kept = 0;

    for (int i = 0; i < n; i++) {
        if (smaller(&list[i], &smallest))
            smallest = list[i];
        if (!vb_enlarges_too_much(r, s, list[i].num * list[i].num, list[i].den * list[i].den))
            list[kept++] = list[i];
    }
    if (kept == 0)
        list[kept++] = smallest;
    return kept;
}

int vb_size_list(const vb_rules *r, const vb_source *s, vb_size list[VB_MAX_OPTIONS])
{
    if (!r->random_hw_adapt || !r->enable_bucket) {
        int64_t b = s->is_video ? r->video_sample_size : r->image_sample_size;
        list[0] = (vb_size){ b, 1, (double)b, 1 };
        return 1;
    }
    bool up = s->is_video && r->token_length;
    int n = up ? video_sizes(r, list) : ratio_sizes(r, s->is_video, list);
    if (r->peer)
        return up ? vb_peer_keep_sizes(r, s, list, n) : n;
    return keep_sizes(r, s, list, n);
}

int64_t vb_frame_limit(const vb_rules *r, int64_t p, int target_h, int target_w)
{
    const vc_family *f = r->family;
    int64_t n = r->n_frames, t = r->token_sample_size, pp = p * p;
    int64_t pixels = min64(n * t * t, n * pp);

    switch (r->frame_rule) {
    case VB_RULE_PEER:
        return pixels / (pp * f->ratio[0]) * f->ratio[0] + 1;
    case VB_RULE_DOC:
        return (pixels > pp ? (pixels - pp) / (pp * f->ratio[0]) : 0) * f->ratio[0] + 1;
    case VB_RULE_TOKENS:
        break;
    }
    int64_t most = (n - 1) / f->ratio[0] + 1, side = t / f->multiple;      /* latent frames */
    int64_t per_frame = (int64_t)(target_h / f->multiple) * (target_w / f->multiple);
    int64_t fit = min64(most, most * side * side / per_frame);
    return fit < 1 ? 1 : (fit - 1) * f->ratio[0] + 1;
}

int64_t vb_align_frames(const vc_family *f, int64_t count)
{
    int64_t latent = (count - 1) / f->ratio[0] + 1;
    latent -= latent % f->patch_t;
    return latent < 1 ? 1 : (latent - 1) * f->ratio[0] + 1;
}
