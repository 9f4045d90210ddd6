/* walk.c - converts tensors to walks; see cuda.h */
#include <string.h>

#include "common/cuda/cuda.h"

_Static_assert((int)VK_F32 == (int)VC_F32 && (int)VK_BF16 == (int)VC_BF16 &&
                   (int)VK_F16 == (int)VC_F16 && (int)VK_F8E4M3 == (int)VC_F8E4M3 &&
                   (int)VK_F8E5M2 == (int)VC_F8E5M2 && (int)VK_I8 == (int)VC_I8 &&
                   (int)VK_NF4 == (int)VC_NF4 && (int)VK_AXES == (int)VT_DIMS,
               "the kernels' types must have vc_dtype's numbers");

/* An axis with the strides of all operands. */
typedef struct axis {
    int64_t dim, stride[VK_OPERANDS];
} axis;

static bool even(const vk_walk *w, int k, const axis *outer, const axis *inner)
{
    for (int o = 0; o < k; o++)
        if (w->data[o] && outer->stride[o] != inner->stride[o] * inner->dim)
            return false;
    return true;
}

/* Collects axes, innermost first, without those of size 1, and joins those that all operands
 * traverse evenly; *last becomes true if the first axis is the row's. */
static int collect(const vk_walk *w, int k, const vt_tensor *const *t, bool join, axis *to,
                   bool *last)
{
    int n = 0;

    *last = false;
    for (int i = t[0]->nd; i-- > 0;) {
        axis a = { .dim = t[0]->dim[i] };
        for (int o = 0; o < k; o++)
            a.stride[o] = t[o] ? t[o]->stride[i] : 0;
        bool row = i == t[0]->nd - 1 && !join;
        if (a.dim == 1 && !row)
            continue;
        if (n > (*last ? 1 : 0) && even(w, k, &a, &to[n - 1]))
            to[n - 1].dim *= a.dim;
        else
            to[n++] = a;
        *last |= row;
    }
    return n;
}

/* Sets the strides of bytes from those of elements. */
static void measure(vk_walk *w)
{
    for (int o = 0; o < VK_OPERANDS; o++) {
        w->hop[o] = 8 * w->step[o] * w->size[o];
        w->far |= w->hop[o] != (int32_t)w->hop[o];
        for (int i = 0; i < w->nd; i++) {
            w->stride[i][o] *= w->size[o];
            w->far |= w->stride[i][o] != (int32_t)w->stride[i][o];
        }
    }
}

/* Whether packs of all operands are loaded by 16 bytes; an operand of step 0 has none. */
static bool whole(const vk_walk *w)
{
    bool yes = w->n % 8 == 0 && w->n <= 1 << 28 && !w->far;

    for (int o = 0; o < VK_OPERANDS; o++) {
        if (!w->data[o] || w->step[o] == 0)
            continue;
        yes &= w->step[o] == 1 && w->type[o] <= VK_BF16 && ((uintptr_t)w->data[o] & 15) == 0;
        for (int i = 0; i < w->nd; i++)
            yes &= w->stride[i][o] % 16 == 0;
    }
    return yes;
}

bool cuda_walk(vt_dev *d, vk_walk *w, const char *op, int k, const vt_tensor *const *t, bool join)
{
    const int64_t most = INT32_MAX;
    axis a[VT_DIMS];
    int64_t rows = 1;
    bool last;

    *w = (vk_walk){ .n = 1 };
    for (int o = 0; o < k; o++) {
        w->step[o] = 1;
        if (!t[o])
            continue;
        w->data[o] = t[o]->data;
        w->type[o] = (int8_t)t[o]->dtype;
        w->size[o] = (int8_t)vc_dtype_size(t[o]->dtype);
    }
    int n = collect(w, k, t, join, a, &last);
    if (n > 0) {
        w->n = a[0].dim;
        for (int o = 0; o < k; o++)
            w->step[o] = w->n == 1 ? 1 : a[0].stride[o];
    }
    w->nd = n > 1 ? n - 1 : 0;
    for (int i = 0; i < w->nd; i++) {
        const axis *from = &a[n - 1 - i];
        w->dim[i] = (uint32_t)from->dim;
        memcpy(w->stride[i], from->stride, sizeof from->stride);
        if (from->dim > most || __builtin_mul_overflow(rows, from->dim, &rows))
            rows = most + 1;
    }
    int64_t packs = (w->n + 7) / 8, all;
    w->rows = (uint32_t)rows;
    w->packs = (uint32_t)packs;
    measure(w);
    w->whole = whole(w);
    if (!__builtin_mul_overflow(rows, packs, &all) && all <= most)
        return true;
    cuda_fault(d, VC_EINVAL, "%s: more than 2^31 packs of eight elements are not possible", op);
    return false;
}

int64_t cuda_kept_first(const vt_tensor *by, int k, const vt_tensor *const *t, vt_tensor *out,
                        const vt_tensor **ordered)
{
    int order[VT_DIMS], n = 0, nd = t[0] ? t[0]->nd : by->nd;
    int64_t kept = 1;

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < nd - 1; i++) {
            bool keep = by && by->stride[i] != 0;
            if (keep != (pass == 0))
                continue;
            order[n++] = i;
            if (keep)
                kept *= by->dim[i];
        }
    for (int o = 0; o < k; o++) {
        ordered[o] = t[o] ? &out[o] : NULL;
        if (!t[o])
            continue;
        out[o] = *t[o];
        for (int i = 0; i < nd - 1; i++) {
            out[o].dim[i] = t[o]->dim[order[i]];
            out[o].stride[i] = t[o]->stride[order[i]];
        }
    }
    return kept;
}

vt_tensor cuda_repeat(const vt_tensor *t, const vt_tensor *x)
{
    vt_tensor e = *t;

    e.nd = x->nd;
    for (int i = 0; i < x->nd; i++) {
        e.dim[i] = x->dim[i];
        e.stride[i] = t->nd == 1 && i == x->nd - 1 ? 1 : 0;
    }
    return e;
}

vt_tensor cuda_stats(const vt_tensor *stats, const vt_tensor *x)
{
    vt_tensor s = *stats;
    int64_t stride = 2;

    s.nd = x->nd;
    for (int i = x->nd; i-- > 0;) {
        s.dim[i] = x->dim[i];
        s.stride[i] = i == x->nd - 1 ? 0 : stride;
        stride *= i == x->nd - 1 ? 1 : x->dim[i];
    }
    return s;
}
