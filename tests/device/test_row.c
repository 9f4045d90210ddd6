/* test_row.c - the kernels of common/kernels, compiled for the CPU, are compared entry by entry
 * with the CPU backend and with common/base/dtype.h and rng.h, at odd sizes and strides that ops
 * rarely have. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/kernels/kernels.h"
#include "common/tensor/ttt.h"
#include "common/tensor/optimizer.h"
#include "tests/device/device_host.h"
#include "tests/lib/ok.h"

static bool same_bits(float a, float b)
{
    return (isnan(a) && isnan(b)) || vk_bits(a) == vk_bits(b);
}

/* Every bf16, f16 and fp8 value is converted both ways. */
static void test_types(void **state)
{
    (void)state;
    for (vc_dtype t = VC_BF16; t <= VC_F8E5M2; t++)
        for (uint32_t b = 0; b < (vc_dtype_size(t) == 1 ? 256u : 65536u); b++) {
            uint32_t back = 0, want = 0;
            float x, y;
            vc_to_f32(&x, &b, t, 1);
            y = vk_get((const char *)&b, (int)t, 0);
            if (!same_bits(x, y))
                fail_msg("%s %x: %a, not %a", vc_dtype_name(t), b, (double)y, (double)x);
            vk_put((char *)&back, (int)t, 0, x);
            vc_from_f32(&want, t, &x, 1);
            if (back != want && !isnan(x))
                fail_msg("%s %x is converted back to %x", vc_dtype_name(t), b, back);
        }
}

/* Numbers between representable ones, at ties, and beyond the range are rounded. */
static void test_rounding(void **state)
{
    (void)state;
    for (vc_dtype t = VC_BF16; t <= VC_F8E5M2; t++)
        for (uint64_t u = 0; u < 1ull << 32; u += 104729) {
            float x = vk_float((uint32_t)u ^ ((uint32_t)u >> 3 & 0xfff));
            uint32_t have = 0, want = 0;
            vk_put((char *)&have, (int)t, 0, x);
            vc_from_f32(&want, t, &x, 1);
            if (have != want && !isnan(x))
                fail_msg("%s of %a: %x, not %x", vc_dtype_name(t), (double)x, have, want);
        }
}

static void test_philox(void **state)
{
    static const uint32_t known[4] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
    uint32_t c[4] = { 0 };

    (void)state;
    vk_philox(0, 0, c);
    assert_memory_equal(c, known, sizeof c);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t w[4], z[4] = { i, 7 * i, ~i, 68 };
        float have[4], want[4];
        vc_train_block(0x123456789abcdefull, z[0], z[1], z[2], z[3], w);
        vk_philox(0x89abcdef, 0x1234567, z);
        assert_memory_equal(z, w, sizeof w);
        vk_normal4(z, have);
        vc_normal4(w, want);
        assert_memory_equal(have, want, sizeof want);
    }
}

/* ---- entries against the CPU backend ---- */

typedef struct pair {
    vt_dev *host, *cpu;
} pair;

static int open_pair(void **state)
{
    static pair p;
    vt_options o = { .threads = 1, .kernels = "plain", .compute = VC_F32 };

    *state = &p;
    return host_backend.open(&p.host, &o, 0, NULL) || vt_cpu.open(&p.cpu, &o, 0, NULL);
}

static int close_pair(void **state)
{
    pair *p = *state;

    host_backend.close(p->host);
    vt_cpu.close(p->cpu);
    return 0;
}

/* A tensor with its own memory. */
typedef struct own {
    vt_tensor t;
    vt_buf buf;
    size_t bytes;
} own;

/* Makes a tensor with values of draw `row`; strides are in elements, and NULL means packed. */
static own *make(vc_dtype type, int nd, const int64_t *dim, const int64_t *stride, uint32_t row)
{
    own *x = calloc(1, sizeof *x);
    int64_t n = 1, packed = 1;

    assert_non_null(x);
    x->t = (vt_tensor){ .dtype = type, .nd = nd, .buf = &x->buf };
    for (int i = nd; i-- > 0; packed *= dim[i]) {
        x->t.dim[i] = dim[i];
        x->t.stride[i] = stride ? stride[i] : packed;
        n += (dim[i] - 1) * x->t.stride[i];
    }
    x->bytes = (size_t)n * vc_dtype_size(type);
    x->t.data = malloc(x->bytes);
    float *z = malloc((size_t)n * sizeof *z);
    assert_true(x->t.data && z);
    vc_train_normals(z, 0, (size_t)n, 3, row, 0, 99);
    vc_from_f32(x->t.data, type, z, (size_t)n);
    free(z);
    return x;
}

