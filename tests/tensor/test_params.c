/* test_params.c - parameters by tables: binding, initial values, LoRA, fp8, moving averages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "common/tensor/backend.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

/* ---- parameters ---- */

typedef struct store { vt_host h[8]; const char *name[8]; int n; } store;
#define HOST(type, axes, values, ...) \
    { .dtype = type, .nd = axes, .dim = { __VA_ARGS__ }, .data = values }

static int store_get(void *arg, const char *name, vt_host *view, vc_err *err)
{
    const store *s = arg;

    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) {
            *view = s->h[i];
            return 0;
        }
    return vc_fail(err, VC_ENOENT, "no \"%s\"", name);
}

typedef struct pair { vt_lin lin; vt_tensor *scale; } pair;
static const vt_weight pair_table[] = {
    { "proj", VT_W_LINEAR, offsetof(pair, lin), { -1, 3 }, VT_INIT_KAIMING },
    { "scale", VT_W_TENSOR, offsetof(pair, scale), { 2, -1 }, VT_INIT_ONE },
    { 0 }
};

static float w_values[12], b_values[4], scale_values[8];
static const int64_t pair_sizes[] = { 0, 4 };

static store pair_store(void)
{
    w_values[5] = 2.5f;
    return (store){ .name = { "a.7.proj.weight", "a.7.proj.bias", "a.7.scale" }, .n = 3,
                    .h = { HOST(VC_F32, 2, w_values, 4, 3), HOST(VC_F32, 1, b_values, 4),
                           HOST(VC_F32, 2, scale_values, 2, 4) } };
}

/* Binds a pair from s. The caller closes p even after an error. */
static int bind_pair(vt_params **p, vt_ctx *g, pair *m, store *s, vc_err *err)
{
    vt_source src = { .get = store_get, .arg = s, .mapped = true };

    assert_int_equal(vt_params_open(p, g, NULL), 0);
    return vt_params_bind(*p, pair_table, "a.%d.", 7, m, pair_sizes, &src, err);
}

/* Rows of the table for weights that this model lacks are skipped. */
static void test_absent(void **state)
{
    static const vt_weight table[] = {
        { "norm", VT_W_BUFFER, offsetof(pair, scale), { 2, -2 }, VT_INIT_ONE },
        { "proj", VT_W_LINEAR, offsetof(pair, lin), { -1, 3 }, VT_INIT_KAIMING },
        { "norm", VT_W_BUFFER, offsetof(pair, scale), { -2 }, VT_INIT_ONE },
        { 0 }
    };
    const int64_t sizes[] = { 0, 4, VT_ABSENT };
    vt_ctx *g = em_context(VC_F32);
    store s = pair_store();
    vt_source src = { .get = store_get, .arg = &s };
    vt_params *p;
    pair m = { 0 };

    (void)state;
    OK(vt_params_open(&p, g, &err));
    OK(vt_params_bind(p, table, "a.%d.", 7, &m, sizes, &src, &err));
    assert_int_equal(vt_params_count(p), 2);
    assert_string_equal(vt_params_at(p, 0)->name, "a.7.proj.weight");
    assert_false(vt_params_at(p, 1)->buffer);
    assert_null(m.scale);
    vt_params_close(p);
    vt_close(g);
}

static void test_bind(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    store s = pair_store();
    vt_params *p;
    pair m;

    (void)state;
    assert_int_equal(bind_pair(&p, g, &m, &s, NULL), 0);
    assert_int_equal(vt_params_count(p), 3);
    assert_ptr_equal(m.lin.w->data, w_values);                /* not copied */
    assert_true(vt_param_mapped(m.scale));
    vt_param *q = vt_params_find(p, "a.7.proj.bias");
    assert_ptr_equal(q->t, m.lin.b);
    assert_ptr_equal(q->lin, &m.lin);
    assert_string_equal(q->module, "a.7.proj");
    assert_null(vt_params_find(p, "a.7.proj"));
    assert_int_equal(q->block, 7);
    vt_param_bytes bytes = vt_params_bytes(p);
    assert_int_equal(bytes.mapped, 24 * 4);
    assert_int_equal(bytes.values, 0);
    assert_int_equal(bytes.frozen, 24);
    assert_int_equal(vt_params_train(p, NULL, NULL, NULL), 0);
    assert_true(m.lin.w->data != (void *)w_values);           /* training made a copy */
    assert_true(((float *)m.lin.w->data)[5] == 2.5f);
    bytes = vt_params_bytes(p);
    assert_int_equal(bytes.mapped, 0);
    assert_int_equal(bytes.grads, 24 * 4);
    vt_params_close(p);
    vt_params_close(NULL);
    vt_close(g);
}

