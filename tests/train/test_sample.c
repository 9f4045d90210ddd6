/* test_sample.c - validation samples of models whose predictions are known: padded frames, first
 * frames, samplers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/sampling/sample.h"
#include "train/steps/step.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- a model that predicts a fixed clean picture ---- */

/* The clean picture is 10 c + frame; with an image, the first frame is the image. */
typedef struct oracle {
    vtrain_dit dit;                               /* without blocks: the head predicts */
    vtrain_fit fit;
    int calls;
    int64_t dim[5];                               /* of the last call */
    bool image;                                   /* the last call had an image */
    float guidance, fps;                          /* of the last call; guidance -1: not given */
    float *masked, *mask;                         /* [rows,C,f,h,w], [rows,1,f,h,w] of the first
                                                   * call with a mask */
} oracle;

static void oracle_fit(const void *model, vtrain_fit *fit)
{
    *fit = ((const oracle *)model)->fit;
}

static float *clean_of(const oracle *m, const vtrain_in *in)
{
    const int64_t *d = in->x->dim, plane = d[3] * d[4];
    float *x = malloc(sizeof *x * (size_t)vt_count(in->x));
    const vt_tensor *image = in->cond[VC_ROLE_IMAGE];
    for (int64_t i = 0; i < vt_count(in->x); i++) {
        int64_t f = i / plane % d[2], c = i / plane / d[2] % d[1];
        int64_t at = i / plane / d[2] * plane + i % plane;
        x[i] = image && f == 0 ? ((const float *)image->data)[at] : (float)(10 * c + f);
    }
    (void)m;
    return x;
}

static float *copy_of(const vt_tensor *t)
{
    size_t n = sizeof(float) * (size_t)vt_count(t);
    return memcpy(malloc(n), t->data, n);
}

static void none_to_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    (void)g;
    (void)model;
    (void)in;
}

static void none_to_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    (void)g;
    (void)model;
    (void)in;
    (void)s;
}

/* Returns the objective's target for the clean picture, where x = signal clean + noise n. */
static vt_tensor *oracle_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    oracle *m = model;
    vt_tensor *x = in->x;
    double level = (double)((const float *)in->t->data)[0] / 1000;
    float *clean = clean_of(m, in);
    (void)s;
    vt_tensor *d = vt_from_host(g, VC_F32, 5, x->dim, clean, VC_F32);
    free(clean);
    m->calls++;
    memcpy(m->dim, x->dim, sizeof m->dim);
    m->image = in->cond[VC_ROLE_IMAGE] != NULL;
    m->guidance = in->guidance ? *(const float *)in->guidance->data : -1;
    m->fps = in->fps[0];
    if (in->cond[VC_ROLE_VIDEO] && in->cond[VC_ROLE_MASK] && !m->masked) {
        m->masked = copy_of(in->cond[VC_ROLE_VIDEO]);
        m->mask = copy_of(in->cond[VC_ROLE_MASK]);
    }
    return vt_scale(g, vt_sub(g, x, d), (float)(1 / level));           /* a flow's n - clean */
}

static const vtrain_family oracle_family = {
    .class_name = "Oracle", .fit = oracle_fit, .prepare = none_to_prepare,
    .embed = none_to_embed, .head = oracle_head,
    .scale = { [VC_ROLE_VIDEO] = VTRAIN_SCALE_FACTOR, [VC_ROLE_MASK] = VTRAIN_SCALE_FACTOR },
};

static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 4, .w = 4, .caption = { "a red ball" } },
    { .number = 1, .f = 0, .h = 4, .w = 6, .caption = { "a still" } },
    { .number = 2, .f = 3, .h = 4, .w = 4, .caption = { "rain" } },
};

/* Opens a run whose model reads `roles`; prompt 0 then has conditions of these roles. `own` holds
 * further fields of prompt 1. */
