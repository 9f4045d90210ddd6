/* ops_check.c - one row of test_ops.c: see ops.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/tensor/backend.h"
#include "tests/tensor/ops.h"

typedef struct input {
    double *value;                             /* in logical order, rounded to the compute type */
    int64_t at[OP_SAMPLES];                    /* elements whose gradient is compared */
    double grad[OP_SAMPLES];
    int samples;
    bool weight, trained;
    op_shape stored;                           /* shape of the parameter in this layout */
    int64_t *place;                            /* index in the parameter of a logical element */
    vt_tensor *param;
} input;

struct op_want {
    op_args a;
    vc_dtype type;
    input in[OP_INPUTS];
    double *want, *seed;                       /* the op's value; factors of its elements */
    float *got;
    int64_t n;
};
typedef op_want work;

static op_shape parse(const char *text)
{
    op_shape s = { 0 };

    for (char *end; *text; text = end + strspn(end, " "))
        s.dim[s.nd++] = strtoll(text, &end, 10);
    return s;
}

static double rounded(double x, vc_dtype t)
{
    uint32_t bits;
    float f = (float)x;

    vc_from_f32(&bits, t, &f, 1);
    vc_to_f32(&f, &bits, t, 1);
    return (double)f;
}

static void *need(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

/* Computes the shape of the parameter in a layout, and the place of each element. */
static void lay_out(input *in, const op_shape *s, int layout)
{
    int64_t n = op_count(s);
    bool slice = layout == OP_SLICED && s->nd > 0, permute = layout == OP_PERMUTED;

    in->stored = *s;
    for (int k = 0; k < s->nd; k++)
        in->stored.dim[k] = permute ? s->dim[s->nd - 1 - k] : s->dim[k] + (slice ? k + 1 : 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t at[VT_DIMS], rest = i, to = 0;
        for (int k = s->nd; k-- > 0; rest /= s->dim[k])
            at[k] = rest % s->dim[k];
        for (int k = 0; k < s->nd; k++)
            to = to * in->stored.dim[k] + (permute ? at[s->nd - 1 - k] : at[k] + (slice ? 1 : 0));
        in->place[i] = to;
    }
}

static void fill(double *v, int64_t n, uint32_t row, vc_dtype type)
{
    float *z = need((size_t)n, sizeof *z);

    vc_train_normals(z, 0, (size_t)n, 7, row, 0, 99);
    for (int64_t i = 0; i < n; i++)
        v[i] = rounded((double)z[i], type);
    free(z);
}

static double objective(const work *w, double *y, const double *const *x)
{
    double sum = 0;

    w->a.c->ref(y, x, &w->a);
    for (int64_t i = 0; i < w->n; i++)
        sum += y[i] * w->seed[i];
    return sum;
}

/* Computes central differences of the loop at samples of an input. */
static void differentiate(work *w, input *in, int64_t n, const double *const *x, double *y)
{
    const double h = 1e-4;

    in->samples = n < OP_SAMPLES ? (int)n : OP_SAMPLES;
    for (int s = 0; s < in->samples; s++) {
        int64_t at = in->at[s] = n <= OP_SAMPLES ? s : s * (n - 1) / (OP_SAMPLES - 1);
        double keep = in->value[at];
        in->value[at] = keep + h;
        double up = objective(w, y, x);
        in->value[at] = keep - h;
        in->grad[s] = (up - objective(w, y, x)) / (2 * h);
        in->value[at] = keep;
    }
}

op_want *op_want_open(const op_case *c, vc_dtype type)
{
    work *w = need(1, sizeof *w);
    const double *x[OP_INPUTS];

    w->a.c = c;
    w->type = type;
    for (int i = 0; i < OP_INPUTS && c->in[i]; i++) {
        input *in = &w->in[i];
        op_shape *s = &w->a.s[w->a.n++];
        *s = parse(c->in[i]);
        int64_t n = op_count(s);
        in->weight = c->weights >> i & 1;
        in->trained = !(c->fixed >> i & 1) && !(in->weight && c->stored);
        in->value = need((size_t)n, sizeof *in->value);
        in->place = need((size_t)n, sizeof *in->place);
        fill(in->value, n, (uint32_t)i, in->weight ? c->stored : type);
        x[i] = in->value;
    }
    w->n = c->ref(NULL, x, &w->a);
    w->want = need((size_t)w->n, sizeof *w->want);
    w->seed = need((size_t)w->n, sizeof *w->seed);
    w->got = need((size_t)w->n, sizeof *w->got);
    fill(w->seed, w->n, 50, VC_BF16);
    for (int i = 0; i < w->a.n; i++)
        if (w->in[i].trained)
            differentiate(w, &w->in[i], op_count(&w->a.s[i]), x, w->want);
    c->ref(w->want, x, &w->a);
    return w;
}

void op_want_close(op_want *w)
{
    for (int i = 0; i < w->a.n; i++) {
        free(w->in[i].value);
        free(w->in[i].place);
    }
    free(w->want);
    free(w->seed);
    free(w->got);
    free(w);
}

static int make_param(vt_ctx *g, work *w, int i, vc_err *err)
{
    input *in = &w->in[i];
    int64_t total = op_count(&in->stored);
    float *v = need((size_t)total, sizeof *v);

    for (int64_t k = 0; k < op_count(&w->a.s[i]); k++)
        v[in->place[k]] = (float)in->value[k];
    in->param = vt_param_new(g, in->weight ? w->a.c->stored : VC_F32, in->stored.nd,
                             in->stored.dim, v, VC_F32, false, err);
    free(v);
    if (!in->param)
        return -1;
    return in->trained ? vt_param_train(g, in->param, VC_F32, err) : 0;
}

/* Returns the tensor for the op: the layout's view of the parameter, cast to the compute type. */
static vt_tensor *view_of(vt_ctx *g, const work *w, int i, int layout)
{
    const input *in = &w->in[i];
    const op_shape *s = &w->a.s[i];

    if (in->weight)
        return in->param;
    vt_tensor *x = vt_cast(g, in->param, w->type);
    if (layout == OP_PERMUTED) {
        int order[VT_DIMS];
        for (int k = 0; k < s->nd; k++)
            order[k] = s->nd - 1 - k;
        return vt_permute(g, x, order);
    }
    for (int k = 0; k < s->nd && layout == OP_SLICED; k++)
        x = vt_slice(g, x, k, 1, 1 + s->dim[k]);
    return x;
}

/* Runs y = op(x), loss = sum(y seed) and backward. */
static int run(vt_ctx *g, work *w, int layout, vc_err *err)
{
    bool back = false;
    float *seed = need((size_t)w->n, sizeof *seed);

    for (int64_t i = 0; i < w->n; i++)
        seed[i] = (float)w->seed[i];
    vt_step_begin(g, VT_RECORD);
    vt_tensor *x[OP_INPUTS] = { NULL };
    for (int i = 0; i < w->a.n; i++) {
        x[i] = view_of(g, w, i, layout);
        back |= w->in[i].trained;
    }
    vt_tensor *y = w->a.c->run(g, x, &w->a);
    int rc = 0;
    if (y && vt_count(y) != w->n)
        rc = vc_fail(err, VC_EFAIL, "%lld elements, not %lld", (long long)vt_count(y),
                     (long long)w->n);
    if (y && !rc)
        rc = vt_to_host(g, y, w->got, err);
    if (y && !rc && back) {
        vt_tensor *r = vt_from_host(g, VC_F32, y->nd, y->dim, seed, VC_F32);
        vt_backward(g, vt_sum(g, vt_mul(g, y, r)));
    }
    free(seed);
    int end = vt_step_end(g, err);
    return rc ? rc : end;
}

static double largest(const double *v, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        m = fmax(m, fabs(v[i]));
    return m;
}

static int compare_values(const work *w, float tol, char why[256])
{
    double scale = largest(w->want, w->n);

    for (int64_t i = 0; i < w->n; i++)
        if (!(fabs((double)w->got[i] - w->want[i]) <= (double)tol * scale)) {
            snprintf(why, 256, "value %lld: %.9g, should be %.9g (largest %.3g)", (long long)i,
                     (double)w->got[i], w->want[i], scale);
            return -1;
        }
    return 0;
}

static int compare_grad(vt_ctx *g, const work *w, int k, float tol, char why[256])
{
    const input *in = &w->in[k];
    int64_t n = op_count(&w->a.s[k]), total = op_count(&in->stored);
    float *got = need((size_t)total, sizeof *got);
    double scale = largest(in->grad, in->samples);
    int rc = 0;

    vt_to_host(g, in->param->grad, got, NULL);
    for (int s = 0; s < in->samples && !rc; s++) {
        double have = (double)got[in->place[in->at[s]]];
        if (fabs(have - in->grad[s]) <= (double)tol * scale + 1e-8)
            continue;
        snprintf(why, 256, "gradient of input %d at %lld: %.9g, should be %.9g (largest %.3g)", k,
                 (long long)in->at[s], have, in->grad[s], scale);
        rc = -1;
    }
    for (int64_t i = 0; i < n; i++)            /* elements outside a slice get no gradient */
        got[in->place[i]] = 0;
    for (int64_t i = 0; i < total && !rc; i++)
        if (got[i] != 0) {
            snprintf(why, 256, "gradient of input %d outside the slice: %g", k, (double)got[i]);
            rc = -1;
        }
    free(got);
    return rc;
}

/* Runs the row again: with `fresh` the gradients are empty and get the same bits; without, they are
 * added to and become twice as large. */
static int compare_again(vt_ctx *g, work *w, int layout, float tol, bool fresh, char why[256])
{
    float *first = need((size_t)w->n, sizeof *first), *grad[OP_INPUTS] = { NULL };
    vc_err err = { 0 };
    int rc = 0;

    memcpy(first, w->got, (size_t)w->n * sizeof *first);
    for (int i = 0; i < w->a.n; i++) {
        vt_tensor *d = w->in[i].param->grad;
        if (!d)
            continue;
        grad[i] = need((size_t)vt_count(d), sizeof **grad);
        vt_to_host(g, d, grad[i], NULL);
        d->buf->empty = fresh;
    }
    if (run(g, w, layout, &err)) {
        snprintf(why, 256, "second run: %.200s", err.text);
        rc = -1;
    } else if (memcmp(first, w->got, (size_t)w->n * sizeof *first)) {
        snprintf(why, 256, "the second run has other values");
        rc = -1;
    }
    for (int i = 0; i < w->a.n; i++) {
        const vt_tensor *d = w->in[i].param->grad;
        int64_t n = d ? vt_count(d) : 0;
        float *again = need((size_t)n, sizeof *again), most = 0;
        if (d)
            vt_to_host(g, d, again, NULL);
        for (int64_t k = 0; k < n; k++)
            most = fmaxf(most, fabsf(grad[i][k]));
        for (int64_t k = 0; k < n && !rc; k++)
            if (fresh ? again[k] != grad[i][k]
                      : fabsf(again[k] - 2 * grad[i][k]) > tol * most + 1e-8f) {
                snprintf(why, 256, "gradient of input %d at %lld: %.9g, %s: %.9g", i, (long long)k,
                         (double)grad[i][k], fresh ? "run again" : "added to", (double)again[k]);
                rc = -1;
            }
        free(again);
        free(grad[i]);
    }
    free(first);
    return rc;
}

int op_check(vt_ctx *g, op_want *w, int layout, char why[256])
{
    float tol = w->type == VC_F32 ? w->a.c->tol : w->a.c->tol16;
    vc_err err = { 0 };
    int rc = 0;

    for (int i = 0; i < w->a.n && !rc; i++) {
        lay_out(&w->in[i], &w->a.s[i], w->in[i].weight ? OP_PACKED : layout);
        rc = make_param(g, w, i, &err);
    }
    if (!rc)
        rc = run(g, w, layout, &err);
    if (rc)
        snprintf(why, 256, "%.250s", err.text);
    else
        rc = compare_values(w, tol, why);
    for (int i = 0; i < w->a.n && !rc; i++)
        if (w->in[i].trained)
            rc = compare_grad(g, w, i, tol, why);
    if (!rc)
        rc = compare_again(g, w, layout, tol, true, why);
    if (!rc)
        rc = compare_again(g, w, layout, tol, false, why);
    for (int i = 0; i < w->a.n; i++) {
        vt_param_free(g, w->in[i].param);
        w->in[i].param = NULL;
    }
    return rc;
}
