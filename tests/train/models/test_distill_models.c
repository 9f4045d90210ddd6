/* test_distill_models.c - few steps from noise to a result: the result, its loss, and the gradient
 * through all steps of each family's tiny model are those of PyTorch (scripts/golden/distill.py),
 * with blocks recomputed too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/steps/distill.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* Three steps add up the errors of sums in another order; a bf16 walk rounds three times as often
 * as one forward does. */
static const ref_tolerance f32 = { VC_F32, 1e-4, 2e-4, 1e-3, false };

static const struct {
    const char *name;
    const vtrain_family *family;
    bool full;                                /* the golden has the gradients of all weights */
} models[] = {
    { "distill-qwen", &vtrain_qwen, true },
    { "distill-flux", &vtrain_flux, false },
    { "distill-flux2", &vtrain_flux2, false },
    { "distill-zimage", &vtrain_zimage, false },
    { "distill-wan", &vtrain_wan, false },
    { "distill-ltx", &vtrain_ltx, false },
    { "distill-hunyuan", &vtrain_hunyuan, false },
};

/* The walk of the golden's levels for rows at the same time. */
static vtrain_walk walk_of(const ref_model *m, const char *name, int64_t rows,
                           vtrain_walk_times *times)
{
    char full[64];
    int64_t dim[8];
    vtrain_walk w = { 0 };
    snprintf(full, sizeof full, "%s/levels", name);
    float *level = golden_values(m->golden, full, dim), row[8];
    w.n = (int)dim[0];
    for (int i = 0; i < w.n; i++) {
        w.sigma[i] = level[i];
        for (int k = 0; k < rows; k++)
            row[k] = 1000 * level[i];
        times->t[i] = vt_from_host(m->g, VC_F32, 1, &rows, row, VC_F32);
    }
    free(level);
    return w;
}

/* Runs a step of the walk, and returns the number of errors above the tolerances. */
static int check(ref_model *m, const char *name, const char *grads, vt_remat remat)
{
    ref_case c;
    vtrain_walk_times times;
    vc_err err = { 0 };
    ref_case_open(&c, m->golden, name);
    const vtrain_dit *d = m->model;
    const int64_t n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    float *out = malloc((size_t)n * sizeof *out);
    vt_params_zero_grad(m->params);
    vt_step_begin(m->g, VT_RECORD);
    const vtrain_walk w = walk_of(m, name, c.dim[0], &times);
    vtrain_in in = ref_inputs(m, &c, remat);
    d->family->prepare(m->g, m->model, &in);
    vt_tensor *y = vtrain_walk_run(m->g, m->model, &in, &w, &times);
    vt_tensor *target = vt_from_host(m->g, VC_F32, 5, c.dim, c.target, VC_F32);
    vt_tensor *loss = vt_mse(m->g, y, target, NULL);
    assert_ok(y && vt_to_host(m->g, y, out, &err), &err);
    vt_backward(m->g, loss);
    const double l = fabs((double)(vt_item(m->g, loss) - c.loss)) / (double)c.loss;
    assert_ok(vt_step_end(m->g, &err), &err);
    vt_params_settle(m->params);
    const double e = golden_error(out, c.output, n);
    print_message("%s: output %.2g, loss %.2g\n", name, e, l);
    free(out);
    ref_case_close(&c);
    return !(e <= f32.output) + !(l <= f32.output) + ref_check_grads(m, grads, &f32);
}

static void test_walks(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < COUNT(models); i++) {
        ref_model m;
        print_message("%s\n", models[i].name);
        if (models[i].full) {
            ref_open(&m, models[i].family, models[i].name, VC_BF16, VC_F32);
            OK(vt_params_train(m.params, NULL, NULL, &err));
            bad += check(&m, "base", "grad", VT_KEEP);
            bad += check(&m, "base", "grad", VT_RECOMPUTE);
            bad += check(&m, "base", "grad", VT_KEEP_ATTENTION);
            ref_close(&m);
        }
        ref_open(&m, models[i].family, models[i].name, VC_BF16, VC_F32);
        assert_true(ref_add_lora(&m) > 0);
        bad += check(&m, "lora", "lora/grad", VT_KEEP);
        bad += check(&m, "lora", "lora/grad", VT_RECOMPUTE);
        ref_close(&m);
    }
    assert_int_equal(bad, 0);
}

/* The levels of a sample of N steps are those of DiffSynth-Studio's schedulers, in f32. */
static void test_levels(void **state)
{
    static const struct { const char *name; double shift, terminal; vc_sigmas sigmas; } of[] = {
        { "qwen", 2.225540928492468, 0.02, VC_SIGMAS_EVEN },
        { "wan", 5, 0, VC_SIGMAS_TO_ZERO },
        { "z-image", 3, 0, VC_SIGMAS_EVEN },
        { "flux2", 2.225540928492468, 0, VC_SIGMAS_EVEN },
        { "ltx2", 7.767901106306772, 0.1, VC_SIGMAS_EVEN },
    };
    (void)state;
    vf_safetensors *golden = golden_open("distill-levels");
    for (size_t i = 0; i < COUNT(of); i++)
        for (int n = 2; n <= 8; n *= 2) {
            char name[32];
            vtrain_solver_step step[8];
            const vtrain_solver_opts o = { .sampler = VTRAIN_EULER, .steps = n,
                                           .shift = of[i].shift, .terminal = of[i].terminal,
                                           .sigmas = of[i].sigmas };
            snprintf(name, sizeof name, "%s/%d", of[i].name, n);
            float *want = golden_values(golden, name, NULL);
            OK(vtrain_solver_plan(step, &o, &err));
            for (int k = 0; k < n; k++)
                if (!(fabs(step[k].level - (double)want[k]) <= 1e-6))
                    fail_msg("%s, step %d: %.9g, expected %.9g", name, k, step[k].level,
                             (double)want[k]);
            free(want);
        }
    vf_safetensors_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks), cmocka_unit_test(test_levels),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
