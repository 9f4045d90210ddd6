/* reference_steps.c - ten steps of AdamW, compared with a golden's; see reference.h */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/tensor/optimizer.h"
#include "tests/train/models/reference.h"

static const vt_opt_step adam = { .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                  .weight_decay = 1e-4 };

static void one_step(ref_model *m, vt_opt_state *s, int i, const float *losses,
                     const float *norms)
{
    char name[16];
    ref_case c;
    vt_opt_step o = adam;
    snprintf(name, sizeof name, "%d", i);
    ref_case_open(&c, m->golden, name);
    double loss = (double)ref_step(m, &c, VT_KEEP, NULL), norm = vt_params_grad_norm(m->params);
    /* Later steps add up the errors of earlier steps. */
    assert_true(fabs(loss - (double)losses[i]) <= 1e-4 * (double)losses[i]);
    assert_true(fabs(norm - (double)norms[i]) <= 1e-4 * (double)norms[i]);
    o.step = i + 1;
    o.grad_scale = norm > 1 ? 1 / norm : 1;
    vt_opt_apply(m->params, s, &o);
    ref_case_close(&c);
}

/* Weights move by up to 1e-2 in these steps. The comparison is that of the movements, in the mean
 * square: 1e-2 of a movement is 1e-4 of a weight. */
static double moved_error(const ref_model *m, const vt_param *p)
{
    float *want = ref_wanted(m, p, "final"), *now = ref_read(m, p->t);
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

void ref_check_steps(const vtrain_family *family, const char *name, double most)
{
    ref_model m;
    vt_opt_state s = { 0 };
    double worst = 0;
    ref_open(&m, family, name, VC_BF16, VC_F32);
    float *losses = golden_values(m.golden, "losses", NULL);
    float *norms = golden_values(m.golden, "norms", NULL);
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    assert_int_equal(vt_opt_open(&s, m.params, VT_ADAMW, NULL, NULL), 0);
    for (int i = 0; i < 10; i++)
        one_step(&m, &s, i, losses, norms);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        double e = p->buffer ? 0 : moved_error(&m, p);
        if (e > most)
            print_error("%s: the error is %.2g of its movement\n", p->name, e);
        worst = fmax(worst, e);
    }
    print_message("the largest error of a weight's movement is %.2g\n", worst);
    assert_true(worst <= most);
    vt_opt_close(&s, m.params);
    free(losses);
    free(norms);
    ref_close(&m);
}
