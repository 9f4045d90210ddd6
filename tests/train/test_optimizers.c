/* test_optimizers.c - rows of optimizers.def against their references (scripts/golden): the values
 * after each of ten steps from the same gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/tensor/backend.h"
#include "common/tensor/optimizer.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 10, PARAMS = 2, BOWL_STEPS = 50, BOWL_PARAMS = 3 };

/* A golden has the parameters weight and bias; the latter has no decay. */
static const char *const names[PARAMS] = { "weight", "bias" };
static const char *const bowl_names[BOWL_PARAMS] = { "weight", "wide", "bias" };

typedef struct model { vt_ctx *g; vt_params *p; } model;

static void open_model(model *m, const vf_safetensors *f, int n, const char *const *name)
{
    vc_err err = { 0 };
    assert_ok(vt_open(&m->g, &(vt_options){ .device = "cpu", .threads = 1, .compute = VC_F32 },
                      &err), &err);
    assert_ok(vt_params_open(&m->p, m->g, &err), &err);
    for (int i = 0; i < n; i++) {
        char *start = vc_format("start/%s", name[i]);
        int64_t dim[8];
        float *values = golden_values(f, start, dim);
        vt_weight table[2] = { { name[i], VT_W_TENSOR, 0, { 0 }, VT_INIT_ZERO }, { 0 } };
        for (int k = 0; k < (i < n - 1 ? 2 : 1); k++)      /* the last one is a vector */
            table[0].dim[k] = dim[k];
        struct { vt_tensor *w; } one;
        assert_ok(vt_params_bind(m->p, table, "", 0, &one, NULL, &(vt_source){ .seed = 1 }, &err),
                  &err);
        memcpy(one.w->data, values, (size_t)vt_count(one.w) * sizeof *values);
        free(values);
        free(start);
    }
    assert_ok(vt_params_train(m->p, NULL, NULL, &err), &err);
}

/* Copies KIND/STEP/NAME into the gradients, or compares it with the values: returns the greatest
 * difference. */
static double each(const model *m, const vf_safetensors *f, const char *kind, int step, bool grads)
{
    double worst = 0;
    for (int i = 0; i < PARAMS; i++) {
        char *name = vc_format("%s/%d/%s", kind, step, names[i]);
        float *v = golden_values(f, name, NULL);
        const vt_param *p = vt_params_at(m->p, i);
        for (int64_t k = 0; k < vt_count(p->t); k++)
            if (grads)
                ((float *)p->grad->data)[k] = v[k];
            else
                worst = fmax(worst, fabs((double)((float *)p->t->data)[k] - (double)v[k]));
        free(v);
        free(name);
    }
    return worst;
}

static const struct row {
    const char *golden;
    vt_optimizer how;
    vt_opt_step step;
    double most;                 /* difference of a value */
} rows[] = {
    { "lion", VT_LION, { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1 }, 2e-7 },
};

/* The greatest weight is near 1, so that the tolerance is a rounding of f32 a step. */
static void test_equals_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        vf_safetensors *f = golden_open(rows[i].golden);
        const vt_opt_rate plain = { rows[i].step.lr, 0 };
        model m;
        vt_opt_state s;
        vc_err err = { 0 };
        open_model(&m, f, PARAMS, names);
        vt_params_at(m.p, 1)->rate = &plain;
        assert_ok(vt_opt_open(&s, m.p, rows[i].how, NULL, &err), &err);
        for (int step = 0; step < STEPS; step++) {
            vt_opt_step o = rows[i].step;
            vt_params_zero_grad(m.p);
            for (int k = 0; k < PARAMS; k++)
                vt_wrote(vt_params_at(m.p, k)->grad);
            each(&m, f, "grad", step, true);
            o.grad_scale = 1;
            o.step = step + 1;
            vt_opt_apply(m.p, &s, &o);
            double worst = each(&m, f, "step", step, false);
            if (!(worst < rows[i].most))
                fail_msg("%s, step %d: a value differs by %g", rows[i].golden, step, worst);
        }
        vt_opt_close(&s, m.p);
        vt_params_close(m.p);
        vt_close(m.g);
        vf_safetensors_close(f);
    }
}

/* Weights that fall into a bowl, whose gradients are slope * (weight - target). `warm` is the
 * number of steps of a warm-up from 1 / warm. */
static const struct bowl {
    const char *name;
    vt_optimizer how;
    int warm;
    vt_opt_step step;
} bowls[] = {
    { "prodigy", VT_PRODIGY, 0,
      { .lr = 1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
        .prodigy = { .d0 = 1e-3, .coef = 0.03 } } },
    { "prodigy-safe", VT_PRODIGY, 0,
      { .lr = 1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.02,
        .prodigy = { .d0 = 1e-4, .coef = 0.5, .growth = 1.5, .beta3 = 0.98,
                     .bias_correction = true, .safeguard_warmup = true } } },
    { "adafactor", VT_ADAFACTOR, 0,
      { .lr = 1, .weight_decay = 0.01,
        .adafactor = { .clip = 1, .power = -0.8, .relative_step = true,
                       .scale_parameter = true } } },
    { "adafactor-init", VT_ADAFACTOR, 0,
      { .lr = 1, .adafactor = { .clip = 1, .power = -0.8, .relative_step = true,
                                .scale_parameter = true, .warmup_init = true } } },
    { "adafactor-rate", VT_ADAFACTOR, 0,
      { .lr = 3e-3, .adafactor = { .clip = 1, .power = -0.8 } } },
    { "schedule-free", VT_SCHEDULE_FREE, 8,
      { .lr = 5e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.02,
        .schedule_free = { .power = 2 } } },
    { "muon", VT_MUON, 0,
      { .lr = 5e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
        .muon = { 0.95, true, 5, VT_MUON_MATCH_RMS } } },
    { "muon-original", VT_MUON, 0,
      { .lr = 5e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
        .muon = { 0.9, false, 4, VT_MUON_ORIGINAL } } },
};

