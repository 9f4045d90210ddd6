/* test_conditions_step.c - a step with conditions, frames in front and loss masks: the inputs of
 * its forward, its loss, and its memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/conditions_set.h"
#include "train/steps/step.h"
#include "train/vtrain.h"

static char *const dir = toy_dir;

static struct { float *x, *image, *video, *mask, *token_t; } seen;

static void keep(vt_ctx *g, float **to, const vt_tensor *t)
{
    *to = t ? calloc((size_t)vt_count(t), sizeof **to) : NULL;
    if (t && vt_to_host(g, t, *to, NULL))
        fail_msg("cannot read a tensor of the step");
}

static void forget(void)
{
    free(seen.x);
    free(seen.image);
    free(seen.video);
    free(seen.mask);
    free(seen.token_t);
    memset(&seen, 0, sizeof seen);
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

/* Predicts its input, and keeps copies of its inputs. */
static vt_tensor *toy_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    (void)model;
    (void)s;
    forget();
    keep(g, &seen.x, in->x);
    keep(g, &seen.image, in->cond[VC_ROLE_IMAGE]);
    keep(g, &seen.video, in->cond[VC_ROLE_VIDEO]);
    keep(g, &seen.mask, in->cond[VC_ROLE_MASK]);
    keep(g, &seen.token_t, in->token_t);
    vt_tensor *y = in->x;
    for (int i = 0; i < VC_ROLES; i++)
        if (in->cond[i])
            y = vt_add(g, y, vt_scale(g, in->cond[i], 0));
    return y;
}

/* Whether the row's first frame is clean: its tokens have time 0, and no other token has. */
static bool is_clean(const vtrain_batch *b, int64_t row)
{
    if (!seen.token_t)
        return false;
    int64_t frame = AREA / 4, n = b->dim[2] * frame;
    const float *t = seen.token_t + row * n;
    for (int64_t i = 0; i < n; i++)
        assert_true(t[i] == (i < frame ? t[0] : t[n - 1]) && t[n - 1] > 0);
    assert_true(t[0] == 0 || t[0] == t[n - 1]);
    return t[0] == 0;
}

/* mean(w (x - (n - x0))^2) at level s of a flow, with n from x = (1-s) x0 + s n. In a row with a
 * clean first frame, the mean is that of the other frames. */
static double loss_of(const vtrain_batch *b, double s)
{
    int64_t area = b->dim[3] * b->dim[4], clip = b->dim[2] * area, n = b->rows * CHANNELS * clip;
    double sum = 0, all = (double)b->dim[2];
    for (int64_t i = 0; i < n; i++) {
        int64_t place = i % clip, row = i / (CHANNELS * clip);
        double x = (double)seen.x[i], x0 = (double)b->latents[i], noise = (x - (1 - s) * x0) / s;
        double w = b->weighted ? (double)b->loss_weight[row * clip + place] : 1;
        if (is_clean(b, row)) {
            w *= place < area ? 0 : all / (all - 1);
            if (place < area)
                assert_true(seen.x[i] == b->latents[i]);
        }
        sum += w * (x - (noise - x0)) * (x - (noise - x0));
    }
    return sum / (double)n;
}

/* Bytes of a step's text of n tokens per row: n is the longest row, or in a dry step the longest
 * that the dataset has. */
static size_t text_bytes(int rows, int64_t n)
{
    return ((size_t)(rows * n) * 4 * sizeof(float) + 63) / 64 * 64;
}

/* Checks that the forward's inputs are the batch's values, that the loss has its weights, and that
 * a dry step takes the same memory. Returns the number of rows with a clean first frame. */
static int check_step(vtrain *t, const vtrain_batch *b)
{
    int clean = 0;
    vtrain_micro m = { .batch = b, .seed = SEED, .level = 0.5, .number = b->micro };
    vtrain_level level = vtrain_level_of(t->objective, 1, 0.5);
    vc_err err = { 0 };
    vt_usage dry, real;
    const int64_t place = b->rows * b->dim[2] * AREA;
    const int64_t longest = vtrain_data_longest(vtrain_data_slot(t->data, 0), 0, false);
    assert_ok(vtrain_micro_run(t, &m, false, &err), &err);
    real = vt_usage_of(t->g);
    assert_true(fabs((double)m.loss - loss_of(b, level.sigma)) < 1e-4 * (double)m.loss);
    assert_true(!seen.token_t == !(t->cfg.first_frame_conditioning_p > 0 && b->dim[2] > 1));
    for (int row = 0; row < b->rows; row++)
        clean += is_clean(b, row);
    assert_true(!seen.image == !b->cond[VC_ROLE_IMAGE]);
    assert_true(!seen.video == !b->cond[VC_ROLE_VIDEO]);
    if (seen.image)
        assert_memory_equal(seen.image, b->cond[VC_ROLE_IMAGE],
                            (size_t)(b->rows * CHANNELS * AREA) * 4);
    if (seen.video) {
        assert_memory_equal(seen.video, b->cond[VC_ROLE_VIDEO], (size_t)(place * CHANNELS) * 4);
        assert_memory_equal(seen.mask, b->cond[VC_ROLE_MASK], (size_t)place * 4);
    }
    assert_ok(vtrain_micro_dry(t, b->dim, &b->own, false, (vtrain_recompute){ 0 }, NULL, &dry,
                               &err), &err);
    if (b->weighted == vtrain_data_weighted(t->data))
        assert_int_equal(dry.pool_peak - text_bytes(b->rows, longest),
                         real.pool_peak - text_bytes(b->rows, b->text[0].n));
    return clean;
}