static void drop(own *x)
{
    free(x->t.data);
    free(x);
}

/* Compares all elements in memory, with those in gaps; tol is relative to the largest. */
static void compare(const char *name, const own *have, const own *want, double tol)
{
    size_t n = want->bytes / vc_dtype_size(want->t.dtype);
    double most = 1e-30;
    float a, b;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            size_t at = i * vc_dtype_size(want->t.dtype);
            vc_to_f32(&a, (const char *)have->t.data + at, want->t.dtype, 1);
            vc_to_f32(&b, (const char *)want->t.data + at, want->t.dtype, 1);
            most = pass == 0 && fabs((double)b) > most ? fabs((double)b) : most;
            if (pass == 1 && !(fabs((double)a - (double)b) <= tol * most))
                fail_msg("%s: element %zu is %.9g, should be %.9g", name, i, (double)a, (double)b);
        }
}

/* Maps of rows with gaps, sizes that fill no pack, and repeated rows; results are added too. */
static void test_maps(void **state)
{
    const pair *p = *state;
    const int64_t dim[] = { 3, 5, 13 }, gap[] = { 5 * 17, 17, 1 }, transposed[] = { 1, 3, 15 },
                  row[] = { 13, 0, 1 };

    for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
        double tol = type == VC_F32 ? 1e-6 : 8e-3; /* exp differs in its last bits */
        own *x = make(type, 3, dim, gap, 1), *h = make(type, 3, dim, transposed, 2);
        own *gate = make(VC_F32, 3, dim, row, 3);
        own *y[2] = { make(type, 3, dim, gap, 4), make(type, 3, dim, gap, 4) };
        for (int k = 0; k < 2; k++) {
            const vt_backend *be = k ? &vt_cpu : &host_backend;
            vt_dev *d = k ? p->cpu : p->host;
            y[k]->buf.empty = false;
            be->unary_grad(d, VT_GELU_ERF, &y[k]->t, &x->t, &h->t);
            be->scale(d, &y[k]->t, &gate->t, -0.25f);
        }
        compare("gelu_erf, scale", y[0], y[1], tol);
        for (int k = 0; k < 2; k++) {
            const vt_backend *be = k ? &vt_cpu : &host_backend;
            be->gated_add(k ? p->cpu : p->host, &y[k]->t, &x->t, &h->t, &gate->t);
        }
        compare("gated_add", y[0], y[1], tol);
        own *all[] = { x, h, gate, y[0], y[1] };
        for (int i = 0; i < 5; i++)
            drop(all[i]);
    }
}

/* Copies of i32, and of every type to every other. */
static void test_copies(void **state)
{
    const pair *p = *state;
    const int64_t dim[] = { 4, 9 }, transposed[] = { 1, 5 };

    for (vc_dtype from = VC_F32; from <= VC_F8E5M2; from++)
        for (vc_dtype to = VC_F32; to <= VC_F8E5M2; to++) {
            own *x = make(from, 2, dim, transposed, 1);
            own *y[2] = { make(to, 2, dim, NULL, 2), make(to, 2, dim, NULL, 2) };
            host_backend.copy(p->host, &y[0]->t, &x->t);
            vt_cpu.copy(p->cpu, &y[1]->t, &x->t);
            assert_memory_equal(y[0]->t.data, y[1]->t.data, y[1]->bytes);
            drop(x), drop(y[0]), drop(y[1]);
        }
    int32_t big[36], out[36];
    for (int i = 0; i < 36; i++)
        big[i] = INT32_MAX - i;                /* f32 would round this number */
    vt_tensor x = { .dtype = VC_I32, .nd = 2, .dim = { 4, 9 }, .stride = { 1, 4 }, .data = big };
    vt_tensor y = { .dtype = VC_I32, .nd = 2, .dim = { 4, 9 }, .stride = { 9, 1 }, .data = out };
    host_backend.copy(p->host, &y, &x);
    for (int i = 0; i < 36; i++)
        assert_int_equal(out[i], big[i / 9 + i % 9 * 4]);
    y.dtype = VC_F32;
    host_backend.copy(p->host, &y, &x);
    vc_err err = { 0 };
    assert_fails(host_backend.status(p->host, &err), VC_EINVAL, &err, "i32 has no arithmetic");
}

