/* buckets.c - chooses size, crop and frames of one sample, step by step. buckets.h is the contract;
 * docs/sampling.md states the rules. */
#include "buckets/choose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

typedef struct choosing {
    vb_choice *c;
    const vb_rules *r;
    const vb_source *s;
    uint64_t id, seed;
    uint32_t variant;
    const vb_picks *given;
    int h, w;                /* picture size for which shapes are chosen: the loaded picture's */
} choosing;

static vc_draws stream(const choosing *j, uint32_t purpose)
{
    return vc_draws_of(j->seed, j->id, j->variant, purpose);
}

/* Formats into dst and cuts the text where it would overrun. */
static void put(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put(char *dst, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(dst, size, fmt, ap);
    va_end(ap);
}

#define DROP(j, ...) \
    ((j)->c->drop = true, put((j)->c->reason, sizeof (j)->c->reason, __VA_ARGS__))

static vb_draw *new_draw(vb_choice *c, const char *purpose)
{
    vb_draw *d = &c->draws[c->n_draws++];
    memset(d, 0, offsetof(vb_draw, options));
    d->purpose = purpose;
    return d;
}

/* Draws an index into n entries: the favoured one has probability `share`, and the others divide
 * `rest` evenly. A 53-bit uniform is compared with the running sum, and the last entry takes the
 * remainder. */
static int draw_favoured(vc_draws d, int n, int favoured, double share, double rest)
{
    double u = vc_draw_unit(&d), sum = 0;

    for (int i = 0; i < n - 1; i++) {
        sum += i == favoured ? share : rest / (n - 1);
        if (u < sum)
            return i;
    }
    return n - 1;
}

/* Draws uniformly from lo..hi, both included; the range has at most 2^32 - 1 values. */
static int64_t draw_range(const choosing *j, const char *name, uint32_t purpose, int64_t lo,
                          int64_t hi, int64_t given)
{
    if (lo == hi)
        return lo;
    vc_draws d = stream(j, purpose);
    vb_draw *t = new_draw(j->c, name);
    t->is_range = true;
    t->lo = lo;
    t->hi = hi;
    t->pick = given >= 0 ? given : lo + vc_draw_int(&d, (uint32_t)(hi - lo + 1));
    return t->pick;
}

static bool source_is_usable(const choosing *j)
{
    const vb_source *s = j->s;

    if (s->w < 1 || s->h < 1) {
        DROP(j, "a picture of %dx%d", s->w, s->h);
    } else if (s->is_video && j->r->family->max_frames == 1) {
        DROP(j, "a video of %lld frames; %s takes stills only", (long long)s->frames,
             j->r->family->name);
    } else if (s->is_video && (s->frames < 1 || s->frames > INT32_MAX)) {
        DROP(j, "%lld frames; 1 to %d are allowed", (long long)s->frames, INT32_MAX);
    }
    return !j->c->drop;
}

static vb_size choose_size(const choosing *j)
{
    vb_size list[VB_MAX_OPTIONS];
    int n = vb_size_list(j->r, j->s, list);
    if (n == 1)
        return list[0];

    vb_draw *t = new_draw(j->c, "size");
    vc_draws d = stream(j, VC_DRAW_SIZE);
    t->n_options = n;
    for (int i = 0; i < n; i++)
        put(t->options[i], sizeof t->options[i], "%.6g", list[i].shown);
    if (j->given->size >= 0)
        t->picked = j->given->size;
    else if (j->s->is_video && j->r->token_length)
        t->picked = (int)vc_draw_int(&d, (uint32_t)n);
    else
        t->picked = draw_favoured(d, n, 0, 0.75, 0.25);
    return list[t->picked];
}

static const vb_bucket *nearest(const choosing *j, const vb_size *p)
{
    if (j->r->metric == VB_METRIC_LOG)
        return vb_bucket_log(j->r, j->s, p, j->h, j->w);
    return j->r->peer ? vb_peer_nearest(j->h, j->w) : vb_bucket_nearest(j->h, j->w);
}

static const vb_bucket *choose_bucket(const choosing *j, const vb_size *p)
{
    if (!j->r->random_ratio_crop)
        return nearest(j, p);

    vb_draw *t = new_draw(j->c, "ratio");
    vc_draws d = stream(j, VC_DRAW_RATIO);
    t->n_options = VB_N_RATIO_KEYS;
    for (int i = 0; i < VB_N_RATIO_KEYS; i++)
        put(t->options[i], sizeof t->options[i], "%s", vb_ratio_crop.bucket[i]->key);
    t->picked = j->given->ratio >= 0
        ? j->given->ratio
        : (int)vc_draw_weighted(&d, vb_ratio_crop.weight, VB_N_RATIO_KEYS);
    return vb_ratio_crop.bucket[t->picked];
}

/* Rounds x down to a multiple of m, but never below m. */
static int floor_to(int64_t x, int m)
{
    return x < m ? m : (int)(x / m * m);
}

static int64_t root(uint64_t x)
{
    uint64_t r = (uint64_t)sqrt((double)x);
    while (r * r > x)
        r--;
    while ((r + 1) * (r + 1) <= x)
        r++;
    return (int64_t)r;
}

/* Takes the picture's own size as the target, scaled down to at most max_pixels. */
static void own_size(const choosing *j)
{
    const uint64_t h = (uint64_t)j->h, w = (uint64_t)j->w, most = (uint64_t)j->r->max_pixels;
    const bool large = h * w > most;
    const int q = j->r->family->multiple;

    j->c->target_h = floor_to(large ? root(most * h / w) : (int64_t)h, q);
    j->c->target_w = floor_to(large ? root(most * w / h) : (int64_t)w, q);
}

/* True if the target comes from --fix_sample_size or from the source's own size, not from a
 * bucket. */
static bool has_target(const vb_rules *r)
{
    return r->enable_bucket && (r->fix_h || r->max_pixels);
}

/* Sets target and key. *p becomes the base size of the bucket; without a bucket *p has no
 * meaning. */
static void choose_target(const choosing *j, vb_size *p)
{
    vb_choice *c = j->c;
    const vb_rules *r = j->r;
    const vc_family *f = r->family;

    *p = choose_size(j);
    if (r->enable_bucket && !has_target(r)) {
        const vb_bucket *b = choose_bucket(j, p);
        c->target_h = vb_scaled(r, j->s, b->h, p);
        c->target_w = vb_scaled(r, j->s, b->w, p);
        put(c->key, sizeof c->key, "%s", b->key);
        return;
    }
    if (has_target(r) && !r->fix_h) {
        own_size(j);
    } else if (has_target(r)) {
        c->target_h = floor_to(r->fix_h, f->ratio[1] * f->patch);
        c->target_w = floor_to(r->fix_w, f->ratio[1] * f->patch);
    } else {
        c->target_h = c->target_w = floor_to(p->num, f->multiple);
    }
    put(c->key, sizeof c->key, "%dx%d", c->target_h, c->target_w);
}

/* Halves a difference; a half is rounded to the even number. */
static int half_even(int64_t diff)
{
    int64_t half = diff / 2;
    return (int)(half + (diff % 2 && half % 2));
}

/* Sets the size to which the picture is resized: it covers the target or equals the target. */
static void resized_size(const choosing *j, int64_t *rh, int64_t *rw)
{
    const vb_rules *r = j->r;
    const int64_t h = j->h, w = j->w, th = j->c->target_h, tw = j->c->target_w;

    *rh = th;
    *rw = tw;
    if (r->fit == VB_FIT_STRETCH && r->enable_bucket && r->fix_h)
        return;
    if (r->peer && r->random_ratio_crop && r->enable_bucket && !has_target(r))
        vb_peer_cover(j->h, j->w, (int)th, (int)tw, rh, rw);
    else if (th * w > tw * h)
        *rw = w * th / h;
    else
        *rh = h * tw / w;
}

/* Returns the larger of both factors by which a side becomes longer than in the source; at least
 * 1. */
static double enlargement(const choosing *j)
{
    const vb_choice *c = j->c;
    double v = (double)c->target_h / j->s->h, u = (double)c->target_w / j->s->w;
    double most = v > u ? v : u;
    return most > 1 ? most : 1;
}

/* Resizes the picture so that it covers the target, then crops the middle. */
static bool fit_picture(const choosing *j)
{
    vb_choice *c = j->c;
    const int th = c->target_h, tw = c->target_w;
    int64_t rh, rw;

    resized_size(j, &rh, &rw);
    c->upscale = enlargement(j);
    if (rh > VB_MAX_RESIZED_SIDE || rw > VB_MAX_RESIZED_SIDE) {
        DROP(j, "%dx%d resized to cover %dx%d is %lldx%lld; sides of up to %d are allowed", j->w,
             j->h, tw, th, (long long)rw, (long long)rh, VB_MAX_RESIZED_SIDE);
        return false;
    }
    c->resize_h = (int)rh;
    c->resize_w = (int)rw;
    c->top = rh > th ? half_even(rh - th) : 0;
    c->left = rw > tw ? half_even(rw - tw) : 0;
    return true;
}

static bool is_large_enough(const choosing *j, const vb_size *p)
{
    const vb_choice *c = j->c;
    bool fixed = has_target(j->r);
    int64_t area = fixed ? (int64_t)c->target_h * c->target_w : p->num * p->num;
    int64_t den = fixed ? 1 : p->den * p->den;

    if (vb_enlarges_too_much(j->r, j->s, area, den)) {
        double size = sqrt((double)area / (double)den);
        double have = sqrt((double)j->s->h * (double)j->s->w);
        DROP(j, "%dx%d has the area of a square of %.6g; size %.6g is %.5g times that, "
             "--max_upscale is %g", j->s->w, j->s->h, have, size, size / have,
             j->r->max_upscale);
    }
    return !c->drop;
}

/* Draws the most frames that random_frame_crop allows: one of k+1, 2k+1, ... below n+k, the last
 * with probability 0.90. */
static int64_t choose_frame_crop(const choosing *j)
{
    const int64_t k = j->r->family->ratio[0];
    const int n = (int)((j->r->n_frames + k - 2) / k);
    if (n <= 1)
        return n * k + 1;

    vb_draw *t = new_draw(j->c, "frame_crop");
    t->n_options = n;
    for (int i = 0; i < n; i++)
        put(t->options[i], sizeof t->options[i], "%lld", (long long)((i + 1) * k + 1));
    t->picked = j->given->frame_crop >= 0
        ? j->given->frame_crop
        : draw_favoured(stream(j, VC_DRAW_FRAME_CROP), n, n - 1, 0.90, 0.10);
    return (t->picked + 1) * k + 1;
}

/* Returns how many frames the source has at the stride, at most n; 0 after it dropped the
 * sample. */
static int64_t available_frames(const choosing *j)
{
    const vb_rules *r = j->r;
    const int64_t total = j->s->frames;
    int64_t count = r->frame_count == VB_COUNT_PEER ? total / r->stride
                                                    : (total - 1) / r->stride + 1;
    if (count == 0)
        DROP(j, "%lld frames; at least the stride, %lld, are needed with the frame count of "
             "VideoX-Fun", (long long)total, (long long)r->stride);
    if (count > r->n_frames)
        count = r->n_frames;
    if (r->family->max_frames && count > r->family->max_frames)
        count = r->family->max_frames;
    return count;
}

/* Chooses the number of frames before their start, so that short clips come from all over the
 * video. */
static void choose_frames(const choosing *j, const vb_size *p)
{
    const vb_rules *r = j->r;
    const int64_t loaded = available_frames(j);
    bool by_size = r->enable_bucket && r->random_hw_adapt && r->token_length;
    int64_t count = loaded;

    if (j->c->drop)
        return;
    if (by_size || r->frame_rule == VB_RULE_TOKENS) {
        int64_t limit = vb_frame_limit(r, p->num, j->c->target_h, j->c->target_w);
        if (count > limit)
            count = limit;
    }
    if (r->random_frame_crop) {
        int64_t t = choose_frame_crop(j);
        if (count > t)
            count = t;
    }
    count = vb_align_frames(r->family, count);
    j->c->frames = (int)count;
    j->c->loaded = (int)loaded;

    int64_t placed = r->start_rule == VB_START_PEER ? loaded : count;
    int64_t last = j->s->frames - 1 - (placed - 1) * r->stride;
    if (r->start_rule == VB_START_FIRST)
        last = 0;
    j->c->start = draw_range(j, "start", VC_DRAW_START, 0, last, j->given->start);
}

static void count_tokens(vb_choice *c, const vc_family *f)
{
    c->latent_f = (c->frames - 1) / f->ratio[0] + 1;
    c->latent_h = c->target_h / f->ratio[1];
    c->latent_w = c->target_w / f->ratio[1];
    c->tokens = (int64_t)((c->latent_f + f->patch_t - 1) / f->patch_t) * (c->latent_h / f->patch)
              * (c->latent_w / f->patch);
}

void vb_choose_given(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                     uint32_t variant, uint64_t seed, const vb_picks *given)
{
    memset(c, 0, offsetof(vb_choice, draws));
    c->stride = r->stride;
    c->frames = c->loaded = 1;
    c->upscale = 1;
    choosing j = { .c = c, .r = r, .s = s, .id = id, .seed = seed, .variant = variant,
                   .given = given, .h = s->h, .w = s->w };
    vb_size p;

    if (!source_is_usable(&j))
        return;
    if (r->peer)
        vb_peer_loaded(r, s, &j.h, &j.w);
    if (j.h != s->h || j.w != s->w) {
        c->load_h = j.h;
        c->load_w = j.w;
    }
    choose_target(&j, &p);
    if (!fit_picture(&j))
        return;
    if (r->on_small == VB_SMALL_DROP && !is_large_enough(&j, &p))
        return;
    if (s->is_video)
        choose_frames(&j, &p);
    if (c->drop)
        return;
    count_tokens(c, r->family);
    if (r->random_flip && !s->lr_caption)
        c->flip = draw_range(&j, "flip", VC_DRAW_FLIP, 0, 1, given->flip);
}

void vb_choose(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id, uint32_t variant,
               uint64_t seed)
{
    vb_choose_given(c, r, s, id, variant, seed, &VB_NO_PICKS);
}

int vb_sizes(const vb_rules *r, const vb_source *s, int64_t *p, int max)
{
    vb_size list[VB_MAX_OPTIONS];
    int n = vb_size_list(r, s, list), out = 0;

    for (int i = 0; i < n; i++) {
        int64_t whole = list[i].num / list[i].den;
        int at = out;
        while (at > 0 && p[at - 1] > whole)
            at--;
        if ((at > 0 && p[at - 1] == whole) || out == max)
            continue;
        for (int k = out++; k > at; k--)
            p[k] = p[k - 1];
        p[at] = whole;
    }
    return out;
}

void vb_choose_size(vb_choice *c, const vb_rules *r, const vb_source *s, uint64_t id,
                    uint32_t variant, uint64_t seed, int64_t p)
{
    vb_size list[VB_MAX_OPTIONS];
    vb_picks given = VB_NO_PICKS;
    int n = vb_size_list(r, s, list);
    int64_t least = INT64_MAX;

    for (int i = 0; i < n; i++) {
        int64_t off = llabs(list[i].num / list[i].den - p);
        if (off < least) {
            least = off;
            given.size = i;
        }
    }
    vb_choose_given(c, r, s, id, variant, seed, &given);
}
