/* test_scheduler.c - scheduler files of diffusers' folders are read, or refused by the field. */
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

#define V "\"prediction_type\":\"v_prediction\","
#define FLUX VTRAIN_MU_EXPONENTIAL, 0.5, 1.15, 256, 4096
static const struct { const char *text; vtrain_scheduler s; } files[] = {
    /* the file of the released folders */
    { "{\"_class_name\":\"CogVideoXDDIMScheduler\",\"beta_start\":0.00085,\"beta_end\":0.012,"
      "\"beta_schedule\":\"scaled_linear\",\"clip_sample\":false,\"num_train_timesteps\":1000," V
      "\"rescale_betas_zero_snr\":true,\"set_alpha_to_one\":true,\"snr_shift_scale\":3.0,"
      "\"steps_offset\":0,\"timestep_spacing\":\"trailing\",\"trained_betas\":null}",
      { .kind = VTRAIN_V, .sampler = VTRAIN_DDIM, .shift = 1, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 3, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING } },
    /* diffusers' defaults of missing fields */
    { "{\"_class_name\":\"CogVideoXDPMScheduler\"," V "\"timestep_spacing\":\"linspace\"}",
      { .kind = VTRAIN_V, .sampler = VTRAIN_DPM, .shift = 1, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 3, .alpha_to_one = true, .spacing = VTRAIN_LINSPACE } },
    { "{\"_class_name\":\"CogVideoXDPMScheduler\"," V "\"snr_shift_scale\":1,"
      "\"set_alpha_to_one\":false,\"beta_start\":0.001,\"beta_end\":0.02}",
      { .kind = VTRAIN_V, .sampler = VTRAIN_DPM, .shift = 1, .beta_start = 0.001,
        .beta_end = 0.02, .snr_shift = 1, .spacing = VTRAIN_LEADING } },
    { "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":7.0,"
      "\"use_dynamic_shifting\":false,\"shift_terminal\":null}",
      { .kind = VTRAIN_FLOW, .sampler = VTRAIN_EULER, .shift = 7, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING, .by_tokens = { false, FLUX } } },
    { "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"base_image_seq_len\":1024,"
      "\"base_shift\":0.95,\"invert_sigmas\":false,\"max_image_seq_len\":4096,\"max_shift\":2.05,"
      "\"num_train_timesteps\":1000,\"shift\":1.0,\"shift_terminal\":0.1,"
      "\"time_shift_type\":\"linear\",\"use_beta_sigmas\":false,\"use_dynamic_shifting\":true}",
      { .kind = VTRAIN_FLOW, .sampler = VTRAIN_EULER, .shift = 0, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING, .terminal = 0.1,
        .by_tokens = { true, VTRAIN_MU_LINEAR, 0.95, 2.05, 1024, 4096 } } },
    /* a fixed shift beside a dynamic one is ignored (FLUX.1-dev); the line has defaults */
    { "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3.0,"
      "\"use_dynamic_shifting\":true}",
      { .kind = VTRAIN_FLOW, .sampler = VTRAIN_EULER, .shift = 0, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING, .by_tokens = { true, FLUX } } },
    /* Wan 2.1 */
    { "{\"_class_name\":\"UniPCMultistepScheduler\",\"beta_end\":0.02,\"beta_schedule\":\"linear\","
      "\"beta_start\":0.0001,\"disable_corrector\":[],\"final_sigmas_type\":\"zero\","
      "\"flow_shift\":3.0,\"lower_order_final\":true,\"num_train_timesteps\":1000,"
      "\"predict_x0\":true,\"prediction_type\":\"flow_prediction\",\"solver_order\":2,"
      "\"solver_p\":null,\"solver_type\":\"bh2\",\"thresholding\":false,"
      "\"timestep_spacing\":\"linspace\",\"use_flow_sigmas\":true,\"use_karras_sigmas\":false}",
      { .kind = VTRAIN_FLOW, .sampler = VTRAIN_UNIPC, .shift = 3, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING } },
};

static char *write_file(const char *text)
{
    char *folder = vc_format("%s/scheduler", golden_tmp("model"));
    char *path = vc_path_join(folder, "scheduler_config.json");
    vc_err err = { 0 };
    assert_ok(vc_mkdirs(folder, &err) || vc_file_write(path, text, strlen(text), &err), &err);
    free(folder);
    return path;
}

static void same_scheduler(const vtrain_scheduler *a, const vtrain_scheduler *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->sampler, b->sampler);
    assert_int_equal(a->spacing, b->spacing);
    assert_int_equal(a->zero_snr, b->zero_snr);
    assert_int_equal(a->alpha_to_one, b->alpha_to_one);
    assert_true(a->shift == b->shift && a->snr_shift == b->snr_shift);
    assert_true(a->beta_start == b->beta_start && a->beta_end == b->beta_end);
    assert_true(a->terminal == b->terminal);
    const vtrain_by_tokens *x = &a->by_tokens, *y = &b->by_tokens;
    assert_true(x->on == y->on && x->type == y->type && x->base == y->base && x->max == y->max);
    assert_true(x->base_len == y->base_len && x->max_len == y->max_len);
}

