/* reference.c - opens the tiny models of goldens and compares results with them; see reference.h */
#include "common/adapters/adapter.h"
#include "tests/train/models/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "train/lora/lora.h"
#include "train/models/weights.h"

void ref_open_parts(ref_model *m, const char *name, vc_dtype stored, vc_dtype compute)
{
    const vt_options o = { .device = golden_device(), .threads = 1, .compute = compute };
    const char *dir = golden_tmp(name);
    vc_err err = { 0 };
    *m = (ref_model){ .golden = golden_open(name) };
    m->config = golden_json(m->golden, "config");
    golden_model(m->golden, dir, stored);
    if (vf_model_open(&m->file, dir, &err) || vt_open(&m->g, &o, &err) ||
        vt_params_open(&m->params, m->g, &err))
        fail_msg("%s: %s", name, err.text);
}

void ref_open(ref_model *m, const vtrain_family *family, const char *name, vc_dtype stored,
              vc_dtype compute)
{
    vc_err err = { 0 };
    ref_open_parts(m, name, stored, compute);
    const vt_source src = vf_model_source(m->file);
    if (vtrain_dit_open(&m->model, family, m->config, m->params, &src, &err) ||
        vf_model_all_bound(m->file, m->params, family->spare, &err))
        fail_msg("%s: %s", name, err.text);
}

int ref_open_with(ref_model *m, const vtrain_family *family, const char *name, const char *more,
                  vc_err *err)
{
    cJSON *extra, *field;
    ref_open_parts(m, name, VC_BF16, VC_F32);
    assert_ok(vf_json_parse(&extra, more, strlen(more), err), err);
    while ((field = extra->child)) {
        cJSON_DeleteItemFromObject(m->config, field->string);
        cJSON_DetachItemViaPointer(extra, field);
        cJSON_AddItemToObject(m->config, field->string, field);
    }
    cJSON_Delete(extra);
    const vt_source src = vf_model_source(m->file);
    return vtrain_dit_open(&m->model, family, m->config, m->params, &src, err);
}

/* The paths of all linears, the names of their weights without ".weight"; a NULL ends the list. */
static char **modules_of(vt_params *params)
{
    int n = vt_params_count(params), k = 0;
    char **modules = calloc((size_t)n + 1, sizeof *modules);
    for (int i = 0; i < n; i++) {
        const char *name = vt_params_at(params, i)->name, *end = strstr(name, ".weight");
        if (end && vt_params_at(params, i)->t->nd >= 2)
            modules[k++] = strndup(name, (size_t)(end - name));
    }
    return modules;
}

int ref_add_lora(ref_model *m)
{
    char value[512] = "", *note = NULL, **modules = modules_of(m->params);
    int first = vt_params_count(m->params), matched = 0;
    vtrain_targets *targets;
    cJSON *lora = golden_json(m->golden, "lora");
    const cJSON *t, *list = cJSON_GetObjectItem(lora, "target_modules");
    cJSON_ArrayForEach(t, list)
        snprintf(value + strlen(value), sizeof value - strlen(value), "%s,", t->valuestring);
    OK(vtrain_targets_open(&targets, value, (const char *const *)modules,
                           (const char *const[]){ NULL }, NULL, &note, &err));
    OK(vt_params_lora(m->params, vtrain_targets_match, targets,
                      cJSON_GetObjectItem(lora, "r")->valueint,
                      cJSON_GetObjectItem(lora, "lora_alpha")->valuedouble, 1, &matched, &err));
    for (int i = first; i < vt_params_count(m->params); i++) {
        vt_param *p = vt_params_at(m->params, i);
        float *x = malloc((size_t)vt_count(p->t) * sizeof *x);
        for (int64_t k = 0; k < vt_count(p->t); k++)
            x[k] = golden_fill(p->name, p->t->nd, p->t->dim, k);
        vt_param_set(m->g, p->t, x, VC_F32);
        free(x);
    }
    vtrain_targets_close(targets);
    for (int i = 0; modules[i]; i++)
        free(modules[i]);
    free(modules);
    free(note);
    cJSON_Delete(lora);
    return matched;
}

