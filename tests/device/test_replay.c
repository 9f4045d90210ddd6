/* test_replay.c - work that is captured once and replayed by one call, on the device "host", which
 * captures each kernel's launch and runs no kernel during the capture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory/replay.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

/* A model on a device, and its training step. */
typedef struct trial {
    vt_ctx *g;
    em_model m;
    int steps, queued;                         /* steps, and runs of the work's C code */
    vt_tensor *x, *text, *t, *target, *weight;
    vt_remat how;
    bool weighted, uploads;
    int variant, layers;
    float factor;
} trial;

static void open_trial(trial *s, bool replays)
{
    vc_err err = { 0 };

    *s = (trial){ .factor = 1, .layers = LAYERS };
    assert_ok(vt_open(&s->g, &(vt_options){ .device = "host", .pool_limit = 64 << 20 }, &err),
              &err);
    em_open(&s->m, s->g, 3);
    assert_ok(vt_params_train(s->m.p, NULL, NULL, &err), &err);
    if (!replays)
        vt_profile_begin(s->g);                /* a profile times kernels one by one: no replay */
    assert_int_equal(replays, !vt_replay_off(s->g));
}

static void close_trial(trial *s)
{
    vt_params_close(s->m.p);
    vt_close(s->g);
}

static vt_tensor *queue(void *arg)
{
    trial *s = arg;
    vt_ctx *g = s->g;
    vt_tensor *x[3] = { vt_linear(g, s->x, &s->m.in), s->text };

    s->queued++;
    if (s->uploads)
        em_input(g, 1, (int64_t[]){ 5 });
    x[2] = vt_reshape(g, vt_timestep(g, s->t, WIDTH, 1e4f), 3, (int64_t[]){ BATCH, 1, WIDTH });
    for (int i = 0; i < s->layers; i++)
        vt_run_block(g, &s->m.block[i], s->how, x, x);
    vt_tensor *loss = vt_mse(g, vt_linear(g, x[0], &s->m.head), s->target, s->weight);
    loss = vt_scale(g, loss, s->factor);
    vt_backward(g, loss);
    return loss;
}

static vt_tensor *input(const trial *s, int nd, const int64_t *dim)
{
    float v[BATCH * TOKENS * WIDTH];
    size_t n = 1;

    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    for (size_t i = 0; i < n; i++)             /* each step has other data */
        v[i] = em_data(n)[i] / (float)(1 + s->steps % 7);
    return vt_from_host(s->g, VC_F32, nd, dim, v, VC_F32);
}

static int try_step(trial *s, float *loss, vc_err *err)
{
    const int64_t video[] = { BATCH, TOKENS, 7 }, text[] = { BATCH, TEXT, WIDTH }, rows = BATCH;
    const vt_work w = { .queue = queue, .arg = s, .variant = 2 * s->variant + (int)s->how };

    vt_step_begin(s->g, VT_RECORD);
    s->x = input(s, 3, video);
    s->text = input(s, 3, text);
    s->t = input(s, 1, &rows);
    s->target = input(s, 3, video);
    s->weight = s->weighted ? input(s, 1, &(int64_t){ 1 }) : NULL;
    *loss = vt_item(s->g, vt_replay(s->g, s->m.p, &w));
    return vt_step_end(s->g, err);
}

static float step(trial *s)
{
    float loss;
    vc_err err = { 0 };

    assert_ok(try_step(s, &loss, &err), &err);
    s->steps++;
    return loss;
}

/* Runs the same step of both trials: loss and gradients have the same bits. */
static void same_step(trial *a, trial *b)
{
    size_t n, m;
    float x = step(a), y = step(b);
    float *grads = em_gradients(&a->m, &n), *others = em_gradients(&b->m, &m);

    assert_true(x == y && n == m);
    assert_memory_equal(grads, others, n * sizeof *grads);
    free(grads);
    free(others);
}

static void begin_gradients(trial *a, trial *b)
{
    vt_params_zero_grad(a->m.p);
    vt_params_zero_grad(b->m.p);
}

/* Work has eight kinds: recomputed or not, weighted or not, gradients overwritten or added to. */
static void test_bits(void **state)
{
    enum { ROUNDS = 4 };
    trial a, b;

    (void)state;
    open_trial(&a, true);
    open_trial(&b, false);
    for (int i = 0; i < ROUNDS * 4; i++) {
        a.how = b.how = i & 1 ? VT_RECOMPUTE : VT_KEEP;
        a.weighted = b.weighted = i & 2;
        begin_gradients(&a, &b);
        for (int micro = 0; micro < 2; micro++) {
            vt_usage plain, use;
            same_step(&a, &b);
            plain = vt_usage_of(b.g);
            use = vt_usage_of(a.g);
            assert_int_equal(use.replayed, i >= 4);
            assert_int_equal(use.pool_peak, plain.pool_peak);
            assert_int_equal(use.saved, plain.saved);
            assert_true(use.flops == plain.flops);
        }
    }
    assert_int_equal(b.queued, ROUNDS * 8);
    assert_int_equal(a.queued, 2 * 8);         /* the first and the second run of each kind */
    close_trial(&a);
    close_trial(&b);
}

