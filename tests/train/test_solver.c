/* test_solver.c - noise schedules, sampling times and sampler steps equal diffusers' (goldens
 * schedulers, samplers). */
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
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/diffusion/scheduler.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static void near(const char *what, double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%s: %.12g is not %.12g (+-%g)", what, a, b, tolerance);
}

/* The f64 values of a golden, malloc'ed. */
static double *doubles(const vf_safetensors *f, const char *name, int64_t *n)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, name, &v, &err), &err);
    assert_int_equal(v.dtype, VC_F64);
    double *x = malloc(v.bytes);
    memcpy(x, v.data, v.bytes);
    if (n)
        *n = vf_view_count(&v);
    return x;
}

/* ---- schedules ---- */

static const struct { const char *name; double shift; bool zero; } tables[] = {
    { "s1", 1, true }, { "s3", 3, true }, { "plain", 1, false }, { "plain3", 3, false },
};

static vtrain_objective *open_table(double shift, bool zero)
{
    const vtrain_objective_opts o = {
        .kind = VTRAIN_V, .beta_start = 0.00085, .beta_end = 0.012, .snr_shift = shift,
        .zero_snr = zero, .shift = 1,
    };
    vtrain_objective *x;
    vc_err err = { 0 };
    assert_ok(vtrain_objective_open(&x, &o, &err), &err);
    return x;
}

static double *table_values(const vf_safetensors *f, const char *table, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", table, what);
    return doubles(f, name, NULL);
}

/* f64 tables differ by the order of roundings alone; coefficients are rounded to f32 once. */
static void schedule_equals_diffusers(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("schedulers");
    int64_t n, times[8];
    double *x = doubles(f, "x", &n), *noise = doubles(f, "n", NULL);
    float *t = golden_values(f, "times", times);
    for (size_t i = 0; i < COUNT(tables); i++) {
        vtrain_objective *o = open_table(tables[i].shift, tables[i].zero);
        double *a = table_values(f, tables[i].name, "alphas_cumprod");
        double *noisy = table_values(f, tables[i].name, "noisy");
        double *v = table_values(f, tables[i].name, "velocity");
        for (int k = 0; k < VTRAIN_TIMES; k++)
            near("alpha_bar", vtrain_alpha_bar(o, k), a[k], 1e-14);
        for (int64_t k = 0; k < times[0]; k++) {
            vtrain_level l = vtrain_level_at(o, (double)t[k]);
            for (int64_t e = 0; e < n; e++) {
                double at = (double)l.x_of * x[e] + (double)l.n_of * noise[e];
                double to = (double)l.tx_of * x[e] + (double)l.tn_of * noise[e];
                near("noisy", at, noisy[k * n + e], 4e-7);
                near("target", to, v[k * n + e], 4e-7);
            }
        }
        free(a);
        free(noisy);
        free(v);
        vtrain_objective_close(o);
    }
    free(x);
    free(noise);
    free(t);
    vf_safetensors_close(f);
}

/* ---- times ---- */

static void times_equal_diffusers(void **state)
{
    (void)state;
    static const char *const spacings[] = { "trailing", "linspace", "leading" };
    vf_safetensors *f = golden_open("samplers");
    int lists = 0;
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        for (int s = 0; s < 3; s++) {
            char start[32];
            int steps, t[VTRAIN_TIMES], at;
            snprintf(start, sizeof start, "times.%s.", spacings[s]);
            if (strncmp(v->name, start, strlen(start)))
                continue;
            steps = atoi(v->name + strlen(start));
            assert_int_equal(steps, v->dim[0]);
            vtrain_solver_times(t, steps, (vtrain_spacing)s);
            for (int k = 0; k < steps; k++) {
                memcpy(&at, (const char *)v->data + 4 * k, 4);
                if (t[k] != at)
                    fail_msg("%s: step %d is at %d, not %d", v->name, k, t[k], at);
            }
            lists++;
        }
    }
    assert_int_equal(lists, 21);
    vf_safetensors_close(f);
}

