/* test_tape.c - backward, blocks and recomputation, dry steps, memory in the steady state. The
 * linker's --wrap of malloc() and its siblings lets the program count allocations. */
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

/* ---- counting allocations ---- */

static long allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __real_aligned_alloc(align, n);
}

/* ---- blocks ---- */

enum { HOWS = VT_KEEP_ATTENTION + 1 };

/* With attention kept the tape holds its result and an f32 value for each row of each head more,
 * and backward computes its two products no more. */
static void check_kept_attention(vc_dtype type, const vt_usage use[HOWS])
{
    const size_t rows = (size_t)BATCH * (TOKENS + TEXT);
    const size_t held = use[VT_KEEP_ATTENTION].saved - use[VT_RECOMPUTE].saved;
    const size_t bytes = LAYERS * rows * (WIDTH * vc_dtype_size(type) + HEADS * sizeof(float));

    assert_between(held, bytes, bytes + 2 * LAYERS * 64);
    assert_true(use[VT_RECOMPUTE].flops - use[VT_KEEP_ATTENTION].flops ==
                LAYERS * 4.0 * (double)(rows * (TOKENS + TEXT) * WIDTH));
}

static void test_recompute_is_exact(void **state)
{
    static const vc_dtype types[] = { VC_F32, VC_BF16 };

    (void)state;
    for (int t = 0; t < 2; t++) {
        float loss[HOWS], *grad[HOWS];
        size_t n[HOWS];
        vt_usage use[HOWS];
        for (int how = VT_KEEP; how < HOWS; how++) {
            vt_ctx *g = em_context(types[t]);
            em_model m;
            em_open(&m, g, 1);
            assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
            loss[how] = em_step(g, &m, (vt_remat)how, 0);
            grad[how] = em_gradients(&m, &n[how]);
            use[how] = vt_usage_of(g);
            vt_params_close(m.p);
            vt_close(g);
        }
        assert_true(loss[0] > 0);
        for (int how = VT_RECOMPUTE; how < HOWS; how++) {
            assert_true(loss[how] == loss[0]);
            assert_int_equal(n[how], n[0]);
            for (size_t i = 0; i < n[0]; i++)
                if (grad[how][i] != grad[0][i])
                    fail_msg("%s gradient %zu: %.9g kept, %.9g recomputed in way %d",
                             vc_dtype_name(types[t]), i, (double)grad[0][i],
                             (double)grad[how][i], how);
        }
        assert_true(use[VT_RECOMPUTE].saved * 4 < use[VT_KEEP].saved);
        check_kept_attention(types[t], use);
        for (int how = VT_KEEP; how < HOWS; how++)
            free(grad[how]);
    }
}

static bool is_upper(void *arg, const char *name)
{
    (void)arg;
    return !strncmp(name, "blocks.2.", 9) || !strncmp(name, "blocks.3.", 9);
}

/* Blocks below the lowest trained parameter keep nothing for backward, whether they are to be
 * recomputed or not. Loss and gradients have the bits of a step that trains all blocks. */
static void test_blocks_below(void **state)
{
    float loss[3];
    vt_usage use[3];
    char *upper[3] = { 0 };
    size_t n = 0;

    (void)state;
    for (int how = 0; how < 3; how++) {           /* all trained; the upper half; and recomputed */
        vt_ctx *g = em_context(VC_F32);
        em_model m;
        em_open(&m, g, 1);
        assert_int_equal(vt_params_train(m.p, how ? is_upper : NULL, NULL, NULL), 0);
        loss[how] = em_step(g, &m, how == 2 ? VT_RECOMPUTE : VT_KEEP, 0);
        use[how] = vt_usage_of(g);
        n = 0;
        for (int i = 0; i < vt_params_count(m.p); i++) {
            const vt_param *p = vt_params_at(m.p, i);
            if (!is_upper(NULL, p->name))
                continue;
            size_t bytes = sizeof(float) * (size_t)vt_count(p->grad);
            upper[how] = realloc(upper[how], n + bytes);
            memcpy(upper[how] + n, p->grad->data, bytes);
            n += bytes;
        }
        vt_params_close(m.p);
        vt_close(g);
    }
    assert_true(n > 0 && loss[0] > 0);
    for (int how = 1; how < 3; how++) {
        assert_true(loss[how] == loss[0]);
        assert_memory_equal(upper[how], upper[0], n);
    }
    assert_true(use[1].saved < use[0].saved * 6 / 10);
    assert_true(use[2].flops < use[0].flops);     /* two of four blocks are recomputed */
    for (int how = 0; how < 3; how++)
        free(upper[how]);
}

