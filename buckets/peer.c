/* peer.c - VideoX-Fun's own arithmetic, in doubles: see choose.h and docs/sampling.md, section 11.
 *
 * This arithmetic is no better than ours, but it gives the same pixels as a training set made with
 * VideoX-Fun. The order of operations matters: 640 at p = 384 of V = 224 is 479.99... and becomes
 * 464. */
#include "buckets/choose.h"

#include <math.h>

void vb_peer_loaded(const vb_rules *r, const vb_source *s, int *h, int *w)
{
    int64_t most = r->video_sample_size > r->image_sample_size ? r->video_sample_size
                                                               : r->image_sample_size;
    *h = s->h;
    *w = s->w;
    if (!s->is_video || most > (s->h < s->w ? s->h : s->w))
        return;
    if (s->h < s->w) {
        *w = (int)(most * s->w / s->h);
        *h = (int)most;
    } else {
        *h = (int)(most * s->h / s->w);
        *w = (int)most;
    }
}

const vb_bucket *vb_peer_nearest(int h, int w)
{
    const double ratio = (double)h / (double)w;
    const vb_bucket *best = vb_buckets;
    double least = INFINITY;

    for (const vb_bucket *b = vb_buckets; b < vb_buckets + VB_N_BUCKETS; b++) {
        double off = fabs(b->key100 / 100.0 - ratio);      /* 57 / 100.0 is the double 0.57 */
        if (off < least) {
            least = off;
            best = b;
        }
    }
    return best;
}

int vb_peer_side(const vb_rules *r, const vb_source *s, int x, const vb_size *p)
{
    const int q = r->family->multiple;
    double base = (double)(s->is_video ? r->video_sample_size : r->image_sample_size);
    double v = x / 512.0 * base / p->d;
    int side = (int)(v / q) * q;
    return side < q ? q : side;
}

int vb_peer_keep_sizes(const vb_rules *r, const vb_source *s, vb_size *list, int n)
{
    int h, w, kept = 0;

    vb_peer_loaded(r, s, &h, &w);
    double most = r->max_upscale * (((double)h + (double)w) / 2);
    for (int i = 0; i < n; i++)        /* the list is ascending, so the kept sizes need not move */
        kept += (double)list[i].num < most;
    return kept ? kept : n;
}

void vb_peer_cover(int h, int w, int th, int tw, int64_t *rh, int64_t *rw)
{
    if ((int64_t)th * w > (int64_t)tw * h) {
        *rh = th;
        *rw = (int64_t)((double)w / (double)h * th);
    } else {
        *rw = tw;
        *rh = (int64_t)((double)h / (double)w * tw);
    }
}
