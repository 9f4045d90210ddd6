/* ops_ref.c - every op once more as a plain loop in f64, straight from its formula in ops.h. */
#include <math.h>
#include <stdlib.h>

#include "tests/tensor/ops.h"

/* Element of b (broadcast to a) that element i of a meets. */
static int64_t met(const op_shape *a, const op_shape *b, int64_t i)
{
    int64_t at = 0, stride = 1;

    for (int k = 1; k <= a->nd; k++) {
        int64_t n = a->dim[a->nd - k], j = i % n;
        i /= n;
        if (k > b->nd)
            continue;
        int64_t m = b->dim[b->nd - k];
        at += (m == 1 ? 0 : j) * stride;
        stride *= m;
    }
    return at;
}

static int64_t last(const op_shape *s) { return s->nd ? s->dim[s->nd - 1] : 1; }

#define EACH(y, n, value)                                                                          \
    do {                                                                                           \
        for (int64_t i = 0; (y) && i < (n); i++)                                                   \
            (y)[i] = (value);                                                                      \
        return (n);                                                                                \
    } while (0)

int64_t ref_add(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] + x[1][met(&a->s[0], &a->s[1], i)]);
}

int64_t ref_sub(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] - x[1][met(&a->s[0], &a->s[1], i)]);
}

int64_t ref_mul(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] * x[1][met(&a->s[0], &a->s[1], i)]);
}

int64_t ref_scale(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] * a->c->arg[0]);
}

int64_t ref_silu(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] / (1 + exp(-x[0][i])));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

int64_t ref_gelu(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), gelu(x[0][i]));
}

int64_t ref_gelu_erf(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), 0.5 * x[0][i] * (1 + erf(x[0][i] / sqrt(2))));
}

int64_t ref_quick_gelu(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] / (1 + exp(-1.702 * x[0][i])));
}

int64_t ref_sigmoid(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), 1 / (1 + exp(-x[0][i])));
}

int64_t ref_tanh(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), tanh(x[0][i]));
}

int64_t ref_gated_add(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i] + x[1][i] * x[2][met(&a->s[0], &a->s[2], i)]);
}

int64_t ref_mix(double *y, const double *const *x, const op_args *a)
{
    int64_t each = op_count(&a->s[0]) / a->s[0].dim[0];
    EACH(y, op_count(&a->s[0]), x[2][i / each] * x[0][i] + x[3][i / each] * x[1][i]);
}

int64_t ref_posterior(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    EACH(y, op_count(s), x[0][i] + exp(x[1][met(s, &s[1], i)] / 2) * x[2][met(s, &s[2], i)]);
}

int64_t ref_timestep(double *y, const double *const *x, const op_args *a)
{
    int64_t d = (int64_t)a->c->arg[0], half = d / 2, n = a->s[0].dim[0] * d;

    for (int64_t i = 0; y && i < n; i++) {
        int64_t k = i % d;
        double angle = x[0][i / d] * pow(a->c->arg[1], -(double)(k % half) / (double)half);
        y[i] = k < half ? cos(angle) : sin(angle);
    }
    return n;
}

/* ---- norms: x, w, b, shift, scale; an input of size 0 is absent ---- */

static int64_t norm(double *y, const double *x, const double *w, const double *b,
                    const double *shift, const op_shape *shape, const double *scale,
                    const op_args *a, int rms)
{
    int64_t n = op_count(&a->s[0]), d = last(&a->s[0]);

    for (int64_t r = 0; y && r < n / d; r++) {
        const double *row = x + r * d;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < d && !rms; i++)
            mean += row[i] / (double)d;
        for (int64_t i = 0; i < d; i++)
            var += (row[i] - mean) * (row[i] - mean) / (double)d;
        for (int64_t i = 0; i < d; i++) {
            double v = (row[i] - mean) / sqrt(var + a->c->arg[0]);
            v = v * (w ? w[i] : 1) + (b ? b[i] : 0);
            if (shift) {
                int64_t k = met(&a->s[0], shape, r * d + i);
                v = v * (1 + scale[k]) + shift[k];
            }
            y[r * d + i] = v;
        }
    }
    return n;
}

int64_t ref_layer_norm(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 1 ? x[1] : NULL, a->n > 2 ? x[2] : NULL, NULL, NULL, NULL, a, 0);
}

int64_t ref_rms_norm(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 1 ? x[1] : NULL, NULL, NULL, NULL, NULL, a, 1);
}

