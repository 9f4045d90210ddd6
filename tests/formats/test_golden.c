/* test_golden.c - golden_fill() agrees with fill() of scripts/golden.py, and a golden's model binds
 * to a table of weights. The golden is tests/golden/fill.safetensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

static void fill_is_the_scripts(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("fill");
    assert_int_equal(vf_safetensors_count(f), 4);
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        int64_t dim[8];
        float *want = golden_values(f, v->name, dim);
        for (int64_t k = 0; k < vf_view_count(v); k++)
            assert_true(golden_fill(v->name, v->nd, dim, k) == want[k]);
        free(want);
    }
    vf_safetensors_close(f);
}

/* The folder that golden_model() writes holds the same values in bf16, and the weights that no
 * table names are reported. */
static void model_folder(void **state)
{
    (void)state;
    typedef struct one { vt_lin lin; } one;
    static const vt_weight table[] = {
        { "lin", VT_W_LINEAR, offsetof(one, lin), { 3, 5 }, VT_INIT_ZERO }, { 0 } };
    vc_err err = { 0 };
    vf_safetensors *f = golden_open("fill");
    vf_model *m;
    vt_ctx *g;
    vt_params *p;
    one w;
    const vt_options o = { .device = "cpu", .compute = VC_F32 };
    const char *dir = golden_tmp("fill");

    golden_model(f, dir, VC_BF16);
    assert_int_equal(vf_model_open(&m, dir, &err), 0);
    assert_int_equal(vt_open(&g, &o, &err), 0);
    assert_int_equal(vt_params_open(&p, g, &err), 0);
    vt_source src = vf_model_source(m);
    assert_int_equal(vt_params_bind(p, table, "", 0, &w, NULL, &src, &err), 0);
    assert_true(vt_param_mapped(w.lin.w));
    assert_fails(vf_model_all_bound(m, p, NULL, &err), VC_EMISMATCH, &err, "norm.std");
    assert_int_equal(vf_model_all_bound(m, p, (const char *[]){ "norm.std", "norm.weight", NULL },
                                        &err),
                     0);

    vf_key a, b;
    atomic_int stop = 1;
    assert_int_equal(vf_model_hash(&a, m, NULL, &err), 0);
    assert_int_equal(vf_model_hash(&b, m, &stop, &err), VC_ESTOP);
    vt_params_close(p);
    vt_close(g);
    vf_model_close(m);
    golden_model(f, dir, VC_F32);
    assert_int_equal(vf_model_open(&m, dir, &err), 0);
    assert_int_equal(vf_model_hash(&b, m, NULL, &err), 0);
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    vf_model_close(m);
    vf_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_is_the_scripts), cmocka_unit_test(model_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