/* Long sums are computed in several parts; sizes leave remainders. */
static void test_sums(void **state)
{
    const pair *p = *state;
    const int64_t sizes[][3] = { { 1, 1, 1 }, { 3, 700, 33 }, { 2, 5, 4099 }, { 1, 9000, 8 },
                                 { 40, 3, 7 } };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *dim = sizes[i], one[3] = { 0 }, cols[] = { dim[2], 0, 1 },
                      rows[] = { dim[1], 1, 0 };
        own *x = make(VC_F32, 3, dim, NULL, 1), *w = make(VC_F32, 3, dim, NULL, 2);
        const int64_t *strides[] = { one, cols, rows };
        const vt_tensor *const both[] = { &x->t, &w->t };
        double a[2], b[2];
        host_backend.sumsq(p->host, a, both, 2);
        vt_cpu.sumsq(p->cpu, b, both, 2);
        for (int k = 0; k < 2; k++)
            assert_true(fabs(a[k] - b[k]) <= 1e-6 * b[k]);
        b[0] = vt_cpu.sum_magnitudes(p->cpu, &x->t);
        assert_true(fabs(host_backend.sum_magnitudes(p->host, &x->t) - b[0]) <= 1e-6 * b[0]);
        own *other = make(VC_F32, 3, dim, NULL, 6);
        a[0] = host_backend.sum_along(p->host, &x->t, &w->t, &other->t);
        b[0] = vt_cpu.sum_along(p->cpu, &x->t, &w->t, &other->t);
        assert_true(fabs(a[0] - b[0]) <= 1e-5 * sqrt((double)(dim[0] * dim[1] * dim[2])));
        drop(other);
        for (int k = 0; k < 3; k++) {
            own *y[2];
            for (int j = 0; j < 2; j++)
                y[j] = make(VC_F32, 3, dim, strides[k], 3);
            for (int add = 0; add < 2; add++) {
                y[0]->buf.empty = y[1]->buf.empty = !add;
                host_backend.reduce(p->host, &y[0]->t, &x->t, add ? &w->t : NULL, 0.5f);
                vt_cpu.reduce(p->cpu, &y[1]->t, &x->t, add ? &w->t : NULL, 0.5f);
                compare("reduce", y[0], y[1], 1e-5);
            }
            drop(y[0]), drop(y[1]);
        }
        drop(x), drop(w);
    }
}

/* A few codes near a tie may be rounded the other way: they differ by one. */
static void compare_codes(const char *name, const own *have, const own *want)
{
    size_t n = (size_t)vt_count(&have->t), other = 0;

    for (size_t i = 0; i < n; i++) {
        bool wide = have->t.dtype == VC_BF16;
        int a = wide ? ((uint16_t *)have->t.data)[i] : ((uint8_t *)have->t.data)[i];
        int b = wide ? ((uint16_t *)want->t.data)[i] : ((uint8_t *)want->t.data)[i];
        if (abs(a - b) > 1)
            fail_msg("%s: code %zu is %d, not %d", name, i, a, b);
        other += a != b;
    }
    if (other > n / 200)
        fail_msg("%s: %zu of %zu codes differ", name, other, n);
}

typedef struct adam { own *w, *m, *v, *peak, *ema, *grad, *rounded; } adam;

