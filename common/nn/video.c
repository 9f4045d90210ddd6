/* video.c - convolutions, residual blocks and samplers of causal video autoencoders; see video.h */
#include "common/nn/video.h"

#define CONV(...) \
    { { "weight", VT_W_TENSOR, offsetof(nn_video_conv, w), \
        { NN_VIDEO_OUT, NN_VIDEO_IN, __VA_ARGS__ }, VT_INIT_ZERO }, \
      { "bias", VT_W_TENSOR, offsetof(nn_video_conv, b), { NN_VIDEO_OUT }, VT_INIT_ZERO }, { 0 } }
const vt_weight nn_video_cube[] = CONV(3, 3, 3), nn_video_point[] = CONV(1, 1, 1),
                nn_video_plane[] = CONV(3, 3), nn_video_pixel[] = CONV(1, 1),
                nn_video_time[] = CONV(3, 1, 1);
const vt_weight nn_video_affine[] = {
    { "weight", VT_W_TENSOR, offsetof(nn_video_norm, w), { NN_VIDEO_OUT }, VT_INIT_ZERO },
    { "bias", VT_W_TENSOR, offsetof(nn_video_norm, b), { NN_VIDEO_OUT }, VT_INIT_ZERO },
    { 0 }
};
const vt_weight nn_video_gamma[] = {
    { "gamma", VT_W_TENSOR, offsetof(nn_video_norm, w), { NN_VIDEO_OUT, 1, 1, 1 }, VT_INIT_ZERO },
    { 0 }
};

/* ---- convolutions ---- */

static const int each[3] = { 1, 1, 1 };

/* Whether c convolves each frame alone: such a convolution carries nothing. */
static bool is_flat(const nn_video_conv *c) { return c->w->nd == 4; }

/* The weights of c as vt_conv3d reads them. */
static vt_tensor *kernel(const nn_video *n, const nn_video_conv *c)
{
    const int64_t *k = c->w->dim;

    return is_flat(c) ? vt_reshape(n->g, c->w, 5, (int64_t[]){ k[0], k[1], 1, k[2], k[3] }) : c->w;
}

/* Convolves each frame alone. Zeros surround it: `before` of them above and on the left, one below
 * and on the right. */
static vt_tensor *per_frame(const nn_video *n, const nn_video_conv *c, vt_tensor *x, int stride,
                            int before)
{
    vt_conv how = { .stride = { 1, stride, stride }, .before = { 0, before, before },
                    .after = { 0, 1, 1 } };

    return vt_conv3d(n->g, x, kernel(n, c), c->b, &how);
}

/* The number of frames that the next chunk's first window shares with this chunk. */
static int64_t shared(const nn_video_conv *c, const int step[3]) { return c->w->dim[2] - step[0]; }

/* Makes room for the frames that c carries, which have x's rows and columns. */
static void room(const nn_video *n, nn_video_conv *c, const vt_tensor *x, const int step[3])
{
    if (!x || !n->first || n->last || is_flat(c))
        return;
    c->carried = vt_new_for_step(n->g, vt_compute(n->g), 5,
                                 (int64_t[]){ 1, shared(c, step), x->dim[2], x->dim[3],
                                              c->w->dim[1] });
}

/* Keeps the clip's last frames so far for the next chunk. */
static void carry(const nn_video *n, nn_video_conv *c, vt_tensor *x)
{
    vt_ctx *g = n->g;
    vt_tensor *kept = c->carried, *before;

    if (n->last || !kept || !x)
        return;
    int64_t t = x->dim[1], old = kept->dim[1] > t ? kept->dim[1] - t : 0;
    for (int64_t i = 0; i < old; i++) {            /* the chunk is shorter than what is kept */
        before = n->first ? vt_slice(g, x, 1, 0, 1) : vt_slice(g, kept, 1, t + i, t + i + 1);
        if (n->first && n->blank)
            before = vt_scale(g, before, 0);
        vt_assign(g, vt_slice(g, kept, 1, i, i + 1), before);
    }
    vt_assign(g, vt_slice(g, kept, 1, old, kept->dim[1]),
              vt_slice(g, x, 1, t - (kept->dim[1] - old), t));
}

