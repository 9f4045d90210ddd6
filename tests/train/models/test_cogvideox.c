/* test_cogvideox.c - CogVideoX's transformer against diffusers' in every variant: outputs, losses,
 * every gradient, ten optimiser steps, position tables; recomputation; LoRA */
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
#include "tests/train/models/cogvideox_model.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const struct { const char *name, *cases[3]; } variants[] = {
    { "cogvideox-2b", { "base", "off", "odd" } },
    { "cogvideox-5b", { "base", "off", "still" } },
    { "cogvideox-5b-i2v", { "base", "frames", "dropped" } },
    { "cogvideox-1.5", { "base", "off" } },
    { "cogvideox-1.5-i2v", { "base", "dropped" } },
    { "cogvideox-inp", { "base", "off", "dropped" } },
};

/* Errors of outputs and of f32 gradients are the greatest over the tensor's greatest value; those
 * of bf16 gradients are root mean squares over the tensor's: single elements are sums in which much
 * cancels, and show chance. f32: 1e-4 is the promise; sums in another order differ by 1e-5. bf16:
 * 2e-2, some roundings of 2^-9 in a chain.
 * No gradient counts as smaller than `floor` of the model's largest: what all keys have in common
 * cancels in the softmax, so that the gradients of norm_k.bias and to_k.bias are small differences
 * of large sums, 0.6% of the largest and less, and zero but for rounding without rotations. In bf16
 * diffusers' own differ there by 2% to 6% of themselves from its f32. */
static const struct tolerance {
    vc_dtype compute;
    double output, grad, floor;
    bool mean;
} tolerances[] = {
    { VC_F32, 1e-4, 1e-4, 1e-3, false }, { VC_BF16, 2e-2, 2e-2, 1e-2, true },
};

/* Greatest size of x, or root of its mean square. */
static double size_of(const float *x, int64_t n, bool mean)
{
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)x[i]));
        sum += (double)x[i] * (double)x[i];
    }
    return mean ? sqrt(sum / (double)n) : most;
}

static double error_above(const float *a, const float *b, int64_t n, bool mean, double floor)
{
    float *d = malloc((size_t)n * sizeof *d);
    for (int64_t i = 0; i < n; i++)
        d[i] = a[i] - b[i];
    double off = size_of(d, n, mean);
    free(d);
    return off / fmax(size_of(b, n, mean), floor);
}

static float *wanted_grad(const cog *m, const vt_param *p, const char *prefix)
{
    char name[160];
    snprintf(name, sizeof name, "%s/%s", prefix, p->name);
    return golden_values(m->golden, name, NULL);
}

static double largest_grad(const cog *m, bool mean)
{
    double most = 0;
    for (int i = 0; i < vt_params_count(m->params); i++) {
        const vt_param *p = vt_params_at(m->params, i);
        if (p->buffer) continue;
        float *want = wanted_grad(m, p, "grad");
        most = fmax(most, size_of(want, vt_count(p->t), mean));
        free(want);
    }
    return most;
}

static int check_grads(const cog *m, const char *variant, const struct tolerance *t)
{
    double floor = t->floor * largest_grad(m, t->mean), worst = 0;
    int bad = 0;
    for (int i = 0; i < vt_params_count(m->params); i++) {
        const vt_param *p = vt_params_at(m->params, i);
        if (p->buffer) {
            assert_false(p->trained);
            continue;
        }
        float *want = wanted_grad(m, p, "grad");
        float *got = cog_read(m, p->grad);
        double e = error_above(got, want, vt_count(p->t), t->mean, floor);
        worst = isnan(e) ? INFINITY : fmax(worst, e);
        if (!(e <= t->grad)) {
            print_error("%s: gradient of %s is off by %.2g\n", variant, p->name, e);
            bad++;
        }
        free(want);
        free(got);
    }
    print_message("%s: worst gradient %.2g\n", variant, worst);
    return bad;
}