/* The greatest difference of the parameters from those of the file, 0 where it has no such step. */
static double bowl_error(const model *m, const vf_safetensors *f, const char *name,
                         const char *step)
{
    double worst = 0;
    for (int i = 0; i < BOWL_PARAMS; i++) {
        char *tensor = vc_format("%s/%s/%s", name, step, bowl_names[i]);
        const vt_param *p = vt_params_at(m->p, i);
        vf_view v;
        vc_err none;
        float *values = vf_safetensors_get(f, tensor, &v, &none) ? NULL
                                                                 : golden_values(f, tensor, NULL);
        for (int64_t k = 0; values && k < vt_count(p->t); k++)
            worst = fmax(worst, fabs((double)((float *)p->t->data)[k] - (double)values[k]));
        free(values);
        free(tensor);
    }
    return worst;
}

static void bowl_gradients(const model *m, const vf_safetensors *f)
{
    vt_params_zero_grad(m->p);
    for (int i = 0; i < BOWL_PARAMS; i++) {
        char *slope = vc_format("slope/%s", bowl_names[i]);
        char *target = vc_format("target/%s", bowl_names[i]);
        float *s = golden_values(f, slope, NULL), *t = golden_values(f, target, NULL);
        const vt_param *p = vt_params_at(m->p, i);
        vt_wrote(p->grad);
        for (int64_t k = 0; k < vt_count(p->t); k++)
            ((float *)p->grad->data)[k] = s[k] * (((float *)p->t->data)[k] - t[k]);
        free(slope), free(target), free(s), free(t);
    }
}

/* Compares the first number of the run with the file's. */
static void same_number(const vf_safetensors *f, const char *name, const char *step, double number)
{
    char *tensor = vc_format("%s/d/%s", name, step);
    vf_view v;
    vc_err none;
    if (!vf_safetensors_get(f, tensor, &v, &none)) {
        float *d = golden_values(f, tensor, NULL);
        if (!(fabs(number - (double)*d) < 1e-5 * (double)*d))
            fail_msg("%s, step %s: d is %.9g, not %.9g", name, step, number, (double)*d);
        free(d);
    }
    free(tensor);
}

/* Compares the weights that the optimiser evaluates, which train/parallel/state.c finds so. */
static void same_shown(const model *m, const vt_opt_state *s, const vf_safetensors *f,
                       const struct bowl *b)
{
    const vt_opt_run *run = vt_optimizers[b->how].run;
    vt_tensor **x;
    vc_err err = { 0 };
    if (!run->shown)
        return;
    assert_ok(vt_ema_open(&x, m->p, NULL, &err), &err);
    for (int i = 0; i < s->n; i++)
        memcpy(x[i]->data, s->of[run->shown - 1][i]->data, (size_t)vt_count(x[i]) * sizeof(float));
    vt_ema_update(x, m->p, NULL, 1 - 1 / b->step.beta1);
    vt_ema_swap(x, m->p);
    double worst = bowl_error(m, f, b->name, "x");
    if (!(worst > 0 && worst < 1e-5))
        fail_msg("%s: an evaluated value differs by %g", b->name, worst);
    vt_ema_swap(x, m->p);
    vt_ema_close(x, m->p);
}

/* The weights after 50 steps, and on the way, are within 1e-5 of the reference's. */
static void test_bowl(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("optimizers");
    for (size_t i = 0; i < COUNT(bowls); i++) {
        const struct bowl *b = &bowls[i];
        model m;
        vt_opt_state s;
        vc_err err = { 0 };
        open_model(&m, f, BOWL_PARAMS, bowl_names);
        assert_ok(vt_opt_open(&s, m.p, b->how, NULL, &err), &err);
        for (int step = 0; step < BOWL_STEPS; step++) {
            vt_opt_step o = b->step;
            char text[16];
            bowl_gradients(&m, f);
            o.grad_scale = 1;
            o.step = step + 1;
            if (step < b->warm)
                o.lr *= (double)o.step / b->warm;
            vt_opt_apply(m.p, &s, &o);
            snprintf(text, sizeof text, "%d", step);
            double worst = bowl_error(&m, f, b->name, text);
            if (!(worst < 1e-5))
                fail_msg("%s, step %d: a value differs by %g", b->name, step, worst);
            same_number(f, b->name, text, s.number[0]);
        }
        same_shown(&m, &s, f, b);
        vt_opt_close(&s, m.p);
        vt_params_close(m.p);
        vt_close(m.g);
    }
    vf_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_reference),
        cmocka_unit_test(test_bowl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