static void open_own(vtrain *t, const char *dir, unsigned roles, const char *own, vc_list *list)
{
    static const atomic_int running = 0;
    const bool image = roles & 1u << VC_ROLE_IMAGE, masked = roles & 1u << VC_ROLE_VIDEO;
    char *path = vc_path_join(dir, "toy.lmdb"), *note, *unused = NULL;
    const toy made = { .path = path, .sample = samples, .n = 3, .prompts = 2, .per_channel = true,
                       .image = image ? &samples[1] : NULL, .masked = masked ? samples : NULL,
                       .conditions = image ? 1u << VC_ROLE_IMAGE
                                   : masked ? 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK : 0,
                       .train_mode = image ? "i2v" : masked ? "inpaint" : NULL, .scaling = 0.5,
                       .own = own };
    const vtrain_fit fit = { .channels = 2, .mult = { 1, 1, 1 }, .roles = roles };
    vc_err err = { 0 };
    toy_make(&made);
    *list = (vc_list){ .item = malloc(sizeof(char *)), .n = 1 };
    list->item[0] = path;
    const vtrain_data_opts d = { .paths = list, .dataset_repeat = 1 };
    const vt_options o = { .device = "cpu", .compute = VC_F32, .threads = 1 };
    const vtrain_objective_opts flow = { .kind = VTRAIN_FLOW, .shift = 3 };
    t->stop = &running;
    t->model.family = &oracle_family;
    assert_ok(vtrain_data_open(&t->data, &d, &note, &err) ||
              vtrain_data_fit(t->data, t->model.family, &fit, &unused, &err) ||
              vt_open(&t->g, &o, &err) || vtrain_objective_open(&t->objective, &flow, &err) ||
              vtrain_scheduler_read(&t->model.scheduler, NULL, NULL, &err), &err);
    free(note);
    t->cfg = (vtrain_config){
        .guidance_scale = 2, .num_inference_steps = 4, .flow_shift = 3, .seed = 5,
        .validation_sampler = 1 + VTRAIN_EULER,
    };
    t->cfg.output_dir = vc_path_join(dir, roles ? "with" : "without");
}

static void open_toy(vtrain *t, const char *dir, unsigned roles, vc_list *list)
{
    open_own(t, dir, roles, NULL, list);
}

static void close_toy(vtrain *t, vc_list *list)
{
    vtrain_objective_close(t->objective);
    vt_close(t->g);
    vtrain_data_close(t->data);
    free(t->cfg.output_dir);
    free(list->item[0]);
    free(list->item);
}

/* Checks that the written sample of a prompt is the clean picture from frame `front` on. */
static void check_sample(const vtrain *t, int prompt, const int64_t dim[4], int front, bool image)
{
    char *path = vc_format("%s/validation/step-0/%03d.safetensors", t->cfg.output_dir, prompt);
    vf_safetensors *f;
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, path, &err) ||
              vf_safetensors_get(f, "latents", &v, &err), &err);
    assert_int_equal(v.nd, 4);
    assert_memory_equal(v.dim, dim, 4 * sizeof *dim);
    assert_string_equal(vf_safetensors_meta(f, "sampler"), "euler");
    const vtrain_norm *norm = vtrain_data_norm(t->data);
    const float *x = v.data;
    for (int64_t i = 0; i < vf_view_count(&v); i++) {
        int64_t plane = dim[2] * dim[3], frame = i / plane % dim[1], c = i / plane / dim[1];
        double clean = 10.0 * (double)c + (double)frame + front;
        double raw = clean / (double)norm->mul[c] + (double)norm->sub[c];
        if (image && frame + front == 0)
            raw = (double)toy_mean(samples[1].number, 0, c * plane + i % plane);
        if (!(fabs((double)x[i] - raw) <= 1e-4))
            fail_msg("%s: %lld: %g, not %g", path, (long long)i, (double)x[i], raw);
    }
    vf_safetensors_close(f);
    free(path);
}