/* Another number of threads changes only the last bits; the same number gives the same bits. */
static void test_threads(void **state)
{
    float *grad[3], loss[3];
    size_t n;

    (void)state;
    for (int i = 0; i < 3; i++) {
        vt_ctx *g = em_context_of(VC_F32, i == 0 ? 1 : 3, 64 << 20);
        em_model m;
        em_open(&m, g, 1);
        assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
        loss[i] = em_step(g, &m, VT_KEEP, 0);
        grad[i] = em_gradients(&m, &n);
        vt_params_close(m.p);
        vt_close(g);
    }
    assert_true(loss[1] == loss[2]);
    assert_memory_equal(grad[1], grad[2], n * sizeof(float));
    float most = 0;
    for (size_t k = 0; k < n; k++)
        most = fmaxf(most, fabsf(grad[0][k]));
    for (size_t k = 0; k < n; k++)
        assert_true(fabsf(grad[0][k] - grad[1][k]) <= 2e-6f * most);
    for (int i = 0; i < 3; i++)
        free(grad[i]);
}

typedef struct journal { char text[1000]; } journal;

static void on_enter(void *arg, const vt_block *b, bool backward)
{
    char *t = ((journal *)arg)->text;
    sprintf(t + strlen(t), "%s%d ", backward ? "E" : "e", b->index);
}

static void on_leave(void *arg, const vt_block *b, bool backward)
{
    char *t = ((journal *)arg)->text;
    sprintf(t + strlen(t), "%s%d ", backward ? "L" : "l", b->index);
}

static void on_ready(void *arg, const vt_block *b)
{
    char *t = ((journal *)arg)->text;
    sprintf(t + strlen(t), "r%d ", b->index);
}

static void test_hooks(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
    for (int how = VT_KEEP; how < HOWS; how++) {
        journal log = { "" };
        vt_set_hooks(g, &(vt_hooks){ &log, on_enter, on_leave, on_ready });
        em_step(g, &m, (vt_remat)how, 0);
        assert_string_equal(log.text, "e0 l0 e1 l1 e2 l2 e3 l3 "
                                      "E3 L3 r3 E2 L2 r2 E1 L1 r1 E0 L0 r0 ");
    }
    vt_set_hooks(g, NULL);
    em_step(g, &m, VT_KEEP, 0);
    vt_params_close(m.p);
    vt_close(g);
}

/* Its outputs are two views of a tensor, an input, a view of an input, and one that is not used. */
static void odd_block(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    vt_tensor *h = vt_mul(g, vt_gelu(g, in[0]), *(vt_tensor *const *)arg);

    out[0] = vt_slice(g, h, 0, 0, 2);
    out[1] = vt_slice(g, h, 0, 2, 4);
    out[2] = in[0];
    out[3] = vt_slice(g, in[1], 0, 1, 3);
    out[4] = vt_scale(g, in[0], 3.0f);
}

static void test_odd_outputs(void **state)
{
    float grad[HOWS][4 * 8 * 3];

    (void)state;
    for (int how = VT_KEEP; how < HOWS; how++) {
        vt_ctx *g = em_context(VC_F32);
        vt_tensor *p[3], *out[5];
        for (int i = 0; i < 3; i++) {
            p[i] = vt_param_new(g, VC_F32, 2, (int64_t[]){ 4, 8 }, em_data(32 + (size_t)i), VC_F32,
                                false, NULL);
            assert_int_equal(vt_param_train(g, p[i], VC_F32, NULL), 0);
        }
        vt_step_begin(g, VT_RECORD);
        vt_tensor *in[] = { vt_scale(g, p[0], 1.5f), vt_scale(g, p[1], 0.5f), NULL };
        vt_block b = { odd_block, &p[2], 3, 5, 0 };
        vt_run_block(g, &b, (vt_remat)how, in, out);
        vt_tensor *s = vt_mul(g, out[0], vt_silu(g, out[1]));
        s = vt_add(g, s, vt_mul(g, vt_slice(g, out[2], 0, 1, 3), out[3]));
        vt_backward(g, vt_add(g, vt_sum(g, s), vt_sum(g, in[0])));
        vc_err err;
        assert_ok(vt_step_end(g, &err), &err);
        for (int i = 0; i < 3; i++) {
            memcpy(&grad[how][32 * i], p[i]->grad->data, 32 * sizeof(float));
            vt_param_free(g, p[i]);
        }
        vt_close(g);
    }
    for (int how = VT_RECOMPUTE; how < HOWS; how++)
        assert_memory_equal(grad[0], grad[how], sizeof grad[0]);
    for (int i = 0; i < 96; i++)
        assert_true(i / 8 == 4 || i / 8 == 7 || grad[0][i] != 0.0f);
}