/* ---- steps ---- */

typedef struct walk {
    const vf_safetensors *f;
    double *start, *w, *noise;
    int64_t n;
} walk;

static walk walk_open(const vf_safetensors *f)
{
    walk k = { .f = f };
    k.start = doubles(f, "start", &k.n);
    k.w = doubles(f, "w", NULL);
    k.noise = doubles(f, "noise", NULL);
    return k;
}

/* Compares one trajectory. The state is f32, so each step rounds by 6e-8, and the model (which
 * predicts half of x) and later steps propagate the error: up to 2e-6 of the greatest value after
 * 50 steps. */
static void same_walk(const walk *k, const char *name, const vtrain_solver_opts *o)
{
    int64_t n;
    double *want = doubles(k->f, name, &n), most = 0;
    vtrain_solver_step step[64];
    vc_err err = { 0 };
    assert_int_equal(n, o->steps * k->n);
    assert_ok(vtrain_solver_plan(step, o, &err), &err);
    float x[16], past[2 * 16], v[16], noise[16];
    assert_true((size_t)k->n <= COUNT(x));
    for (int64_t e = 0; e < k->n; e++) {
        x[e] = (float)k->start[e];
        past[e] = past[k->n + e] = NAN;                  /* the first step must not read these */
    }
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (int i = 0; i < o->steps; i++) {
        for (int64_t e = 0; e < k->n; e++) {
            double t = o->sampler == VTRAIN_UNIPC ? step[i].level : step[i].level / 1000;
            v[e] = (float)((double)x[e] / 2 - t + k->w[e]);
            noise[e] = (float)k->noise[i * k->n + e];
        }
        vtrain_solver_apply(&step[i], x, past, v, noise, (size_t)k->n);
        for (int64_t e = 0; e < k->n; e++)
            near(name, (double)x[e], want[i * k->n + e], 2e-6 * most);
    }
    free(want);
}

static void steps_equal_diffusers(void **state)
{
    (void)state;
    static const int lengths[] = { 50, 28, 10, 7, 1 };
    vf_safetensors *f = golden_open("samplers");
    walk k = walk_open(f);
    for (int s = 1; s <= 3; s += 2) {
        vtrain_objective *table = open_table(s, true);
        for (int kind = 0; kind < 2; kind++) {
            char name[32];
            vtrain_solver_opts o = {
                .sampler = kind ? VTRAIN_DPM : VTRAIN_DDIM, .final_alpha = 1,
                .alpha_bar = vtrain_alpha_bars(table),
            };
            for (size_t i = 0; i < COUNT(lengths); i++) {
                o.steps = lengths[i];
                snprintf(name, sizeof name, "%s.s%d.%d", kind ? "dpm" : "ddim", s, lengths[i]);
                same_walk(&k, name, &o);
            }
            o.steps = 10;
            o.spacing = VTRAIN_LINSPACE;
            o.final_alpha = o.alpha_bar[0];
            snprintf(name, sizeof name, "%s.s%d.linspace", kind ? "dpm" : "ddim", s);
            same_walk(&k, name, &o);
        }
        vtrain_objective_close(table);
    }
    free(k.start);
    free(k.w);
    free(k.noise);
    vf_safetensors_close(f);
}

/* The first authors' guided sampler of TTT. On the table of the training their tables and clean
 * pictures, which are f32, make a difference of 2e-6 of the greatest value; the table that their
 * sampler makes of its levels is another by 2e-4 and makes one of 2e-3. */