/* A misaligned f16 weight is copied in f16; a trained one is converted to f32. */
static void test_bind_f16(void **state)
{
    static uint16_t half[12];
    static char odd[25];
    vt_ctx *g = em_context(VC_F32);
    store s = pair_store();
    vt_params *p;
    pair m;

    (void)state;
    half[5] = vc_f32_to_f16(2.5f);
    memcpy(odd + 1, half, sizeof half);
    s.h[0].dtype = VC_F16;
    s.h[0].data = odd + 1;
    assert_int_equal(bind_pair(&p, g, &m, &s, NULL), 0);
    assert_int_equal(m.lin.w->dtype, VC_F16);
    assert_false(vt_param_mapped(m.lin.w));
    assert_int_equal(vt_params_train(p, NULL, NULL, NULL), 0);
    assert_int_equal(m.lin.w->dtype, VC_F32);
    assert_true(((float *)m.lin.w->data)[5] == 2.5f);
    vt_params_close(p);
    vt_close(g);
}

/* Counts loaded parameters and bytes; the call number `end` ends the load. */
typedef struct seen { int calls, end; size_t bytes; } seen;

static int count_loaded(void *arg, size_t bytes, vc_err *err)
{
    seen *s = arg;

    s->bytes += bytes;
    return ++s->calls == s->end ? vc_fail(err, VC_ESTOP, "enough") : 0;
}

/* The watcher sees each parameter that is copied, none that stays mapped, and ends a load. */
static void test_watch(void **state)
{
    static const struct { bool map; int end, rc, bound, calls; size_t bytes; } rows[] = {
        { .map = true, .bound = 3 },
        { .bound = 3, .calls = 3, .bytes = 24 * 4 },
        { .end = 2, .rc = VC_ESTOP, .bound = 2, .calls = 2, .bytes = 16 * 4 },
    };
    vt_ctx *g = em_context(VC_F32);

    (void)state;
    for (int i = 0; i < 3; i++) {
        store s = pair_store();
        seen n = { .end = rows[i].end };
        vt_source src = { .get = store_get, .arg = &s, .mapped = rows[i].map };
        vt_params *p;
        pair m;
        OK(vt_params_open(&p, g, &err));
        vt_params_watch(p, count_loaded, &n);
        assert_int_equal(vt_params_bind(p, pair_table, "a.%d.", 7, &m, pair_sizes, &src, NULL),
                         rows[i].rc);
        assert_int_equal(vt_params_count(p), rows[i].bound);
        assert_int_equal(n.calls, rows[i].calls);
        assert_int_equal(n.bytes, rows[i].bytes);
        n = (seen){ .end = 1 };
        assert_int_equal(vt_params_train(p, NULL, NULL, NULL), VC_ESTOP);
        assert_int_equal(n.calls, 1);
        assert_true(vt_params_at(p, 0)->trained && !vt_params_at(p, 1)->trained);
        vt_params_close(p);
    }
    vt_close(g);
}

/* Parameters of sizes only count as others do, but hold zeros, also after they are trained. */
static void test_sizes_only(void **state)
{
    const vt_options o = { .device = "cpu", .compute = VC_F32, .pool_limit = 1 << 20,
                           .sizes_only = true };
    store s = pair_store();
    vt_source src = { .get = store_get, .arg = &s };
    vt_params *p;
    vt_ctx *g;
    pair m;
    int matched;

    (void)state;
    OK(vt_open(&g, &o, &err));
    OK(vt_params_open(&p, g, &err));
    OK(vt_params_bind(p, pair_table, "a.%d.", 7, &m, pair_sizes, &src, &err));
    assert_int_equal(vt_params_bytes(p).values, 24 * 4);
    OK(vt_params_lora(p, NULL, NULL, 2, 2, 7, &matched, &err));
    OK(vt_params_train(p, NULL, NULL, &err));
    assert_true(((float *)m.lin.w->data)[5] == 0.0f);          /* 2.5 in the source */
    assert_true(((float *)m.lin.lora_a->data)[0] == 0.0f);
    assert_int_equal(vt_params_bytes(p).grads, (24 + 2 * 7) * 4);
    vt_params_close(p);
    vt_close(g);
}