/* in: q, and a constant. The first attention has no gradient, the second is an output, the third
 * has two inputs that are views of one tensor. */
static void attentive_block(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    (void)arg;
    vt_tensor *fixed = vt_attention(g, in[1], in[1], in[1], NULL);
    out[0] = vt_attention(g, in[0], fixed, in[0], NULL);
    vt_tensor *both = vt_concat(g, 1, 2, (vt_tensor *[]){ out[0], in[1] });
    out[1] = vt_attention(g, vt_slice(g, both, 1, 1, 4), in[0], vt_slice(g, both, 1, 0, 3), NULL);
}

/* Attention whose results are a block's outputs, and blocks that the loss does not depend on. */
static void test_kept_attention(void **state)
{
    float grad[HOWS][3 * 16];
    size_t saved[HOWS];

    (void)state;
    for (int how = VT_KEEP; how < HOWS; how++) {
        const int64_t dim[4] = { 1, 3, 2, 8 };
        vt_ctx *g = em_context(VC_F32);
        vt_tensor *out[2], *unused[2];
        vt_tensor *p = vt_param_new(g, VC_F32, 4, dim, em_data(48), VC_F32, false, NULL);
        assert_int_equal(vt_param_train(g, p, VC_F32, NULL), 0);
        for (int step = 0; step < 2; step++) {
            vt_step_begin(g, VT_RECORD);
            vt_tensor *in[] = { vt_scale(g, p, 1.5f), em_input(g, 4, dim) };
            const vt_block b = { attentive_block, NULL, 2, 2, 0 };
            vt_run_block(g, &b, (vt_remat)how, in, unused);
            vt_run_block(g, &b, (vt_remat)how, in, out);
            vt_backward(g, vt_sum(g, vt_mul(g, vt_silu(g, out[0]), out[1])));
            saved[how] = vt_usage_of(g).saved;
            vc_err err;
            assert_ok(vt_step_end(g, &err), &err);
        }
        memcpy(grad[how], p->grad->data, sizeof grad[how]);
        vt_param_free(g, p);
        vt_close(g);
    }
    for (int how = VT_RECOMPUTE; how < HOWS; how++)
        assert_memory_equal(grad[0], grad[how], sizeof grad[0]);
    assert_true(saved[VT_RECOMPUTE] < saved[VT_KEEP_ATTENTION]);
    for (int i = 0; i < 48; i++)
        assert_true(grad[0][i] != 0.0f);
}

static void failing_block(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    int *calls = *(int *const *)arg;
    out[0] = ++*calls == 2 ? vt_slice(g, in[0], 0, 0, 1) : vt_scale(g, in[0], 2.0f);
}

static void test_block_that_changes(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    int calls = 0, *arg = &calls;
    vc_err err = { 0 };
    vt_tensor *p = vt_param_new(g, VC_F32, 1, (int64_t[]){ 4 }, NULL, VC_F32, false, NULL), *y;

    (void)state;
    assert_int_equal(vt_param_train(g, p, VC_F32, NULL), 0);
    vt_step_begin(g, VT_RECORD);
    vt_tensor *x = vt_scale(g, p, 1.0f);
    vt_run_block(g, &(vt_block){ failing_block, &arg, 1, 1, 5 }, VT_RECOMPUTE, &x, &y);
    vt_backward(g, vt_sum(g, y));
    assert_fails(vt_step_end(g, &err), VC_EINVAL, &err, "the second run gave another output");
    vt_param_free(g, p);
    vt_close(g);
}

/* ---- dry steps, memory ---- */