static void guided_walk(const vf_safetensors *f, const char *name, int steps, vtrain_guiding how,
                        double tolerance)
{
    int64_t n, count;
    double *start = doubles(f, "start", &n), *noise = doubles(f, "noise", NULL), most = 0;
    double *neg = doubles(f, "neg", NULL), *pos = doubles(f, "pos", NULL);
    double *want = doubles(f, name, &count);
    vtrain_objective *table = open_table(1, true);
    const vtrain_solver_opts o = { .sampler = VTRAIN_DPM, .steps = steps, .final_alpha = 1,
                                   .alpha_bar = vtrain_alpha_bars(table) };
    vtrain_solver_step step[64];
    float x[16], past[2 * 16], v[16], z[16];
    OK(vtrain_solver_plan(step, &o, &err));
    assert_int_equal(count, steps * n);
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(want[i]));
    for (int64_t e = 0; e < n; e++)
        x[e] = (float)start[e];
    for (int i = 0; i < steps; i++) {
        double w = vtrain_guidance(how, 6, 5, i, steps, step[i].t);
        for (int64_t e = 0; e < n; e++) {
            double text = neg[e] + w * (pos[e] - neg[e]);
            v[e] = (float)((double)x[e] / 2 - step[i].t / 1000 + text);
            z[e] = (float)noise[i * n + e];
        }
        vtrain_solver_apply(&step[i], x, past, v, z, (size_t)n);
        for (int64_t e = 0; e < n; e++)
            near(name, (double)x[e], want[i * n + e], tolerance * most);
    }
    vtrain_objective_close(table);
    free(start);
    free(noise);
    free(neg);
    free(pos);
    free(want);
}

static void guided_equals_ttt(void **state)
{
    (void)state;
    static const int lengths[] = { 50, 20, 10 };
    vf_safetensors *f = golden_open("ttt-sampler");
    for (int k = 0; k < 2 * (int)COUNT(lengths); k++) {
        int steps = lengths[k / 2];
        vtrain_guiding how = k % 2 ? VTRAIN_GUIDE_BY_TIME : VTRAIN_GUIDE_BY_STEP;
        char name[16], of_weights[32];
        snprintf(name, sizeof name, "%s.%d", k % 2 ? "time" : "step", steps);
        snprintf(of_weights, sizeof of_weights, "%s.weights", name);
        double *weights = doubles(f, of_weights, NULL);
        for (int i = 0; i < steps; i++)
            near("weight", vtrain_guidance(how, 6, 5, i, steps, 999 - 1000 / steps * i), weights[i],
                 1e-8);
        guided_walk(f, name, steps, how, 4e-6);
        free(weights);
    }
    guided_walk(f, "own.time.50", 50, VTRAIN_GUIDE_BY_TIME, 3e-3);
    near("constant", vtrain_guidance(VTRAIN_GUIDE_EVENLY, 6, 5, 3, 50, 939), 6, 0);
    vf_safetensors_close(f);
}

/* The timesteps that the model gets. */
static void same_times(const vf_safetensors *f, const char *walked, const vtrain_solver_opts *o)
{
    vtrain_solver_step step[VTRAIN_TIMES];
    char *name = vc_format("%s.t", walked);
    float *want = golden_values(f, name, NULL);
    assert_int_equal(vtrain_solver_plan(step, o, NULL), 0);
    for (int i = 0; i < o->steps; i++)
        near(name, step[i].t, (double)want[i], 0);
    free(want);
    free(name);
}

static void unipc_equals_diffusers(void **state)
{
    (void)state;
    static const struct { const char *name; double shift, terminal; } rows[] = {
        { "s1", 1, 0 }, { "s3", 3, 0 }, { "terminal", 3, 0.1 },
    };
    static const int lengths[] = { 50, 28, 10, 7, 1 };
    vf_safetensors *f = golden_open("samplers");
    walk k = walk_open(f);
    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t i = 0; i < COUNT(lengths) - (rows[r].terminal > 0); i++) {
            const vtrain_solver_opts o = {
                .sampler = VTRAIN_UNIPC, .steps = lengths[i], .shift = rows[r].shift,
                .terminal = rows[r].terminal, .sigmas = VC_SIGMAS_OWN,
            };
            char name[32];
            snprintf(name, sizeof name, "unipc.%s.%d", rows[r].name, lengths[i]);
            same_walk(&k, name, &o);
            same_times(f, name, &o);
        }
    free(k.start);
    free(k.w);
    free(k.noise);
    vf_safetensors_close(f);
}