void ref_close(ref_model *m)
{
    vtrain_dit_close(m->model);
    vt_params_close(m->params);
    vt_close(m->g);
    vf_model_close(m->file);
    cJSON_Delete(m->config);
    vf_safetensors_close(m->golden);
}

float *ref_read(const ref_model *m, const vt_tensor *t)
{
    vc_err err = { 0 };
    float *x = malloc((size_t)vt_count(t) * sizeof *x);
    assert_ok(vt_to_host(m->g, t, x, &err), &err);
    return x;
}

/* The texts of a slot, with the rows of zeros that the family wants behind them. */
static vt_tensor *load_text(ref_model *m, int slot, const float *from, const int64_t from_dim[3])
{
    vtrain_fit fit;
    const vtrain_dit *d = m->model;
    d->family->fit(m->model, &fit);
    int64_t dim[3] = { from_dim[0], from_dim[1], from_dim[2] };
    size_t row = (size_t)(dim[1] * dim[2]);
    if (fit.text_rows[slot] > dim[1])
        dim[1] = fit.text_rows[slot];
    size_t wide = (size_t)(dim[1] * dim[2]);
    float *text = calloc((size_t)dim[0] * wide, sizeof *text);
    for (size_t b = 0; b < (size_t)dim[0]; b++)
        memcpy(text + b * wide, from + b * row, row * sizeof *text);
    vt_tensor *x = vt_from_host(m->g, VC_F32, 3, dim, text, VC_F32);
    free(text);
    return x;
}

vtrain_in ref_inputs(ref_model *m, const ref_case *c, vt_remat remat)
{
    vtrain_in in = {
        .x = vt_from_host(m->g, VC_F32, 5, c->dim, c->x, VC_F32),
        .t = vt_from_host(m->g, VC_F32, 1, c->dim, c->t, VC_F32),
        .t_next = c->t_next ? vt_from_host(m->g, VC_F32, 1, c->dim, c->t_next, VC_F32) : NULL,
        .fps = c->fps, .clean = c->clean, .control_scale = c->control_scale, .n_texts = 1,
        .control_kind = c->has_kinds ? c->control_kind : NULL,
        .recompute = { remat == VT_KEEP ? 0 : 1000, remat },
    };
    for (int i = 0; i < 2; i++)                /* FLUX.1 reads tokens of slot 1, others of slot 0 */
        in.text[i] = (vtrain_cond){ .embeds = load_text(m, 0, c->text, c->text_dim),
                                    .length = c->length };
    if (c->text_2)
        in.text[1] = (vtrain_cond){ .embeds = load_text(m, 1, c->text_2, c->text_2_dim),
                                    .length = c->length_2 };
    for (int i = 0; c->pooled && i < 2; i++)  /* HunyuanVideo reads slot 1, others read slot 0 */
        in.text[i].pooled = vt_from_host(m->g, VC_F32, 2, c->pooled_dim, c->pooled, VC_F32);
    if (c->text_3)
        in.text[2] = (vtrain_cond){ .embeds = load_text(m, 2, c->text_3, c->text_3_dim),
                                    .length = c->length_3 };
    if (c->pooled_2)
        in.text[1].pooled = vt_from_host(m->g, VC_F32, 2, c->pooled_2_dim, c->pooled_2, VC_F32);
    if (c->token_t)
        in.token_t = vt_from_host(m->g, VC_F32, 2, c->token_dim, c->token_t, VC_F32);
    if (c->frame_t)
        in.frame_t = vt_from_host(m->g, VC_F32, 2, c->frame_dim, c->frame_t, VC_F32);
    if (c->guidance)
        in.guidance = vt_from_host(m->g, VC_F32, 1, c->dim, c->guidance, VC_F32);
    for (int i = 0; i < VC_ROLES; i++)
        if (c->cond[i])
            in.cond[i] = vt_from_host(m->g, VC_F32, i == VC_ROLE_VISION ? 3 : 5, c->cond_dim[i],
                                      c->cond[i], VC_F32);
    if (c->sound) {
        in.sound = vt_from_host(m->g, VC_F32, 5, c->sound_dim, c->sound, VC_F32);
        in.sound_length = c->sound_length;
    }
    return in;
}