static void test_dry(void **state)
{
    static const vc_dtype types[] = { VC_F32, VC_BF16 };

    (void)state;
    for (int t = 0; t < 2; t++)
        for (int how = VT_KEEP; how < HOWS; how++) {
            vt_ctx *g = em_context(types[t]);
            em_model m;
            size_t n;
            em_open(&m, g, 1);
            assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
            assert_true(em_step(g, &m, (vt_remat)how, VT_DRY) == 0.0f);
            vt_usage dry = vt_usage_of(g);
            float *grad = em_gradients(&m, &n);
            for (size_t i = 0; i < n; i++)
                assert_true(grad[i] == 0.0f);
            em_step(g, &m, (vt_remat)how, 0);
            vt_usage real = vt_usage_of(g);
            assert_int_equal(dry.pool_peak, real.pool_peak);
            assert_true(dry.scratch > 0 && dry.scratch <= real.scratch);
            assert_true(real.scratch - dry.scratch <= 2 * 4096 * 4);     /* for the row kernels */
            assert_int_equal(dry.saved, real.saved);
            assert_true(dry.flops == real.flops && dry.flops > 0);
            free(grad);
            vt_params_close(m.p);
            vt_close(g);
            /* the peak of the dry step suffices, and 64 bytes less do not */
            for (int less = 0; less < 2; less++) {
                vc_err err;
                g = em_context_of(types[t], 2, dry.pool_peak - (size_t)less * 64);
                em_open(&m, g, 1);
                assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
                vt_step_begin(g, VT_RECORD);
                vt_backward(g, em_loss(g, &m, (vt_remat)how, LAYERS));
                assert_int_equal(vt_step_end(g, &err), less ? VC_ENOMEM : 0);
                vt_params_close(m.p);
                vt_close(g);
            }
        }
}

/* Forward alone needs the memory of one block, for any number of blocks. */
static void test_forward_peak(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    size_t peak[LAYERS + 1];

    (void)state;
    em_open(&m, g, 1);
    for (int n = 1; n <= LAYERS; n++) {
        vt_step_begin(g, 0);
        vt_tensor *loss = em_loss(g, &m, VT_KEEP, n);
        assert_true(vt_item(g, loss) > 0);
        assert_int_equal(vt_step_end(g, NULL), 0);
        peak[n] = vt_usage_of(g).pool_peak;
    }
    assert_int_equal(peak[2], peak[3]);
    assert_int_equal(peak[2], peak[LAYERS]);
    vt_params_close(m.p);
    vt_close(g);
}

/* Backward frees memory after its last use: in addition to the tensors that forward saved it needs
 * the memory of one block. */
static void test_backward_peak(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    em_model m;
    size_t more[LAYERS + 1];

    (void)state;
    em_open(&m, g, 1);
    assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
    for (int n = 2; n <= LAYERS; n++) {
        vt_step_begin(g, VT_RECORD | VT_DRY);
        vt_backward(g, em_loss(g, &m, VT_RECOMPUTE, n));
        assert_int_equal(vt_step_end(g, NULL), 0);
        more[n] = vt_usage_of(g).pool_peak - vt_usage_of(g).saved;
    }
    assert_between(more[LAYERS], more[2] - more[2] / 8, more[2] + more[2] / 8);
    vt_params_close(m.p);
    vt_close(g);
}

static void test_steady_state(void **state)
{
    (void)state;
    for (int how = VT_KEEP; how < HOWS; how++) {
        vt_ctx *g = em_context(VC_BF16);
        em_model m;
        vt_opt_state s;
        long before = 0;
        float loss[6];
        em_open(&m, g, 1);
        assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
        assert_int_equal(vt_opt_open(&s, m.p, VT_ADAMW, NULL, NULL), 0);
        for (int step = 1; step <= 5; step++) {
            if (step == 3)
                before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
            vt_params_zero_grad(m.p);
            loss[step] = em_step(g, &m, (vt_remat)how, 0);
            double norm = vt_params_grad_norm(m.p);
            vt_opt_apply(m.p, &s, &(vt_opt_step){
                             .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                             .weight_decay = 0.01, .grad_scale = 1 / fmax(1, norm), .step = step });
        }
        long made = __atomic_load_n(&allocations, __ATOMIC_RELAXED) - before;
        assert_int_equal(made, 0);
        assert_true(before > 0);
        assert_true(loss[5] < loss[1]);
        vt_opt_close(&s, m.p);
        vt_params_close(m.p);
        vt_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute_is_exact),
        cmocka_unit_test(test_blocks_below),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_odd_outputs),
        cmocka_unit_test(test_kept_attention),
        cmocka_unit_test(test_block_that_changes),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_forward_peak),
        cmocka_unit_test(test_backward_peak),
        cmocka_unit_test(test_steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
