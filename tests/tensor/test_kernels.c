/* test_kernels.c - the row kernels of every set that this machine runs, against f64 loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/lib/ok.h"
#include "tests/tensor/kernels_dev.h"

#define EACH_ROWS(s) for (const cpu_rows *const *s = kd_rows(); *s; s++)

static const size_t sizes[] = { 0, 1, 3, 7, 8, 15, 16, 17, 33, 65, 100, 1000, 4099, 10000 };

/* Sets whether denormals are flushed, as in the device's threads; returns the earlier setting. */
static unsigned flush(unsigned how)
{
#if defined(__x86_64__)
    unsigned was = _mm_getcsr();
    _mm_setcsr(how == 1 ? was | 0x8040 : how);
    return was;
#else
    return how;
#endif
}

/* Makes n numbers that end where their allocation ends: a sanitizer reports reads past them. */
static float *span(kd_rng *r, size_t n, float scale)
{
    float *p = malloc(n ? n * 4 : 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = scale * kd_random(r);
    return p;
}

static void near(const char *name, const char *set, size_t i, double got, double want,
                 double within)
{
    if (!(fabs(got - want) <= within))
        fail_msg("%s, %s: element %zu is %.9g, not %.9g (within %.2g)", set, name, i, got, want,
                 within);
}

/* ---- conversions ---- */

static const struct { vc_dtype t; size_t codes; } small[] = {
    { VC_BF16, 65536 }, { VC_F16, 65536 }, { VC_F8E4M3, 256 }, { VC_F8E5M2, 256 },
};

static void check_load(const cpu_rows *r, vc_dtype t, size_t codes)
{
    uint8_t *src = malloc(codes * 2);
    float *got = malloc(codes * 4), *want = malloc(codes * 4);
    assert_true(src && got && want);
    for (size_t i = 0; i < codes; i++) {
        if (codes == 256)
            src[i] = (uint8_t)i;
        else
            memcpy(src + 2 * i, &(uint16_t){ (uint16_t)i }, 2);
    }
    vc_to_f32(want, src, t, codes);
    unsigned was = flush(1);
    r->load(got, src, t, codes);
    flush(was);
    for (size_t i = 0; i < codes; i++)
        if (isnan(want[i]) ? !isnan(got[i]) : memcmp(&got[i], &want[i], 4) != 0)
            fail_msg("%s: %s code %zx loads as %g, not %g", r->name, vc_dtype_name(t), i, got[i],
                     want[i]);
    free(src);
    free(got);
    free(want);
}

TEST(load_every_code)
{
    (void)state;
    EACH_ROWS(s)
        for (size_t i = 0; i < COUNT(small); i++)
            check_load(*s, small[i].t, small[i].codes);
}

/* Stores every value of the small type, the midpoint to the next value, their neighbours, and
 * numbers from the whole range of f32. */
static void check_store(const cpu_rows *r, vc_dtype t)
{
    enum { N = 1 << 20 };
    uint32_t *bits = malloc(N * 4);
    uint16_t *got = malloc(N * 2), *want = malloc(N * 2);
    assert_true(bits && got && want);
    for (uint32_t i = 0; i < N; i++) {
        static const int32_t off[] = { 0, 1, -1, 0x1000, 0x1001, 0xfff, 0x8000, 0x8001 };
        bits[i] = i < N / 2 ? (i >> 3 << 16) + (uint32_t)off[i & 7] : i * 2654435761u;
    }
    vc_from_f32(want, t, (const float *)bits, N);
    unsigned was = flush(1);
    r->store(got, t, (const float *)bits, N);
    flush(was);
    for (size_t i = 0; i < N; i++) {
        uint16_t mag = want[i] & 0x7fff, inf = t == VC_BF16 ? 0x7f80 : 0x7c00;
        bool nan = mag > inf, ok = nan ? (got[i] & 0x7fff) > inf : got[i] == want[i];
        if (!ok && t == VC_BF16 && !strcmp(r->name, "avx512_bf16"))
            ok = mag <= 0x80 && got[i] == (want[i] & 0x8000);      /* denormals become zeros */
        if (!ok)
            fail_msg("%s: %08x stores to %s as %04x, not %04x", r->name, bits[i], vc_dtype_name(t),
                     got[i], want[i]);
    }
    free(bits);
    free(got);
    free(want);
}

TEST(store_rounds_as_dtype)
{
    (void)state;
    EACH_ROWS(s) {
        check_store(*s, VC_BF16);
        check_store(*s, VC_F16);
    }
}

TEST(load_store_sizes)
{
    static const vc_dtype types[] = { VC_F32, VC_BF16, VC_F16, VC_F8E4M3, VC_F8E5M2 };
    kd_rng r = { 1 };
    (void)state;
    EACH_ROWS(s)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t k = 0; k < COUNT(types); k++) {
                size_t n = sizes[i], bytes = n * vc_dtype_size(types[k]);
                float *x = span(&r, n, 3), *y = span(&r, n, 1), *z = span(&r, n, 1);
                void *a = malloc(bytes ? bytes : 1), *b = malloc(bytes ? bytes : 1);
                assert_true(a && b);
                vc_from_f32(a, types[k], x, n);
                (*s)->store(b, types[k], x, n);
                assert_memory_equal(a, b, bytes);
                vc_to_f32(y, a, types[k], n);
                (*s)->load(z, a, types[k], n);
                assert_memory_equal(y, z, n * 4);
                free(x), free(y), free(z), free(a), free(b);
            }
}

