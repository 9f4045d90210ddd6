/* grid.c - channels-last video: group norm, nearest places, pairs of frames. backend.h */
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