/* A straight flow is followed exactly in any number of steps: x = n at the start, v = n - data. */
static void euler_follows_a_line(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 9; steps += 4)
        for (int shift = 1; shift <= 7; shift += 3) {
            vtrain_solver_step step[9];
            const vtrain_solver_opts o = {
                .sampler = VTRAIN_EULER, .steps = steps, .shift = shift,
            };
            float x = -1.25f, past[2] = { NAN, NAN }, v = -1.25f - 0.75f;
            assert_int_equal(vtrain_solver_plan(step, &o, NULL), 0);
            near("first sigma", step[0].level, 1, 0);
            for (int i = 0; i < steps; i++) {
                double s = step[i].level;
                near("on the line", (double)x, 0.75 * (1 - s) - 1.25 * s, 1e-6);
                vtrain_solver_apply(&step[i], &x, past, &v, NULL, 1);
            }
            near("the data", (double)x, 0.75, 1e-6);
        }
}

/* ---- flows ---- */

/* The flows in files of FLUX.1-dev, Qwen-Image, LTX-Video 0.9.1 and HunyuanVideo, and a flow of no
 * model. The golden has a case for each name. */
static const struct { const char *name; double shift, terminal; vtrain_by_tokens by; } flows[] = {
    { "flux", 0, 0, { true, VTRAIN_MU_EXPONENTIAL, 0.5, 1.15, 256, 4096 } },
    { "qwen", 0, 0.02, { true, VTRAIN_MU_EXPONENTIAL, 0.5, 0.9, 256, 8192 } },
    { "ltx", 0, 0.1, { true, VTRAIN_MU_EXPONENTIAL, 0.95, 2.05, 1024, 4096 } },
    { "hunyuan", 7, 0, { 0 } },
    { "linear", 0, 0.05, { true, VTRAIN_MU_LINEAR, 0.5, 1.15, 256, 4096 } },
};
/* The tolerance for diffusers' f32: a few roundings of values near 1, which the stretch divides by
 * 1 minus the last of `steps` levels. */
static double rounded(double a, int steps)
{
    return 3e-7 / fmax(1 - vtrain_shifted(a, 1.0 / steps), 1e-3);
}

static void same_flow(const vf_safetensors *f, size_t flow, int64_t tokens)
{
    static vtrain_solver_step step[VTRAIN_TIMES];
    static const int lengths[] = { 50, 28, 7, 1 };
    int64_t dim[8];
    char name[64];
    vtrain_objective *o;
    const vtrain_objective_opts opts = {
        .kind = VTRAIN_FLOW, .shift = flows[flow].shift, .by_tokens = flows[flow].by,
    };
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const vtrain_solver_opts plan = {
            .sampler = VTRAIN_EULER, .steps = lengths[i], .terminal = flows[flow].terminal,
            .shift = vtrain_objective_shift(o, tokens),
        };
        assert_int_equal(vtrain_solver_plan(step, &plan, NULL), 0);
        snprintf(name, sizeof name, "flow.%s.%lld.%d", flows[flow].name, (long long)tokens,
                 lengths[i]);
        float *sigma = golden_values(f, name, dim);
        for (int k = 0; k < lengths[i]; k++)
            near(name, step[k].level, (double)sigma[k], rounded(plan.shift, lengths[i]));
        near(name, step[lengths[i] - 1].x, 0, 0);
        free(sigma);
    }
    snprintf(name, sizeof name, "flow.%s.%lld.table", flows[flow].name, (long long)tokens);
    float *table = golden_values(f, name, dim);
    double a = vtrain_objective_shift(o, tokens), tolerance = rounded(a, VTRAIN_TIMES);
    for (int k = 0; k < VTRAIN_TIMES / 8; k++) {
        vtrain_level l = vtrain_level_of(o, tokens, 8 * k / (double)VTRAIN_TIMES);
        double sampled = vtrain_stretched(l.sigma, vtrain_shifted(a, 1.0 / VTRAIN_TIMES),
                                          flows[flow].terminal);
        near(name, sampled, (double)table[k], tolerance);      /* training has no stretch */
        near(name, (double)l.t, 1000 * l.sigma, 1e-4);
    }
    free(table);
    vtrain_objective_close(o);
}