/* Returns the state after two steps; the first one begins without a state. */
static adam adam_run(const vt_backend *be, vt_dev *d, vt_optimizer kind, int64_t n)
{
    const vt_optimizer_row *row = &vt_optimizers[kind];
    const int64_t peaks[] = { (n + 255) / 256, 2 };
    vc_dtype type = row->value, moment = row->state[0].type;
    bool two = row->state[1].name && row->state[1].type == moment;   /* states; else one */
    adam x = { make(type, 1, &n, NULL, 1), make(moment, 1, &n, NULL, 2),
               make(moment, 1, &n, NULL, 3), make(VC_F32, 2, peaks, NULL, 5),
               make(VC_F32, 1, &n, NULL, 4), make(VC_F32, 1, &n, NULL, 9),
               make(VC_BF16, 1, &n, NULL, 6) };
    own *zero[] = { x.m, x.v, x.peak };

    for (int i = 0; i < 3; i++)
        memset(zero[i]->t.data, 0, zero[i]->bytes);
    if (type == VC_F32 && be == &host_backend)
        x.w->t.rounded = x.rounded->t.data;
    for (uint32_t step = 1; step <= 2; step++) {
        const vt_update_args a = { .rule = row->rule, .lr = 1e-2f, .beta1 = 0.9f,
                                  .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f,
                                  .grad_scale = 0.5f, .key = { 3, 4 },
                                  .correct1 = 0.1f * (float)step, .correct2 = 0.1f, .step = step,
                                  .first = 8 * VT_OPT_BLOCK };
        be->update(d, &x.w->t, (vt_tensor *[VF_STATES]){ &x.m->t, two ? &x.v->t : NULL },
                   moment == VC_U8 ? &x.peak->t : NULL, &x.grad->t, &a);
        for (int64_t i = 0; i < n; i++)
            ((float *)x.grad->t.data)[i] *= -0.75f;
    }
    be->ema(d, &x.ema->t, &x.w->t, 0.9f);
    return x;
}

static void adam_drop(adam *x)
{
    drop(x->w), drop(x->m), drop(x->v), drop(x->peak), drop(x->ema), drop(x->grad);
    drop(x->rounded);
}

static void test_adamw(void **state)
{
    const pair *p = *state;

    for (int kind = 0; kind < VT_OPTIMIZERS; kind++)
        for (int lanes = 1; lanes <= HOST_LANES && !vt_opt_whole((vt_optimizer)kind);
             lanes += HOST_LANES - 1) {
            host_lanes = lanes;
            adam a = adam_run(&host_backend, p->host, (vt_optimizer)kind, 2603),
                 b = adam_run(&vt_cpu, p->cpu, (vt_optimizer)kind, 2603);
            host_lanes = 1;
            vc_dtype moment = vt_optimizers[kind].state[0].type;
            if (moment == VC_F32) {
                compare("adamw: m", a.m, b.m, 1e-6);
                compare("adamw: v", a.v, b.v, 1e-6);
            } else {
                compare_codes("adamw: m", a.m, b.m);
                compare_codes("adamw: v", a.v, b.v);
            }
            if (moment == VC_U8)
                compare("adamw: peak", a.peak, b.peak, 1e-6);
            compare("adamw: w", a.w, b.w, kind == VT_ADAMW_BF16 ? 8e-3 : 1e-6);
            compare("ema", a.ema, b.ema, kind == VT_ADAMW_BF16 ? 1e-3 : 1e-6);
            if (a.w->t.rounded) {              /* those that a conversion of w gives */
                host_backend.copy(p->host, &b.rounded->t, &a.w->t);
                assert_memory_equal(a.rounded->t.data, b.rounded->t.data, b.rounded->bytes);
            }
            adam_drop(&a), adam_drop(&b);
        }
}

static void test_randn(void **state)
{
    const pair *p = *state;
    const int64_t dim[] = { 3, 1001 };
    own *y[2] = { make(VC_F32, 2, dim, NULL, 1), make(VC_F32, 2, dim, NULL, 2) };

    host_backend.randn(p->host, &y[0]->t, 0xfedcba9876543210ull, 5, 6, VC_DRAW_NOISE);
    vt_cpu.randn(p->cpu, &y[1]->t, 0xfedcba9876543210ull, 5, 6, VC_DRAW_NOISE);
    assert_memory_equal(y[0]->t.data, y[1]->t.data, y[1]->bytes);
    drop(y[0]), drop(y[1]);
}