/* x, shift, scale, then w and b if there */
int64_t ref_layer_modulate(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 3 ? x[3] : NULL, a->n > 4 ? x[4] : NULL, x[1], &a->s[1], x[2], a,
                0);
}

int64_t ref_rms_modulate(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 3 ? x[3] : NULL, NULL, x[1], &a->s[1], x[2], a, 1);
}

/* x, then shift and scale of the tokens below arg 1, of the others, w and b */
int64_t ref_modulate_two(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_count(&a->s[0]), tokens = a->s[0].dim[1], d = a->s[0].dim[2];
    double *both = malloc((size_t)n * sizeof *both);

    for (int k = 0; y && k < 2; k++) {
        norm(both, x[0], a->n > 5 ? x[5] : NULL, a->n > 6 ? x[6] : NULL, x[1 + 2 * k],
             &a->s[1 + 2 * k], x[2 + 2 * k], a, 0);
        for (int64_t i = 0; i < n; i++)
            if ((i / d % tokens >= (int64_t)a->c->arg[1]) == k)
                y[i] = both[i];
    }
    free(both);
    return n;
}

/* x, y, the two gates; arg 0: split */
int64_t ref_gated_two(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    int64_t tokens = s->dim[1], d = s->dim[2], split = (int64_t)a->c->arg[0];
    EACH(y, op_count(s), x[0][i] + x[1][i] * (i / d % tokens < split ? x[2][met(s, &s[2], i)]
                                                                     : x[3][met(s, &s[3], i)]));
}

/* ---- products ---- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* x, w, b */
int64_t ref_linear(double *y, const double *const *x, const op_args *a)
{
    int64_t k = a->s[1].dim[1], n = a->s[1].dim[0], m = op_count(&a->s[0]) / k;
    EACH(y, m * n, dot(x[0] + i / n * k, x[1] + i % n * k, k) + (a->n > 2 ? x[2][i % n] : 0));
}

/* x, w, b, lora a, lora b; arg 0: its scale */
int64_t ref_lora(double *y, const double *const *x, const op_args *a)
{
    int64_t count = ref_linear(y, x, &(op_args){ a->c, 3, { a->s[0], a->s[1], a->s[2] } });
    int64_t k = a->s[1].dim[1], n = a->s[1].dim[0], rank = a->s[3].dim[0];

    for (int64_t i = 0; y && i < count; i++)
        for (int64_t r = 0; r < rank; r++)
            y[i] += a->c->arg[0] * dot(x[0] + i / n * k, x[3] + r * k, k) *
                    x[4][i % n * rank + r];
    return count;
}

/* x, w1, w2, then biases, or (arg 1) lora a and b of each; arg 0: their scale */
int64_t ref_feed_forward(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    bool lora = a->c->arg[1] > 0;
    int64_t m = op_count(s) / s[1].dim[1], f = s[1].dim[0];
    const op_args up = { a->c, lora ? 5 : a->n > 3 ? 3 : 2, { s[0], s[1], s[3], s[3], s[4] } };
    op_args down = { a->c, lora ? 5 : a->n > 4 ? 3 : 2,
                     { { 2, { m, f } }, s[2], s[4], s[5], s[6] } };
    const double *no = calloc((size_t)(f + s[2].dim[0]), sizeof *no);
    double *h = malloc((size_t)(m * f) * sizeof *h);

    (lora ? ref_lora : ref_linear)(h, (const double *[]){ x[0], x[1], lora ? no : x[3], x[3],
                                                          x[4] }, &up);
    for (int64_t i = 0; i < m * f; i++)
        h[i] = gelu(h[i]);
    int64_t n = (lora ? ref_lora : ref_linear)(y, (const double *[]){ h, x[2], lora ? no : x[4],
                                                                      x[5], x[6] }, &down);
    free((void *)(uintptr_t)no);
    free(h);
    return n;
}