/* ---- element by element ---- */

TEST(arithmetic)
{
    kd_rng r = { 2 };
    (void)state;
    EACH_ROWS(s)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            size_t n = sizes[k];
            float *a = span(&r, n, 1), *b = span(&r, n, 1), *y = span(&r, n, 1),
                  *was = span(&r, n, 1);
            const char *set = (*s)->name;
            double sum = 0, sumsq = 0, dot = 0, size = 1e-30;
            (*s)->add(y, a, b, n);
            for (size_t i = 0; i < n; i++)
                near("add", set, i, y[i], (double)a[i] + b[i], 1e-7);
            (*s)->sub(y, a, b, n);
            for (size_t i = 0; i < n; i++)
                near("sub", set, i, y[i], (double)a[i] - b[i], 1e-7);
            (*s)->mul(y, a, b, n);
            for (size_t i = 0; i < n; i++)
                near("mul", set, i, y[i], (double)a[i] * b[i], 1e-7);
            if (n)
                memcpy(y, was, n * 4);
            (*s)->axpby(y, 0.7f, a, -1.3f, n);
            for (size_t i = 0; i < n; i++)
                near("axpby", set, i, y[i], 0.7f * (double)a[i] - 1.3f * (double)was[i], 2e-7);
            for (size_t i = 0; i < n; i++)
                y[i] = NAN;
            (*s)->axpby(y, 2, a, 0, n);
            for (size_t i = 0; i < n; i++)
                near("axpby over NaN", set, i, y[i], 2.0 * a[i], 0);
            if (n)
                memcpy(y, was, n * 4);
            (*s)->muladd(y, a, b, n);
            for (size_t i = 0; i < n; i++) {
                near("muladd", set, i, y[i], was[i] + (double)a[i] * b[i], 2e-7);
                sum += a[i];
                sumsq += (double)a[i] * a[i];
                dot += (double)a[i] * b[i];
                size += fabs((double)a[i]);
            }
            near("sum", set, n, (*s)->sum(a, n), sum, 2e-7 * size);
            near("sumsq", set, n, (*s)->sumsq(a, n), sumsq, 2e-7 * size);
            near("dot", set, n, (*s)->dot(a, b, n), dot, 2e-7 * size);
            free(a), free(b), free(y), free(was);
        }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_exp(double x) { return exp(x); }