/* The same elements are dropped, of all types, for rows of a length that is no multiple of four. */
static void test_dropout(void **state)
{
    const pair *p = *state;
    static const int64_t sizes[][2] = { { 12, 7 }, { 6, 1027 }, { 3, 8 } };
    static const vc_dtype types[] = { VC_F32, VC_BF16 };
    int32_t at[2] = { 5, 6 };
    vt_tensor draw = { .dtype = VC_I32, .nd = 1, .dim = { 2 }, .stride = { 1 }, .data = at };

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            for (int kind = 1; kind < 8; kind++) {
                own *y[2] = { make(types[k], 2, sizes[i], NULL, 1),
                              make(types[k], 2, sizes[i], NULL, 1) };
                const vt_drop how = {
                    .element = kind & 1 ? 1u << 30 : 0, .column = kind & 2 ? 3u << 29 : 0,
                    .sample = kind & 4 ? 1u << 31 : 0, .purpose = VC_DRAW_DROP_INPUT,
                    .factor = 1.25f, .key = { 11, 12 }, .rows = sizes[i][0] / 3,
                };
                host_backend.dropout(p->host, &y[0]->t, &draw, &how);
                vt_cpu.dropout(p->cpu, &y[1]->t, &draw, &how);
                assert_memory_equal(y[0]->t.data, y[1]->t.data, y[1]->bytes);
                drop(y[0]), drop(y[1]);
            }
}

/* Runs kernels whose lanes share rows: norms of short and long rows with their gradients, sums,
 * plain attention. */
static void run_teams(vt_dev *d, vt_tensor *const *t, double *sum)
{
    const vt_backend *be = &host_backend;
    vt_tensor *x = t[0], *dy = t[1], *y = t[2], *dx = t[3], *stats = t[4];
    vt_tensor q = *x, k = *dy, v = *x, o = *y, dq = *dx, dk = *t[5], dv = *t[6], lse = *t[7];
    const vt_attn how = { .scale = 0.125f };
    vt_tensor *four[] = { &q, &k, &v, &o, &dq, &dk, &dv };

    be->sumsq(d, sum, &(const vt_tensor *){ x }, 1);
    be->norm(d, y, stats, x, NULL, NULL, NULL, NULL, 1e-5f, false);
    dx->buf->empty = t[5]->buf->empty = t[6]->buf->empty = true;
    be->norm_grad(d, dx, NULL, NULL, NULL, NULL, dy, x, stats, NULL, NULL, NULL, false);
    if (x->dim[1] > VK_HEAD)
        return;
    for (int i = 0; i < 7; i++) {              /* a row is a token of one head */
        four[i]->nd = 4;
        for (int j = 0; j < 4; j++) {
            four[i]->stride[j] = j == 3 ? 1 : x->dim[1];
            four[i]->dim[j] = j == 3 ? x->dim[1] : j == 1 ? x->dim[0] : 1;
        }
    }
    be->attention(d, &o, &lse, &q, &k, &v, &how);
    be->attention_grad(d, &dq, &dk, &dv, &k, &q, &k, &v, &o, &lse, &how);
}

static void test_teams(void **state)
{
    const pair *p = *state;
    const int64_t sizes[][2] = { { 11, 40 }, { 3, 1001 } };

    for (int i = 0; i < 2; i++) {
        const int64_t *dim = sizes[i], two[] = { dim[0], 2 };
        own *t[2][8];
        double sum[2];
        for (int k = 0; k < 2; k++) {
            vt_tensor *all[8];
            for (int j = 0; j < 8; j++) {
                t[k][j] = make(VC_F32, 2, j == 4 ? two : dim, NULL, (uint32_t)j);
                all[j] = &t[k][j]->t;
            }
            host_lanes = k ? HOST_LANES : 1;
            run_teams(p->host, all, &sum[k]);
        }
        host_lanes = 1;
        assert_true(fabs(sum[0] - sum[1]) <= 1e-6 * sum[0]);
        for (int j = 2; j < 8; j++)
            compare("teams", t[1][j], t[0][j], 1e-5);
        for (int j = 0; j < 8; j++)
            drop(t[0][j]), drop(t[1][j]);
    }
}

/* Runs the inner scan of test-time training and its gradient: x has ten operands, their gradients,
 * the output, the kept states and the memory of the gradient. */