/* Prompt 0 has the common grid (3x4x4); prompt 1 asks for 10 frames of 40 x 24: 4x5x3. */
static void test_front(void **state)
{
    static const struct {
        int mult[3];
        bool pad;
        int64_t dim[2][4], f;                       /* shapes of both files; sampled frames of the
                                                     * last prompt */
        int front[2];
    } rows[] = {
        { { 1, 1, 1 }, false, { { 2, 3, 4, 4 }, { 2, 4, 5, 3 } }, 4, { 0, 0 } },
        { { 2, 2, 1 }, true, { { 2, 3, 4, 4 }, { 2, 4, 4, 3 } }, 4, { 1, 0 } },
        { { 3, 1, 3 }, true, { { 2, 3, 4, 3 }, { 2, 4, 5, 3 } }, 6, { 0, 2 } },
        { { 2, 1, 1 }, false, { { 2, 2, 4, 4 }, { 2, 4, 5, 3 } }, 4, { 0, 0 } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vtrain t = { 0 };
        vc_list list;
        oracle m = { .dit.family = &oracle_family,
                     .fit = { .channels = 2, .pad_front = rows[i].pad } };
        vc_err err = { 0 };
        memcpy(m.fit.mult, rows[i].mult, sizeof m.fit.mult);
        open_toy(&t, *state, 0, &list);
        t.model.dit = &m;
        assert_ok(vtrain_validate(&t, &err), &err);
        assert_int_equal(m.calls, 8);
        assert_int_equal(m.dim[0], 2);                          /* guidance needs two rows */
        assert_int_equal(m.dim[2], rows[i].f);
        assert_false(m.image);
        for (int k = 0; k < 2; k++)
            check_sample(&t, k, rows[i].dim[k], rows[i].front[k], false);
        close_toy(&t, &list);
    }
}

/* A model with guidance as an input predicts once per step; the last prompt has fps 16. */
static void test_guidance_input(void **state)
{
    for (int takes = 0; takes < 2; takes++) {
        vtrain t = { .model.guidance = takes };
        vc_list list;
        vc_err err = { 0 };
        oracle m = { .dit.family = &oracle_family,
                     .fit = { .channels = 2, .mult = { 1, 1, 1 }, .guidance = takes } };
        open_toy(&t, *state, 0, &list);
        t.cfg.guidance_scale = 3.5;
        t.model.dit = &m;
        assert_ok(vtrain_validate(&t, &err), &err);
        assert_int_equal(m.dim[0], takes ? 1 : 2);
        assert_true(m.guidance == (takes ? 3.5f : -1) && m.fps == 16);
        check_sample(&t, 1, (const int64_t[]){ 2, 4, 5, 3 }, 0, false);
        close_toy(&t, &list);
    }
}

/* Prompt 0 has a still of 4x6 as first frame, and its sample has this size; prompt 1 has none. */
static void test_image(void **state)
{
    vtrain t = { 0 };
    vc_list list;
    vc_err err = { 0 };
    oracle m = { .dit.family = &oracle_family, .fit = { .channels = 2, .mult = { 1, 2, 2 },
                                                        .roles = 1u << VC_ROLE_IMAGE } };
    open_toy(&t, *state, 1u << VC_ROLE_IMAGE, &list);
    t.model.dit = &m;
    assert_ok(vtrain_validate(&t, &err), &err);
    check_sample(&t, 0, (const int64_t[]){ 2, 3, 4, 6 }, 0, true);
    check_sample(&t, 1, (const int64_t[]){ 2, 4, 4, 2 }, 0, false);
    assert_false(m.image);                                       /* prompt 1 has none */

    m.fit.roles = 0;                                             /* the model reads none */
    assert_ok(vtrain_validate(&t, &err), &err);
    check_sample(&t, 0, (const int64_t[]){ 2, 3, 4, 6 }, 0, false);

    m.fit.roles = 1u << VC_ROLE_IMAGE;
    m.fit.mult[2] = 4;                                           /* 6 columns do not fit */
    assert_fails(vtrain_validate(&t, &err), VC_EMISMATCH, &err, "4 x 6");
    close_toy(&t, &list);
}

/* Checks that the model got the condition of prompt 0, times the scaling factor, in both rows, with
 * copies of its first frame in front. */
static void check_condition(const float *got, vc_role what, int channels, int front)
{
    enum { F = 3, AREA = 16, ROWS = 2 };
    const int f = F + front;
    for (int i = 0; i < ROWS * channels * f * AREA; i++) {
        int at = i / AREA % f, c = i / AREA / f % channels, from = at > front ? at - front : 0;
        float raw = toy_condition(what, samples[0].number, (c * F + from) * AREA + i % AREA);
        if (got[i] != raw * 0.5f)
            fail_msg("%d: %g, not %g", i, (double)got[i], (double)raw * 0.5);
    }
}

/* Prompt 0 has a masked clip and its mask; prompt 1 has neither. */
static void test_masked(void **state)
{
    static const unsigned roles = 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK;
    static const struct { int mult[3]; bool pad; int front; const char *says; } rows[] = {
        { { 1, 2, 2 }, false, 0, NULL }, { { 2, 1, 1 }, true, 1, NULL },
        { { 2, 1, 1 }, false, 0, "3 x 4 x 4" }, { { 1, 1, 3 }, false, 0, "3 x 4 x 4" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vtrain t = { 0 };
        vc_list list;
        vc_err err = { 0 };
        oracle m = { .dit.family = &oracle_family,
                     .fit = { .channels = 2, .pad_front = rows[i].pad, .roles = roles } };
        memcpy(m.fit.mult, rows[i].mult, sizeof m.fit.mult);
        open_toy(&t, *state, roles, &list);
        t.model.dit = &m;
        int rc = vtrain_validate(&t, &err);
        if (rows[i].says) {
            assert_fails(rc, VC_EMISMATCH, &err, rows[i].says);
        } else {
            assert_ok(rc, &err);
            assert_int_equal(m.calls, 8);
            assert_non_null(m.masked);
            check_condition(m.masked, VC_ROLE_VIDEO, 2, rows[i].front);
            check_condition(m.mask, VC_ROLE_MASK, 1, rows[i].front);
            check_sample(&t, 0, (const int64_t[]){ 2, 3, 4, 4 }, rows[i].front, false);
        }
        free(m.masked);
        free(m.mask);
        close_toy(&t, &list);
    }
}

/* ---- noise ---- */

/* Predicts v = x / 2 plus the first number of the row's text / 64, so that a sample is a function
 * of its noise and guidance alone. */
static vt_tensor *half_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    oracle *m = model;
    const vt_tensor *text = in->text[0].embeds;
    const int64_t *d = in->x->dim, n = vt_count(in->x), row = n / d[0];
    float *v = copy_of(in->x);
    (void)s;
    m->calls++;
    memcpy(m->dim, d, sizeof m->dim);
    for (int64_t i = 0; i < n; i++)
        v[i] = v[i] / 2 + ((const float *)text->data)[i / row * text->dim[1] * text->dim[2]] / 64;
    vt_tensor *y = vt_from_host(g, VC_F32, 5, d, v, VC_F32);
    free(v);
    return y;
}

static const vtrain_family half_family = {
    .class_name = "Half", .fit = oracle_fit, .prepare = none_to_prepare,
    .embed = none_to_embed, .head = half_head,
};

/* The stochastic DPM-Solver++ by hand: the sample begins with draw 0 of its prompt, and step i adds
 * draw i + 1; elements are in the order C,f,h,w. The sample is guided where the run's scale is
 * above 1. */
static void dpm_by_hand(float *x, size_t n, const vtrain *t, uint32_t prompt, uint64_t seed)
{
    const float scale = (float)t->cfg.guidance_scale;
    const float pos = toy_embed("prompt 0", 0, 0) / 64;          /* prompt 1 has the same */
    const float neg = toy_embed(prompt ? "ugly" : "", 0, 0) / 64;
    enum { MOST = 256, STEPS = 4 };
    float v[MOST], past[2 * MOST], noise[MOST];
    vtrain_solver_step step[STEPS];
    const vtrain_solver_opts o = {
        .sampler = VTRAIN_DPM, .steps = STEPS, .spacing = VTRAIN_TRAILING, .final_alpha = 1,
        .alpha_bar = vtrain_alpha_bars(t->objective),
    };
    assert_true(n <= MOST);
    assert_int_equal(vtrain_solver_plan(step, &o, NULL), 0);
    vc_train_normals(x, 0, n, seed, prompt, 0, 72);
    for (int i = 0; i < STEPS; i++) {
        for (size_t k = 0; k < n; k++)
            v[k] = scale > 1 ? x[k] / 2 + neg + scale * (x[k] / 2 + pos - (x[k] / 2 + neg))
                             : x[k] / 2 + pos;
        vc_train_normals(noise, 0, n, seed, prompt, (uint32_t)i + 1, 72);
        assert_true((step[i].noise != 0) == (i < STEPS - 1));
        vtrain_solver_apply(&step[i], x, past, v, noise, n);
    }
}

/* Opens a run with half_head as the model, and the stochastic solver. */
static void open_half(vtrain *t, oracle *m, const char *dir, const char *own, vc_list *list)
{
    static const vtrain_objective_opts o = {
        .kind = VTRAIN_V, .beta_start = 0.00085, .beta_end = 0.012, .snr_shift = 3,
        .zero_snr = true, .shift = 1,
    };
    vc_err err = { 0 };
    *m = (oracle){ .dit.family = &half_family, .fit = { .channels = 2, .mult = { 1, 1, 1 } } };
    open_own(t, dir, 0, own, list);
    vtrain_objective_close(t->objective);
    assert_ok(vtrain_objective_open(&t->objective, &o, &err), &err);
    t->model.family = &half_family;
    t->model.dit = m;
    t->cfg.validation_sampler = 1 + VTRAIN_DPM;
}

/* Whether a prompt's written sample equals the sample by hand, bit for bit. */
static bool is_by_hand(const vtrain *t, uint32_t prompt, uint64_t seed)
{
    const vtrain_norm *norm = vtrain_data_norm(t->data);
    char *path = vc_format("%s/validation/step-0/%03u.safetensors", t->cfg.output_dir, prompt);
    vf_safetensors *f;
    vf_view v;
    vc_err err = { 0 };
    float x[256];
    bool same = true;
    assert_ok(vf_safetensors_open(&f, path, &err) ||
              vf_safetensors_get(f, "latents", &v, &err), &err);
    size_t n = (size_t)vf_view_count(&v), each = n / 2;
    dpm_by_hand(x, n, t, prompt, seed);
    for (size_t k = 0; same && k < n; k++)
        same = ((const float *)v.data)[k] == x[k] / norm->mul[k / each] + norm->sub[k / each];
    vf_safetensors_close(f);
    free(path);
    return same;
}

/* With a guidance of at most 1 the model makes no prediction for the negative prompt. Above 1 both
 * predictions are one forward of two rows, or two forwards of one. */
static void test_guidance(void **state)
{
    static const struct { double scale; int rows; bool apart; int calls; } rows[] = {
        { 0, 1, false, 8 }, { 0.5, 1, false, 8 }, { 1, 1, false, 8 }, { 1.001, 2, false, 8 },
        { 2, 2, false, 8 }, { 2, 1, true, 16 }, { 1, 1, true, 8 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vtrain t = { 0 };
        vc_list list;
        vc_err err = { 0 };
        oracle m;
        open_half(&t, &m, *state, NULL, &list);
        t.cfg.guidance_scale = rows[i].scale;
        t.validation.apart = rows[i].apart;
        assert_ok(vtrain_validate(&t, &err), &err);
        assert_int_equal(m.calls, rows[i].calls);
        assert_int_equal(m.dim[0], rows[i].rows);
        t.cfg.guidance_scale = rows[i].scale == 2 ? 2 : 1;
        static const uint64_t seed[] = { 5, 7 };                /* of the run, of the prompt */
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(is_by_hand(&t, k, seed[k]), rows[i].scale != 1.001);
        close_toy(&t, &list);
    }
}

/* The toy's embeddings differ by a constant, which the model's layer norm removes; their squares
 * differ in shape. */
static void square_text(vt_ctx *g, void *model, vtrain_in *in)
{
    in->text[0].embeds = vt_mul(g, in->text[0].embeds, in->text[0].embeds);
    vtrain_builtin.prepare(g, model, in);
}

/* Opens a run of a new built-in transformer; *family gets its functions. */
static void open_builtin(vtrain *t, vtrain_family *family, const char *dir, vc_list *list)
{
    vc_err err = { 0 };
    open_own(t, dir, 0, NULL, list);
    *family = vtrain_builtin;
    family->prepare = square_text;
    t->model.family = family;
    const vtrain_fresh want = { .channels = vtrain_data_norm(t->data)->channels,
                                .text_width = vtrain_data_slot(t->data, 0)->width,
                                .width = 32, .layers = 3, .heads = 2, .patch = 1 };
    assert_ok(vt_params_open(&t->params, t->g, &err) ||
              t->model.family->fresh(&t->model.config, &want, &err) ||
              vtrain_dit_open(&t->model.dit, t->model.family, t->model.config, t->params,
                              &(vt_source){ 0 }, &err), &err);
    for (int i = 0; i < vt_params_count(t->params); i++) {     /* a new head is all zeros */
        const vt_tensor *w = vt_params_at(t->params, i)->t;
        for (int64_t k = 0; k < vt_count(w); k++)
            ((float *)w->data)[k] += 0.3f * (float)((k * 7 + i) % 11 - 5) / 5;
    }
}

static float *read_sample(const vtrain *t, const char *name, size_t *n)
{
    char *path = vc_format("%s/validation/step-0/%s", t->cfg.output_dir, name);
    vf_safetensors *f;
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, path, &err) ||
              vf_safetensors_get(f, "latents", &v, &err), &err);
    *n = (size_t)vf_view_count(&v);
    float *x = memcpy(malloc(v.bytes), v.data, v.bytes);
    vf_safetensors_close(f);
    free(path);
    return x;
}

