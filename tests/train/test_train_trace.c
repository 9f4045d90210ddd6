/* test_train_trace.c - the tensors in the files of --trace_dir agree with each other and with the
 * metrics. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define TINY "--dit_width 32 --dit_layers 2 --dit_heads 2 "

static const float *floats(const vf_safetensors *f, const char *name, int64_t *n)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, name, &v, &err), &err);
    assert_int_equal(v.dtype, VC_F32);
    if (n)
        *n = vf_view_count(&v);
    return v.data;
}

/* --loss_type huber --huber_delta 0.8 --loss_cutoff 1.5 */
static double bounded(double e)
{
    e = fabs(e);
    return e > 1.5 ? 0 : e > 0.8 ? 0.8 * (e - 0.4) : e * e / 2;
}

static double squared(double e)
{
    return e * e;
}

/* A file of flow matching agrees with itself; returns the sum of squares of its gradients. */
static double check_trace(const char *dir, const char *path, bool grads, double (*each)(double e))
{
    vf_safetensors *f = run_open(dir, path);
    int64_t n, rows;
    const float *x = floats(f, "latents", &n), *noise = floats(f, "noise", NULL);
    const float *noisy = floats(f, "noisy_latents", NULL), *target = floats(f, "target", NULL);
    const float *out = floats(f, "model_output", NULL), *t = floats(f, "timesteps", &rows);
    const float *s = floats(f, "sigmas", NULL), *w = floats(f, "loss_weight", NULL);
    double loss = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / (n / rows);
        double d = (double)out[i] - (double)target[i], sigma = (double)s[row];
        loss += (double)w[row] * each(d);
        assert_true(fabs((double)target[i] - ((double)noise[i] - (double)x[i])) < 1e-5);
        assert_true(fabs((double)noisy[i] - ((1 - sigma) * (double)x[i] +
                                             sigma * (double)noise[i])) < 1e-5);
        assert_true(fabs((double)t[row] - 1000 * sigma) < 1e-2);
    }
    assert_true(fabs(loss / (double)n - (double)*floats(f, "loss", NULL)) < 1e-6 * loss);
    (void)floats(f, "encoder_hidden_states", NULL);
    int params = 0, gradients = 0;
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        params += !strncmp(v->name, "param/", 6);
        if (strncmp(v->name, "grad/", 5))
            continue;
        gradients++;
        const float *g = v->data;
        for (int64_t k = 0; k < vf_view_count(v); k++)
            squares += (double)g[k] * (double)g[k];
    }
    assert_true(params > 20);
    assert_int_equal(gradients, grads ? params : 0);
    vf_safetensors_close(f);
    return squares;
}

static void test_trace(void **state)
{
    const char *dir = *state;
    char *args = vc_format(TINY "--max_train_steps 3 --gradient_accumulation_steps 2 --trace_dir "
                           "%s/trace --trace_steps 4 --weighting_scheme cosmap", dir);
    run_ok(dir, "traced", args);
    for (int step = 1; step <= 2; step++) {
        char path[96];
        snprintf(path, sizeof path, "trace/step-%06d-mb-00-rank-00.safetensors", step);
        check_trace(dir, path, false, squared);
        snprintf(path, sizeof path, "trace/step-%06d-mb-01-rank-00.safetensors", step);
        double norm = sqrt(check_trace(dir, path, true, squared));
        double logged = run_value(dir, "traced", step - 1, "grad_norm");
        if (!(fabs(norm - logged) < 1e-5 * norm))
            fail_msg("%g, logged %g", norm, logged);
    }
    assert_false(run_exists(dir, "trace/step-000003-mb-00-rank-00.safetensors"));
    free(args);
}

/* Another loss, the bell's weights, and levels of a table of 8. */
static void test_other_loss(void **state)
{
    const char *dir = *state, path[] = "trace/step-000001-mb-00-rank-00.safetensors";
    char *args = vc_format(TINY "--max_train_steps 1 --trace_dir %s/trace --huber_delta 0.8 "
                           "--loss_cutoff 1.5 --weighting_scheme bell --flow_levels 8 "
                           "--flow_shift 1 --train_batch_size 2", dir);
    int64_t rows;
    run_ok(dir, "traced", args);
    check_trace(dir, path, true, bounded);
    vf_safetensors *f = run_open(dir, path);
    const float *s = floats(f, "sigmas", &rows);
    for (int64_t i = 0; i < rows; i++)
        assert_true(s[i] > 0 && 8 * s[i] == roundf(8 * s[i]));
    vf_safetensors_close(f);
    free(args);
}

