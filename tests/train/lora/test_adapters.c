/* test_adapters.c - rows of adapters.def against PEFT and LyCORIS (scripts/golden/adapters.py): the
 * factors after fifty steps of AdamW, the losses, and the output at two strengths. */
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
#include "common/adapters/adapter.h"
#include "common/tensor/optimizer.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 50, ROWS = 6, IN = 12, HIDDEN = 24, OUT = 16 };


static const struct {
    const char *golden;
    vt_adapter_size size;
} rows[] = {
    { "rslora", { VT_ADAPTER_RSLORA, 4, 6, 0, false, false } },
    { "dora", { VT_ADAPTER_DORA, 4, 6, 0, false, false } },
    { "loha", { VT_ADAPTER_LOHA, 3, 6, 0, false, false } },
    { "loha-lycoris", { VT_ADAPTER_LOHA, 3, 1.5, 0, false, false } },
    { "lokr", { VT_ADAPTER_LOKR, 2, 3, 0, false, false } },
    { "lokr-both", { VT_ADAPTER_LOKR, 1, 2, 3, false, true } },
    { "lokr-factor", { VT_ADAPTER_LOKR, 1, 0.5, 2, false, false } },
    { "lokr-whole", { VT_ADAPTER_LOKR, 1, 0.5, 4, true, false } },
    { "doha", { VT_ADAPTER_DOHA, 3, 1.5, 0, false, false } },
    { "dokr", { VT_ADAPTER_DOKR, 1, 0.5, 2, false, false } },
    { "dokr-both", { VT_ADAPTER_DOKR, 1, 2, 3, false, true } },
    { "dokr-whole", { VT_ADAPTER_DOKR, 1, 0.5, 4, true, false } },
};

typedef struct layers { vt_lin up, down; } layers;
static const vt_weight table[] = {
    { "up", VT_W_LINEAR, offsetof(layers, up), { HIDDEN, IN }, VT_INIT_XAVIER },
    { "down", VT_W_LINEAR, offsetof(layers, down), { OUT, HIDDEN }, VT_INIT_XAVIER },
    { 0 }
};

typedef struct model {
    vt_ctx *g;
    vt_params *p;
    layers at;
    float *x, *target;
} model;

static bool same_size(void *arg, const char *module, vt_adapter_size *s)
{
    (void)module;
    *s = *(const vt_adapter_size *)arg;
    return true;
}

static void open_model(model *m, const vf_safetensors *f, const vt_adapter_size *size)
{
    vc_err err = { 0 };
    int matched;
    assert_ok(vt_open(&m->g, &(vt_options){ .device = "cpu", .threads = 1, .compute = VC_F32 },
                      &err), &err);
    assert_ok(vt_params_open(&m->p, m->g, &err), &err);
    assert_ok(vt_params_bind(m->p, table, "", 0, &m->at, NULL, &(vt_source){ .seed = 1 }, &err),
              &err);
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *w = vt_params_at(m->p, i);
        for (int64_t k = 0; k < vt_count(w->t); k++)
            ((float *)w->t->data)[k] = golden_fill(w->name, w->t->nd, w->t->dim, k);
    }
    assert_ok(vt_params_adapt(m->p, same_size, (void *)(uintptr_t)size, 3, &matched, &err), &err);
    assert_int_equal(matched, 2);
    m->x = golden_values(f, "x", NULL);
    m->target = golden_values(f, "target", NULL);
}

static void close_model(model *m)
{
    free(m->x);
    free(m->target);
    vt_params_close(m->p);
    vt_close(m->g);
}