static void test_bind_errors(void **state)
{
    static const struct { int i, dim, value; vc_dtype t; const char *text; } wrong[] = {
        { 2, 0, 3, VC_F32, "tensor \"a.7.scale\" is [3,4], [2,4] was expected" },
        { 1, 0, 5, VC_F32, "tensor \"a.7.proj.bias\" is [5], [4] was expected" },
        { 0, 0, 4, VC_I32, "tensor \"a.7.proj.weight\" holds i32" },
    };
    vt_ctx *g = em_context(VC_F32);
    vt_params *p;
    vc_err err;
    pair m;

    (void)state;
    for (int i = 0; i < 3; i++) {
        store s = pair_store();
        s.h[wrong[i].i].dim[wrong[i].dim] = wrong[i].value;
        s.h[wrong[i].i].dtype = wrong[i].t;
        assert_fails(bind_pair(&p, g, &m, &s, &err), VC_EMISMATCH, &err, wrong[i].text);
        vt_params_close(p);
    }
    store s = pair_store();
    s.n = 2;
    assert_int_equal(bind_pair(&p, g, &m, &s, &err), VC_ENOENT);
    assert_string_equal(err.text, "tensor \"a.7.scale\" is missing; it should be [2,4]");
    vt_params_close(p);
    vt_close(g);
}

static void test_start_by_name(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    const int64_t size[] = { 0, 4 };
    vt_params *p[3];
    pair m[3][2];

    (void)state;
    for (int i = 0; i < 3; i++) {                             /* in order; reversed; another seed */
        vt_source src = { .seed = i == 2 ? 6 : 5 };
        assert_int_equal(vt_params_open(&p[i], g, NULL), 0);
        for (int k = 0; k < 2; k++) {
            int at = i == 1 ? 1 - k : k;
            assert_int_equal(vt_params_bind(p[i], pair_table, "b%d.", at, &m[i][at], size, &src,
                                            NULL), 0);
        }
    }
    const float *a = m[0][1].lin.w->data, *other = m[2][1].lin.w->data;
    assert_memory_equal(a, m[1][1].lin.w->data, 12 * sizeof(float));
    assert_true(memcmp(a, m[0][0].lin.w->data, 12 * sizeof(float)) != 0);
    assert_true(memcmp(a, other, 12 * sizeof(float)) != 0);
    float most = 0;
    for (int i = 0; i < 12; i++)
        most = fmaxf(most, fabsf(a[i]));
    assert_true(most <= 0.57735f && most > 0.3f);             /* 1 / sqrt(3) */
    assert_true(((float *)m[0][0].scale->data)[7] == 1.0f);
    assert_true(((float *)m[0][0].lin.b->data)[3] == 0.0f);
    for (int i = 0; i < 3; i++)
        vt_params_close(p[i]);
    vt_close(g);
}

static bool is_attention(void *arg, const char *module)
{
    (void)arg;
    return strstr(module, ".attn.") != NULL;
}

