/* shape.c - comparing shapes; see tensor.h and engine.h. The ops and the backends call it. */
#include "common/tensor/engine.h"

bool vt_packed(const vt_tensor *t)
{
    int64_t stride = 1;

    for (int i = t->nd; i-- > 0; stride *= t->dim[i])
        if (t->dim[i] > 1 && t->stride[i] != stride)
            return false;
    return true;
}

bool vt_same_shape(const vt_tensor *a, const vt_tensor *b)
{
    if (a->nd != b->nd)
        return false;
    for (int i = 0; i < a->nd; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool vt_broadcasts(const vt_tensor *b, const vt_tensor *a)
{
    if (b->nd > a->nd)
        return false;
    for (int i = 1; i <= b->nd; i++)
        if (b->dim[b->nd - i] != 1 && b->dim[b->nd - i] != a->dim[a->nd - i])
            return false;
    return true;
}

vt_tensor vt_expand(const vt_tensor *t, const vt_tensor *like)
{
    vt_tensor e = *t;
    int missing = like->nd - t->nd;

    e.nd = like->nd;
    for (int i = 0; i < e.nd; i++) {
        e.dim[i] = like->dim[i];
        e.stride[i] = i < missing || t->dim[i - missing] != like->dim[i] ? 0
                                                                       : t->stride[i - missing];
    }
    return e;
}
