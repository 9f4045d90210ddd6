/* test_adamw.c - AdamW in f32 against f64, with bf16 weights, and with an eight-bit state. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/kernels/moments.h"
#include "common/tensor/backend.h"
#include "common/tensor/optimizer.h"
#include "tests/tensor/engine_model.h"

enum { N = 20000 };                            /* not a multiple of any block */

/* One trained parameter "w" of N values and its state. */
#define STEP(rate_, beta1_, beta2_, eps_, decay_, scale_, step_, seed_)                            \
    (vt_opt_step){ .lr = rate_, .beta1 = beta1_, .beta2 = beta2_, .eps = eps_,                     \
                   .weight_decay = decay_, .grad_scale = scale_, .step = step_, .seed = seed_ }

typedef struct one {
    vt_ctx *g;
    vt_params *p;
    struct { vt_tensor *w; } model;
    vt_opt_state s;
} one;

static void one_open(one *o, vt_optimizer kind, int threads)
{
    static const vt_weight table[] = { { "w", VT_W_TENSOR, 0, { N }, VT_INIT_NORMAL }, { 0 } };

    o->g = em_context_of(VC_F32, threads, 64 << 20);
    assert_int_equal(vt_params_open(&o->p, o->g, NULL), 0);
    assert_int_equal(vt_params_bind(o->p, table, "", 0, &o->model, NULL, &(vt_source){ .seed = 3 },
                                    NULL), 0);
    assert_int_equal(vt_params_train(o->p, NULL, NULL, NULL), 0);
    assert_int_equal(vt_opt_open(&o->s, o->p, kind, NULL, NULL), 0);
}

static void one_close(one *o)
{
    vt_opt_close(&o->s, o->p);
    vt_params_close(o->p);
    vt_close(o->g);
}

/* Returns the gradient's memory, for the test to fill. */
static float *one_grad(one *o)
{
    o->model.w->grad->buf->empty = false;
    return o->model.w->grad->data;
}

static void one_values(one *o, float *w)
{
    assert_int_equal(vt_to_host(o->g, o->model.w, w, NULL), 0);
}

/* ---- f32 ---- */

static void test_f32(void **state)
{
    static double w[N], m[N], v[N];
    static float start[N];
    one o;

    (void)state;
    one_open(&o, VT_ADAMW, 2);
    assert_int_equal(vt_opt_bytes(&o.s), 8 * N);
    one_values(&o, start);
    for (int i = 0; i < N; i++)
        w[i] = (double)start[i];
    for (int step = 1; step <= 10; step++) {
        vt_opt_step a = STEP(1e-3, 0.9, 0.99, 1e-8, 0.1, 0.5, step, 0);
        float *d = one_grad(&o);
        double sum = 0;
        for (int i = 0; i < N; i++) {
            d[i] = sinf((float)(i * step));
            sum += (double)d[i] * (double)d[i];
            double e = 0.5 * (double)d[i];
            w[i] -= a.lr * a.weight_decay * w[i];
            m[i] = a.beta1 * m[i] + (1 - a.beta1) * e;
            v[i] = a.beta2 * v[i] + (1 - a.beta2) * e * e;
            w[i] -= a.lr * (m[i] / (1 - pow(a.beta1, step))) /
                    (sqrt(v[i] / (1 - pow(a.beta2, step))) + a.eps);
        }
        assert_true(fabs(vt_params_grad_norm(o.p) - sqrt(sum)) < 1e-6 * sqrt(sum));
        vt_opt_apply(o.p, &o.s, &a);
    }
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)((float *)o.model.w->data)[i] - w[i]) < 2e-7);
    vt_params_zero_grad(o.p);
    assert_true(vt_params_grad_norm(o.p) == 0);               /* an empty gradient is zero */
    one_close(&o);
}

/* ---- bf16 ---- */

/* Runs steps of `kind` on N values 1 with equal gradients and returns the mean of the values. *want
 * is the f64 result. */
static double mean_of_equals(vt_optimizer kind, int steps, double lr, uint64_t seed, double *want)
{
    one o;
    static float w[N];
    double sum = 0, m = 0, v = 0, x = 1;

    one_open(&o, kind, 1);
    for (int i = 0; i < N; i++)
        w[i] = 1;
    vc_from_f32(o.model.w->data, o.model.w->dtype, w, N);
    for (int step = 1; step <= steps; step++) {
        vt_opt_step a = STEP(lr, 0.9, 0.95, 1e-8, 0.01, 1, step, seed);
        float *d = one_grad(&o), e = 1 + 0.5f * sinf((float)step);
        for (int i = 0; i < N; i++)
            d[i] = e;
        vt_opt_apply(o.p, &o.s, &a);
        m = 0.9 * m + 0.1 * (double)e;
        v = 0.95 * v + 0.05 * (double)e * (double)e;
        x -= lr * 0.01 * x;
        x -= lr * (m / (1 - pow(0.9, step))) / (sqrt(v / (1 - pow(0.95, step))) + 1e-8);
    }
    one_values(&o, w);
    for (int i = 0; i < N; i++)
        sum += (double)w[i];
    one_close(&o);
    *want = x;
    return sum / N;
}