static int check_case(cog *m, const char *variant, const char *name, const struct tolerance *t)
{
    cog_case c;
    cog_case_open(&c, m->golden, name);
    int64_t n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    float *out = malloc((size_t)n * sizeof *out);
    double loss = (double)cog_step(m, &c, VT_KEEP, out), e = golden_error(out, c.output, n);
    double l = fabs(loss - (double)c.loss) / (double)c.loss;
    print_message("%s %s: output %.2g, loss %.2g\n", variant, name, e, l);
    free(out);
    cog_case_close(&c);
    return !(e <= t->output) + !(l <= t->output);
}

static void check_variants(const struct tolerance *t)
{
    int bad = 0;
    for (size_t i = 0; i < COUNT(variants); i++) {
        const char *name = variants[i].name;
        cog m;
        cog_open(&m, name, VC_BF16, t->compute);
        for (int k = 1; k < 3 && variants[i].cases[k]; k++)
            bad += check_case(&m, name, variants[i].cases[k], t);
        assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
        bad += check_case(&m, name, "base", t);
        bad += check_grads(&m, name, t);
        cog_close(&m);
    }
    assert_int_equal(bad, 0);
}

static void test_f32(void **state)
{
    (void)state;
    check_variants(&tolerances[0]);
}

static void test_bf16(void **state)
{
    (void)state;
    check_variants(&tolerances[1]);
}

/* Recomputed blocks give the same bits. */
static void test_recompute(void **state)
{
    cog m;
    cog_case c;
    (void)state;
    cog_open(&m, "cogvideox-5b", VC_BF16, VC_BF16);
    cog_case_open(&c, m.golden, "base");
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    cog_step(&m, &c, VT_KEEP, NULL);
    int n = vt_params_count(m.params);
    float **kept = calloc((size_t)n, sizeof *kept);
    for (int i = 0; i < n; i++) {
        kept[i] = cog_read(&m, vt_params_at(m.params, i)->grad);
    }
    cog_step(&m, &c, VT_RECOMPUTE, NULL);
    for (int i = 0; i < n; i++) {
        const vt_param *p = vt_params_at(m.params, i);
        float *now = cog_read(&m, p->grad);
        assert_memory_equal(kept[i], now, (size_t)vt_count(p->t) * sizeof(float));
        free(kept[i]);
        free(now);
    }
    free(kept);
    cog_case_close(&c);
    cog_close(&m);
}

/* Frozen weights as the file stores them, 2B's f16: 11 bits, 2e-4 of a weight at most, against the
 * same in f32. */
static void test_stored(void **state)
{
    static const vc_dtype types[2] = { VC_F32, VC_F16 };
    float *out[2];
    int64_t n = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        cog m;
        cog_case c;
        cog_open(&m, "cogvideox-2b", types[i], VC_F32);
        const vt_tensor *w = vt_params_at(m.params, 0)->t;
        assert_true(vt_param_mapped(w) == vt_host_memory(m.g) && w->dtype == types[i]);
        cog_case_open(&c, m.golden, "off");
        n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
        out[i] = malloc((size_t)n * sizeof **out);
        cog_step(&m, &c, VT_KEEP, out[i]);
        cog_case_close(&c);
        cog_close(&m);
    }
    double e = golden_error(out[1], out[0], n);
    print_message("f16 weights: output %.2g\n", e);
    assert_true(e > 0 && e <= 1e-3);
    free(out[0]);
    free(out[1]);
}

