/* test_schedules.c - the levels, times and samples of every pipeline class with the schedulers of
 * released folders are those of the class in diffusers (scripts/golden/schedules.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/families.h"
#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/diffusion/scheduler.h"

/* diffusers computes in f32: a sample of 50 steps differs by up to 1e-5 of values near 1, and a
 * flow's time by roundings of 1000 * 2^-24. */
#define SAMPLE 2e-5
#define TIME 2.5e-4

static const char *word(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name)->valuestring;
}

static int number(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name)->valueint;
}

static const vc_pipeline *pipeline_of(const char *class)
{
    for (const vc_family *f = vc_families(); f->name; f++)
        if (vc_family_pipeline(f, class))
            return vc_family_pipeline(f, class);
    fail_msg("no family has a pipeline %s", class);
    return NULL;
}

static void read_scheduler(vtrain_scheduler *s, const cJSON *config)
{
    char *text = cJSON_PrintUnformatted(config);
    char *path = vc_path_join(golden_tmp("scheduler"), "scheduler_config.json");
    OK(vc_file_write(path, text, strlen(text), &err));
    OK(vtrain_scheduler_read(s, NULL, path, &err));
    free(path);
    cJSON_free(text);
}

/* Reports a difference in one line. */
static bool near(const char *what, const cJSON *row, int steps, int i, double a, double b,
                 double tolerance)
{
    if (fabs(a - b) <= tolerance)
        return true;
    char *scheduler = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(row, "scheduler"));
    print_error("%s, %s, step %d of %d: %s is %.9g, not %.9g\n", word(row, "class"), scheduler, i,
                steps, what, a, b);
    cJSON_free(scheduler);
    return false;
}

static bool follow(const vf_safetensors *gold, const cJSON *row, const vtrain_solver_step *step,
                   int steps)
{
    char *names[2] = { vc_format("%s.t", word(row, "name")), vc_format("%s.x", word(row, "name")) };
    float *t = golden_values(gold, names[0], NULL), *want = golden_values(gold, names[1], NULL);
    float x = want[0], past[2] = { NAN, NAN }, none = 0;
    bool same = true;
    for (int i = 0; same && i < steps; i++) {
        same = near("the time", row, steps, i, step[i].t, (double)t[i], TIME) &&
               near("the sample", row, steps, i, (double)x, (double)want[i], SAMPLE);
        float v = (float)((double)x / 2 - (double)t[i] / 1000 + 0.3);
        vtrain_solver_apply(&step[i], &x, past, &v, &none, 1);
    }
    same = same && near("the sample", row, steps, steps, (double)x, (double)want[steps], SAMPLE);
    free(t);
    free(want);
    free(names[0]);
    free(names[1]);
    return same;
}

static bool check(const vf_safetensors *gold, const cJSON *row)
{
    const int steps = number(row, "steps");
    vtrain_solver_step step[64];
    vtrain_scheduler s;
    vtrain_objective *objective;
    read_scheduler(&s, cJSON_GetObjectItemCaseSensitive(row, "scheduler"));
    const vtrain_objective_opts o = {
        .kind = s.kind, .shift = s.shift, .by_tokens = s.by_tokens, .beta_start = s.beta_start,
        .beta_end = s.beta_end, .snr_shift = s.snr_shift, .zero_snr = s.zero_snr,
    };
    OK(vtrain_objective_open(&objective, &o, &err));
    const vtrain_solver_opts plan = vtrain_scheduler_plan(&s, s.sampler,
        pipeline_of(word(row, "class")), objective, number(row, "tokens"), steps);
    OK(vtrain_solver_plan(step, &plan, &err));
    bool same = follow(gold, row, step, steps);
    vtrain_objective_close(objective);
    vtrain_scheduler_free(&s);
    return same;
}

static void pipelines_are_diffusers(void **state)
{
    (void)state;
    vf_safetensors *gold = golden_open("schedules");
    cJSON *rows = golden_json(gold, "pipelines"), *row;
    int n = 0, same = 0;
    cJSON_ArrayForEach(row, rows) {
        same += check(gold, row);
        n++;
    }
    print_message("%d of %d schedules\n", same, n);
    assert_true(n > 200);
    assert_int_equal(same, n);
    cJSON_Delete(rows);
    vf_safetensors_close(gold);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pipelines_are_diffusers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
