/* loops_elem.c - copies, element-wise kernels, losses; see kernel_list.h */
#include <math.h>
#include <string.h>

#include "common/cpu/loops.h"
#include "common/kernels/elements.h"

#define LIST(...) (const vt_tensor *const[]){ __VA_ARGS__ }
#define COUNT(...) (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(const vt_tensor *))
#define RUN(d, fn, arg, adds, ...) \
    cpu_map(d, fn, arg, adds, COUNT(__VA_ARGS__), LIST(__VA_ARGS__))

/* ---- copies ---- */

typedef struct same {
    vt_walk w;
    size_t size;                               /* bytes of an element */
} same;

static void copy_elements(char *y, int64_t ys, const char *x, int64_t xs, int64_t n, size_t size)
{
    if (size == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * ys * 2, x + i * xs * 2, 2);
    else if (size == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * ys * 4, x + i * xs * 4, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * ys * (int64_t)size, x + i * xs * (int64_t)size, size);
}

static void same_part(void *arg, int part, int64_t begin, int64_t end)
{
    const same *s = arg;
    const vt_walk *w = &s->w;
    int64_t spans = (w->n + CPU_SPAN - 1) / CPU_SPAN, span = begin % spans;
    cpu_at at;

    (void)part;
    cpu_at_row(w, &at, begin / spans);
    for (int64_t u = begin; u < end; u++) {
        int64_t first = span * CPU_SPAN, n = w->n - first < CPU_SPAN ? w->n - first : CPU_SPAN;
        char *y = cpu_ptr(w, &at, 0, first);
        const char *x = cpu_ptr(w, &at, 1, first);
        if (w->step[0] == 1 && w->step[1] == 1)
            memcpy(y, x, (size_t)n * s->size);
        else
            copy_elements(y, w->step[0], x, w->step[1], n, s->size);
        if (++span == spans) {
            span = 0;
            cpu_next_row(w, &at);
        }
    }
}

static void take(const cpu_rows *r, const void *arg, float *y, const float *const *x, size_t n)
{
    (void)r, (void)arg;
    memcpy(y, x[0], n * sizeof *y);
}

typedef struct unpacking {
    const cpu_rows *rows;
    cpu_vectors x;
    vt_tensor *y;
} unpacking;

static void unpack_part(void *arg, int part, int64_t begin, int64_t end)
{
    const unpacking *u = arg;
    const cpu_rows *r = u->rows;
    const size_t n = (size_t)u->y->dim[1], size = vc_dtype_size(u->y->dtype);
    float f[CPU_SPAN];

    (void)part;
    for (int64_t row = begin; row < end; row++)
        for (size_t i = 0, m; i < n; i += m) {
            m = n - i < CPU_SPAN ? n - i : CPU_SPAN;
            cpu_unpack(r, f, &u->x, (size_t)row, i, m);
            r->store((char *)u->y->data + ((size_t)row * n + i) * size, u->y->dtype, f, m);
        }
}

void cpu_copy(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    if (x->scale) {
        unpacking u = { d->rows, cpu_columns_of(x, true), y };
        cpu_share(d, cpu_parts(d, x->dim[0], 1 + 32768 / x->dim[1]), x->dim[0], unpack_part, &u);
        return;
    }
    if (y->dtype != x->dtype) {
        RUN(d, take, NULL, false, y, x);
        return;
    }
    same s = { .size = vc_dtype_size(x->dtype) };
    s.w = vt_walk_of(2, LIST(y, x), true);
    int64_t size = s.w.n < CPU_SPAN ? s.w.n : CPU_SPAN;
    int64_t units = s.w.rows * ((s.w.n + CPU_SPAN - 1) / CPU_SPAN);
    cpu_share(d, cpu_parts(d, units, 32768 / size), units, same_part, &s);
}

/* ---- elements ---- */

#define INPUT(k, inputs) ((k) < (inputs) ? in[k][i] : 0)
#define PLAIN(NAME, inputs, value)                                                                 \
    static void NAME##_span(const cpu_rows *r, const void *arg, float *y, const float *const *in,  \
                            size_t n)                                                              \
    {                                                                                              \
        const float *a = arg;                                                                      \
        (void)r, (void)a, (void)in;                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float x[4] = { INPUT(0, inputs), INPUT(1, inputs), INPUT(2, inputs),             \
                                 INPUT(3, inputs) };                                               \
            (void)x;                                                                               \
            y[i] = value;                                                                          \
        }                                                                                          \
    }
VK_PLAIN_ELEMENTS(PLAIN)

#define VECTORS(NAME, call)                                                                        \
    static void NAME##_span(const cpu_rows *r, const void *arg, float *y, const float *const *x,   \
                            size_t n)                                                              \
    {                                                                                              \
        (void)arg;                                                                                 \
        call;                                                                                      \
    }
