/* test_cogvideox.c - CogVideoX's transformer equals diffusers' in every variant: outputs, losses,
 * every gradient, ten optimiser steps, tables of positions; recomputed blocks, dry steps and
 * weights in f16 are right. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const ref_variant variants[] = {
    { "cogvideox-2b", { "off", "odd" }, 0 },
    { "cogvideox-5b", { "off", "still" }, 0 },
    { "cogvideox-5b-i2v", { "frames", "dropped" }, 0 },
    { "cogvideox-1.5", { "off" }, 0 },
    { "cogvideox-1.5-i2v", { "dropped" }, 0 },
    { "cogvideox-inp", { "off", "dropped" }, 0 },
    { "cogvideox-control", { "off", "dropped" }, 0 },
};

/* The promise for f32 is 1e-4; sums in another order differ by 1e-5. bf16 has some roundings of
 * 2^-9 in a chain: 2e-2. The floors are for norm_k.bias and to_k.bias: a part that all keys share
 * cancels in the softmax, so that these gradients are small differences of large sums, at most 0.6%
 * of the largest, and without rotations they are rounding errors alone. There diffusers' own
 * gradients in bf16 differ by 2% to 6% from its f32. */
static const ref_tolerance tolerances[] = {
    { VC_F32, 1e-4, 1e-4, 1e-3, false }, { VC_BF16, 2e-2, 2e-2, 1e-2, true },
};

static void test_f32(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_cogvideox, variants, COUNT(variants), &tolerances[0]);
}

static void test_bf16(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_cogvideox, variants, COUNT(variants), &tolerances[1]);
}

/* Recomputed blocks make the same bits. */
static void test_recompute(void **state)
{
    (void)state;
    ref_check_recompute(&vtrain_cogvideox, "cogvideox-5b");
}

/* Frozen weights in 2B's f16 have 11 bits, so they differ from weights in f32 by at most 2e-4 of a
 * weight. */
static void test_stored(void **state)
{
    (void)state;
    double e = ref_f16_error(&vtrain_cogvideox, "cogvideox-2b", "off");
    assert_true(e > 0 && e <= 1e-3);
}

/* A dry step has the memory of the real step, with blocks kept and recomputed. */
static void test_dry(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(variants); i++)
        ref_check_dry(&vtrain_cogvideox, variants[i].name);
}

static size_t peak_without_tape(int layers)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    ref_open_parts(&m, "cogvideox-5b", VC_BF16, VC_BF16);
    cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "num_layers"), layers);
    const vt_source src = vf_model_source(m.file);
    assert_ok(vtrain_dit_open(&m.model, &vtrain_cogvideox, m.config, m.params, &src, &err), &err);
    ref_case_open(&c, m.golden, "base");
    vt_step_begin(m.g, VT_DRY);
    ref_forward(&m, &c, VT_KEEP);
    assert_int_equal(vt_step_end(m.g, NULL), 0);
    size_t peak = vt_usage_of(m.g).pool_peak;
    ref_case_close(&c);
    ref_close(&m);
    return peak;
}

/* Sampling takes the memory of one block, for any number of blocks. */
static void test_no_tape(void **state)
{
    (void)state;
    assert_int_equal(peak_without_tape(1), peak_without_tape(2));
}

/* ---- positions ---- */

/* The rotations of one size, which forward() traces; the step ends there. */
typedef struct rotations {
    ref_model *m;
    float *value[2];                          /* cos, sin [tokens, 2 * pairs] */
    int64_t tokens, width;
} rotations;

static void take_rope(void *arg, const char *name, const vt_tensor *x)
{
    rotations *t = arg;
    int k = strstr(name, "_sin") != NULL;
    if (!strstr(name, "rotary"))
        return;
    t->tokens = x->dim[0];
    t->width = x->dim[1];
    t->value[k] = malloc((size_t)vt_count(x) * sizeof(float));
    assert_int_equal(vt_to_host(t->m->g, x, t->value[k], NULL), 0);
    if (k)
        vt_fail(t->m->g, VC_ESTOP, "seen");
}