/* q, k, v, bias [H,Sq,Sk] if there; arg 0: scale, arg 1..: lengths of the keys (0: all) */
int64_t ref_attention(double *y, const double *const *x, const op_args *a)
{
    const int64_t *q = a->s[0].dim, *k = a->s[1].dim;
    int64_t h = q[2], d = q[3], n = op_count(&a->s[0]);
    double scale = a->c->arg[0] != 0 ? a->c->arg[0] : 1 / sqrt((double)d);
    int64_t run = (int64_t)a->c->arg[4], shared = h / k[2];
    op_shape scores = { 4, { q[0], h, q[1], k[1] } };
    double *p = malloc((size_t)k[1] * sizeof *p);

    for (int64_t i = 0; y && i < n / d; i++) {
        int64_t head = i % h, b = i / h / q[1];
        int64_t len = a->c->arg[1] != 0 ? (int64_t)a->c->arg[1 + b] : k[1];
        int64_t at = i / h % q[1], row = (b * h + head) * q[1] + at;
        if (run && (at / run + 1) * run < len)
            len = (at / run + 1) * run;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < len; j++) {
            p[j] = scale * dot(x[0] + i * d, x[1] + ((b * k[1] + j) * k[2] + head / shared) * d, d);
            if (a->n > 3)
                p[j] += x[3][met(&scores, &a->s[3], row * k[1] + j)];
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < len; j++)
            sum += p[j] = exp(p[j] - most);
        for (int64_t e = 0; e < d; e++) {
            y[i * d + e] = 0;
            for (int64_t j = 0; j < len; j++)
                y[i * d + e] += p[j] / sum * x[2][((b * k[1] + j) * k[2] + head / shared) * d + e];
        }
    }
    free(p);
    return n;
}

/* x, cos, sin; arg 0: first token. Pair j: elements j step and j step + apart of a row. */
static int64_t rope(double *y, const double *const *x, const op_args *a, int64_t step, int64_t apart)
{
    const int64_t *s = a->s[0].dim;
    int64_t n = op_count(&a->s[0]), d = s[3], first = (int64_t)a->c->arg[0];

    for (int64_t i = 0; y && i < n / 2; i++) {
        int64_t row = i / (d / 2), j = i % (d / 2), token = row / s[2] % s[1] - first;
        int64_t low = row * d + j * step, high = low + apart, at = token * (d / 2) + j;
        int turns = token >= 0 && token < a->s[1].dim[0];
        double c = turns ? x[1][at] : 1, sn = turns ? x[2][at] : 0;
        y[low] = x[0][low] * c - x[0][high] * sn;
        y[high] = x[0][high] * c + x[0][low] * sn;
    }
    return n;
}

int64_t ref_rope(double *y, const double *const *x, const op_args *a)
{
    return rope(y, x, a, 2, 1);
}

int64_t ref_rope_halves(double *y, const double *const *x, const op_args *a)
{
    return rope(y, x, a, 1, a->s[0].dim[3] / 2);
}

/* ---- losses ---- */

int64_t ref_mse(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_count(&a->s[0]);

    if (!y)
        return 1;
    *y = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = x[0][i] - x[1][i], w = a->n > 2 ? x[2][met(&a->s[0], &a->s[2], i)] : 1;
        *y += w * e * e / (double)n;
    }
    return 1;
}

int64_t ref_sum(double *y, const double *const *x, const op_args *a)
{
    if (!y)
        return 1;
    *y = 0;
    for (int64_t i = 0; i < op_count(&a->s[0]); i++)
        *y += x[0][i];
    return 1;
}

/* ---- shapes ---- */

int64_t ref_same(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][i]);
}

/* Indices of element i of a tensor. */
static void unravel(const op_shape *s, int64_t i, int64_t at[VT_DIMS])
{
    for (int k = s->nd; k-- > 0; i /= s->dim[k])
        at[k] = i % s->dim[k];
}

static int64_t ravel(const op_shape *s, const int64_t at[VT_DIMS])
{
    int64_t i = 0;
    for (int k = 0; k < s->nd; k++)
        i = i * s->dim[k] + at[k];
    return i;
}

/* arg: order */
int64_t ref_permute(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];

    for (int k = 0; k < to.nd; k++)
        to.dim[k] = a->s[0].dim[(int)a->c->arg[k]];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS], from[VT_DIMS];
        unravel(&to, i, at);
        for (int k = 0; k < to.nd; k++)
            from[(int)a->c->arg[k]] = at[k];
        y[i] = x[0][ravel(&a->s[0], from)];
    }
    return op_count(&to);
}

/* arg: axis, begin, end */
int64_t ref_slice(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];
    int axis = (int)a->c->arg[0];

    to.dim[axis] = (int64_t)(a->c->arg[2] - a->c->arg[1]);
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS];
        unravel(&to, i, at);
        at[axis] += (int64_t)a->c->arg[1];
        y[i] = x[0][ravel(&a->s[0], at)];
    }
    return op_count(&to);
}

/* arg: number of queries */
int64_t ref_distances(double *y, const double *const *x, const op_args *a)
{
    int64_t n = last(&a->s[0]), sq = (int64_t)a->c->arg[0], sk = n - sq + 1;
    int64_t count = op_count(&a->s[0]) / n * sq * sk;
    EACH(y, count, x[0][i / (sq * sk) * n + sq - 1 + i % sk - i / sk % sq]);
}