static void fit_alike(const void *model, vtrain_fit *fit)
{
    (void)model;
    *fit = set_fit(&(wish){ 0 });
    fit->token_times = true;
}

/* Takes steps on the batches of a dataset, with the chance p of a clean first frame; returns the
 * number of clean first frames. */
static int steps_on(const toy *data, const wish *w, double p)
{
    static const atomic_int stop = 0;
    vtrain_family family = set_family(w);
    vc_err err = { 0 };
    int clean = 0;
    family.fit = fit_alike;
    family.prepare = none_to_prepare;
    family.embed = none_to_embed;
    family.head = toy_head;
    vtrain_dit model = { .family = &family };      /* without blocks */
    vtrain t = { .model = { .family = &family, .dit = &model }, .data = set_open(dir, data, w, 0),
                 .stop = &stop };
    t.cfg.gradient_accumulation_steps = t.cfg.sp = 1;
    t.cfg.first_frame_conditioning_p = p;
    const vtrain_objective_opts o = { .kind = VTRAIN_FLOW, .shift = 1, .logit_std = 1,
                                      .micros = 1 };
    assert_ok(vt_open(&t.g, &(vt_options){ .threads = 1 }, &err) ||
              vtrain_objective_open(&t.objective, &o, &err), &err);
    vtrain_loader *l = set_loader(t.data, (vtrain_loader_opts){ .end = 12 });
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
        clean += check_step(&t, b);
    forget();
    vtrain_loader_close(l);
    vtrain_objective_close(t.objective);
    vt_close(t.g);
    vtrain_data_close(t.data);
    return clean;
}

static void test_step(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        const wish w = { .roles = mode == 2 ? 0 : mode ? VIDEO | MASK : IMAGE, .pad = true };
        toy data = mode ? set_inpaint : set_i2v;
        data.train_mode = mode == 2 ? "normal" : data.train_mode;
        data.conditions |= 1 << VC_ROLE_LOSS_MASK;
        assert_int_equal(steps_on(&data, &w, 0), 0);
    }
}

/* The 24 rows are clips and stills. */
static void test_first_frame(void **state)
{
    (void)state;
    toy data = { .sample = set_samples, .n = SAMPLES, .scaling = SCALING };
    const int all = steps_on(&data, &(wish){ 0 }, 1), some = steps_on(&data, &(wish){ 0 }, 0.5);
    assert_true(some > 0 && some < all);
    data.conditions = 1 << VC_ROLE_LOSS_MASK;
    assert_int_equal(steps_on(&data, &(wish){ 0 }, 0.5), some);
}

/* The trace of a whole run on a dataset with loss masks obeys the contract of traces. */
static void test_trace(void **state)
{
    (void)state;
    toy t = { .sample = set_samples, .n = SAMPLES, .conditions = 1 << VC_ROLE_LOSS_MASK };
    char *path = vc_format("%s/traced", dir), *args;
    t.path = path;
    toy_make(&t);
    args = vc_format("--latents %s --output_dir %s/run --trace_dir %s/trace --max_train_steps 1 "
                     "--train_batch_size 2 --threads 1 --report_to none --dit_width 16 "
                     "--dit_layers 1 --dit_heads 1", path, dir, dir);
    vc_err err = { 0 };
    assert_ok(run_bare(args, &err), &err);
    free(args);
    free(path);

    vf_safetensors *st;
    vf_view y, target, w, loss;
    path = vc_format("%s/trace/step-000001-mb-00-rank-00.safetensors", dir);
    assert_ok(vf_safetensors_open(&st, path, &err) ||
              vf_safetensors_get(st, "model_output", &y, &err) ||
              vf_safetensors_get(st, "target", &target, &err) ||
              vf_safetensors_get(st, "loss_weight", &w, &err) ||
              vf_safetensors_get(st, "loss", &loss, &err), &err);
    assert_true(w.nd == 5 && w.dim[1] == 1 && w.dim[2] == y.dim[2] && w.dim[4] == y.dim[4]);
    int64_t place = w.dim[2] * w.dim[3] * w.dim[4], all = place * y.dim[1], n = y.dim[0] * all;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = (double)((const float *)y.data)[i] - (double)((const float *)target.data)[i];
        sum += e * e * (double)((const float *)w.data)[i / all * place + i % place];
    }
    assert_float_equal(sum / (double)n, *(const float *)loss.data, 1e-5);
    vf_safetensors_close(st);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step), cmocka_unit_test(test_first_frame),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