/* A dry step needs the memory of the real one, with blocks kept and recomputed. */
static void test_dry(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(variants); i++) {
        cog m;
        cog_case c;
        cog_open(&m, variants[i].name, VC_BF16, VC_BF16);
        cog_case_open(&c, m.golden, "base");
        assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
        for (int how = VT_KEEP; how <= VT_RECOMPUTE; how++) {
            cog_step(&m, &c, (vt_remat)how, NULL);
            size_t real = vt_usage_of(m.g).pool_peak;
            vt_step_begin(m.g, VT_RECORD | VT_DRY);
            vt_tensor *y = cog_forward(&m, &c, (vt_remat)how);
            vt_tensor *target = vt_from_host(m.g, VC_F32, 5, c.dim, c.target, VC_F32);
            vt_backward(m.g, vt_mse(m.g, y, target, NULL));
            assert_int_equal(vt_step_end(m.g, NULL), 0);
            assert_int_equal(vt_usage_of(m.g).pool_peak, real);
        }
        cog_case_close(&c);
        cog_close(&m);
    }
}

static size_t peak_without_tape(int layers)
{
    cog m;
    cog_case c;
    vc_err err = { 0 };
    cog_open_parts(&m, "cogvideox-5b", VC_BF16, VC_BF16);
    cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "num_layers"), layers);
    const vt_source src = vf_model_source(m.file);
    assert_ok(vtrain_dit_open(&m.model, &vtrain_cogvideox, m.config, m.params, &src, &err), &err);
    cog_case_open(&c, m.golden, "base");
    vt_step_begin(m.g, VT_DRY);
    cog_forward(&m, &c, VT_KEEP);
    assert_int_equal(vt_step_end(m.g, NULL), 0);
    size_t peak = vt_usage_of(m.g).pool_peak;
    cog_case_close(&c);
    cog_close(&m);
    return peak;
}

/* Sampling needs the memory of one block, whatever their number. */
static void test_no_tape(void **state)
{
    (void)state;
    assert_int_equal(peak_without_tape(1), peak_without_tape(2));
}

/* ---- positions ---- */

/* Rotations of one size, by forward()'s note; the step goes no further. */
typedef struct turned {
    cog *m;
    float *value[2];                          /* cos, sin [tokens, 2 * pairs] */
    int64_t tokens, width;
} turned;

static void take_rope(void *arg, const char *name, const vt_tensor *x)
{
    turned *t = arg;
    int k = strstr(name, "_sin") != NULL;
    if (!strstr(name, "rotary")) return;
    t->tokens = x->dim[0];
    t->width = x->dim[1];
    t->value[k] = malloc((size_t)vt_count(x) * sizeof(float));
    assert_int_equal(vt_to_host(t->m->g, x, t->value[k], NULL), 0);
    if (k) vt_fail(t->m->g, VC_ESTOP, "seen");
}

static void rope_of(turned *t, cog *m, const int64_t grid[3])
{
    const int64_t dim[5] = { 1, 4, grid[0], grid[1], grid[2] }, text[3] = { 1, 12, 16 }, one = 1;
    static const float zero[12 * 16];
    static const int32_t length = 12;
    *t = (turned){ .m = m };
    float *x = calloc((size_t)(4 * grid[0] * grid[1] * grid[2]), sizeof *x);
    vt_step_begin(m->g, 0);
    vtrain_in in = {
        .x = vt_from_host(m->g, VC_F32, 5, dim, x, VC_F32),
        .t = vt_from_host(m->g, VC_F32, 1, &one, zero, VC_F32), .n_texts = 1,
        .text = { { vt_from_host(m->g, VC_F32, 3, text, zero, VC_F32), &length, NULL } },
        .note = take_rope, .note_arg = t,
    };
    vtrain_forward(m->g, m->model, &in);
    assert_int_equal(vt_step_end(m->g, NULL), VC_ESTOP);
    free(x);
}

/* Of positions up to 100, whose angles the reference computes in f32: 100 * 2^-24. */
#define ROPE_ERROR 1e-5