static void flows_equal_diffusers(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("schedulers");
    static const int64_t tokens[] = { 64, 256, 1024, 4096, 13312 };
    for (size_t i = 0; i < COUNT(flows); i++)
        for (size_t k = 0; k < COUNT(tokens); k++)
            same_flow(f, i, tokens[k]);
    vf_safetensors_close(f);
}

/* With a million tokens, far more than any schedule was made for, all levels are finite and near
 * 1. */
static void many_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(flows); i++) {
        if (!flows[i].by.on)
            continue;
        double a = vtrain_shift_factor(&flows[i].by, 1 << 30);
        assert_true(isfinite(a) && a > 1);
        near("the last level", vtrain_shifted(a, 1e-3), 1, 0.1);
    }
}

/* Every number of steps gives finite factors. */
static void any_number_of_steps(void **state)
{
    (void)state;
    static vtrain_solver_step step[VTRAIN_TIMES];
    vtrain_objective *table = open_table(3, true);
    for (int spacing = 0; spacing < 3; spacing++)
        for (int kind = 0; kind < 2; kind++)
            for (int n = 1; n <= VTRAIN_TIMES; n += n < 70 ? 1 : 31) {
                const vtrain_solver_opts o = {
                    .sampler = kind ? VTRAIN_DPM : VTRAIN_DDIM, .spacing = (vtrain_spacing)spacing,
                    .steps = n, .alpha_bar = vtrain_alpha_bars(table), .final_alpha = 1,
                };
                assert_int_equal(vtrain_solver_plan(step, &o, NULL), 0);
                for (int i = 0; i < n; i++) {
                    double sum = step[i].x + step[i].clean + step[i].last + step[i].noise;
                    assert_true(isfinite(sum) && step[i].level >= 0 && step[i].level < 1000);
                    assert_true(i == 0 || step[i].level < step[i - 1].level);
                }
                assert_true(step[0].last == 0);
            }
    vtrain_objective_close(table);
}

static void odd_plans_are_refused(void **state)
{
    (void)state;
    double flat[VTRAIN_TIMES];
    vtrain_solver_step step[1];
    vc_err err = { 0 };
    for (int i = 0; i < VTRAIN_TIMES; i++)
        flat[i] = 0.5;
    const vtrain_solver_opts bad[] = {
        { .sampler = VTRAIN_DDIM, .steps = 1, .alpha_bar = flat, .final_alpha = 1 },
        { .sampler = VTRAIN_DDIM, .steps = 0, .alpha_bar = flat, .final_alpha = 1 },
        { .sampler = VTRAIN_DPM, .steps = 1001, .alpha_bar = flat, .final_alpha = 1 },
        { .sampler = VTRAIN_EULER, .steps = 1, .shift = 0 },
        { .sampler = VTRAIN_EULER, .steps = 1, .shift = INFINITY },
        { .sampler = VTRAIN_UNIPC, .steps = 1, .shift = 0 },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(vtrain_solver_plan(step, &bad[i], &err), VC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_equals_diffusers), cmocka_unit_test(times_equal_diffusers),
        cmocka_unit_test(steps_equal_diffusers),
        cmocka_unit_test(guided_equals_ttt), cmocka_unit_test(unipc_equals_diffusers),
        cmocka_unit_test(euler_follows_a_line),
        cmocka_unit_test(any_number_of_steps),   cmocka_unit_test(odd_plans_are_refused),
        cmocka_unit_test(flows_equal_diffusers),   cmocka_unit_test(many_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