/* Guidance with one forward and with two gives the same samples, though the two prompts differ in
 * length; one byte less of memory than one forward takes divides it. */
static void test_apart(void **state)
{
    vtrain t = { 0 };
    vtrain_family family;
    vc_list list;
    vc_err err = { 0 };
    vt_usage use;
    size_t n[2];
    open_builtin(&t, &family, *state, &list);
    assert_true(toy_tokens("prompt 0") != toy_tokens(""));
    const int64_t dim[5] = { 2, 2, 4, 5, 3 };     /* of prompt 1, the larger */
    assert_ok(vtrain_micro_dry(&t, dim, &(vtrain_own){ 0 }, false, (vtrain_recompute){ 0 }, NULL,
                               &use, &err), &err);
    float *x[2][2];
    for (int apart = 0; apart < 2; apart++) {
        t.cfg.guidance_scale = 4;
        t.cfg.memory_limit = (int64_t)(use.pool_peak + use.scratch) - apart;
        assert_ok(vtrain_validate_check(&t, &err), &err);
        assert_int_equal(t.validation.apart, apart);
        assert_ok(vtrain_validate(&t, &err), &err);
        x[apart][0] = read_sample(&t, "000.safetensors", &n[0]);
        x[apart][1] = read_sample(&t, "001.safetensors", &n[1]);
    }
    for (int prompt = 0; prompt < 2; prompt++) {
        double most = 0, error = 0;
        for (size_t i = 0; i < n[prompt]; i++) {
            most = fmax(most, fabs((double)x[0][prompt][i]));
            error = fmax(error, fabs((double)x[0][prompt][i] - (double)x[1][prompt][i]));
        }
        if (!(error <= 1e-5 * most && most > 0))
            fail_msg("prompt %d: error %g of %g", prompt, error, most);
        free(x[0][prompt]);
        free(x[1][prompt]);
    }
    vtrain_dit_close(t.model.dit);
    cJSON_Delete(t.model.config);
    vt_params_close(t.params);
    close_toy(&t, &list);
}