static void test_lora(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    int matched;

    (void)state;
    em_open(&m, g, 1);
    vt_step_begin(g, 0);
    float base = vt_item(g, em_loss(g, &m, VT_KEEP, LAYERS));
    assert_int_equal(vt_step_end(g, NULL), 0);
    assert_int_equal(vt_params_lora(m.p, is_attention, NULL, 3, 6.0, 9, &matched, NULL), 0);
    assert_int_equal(matched, 4 * LAYERS);
    assert_true(m.layer[0].q.lora_scale == 2.0f);
    vt_param *a = vt_params_find(m.p, "blocks.2.attn.q.lora_A.weight");
    vt_param *b = vt_params_find(m.p, "blocks.2.attn.q.lora_B.weight");
    assert_int_equal(a->role, VT_P_LORA_A);
    assert_int_equal(b->t->dim[1], 3);
    assert_ptr_equal(a->lin, &m.layer[2].q);
    vt_param_bytes bytes = vt_params_bytes(m.p);
    assert_int_equal(bytes.trained, 4 * LAYERS * 2 * 3 * WIDTH);
    assert_int_equal(bytes.grads, bytes.trained * 4);
    assert_true(em_step(g, &m, VT_KEEP, 0) == base);       /* B is zero: no change */
    float *grad[2];
    size_t n;
    grad[0] = em_gradients(&m, &n);
    vt_params_zero_grad(m.p);
    assert_true(em_step(g, &m, VT_RECOMPUTE, 0) == base);
    grad[1] = em_gradients(&m, &n);
    assert_int_equal(n, bytes.trained);
    assert_memory_equal(grad[0], grad[1], n * sizeof(float));
    assert_true(vt_params_grad_norm(m.p) > 0);
    for (size_t i = 0; i < (size_t)vt_count(a->grad); i++)
        assert_true(((float *)a->grad->data)[i] == 0.0f);     /* because B is zero */
    free(grad[0]);
    free(grad[1]);
    vt_params_close(m.p);
    vt_close(g);
}

/* ---- fp8 ---- */

enum { OUT = 7, IN = 48 };
typedef struct fp8_pair { vt_lin lin, half; } fp8_pair;
static const vt_weight fp8_table[] = {
    { "proj", VT_W_LINEAR_NO_BIAS, offsetof(fp8_pair, lin), { OUT, IN }, VT_INIT_KAIMING },
    { "half", VT_W_LINEAR, offsetof(fp8_pair, half), { OUT, IN }, VT_INIT_KAIMING },
    { 0 }
};

/* Rows have sizes from 2^-30 to 2^30, and one has zeros. Each stored value is a value of e4m3 times
 * a power of two, within half a unit of its four bits. */
static void test_fp8_rows(void **state)
{
    static float w[OUT * IN], b[OUT];
    static uint8_t eight[OUT * IN];
    store s = { .name = { "proj.weight", "half.weight", "half.bias" }, .n = 3,
                .h = { HOST(VC_F32, 2, w, OUT, IN), HOST(VC_F8E4M3, 2, eight, OUT, IN),
                       HOST(VC_F32, 1, b, OUT) } };
    vt_source src = { .get = store_get, .arg = &s, .mapped = true, .converts = true,
                      .to = VC_F8E4M3 };
    vt_ctx *g = em_context(VC_F32);
    vt_params *p;
    fp8_pair m;
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < OUT * IN; i++)
        w[i] = i / IN == 3 ? 0 : ldexpf(sinf((float)(i * i)), 10 * (i / IN) - 30);
    assert_int_equal(vt_params_open(&p, g, NULL), 0);
    assert_int_equal(vt_params_bind(p, fp8_table, "", 0, &m, NULL, &src, NULL), 0);
    const float *scale = m.lin.w->scale->data;
    for (int i = 0; i < OUT * IN; i++) {
        float most = 0;
        int e;
        for (int k = 0; k < IN; k++)
            most = fmaxf(most, fabsf(w[i / IN * IN + k]));
        float have = vc_f8e4m3_to_f32(((uint8_t *)m.lin.w->data)[i]) * scale[i / IN];
        assert_true(frexpf(scale[i / IN], &e) == 0.5f);
        assert_true(most <= 448 * scale[i / IN] && (most > 223 * scale[i / IN] || i / IN == 3));
        assert_true(fabsf(have - w[i]) <= fmaxf(fabsf(w[i]) / 16, scale[i / IN] * 0x1p-10f));
    }
    assert_null(m.half.w->scale);                             /* stored in fp8: not converted */
    assert_true(vt_param_mapped(m.half.w));
    assert_int_equal(vt_params_bytes(p).values, OUT * IN + OUT * sizeof(float));
    float first = vc_f8e4m3_to_f32(((uint8_t *)m.lin.w->data)[IN]) * scale[1];
    assert_ok(vt_params_train(p, NULL, NULL, &err), &err);  /* the values, without a scale */
    assert_null(m.lin.w->scale);
    assert_true(((float *)m.lin.w->data)[IN] == first);
    vt_params_close(p);

    w[2 * IN + 5] = NAN;
    assert_int_equal(vt_params_open(&p, g, NULL), 0);
    assert_fails(vt_params_bind(p, fp8_table, "", 0, &m, NULL, &src, &err), VC_EMISMATCH, &err,
                 "\"proj.weight\": row 2 holds a value that is not finite");
    vt_params_close(p);
    vt_close(g);
}

