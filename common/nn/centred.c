/* centred.c - convolutions that read the next frame, on clips in chunks: see centred.h */
#include "common/nn/centred.h"

enum { KEPT = 2 };                       /* frames that the next chunk's first window shares */

static bool is_whole(const nn_video *n) { return n->first && n->last; }

static int64_t frames_of(const vt_tensor *x) { return x ? x->dim[1] : 0; }

/* Copies x over the frames of y from `at` on. */
static void put(vt_ctx *g, vt_tensor *y, int64_t at, vt_tensor *x)
{
    if (x)
        vt_assign(g, vt_slice(g, y, 1, at, at + x->dim[1]), x);
}

/* ---- rows and columns around a frame ---- */

/* Copies the line `from` of an axis over its line `to`. */
static void mirror(vt_ctx *g, vt_tensor *y, int axis, int64_t to, int64_t from)
{
    vt_assign(g, vt_slice(g, y, axis, to, to + 1), vt_slice(g, y, axis, from, from + 1));
}

/* Returns x with a mirrored line on each side of a frame. */
static vt_tensor *with_border(const nn_centred *p, vt_tensor *x)
{
    vt_ctx *g = p->n->g;

    if (!p->reflect || !x)
        return x;
    int64_t h = x->dim[2], w = x->dim[3], dim[] = { 1, x->dim[1], h + 2, w + 2, x->dim[4] };
    if (h < 2 || w < 2) {
        vt_fail(g, VC_EINVAL, "a frame of %lldx%lld places cannot be mirrored at its border, as "
                "decoder_spatial_padding_mode \"reflect\" needs: 2x2 places are the least",
                (long long)w, (long long)h);
        return NULL;
    }
    vt_tensor *y = vt_new(g, x->dtype, 5, dim);
    if (!y)
        return NULL;
    vt_assign(g, vt_slice(g, vt_slice(g, y, 2, 1, h + 1), 3, 1, w + 1), x);
    for (int axis = 2; axis < 4; axis++) {
        mirror(g, y, axis, 0, 2);
        mirror(g, y, axis, dim[axis] - 1, dim[axis] - 3);
    }
    return y;
}

/* ---- convolutions ---- */

/* Convolves a clip that is one chunk, whose first and last frames are repeated by the op. */
static vt_tensor *convolve_whole(const nn_centred *p, const nn_video_conv *c, vt_tensor *x)
{
    const int side = p->reflect ? 0 : 1;
    const vt_conv how = { .stride = { 1, 1, 1 }, .before = { p->causal ? 2 : 1, side, side },
                          .after = { p->causal ? 0 : 1, side, side }, .edge = { true } };

    return vt_conv3d(p->n->g, with_border(p, x), c->w, c->b, &how);
}

/* Returns the frames that c can read now: those that it kept or copies of the clip's first frame,
 * then x, and a copy of the clip's last frame where c `ends`. */
static vt_tensor *window(const nn_centred *p, const nn_video_conv *c, vt_tensor *x, bool ends)
{
    vt_ctx *g = p->n->g;
    const vt_tensor *like = x ? x : c->carried;
    int64_t before = c->carried ? KEPT : p->causal ? 2 : 1, n = frames_of(x);
    vt_tensor *y = vt_new(g, like->dtype, 5, (int64_t[]){ 1, before + n + ends, like->dim[2],
                                                          like->dim[3], like->dim[4] });

    if (!y)
        return NULL;
    if (c->carried)
        put(g, y, 0, c->carried);
    else
        for (int64_t i = 0; i < before; i++)
            put(g, y, i, vt_slice(g, x, 1, 0, 1));
    put(g, y, before, x);
    if (ends)
        put(g, y, before + n, vt_slice(g, y, 1, before + n - 1, before + n));
    return y;
}

/* Keeps the last frames of the window y for the next chunk. */
static void keep(const nn_centred *p, nn_video_conv *c, vt_tensor *y)
{
    vt_ctx *g = p->n->g;

    if (!y)
        return;
    const int64_t *d = y->dim;
    if (!c->carried)
        c->carried = vt_new_for_step(g, y->dtype, 5, (int64_t[]){ 1, KEPT, d[2], d[3], d[4] });
    vt_assign(g, c->carried, vt_slice(g, y, 1, d[1] - KEPT, d[1]));
}

vt_tensor *nn_centred_conv(nn_centred *p, nn_video_conv *c, vt_tensor *x)
{
    const nn_video *n = p->n;
    const int conv = p->convs++;
    const bool ends = !p->causal && n->last && n->ended == p->end[conv];
    const int side = p->reflect ? 0 : 1;
    const vt_conv how = { .stride = { 1, 1, 1 }, .before = { 0, side, side },
                          .after = { 0, side, side } };

    if (n->first)
        c->carried = NULL;
    if (vt_failed(n->g) || (!x && !(ends && c->carried)))
        return NULL;
    if (is_whole(n))
        return convolve_whole(p, c, x);
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *y = window(p, c, with_border(p, x), ends);
    keep(p, c, y);
    y = y && y->dim[1] > KEPT ? vt_conv3d(n->g, y, c->w, c->b, &how) : NULL;
    vt_scope_end(n->g, s, 1, &y);
    return y;
}

/* ---- frames that wait ---- */

vt_tensor *nn_centred_wait(const nn_centred *p, nn_waiting *w, vt_tensor *x, const vt_tensor *y,
                           int most)
{
    vt_ctx *g = p->n->g;

    if (p->n->first)
        *w = (nn_waiting){ 0 };
    int64_t n = frames_of(x), out = frames_of(y), had = w->count, rest = had + n - out;
    if (vt_failed(g) || (!had && !rest))
        return x;
    if (rest < 0 || rest > most) {
        vt_fail(g, VC_EINVAL, "%lld frames wait for a convolution, but 0 to %d can",
                (long long)rest, most);
        return NULL;
    }
    if (!w->frames && x)
        w->frames = vt_new_for_step(g, x->dtype, 5, (int64_t[]){ 1, most, x->dim[2], x->dim[3],
                                                                 x->dim[4] });
    if (!w->frames)
        return NULL;
    const int64_t *d = w->frames->dim;
    vt_tensor *all = vt_new(g, w->frames->dtype, 5, (int64_t[]){ 1, had + n, d[2], d[3], d[4] });
    if (!all)
        return NULL;
    if (had)
        put(g, all, 0, vt_slice(g, w->frames, 1, 0, had));
    put(g, all, had, x);
    w->count = rest;
    if (rest)
        put(g, w->frames, 0, vt_slice(g, all, 1, out, out + rest));
    return out ? vt_slice(g, all, 1, 0, out) : NULL;
}