static double ref_silu(double x) { return x * sigmoid(x); }
static double ref_silu_slope(double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }
static double ref_gelu(double x)
{
    return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
static double ref_gelu_slope(double x)
{
    double u = 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    double du = 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return sigmoid(u) + x * sigmoid(u) * sigmoid(-u) * du;
}
static double ref_erf(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double ref_erf_slope(double x)
{
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}
static double ref_quick(double x) { return x * sigmoid(1.702 * x); }
static double ref_quick_slope(double x)
{
    return sigmoid(1.702 * x) * (1 + 1.702 * x * sigmoid(-1.702 * x));
}
static double ref_sigmoid_slope(double x) { return sigmoid(x) * sigmoid(-x); }
static double ref_relu(double x) { return fmax(x, 0); }
static double ref_relu_slope(double x) { return x > 0; }
static double ref_sin_squared(double x) { return sin(x) * sin(x); }
static double ref_sin_squared_slope(double x) { return sin(2 * x); }
static double ref_tanh_slope(double x) { return 4 * sigmoid(2 * x) * sigmoid(-2 * x); }

/* A function at equally spaced points of from..to. An error may be relative * |value| + absolute.
 * The relative bounds are twice the measured errors; slopes cross zero, where only an absolute
 * bound has a meaning. */
typedef struct curve {
    const char *name;
    size_t unary, grad;                       /* offsets in cpu_rows; unused ones 0 */
    double (*ref)(double);
    double from, to, relative, absolute;
} curve;
#define AT(field) offsetof(cpu_rows, field)
static const curve curves[] = {
    { "exp", AT(exp), 0, ref_exp, -87, 88.7, 2.0e-7, 0 },
    { "exp, denormal", AT(exp), 0, ref_exp, -103, -87, 0, 1.5e-45 },
    { "silu", AT(silu), 0, ref_silu, -80, 80, 5e-7, 0 },
    { "silu'", 0, AT(silu_grad), ref_silu_slope, -80, 80, 5e-7, 1e-7 },
    { "gelu", AT(gelu_tanh), 0, ref_gelu, -3, 60, 1e-6, 0 },
    { "gelu, tail", AT(gelu_tanh), 0, ref_gelu, -60, -3, 1e-5, 1e-30 },
    { "gelu'", 0, AT(gelu_tanh_grad), ref_gelu_slope, -60, 60, 5e-7, 3e-7 },
    { "gelu erf", AT(gelu_erf), 0, ref_erf, -12, 60, 1e-6, 0 },
    { "gelu erf'", 0, AT(gelu_erf_grad), ref_erf_slope, -60, 60, 5e-7, 3e-7 },
    { "quick gelu", AT(quick_gelu), 0, ref_quick, -9, 60, 2e-6, 0 },
    { "quick gelu'", 0, AT(quick_gelu_grad), ref_quick_slope, -60, 60, 5e-7, 3e-7 },
    { "sigmoid", AT(sigmoid), 0, sigmoid, -80, 80, 5e-7, 0 },
    { "sigmoid'", 0, AT(sigmoid_grad), ref_sigmoid_slope, -80, 80, 5e-7, 0 },
    { "tanh", AT(tanh), 0, tanh, -10, 10, 3e-7, 0 },
    { "tanh, near 0", AT(tanh), 0, tanh, -0.7, 0.7, 3e-7, 0 },
    { "tanh'", 0, AT(tanh_grad), ref_tanh_slope, -40, 40, 1e-6, 0 },
    { "relu", AT(relu), 0, ref_relu, -40, 40, 0, 0 },
    { "relu'", 0, AT(relu_grad), ref_relu_slope, -40, 40, 0, 0 },
    { "sin^2", AT(sin_squared), 0, ref_sin_squared, -7, 7, 0, 3e-7 },
    { "sin^2, far", AT(sin_squared), 0, ref_sin_squared, -5e3, 5e3, 0, 1e-6 },
    { "sin^2'", 0, AT(sin_squared_grad), ref_sin_squared_slope, -300, 300, 0, 1e-6 },
};

static void check_curve(const cpu_rows *r, const curve *c)
{
    enum { N = 20001 };
    float x[N], one[N], y[N];

    for (int i = 0; i < N; i++) {
        x[i] = (float)(c->from + (c->to - c->from) * i / (N - 1));
        one[i] = 1;
    }
    if (c->unary) {
        void (*f)(float *, const float *, size_t);
        memcpy(&f, (const char *)r + c->unary, sizeof f);
        f(y, x, N);
    } else {
        void (*f)(float *, const float *, const float *, size_t);
        memcpy(&f, (const char *)r + c->grad, sizeof f);
        f(y, one, x, N);
    }
    for (int i = 0; i < N; i++) {
        double want = c->ref(x[i]);
        if (!(fabs(y[i] - want) <= c->relative * fabs(want) + c->absolute))
            fail_msg("%s: %s(%.9g) is %.9g, not %.9g: off by %.2g", r->name, c->name, x[i], y[i],
                     want, fabs(y[i] / want - 1));
    }
}

TEST(activations)
{
    (void)state;
    EACH_ROWS(s)
        for (size_t i = 0; i < COUNT(curves); i++)
            check_curve(*s, &curves[i]);
}

TEST(activations_at_the_ends)
{
    static const float x[] = { -INFINITY, -1e30f, -200, 0, -0.0f, 200, 1e30f, INFINITY, NAN };
    enum { N = COUNT(x) };
    float y[N], one[N];
    (void)state;
    for (int i = 0; i < N; i++)
        one[i] = 1;
    EACH_ROWS(s) {
        (*s)->exp(y, x, N);
        assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1 && y[4] == 1);
        assert_true(isinf(y[5]) && isinf(y[6]) && isinf(y[7]) && isnan(y[8]));
        void (*const f[])(float *, const float *, size_t) = { (*s)->silu, (*s)->gelu_tanh,
                                                              (*s)->gelu_erf, (*s)->quick_gelu };
        for (size_t k = 0; k < COUNT(f); k++) {
            f[k](y, x, N);
            assert_true(fabsf(y[1]) < 1e-30f && fabsf(y[2]) < 1e-30f && y[3] == 0 && y[4] == 0);
            assert_true(y[5] == 200 && y[6] == 1e30f && isnan(y[8]));
        }
        void (*const g[])(float *, const float *, const float *, size_t) = {
            (*s)->silu_grad, (*s)->gelu_tanh_grad, (*s)->gelu_erf_grad, (*s)->quick_gelu_grad };
        for (size_t k = 0; k < COUNT(g); k++) {
            g[k](y, one, x, N);
            assert_true(fabsf(y[1]) < 1e-30f && fabsf(y[2]) < 1e-30f && y[3] == 0.5f);
            assert_true(y[5] == 1 && y[6] == 1 && isnan(y[8]));
        }
        (*s)->sigmoid(y, x, N);
        assert_true(y[0] == 0 && y[1] == 0 && y[3] == 0.5f && y[5] == 1 && y[7] == 1);
        assert_true(isnan(y[8]));
        (*s)->tanh(y, x, N);
        assert_true(y[0] == -1 && y[1] == -1 && y[3] == 0 && y[4] == 0 && y[7] == 1);
        assert_true(isnan(y[8]));
    }
}

/* ---- norms ---- */

typedef struct norm_case { size_t n; bool rms, w, b, scale, shift; } norm_case;
static const norm_case norms[] = {
    { 1, false, true, true, true, true }, { 3, true, true, false, false, false },
    { 7, false, false, false, false, false }, { 17, false, true, true, false, false },
    { 64, true, true, false, false, false }, { 65, false, false, false, true, true },
    { 1000, false, true, true, true, true }, { 5000, true, true, false, true, true },
};

/* y = ((x - mean) rstd w + b)(1 + scale) + shift at element i, in f64 */
static double ref_norm(const norm_case *c, const double st[2], double x, double w, double b,
                       double scale, double shift)
{
    double v = (x - st[0]) * st[1];
    v = (c->w ? v * w : v) + (c->b ? b : 0);
    return v * (1 + (c->scale ? scale : 0)) + (c->shift ? shift : 0);
}

static void check_norm(const cpu_rows *r, const norm_case *c)
{
    enum { X, W, B, SCALE, SHIFT, DY, Y, DX, DW, DB, DSHIFT, DSCALE, ALL };
    kd_rng rng = { 3 };
    size_t n = c->n;
    float *p[ALL], st[2];
    for (int i = 0; i < ALL; i++)
        p[i] = span(&rng, n, 1);
    for (size_t i = 0; i < n; i++)
        p[X][i] = p[X][i] * 2 + 1;
    for (int i = DW; i < ALL; i++)
        for (size_t k = 0; k < n; k++)
            p[i][k] = 1;                      /* gradients are added to 1 */

    double mean = 0, var = 0, ref[2];
    for (size_t i = 0; i < n; i++)
        mean += p[X][i] / (double)n;
    if (c->rms)
        mean = 0;
    for (size_t i = 0; i < n; i++)
        var += (p[X][i] - mean) * (p[X][i] - mean) / (double)n;
    ref[0] = mean;
    ref[1] = 1 / sqrt(var + 1e-3);
    (c->rms ? r->rms_stats : r->layer_stats)(st, p[X], n, 1e-3f);
    near("mean", r->name, n, st[0], mean, 3e-7);
    near("rstd", r->name, n, st[1], ref[1], 1e-5 * ref[1]);

    const float *w = c->w ? p[W] : NULL, *b = c->b ? p[B] : NULL;
    const float *scale = c->scale ? p[SCALE] : NULL, *shift = c->shift ? p[SHIFT] : NULL;
    double mg = 0, mgx = 0;
    r->norm(p[Y], p[X], st, w, b, shift, scale, n);
    for (size_t i = 0; i < n; i++) {
        near("norm", r->name, i, p[Y][i],
             ref_norm(c, ref, p[X][i], p[W][i], p[B][i], p[SCALE][i], p[SHIFT][i]), 2e-4);
        double g = p[DY][i] * (1 + (c->scale ? p[SCALE][i] : 0)) * (c->w ? p[W][i] : 1);
        mg += g / (double)n;
        mgx += g * (p[X][i] - ref[0]) * ref[1] / (double)n;
    }
    r->norm_grad(p[DX], p[DW], p[DB], p[DSHIFT], p[DSCALE], p[DY], p[X], st, w, b, scale, n,
                 c->rms);
    for (size_t i = 0; i < n; i++) {
        double xhat = (p[X][i] - ref[0]) * ref[1],
               ds = p[DY][i] * (1 + (c->scale ? p[SCALE][i] : 0));
        double wi = c->w ? p[W][i] : 1, bi = c->b ? p[B][i] : 0;
        near("dx", r->name, i, p[DX][i], ref[1] * (ds * wi - (c->rms ? 0 : mg) - xhat * mgx),
             1e-4 * (1 + ref[1]));
        near("dw", r->name, i, p[DW][i], 1 + ds * xhat, 1e-4);
        near("db", r->name, i, p[DB][i], 1 + ds, 1e-6);
        near("dshift", r->name, i, p[DSHIFT][i], 1 + p[DY][i], 1e-6);
        near("dscale", r->name, i, p[DSCALE][i], 1 + p[DY][i] * (xhat * wi + bi), 1e-4);
    }
    r->norm_grad(NULL, NULL, NULL, NULL, NULL, p[DY], p[X], st, w, b, scale, n, c->rms);
    for (int i = 0; i < ALL; i++)
        free(p[i]);
}

TEST(norms_and_gradients)
{
    (void)state;
    EACH_ROWS(s)
        for (size_t i = 0; i < COUNT(norms); i++)
            check_norm(*s, &norms[i]);
}

TEST(moments_of_columns)
{
    kd_rng r = { 5 };
    (void)state;
    EACH_ROWS(s)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            enum { ROWS = 5 };
            size_t n = sizes[k];
            float *x = span(&r, n * ROWS, 1), *at = span(&r, n, 1), *sum = span(&r, n, 1),
                  *square = span(&r, n, 1);
            for (size_t i = 0; i < n; i++) {
                x[i] += 3;
                sum[i] = 1;                    /* sums are added to 1 */
                square[i] = 2;
            }
            (*s)->moments(sum, square, x, at, ROWS, n);
            for (size_t i = 0; i < n; i++) {
                double m = 1, q = 2;
                for (size_t j = 0; j < ROWS; j++) {
                    double d = (double)x[j * n + i] - at[i];
                    m += d;
                    q += d * d;
                }
                near("sum", (*s)->name, i, sum[i], m, 3e-6);
                near("sum of squares", (*s)->name, i, square[i], q, 2e-5);
            }
            free(x), free(at), free(sum), free(square);
        }
}

