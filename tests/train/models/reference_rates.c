/* reference_rates.c - a batch of clips of different frame rates; see reference.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

void ref_check_rates(const vtrain_family *family, const char *name)
{
    static const float rates[2] = { 25, 12 };
    ref_model m;
    ref_case c;
    ref_open(&m, family, name, VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "base");
    int64_t row = c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    float *both = malloc((size_t)(2 * row) * sizeof(float));
    float *one = malloc((size_t)(2 * row) * sizeof(float));
    c.fps[1] = rates[1];
    ref_step(&m, &c, VT_KEEP, both);
    c.fps[0] = rates[1];
    ref_step(&m, &c, VT_KEEP, one);
    assert_memory_equal(both + row, one + row, (size_t)row * sizeof(float));
    assert_true(golden_error(both, one, row) > 1e-3);
    free(both);
    free(one);
    ref_case_close(&c);
    ref_close(&m);
}
