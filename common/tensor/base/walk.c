/* walk.c - tensors of one shape as rows; see walk.h */
#include "common/tensor/walk.h"

/* An axis with the strides of all operands. */
typedef struct axis {
    int64_t dim, stride[VT_OPERANDS];
} axis;

static bool even(const vt_walk *w, const axis *outer, const axis *inner)
{
    for (int o = 0; o < w->k; o++)
        if (w->data[o] && outer->stride[o] != inner->stride[o] * inner->dim)
            return false;
    return true;
}

/* Collects axes, innermost first, without those of size 1, and joins those that all operands
 * traverse evenly. Without `join` the first one is the row's, whatever its size. Returns their
 * number. */
static int collect(const vt_walk *w, const vt_tensor *const *t, bool join, axis *to)
{
    int n = 0;

    for (int i = t[0]->nd; i-- > 0;) {
        const bool row = !join && i == t[0]->nd - 1;
        axis a = { .dim = t[0]->dim[i] };
        for (int o = 0; o < w->k; o++)
            a.stride[o] = t[o] ? t[o]->stride[i] : 0;
        if (a.dim == 1 && !row)
            continue;
        if (n > (join ? 0 : 1) && even(w, &a, &to[n - 1]))
            to[n - 1].dim *= a.dim;
        else
            to[n++] = a;
    }
    return n;
}

vt_walk vt_walk_of(int k, const vt_tensor *const *t, bool join)
{
    vt_walk w = { .k = k, .rows = 1, .n = 1 };
    axis a[VT_DIMS];

    for (int o = 0; o < k; o++) {
        w.step[o] = 1;
        if (!t[o])
            continue;
        w.data[o] = t[o]->data;
        w.type[o] = t[o]->dtype;
    }
    const int n = collect(&w, t, join, a);
    if (n == 0)
        return w;
    w.n = a[0].dim;
    w.nd = n - 1;
    for (int i = 0; i < w.nd; i++) {
        w.dim[i] = a[n - 1 - i].dim;
        w.rows *= w.dim[i];
    }
    for (int o = 0; o < k; o++) {
        w.step[o] = w.n == 1 ? 1 : a[0].stride[o];
        for (int i = 0; i < w.nd; i++)
            w.stride[o][i] = a[n - 1 - i].stride[o];
    }
    return w;
}

int64_t vt_kept_first(const vt_tensor *by, int k, const vt_tensor *const *t, vt_tensor *out,
                      const vt_tensor **ordered)
{
    const vt_tensor *like = by ? by : t[0];
    int order[VT_DIMS], n = 0;
    int64_t kept = 1;

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < like->nd - 1; i++) {
            const bool keep = by && by->stride[i] != 0;
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
        for (int i = 0; i < n; i++) {
            out[o].dim[i] = t[o]->dim[order[i]];
            out[o].stride[i] = t[o]->stride[order[i]];
        }
    }
    return kept;
}

vt_tensor vt_row_stats(const vt_tensor *stats, const vt_tensor *x)
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