static void repeat(trial *a, trial *b, int queued)
{
    int before = a->queued;

    for (int i = 0; i < 4; i++) {
        begin_gradients(a, b);
        same_step(a, b);
    }
    assert_int_equal(a->queued - before, queued);
}

/* Work on parameters at other addresses is another kind; at the old addresses the old kind is found
 * again. */
static void test_moved_parameters(void **state)
{
    trial a, b;
    vt_tensor **average[2];

    (void)state;
    open_trial(&a, true);
    open_trial(&b, false);
    repeat(&a, &b, 2);
    assert_int_equal(vt_ema_open(&average[0], a.m.p, NULL, NULL), 0);
    assert_int_equal(vt_ema_open(&average[1], b.m.p, NULL, NULL), 0);
    vt_ema_swap(average[0], a.m.p);
    vt_ema_swap(average[1], b.m.p);
    repeat(&a, &b, 2);
    vt_ema_swap(average[0], a.m.p);
    vt_ema_swap(average[1], b.m.p);
    repeat(&a, &b, 0);
    vt_ema_close(average[0], a.m.p);
    vt_ema_close(average[1], b.m.p);
    close_trial(&a);
    close_trial(&b);
}

/* Another step made the scratch memory grow and move: the captured graph cannot be used. */
static void test_moved_scratch(void **state)
{
    trial a, b;
    vc_err err = { 0 };

    (void)state;
    open_trial(&a, true);
    open_trial(&b, false);
    repeat(&a, &b, 2);
    vt_step_begin(a.g, VT_RECORD);
    vt_tensor *x = vt_reshape(a.g, em_input(a.g, 1, (int64_t[]){ 8192 }), 2,
                              (int64_t[]){ -1, WIDTH });
    vt_tensor *wide[10];
    for (int i = 0; i < 10; i++)
        wide[i] = x;
    x = vt_layer_norm(a.g, vt_concat(a.g, 0, 10, wide), a.m.layer[0].norm_w, a.m.layer[0].norm_b,
                      1e-5f);
    vt_backward(a.g, vt_sum(a.g, x));
    assert_ok(vt_step_end(a.g, &err), &err);
    repeat(&a, &b, 1);
    close_trial(&a);
    close_trial(&b);
}

/* A number of the host that is no part of the kind keeps its captured value: no C code runs. */
static void test_not_queued(void **state)
{
    trial s;
    float loss[3];

    (void)state;
    open_trial(&s, true);
    for (int i = 0; i < 3; i++) {
        s.steps = 0;                           /* the same data */
        s.factor = i < 2 ? 1 : 2;
        vt_params_zero_grad(s.m.p);
        loss[i] = step(&s);
    }
    assert_true(loss[0] == loss[1] && loss[2] == loss[1]);
    close_trial(&s);
}

/* If a capture fails, the step fails and changes nothing; the repeated step is queued without a
 * capture. */
static void test_failed_capture(void **state)
{
    static const char *const why[] = { "it is full", "an upload cannot be captured" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        trial a, b;
        float loss;
        vc_err err = { 0 };
        open_trial(&a, true);
        open_trial(&b, false);
        a.uploads = b.uploads = i == 1;
        begin_gradients(&a, &b);
        same_step(&a, &b);
        begin_gradients(&a, &b);               /* the repeated step must overwrite them */
        assert_false(vt_replay_gave_up(a.g));
        if (i == 0)
            setenv("VLT_HOST_CAPTURE_FAULT", why[i], 1);
        assert_int_not_equal(try_step(&a, &loss, &err), 0);
        assert_says(&err, why[i]);
        assert_true(vt_replay_gave_up(a.g));
        assert_false(vt_replay_gave_up(a.g));
        assert_string_equal(vt_replay_off(a.g), why[i]);
        same_step(&a, &b);
        unsetenv("VLT_HOST_CAPTURE_FAULT");
        repeat(&a, &b, 4);
        close_trial(&a);
        close_trial(&b);
    }
}

/* With more kinds than are remembered the oldest ones are captured again. */
static void test_forgotten_kinds(void **state)
{
    enum { MANY = 65 };
    trial s;

    (void)state;
    open_trial(&s, true);
    s.layers = 1;
    for (int pass = 0; pass < 2; pass++)
        for (s.variant = 0; s.variant < MANY; s.variant++)
            for (int k = 0; k < 2; k++) {
                vt_params_zero_grad(s.m.p);
                step(&s);
            }
    assert_int_equal(s.queued, 2 * 2 * MANY);
    s.variant = MANY - 1;
    step(&s);                                  /* gradients are added: another kind */
    vt_params_zero_grad(s.m.p);
    step(&s);
    assert_int_equal(s.queued, 2 * 2 * MANY + 1);
    close_trial(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_moved_parameters),
        cmocka_unit_test(test_moved_scratch), cmocka_unit_test(test_not_queued),
        cmocka_unit_test(test_failed_capture), cmocka_unit_test(test_forgotten_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