/* The results of a linear layer with LoRA on 2 x 9 rows: y, dx, and the gradient of A. */
typedef struct linear_run { float y[18 * OUT], dx[18 * IN], da[2 * IN]; } linear_run;

static void run_linear(linear_run *r, vc_dtype compute, bool fp8, vc_dtype stored, const void *w)
{
    store s = { .name = { "proj.weight", "half.weight", "half.bias" }, .n = 3 };
    vt_source src = { .get = store_get, .arg = &s, .converts = fp8, .to = VC_F8E4M3 };
    static float b[OUT] = { 1, 2, 3 };
    vt_ctx *g = em_context(compute);
    vt_params *p;
    fp8_pair m;
    int matched;

    s.h[0] = s.h[1] = (vt_host)HOST(stored, 2, w, OUT, IN);
    s.h[2] = (vt_host)HOST(VC_F32, 1, b, OUT);
    assert_int_equal(vt_params_open(&p, g, NULL), 0);
    assert_int_equal(vt_params_bind(p, fp8_table, "", 0, &m, NULL, &src, NULL), 0);
    assert_int_equal(vt_params_lora(p, NULL, NULL, 2, 2, 7, &matched, NULL), 0);
    memcpy(m.half.lora_b->data, em_data(2 * OUT), 2 * OUT * sizeof(float));
    vt_tensor *x = vt_param_new(g, compute, 3, (int64_t[]){ 2, 9, IN }, em_data(18 * IN), VC_F32,
                                false, NULL);
    assert_int_equal(vt_param_train(g, x, compute, NULL), 0);
    size_t peak[2];
    for (int dry = 1; dry >= 0; dry--) {
        vt_step_begin(g, VT_RECORD | (dry ? VT_DRY : 0));
        vt_tensor *y = vt_linear(g, vt_scale(g, x, 1), &m.half);
        assert_int_equal(vt_to_host(g, y, r->y, NULL), 0);
        vt_backward(g, vt_sum(g, vt_mul(g, y, y)));
        peak[dry] = vt_usage_of(g).pool_peak;
        assert_int_equal(vt_step_end(g, NULL), 0);
    }
    assert_int_equal(peak[0], peak[1]);
    assert_int_equal(vt_to_host(g, x->grad, r->dx, NULL), 0);
    assert_int_equal(vt_to_host(g, m.half.lora_a->grad, r->da, NULL), 0);
    vt_param_free(g, x);
    vt_params_close(p);
    vt_close(g);
}

