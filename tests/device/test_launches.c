/* test_launches.c - the number of kernels and of waits for the device, counted on the device
 * "host". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "common/tensor/optimizer.h"
#include "tests/device/device_host.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

static vt_ctx *open_host(vc_dtype compute)
{
    vt_ctx *g;
    vc_err err = { 0 };

    assert_ok(vt_open(&g, &(vt_options){ .device = "host", .compute = compute,
                                         .pool_limit = 64 << 20 }, &err), &err);
    return g;
}

/* The layer "mod" reads f32, of which products convert no factor. */
static bool reads_bf16(void *arg, const char *module) { return (void)arg, !strstr(module, "mod"); }

/* Trains a LoRA of each linear that reads activations, whose B is not zero. */
static int open_lora(em_model *m, vt_ctx *g)
{
    int matched;
    vc_err err = { 0 };

    em_open(m, g, 3);
    assert_ok(vt_params_lora(m->p, reads_bf16, NULL, 8, 8, 7, &matched, &err), &err);
    for (int i = 0; i < vt_params_count(m->p); i++) {
        vt_tensor *t = vt_params_at(m->p, i)->t;
        if (vt_params_at(m->p, i)->role == VT_P_LORA_B)
            vt_param_set(g, t, em_data((size_t)vt_count(t)), VC_F32);
    }
    return matched;
}

/* The norm of all gradients waits for the device once. */
static void test_norm(void **state)
{
    vt_ctx *g = open_host(VC_F32);
    em_model m;
    size_t n;
    double sum = 0;

    (void)state;
    open_lora(&m, g);
    em_step(g, &m, VT_KEEP, 0);
    host_counted = (host_count){ 0 };
    double norm = vt_params_grad_norm(m.p);
    assert_int_equal(host_counted.downloads, 1);
    float *all = em_gradients(&m, &n);
    for (size_t i = 0; i < n; i++)
        sum += (double)all[i] * (double)all[i];
    assert_true(fabs(norm - sqrt(sum)) < 1e-6 * norm);
    free(all);
    vt_params_close(m.p);
    vt_close(g);
}

/* ---- conversions of LoRA's products ---- */

enum { STEPS = 3 };

/* Runs of a LoRA in bf16: the losses, the values after the last step, and the conversions of a
 * step's forward and backward. */
typedef struct trained {
    float loss[STEPS];
    float *w;
    size_t n;
    int64_t conversions, launches;
    int matched;
} trained;

static float *values(vt_ctx *g, const em_model *m, size_t *n)
{
    float *w = NULL;
    vc_err err = { 0 };

    *n = 0;
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *x = vt_params_at(m->p, i);
        if (!x->trained)
            continue;
        w = realloc(w, (*n + (size_t)vt_count(x->t)) * sizeof *w);
        assert_ok(vt_to_host(g, x->t, w + *n, &err), &err);
        *n += (size_t)vt_count(x->t);
    }
    return w;
}

/* After the first step averages replace the values for a step that is not trained, and a value is
 * set anew: no kernel of the optimiser writes these. The last step is counted. */
static trained train(const vt_backend *be, vt_optimizer how, vt_remat remat)
{
    trained r = { .n = 0 };
    em_model m;
    vt_opt_state state;
    vt_tensor **ema;
    vc_err err = { 0 };

    host_instead = be;
    vt_ctx *g = open_host(VC_BF16);
    host_instead = NULL;
    r.matched = open_lora(&m, g);
    assert_ok(vt_opt_open(&state, m.p, how, NULL, &err) || vt_ema_open(&ema, m.p, NULL, &err),
              &err);
    for (int i = 0; i < STEPS; i++) {
        vt_params_zero_grad(m.p);
        host_counted = (host_count){ .kernel = "map_TAKE" };
        r.loss[i] = em_step(g, &m, remat, 0);
        r.conversions = host_counted.named;
        r.launches = host_counted.launches;
        vt_opt_apply(m.p, &state, &(vt_opt_step){
                         .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1,
                         .grad_scale = 1, .step = i + 1, .seed = 7 });
        if (i > 0)
            continue;
        vt_ema_update(ema, m.p, NULL, 0.5);
        vt_ema_swap(ema, m.p);
        r.loss[i] += em_step(g, &m, remat, 0);
        vt_ema_swap(ema, m.p);
        vt_tensor *last = vt_params_at(m.p, vt_params_count(m.p) - 1)->t;
        vt_param_set(g, last, em_data((size_t)vt_count(last)), VC_F32);
    }
    r.w = values(g, &m, &r.n);
    vt_ema_close(ema, m.p);
    vt_opt_close(&state, m.p);
    vt_params_close(m.p);
    vt_close(g);
    return r;
}

/* Operands that a layer's products convert, forward and backward, where each use converts: A and B
 * twice each, x A' and its gradient too. A recomputed block converts three of them again. */
enum { CONVERTED = 8, AGAIN = 3, IN_AND_HEAD = 2 };

/* A step converts no operand of a LoRA's products, and its bits are those of one that converts each
 * operand at each use. The first layer's input needs no gradient. */
static void test_conversions(void **state)
{
    static vt_backend plain;

    (void)state;
    plain = host_backend;
    plain.rounds_products = false;
    for (int how = 0; how < VT_OPTIMIZERS; how++)
        for (int remat = VT_KEEP; remat <= VT_RECOMPUTE; remat++) {
            trained a = train(&plain, (vt_optimizer)how, (vt_remat)remat);
            trained b = train(&host_backend, (vt_optimizer)how, (vt_remat)remat);
            if (!how)
                print_message("%d layers, %s: %d conversions of %d launches, then %d of %d\n",
                              a.matched, remat == VT_KEEP ? "kept" : "recomputed",
                              (int)a.conversions, (int)a.launches, (int)b.conversions,
                              (int)b.launches);
            assert_memory_equal(a.loss, b.loss, sizeof a.loss);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(a.w, b.w, a.n * sizeof *a.w);
            int64_t again = remat == VT_KEEP ? 0 : AGAIN * (a.matched - IN_AND_HEAD);
            assert_int_equal(a.conversions - b.conversions, CONVERTED * a.matched - 2 + again);
            free(a.w);
            free(b.w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_conversions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