enum { SCAN_OPERANDS = 10, SCAN_OUT = 2 * SCAN_OPERANDS, SCAN_STATES, SCAN_WORK, SCAN_ALL };
static void run_scan(vt_dev *d, own *x[SCAN_ALL])
{
    static const struct { int nd; int64_t dim[4]; } shape[SCAN_OPERANDS] = {
        { 4, { 2, 6, 2, 9 } }, { 4, { 2, 6, 2, 9 } }, { 4, { 2, 6, 2, 9 } }, { 3, { 2, 6, 2 } },
        { 2, { 2, 9 } }, { 2, { 2, 9 } }, { 3, { 2, 9, 37 } }, { 2, { 2, 37 } },
        { 3, { 2, 37, 9 } }, { 2, { 2, 9 } } };
    vt_ttt t[2];

    for (int i = 0; i < SCAN_OUT; i++) {
        int k = i % SCAN_OPERANDS;
        x[i] = make(VC_F32, shape[k].nd, shape[k].dim, NULL, (uint32_t)k);
        x[i]->buf.empty = true;
    }
    for (size_t i = 0; i < x[3]->bytes / sizeof(float); i++)
        ((float *)x[3]->t.data)[i] *= 0.01f;
    for (int i = 0; i < 2; i++) {
        own **y = x + i * SCAN_OPERANDS;
        t[i] = (vt_ttt){ &y[0]->t, &y[1]->t, &y[2]->t, &y[3]->t, &y[4]->t, &y[5]->t, &y[6]->t,
                         &y[7]->t, &y[8]->t, &y[9]->t, .mini_batch = 2, .group = 2 };
    }
    const vt_ttt_size s = vt_ttt_size_of(&t[0]);
    const int64_t states = (int64_t)(s.groups * s.pairs * s.state);
    const int64_t work = (int64_t)(s.pairs * s.work);
    x[SCAN_OUT] = make(VC_F32, 4, shape[0].dim, NULL, 0);
    x[SCAN_STATES] = make(VC_F32, 1, &states, NULL, 0);
    x[SCAN_WORK] = make(VC_F32, 1, &work, NULL, 0);
    host_backend.ttt_scan(d, &x[SCAN_OUT]->t, &x[SCAN_STATES]->t, &t[0]);
    host_backend.ttt_scan_grad(d, &t[1], &x[2]->t, &x[SCAN_STATES]->t, &x[SCAN_WORK]->t, &t[0]);
}

/* Many lanes between barriers give the values of one lane; sums within rows have other orders. */
static void test_scan_lanes(void **state)
{
    const pair *p = *state;
    own *x[2][SCAN_ALL];

    for (int k = 0; k < 2; k++) {
        host_lanes = k ? HOST_LANES : 1;
        run_scan(p->host, x[k]);
    }
    host_lanes = 1;
    for (int i = SCAN_OPERANDS; i <= SCAN_OUT; i++)
        compare("ttt_scan", x[1][i], x[0][i], 1e-5);
    for (int i = 0; i < SCAN_ALL; i++)
        drop(x[0][i]), drop(x[1][i]);
}

/* A step fails with a message if the backend lacks an entry, or if an id is outside of a table; an
 * id is reported at the end of the step. */
static void test_faults(void **state)
{
    static vt_backend lacking;
    const int64_t two[] = { 2 }, table[] = { 3, 5 };
    const int32_t ids[] = { 1, 3 };
    vc_err err = { 0 };
    vt_ctx *g;

    (void)state;
    lacking = host_backend;
    lacking.unary = NULL;
    host_instead = &lacking;
    assert_int_equal(vt_open(&g, &(vt_options){ .device = "host", .pool_limit = 1 << 20 }, NULL),
                     0);
    host_instead = NULL;
    vt_step_begin(g, 0);
    assert_null(vt_silu(g, vt_silu(g, vt_randn(g, 1, two, 1, 2, 3, 4))));
    assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
    assert_string_equal(err.text, "silu: the host backend has no unary yet");

    vt_step_begin(g, 0);
    vt_tensor *t = vt_randn(g, 2, table, 1, 2, 3, 4);
    float rows[10];
    vt_tensor *y = vt_embedding(g, t, vt_from_host(g, VC_I32, 1, two, ids, VC_I32));
    assert_int_equal(vt_to_host(g, y, rows, NULL), 0);
    for (int i = 5; i < 10; i++)
        assert_true(vk_bits(rows[i]) == 0);
    assert_fails(vt_step_end(g, &err), VC_EINVAL, &err,
                 "embedding: id 3 at 1 is outside the table");
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),   cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_philox),  cmocka_unit_test(test_maps),
        cmocka_unit_test(test_copies),  cmocka_unit_test(test_sums),
        cmocka_unit_test(test_adamw),   cmocka_unit_test(test_randn),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_teams),   cmocka_unit_test(test_scan_lanes),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