/* An update of 1e-4 is a 40th of bf16's step below 1: with rounding to nearest a weight would never
 * change. Rounding up with probability p has the variance p (1 - p) step^2, which gives the
 * standard deviation of the mean of N values. */
static void test_no_bias(void **state)
{
    static const struct { int steps; double lr; } rows[] = {
        { 1, 1e-4 }, { 1, 3e-3 }, { 100, 1e-4 }, { 400, 1e-5 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            double want, have = mean_of_equals(VT_ADAMW_BF16, rows[i].steps, rows[i].lr, seed,
                                               &want);
            double p = rows[i].lr * 256, sigma = sqrt(rows[i].steps * p * (1 - p) / N) / 256;
            if (fabs(have - want) > 4 * sigma)
                fail_msg("%d steps of %g: mean %.7f, %.7f was expected", rows[i].steps, rows[i].lr,
                         have, want);
        }
}

/* A value is rounded to one of its neighbours; the probability of the upper one is the value's
 * relative distance from the lower one. */
static void test_rounding(void **state)
{
    static const float x[] = { 1.001f, -1.001f, 3e-5f, -7.77f, 1e30f, 1.00390625f };
    const vk_draws d = { { 1, 2 }, 3, 4, 0 };

    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        enum { PACKS = 4000 };
        float low = vk_float(vk_bits(x[i]) & 0xffff0000u);
        float high = vk_float((vk_bits(x[i]) & 0xffff0000u) + 0x10000u);
        double sum = 0, part = ((double)x[i] - (double)low) / ((double)high - (double)low);
        for (uint64_t pack = 0; pack < PACKS; pack++) {
            vk_f8 v;
            uint16_t out[8];
            for (int j = 0; j < 8; j++)
                v.v[j] = x[i];
            vk_store8_randomly((char *)out, 8, v, &d, pack, VK_ROUND_W);
            for (int j = 0; j < 8; j++) {
                float y = vk_from_bf16(out[j]);
                assert_true(y == low || (y == high && part > 0));
                sum += y == high;
            }
        }
        double sigma = sqrt(part * (1 - part) / (8 * PACKS)) + 1e-9;
        assert_true(fabs(sum / (8 * PACKS) - part) < 4.5 * sigma);
    }
    assert_true(vk_to_bf16_randomly(INFINITY, 0xffff) == 0x7f80);
    assert_true(isnan(vk_from_bf16(vk_to_bf16_randomly(NAN, 0xffff))));
}

/* The random draws do not depend on the number of threads; another seed gives other weights, and an
 * update below the precision of f32 changes none. */