/* fp8 weights are exact in f32 and in bf16: the results have the bits of weights of these types. */
static void test_fp8_linear(void **state)
{
    static float w[OUT * IN], whole[OUT * IN];
    static uint16_t half[OUT * IN];
    vt_ctx *g = em_context(VC_F32);
    vt_params *p;
    fp8_pair m;
    store s = { .name = { "proj.weight", "half.weight", "half.bias" }, .n = 3,
                .h = { HOST(VC_F32, 2, w, OUT, IN), HOST(VC_F32, 2, w, OUT, IN),
                       HOST(VC_F32, 1, w, OUT) } };

    (void)state;
    for (int i = 0; i < OUT * IN; i++)
        w[i] = sinf((float)(i * i)) * (float)(1 + i / IN) * 0.03f;
    assert_int_equal(vt_params_open(&p, g, NULL), 0);
    assert_int_equal(vt_params_bind(p, fp8_table, "", 0, &m, NULL,
                                    &(vt_source){ .get = store_get, .arg = &s, .converts = true,
                                                  .to = VC_F8E4M3 }, NULL), 0);
    for (int i = 0; i < OUT * IN; i++)
        whole[i] = vc_f8e4m3_to_f32(((uint8_t *)m.half.w->data)[i]) *
                   ((float *)m.half.w->scale->data)[i / IN];
    vc_from_f32(half, VC_BF16, whole, OUT * IN);
    vt_params_close(p);
    vt_close(g);
    for (int c = 0; c < 2; c++) {
        static linear_run a, b;
        vc_dtype type = c ? VC_BF16 : VC_F32;
        run_linear(&a, type, true, VC_F32, w);
        run_linear(&b, type, false, type, c ? (void *)half : whole);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void test_ema(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    vt_tensor **ema;

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, is_attention, NULL, NULL), 0);
    assert_int_equal(vt_ema_open(&ema, m.p, NULL, NULL), 0);
    float *w = m.layer[0].q.w->data, first = w[3];
    w[3] = first + 1.0f;
    vt_ema_update(ema, m.p, NULL, 0.75);
    vt_ema_swap(ema, m.p);
    assert_true(fabsf(((float *)m.layer[0].q.w->data)[3] - (first + 0.25f)) < 1e-6f);
    vt_ema_swap(ema, m.p);
    assert_true(((float *)m.layer[0].q.w->data)[3] == first + 1.0f);
    vt_ema_close(ema, m.p);
    vt_ema_close(NULL, m.p);
    vt_params_close(m.p);
    vt_close(g);
}

/* Values and gradients in memory of the caller are written and read there, not counted and not
 * freed. */
static void test_lent(void **state)
{
    static float values[12], grads[12];
    vt_ctx *g = em_context(VC_F32);
    store s = pair_store();
    vt_params *p;
    pair m;

    (void)state;
    assert_int_equal(bind_pair(&p, g, &m, &s, NULL), 0);
    assert_int_equal(vt_params_train(p, NULL, NULL, NULL), 0);
    assert_false(vt_param_grad_lent(m.lin.w) || vt_param_values_lent(m.lin.w));
    memcpy(values, m.lin.w->data, sizeof values);
    vt_param_lend_grad(g, m.lin.w, grads);
    vt_param_lend_grad(g, m.lin.w, grads);
    vt_param_lend_values(g, m.lin.w, values);
    assert_true(vt_param_grad_lent(m.lin.w) && vt_param_values_lent(m.lin.w));
    assert_int_equal(vt_params_bytes(p).grads, 12 * 4);
    assert_int_equal(vt_params_bytes(p).values, 12 * 4);
    assert_int_equal(vt_params_bytes(p).trained, 24);

    const int64_t dim[2] = { 2, 3 };
    const float x[6] = { 1, 2, 3, 4, 5, 6 }, zero[8] = { 0 };
    const int64_t out[2] = { 2, 4 };
    values[5] = 1;                                   /* y[i][1] = x[i][2], others are zero */
    vt_step_begin(g, VT_RECORD);
    vt_tensor *y = vt_linear(g, vt_from_host(g, VC_F32, 2, dim, x, VC_F32), &m.lin);
    vt_tensor *loss = vt_mse(g, y, vt_from_host(g, VC_F32, 2, out, zero, VC_F32), NULL);
    vt_backward(g, loss);
    assert_true(fabsf(vt_item(g, loss) - (9 + 36) / 8.0f) < 1e-6f);
    assert_int_equal(vt_step_end(g, NULL), 0);
    assert_true(fabsf(grads[5] - 2 * (9 + 36) / 8.0f) < 1e-5f);      /* d/dw of mean(y^2) */
    assert_true(grads[0] == 0);
    vt_params_close(p);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind), cmocka_unit_test(test_absent),
        cmocka_unit_test(test_bind_f16), cmocka_unit_test(test_watch),
        cmocka_unit_test(test_sizes_only),
        cmocka_unit_test(test_bind_errors),
        cmocka_unit_test(test_start_by_name),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_fp8_rows),
        cmocka_unit_test(test_fp8_linear),
        cmocka_unit_test(test_ema),
        cmocka_unit_test(test_lent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
