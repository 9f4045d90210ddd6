/* test_params.c - parameters by tables: binding, starting, LoRA, moving averages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/backend.h"
#include "tests/engine_model.h"

/* ---- parameters ---- */

typedef struct store { vt_host h[8]; const char *name[8]; int n; } store;

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
                    .h = { { VC_F32, 2, { 4, 3 }, w_values }, { VC_F32, 1, { 4 }, b_values },
                           { VC_F32, 2, { 2, 4 }, scale_values } } };
}

/* Binds a pair from s; p is to be closed whatever came out. */
static int bind_pair(vt_params **p, vt_ctx *g, pair *m, store *s, vc_err *err)
{
    vt_source src = { store_get, s, 0, true };

    assert_int_equal(vt_params_open(p, g, NULL), 0);
    return vt_params_bind(*p, pair_table, "a.%d.", 7, m, pair_sizes, &src, err);
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
    assert_ptr_equal(m.lin.w->data, w_values);                /* borrowed */
    assert_true(vt_param_mapped(m.scale));
    vt_param *q = vt_params_find(p, "a.7.proj.bias");
    assert_ptr_equal(q->t, m.lin.b);
    assert_ptr_equal(q->lin, &m.lin);
    assert_string_equal(q->module, "a.7.proj");
    assert_null(vt_params_find(p, "a.7.proj"));
    vt_param_bytes bytes = vt_params_bytes(p);
    assert_int_equal(bytes.mapped, 24 * 4);
    assert_int_equal(bytes.values, 0);
    assert_int_equal(bytes.frozen, 24);
    assert_int_equal(vt_params_train(p, NULL, NULL, NULL), 0);
    assert_true(m.lin.w->data != (void *)w_values);           /* now a private copy */
    assert_true(((float *)m.lin.w->data)[5] == 2.5f);
    bytes = vt_params_bytes(p);
    assert_int_equal(bytes.mapped, 0);
    assert_int_equal(bytes.grads, 24 * 4);
    vt_params_close(p);
    vt_params_close(NULL);
    vt_close(g);
}

/* Stored as f16 and misaligned: copied as it is; trained: widened. */
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
        assert_int_equal(bind_pair(&p, g, &m, &s, &err), VC_EMISMATCH);
        assert_non_null(strstr(err.text, wrong[i].text));
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
    for (int i = 0; i < 3; i++) {                             /* in order, reversed, other seed */
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
    assert_true(em_step(g, &m, VT_KEEP, 0) == base);       /* b is zero: nothing changed */
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
        assert_true(((float *)a->grad->data)[i] == 0.0f);     /* through b = 0 */
    free(grad[0]);
    free(grad[1]);
    vt_params_close(m.p);
    vt_close(g);
}

static void test_ema(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    vt_tensor **ema;

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, is_attention, NULL, NULL), 0);
    assert_int_equal(vt_ema_open(&ema, m.p, NULL), 0);
    float *w = m.layer[0].q.w->data, first = w[3];
    w[3] = first + 1.0f;
    vt_ema_update(ema, m.p, 0.75);
    vt_ema_swap(ema, m.p);
    assert_true(fabsf(((float *)m.layer[0].q.w->data)[3] - (first + 0.25f)) < 1e-6f);
    vt_ema_swap(ema, m.p);
    assert_true(((float *)m.layer[0].q.w->data)[3] == first + 1.0f);
    vt_ema_close(ema, m.p);
    vt_ema_close(NULL, m.p);
    vt_params_close(m.p);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_bind_f16),
        cmocka_unit_test(test_bind_errors),
        cmocka_unit_test(test_start_by_name),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_ema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