static void test_bf16_bits(void **state)
{
    static float w[4][N];

    (void)state;
    for (int k = 0; k < 4; k++) {
        one o;
        one_open(&o, VT_ADAMW_BF16, k == 1 ? 3 : 1);
        assert_int_equal(o.model.w->dtype, VC_BF16);
        assert_int_equal(vt_opt_bytes(&o.s), 4 * N);
        float *d = one_grad(&o);
        for (int i = 0; i < N; i++)
            d[i] = sinf((float)i);
        vt_opt_apply(o.p, &o.s, &STEP(1e-3, 0.9, 0.99, 1e-8, 0.1, 0.5, 1, k == 2));
        if (k == 3)
            vt_opt_apply(o.p, &o.s, &STEP(1e-30, 0.9, 0.99, 1e-8, 0, 0.5, 2, 0));
        one_values(&o, w[k]);
        one_close(&o);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_true(memcmp(w[0], w[2], sizeof w[0]) != 0);
    assert_memory_equal(w[0], w[3], sizeof w[0]);             /* exact values are not rounded */
}

/* ---- parts ---- */

static vt_tensor part_of(const vt_tensor *x, int64_t from, int64_t n)
{
    vt_tensor y = *x;

    y.data = (char *)x->data + (size_t)from * vc_dtype_size(x->dtype);
    y.dim[0] = n;
    return y;
}

/* Updates the elements from..to-1 alone, like a rank that holds only them. */
static void update_part(one *o, int64_t from, int64_t to, const vt_opt_step *a)
{
    const vt_tensor *peaks = o->s.of[2][0];
    vt_tensor w = part_of(o->model.w, from, to - from), m = part_of(o->s.of[0][0], from, to - from),
              v = part_of(o->s.of[1][0], from, to - from), peak,
              grad = part_of(o->model.w->grad, from, to - from);

    if (peaks)
        peak = part_of(peaks, 2 * from / VT_OPT_BLOCK, (to - from + 255) / VT_OPT_BLOCK);
    vt_opt_apply_part(o->g, &(vt_opt_part){ o->s.how, "w", (uint64_t)from, &w,
                                            { &m, &v, peaks ? &peak : NULL }, &grad, NULL },
                      a, NULL);
}

/* A parameter that is cut between blocks and updated in any order has the same bits. */
static void test_parts(void **state)
{
    static const int64_t cut[][4] = { { 0, N }, { 0, 256, N }, { 0, 4096, 4352, N } };
    static float w[3][N], m[3][N];

    (void)state;
    for (int kind = VT_ADAMW; kind <= VT_ADAMW8BIT; kind++)
        for (int k = 0; k < 3; k++) {
            one o;
            one_open(&o, (vt_optimizer)kind, 1);
            for (int step = 1; step <= 3; step++) {
                const vt_opt_step a = STEP(1e-3, 0.9, 0.99, 1e-8, 0.1, 0.5, step, 7);
                float *d = one_grad(&o);
                for (int i = 0; i < N; i++)
                    d[i] = sinf((float)(i + step));
                if (k == 0)
                    vt_opt_apply(o.p, &o.s, &a);
                for (int i = k; k && i >= 0; i--)
                    update_part(&o, cut[k][i], cut[k][i + 1], &a);
            }
            one_values(&o, w[k]);
            memcpy(m[k], o.s.of[0][0]->data, N * vc_dtype_size(o.s.of[0][0]->dtype));
            one_close(&o);
            assert_memory_equal(w[k], w[0], sizeof w[0]);
            assert_memory_equal(m[k], m[0], sizeof m[0]);
        }
}

/* ---- eight bits ---- */

/* The map is built as by its authors: the midpoints of equal parts of each decade, then 0 and
 * 1, sorted. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void make_map(double map[256], bool has_sign)
{
    int n = 0;

    for (int i = 0; i < 7; i++) {
        int parts = has_sign ? 1 << i : 2 << i;
        for (int k = 0; k < parts; k++) {
            double x = pow(10, i - 6) * (0.1 + 0.9 * (k + 0.5) / parts);
            map[n++] = x;
            if (has_sign)
                map[n++] = -x;
        }
    }
    map[n++] = 0;
    map[n++] = 1;
    assert_int_equal(n, 256);
    qsort(map, 256, sizeof *map, by_value);
}

static double best(const double map[256], double x)
{
    double least = 9;

    for (int i = 0; i < 256; i++)
        least = fmin(least, fabs(map[i] - x));
    return least;
}

static void test_codes(void **state)
{
    double map[2][256];

    (void)state;
    make_map(map[0], true);
    make_map(map[1], false);
    for (int c = 0; c < 256; c++) {
        float m = vk_m_value((uint8_t)c), v = vk_v_value((uint8_t)c);
        assert_true(fabs((double)m - map[0][c]) <= 2e-7 * fabs(map[0][c]));
        assert_true(fabs((double)v - map[1][c]) <= 2e-7 * map[1][c]);
        assert_int_equal(vk_m_code(m), c);
        assert_int_equal(vk_v_code(v), c);
    }
    for (int i = 0; i <= 200000; i++) {
        double at = i / 200000.0, x = i % 2 ? at : pow(10, -8 * at);
        double near = fabs((double)vk_v_value(vk_v_code((float)x)) - x);
        if (x > 3.25e-7 && near > best(map[1], x) + 1e-6 * x)
            fail_msg("%g is stored with an error of %g; the least is %g", x, near, best(map[1], x));
        for (int sign = -1; sign <= 1; sign += 2) {
            double y = sign * x;
            near = fabs((double)vk_m_value(vk_m_code((float)y)) - y);
            if (y > -0.993 && near > best(map[0], y) + 1e-6 * x)
                fail_msg("%g is stored with an error of %g; the least is %g", y, near,
                         best(map[0], y));
        }
    }
    assert_int_equal(vk_m_code(0), 127);
    assert_int_equal(vk_v_code(0), 0);
    assert_int_equal(vk_v_code(1e-12f), 1);                   /* never 0: a divisor of the update */
}

/* Minimises the sum of c (w - t)^2 / 2, whose curvatures span two decades, with noise in the
 * gradient. Returns the loss; *distance is that between the first and the last weights. */