/* Does nn_video_causal_steps' work once there is room. */
static vt_tensor *causal(const nn_video *n, nn_video_conv *c, vt_tensor *x, const int step[3])
{
    if (is_flat(c))
        return per_frame(n, c, x, 1, 1);
    const int64_t *k = c->w->dim + 2, carried = shared(c, step);
    int front = (int)(n->first ? k[0] - 1 : carried), h = (int)k[1] / 2, w = (int)k[2] / 2;
    vt_conv how = { .stride = { step[0], step[1], step[2] }, .before = { front, h, w },
                    .after = { 0, h, w }, .edge = { false, n->edge, n->edge } };

    if (!x)
        return NULL;
    if (n->first && x->dim[1] == 1)
        how.edge[0] = !n->blank;               /* a backend may sum the kernel's frames */
    else if (!n->first || !n->blank)
        how.front = n->first ? vt_slice(n->g, x, 1, 0, 1) : c->carried;
    vt_tensor *y = vt_conv3d(n->g, x, c->w, c->b, &how);
    carry(n, c, x);
    return y;
}

vt_tensor *nn_video_causal_steps(const nn_video *n, nn_video_conv *c, vt_tensor *x,
                                 const int step[3])
{
    room(n, c, x, step);
    return causal(n, c, x, step);
}

vt_tensor *nn_video_causal(const nn_video *n, nn_video_conv *c, vt_tensor *x)
{
    return nn_video_causal_steps(n, c, x, each);
}

vt_tensor *nn_video_pointwise(const nn_video *n, const nn_video_conv *c, vt_tensor *x)
{
    return vt_conv3d(n->g, x, kernel(n, c), c->b, &(vt_conv){ .stride = { 1, 1, 1 } });
}

/* ---- residual blocks ---- */

static vt_tensor *rms_silu(const nn_video *n, const nn_video_norm *norm, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *w = vt_reshape(n->g, norm->w, 1, (int64_t[]){ -1 });
    vt_tensor *y = vt_silu(n->g, vt_rms_norm(n->g, x, w, norm->eps));

    vt_scope_end(n->g, s, 1, &y);
    return y;
}

/* A pointwise convolution commutes with nearest upsampling, so scale and shift are computed at the
 * latent's size. */
vt_tensor *nn_video_norm_silu(const nn_video *n, const nn_video_norm *norm, vt_tensor *x)
{
    vt_group how = { .groups = norm->groups, .eps = norm->eps, .silu = true };

    if (!x)
        return NULL;
    if (!norm->groups)
        return rms_silu(n, norm, x);
    if (norm->scale.w) {
        how.scale = nn_video_pointwise(n, &norm->scale, n->z);
        how.shift = nn_video_pointwise(n, &norm->shift, n->z);
        how.first = x->dim[1] > 1 && x->dim[1] % 2;
        if (!how.scale || !how.shift)
            return NULL;
    }
    return vt_group_norm(n->g, x, norm->w, norm->b, &how);
}

static vt_tensor *resnet(const nn_video *n, nn_video_resnet *r, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *h = nn_video_norm_silu(n, &r->norm1, x);

    h = causal(n, &r->conv1, h, each);
    vt_scope_end(n->g, s, 1, &h);
    h = nn_video_norm_silu(n, &r->norm2, h);
    vt_scope_end(n->g, s, 1, &h);
    h = causal(n, &r->conv2, h, each);
    vt_scope_end(n->g, s, 1, &h);
    if (r->shortcut.w)
        x = nn_video_pointwise(n, &r->shortcut, x);
    h = vt_add(n->g, h, x);
    vt_scope_end(n->g, s, 1, &h);
    return h;
}