/* *sound, unless sound is NULL, gets the prediction of the sound. */
static vt_tensor *forward_both(ref_model *m, const ref_case *c, vt_remat remat, vt_tensor **sound)
{
    vtrain_in in = ref_inputs(m, c, remat), side;
    if (c->first_row) {
        vtrain_first_row(m->g, &in, &side);
        in.side = &side;
    }
    return vtrain_forward(m->g, m->model, &in, sound);
}

vt_tensor *ref_forward(ref_model *m, const ref_case *c, vt_remat remat)
{
    return forward_both(m, c, remat, NULL);
}

/* The mean over the rows of the mean square of each one's sound, where it has some. */
static vt_tensor *sound_loss(ref_model *m, const ref_case *c, vt_tensor *sound)
{
    const int64_t rows = c->sound_dim[0], l = c->sound_dim[2], dim[5] = { rows, 1, l, 1, 1 };
    float *weight = calloc((size_t)(rows * l), sizeof *weight);
    for (int64_t i = 0; i < rows * l; i++)
        if (i % l < c->sound_length[i / l])
            weight[i] = (float)l / (float)c->sound_length[i / l];
    vt_tensor *w = vt_from_host(m->g, VC_F32, 5, dim, weight, VC_F32);
    vt_tensor *target = vt_from_host(m->g, VC_F32, 5, c->sound_dim, c->sound_target, VC_F32);
    free(weight);
    return vt_mse(m->g, sound, target, w);
}

static vt_tensor *ref_loss(ref_model *m, const ref_case *c, vt_tensor *y, vt_tensor *sound)
{
    vt_tensor *target = vt_from_host(m->g, VC_F32, 5, c->dim, c->target, VC_F32);
    vt_tensor *loss = vt_mse(m->g, y, target, NULL);
    return c->sound ? vt_add(m->g, loss, sound_loss(m, c, sound)) : loss;
}

float ref_step(ref_model *m, const ref_case *c, vt_remat remat, float *out)
{
    bool train = vt_params_bytes(m->params).trained > 0;
    vc_err err = { 0 };
    vt_params_zero_grad(m->params);
    vt_step_begin(m->g, train ? VT_RECORD : 0);
    vt_tensor *sound = NULL, *y = forward_both(m, c, remat, &sound);
    vt_tensor *loss = ref_loss(m, c, y, sound);
    assert_ok(out && y && vt_to_host(m->g, y, out, &err), &err);
    assert_ok(out && sound && vt_to_host(m->g, sound, out + vt_count(y), &err), &err);
    if (train)
        vt_backward(m->g, loss);
    float value = vt_item(m->g, loss);
    assert_ok(vt_step_end(m->g, &err), &err);
    if (train)
        vt_params_settle(m->params);
    return value;
}

/* ---- comparison ---- */

double ref_size(const float *x, int64_t n, bool mean)
{
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return INFINITY;
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
    double off = ref_size(d, n, mean);
    free(d);
    return off / fmax(ref_size(b, n, mean), floor);
}

float *ref_wanted(const ref_model *m, const vt_param *p, const char *prefix)
{
    return ref_values(m->golden, prefix, p->name, NULL);
}

static double largest_grad(const ref_model *m, const char *prefix, bool mean)
{
    double most = 0;
    for (int i = 0; i < vt_params_count(m->params); i++) {
        const vt_param *p = vt_params_at(m->params, i);
        if (!p->trained)
            continue;
        float *want = ref_wanted(m, p, prefix);
        most = fmax(most, want ? ref_size(want, vt_count(p->t), mean) : 0);
        free(want);
    }
    return most;
}

static double grad_error(const ref_model *m, const vt_param *p, const char *prefix,
                         const ref_tolerance *t, double floor)
{
    float *want = ref_wanted(m, p, prefix), *got = ref_read(m, p->grad);
    if (!want) {
        free(got);
        return vt_param_reached(p) ? INFINITY : 0;
    }
    double e = error_above(got, want, vt_count(p->t), t->mean, floor);
    free(want);
    free(got);
    return e;
}

