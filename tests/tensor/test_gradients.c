/* test_gradients.c - gradients over micro-batches and through reused buffers; the profile and the
 * progress that a step reports. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/optimizer.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

static void test_accumulation(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    float *once, *twice;
    size_t n;

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
    em_step(g, &m, VT_KEEP, 0);
    once = em_gradients(&m, &n);
    em_step(g, &m, VT_KEEP, 0);
    twice = em_gradients(&m, &n);
    for (size_t i = 0; i < n; i++)
        assert_true(fabsf(twice[i] - 2 * once[i]) <= 1e-6f * fabsf(once[i]) + 1e-9f);
    vt_params_zero_grad(m.p);
    free(twice);
    em_step(g, &m, VT_KEEP, 0);
    twice = em_gradients(&m, &n);
    assert_memory_equal(once, twice, n * sizeof *once);
    free(once);
    free(twice);
    vt_params_close(m.p);
    vt_close(g);
}

/* x + f(x), x + x and reshapes of x: a gradient's buffer that is passed on must not be shared. */
static void test_residuals(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    vt_tensor *p = vt_param_new(g, VC_F32, 2, (int64_t[]){ 2, 3 }, em_data(6), VC_F32, false, NULL);

    (void)state;
    assert_int_equal(vt_param_train(g, p, VC_F32, NULL), 0);
    vt_step_begin(g, VT_RECORD);
    vt_tensor *x = vt_scale(g, p, 2.0f);                      /* dp = 2 dx */
    vt_tensor *y = vt_add(g, x, vt_scale(g, x, 3.0f));        /* 4 */
    y = vt_add(g, y, y);                                      /* 8 */
    vt_tensor *flat = vt_reshape(g, y, 1, (int64_t[]){ 6 });
    y = vt_add(g, flat, vt_reshape(g, x, 1, (int64_t[]){ 6 }));   /* 9 */
    y = vt_sub(g, y, vt_scale(g, flat, 0.5f));                /* 5 */
    vt_backward(g, vt_sum(g, y));
    assert_int_equal(vt_step_end(g, NULL), 0);
    for (int i = 0; i < 6; i++)
        assert_true(((float *)p->grad->data)[i] == 10.0f);
    vt_param_free(g, p);
    vt_close(g);
}

/* Tensors that no gradient needs are freed before backward: only the loss can be read later. */
static void test_after_backward(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    vt_tensor *p = vt_param_new(g, VC_F32, 1, (int64_t[]){ 4096 }, NULL, VC_F32, false, NULL);
    float z[4096];
    vc_err err;

    (void)state;
    assert_int_equal(vt_param_train(g, p, VC_F32, NULL), 0);
    vt_step_begin(g, VT_RECORD);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = vt_scale(g, p, 2.0f), *loss = vt_sum(g, vt_scale(g, x, 3.0f));
    assert_int_equal(vt_to_host(g, x, z, NULL), 0);
    vt_backward(g, loss);
    vt_scope_end(g, s, 1, &loss);
    assert_true(vt_item(g, loss) == 0.0f);
    assert_int_equal(vt_to_host(g, x, z, &err), VC_EFAIL);
    assert_null(vt_scale(g, x, 1.0f));
    assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
    assert_true(vt_usage_of(g).pool_peak < 4 * sizeof z);
    vt_param_free(g, p);
    vt_close(g);
}

static void test_nothing_trained(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    vc_err err = { 0 };

    (void)state;
    em_open(&m, g, 1);
    vt_step_begin(g, VT_RECORD);
    vt_backward(g, em_loss(g, &m, VT_RECOMPUTE, 2));
    assert_fails(vt_step_end(g, &err), VC_EFAIL, &err, "nothing below the loss is trained");
    assert_int_equal(vt_usage_of(g).saved, 0);
    vt_params_close(m.p);
    vt_close(g);
}

/* The rows of the profile have all FLOPs; recomputation adds calls of ops, but not of their
 * gradients. */
static void test_profile(void **state)
{
    double flops[2] = { 0 };
    int64_t linear[2] = { 0 }, grads[2] = { 0 };

    (void)state;
    for (int how = 0; how < 2; how++) {
        vt_ctx *g = em_context(VC_F32);
        const vt_op_time *row;
        em_model m;
        em_open(&m, g, 1);
        assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
        assert_int_equal(vt_profile_rows(g, &row), 0);
        vt_profile_begin(g);
        for (int step = 0; step < 2; step++)
            em_step(g, &m, how ? VT_RECOMPUTE : VT_KEEP, 0);
        int n = vt_profile_rows(g, &row);
        assert_true(n > 4);
        for (int i = 0; i < n; i++) {
            flops[how] += row[i].flops;
            assert_true(row[i].calls > 0 && row[i].seconds >= 0);
            assert_true(i == 0 || row[i].seconds <= row[i - 1].seconds);
            if (!strcmp(row[i].op, "linear"))
                *(row[i].grad ? &grads[how] : &linear[how]) += row[i].calls;
        }
        assert_true(fabs(flops[how] - 2 * vt_usage_of(g).flops) < 1e-6 * flops[how]);
        vt_params_close(m.p);
        vt_close(g);
    }
    assert_int_equal(grads[0], grads[1]);
    assert_true(linear[1] > linear[0] && flops[1] > flops[0]);
}

typedef struct watched { double last; int calls; bool fell; } watched;

static void watch(void *arg, double flops)
{
    watched *w = arg;
    w->fell |= flops < w->last;
    w->last = flops;
    w->calls++;
}

/* The watched FLOPs never decrease within a step, and end at the number of a dry step. */
static void test_watch(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    watched w = { 0 };
    em_model m;

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
    vt_watch(g, watch, &w);
    em_step(g, &m, VT_RECOMPUTE, VT_DRY);
    assert_int_equal(w.calls, 0);
    double dry = vt_usage_of(g).flops;
    em_step(g, &m, VT_RECOMPUTE, 0);
    assert_true(w.calls > 20 && !w.fell);
    assert_true(w.last == dry && dry > 0);
    int calls = w.calls;
    vt_watch(g, NULL, NULL);
    em_step(g, &m, VT_RECOMPUTE, 0);
    assert_int_equal(w.calls, calls);
    vt_params_close(m.p);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_residuals),
        cmocka_unit_test(test_after_backward),
        cmocka_unit_test(test_nothing_trained),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