/* The row's table; arg: as many ids as arg 0 says */
int64_t ref_embedding(double *y, const double *const *x, const op_args *a)
{
    int64_t d = last(&a->s[0]), n = (int64_t)a->c->arg[0];
    EACH(y, n * d, x[0][(int64_t)a->c->arg[1 + i / d] * d + i % d]);
}

/* Three chunks of the last axis: first * second + third. */
int64_t ref_chunk(double *y, const double *const *x, const op_args *a)
{
    int64_t d = last(&a->s[0]) / 3, n = op_count(&a->s[0]) / 3;
    EACH(y, n, x[0][i / d * 3 * d + i % d] * x[0][i / d * 3 * d + d + i % d] +
               x[0][i / d * 3 * d + 2 * d + i % d]);
}

/* arg: axis */
int64_t ref_concat(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];
    int axis = (int)a->c->arg[0];

    for (int k = 1; k < a->n; k++)
        to.dim[axis] += a->s[k].dim[axis];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS] = { 0 };
        int k = 0;
        unravel(&to, i, at);
        for (; at[axis] >= a->s[k].dim[axis]; k++)
            at[axis] -= a->s[k].dim[axis];
        y[i] = x[k][ravel(&a->s[k], at)];
    }
    return op_count(&to);
}

/* Element of [B,C,T,H,W] that is element i of the tokens. arg: pt, ph, pw, order */
static int64_t pixel_of(const op_shape *v, const double *arg, int64_t i)
{
    int64_t pt = (int64_t)arg[0], ph = (int64_t)arg[1], pw = (int64_t)arg[2];
    int64_t c = v->dim[1], size = c * pt * ph * pw, in = i % size, token = i / size;
    int64_t nh = v->dim[3] / ph, nw = v->dim[4] / pw, nt = v->dim[2] / pt, p;
    int64_t at[VT_DIMS] = { 0 };

    if (arg[3] == VT_C_FIRST) {
        at[1] = in / (pt * ph * pw);
        p = in % (pt * ph * pw);
    } else {
        at[1] = in % c;
        p = in / c;
    }
    at[0] = token / (nt * nh * nw);
    at[2] = token / (nh * nw) % nt * pt + p / (ph * pw);
    at[3] = token / nw % nh * ph + p / pw % ph;
    at[4] = token % nw * pw + p % pw;
    return ravel(v, at);
}

int64_t ref_patchify(double *y, const double *const *x, const op_args *a)
{
    EACH(y, op_count(&a->s[0]), x[0][pixel_of(&a->s[0], a->c->arg, i)]);
}

/* The tokens' video is [B,2,2,4,6]. */
int64_t ref_unpatchify(double *y, const double *const *x, const op_args *a)
{
    op_shape v = { 5, { a->s[0].dim[0], 2, 2, 4, 6 } };
    int64_t n = op_count(&a->s[0]);

    for (int64_t i = 0; y && i < n; i++)
        y[pixel_of(&v, a->c->arg, i)] = x[0][i];
    return n;
}

/* ---- convolution: x, w, b, front; arg: stride t h w; before t; before h w; after h w; after
 * t; axes with edges, a bit each ---- */

static double input_at(const double *const *x, const op_args *a, const int64_t at[VT_DIMS])
{
    int64_t p[VT_DIMS] = { 0 };
    int front = at[1] < 0 && a->n > 3;

    for (int k = 0; k < 5; k++)
        p[k] = at[k];
    if (front)
        p[1] = a->s[3].dim[1] == 1 ? 0 : at[1] + (int64_t)a->c->arg[3];
    const op_shape *s = &a->s[front ? 3 : 0];
    for (int k = 1; k < 4; k++)
        if (p[k] < 0 || p[k] >= s->dim[k])
            return 0;
    return x[front ? 3 : 0][ravel(s, p)];
}

/* i, or the nearest element of an axis of n; front: what is below 0 lies in front of it. */
static int64_t at_edge(int64_t i, int64_t n, int edge, int front)
{
    if (!edge || (i < 0 && front))
        return i;
    return i < 0 ? 0 : i < n ? i : n - 1;
}