/* Calls `each` for the golden's values of every factor; returns the number of factors. */
static int factors(const model *m, const vf_safetensors *f, const char *name, const char *when,
                   void (*each)(const char *factor, const vt_tensor *t, float *values))
{
    int n = 0;
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *w = vt_params_at(m->p, i);
        if (w->role == VT_P_BASE)
            continue;
        char *tensor = vc_format("%s/%s/%s", name, when, w->name);
        int64_t dim[8];
        float *values = golden_values(f, tensor, dim);
        for (int k = 0; k < w->t->nd; k++)
            if (dim[k] != w->t->dim[k])
                fail_msg("%s: axis %d has %lld values, not %lld", tensor, k,
                         (long long)w->t->dim[k], (long long)dim[k]);
        each(tensor, w->t, values);
        free(values);
        free(tensor);
        n++;
    }
    return n;
}

/* Magnitudes begin as the reference's do; all else begins as the golden's. */
static void start(const char *factor, const vt_tensor *t, float *values)
{
    if (strstr(factor, "magnitude") || strstr(factor, "dora_scale"))
        assert_true(golden_error(t->data, values, vt_count(t)) < 1e-6);
    memcpy(t->data, values, (size_t)vt_count(t) * sizeof *values);
}

static void put(const char *factor, const vt_tensor *t, float *values)
{
    (void)factor;
    memcpy(t->data, values, (size_t)vt_count(t) * sizeof *values);
}

static void same(const char *factor, const vt_tensor *t, float *values)
{
    double worst = 0;
    for (int64_t k = 0; k < vt_count(t); k++)
        worst = fmax(worst, fabs((double)((float *)t->data)[k] - (double)values[k]));
    if (!(worst < 1e-5))
        fail_msg("%s: a value differs by %g", factor, worst);
}

static vt_tensor *output(const model *m)
{
    vt_tensor *x = vt_from_host(m->g, VC_F32, 2, (int64_t[]){ ROWS, IN }, m->x, VC_F32);
    return vt_feed_forward(m->g, x, &m->at.up, &m->at.down);
}

static double step(model *m)
{
    vc_err err = { 0 };
    vt_params_zero_grad(m->p);
    vt_step_begin(m->g, VT_RECORD);
    vt_tensor *t = vt_from_host(m->g, VC_F32, 2, (int64_t[]){ ROWS, OUT }, m->target, VC_F32);
    vt_tensor *loss = vt_mse(m->g, output(m), t, NULL);
    vt_backward(m->g, loss);
    const double value = vt_item(m->g, loss);
    assert_ok(vt_step_end(m->g, &err), &err);
    return value;
}

static void same_output(const model *m, const vf_safetensors *f, const char *name,
                        const char *what)
{
    float y[ROWS * OUT];
    vc_err err = { 0 };
    char *tensor = vc_format("%s/%s", name, what);
    float *want = golden_values(f, tensor, NULL);
    vt_step_begin(m->g, 0);
    assert_ok(vt_to_host(m->g, output(m), y, &err), &err);
    assert_ok(vt_step_end(m->g, &err), &err);
    const double far = golden_error(y, want, ROWS * OUT);
    if (!(far < 1e-5))
        fail_msg("%s differs by %g", tensor, far);
    free(want);
    free(tensor);
}

static void test_fifty_steps(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("adapters");
    for (size_t i = 0; i < COUNT(rows); i++) {
        const vt_opt_step adamw = { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8,
                                    .weight_decay = 0.01, .grad_scale = 1 };
        model m;
        vt_opt_state s;
        vc_err err = { 0 };
        char *losses = vc_format("%s/loss", rows[i].golden);
        float *want = golden_values(f, losses, NULL);
        open_model(&m, f, &rows[i].size);
        assert_true(factors(&m, f, rows[i].golden, "start", start) >= 4);
        assert_ok(vt_opt_open(&s, m.p, VT_ADAMW, NULL, &err), &err);
        for (int k = 0; k < STEPS; k++) {
            vt_opt_step o = adamw;
            const double loss = step(&m);
            if (!(fabs(loss - (double)want[k]) < 1e-5 * (double)want[k]))
                fail_msg("%s, step %d: loss %.9g, not %.9g", rows[i].golden, k, loss,
                         (double)want[k]);
            o.step = k + 1;
            vt_opt_apply(m.p, &s, &o);
        }
        factors(&m, f, rows[i].golden, "end", same);
        same_output(&m, f, rows[i].golden, "y");
        m.at.up.lora_scale *= 0.5f;
        m.at.down.lora_scale *= 0.5f;
        same_output(&m, f, rows[i].golden, "half");
        vt_opt_close(&s, m.p);
        close_model(&m);
        free(want);
        free(losses);
    }
    vf_safetensors_close(f);
}

