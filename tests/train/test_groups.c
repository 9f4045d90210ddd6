/* test_groups.c - groups of parameters: their texts, and ten steps equal to torch's AdamW with
 * groups and LambdaLR (scripts/golden/groups.py). */
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
#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/optim/groups.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 10, MOST = 8 };

/* The golden's parameters. */
typedef struct model {
    vt_ctx *g;
    vt_params *p;
    cJSON *names;
    vt_tensor *t[MOST];
    int n;
} model;

static void open_model(model *m, const vf_safetensors *f)
{
    vf_view v;
    vc_err err = { 0 };
    *m = (model){ 0 };
    assert_ok(vt_open(&m->g, &(vt_options){ .device = "cpu", .threads = 1, .compute = VC_F32 },
                      &err), &err);
    assert_ok(vt_params_open(&m->p, m->g, &err), &err);
    m->names = golden_json(f, "names");
    m->n = cJSON_GetArraySize(m->names);
    assert_true(m->n <= MOST);
    for (int i = 0; i < m->n; i++) {
        const char *name = cJSON_GetArrayItem(m->names, i)->valuestring;
        char *start = vc_format("start/%s", name);
        assert_ok(vf_safetensors_get(f, start, &v, &err), &err);
        vt_weight table[2] = { { name, VT_W_TENSOR, 0, { 0 }, VT_INIT_ZERO }, { 0 } };
        for (int k = 0; k < v.nd; k++)
            table[0].dim[k] = v.dim[k];
        struct { vt_tensor *w; } one;
        assert_ok(vt_params_bind(m->p, table, "", 0, &one, NULL, &(vt_source){ .seed = 1 }, &err),
                  &err);
        m->t[i] = one.w;
        memcpy(one.w->data, v.data, v.bytes);
        free(start);
    }
    assert_ok(vt_params_train(m->p, NULL, NULL, &err), &err);
}

static void close_model(model *m)
{
    cJSON_Delete(m->names);
    vt_params_close(m->p);
    vt_close(m->g);
}

/* Copies the golden's tensor KIND/STEP/NAME of each parameter into its gradient, or compares it
 * with the values. Returns the greatest difference of the values. */
static double each(model *m, const vf_safetensors *f, const char *kind, int step, bool grads)
{
    double worst = 0;
    for (int i = 0; i < m->n; i++) {
        char *name = vc_format("%s/%d/%s", kind, step,
                               cJSON_GetArrayItem(m->names, i)->valuestring);
        float *v = golden_values(f, name, NULL);
        vt_param *p = vt_params_at(m->p, i);
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

/* The greatest weight is near 1, so that the tolerance is a few roundings of f32 a step. */
static void test_equals_torch(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("groups");
    model m;
    vt_opt_state s;
    vtrain_groups *groups;
    vc_err err = { 0 };
    char text[] = "ttt|ssm:lr=1e-1,schedule=cosine", *list[] = { text };
    const vtrain_groups_opts o = {
        .groups = &(vc_list){ list, 1 }, .no_decay = "bias,norm,b1,b2", .decay = 0.5,
        .rate = { .how = VTRAIN_LINEAR, .warmup = 3, .from = 1, .rate = 1e-2, .end = 1e-3 },
    };
    open_model(&m, f);
    assert_ok(vtrain_groups_open(&groups, &o, m.p, &err), &err);
    assert_ok(vt_opt_open(&s, m.p, VT_ADAMW, NULL, &err), &err);
    float *rates = golden_values(f, "rates", NULL);
    for (int step = 0; step < STEPS; step++) {
        vt_params_zero_grad(m.p);
        for (int i = 0; i < m.n; i++)
            vt_wrote(vt_params_at(m.p, i)->grad);
        each(&m, f, "grad", step, true);
        vtrain_groups_at(groups, step, STEPS);
        for (int i = 0; i < 2; i++)
            if (!(fabs(vtrain_group_lr(groups, i) / (double)rates[2 * step + i] - 1) < 1e-7))
                fail_msg("step %d, group %d: rate %.9g", step, i, vtrain_group_lr(groups, i));
        vt_opt_apply(m.p, &s, &(vt_opt_step){
            .lr = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 9, .step = step + 1,
            .grad_scale = vtrain_clip_factor(vt_params_grad_norm(m.p), 0.1),
        });
        double worst = each(&m, f, "step", step, false);
        if (!(worst < 2e-6))
            fail_msg("step %d: a weight differs by %g", step, worst);
    }
    free(rates);
    vt_opt_close(&s, m.p);
    vtrain_groups_close(groups);
    close_model(&m);
    vf_safetensors_close(f);
}

static void test_texts(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        { "ttt:lr=1", NULL },
        { "a[[:digit:]]+b|q_norm:lr=2,end=1,schedule=linear,decay=0", NULL },
        { "ttt", "a colon and settings" }, { ":lr=1", "a colon and settings" },
        { "ttt:", "a colon and settings" }, { "(:lr=1", "no regular expression" },
        { "ttt:lr=0", "\"lr=0\" is none of" }, { "ttt:lr=1y", "\"lr=1y\" is none of" },
        { "ttt:lr=0x", "\"lr=0x\" is none of" }, { "ttt:lr=x", "\"lr=x\" is none of" },
        { "ttt:end=2x", "\"end=2x\" is none of" }, { "ttt:lr=0.5x,decay=1", NULL },
        { "ttt:end=-1", "\"end=-1\" is none of" }, { "ttt:lr=1,rate=2", "\"rate=2\" is none of" },
        { "ttt:schedule=cos", "\"schedule=cos\" is none of" },
        { "ttt:lr=nan", "\"lr=nan\" is none of" }, { "ttt:lr=1,", "\"\" is none of" },
        { "ttt:schedule=piecewise_constant", "--lr_step_rules" },
        { "([a-z_.0-9]+)+[A-Z]:lr=1", "more than 10000000 steps" },
        { "nothing:lr=1", "no trained parameter is in this group: their names are like layers.0" },
    };
    (void)state;
    vf_safetensors *f = golden_open("groups");
    model m;
    open_model(&m, f);
    for (size_t i = 0; i < COUNT(rows); i++) {
        vtrain_groups *groups;
        vc_err err = { 0 };
        char *text = strdup(rows[i].text);
        const vtrain_groups_opts o = { .groups = &(vc_list){ &text, 1 },
                                       .rate = { .how = VTRAIN_LINEAR, .rate = 1 } };
        int rc = vtrain_groups_open(&groups, &o, m.p, &err);
        if (rc != (rows[i].says ? VC_EUSAGE : 0))
            fail_msg("%s: %d %s", text, rc, err.text);
        if (rows[i].says)
            assert_says(&err, rows[i].says);
        vtrain_groups_close(groups);
        free(text);
    }
    close_model(&m);
    vf_safetensors_close(f);
}

/* A rate of so many times the run's. */
static void test_times(void **state)
{
    char *text = "ttt:lr=4x,end=1e-6";
    const vtrain_groups_opts o = { .groups = &(vc_list){ &text, 1 },
                                   .rate = { .how = VTRAIN_LINEAR, .rate = 2e-4 } };
    (void)state;
    vtrain_groups *groups;
    vc_err err = { 0 };
    assert_ok(vtrain_groups_open(&groups, &o, NULL, &err), &err);
    assert_true(fabs(vtrain_group_rate(groups, 1)->rate - 8e-4) < 1e-15);
    assert_true(vtrain_group_rate(groups, 1)->end == 1e-6);
    assert_true(vtrain_group_rate(groups, 0)->rate == 2e-4);
    vtrain_groups_close(groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_torch), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