static void rope_of(rotations *t, ref_model *m, const int64_t grid[3])
{
    const int64_t dim[5] = { 1, 4, grid[0], grid[1], grid[2] }, text[3] = { 1, 12, 16 }, one = 1;
    static const float zero[12 * 16];
    static const int32_t length = 12;
    *t = (rotations){ .m = m };
    float *x = calloc((size_t)(4 * grid[0] * grid[1] * grid[2]), sizeof *x);
    vt_step_begin(m->g, 0);
    vtrain_in in = {
        .x = vt_from_host(m->g, VC_F32, 5, dim, x, VC_F32),
        .t = vt_from_host(m->g, VC_F32, 1, &one, zero, VC_F32), .n_texts = 1,
        .text = { { vt_from_host(m->g, VC_F32, 3, text, zero, VC_F32), &length, NULL } },
        .note = take_rope, .note_arg = t,
    };
    vtrain_forward(m->g, m->model, &in, NULL);
    assert_int_equal(vt_step_end(m->g, NULL), VC_ESTOP);
    free(x);
}

/* The reference computes angles in f32, of positions up to 100: the error is 100 * 2^-24. */
#define ROPE_ERROR 1e-5

static void check_rope(ref_model *m, const vf_safetensors *f, const char *size)
{
    static const char *const what[2] = { "cos", "sin" };
    char name[96];
    int64_t grid[3], dim[8];
    rotations t;
    assert_int_equal(sscanf(strchr(size, '/'), "/%" SCNd64 "x%" SCNd64 "x%" SCNd64, &grid[0],
                            &grid[1], &grid[2]), 3);
    rope_of(&t, m, grid);
    snprintf(name, sizeof name, "%s/pick", size);
    float *pick = golden_values(f, name, dim);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "%s/%s", size, what[k]);
        float *want = golden_values(f, name, dim);
        assert_int_equal(t.width, 2 * dim[1]);
        for (int64_t i = 0; i < dim[0] * dim[1]; i++) {
            const float *row = t.value[k] + (int64_t)pick[i / dim[1]] * t.width;
            int64_t j = 2 * (i % dim[1]);
            assert_true(row[j] == row[j + 1]);
            if (!(fabs((double)row[j] - (double)want[i]) <= ROPE_ERROR))
                fail_msg("%s: %s of token %g, pair %d: %g, wanted %g", size, what[k],
                         (double)pick[i / dim[1]], (int)(j / 2), (double)row[j], (double)want[i]);
        }
        free(want);
        free(t.value[k]);
    }
    free(pick);
}

static void test_rope(void **state)
{
    static const struct { const char *golden, *prefix; int rows, columns; } models[] = {
        { "cogvideox-5b", "5b/", 60, 90 }, { "cogvideox-1.5", "1.5/", 300, 300 },
    };
    vf_safetensors *f = golden_open("cogvideox-rope");
    int seen = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        vc_err err = { 0 };
        ref_model m;
        ref_open_parts(&m, models[i].golden, VC_BF16, VC_F32);
        cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "sample_height"), models[i].rows);
        cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "sample_width"), models[i].columns);
        const vt_source src = vf_model_source(m.file);
        assert_ok(vtrain_dit_open(&m.model, &vtrain_cogvideox, m.config, m.params, &src, &err),
                  &err);
        for (int k = 0; k < vf_safetensors_count(f); k++) {
            const char *name = vf_safetensors_at(f, k)->name, *end = strstr(name, "/cos");
            char size[64];
            if (!end || strncmp(name, models[i].prefix, strlen(models[i].prefix)))
                continue;
            snprintf(size, sizeof size, "%.*s", (int)(end - name), name);
            check_rope(&m, f, size);
            seen++;
        }
        ref_close(&m);
    }
    assert_int_equal(seen, 9);
    vf_safetensors_close(f);
}

/* All errors but that of norm_k.bias are below 1e-4: AdamW makes whole steps even of gradients that
 * are nearly all rounding error. */
static void test_steps(void **state)
{
    (void)state;
    ref_check_steps(&vtrain_cogvideox, "cogvideox-steps", 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16), cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_stored), cmocka_unit_test(test_dry), cmocka_unit_test(test_no_tape),
        cmocka_unit_test(test_rope), cmocka_unit_test(test_steps),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
