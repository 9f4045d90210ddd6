/* grid.c - channels-last video: group norm, nearest resizing, means of frame pairs, the input of a
 * convolution; see kernel_list.h */
#include "common/cuda/cuda.h"

void cuda_group_norm(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_group *n)
{
    enum { PART = 4096, MOST_PARTS = 64 };     /* positions that a block sums */
    vk_group_args s = {
        .y = y->data, .x = x->data, .weight = w->data, .bias = b->data, .y_type = (int)y->dtype,
        .x_type = (int)x->dtype, .w_type = (int)w->dtype, .b_type = (int)b->dtype,
        .n = (uint32_t)x->dim[0], .t = (uint32_t)x->dim[1], .h = (uint32_t)x->dim[2],
        .w = (uint32_t)x->dim[3], .c = (uint32_t)x->dim[4], .groups = (uint32_t)n->groups,
        .positions = (uint32_t)(x->dim[1] * x->dim[2] * x->dim[3]),
        .first = n->first, .silu = n->silu, .eps = n->eps,
    };

    if (n->scale) {
        s.scale = n->scale->data;
        s.shift = n->shift->data;
        s.m_type = (int)n->scale->dtype;
        s.mt = (uint32_t)n->scale->dim[1];
        s.mh = (uint32_t)n->scale->dim[2];
        s.mw = (uint32_t)n->scale->dim[3];
    }
    s.parts = s.positions / PART < 1 ? 1 : s.positions / PART;
    s.parts = s.parts > MOST_PARTS ? MOST_PARTS : s.parts;
    size_t sums = (size_t)s.n * s.groups * s.parts * 2, stats = (size_t)s.n * s.groups * 2;
    s.part = cuda_scratch(d, CUDA_PARTS, sums * sizeof *s.part + stats * sizeof *s.stats);
    s.stats = (float *)(void *)(s.part + sums);
    if (s.part && cuda_ok(d, vk_group_sums(d->stream, &s), "group_norm") &&
        cuda_ok(d, vk_group_stats(d->stream, &s), "group_norm"))
        cuda_ok(d, vk_group_apply(d->stream, &s), "group_norm");
}

static vk_resize_args resize(vt_tensor *y, const vt_tensor *x)
{
    return (vk_resize_args){
        .y = y->data, .x = x->data, .y_type = (int)y->dtype, .x_type = (int)x->dtype,
        .n = (uint32_t)y->dim[0], .t = (uint32_t)y->dim[1], .h = (uint32_t)y->dim[2],
        .w = (uint32_t)y->dim[3], .c = (uint32_t)y->dim[4], .xt = (uint32_t)x->dim[1],
        .xh = (uint32_t)x->dim[2], .xw = (uint32_t)x->dim[3],
    };
}

void cuda_nearest(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    vk_resize_args s = resize(y, x);

    cuda_ok(d, vk_nearest(d->stream, &s), "nearest");
}

void cuda_pool_frames(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    vk_resize_args s = resize(y, x);

    cuda_ok(d, vk_pool_frames(d->stream, &s), "pool_frames");
}

/* ---- the input of a convolution ---- */

/* Returns n elements of an axis from `begin` on; again: element `begin`, repeated n times. */
static vt_tensor part(const vt_tensor *t, int axis, int64_t begin, int64_t n, bool again)
{
    vt_tensor p = *t;

    p.data = (char *)p.data + begin * t->stride[axis] * (int64_t)vc_dtype_size(t->dtype);
    p.dim[axis] = n;
    p.stride[axis] = again ? 0 : t->stride[axis];
    return p;
}

/* Copies the first and last of the n elements at `before` on an axis over the elements around
 * them. */
static void repeat_edges(vt_dev *d, const vt_tensor *f, int axis, int64_t before, int64_t n)
{
    int64_t end = before + n, after = f->dim[axis] - end;

    if (before) {
        vt_tensor to = part(f, axis, 0, before, false), from = part(f, axis, before, before, true);
        cuda_copy(d, &to, &from);
    }
    if (after) {
        vt_tensor to = part(f, axis, end, after, false), from = part(f, axis, end - 1, after, true);
        cuda_copy(d, &to, &from);
    }
}

/* Copies one frame into `to` [1,1,H,W,C], at lead[1], lead[2], and pads it by its edges. */
static void put_frame(vt_dev *d, const vt_tensor *to, const vt_tensor *from, const int64_t *lead)
{
    vt_tensor rows = part(to, 2, lead[1], from->dim[2], false);
    vt_tensor inside = part(&rows, 3, lead[2], from->dim[3], false);

    cuda_copy(d, &inside, from);
    repeat_edges(d, &rows, 3, lead[2], from->dim[3]);
    repeat_edges(d, to, 2, lead[1], from->dim[2]);
}

vt_tensor cuda_conv_input(vt_conv *rest, vc_dtype type, int64_t wide, const vt_tensor *x,
                          const vt_conv *c)
{
    vt_tensor in = { .dtype = type, .nd = 5, .dim = { x->dim[0], 0, 0, 0, wide } };
    int64_t stride = wide;

    *rest = (vt_conv){ .stride = { c->stride[0], c->stride[1], c->stride[2] } };
    for (int i = 0; i < 3; i++) {
        bool front = c->edge[i] || (i == 0 && c->front);
        rest->before[i] = front ? 0 : c->before[i];
        rest->after[i] = c->edge[i] ? 0 : c->after[i];
        in.dim[1 + i] = x->dim[1 + i] + c->before[i] - rest->before[i] + c->after[i] -
                        rest->after[i];
    }
    in.stride[4] = 1;
    for (int i = 4; i-- > 0; stride *= in.dim[i])
        in.stride[i] = stride;
    return in;
}

const void *cuda_conv_fill(vt_dev *d, vt_tensor *in, const vt_tensor *x, const vt_conv *c,
                           const vt_conv *rest)
{
    const int64_t lead[3] = { c->before[0] - rest->before[0], c->before[1] - rest->before[1],
                              c->before[2] - rest->before[2] };

    if (x->dtype == in->dtype && vt_count(in) == vt_count(x) && (uintptr_t)x->data % 16 == 0)
        return in->data = x->data;
    in->data = cuda_scratch(d, CUDA_LEFT, (size_t)vt_count(in) * vc_dtype_size(in->dtype));
    if (in->data && in->dim[4] != x->dim[4])
        cuda_fill(d, in, 0.0f);
    const vt_tensor filled = part(in, 4, 0, x->dim[4], false);
    for (int64_t n = 0; n < in->dim[0] && in->data; n++)
        for (int64_t t = 0; t < in->dim[1]; t++) {
            const vt_tensor *from = t < lead[0] && c->front ? c->front : x;
            int64_t at = from == c->front ? t : t - lead[0], last = from->dim[1] - 1;
            vt_tensor sample = part(from, 0, n, 1, false), to = part(&filled, 0, n, 1, false);
            vt_tensor one = part(&sample, 1, at < 0 ? 0 : at > last ? last : at, 1, false);
            to = part(&to, 1, t, 1, false);
            put_frame(d, &to, &one, lead);
        }
    return in->data;
}
