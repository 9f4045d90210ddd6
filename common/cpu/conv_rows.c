/* conv_rows.c - the input rows of a convolution; see conv.h */
#include "common/cpu/conv.h"

/* Returns the index to read for element i of an axis of n: the first or last if `edge` pads. */
static long at_edge(long i, int64_t n, bool edge)
{
    return !edge ? i : i < 0 ? 0 : i < n ? i : (long)n - 1;
}

const char *cpu_conv_row(const cpu_conv *v, size_t n, long t, long h)
{
    const vt_tensor *x = v->x;

    if (t < 0 && v->c->front) {
        x = v->c->front;
        t = x->dim[1] == 1 ? 0 : t + v->c->before[0];
    }
    t = at_edge(t, x->dim[1], v->c->edge[0]);
    h = at_edge(h, x->dim[2], v->c->edge[1]);
    if (t < 0 || t >= x->dim[1] || h < 0 || h >= x->dim[2])
        return NULL;
    size_t row = (n * (size_t)x->dim[1] + (size_t)t) * (size_t)x->dim[2] + (size_t)h;
    return (const char *)x->data + row * (size_t)x->dim[3] * v->in * vc_dtype_size(x->dtype);
}