static void check_rope(cog *m, const vf_safetensors *f, const char *size)
{
    static const char *const what[2] = { "cos", "sin" };
    char name[96];
    int64_t grid[3], dim[8];
    turned t;
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
        cog m;
        cog_open_parts(&m, models[i].golden, VC_BF16, VC_F32);
        cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "sample_height"), models[i].rows);
        cJSON_SetNumberValue(cJSON_GetObjectItem(m.config, "sample_width"), models[i].columns);
        const vt_source src = vf_model_source(m.file);
        assert_ok(vtrain_dit_open(&m.model, &vtrain_cogvideox, m.config, m.params, &src, &err), &err);
        for (int k = 0; k < vf_safetensors_count(f); k++) {
            const char *name = vf_safetensors_at(f, k)->name, *end = strstr(name, "/cos");
            char size[64];
            if (!end || strncmp(name, models[i].prefix, strlen(models[i].prefix))) continue;
            snprintf(size, sizeof size, "%.*s", (int)(end - name), name);
            check_rope(&m, f, size);
            seen++;
        }
        cog_close(&m);
    }
    assert_int_equal(seen, 9);
    vf_safetensors_close(f);
}

/* ---- ten steps ---- */

static const vt_adamw adam = { .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                               .weight_decay = 1e-4 };

static void one_step(cog *m, vt_adamw_state *s, int i, const float *losses, const float *norms)
{
    char name[16];
    cog_case c;
    vt_adamw o = adam;
    snprintf(name, sizeof name, "%d", i);
    cog_case_open(&c, m->golden, name);
    double loss = (double)cog_step(m, &c, VT_KEEP, NULL), norm = vt_params_grad_norm(m->params);
    /* later steps add up the differences of earlier ones */
    assert_true(fabs(loss - (double)losses[i]) <= 1e-4 * (double)losses[i]);
    assert_true(fabs(norm - (double)norms[i]) <= 1e-4 * (double)norms[i]);
    o.step = i + 1;
    o.grad_scale = norm > 1 ? 1 / norm : 1;
    vt_adamw_step(m->params, s, &o);
    cog_case_close(&c);
}

/* Weights move by up to 1e-2 in these steps. They are compared by what they moved, in the mean
 * square: 1e-2 of it is 1e-4 of a weight. All but norm_k.bias are below 1e-4: AdamW makes steps of
 * one size even from gradients that are nearly all rounding. */
#define WAY 1e-2
static double moved_error(const cog *m, const vt_param *p)
{
    float *want = wanted_grad(m, p, "final"), *now = cog_read(m, p->t);
    double off = 0, moved = 0;
    vf_view v;
    assert_int_equal(vf_model_get(m->file, p->name, &v, NULL), 0);
    for (int64_t i = 0; i < vt_count(p->t); i++) {
        float start;
        vc_to_f32(&start, (const char *)v.data + 2 * i, v.dtype, 1);
        off += ((double)now[i] - (double)want[i]) * ((double)now[i] - (double)want[i]);
        moved += ((double)want[i] - (double)start) * ((double)want[i] - (double)start);
    }
    free(want);
    free(now);
    return sqrt(off / moved);
}

static void test_steps(void **state)
{
    cog m;
    vt_adamw_state s = { 0 };
    double worst = 0;
    (void)state;
    cog_open(&m, "cogvideox-steps", VC_BF16, VC_F32);
    float *losses = golden_values(m.golden, "losses", NULL);
    float *norms = golden_values(m.golden, "norms", NULL);
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    assert_int_equal(vt_adamw_open(&s, m.params, VT_ADAMW_F32, NULL), 0);
    for (int i = 0; i < 10; i++)
        one_step(&m, &s, i, losses, norms);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        double e = p->buffer ? 0 : moved_error(&m, p);
        if (e > WAY) print_error("%s is off by %.2g of its way\n", p->name, e);
        worst = fmax(worst, e);
    }
    print_message("worst way of a weight: %.2g\n", worst);
    assert_true(worst <= WAY);
    vt_adamw_close(&s, m.params);
    free(losses);
    free(norms);
    cog_close(&m);
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