/* ---- rope, AdamW, names of sets ---- */

TEST(rope_rotates_pairs)
{
    kd_rng r = { 4 };
    (void)state;
    EACH_ROWS(s)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            size_t n = sizes[k];
            float *x = span(&r, 2 * n, 1), *c = span(&r, n, 1), *sn = span(&r, n, 1),
                  *y = span(&r, 2 * n, 1);
            for (float sign = 1; sign >= -1; sign -= 2) {
                (*s)->rope(y, x, c, sn, sign, n);
                for (size_t i = 0; i < n; i++) {
                    double a = x[2 * i], b = x[2 * i + 1];
                    near("rope a", (*s)->name, i, y[2 * i], a * c[i] - b * sn[i] * sign, 3e-7);
                    near("rope b", (*s)->name, i, y[2 * i + 1], b * c[i] + a * sn[i] * sign, 3e-7);
                }
            }
            (*s)->rope(x, x, c, sn, -1, n);  /* in place, backwards */
            assert_memory_equal(x, y, n * 8);
            free(x), free(c), free(sn), free(y);
        }
}

TEST(adamw_step)
{
    const vt_update_args a = { .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-6f,
                              .weight_decay = 0.1f, .grad_scale = 0.5f, .correct1 = 0.19f,
                              .correct2 = 0.141f };
    kd_rng r = { 5 };
    (void)state;
    EACH_ROWS(s)
        for (size_t k = 0; k < COUNT(sizes); k++) {
            size_t n = sizes[k];
            float *w = span(&r, n, 1), *m = span(&r, n, 1), *v = span(&r, n, 1),
                  *g = span(&r, n, 1);
            float *w0 = span(&r, n, 1), *m0 = span(&r, n, 1), *v0 = span(&r, n, 1);
            for (size_t i = 0; i < n; i++) {
                v[i] = v0[i] = v[i] * v[i];
                w0[i] = w[i];
                m0[i] = m[i];
            }
            const vf_step step = vt_step_factors(&a);
            (*s)->adamw(w, (float *[]){ m, v }, g, n, &step);
            for (size_t i = 0; i < n; i++) {
                double gi = (double)g[i] * a.grad_scale;
                double mi = a.beta1 * (double)m0[i] + (1 - (double)a.beta1) * gi;
                double vi = a.beta2 * (double)v0[i] + (1 - (double)a.beta2) * gi * gi;
                double wi = w0[i] * (1 - (double)a.lr * a.weight_decay) -
                            a.lr * (mi / a.correct1) / (sqrt(vi) / a.correct2 + a.eps);
                near("m", (*s)->name, i, m[i], mi, 1e-6);
                near("v", (*s)->name, i, v[i], vi, 1e-6);
                near("w", (*s)->name, i, w[i], wi, 3e-6);
            }
            free(w), free(m), free(v), free(g), free(w0), free(m0), free(v0);
        }
}

