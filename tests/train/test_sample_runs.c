/* test_sample_runs.c - whole runs with scheduler files and their samplers, --motion_sub_loss and
 * LoRA exports. */
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
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/diffusion/objective.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 1 --dit_heads 2 "

static const float *floats(const vf_safetensors *f, const char *name, vf_view *v)
{
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, name, v, &err), &err);
    return v->data;
}

/* The loss of a trace by VideoX-Fun's blend of both errors. */
static double blended(const vf_safetensors *f, double ratio)
{
    vf_view v;
    const float *p = floats(f, "model_output", &v), *q = floats(f, "target", &v);
    int64_t n = vf_view_count(&v), frame = v.dim[3] * v.dim[4], rest = 0;
    double loss = 0, motion = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)p[i] - (double)q[i];
        loss += d * d;
        if (i / frame % v.dim[2] == 0)
            continue;
        double before = (double)p[i - frame] - (double)q[i - frame];
        motion += (d - before) * (d - before);
        rest++;
    }
    return (1 - ratio) * loss / (double)n + (rest ? ratio * motion / (double)rest : 0);
}

static vf_safetensors *trace_of(const char *dir, const char *out)
{
    char *path = vc_format("%s/%s/step-000001-mb-00-rank-00.safetensors", dir, out);
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(path);
    return f;
}

/* The greatest difference of the first prompt's samples of two runs of eight steps. */
static double latents_difference(const char *dir, const char *a, const char *b)
{
    vf_safetensors *f[2];
    const float *x[2];
    vf_view v;
    double most = 0;
    for (int k = 0; k < 2; k++) {
        char *path = vc_format("%s/%s/validation/step-8/000.safetensors", dir, k ? b : a);
        OK(vf_safetensors_open(&f[k], path, &err));
        x[k] = floats(f[k], "latents", &v);
        free(path);
    }
    for (int64_t i = 0; i < vf_view_count(&v); i++)
        most = fmax(most, fabs((double)x[0][i] - (double)x[1][i]));
    vf_safetensors_close(f[0]);
    vf_safetensors_close(f[1]);
    return most;
}

/* Clips of 3 latent frames have the blended loss; stills and clips of 2 frames have the plain
 * one. */
