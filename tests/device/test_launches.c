/* test_launches.c - the number of kernels and of waits for the device, counted on the device
 * "host". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

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

/* Trains a LoRA of each linear, whose B is not zero. */
static int open_lora(em_model *m, vt_ctx *g)
{
    int matched;
    vc_err err = { 0 };

    em_open(m, g, 3);
    assert_ok(vt_params_lora(m->p, NULL, NULL, 8, 8, 7, &matched, &err), &err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