/* Prompt 1's own numbers make the same sample as equal numbers of the run, and do not change the
 * sample of prompt 0. */
static void test_own_numbers(void **state)
{
    static const struct { const char *own; int64_t steps; double scale; } rows[] = {
        { NULL, 4, 2 }, { "{\"num_inference_steps\":0}", 4, 2 },
        { "{\"num_inference_steps\":3}", 3, 2 }, { "{\"guidance_scale\":6.5}", 4, 6.5 },
        { "{\"guidance_scale\":0}", 4, 0 },
        { "{\"num_inference_steps\":1000,\"guidance_scale\":1}", 1000, 1 },
    };
    static const char *const file[] = {
        "own/validation/step-0/000.safetensors", "run/validation/step-0/000.safetensors",
        "own/validation/step-0/001.safetensors", "run/validation/step-0/001.safetensors",
    };
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        oracle m;
        for (int run = 0; run < 3; run++) {       /* own numbers; the run's; equal in the run */
            vtrain t = { 0 };
            vc_list list;
            vc_err err = { 0 };
            open_half(&t, &m, dir, run ? NULL : rows[i].own, &list);
            free(t.cfg.output_dir);
            t.cfg.output_dir = vc_path_join(dir, run ? "run" : "own");
            if (run == 2) {
                t.cfg.num_inference_steps = rows[i].steps;
                t.cfg.guidance_scale = rows[i].scale;
            }
            assert_ok(vtrain_validate(&t, &err), &err);
            if (!run) {
                assert_int_equal(m.calls, 4 + rows[i].steps);
                assert_int_equal(m.dim[0], rows[i].scale > 1 ? 2 : 1);
            }
            if (run == 1 && !run_same_file(dir, file[0], file[1]))
                fail_msg("%s", rows[i].own);
            if (run == 2 && !run_same_file(dir, file[2], file[3]))
                fail_msg("%s", rows[i].own);
            close_toy(&t, &list);
        }
    }
}