void nn_video_make_room(const nn_video *n, nn_video_resnet *r, int count, const vt_tensor *x)
{
    for (int i = 0; i < count; i++) {
        room(n, &r[i].conv1, x, each);
        room(n, &r[i].conv2, x, each);
    }
}

vt_tensor *nn_video_resnets(const nn_video *n, nn_video_resnet *r, int count, vt_tensor *x,
                            vt_scope s)
{
    for (int i = 0; i < count; i++) {
        x = resnet(n, &r[i], x);
        vt_scope_end(n->g, s, 1, &x);
    }
    return x;
}

vt_tensor *nn_video_head(const nn_video *n, const nn_video_norm *norm, nn_video_conv *conv,
                         vt_tensor *x, vt_scope s)
{
    x = nn_video_norm_silu(n, norm, x);
    vt_scope_end(n->g, s, 1, &x);
    x = nn_video_causal(n, conv, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* ---- samplers ---- */

vt_tensor *nn_video_down(const nn_video *n, const nn_video_conv *c, vt_tensor *x, bool time)
{
    return per_frame(n, c, time ? vt_pool_frames(n->g, x) : x, 2, 0);
}

/* Frames are convolved one by one, so a frame is convolved before it is doubled. */
vt_tensor *nn_video_up(const nn_video *n, const nn_video_conv *c, vt_tensor *x, bool time)
{
    vt_ctx *g = n->g;

    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = 2 * x->dim[2], w = 2 * x->dim[3], to = 0;
    bool doubled = time && t > 1;
    vt_tensor *y = vt_new(g, vt_compute(g), 5, (int64_t[]){ 1, doubled ? 2 * t - t % 2 : t, h, w,
                                                            c->w->dim[0] });
    for (int64_t i = 0; i < t && y; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = vt_nearest(g, vt_slice(g, x, 1, i, i + 1), 1, h, w);
        f = per_frame(n, c, f, 1, 1);
        for (int copies = doubled && !(t % 2 && i == 0) ? 2 : 1; copies > 0; copies--, to++)
            vt_assign(g, vt_slice(g, y, 1, to, to + 1), f);
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

vt_tensor *nn_video_halve_frames(const nn_video *n, nn_video_conv *c, vt_tensor *x)
{
    const int step[] = { 2, 1, 1 };
    const vt_conv within = { .stride = { 2, 1, 1 } };
    vt_ctx *g = n->g;

    room(n, c, x, step);
    if (!n->first || !x)
        return causal(n, c, x, step);
    vt_tensor *y[] = { vt_slice(g, x, 1, 0, 1), NULL };
    carry(n, c, x);
    if (x->dim[1] == 1)
        return y[0];
    y[1] = vt_conv3d(g, x, c->w, c->b, &within);
    return vt_concat(g, 1, 2, y);
}

vt_tensor *nn_video_double_frames(const nn_video *n, nn_video_conv *c, vt_tensor *x)
{
    vt_ctx *g = n->g;

    if (!x)
        return NULL;
    const int64_t *d = x->dim;
    if (n->first) {
        room(n, c, x, each);
        for (int i = 0; !n->last && i < 2; i++)
            vt_assign(g, vt_slice(g, c->carried, 1, i, i + 1), vt_scale(g, x, 0));
        return x;
    }
    vt_scope s = vt_scope_begin(g);
    vt_tensor *y = causal(n, c, x, each);
    y = vt_reshape(g, y, 5, (int64_t[]){ d[1], d[2], d[3], 2, d[4] });
    y = vt_pack(g, vt_permute(g, y, (int[]){ 0, 3, 1, 2, 4 }));
    y = vt_reshape(g, y, 5, (int64_t[]){ 1, 2 * d[1], d[2], d[3], d[4] });
    vt_scope_end(g, s, 1, &y);
    return y;
}