int64_t ref_conv3d(double *y, const double *const *x, const op_args *a)
{
    const int64_t *in = a->s[0].dim, *w = a->s[1].dim;
    int64_t before[3] = { (int64_t)a->c->arg[3], (int64_t)a->c->arg[4], (int64_t)a->c->arg[4] };
    int64_t after[3] = { (int64_t)a->c->arg[6], (int64_t)a->c->arg[5], (int64_t)a->c->arg[5] };
    int64_t step[3];
    int edge = (int)a->c->arg[7];
    op_shape to = { 5, { in[0], 0, 0, 0, w[0] } };

    for (int k = 0; k < 3; k++) {
        step[k] = (int64_t)a->c->arg[k];
        to.dim[1 + k] = (in[1 + k] + before[k] + after[k] - w[2 + k]) / step[k] + 1;
    }
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS];
        unravel(&to, i, at);
        y[i] = a->n > 2 ? x[2][at[4]] : 0;
        for (int64_t j = 0; j < op_count(&a->s[1]) / w[0]; j++) {
            int64_t c = j / (w[2] * w[3] * w[4]), p[VT_DIMS] = { at[0], 0, 0, 0, c };
            int64_t tap[3] = { j / (w[3] * w[4]) % w[2], j / w[4] % w[3], j % w[4] };
            for (int k = 0; k < 3; k++)
                p[1 + k] = at_edge(at[1 + k] * step[k] + tap[k] - before[k], in[1 + k],
                                   edge >> k & 1, k == 0 && a->n > 3);
            y[i] += input_at(x, a, p) * x[1][at[4] * (op_count(&a->s[1]) / w[0]) + j];
        }
    }
    return op_count(&to);
}

/* ---- x, w, b, scale, shift; arg: groups, eps, silu, first ---- */

/* What the spatial form reads for position `at` of x. */
static double below(const double *v, const op_shape *s, const op_shape *x,
                    const int64_t at[VT_DIMS], int first)
{
    int64_t p[VT_DIMS] = { at[0], 0, 0, 0, at[4] };

    for (int k = 1; k < 4; k++)
        p[k] = at[k] * s->dim[k] / x->dim[k];
    if (first)
        p[1] = at[1] == 0 ? 0 : 1 + (at[1] - 1) * (s->dim[1] - 1) / (x->dim[1] - 1);
    return v[ravel(s, p)];
}

int64_t ref_group_norm(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = &a->s[0];
    int64_t n = op_count(s), c = last(s), each = c / (int64_t)a->c->arg[0];
    int64_t rows = n / s->dim[0] / c;

    for (int64_t g = 0; y && g < s->dim[0] * (int64_t)a->c->arg[0]; g++) {
        int64_t base = g / (int64_t)a->c->arg[0] * rows * c, c0 = g % (int64_t)a->c->arg[0] * each;
        double mean = 0, var = 0, count = (double)(rows * each);
        for (int pass = 0; pass < 3; pass++)
            for (int64_t i = 0; i < rows * each; i++) {
                int64_t k = c0 + i % each, to = base + i / each * c + k, at[VT_DIMS];
                double v = x[0][to];
                if (pass == 0)
                    mean += v / count;
                else if (pass == 1)
                    var += (v - mean) * (v - mean) / count;
                else {
                    v = (v - mean) / sqrt(var + a->c->arg[1]) * x[1][k] + x[2][k];
                    unravel(s, to, at);
                    if (a->n > 3)
                        v = v * below(x[3], &a->s[3], s, at, a->c->arg[3] != 0) +
                            below(x[4], &a->s[4], s, at, a->c->arg[3] != 0);
                    y[to] = a->c->arg[2] != 0 ? v / (1 + exp(-v)) : v;
                }
            }
    }
    return n;
}

/* arg: t, h, w of the result */
int64_t ref_nearest(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];

    for (int k = 0; k < 3; k++)
        to.dim[1 + k] = (int64_t)a->c->arg[k];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS];
        unravel(&to, i, at);
        y[i] = below(x[0], &a->s[0], &to, at, 0);
    }
    return op_count(&to);
}

int64_t ref_pool_frames(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = &a->s[0];
    op_shape to = *s;
    int64_t odd = s->dim[1] % 2;

    to.dim[1] = (s->dim[1] + 1) / 2;
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS] = { 0 };
        unravel(&to, i, at);
        int64_t t = at[1];
        at[1] = odd && t == 0 ? 0 : 2 * t - odd;
        y[i] = x[0][ravel(s, at)];
        at[1] = odd && t == 0 ? 0 : 2 * t + 1 - odd;
        y[i] = (y[i] + x[0][ravel(s, at)]) / 2;
    }
    return op_count(&to);
}
