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

enum { STEPS = 10, PARAMS = 2 };

/* A golden has the parameters weight and bias; the latter has no decay. */
static const char *const names[PARAMS] = { "weight", "bias" };

typedef struct model { vt_ctx *g; vt_params *p; } model;

static void open_model(model *m, const vf_safetensors *f)
{
    vc_err err = { 0 };
    assert_ok(vt_open(&m->g, &(vt_options){ .device = "cpu", .threads = 1, .compute = VC_F32 },
                      &err), &err);
    assert_ok(vt_params_open(&m->p, m->g, &err), &err);
    for (int i = 0; i < PARAMS; i++) {
        char *start = vc_format("start/%s", names[i]);
        int64_t dim[8];
        float *values = golden_values(f, start, dim);
        vt_weight table[2] = { { names[i], VT_W_TENSOR, 0, { 0 }, VT_INIT_ZERO }, { 0 } };
        for (int k = 0; k < 2 - i; k++)
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
        open_model(&m, f);
        vt_params_at(m.p, 1)->rate = &plain;
        assert_ok(vt_opt_open(&s, m.p, rows[i].how, &err), &err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