int ref_check_grads(const ref_model *m, const char *prefix, const ref_tolerance *t)
{
    double floor = t->floor * largest_grad(m, prefix, t->mean), worst = 0;
    int bad = 0;
    for (int i = 0; i < vt_params_count(m->params); i++) {
        const vt_param *p = vt_params_at(m->params, i);
        assert_false(p->buffer && p->trained);
        if (!p->trained)
            continue;
        double e = grad_error(m, p, prefix, t, floor);
        worst = fmax(worst, e);
        if (e > t->grad) {
            print_error("%s/%s: the error is %.2g\n", prefix, p->name, e);
            bad++;
        }
    }
    print_message("%s: the largest error of a gradient is %.2g\n", prefix, worst);
    assert_true(worst > 0);
    return bad;
}

static int64_t count(const int64_t dim[5])
{
    return dim[0] * dim[1] * dim[2] * dim[3] * dim[4];
}

/* The error of the sound's output in the frames that rows have. */
static double sound_error(const ref_case *c, float *out)
{
    const int64_t *d = c->sound_dim, n = c->sound ? count(d) : 0;
    for (int64_t i = 0; i < n; i++)
        if (i / d[4] % d[2] >= c->sound_length[i / (d[1] * d[2] * d[4])])
            out[i] = 0;
    return n && ref_size(c->sound_output, n, false) > 0 ? golden_error(out, c->sound_output, n) : 0;
}

int ref_check_case(ref_model *m, const char *name, const ref_tolerance *t)
{
    ref_case c;
    ref_case_open(&c, m->golden, name);
    int64_t n = count(c.dim);
    float *out = malloc((size_t)(n + (c.sound ? count(c.sound_dim) : 0)) * sizeof *out);
    double loss = (double)ref_step(m, &c, VT_KEEP, out), e = golden_error(out, c.output, n);
    double l = fabs(loss - (double)c.loss) / (double)c.loss;
    print_message("%s: output %.2g, loss %.2g\n", name, e, l);
    if (c.sound) {
        const double s = sound_error(&c, out + n);
        print_message("%s: sound %.2g\n", name, s);
        e = fmax(e, s);
    }
    free(out);
    ref_case_close(&c);
    return !(e <= t->output) + !(l <= t->output);
}

/* ---- checks of a whole golden ---- */

void ref_check_variants(const vtrain_family *family, const ref_variant *v, size_t n,
                        const ref_tolerance *t)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        ref_model m;
        ref_open(&m, family, v[i].name, VC_BF16, t->compute);
        print_message("%s\n", v[i].name);
        for (int k = 0; k < 4 && v[i].cases[k]; k++)
            bad += ref_check_case(&m, v[i].cases[k], t);
        OK(vt_params_train(m.params, NULL, NULL, &err));
        bad += ref_check_case(&m, "base", t);
        bad += ref_check_grads(&m, "grad", t);
        ref_close(&m);
        if (!v[i].linears)
            continue;
        ref_open(&m, family, v[i].name, VC_BF16, t->compute);
        assert_int_equal(ref_add_lora(&m), v[i].linears);
        bad += ref_check_case(&m, "lora", t);
        bad += ref_check_grads(&m, "lora/grad", t);
        ref_close(&m);
    }
    assert_int_equal(bad, 0);
}

void ref_check_refusals(const vtrain_family *family, const char *name, const ref_refusal *r,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ref_model m;
        vc_err err = { 0 };
        assert_true(ref_open_with(&m, family, name, r[i].fields, &err) < 0);
        assert_says(&err, r[i].says);
        ref_close(&m);
    }
}

void ref_check_clip(const vtrain_family *family, const char *name, const char *label)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    char *says = vc_format("latents of 2 frames: %s makes pictures, which have one", label);
    ref_open(&m, family, name, VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "base");
    c.dim[0] = 1;
    c.dim[2] = 2;
    vt_step_begin(m.g, 0);
    assert_null(ref_forward(&m, &c, VT_KEEP));
    assert_int_equal(vt_step_end(m.g, &err), VC_EMISMATCH);
    assert_says(&err, says);
    ref_case_close(&c);
    ref_close(&m);
    free(says);
}

static float **all_grads(ref_model *m)
{
    int n = vt_params_count(m->params);
    float **grad = calloc((size_t)n, sizeof *grad);
    for (int i = 0; i < n; i++)
        if (vt_params_at(m->params, i)->trained)
            grad[i] = ref_read(m, vt_params_at(m->params, i)->grad);
    return grad;
}