static void test_bad_numbers(void **state)
{
    static const struct { const char *own, *says; } rows[] = {
        { "{\"num_inference_steps\":1001}", "num_inference_steps: 1001 is not in 1..1000" },
        { "{\"num_inference_steps\":-1}", "num_inference_steps: -1 is not in 1..1000" },
        { "{\"num_inference_steps\":2.5}", "num_inference_steps: expected an integer" },
        { "{\"guidance_scale\":-0.5}", "guidance_scale: -0.5 is not in 0..100" },
        { "{\"guidance_scale\":101}", "guidance_scale: 101 is not in 0..100" },
        { "{\"guidance_scale\":\"6\"}", "guidance_scale: expected" },
        { "{\"negative_segments\":[\"a\"]}", "negative_segments: 1 texts for 0 segments" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vtrain t = { 0 };
        vc_list list;
        vc_err err = { 0 };
        oracle m;
        open_half(&t, &m, *state, rows[i].own, &list);
        assert_int_equal(vtrain_validate(&t, &err), VC_EFORMAT);
        if (!strstr(err.text, rows[i].says) || !strstr(err.text, "toy.lmdb: validation prompt 1: "))
            fail_msg("%s", err.text);
        close_toy(&t, &list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front),     cmocka_unit_test(test_image),
        cmocka_unit_test(test_guidance_input),
        cmocka_unit_test(test_masked),    cmocka_unit_test(test_guidance),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_own_numbers), cmocka_unit_test(test_bad_numbers),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