/* The set that a processor with these features gets unless another is forced. */
TEST(best_sets)
{
    static const struct { cpu_isa isa; const char *set; } rows[] = {
        { { .avx2 = false }, "plain" },
        { { .avx2 = true }, "avx2" },
        { { .avx2 = true, .slow_bf16 = true }, "avx2" },
        { { .avx2 = true, .avx512 = true }, "avx512" },
        { { .avx2 = true, .avx512 = true, .avx512_bf16 = true }, "avx512_bf16" },
        { { .avx2 = true, .avx512 = true, .avx512_bf16 = true, .slow_bf16 = true }, "avx512" },
        { { .avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true }, "amx" },
        { { .avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true,
            .slow_bf16 = true }, "amx" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        cpu_isa isa = rows[i].isa;
        assert_int_equal(cpu_isa_choose(&isa, NULL, NULL), 0);
        assert_string_equal(isa.set, rows[i].set);
        assert_int_equal(isa.avx512_bf16, !strcmp(isa.set, "avx512_bf16") || isa.amx_bf16);
    }
    cpu_isa isa = rows[COUNT(rows) - 1].isa;
    assert_int_equal(cpu_isa_choose(&isa, "avx512_bf16", NULL), 0);
    assert_true(isa.avx512_bf16 && !isa.amx_bf16);
}

TEST(forced_sets)
{
    cpu_isa isa;
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(cpu_isa_open(&isa, "plain", &err), 0);
    assert_string_equal(isa.set, "plain");
    assert_false(isa.avx2 || isa.avx512 || isa.amx_bf16);
    assert_fails(cpu_isa_open(&isa, "sse9", &err), VC_EINVAL, &err, "\"sse9\"");
    assert_says(&err, "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_every_code), cmocka_unit_test(store_rounds_as_dtype),
        cmocka_unit_test(load_store_sizes), cmocka_unit_test(arithmetic),
        cmocka_unit_test(activations), cmocka_unit_test(activations_at_the_ends),
        cmocka_unit_test(norms_and_gradients), cmocka_unit_test(moments_of_columns),
        cmocka_unit_test(rope_rotates_pairs),
        cmocka_unit_test(adamw_step), cmocka_unit_test(best_sets),
        cmocka_unit_test(forced_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