static double descend(vt_optimizer kind, float *w, double *distance)
{
    static float t[N], c[N], start[N];
    one o;
    double loss = 0;

    one_open(&o, kind, 2);
    one_values(&o, start);
    for (int i = 0; i < N; i++) {
        t[i] = cosf((float)(3 * i));
        c[i] = powf(10, -1 + 2 * (float)(i % 97) / 96);
    }
    for (int step = 1; step <= 200; step++) {
        float *d = one_grad(&o);
        one_values(&o, w);
        for (int i = 0; i < N; i++)
            d[i] = c[i] * (w[i] - t[i] + 0.3f * sinf((float)(i * 7 + step * 13)));
        vt_opt_apply(o.p, &o.s, &STEP(1e-2, 0.9, 0.99, 1e-8, 1e-3, 1, step, 7));
    }
    one_values(&o, w);
    one_close(&o);
    *distance = 0;
    for (int i = 0; i < N; i++) {
        loss += (double)c[i] * pow((double)(w[i] - t[i]), 2) / 2;
        *distance += pow((double)(w[i] - start[i]), 2);
    }
    *distance = sqrt(*distance);
    return loss;
}

/* The cost of the smaller states: after 200 steps, in which f32 divides the loss by 10,000, the
 * weights differ from f32's by one or two hundredths of the distance from their start, and the loss
 * is at most 2.5 times as large. In bf16 half of this is the rounding of the weights. */
static void test_descent(void **state)
{
    static float w[3][N];
    double loss[3], distance[3];
    static const double apart[] = { 0, 0.02, 0.01 }, more[] = { 1, 2.5, 1.5 };

    (void)state;
    for (int kind = VT_ADAMW; kind <= VT_ADAMW8BIT; kind++) {
        loss[kind] = descend((vt_optimizer)kind, w[kind], &distance[kind]);
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += pow((double)(w[kind][i] - w[0][i]), 2);
        if (sqrt(sum) > apart[kind] * distance[0] || loss[kind] > more[kind] * loss[0])
            fail_msg("kind %d: weights differ by %.4f of the distance; loss %g, f32 %g", kind,
                     sqrt(sum) / distance[0], loss[kind], loss[0]);
    }
}

/* The eight-bit state has the right size, and any number of threads gives the same bits. */
static void test_8bit_bits(void **state)
{
    static float w[2][N];

    (void)state;
    for (int k = 0; k < 2; k++) {
        one o;
        one_open(&o, VT_ADAMW8BIT, k ? 3 : 1);
        assert_int_equal(vt_opt_bytes(&o.s), 2 * N + (N + 255) / 256 * 8);
        for (int step = 1; step <= 3; step++) {
            float *d = one_grad(&o);
            for (int i = 0; i < N; i++)
                d[i] = i < 600 ? 0 : sinf((float)(i * step));     /* some blocks are zeros */
            vt_opt_apply(o.p, &o.s, &STEP(1e-3, 0.9, 0.99, 1e-8, 0.1, 0.5, step, 0));
        }
        one_values(&o, w[k]);
        for (int i = 0; i < N; i++)
            assert_true(isfinite(w[k][i]));
        one_close(&o);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
}

/* ---- missing gradients ---- */

/* A parameter that no backward reaches keeps its values and moments, whatever the decay, as in
 * PyTorch where grad is None; a gradient of zeros decays it. */
static void test_unreached(void **state)
{
    static float before[N], after[N], m[N];

    (void)state;
    for (int kind = VT_ADAMW; kind <= VT_ADAMW8BIT; kind++) {
        const vt_opt_step a = STEP(1e-2, 0.9, 0.99, 1e-8, 0.5, 1, 1, 7);
        one o;
        one_open(&o, (vt_optimizer)kind, 1);
        vt_params_zero_grad(o.p);
        one_values(&o, before);
        assert_true(vt_params_grad_norm(o.p) == 0);
        assert_false(vt_param_reached(vt_params_at(o.p, 0)));
        vt_opt_apply(o.p, &o.s, &a);
        one_values(&o, after);
        assert_memory_equal(before, after, sizeof before);
        assert_int_equal(vt_to_host(o.g, o.s.of[0][0], m, NULL), 0);
        for (int i = 0; i < N; i++)
            assert_true(m[i] == m[0]);
        vt_params_zero_grad(o.p);
        memset(one_grad(&o), 0, N * sizeof(float));
        assert_true(vt_param_reached(vt_params_at(o.p, 0)));
        vt_opt_apply(o.p, &o.s, &a);
        one_values(&o, after);
        assert_true(fabsf(after[7]) < fabsf(before[7]));
        one_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),       cmocka_unit_test(test_no_bias),
        cmocka_unit_test(test_rounding),  cmocka_unit_test(test_bf16_bits),
        cmocka_unit_test(test_codes),     cmocka_unit_test(test_descent),
        cmocka_unit_test(test_8bit_bits), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_unreached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