/* Computes the output with the adapter left out, or of the layers without it. */
static void bare_output(model *m, bool left_out, float y[ROWS * OUT])
{
    vc_err err = { 0 };
    vt_step_begin(m->g, 0);
    if (left_out)
        vt_leave_out_lora(m->g);
    assert_ok(vt_to_host(m->g, output(m), y, &err), &err);
    assert_ok(vt_step_end(m->g, &err), &err);
}

/* The base's prediction, which priors aim at, has nothing of any adapter, and the next step has it
 * again. */
static void test_left_out(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("adapters");
    for (size_t i = 0; i < COUNT(rows); i++) {
        model m;
        float y[3][ROWS * OUT];
        open_model(&m, f, &rows[i].size);
        factors(&m, f, rows[i].golden, "end", put);
        bare_output(&m, true, y[0]);
        bare_output(&m, false, y[1]);
        assert_memory_not_equal(y[0], y[1], sizeof y[0]);
        m.at.up.apply = m.at.down.apply = NULL;
        m.at.up.lora_a = m.at.up.lora_b = m.at.down.lora_a = m.at.down.lora_b = NULL;
        bare_output(&m, false, y[2]);
        assert_memory_equal(y[0], y[2], sizeof y[0]);
        close_model(&m);
    }
    vf_safetensors_close(f);
}

/* Only LoRA and rsLoRA adapt a convolution. */
static void test_convolution(void **state)
{
    static const vt_weight conv[] = {
        { "patch", VT_W_CONV, 0, { OUT, 3, 2, 2 }, VT_INIT_XAVIER }, { 0 }
    };
    (void)state;
    for (int kind = 0; kind < VT_ADAPTERS; kind++) {
        vt_adapter_size size = { .kind = kind, .rank = 2, .alpha = 2 };
        vt_ctx *g;
        vt_params *p;
        vt_lin lin;
        int matched;
        vc_err err = { 0 };
        assert_ok(vt_open(&g, &(vt_options){ .device = "cpu", .threads = 1, .compute = VC_F32 },
                          &err), &err);
        assert_ok(vt_params_open(&p, g, &err), &err);
        assert_ok(vt_params_bind(p, conv, "", 0, &lin, NULL, &(vt_source){ .seed = 1 }, &err),
                  &err);
        const int rc = vt_params_adapt(p, same_size, &size, 3, &matched, &err);
        assert_int_equal(rc, vt_adapters[kind].convs ? 0 : VC_EUSAGE);
        if (rc)
            assert_says(&err, "patch is a convolution, which only lora and rslora adapt");
        vt_params_close(p);
        vt_close(g);
    }
}

/* LyCORIS's factorization: n, factor, the smaller of the two and the larger. */
static const int64_t splits[][4] = {
    { 127, -1, 1, 127 }, { 128, -1, 8, 16 }, { 250, -1, 10, 25 }, { 512, -1, 16, 32 },
    { 1024, -1, 32, 32 }, { 128, 2, 2, 64 }, { 250, 4, 2, 125 }, { 250, 8, 5, 50 },
    { 360, 16, 15, 24 }, { 1024, 8, 8, 128 }, { 512, 64, 8, 64 }, { 1, -1, 1, 1 }, { 12, 5, 3, 4 },
};

static void test_splits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(splits); i++) {
        int64_t m, n;
        vt_adapter_split(splits[i][0], splits[i][1], &m, &n);
        assert_int_equal(m, splits[i][2]);
        assert_int_equal(n, splits[i][3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifty_steps),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_splits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