static void test_motion(void **state)
{
    const char *dir = *state;
    static const toy_sample clips[] = {
        { .number = 0, .f = 3, .h = 4, .w = 4, .caption = { "a" } },
        { .number = 1, .f = 3, .h = 4, .w = 4, .caption = { "b" } },
    };
    char *path = vc_path_join(dir, "clips.lmdb");
    const toy t = { .path = path, .sample = clips, .n = 2 };
    toy_make(&t);
    static const struct { const char *args; double ratio; } rows[] = {
        { "", 0 }, { "--motion_sub_loss", 0.25 },
        { "--motion_sub_loss --motion_sub_loss_ratio 1", 1 },
        { "--motion_sub_loss --motion_sub_loss_ratio 0.5 --mixed_precision bf16", 0.5 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_err err = { 0 };
        vf_view v;
        char *args = vc_format("--latents %s --output_dir %s/motion-%zu --train_batch_size 2 "
                               "--threads 1 --report_to none --max_train_steps 1 "
                               "--trace_dir %s/trace-%zu "
                               TINY "%s", path, dir, i, dir, i, rows[i].args);
        assert_ok(run_bare(args, &err), &err);
        char *name = vc_format("trace-%zu", i);
        vf_safetensors *f = trace_of(dir, name);
        double want = blended(f, rows[i].ratio), loss = (double)*floats(f, "loss", &v);
        assert_true(fabs(loss - want) < 1e-5 * want);
        vf_safetensors_close(f);
        free(name);
        free(args);
    }
    free(path);
    vc_err err = { 0 };
    assert_int_equal(run(dir, "bad", TINY "--motion_sub_loss_ratio 0.5", &err), VC_EUSAGE);
    run_ok(dir, "still", TINY "--motion_sub_loss --max_train_steps 2");       /* 1 and 2 frames */
}

/* In a v model with 2B's schedule, noisy latents, levels and the sampler follow the scheduler's
 * file, and a full finetune copies the file. */
static void test_scheduler(void **state)
{
    static const char text[] =
        "{\"_class_name\": \"CogVideoXDPMScheduler\", \"prediction_type\": \"v_prediction\",\n"
        " \"rescale_betas_zero_snr\": true, \"snr_shift_scale\": 3.0,\n"
        " \"timestep_spacing\": \"trailing\"}\n";
    const char *dir = *state;
    vc_err err = { 0 };
    run_ok(dir, "base", TINY "--objective v --max_train_steps 1");
    assert_false(run_exists(dir, "base/checkpoint-1/scheduler"));
    char *file = vc_path_join(dir, "scheduler_config.json");
    assert_int_equal(vc_file_write(file, text, strlen(text), &err), 0);

    char *args = vc_format("--model %s/base/checkpoint-1 --training_type full-finetune "
                           "--scheduler %s --max_train_steps 1 --validation_steps 1 "
                           "--num_inference_steps 3 "
                           "--trace_dir %s/trace-v", dir, file, dir);
    run_ok(dir, "tuned", args);
    vf_safetensors *f = trace_of(dir, "trace-v");
    vf_view v;
    const float *x = floats(f, "latents", &v), *n = floats(f, "noise", &v);
    const float *noisy = floats(f, "noisy_latents", &v), *t = floats(f, "timesteps", &v);
    const vtrain_objective_opts o = { .kind = VTRAIN_V, .beta_start = 0.00085, .beta_end = 0.012,
                                      .snr_shift = 3, .zero_snr = true };
    vtrain_objective *table;
    assert_int_equal(vtrain_objective_open(&table, &o, &err), 0);
    double a = vtrain_alpha_bar(table, (int)t[0]);
    double want = sqrt(a) * (double)x[0] + sqrt(1 - a) * (double)n[0];
    assert_true(fabs((double)noisy[0] - want) < 1e-5);
    vtrain_objective_close(table);
    vf_safetensors_close(f);
    assert_true(run_same_file(dir, "tuned/checkpoint-1/scheduler/scheduler_config.json",
                              "scheduler_config.json"));
    assert_true(run_same_file(dir, "tuned/checkpoint-1/transformer/config.json",
                              "base/checkpoint-1/transformer/config.json"));

    /* auto selects the class of the file: dpm makes the same sample, and ddim another one. */
    static const struct { const char *name, *args; bool same; } rows[] = {
        { "dpm", "--validation_sampler dpm", true }, { "ddim", "--validation_sampler ddim", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *more = vc_format("%s %s", args, rows[i].args);
        char *path = vc_format("%s/validation/step-1/000.safetensors", rows[i].name);
        run_ok(dir, rows[i].name, more);
        assert_int_equal(run_same_file(dir, path, "tuned/validation/step-1/000.safetensors"),
                         rows[i].same);
        free(more);
        free(path);
    }
    char *bad = vc_format("%s --validation_sampler euler", args);
    assert_fails(run(dir, "bad", bad, &err), VC_EUSAGE, &err, "euler");
    assert_int_equal(run(dir, "bad", TINY "--validation_sampler ddim --max_train_steps 1", &err),
                     VC_EUSAGE);
    assert_int_equal(run(dir, "bad", TINY "--scheduler /nowhere --max_train_steps 1", &err),
                     VC_EUSAGE);
    free(bad);
    free(args);
    free(file);
}

/* The number of tokens of a file's latents [..,f,h,w], for a model with patches of 2 x 2. */
static int64_t tokens_in(const vf_safetensors *f)
{
    vf_view v;
    floats(f, "latents", &v);
    const int64_t *last = v.dim + v.nd;
    return last[-3] * (last[-2] / 2) * (last[-1] / 2);
}

static vf_safetensors *sample_of(const char *dir, const char *out, int prompt)
{
    char *path = vc_format("%s/%s/validation/step-1/%03d.safetensors", dir, out, prompt);
    vf_safetensors *f;
    vc_err err = { 0 };
    if (vf_safetensors_open(&f, path, &err))
        fail_msg("%s", err.text);
    free(path);
    return f;
}

/* In a flow whose shift depends on the tokens, the levels of a batch and the sigmas of a sample
 * equal those of a run whose fixed shift is the factor of these tokens; the settings have no
 * shift. */
static void test_flow_scheduler(void **state)
{
    static const char text[] =
        "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"use_dynamic_shifting\": true,\n"
        " \"base_shift\": 0.5, \"max_shift\": 3, \"base_image_seq_len\": 4,"
        " \"max_image_seq_len\": 30}\n";
    static const vtrain_by_tokens line = { true, VTRAIN_MU_EXPONENTIAL, 0.5, 3, 4, 30 };
    const char *dir = *state;
    vc_err err = { 0 };
    char *file = vc_path_join(dir, "flow_config.json"), *settings;
    size_t n;
    assert_int_equal(vc_file_write(file, text, strlen(text), &err), 0);
    run_ok(dir, "flow", TINY "--max_train_steps 20 --learning_rate 3e-3");
    char *args = vc_format("--model %s/flow/checkpoint-20 --training_type full-finetune "
                           "--weighting_scheme uniform --max_train_steps 1 --learning_rate 1e-30 "
                           "--validation_steps 1 --num_inference_steps 4 --trace_dir %s/trace",
                           dir, dir);
    char *by_tokens = vc_format("%s-by --scheduler %s", args, file);
    char *plain = vc_format("%s-plain --flow_shift 1", args);
    run_ok(dir, "by", by_tokens);
    run_ok(dir, "plain-flow", plain);
    vf_safetensors *f = trace_of(dir, "trace-by"), *g = trace_of(dir, "trace-plain");
    vf_view v;
    const float *s = floats(f, "sigmas", &v), *u = floats(g, "sigmas", &v);
    double a = vtrain_shift_factor(&line, tokens_in(f));
    for (int64_t i = 0; i < vf_view_count(&v); i++)
        assert_true(fabs((double)s[i] - vtrain_shifted(a, (double)u[i])) < 1e-6);
    vf_safetensors_close(f);
    vf_safetensors_close(g);
    for (int prompt = 0; prompt < 2; prompt++) {
        f = sample_of(dir, "by", prompt);
        char *out = vc_format("same-%d", prompt);
        char *same = vc_format("%s-%d --flow_shift %.17g", args, prompt,
                               vtrain_shift_factor(&line, tokens_in(f)));
        char *path[2] = { vc_format("by/validation/step-1/%03d.safetensors", prompt),
                          vc_format("%s/validation/step-1/%03d.safetensors", out, prompt) };
        run_ok(dir, out, same);
        assert_true(run_same_file(dir, path[0], path[1]));
        vf_safetensors_close(f);
        free(out);
        free(same);
        free(path[0]);
        free(path[1]);
    }
    char *yaml = vc_path_join(dir, "by/config.yaml");
    assert_int_equal(vc_file_read(&settings, &n, yaml, 1 << 20, &err), 0);
    assert_null(strstr(settings, "flow_shift"));
    free(settings);
    free(yaml);
    free(plain);
    free(by_tokens);
    free(args);
    free(file);
}

/* --bake_scale, --export_kohya and --export_comfyui write the right files into a checkpoint. */
static void test_exports(void **state)
{
    const char *dir = *state;
    run_ok(dir, "plain", TINY "--max_train_steps 20 --learning_rate 3e-3");
    char *args = vc_format("--model %s/plain/checkpoint-20 --rank 2 --network_alpha 4 "
                           "--target_name to_q --max_train_steps 2 --learning_rate 0.1", dir);
    char *alone = vc_format("%s --no_bake_scale --no_export_kohya --no_export_comfyui", args);
    run_ok(dir, "lora", alone);
    run_ok(dir, "baked", args);
    assert_false(run_exists(dir, "lora/checkpoint-2/lora_kohya.safetensors"));
    assert_false(run_exists(dir, "lora/checkpoint-2/lora_comfyui.safetensors"));
    assert_true(run_exists(dir, "baked/checkpoint-2/lora_kohya.safetensors"));
    assert_true(run_same_file(dir, "baked/checkpoint-2/optimizer.safetensors",
                              "lora/checkpoint-2/optimizer.safetensors"));
    /* Each file, folded in, makes the same model. */
    static const char *const files[] = {
        "lora/checkpoint-2", "baked/checkpoint-2", "baked/checkpoint-2/lora_kohya.safetensors",
        "baked/checkpoint-2/lora_comfyui.safetensors"
    };
    double loss[COUNT(files)], without = run_value(dir, "lora", 0, "loss");
    for (size_t i = 0; i < COUNT(files); i++) {
        char *fold = vc_format("--model %s/plain/checkpoint-20 --rank 2 --target_name to_k "
                               "--learning_rate 1 --max_train_steps 1 --preset_lora_path %s/%s",
                               dir, dir, files[i]);
        char name[40];
        snprintf(name, sizeof name, "fold-%zu", i);
        run_ok(dir, name, fold);
        loss[i] = run_value(dir, name, 0, "loss");
        assert_true(fabs(loss[i] - loss[0]) <= 1e-6 * loss[0]);
        assert_true(fabs(loss[i] - without) > 1e-4 * without);
        free(fold);
    }
    free(args);
    free(alone);
}

static void put(const char *dir, const char *name, const char *text)
{
    char *path = vc_path_join(dir, name);
    char *folder = strndup(path, (size_t)(vc_path_base(path) - path));
    vc_err err = { 0 };
    assert_ok(vc_mkdirs(folder, &err) || vc_file_write(path, text, strlen(text), &err), &err);
    free(folder);
    free(path);
}

/* The checkpoints of a full finetune of a whole folder are whole folders, with links to unchanged
 * components, and without links to files outside of the folder. */
static void test_pipeline(void **state)
{
    static const char index[] =
        "{ \"_class_name\": \"P\",\"vae\":[\"diffusers\",\"V\"], "
        "\"transformer\":[\"diffusers\",\"T\"],\n\"tokenizer\":[\"transformers\",\"T\"],"
        "\"../whole\":[\"x\",\"y\"],\"none\":[null,null]}\n";
    const char *dir = *state;
    char *model = vc_path_join(dir, "whole/checkpoint-1"), *got;
    size_t n;
    vc_err err = { 0 };
    run_ok(dir, "whole", TINY "--max_train_steps 1");
    put(model, "model_index.json", index);
    put(model, "vae/config.json", "{\"v\":1}");
    put(model, "text_encoder/config.json", "{}");            /* not in the index: not linked */
    char *args = vc_format("--model %s --training_type full-finetune --max_train_steps 2 "
                           "--checkpointing_steps 1 --checkpoints_total_limit 1", model);
    char *no = vc_format("%s --no_export_pipeline", args);
    run_ok(dir, "linked", args);
    assert_false(run_exists(dir, "linked/checkpoint-1"));    /* removed, with its links alone */
    char *file = vc_path_join(dir, "linked/checkpoint-2/model_index.json");
    assert_int_equal(vc_file_read(&got, &n, file, 1 << 20, &err), 0);
    assert_string_equal(got, index);
    assert_true(run_exists(dir, "whole/checkpoint-1/vae/config.json"));
    assert_true(run_exists(dir, "linked/checkpoint-2/vae/config.json"));
    assert_true(run_exists(dir, "linked/checkpoint-2/transformer/config.json"));
    assert_false(run_exists(dir, "linked/checkpoint-2/text_encoder"));
    assert_false(run_exists(dir, "linked/checkpoint-2/tokenizer"));
    run_ok(dir, "apart", no);
    assert_false(run_exists(dir, "apart/checkpoint-2/model_index.json"));
    assert_false(run_exists(dir, "apart/checkpoint-2/vae"));
    put(model, "model_index.json", "{\"vae\":");           /* an error before the first step */
    assert_fails(run(dir, "bad", args, &err), VC_EFORMAT, &err, "model_index.json");
    assert_false(run_exists(dir, "bad/metrics.jsonl"));
    free(got);
    free(file);
    free(no);
    free(args);
    free(model);
}

/* The weight of the first step is 1 if it follows the step, whatever the scale: the sample is that
 * of the prompt alone, but for rounding. In two steps the samples of all schedules differ. */
static void test_guidance_schedule(void **state)
{
    const char *dir = *state;
    static const struct { const char *out, *args; } rows[] = {
        { "constant", "--guidance_scale 30" },
        { "cosine", "--guidance_scale 30 --guidance_schedule cosine --guidance_power 1" },
        { "time", "--guidance_scale 30 --guidance_schedule cosine_time" },
        { "none", "--guidance_scale 1" },
    };
    for (int steps = 1; steps <= 2; steps++)
        for (size_t i = 0; i < COUNT(rows); i++) {
            char *out = vc_format("%s-%d", rows[i].out, steps);
            char *args = vc_format(TINY "--objective v --lr 1e-2 --max_train_steps 8 "
                                   "--validation_steps 8 --num_inference_steps %d %s", steps,
                                   rows[i].args);
            run_ok(dir, out, args);
            free(args);
            free(out);
        }
    double same = latents_difference(dir, "cosine-1", "none-1");
    double more = latents_difference(dir, "constant-1", "none-1");
    assert_true(same < 1e-5 && more > 1e-4);
    assert_true(latents_difference(dir, "cosine-2", "none-2") > 1e-4);
    assert_true(latents_difference(dir, "cosine-2", "constant-2") > 1e-4);
    assert_true(latents_difference(dir, "cosine-2", "time-2") > 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_motion), cmocka_unit_test(test_scheduler),
        cmocka_unit_test(test_guidance_schedule),
        cmocka_unit_test(test_flow_scheduler),
        cmocka_unit_test(test_exports), cmocka_unit_test(test_pipeline),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