VECTORS(ADD, r->add(y, x[0], x[1], n))
VECTORS(SUB, r->sub(y, x[0], x[1], n))
VECTORS(MUL, r->mul(y, x[0], x[1], n))
#define UNARY(with, NAME, name)                                                                    \
    VECTORS(NAME, r->name(y, x[0], n)) VECTORS(NAME##_GRAD, r->name##_grad(y, x[0], x[1], n))
VF_UNARIES(UNARY, )

static void POSTERIOR_span(const cpu_rows *r, const void *arg, float *y, const float *const *x,
                           size_t n)
{
    (void)arg;
    for (size_t i = 0; i < n; i++)
        y[i] = 0.5f * x[1][i];
    r->exp(y, y, n);
    for (size_t i = 0; i < n; i++)
        y[i] = x[0][i] + y[i] * x[2][i];
}

#define OF(NAME, inputs, value) [VK_##NAME] = NAME##_span,
#define OF_UNARY(with, NAME, name) [VK_##NAME] = NAME##_span, [VK_##NAME##_GRAD] = NAME##_GRAD_span,
static const cpu_span spans[VK_ELEMENT_COUNT] = {
    VK_PLAIN_ELEMENTS(OF) VF_UNARIES(OF_UNARY, )
    [VK_ADD] = ADD_span, [VK_SUB] = SUB_span, [VK_MUL] = MUL_span, [VK_POSTERIOR] = POSTERIOR_span,
};

#define ELEMENT(name) cpu_##name
#define MAP(d, op, f, adds, a0, a1, ...) \
    RUN(d, spans[f], ((const float[]){ a0, a1 }), adds, __VA_ARGS__)
#include "common/tensor/element_ops.h"

/* ---- losses and sums ---- */

static double squares(const cpu_rows *r, const float *const *x, size_t n)
{
    float e[CPU_SPAN], w[CPU_SPAN];

    r->sub(e, x[0], x[1], n);
    if (!x[2])
        return r->sumsq(e, n);
    r->mul(w, e, x[2], n);
    return (double)r->dot(e, w, n);
}

void cpu_mse(vt_dev *d, vt_tensor *loss, const vt_tensor *pred, const vt_tensor *target,
             const vt_tensor *weight)
{
    double sum = cpu_sum_of(d, squares, 3, LIST(pred, target, weight));
    *(float *)loss->data = (float)(sum / (double)vt_count(pred));
}

/* arg points to 2 dloss / count. */
static void errors(const cpu_rows *r, const void *arg, float *y, const float *const *x, size_t n)
{
    float a = *(const float *)arg;

    (void)r;
    for (size_t i = 0; i < n; i++)
        y[i] = a * (x[0][i] - x[1][i]);
}

static void weighted_errors(const cpu_rows *r, const void *arg, float *y, const float *const *x,
                            size_t n)
{
    errors(r, arg, y, x, n);
    r->mul(y, y, x[2], n);
}

void cpu_mse_grad(vt_dev *d, vt_tensor *dpred, const vt_tensor *dloss, const vt_tensor *pred,
                  const vt_tensor *target, const vt_tensor *weight)
{
    float a = (float)(2.0 * (double)*(const float *)dloss->data / (double)vt_count(pred));

    if (weight)
        RUN(d, weighted_errors, &a, vt_adds(dpred), dpred, pred, target, weight);
    else
        RUN(d, errors, &a, vt_adds(dpred), dpred, pred, target);
    vt_wrote(dpred);
}

static double plain_sum(const cpu_rows *r, const float *const *x, size_t n)
{
    return (double)r->sum(x[0], n);
}

void cpu_sum(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    *(float *)y->data = (float)cpu_sum_of(d, plain_sum, 1, LIST(x));
}

static double square_sum(const cpu_rows *r, const float *const *x, size_t n)
{
    return r->sumsq(x[0], n);
}

void cpu_sumsq(vt_dev *d, double *sums, const vt_tensor *const *x, int n)
{
    for (int i = 0; i < n; i++)
        sums[i] = cpu_sum_of(d, square_sum, 1, LIST(x[i]));
}

static double magnitude_sum(const cpu_rows *r, const float *const *x, size_t n)
{
    float a[CPU_SPAN];

    for (size_t i = 0; i < n; i++)
        a[i] = fabsf(x[0][i]);
    return (double)r->sum(a, n);
}

double cpu_sum_magnitudes(vt_dev *d, const vt_tensor *x)
{
    return cpu_sum_of(d, magnitude_sum, 1, LIST(x));
}

static double along_sum(const cpu_rows *r, const float *const *x, size_t n)
{
    float e[CPU_SPAN];

    r->sub(e, x[1], x[2], n);
    return (double)r->dot(e, x[0], n);
}

double cpu_sum_along(vt_dev *d, const vt_tensor *x, const vt_tensor *a, const vt_tensor *b)
{
    return cpu_sum_of(d, along_sum, 3, LIST(x, a, b));
}