static void files_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char *path = write_file(files[i].text), *folder = vc_format("%.*s",
            (int)(vc_path_base(path) - path - 1), path);
        const char *const given[] = { NULL, path, folder };  /* in the model, file, folder */
        for (int k = 0; k < 3; k++) {
            vtrain_scheduler s;
            vc_err err = { 0 };
            assert_ok(vtrain_scheduler_read(&s, golden_tmp("model"), given[k], &err), &err);
            assert_string_equal(s.path, path);
            same_scheduler(&s, &files[i].s);
            vtrain_scheduler_free(&s);
        }
        free(path);
        free(folder);
    }
}

static void without_a_file(void **state)
{
    (void)state;
    vtrain_scheduler s;
    vc_err err = { 0 };
    assert_int_equal(vtrain_scheduler_read(&s, golden_tmp("empty"), NULL, &err), 0);
    assert_null(s.path);
    assert_true(s.kind == VTRAIN_V && s.zero_snr && s.snr_shift == 1 && s.alpha_to_one);
    assert_int_equal(vtrain_scheduler_read(&s, NULL, NULL, &err), 0);
    assert_null(s.path);
    assert_int_equal(vtrain_scheduler_read(&s, NULL, golden_tmp("empty"), &err), VC_ENOENT);
}

#define DDIM "{\"_class_name\":\"CogVideoXDDIMScheduler\","
#define DYNAMIC "\"use_dynamic_shifting\":true,"
#define LINEAR "\"time_shift_type\":\"linear\","
#define FLOW "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\","
static const struct { const char *text, *says; } bad_files[] = {
    { "{}", "_class_name" },
    { "[]", "_class_name" },
    { "{\"_class_name\":\"PNDMScheduler\"}", "PNDMScheduler" },
    { "{\"_class_name\":7}", "_class_name" },
    { "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\"}",
      "use_flow_sigmas: false" },
    { "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\","
      "\"use_flow_sigmas\":true,\"solver_order\":3}", "solver_order: 3; only 2" },
    { DDIM "\"beta_start\":0.1}", "prediction_type: missing, which means \"epsilon\"" },
    { DDIM "\"prediction_type\":\"sample\"}",
      "prediction_type: \"sample\"; only \"v_prediction\"" },
    { DDIM V "\"num_train_timesteps\":500}", "num_train_timesteps: 500; only 1000" },
    { DDIM V "\"beta_schedule\":\"linear\"}", "beta_schedule: \"linear\"" },
    { DDIM V "\"beta_start\":0}", "beta_start: 0 is not above 0" },
    { DDIM V "\"beta_end\":1}", "beta_end: 1" },
    { DDIM V "\"beta_start\":0.02}", "beta_start: 0.02" },
    { DDIM V "\"beta_start\":\"x\"}", "beta_start" },
    { DDIM V "\"snr_shift_scale\":0}", "snr_shift_scale: 0" },
    { DDIM V "\"snr_shift_scale\":-3}", "snr_shift_scale: -3" },
    { DDIM V "\"rescale_betas_zero_snr\":1}", "rescale_betas_zero_snr" },
    { DDIM V "\"timestep_spacing\":\"karras\"}", "timestep_spacing: \"karras\"" },
    { DDIM V "\"timestep_spacing\":\"leading\",\"steps_offset\":1}", "steps_offset: 1" },
    { DDIM V "\"trained_betas\":[0.1]}", "trained_betas" },
    { FLOW "\"use_dynamic_shifting\":1}", "use_dynamic_shifting" },
    { FLOW "\"time_shift_type\":\"sd3\"}", "time_shift_type: \"sd3\"" },
    { FLOW "\"shift_terminal\":1}", "shift_terminal: 1" },
    { FLOW "\"shift_terminal\":-0.1}", "shift_terminal: -0.1" },
    { FLOW DYNAMIC "\"base_image_seq_len\":4096}", "base_image_seq_len: 4096" },
    { FLOW DYNAMIC "\"base_image_seq_len\":0}", "base_image_seq_len: 0" },
    { FLOW DYNAMIC "\"base_shift\":1e3}", "base_shift: 1000" },
    { FLOW DYNAMIC LINEAR "\"base_shift\":1.2}", "base_shift: 1.2" },
    { FLOW DYNAMIC LINEAR "\"base_shift\":0.01}", "base_shift: 0.01" },
    { FLOW DYNAMIC "\"invert_sigmas\":true}", "invert_sigmas" },
    { FLOW "\"use_beta_sigmas\":true}", "use_beta_sigmas" },
    { FLOW "\"shift\":0}", "shift: 0" },
    { "{\"_class_name\":", "line 1" },
};

static void bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_files); i++) {
        char *path = write_file(bad_files[i].text);
        vtrain_scheduler s;
        vc_err err = { 0 };
        if (!vtrain_scheduler_read(&s, golden_tmp("model"), NULL, &err))
            fail_msg("taken: %s", bad_files[i].text);
        assert_null(s.path);
        if (!strstr(err.text, bad_files[i].says) || !strstr(err.text, "scheduler_config.json"))
            fail_msg("%s: %s", bad_files[i].text, err.text);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read), cmocka_unit_test(without_a_file),
        cmocka_unit_test(bad_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