void ref_check_input(const vtrain_family *family, const char *name, ref_case *c, const char *says)
{
    ref_model m;
    vc_err err = { 0 };
    ref_open(&m, family, name, VC_BF16, VC_F32);
    vt_step_begin(m.g, 0);
    ref_forward(&m, c, VT_KEEP);
    int rc = vt_step_end(m.g, &err);
    assert_int_equal(rc, says ? VC_EMISMATCH : 0);
    if (rc)
        assert_says(&err, says);
    ref_close(&m);
}

void ref_check_recompute(const vtrain_family *family, const char *name)
{
    ref_model m;
    ref_case c;
    ref_open(&m, family, name, VC_BF16, VC_BF16);
    ref_case_open(&c, m.golden, "base");
    OK(vt_params_train(m.params, NULL, NULL, &err));
    ref_step(&m, &c, VT_KEEP, NULL);
    float **kept = all_grads(&m);
    for (int how = VT_RECOMPUTE; how <= VT_KEEP_ATTENTION; how++) {
        ref_step(&m, &c, (vt_remat)how, NULL);
        float **now = all_grads(&m);
        for (int i = 0; i < vt_params_count(m.params); i++) {
            size_t n = (size_t)vt_count(vt_params_at(m.params, i)->t);
            if (kept[i])
                assert_memory_equal(kept[i], now[i], n * sizeof(float));
            free(now[i]);
        }
        free(now);
    }
    for (int i = 0; i < vt_params_count(m.params); i++)
        free(kept[i]);
    free(kept);
    ref_case_close(&c);
    ref_close(&m);
}

void ref_check_dry(const vtrain_family *family, const char *name)
{
    ref_model m;
    ref_case c;
    ref_open(&m, family, name, VC_BF16, VC_BF16);
    ref_case_open(&c, m.golden, "base");
    OK(vt_params_train(m.params, NULL, NULL, &err));
    for (int how = VT_KEEP; how <= VT_KEEP_ATTENTION; how++) {
        ref_step(&m, &c, (vt_remat)how, NULL);
        size_t real = vt_usage_of(m.g).pool_peak;
        vt_step_begin(m.g, VT_RECORD | VT_DRY);
        vt_tensor *sound = NULL, *y = forward_both(&m, &c, (vt_remat)how, &sound);
        vt_backward(m.g, ref_loss(&m, &c, y, sound));
        OK(vt_step_end(m.g, &err));
        assert_int_equal(vt_usage_of(m.g).pool_peak, real);
    }
    ref_case_close(&c);
    ref_close(&m);
}

void ref_check_memory(const vtrain_family *family, const ref_variant *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ref_check_recompute(family, v[i].name);
        ref_check_dry(family, v[i].name);
    }
}

double ref_f16_error(const vtrain_family *family, const char *name, const char *one)
{
    static const vc_dtype types[2] = { VC_F32, VC_F16 };
    float *out[2];
    int64_t n = 0;
    for (int i = 0; i < 2; i++) {
        ref_model m;
        ref_case c;
        ref_open(&m, family, name, types[i], VC_F32);
        const vt_tensor *w = vt_params_at(m.params, 0)->t;
        assert_true(vt_param_mapped(w) == vt_host_memory(m.g) && w->dtype == types[i]);
        ref_case_open(&c, m.golden, one);
        n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
        out[i] = malloc((size_t)n * sizeof **out);
        ref_step(&m, &c, VT_KEEP, out[i]);
        ref_case_close(&c);
        ref_close(&m);
    }
    double e = golden_error(out[1], out[0], n);
    print_message("f16 weights: output %.2g\n", e);
    free(out[0]);
    free(out[1]);
    return e;
}

/* ---- tests of cmocka ---- */

void ref_test_f32(void **state)
{
    const ref_suite *s = *state;
    ref_check_variants(s->family, s->variants, s->n, &s->f32);
}

void ref_test_bf16(void **state)
{
    const ref_suite *s = *state;
    ref_check_variants(s->family, s->variants, s->n, &s->bf16);
}

void ref_test_memory(void **state)
{
    const ref_suite *s = *state;
    ref_check_memory(s->family, s->variants, s->n);
}