/* ---- losses of noise levels and buckets ---- */

/* Losses of the parts of a step, by the place of a part: a quarter of the levels, or a bucket. */
typedef struct parts { double sum[8]; int n[8]; char name[8][32]; } parts;

/* Adds the row's loss to its quarter: sigma is uniform in (0,1). */
static void add_row(parts *levels, double sigma, double loss)
{
    int q = (int)(4 * sigma);
    q = q > 3 ? 3 : q;
    levels->sum[q] += loss;
    levels->n[q]++;
}

static void add_bucket(parts *buckets, const vf_safetensors *f, double loss)
{
    char name[32];
    vf_view v;
    int i = 0;
    assert_int_equal(vf_safetensors_get(f, "latents", &v, NULL), 0);
    snprintf(name, sizeof name, "%lldx%lldx%lld", (long long)v.dim[2], (long long)v.dim[3],
             (long long)v.dim[4]);
    const char *own = v.dim[2] > 1 ? name : name + 2;
    while (buckets->n[i] && strcmp(buckets->name[i], own))
        i++;
    strcpy(buckets->name[i], own);
    buckets->sum[i] += loss;
    buckets->n[i]++;
}

static void add_micro(parts *levels, parts *buckets, const vf_safetensors *f)
{
    int64_t n, rows;
    const float *target = floats(f, "target", &n), *out = floats(f, "model_output", NULL);
    const float *s = floats(f, "sigmas", &rows);
    double all = 0;
    for (int64_t row = 0; row < rows; row++) {
        double loss = 0;
        for (int64_t i = row * n / rows; i < (row + 1) * n / rows; i++)
            loss += squared((double)out[i] - (double)target[i]);
        add_row(levels, (double)s[row], loss / (double)(n / rows));
        all += loss / (double)n;
    }
    add_bucket(buckets, f, all);
}

static void check_parts(const parts *p, int n, const cJSON *o, bool list)
{
    for (int i = 0; i < n; i++) {
        const cJSON *v = list ? cJSON_GetArrayItem(o, i) : cJSON_GetObjectItem(o, p->name[i]);
        const double is = p->sum[i] / p->n[i];
        if (!p->n[i])
            assert_true(cJSON_IsNull(v));
        else if (!cJSON_IsNumber(v) || fabs(v->valuedouble - is) > 1e-6 * is)
            fail_msg("part %d: %g, expected %g", i, v ? v->valuedouble : NAN, is);
    }
}

/* The log has the mean loss of the rows in each quarter of the levels, and of each bucket where a
 * step has several. */
static void test_parts(void **state)
{
    const char *dir = *state;
    char *args = vc_format(TINY "--max_train_steps 6 --gradient_accumulation_steps 3 --trace_dir "
                           "%s/trace --trace_steps 18 --weighting_scheme uniform --flow_shift 1",
                           dir);
    bool empty = false, several = false;
    run_ok(dir, "parts", args);
    char *text = run_metrics(dir, "parts", NULL), *line = text;
    for (int step = 1; step <= 6; step++, line = strchr(line, '\n') + 1) {
        parts levels = { 0 }, buckets = { 0 };
        for (int i = 0; i < 3; i++) {
            char *path = vc_format("trace/step-%06d-mb-%02d-rank-00.safetensors", step, i);
            vf_safetensors *f = run_open(dir, path);
            add_micro(&levels, &buckets, f);
            vf_safetensors_close(f);
            free(path);
        }
        cJSON *o = NULL;
        assert_int_equal(vf_json_parse(&o, line, strcspn(line, "\n"), NULL), 0);
        check_parts(&levels, 4, cJSON_GetObjectItem(o, "loss_levels"), true);
        int n = 0;
        while (buckets.n[n])
            n++;
        if (n > 1)
            check_parts(&buckets, n, cJSON_GetObjectItem(o, "loss_buckets"), false);
        else
            assert_null(cJSON_GetObjectItem(o, "loss_buckets"));
        several |= n > 1;
        for (int q = 0; q < 4; q++)
            empty |= !levels.n[q];
        cJSON_Delete(o);
    }
    assert_true(empty && several);             /* the draws of this seed have both kinds of step */
    free(text);
    free(args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trace, run_dir_setup, toy_dir_teardown),
        cmocka_unit_test_setup_teardown(test_other_loss, run_dir_setup, toy_dir_teardown),
        cmocka_unit_test_setup_teardown(test_parts, run_dir_setup, toy_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
