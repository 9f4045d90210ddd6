/* test_ttt.c - CogVideoX with TTT layers equals the first authors' program: outputs, losses and
 * every gradient, of one segment and of several; recomputed blocks and dry steps are right; wrong
 * configs and batches are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const ref_variant variants[] = {
    { "ttt-mlp", { "one", "off" }, 0 },
    { "ttt-mlp-one", { NULL }, 0 },
    { "ttt-linear", { "one" }, 0 },
    { "ttt-linear-compat", { NULL }, 0 },
    { "ttt-mlp-compat", { "one" }, 0 },
};

/* The promise for f32 is 1e-4. */
static const ref_tolerance f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false };
static const ref_tolerance bf16 = { VC_BF16, 2e-2, 5e-2, 1e-2, true };

static void test_f32(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_ttt, variants, COUNT(variants), &f32);
}

static void test_bf16(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_ttt, variants, COUNT(variants), &bf16);
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(variants); i++) {
        ref_check_recompute(&vtrain_ttt, variants[i].name);
        ref_check_dry(&vtrain_ttt, variants[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16), cmocka_unit_test(test_memory),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
