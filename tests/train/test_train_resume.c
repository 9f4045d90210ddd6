/* test_train_resume.c - resumed runs with other settings: a setting that does not fit the
 * checkpoint's state is refused, a setting that changes the training gives a warning, and other
 * settings give none. */
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
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 1 --dit_heads 2 "
#define WEIGHT "proj_out.weight"
#define LORA "--training_type lora --target_name to_q,to_k --rank 4 --network_alpha 2 "

/* Flags that resume a LoRA's run of one step; says NULL: the run is resumed. */
static const struct { const char *args, *says; } changes[] = {
    { LORA, NULL },
    { LORA "--checkpointing_steps 1 --gradient_checkpointing=none --max_train_steps 3", NULL },
    { "--training_type lora --target_name to_q,to_k --rank 8", "continue with --rank 4" },
    { LORA "--network_alpha 4", "continue with --network_alpha 2" },
    { "--training_type lora --target_name to_q --rank 4 --network_alpha 2",
      "the state of 4 parameters, but this run trains 2: continue with the same --target_name" },
    { "--training_type lora --target_name to_q,to_k,to_v --rank 4 --network_alpha 2",
      "this run trains 6" },
    { "--training_type lora --target_name to_q,to_v --rank 4 --network_alpha 2", "no tensor" },
    { LORA "--use_ema", NULL },
    { "--training_type full-finetune", "the checkpoint is of a lora" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    char *model = vc_format("--model %s/base/checkpoint-1 ", dir);
    run_ok(dir, "base", TINY "--max_train_steps 1");
    for (size_t i = 0; i < COUNT(changes); i++) {
        vc_err err = { 0 };
        char out[16];
        snprintf(out, sizeof out, "out-%zu", i);
        char *first = vc_format("%s" LORA "--max_train_steps 1", model);
        char *then = vc_format("%s--max_train_steps 2 --resume_from_checkpoint latest %s", model,
                               changes[i].args);
        run_ok(dir, out, first);
        int rc = run(dir, out, then, &err);
        if (!changes[i].says ? rc : rc != VC_EMISMATCH && rc != VC_ENOENT)
            fail_msg("%s: %d %s", changes[i].args, rc, err.text);
        if (changes[i].says && !strstr(err.text, changes[i].says))
            fail_msg("%s", err.text);
        free(first);
        free(then);
    }
    free(model);
}

/* Resumes `out`, a run of one step, with `args`, and returns the program's stderr. */
static char *stderr_of(const char *dir, const char *out, const char *args)
{
    const char *build = getenv("VLT_BUILD");
    char *path = vc_path_join(dir, "stderr"), *text;
    char *command = vc_format("'%s/vtrain' --latents %s/set.lmdb --output_dir %s/%s "
                              "--train_batch_size 2 --threads 1 --report_to none "
                              "--resume_from_checkpoint latest %s 2>%s", build ? build : "build",
                              dir, dir, out, args, path);
    size_t n;
    vc_err err = { 0 };
    assert_int_equal(system(command), 0);
    assert_ok(vc_file_read(&text, &n, path, 1 << 20, &err), &err);
    free(path);
    free(command);
    return text;
}

static void test_warned(void **state)
{
    static const struct { const char *args, *says; } rows[] = {
        { TINY "--max_train_steps 2 --seed 5", NULL },
        { TINY "--max_train_steps 3 --seed 5 --lr 0.5",
          "--lr is 0.5 from here on, in the checkpoint it was " },
        { TINY "--max_train_steps 4 --seed 6 --lr 0.5", "--seed differs" },
        { TINY "--max_train_steps 2 --seed 6 --lr 0.5",
          "nothing is left to do: 4 of 2 steps are done" },
        { TINY "--max_train_steps 5 --seed 6 --lr 0.5 --min_timestep 200",
          "--min_timestep is 200 from here on, in the checkpoint it was 0" },
        { TINY "--max_train_steps 6 --seed 6 --lr 0.5 --min_t 0.2",
          "--preserve_distribution_shape is true from here on" },
    };
    const char *dir = *state;
    run_ok(dir, "warned", TINY "--max_train_steps 1");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = stderr_of(dir, "warned", rows[i].args);
        bool warns = strstr(text, "warning") != NULL;
        if (warns != (rows[i].says != NULL) || (warns && !strstr(text, rows[i].says)))
            fail_msg("%s", text);
        free(text);
    }
}

/* Runs a shell command in dir. */
static void shell(const char *dir, const char *what)
{
    char *command = vc_format("cd '%s' && { %s; }", dir, what);
    assert_int_equal(system(command), 0);
    free(command);
}

#define FALLS TINY "--lr 1e-3 --lr_scheduler linear "
#define RULES TINY "--lr_scheduler piecewise_constant --lr_step_rules 1:2,0.1 "
#define SHARE(how) TINY "--lr 1e-3 --lr_warmup_steps 0.5 --lr_scheduler " how " "
#define GROUP TINY "--lr 1e-3 --param_groups to_q:schedule=cosine "

/* Runs that are continued with other lengths after the shell command `change`, and the line on
 * their rates; NULL: there is none. */
static const struct { const char *first, *change, *then, *says; } lengths[] = {
    { FALLS "--max_train_steps 2 --checkpointing_steps 1", "rm -r length-0/checkpoint-2",
      FALLS "--max_train_steps 2", NULL },
    { FALLS "--max_train_steps 2 --checkpointing_steps 1", "rm -r length-1/checkpoint-2",
      FALLS "--max_train_steps 4",
      "--lr_scheduler linear spans 4 steps from here on, in the checkpoint 2: the rate "
      "after step 1 is 0.00075 instead of 0.0005; --max_train_steps 2 keeps it\n" },
    { FALLS "--max_train_steps 4 --checkpointing_steps 1", "rm -r length-2/checkpoint-[234]",
      FALLS "--max_train_steps 3",
      "spans 3 steps from here on, in the checkpoint 4: the rate after step 1 is 0.000666667 "
      "instead of 0.00075; --max_train_steps 4 keeps it\n" },
    { FALLS "--max_train_steps 2", ":", FALLS "--max_train_steps 4",
      "the rate after step 2 is 0.0005 instead of 0\n" },
    { FALLS "--lr_warmup_steps 1 --max_train_steps 2 --checkpointing_steps 1",
      "rm -r length-4/checkpoint-2", FALLS "--lr_warmup_steps 1 --max_train_steps 9",
      "the rate after step 2 is 0.000875 instead of 0; --max_train_steps 2 keeps it\n" },
    { TINY "--max_train_steps 2", ":", TINY "--max_train_steps 4", NULL },
    { RULES "--max_train_steps 2", ":", RULES "--max_train_steps 4", NULL },
    { GROUP "--max_train_steps 2", ":", GROUP "--max_train_steps 4",
      "--param_groups to_q spans 4 steps from here on" },
    { FALLS "--num_train_epochs 1", ":", FALLS "--num_train_epochs 2", " instead of 0\n" },
    { FALLS "--max_train_steps 2", "cd length-9/checkpoint-2 && rm checksums.json && "
      "sed -i 's/\"planned_steps\":2,//; s/,\"checksums\":true//' trainer.json",
      FALLS "--max_train_steps 4", "in the checkpoint 2: " },
    /* a warm-up that is a share of the run's steps */
    { SHARE("inverse_sqrt") "--max_train_steps 2 --checkpointing_steps 1",
      "rm -r length-10/checkpoint-2", SHARE("inverse_sqrt") "--max_train_steps 4",
      "the rate after step 1 is 0.0005 instead of 0.001" },
    { SHARE("constant_with_warmup") "--max_train_steps 2 --checkpointing_steps 1",
      "rm -r length-11/checkpoint-2", SHARE("constant_with_warmup") "--max_train_steps 4",
      "the rate after step 1 is 0.0005 instead of 0.001" },
    { SHARE("cosine_with_restarts --lr_num_cycles 2") "--max_train_steps 4 --checkpointing_steps 3",
      "rm -r length-12/checkpoint-4", SHARE("cosine_with_restarts --lr_num_cycles 2")
      "--max_train_steps 4", NULL },
};

static void test_lengths(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char out[16], *args = vc_format("--seed 5 %s", lengths[i].then);
        snprintf(out, sizeof out, "length-%zu", i);
        run_ok(dir, out, lengths[i].first);
        shell(dir, lengths[i].change);
        char *text = stderr_of(dir, out, args);
        bool says = strstr(text, "from here on") != NULL;
        if (says != (lengths[i].says != NULL) || (says && !strstr(text, lengths[i].says)))
            fail_msg("%zu: %s", i, text);
        free(args);
        free(text);
    }
}

/* The result of a resumed run after the shell command `change` changed the model's weights. The
 * command runs in the test's folder, where m is the model and `other` a model of the same shapes;
 * rc 0: the run is resumed. */
static const struct { const char *name, *change, *args; int rc; const char *says; } bases[] = {
    { "same", ":", LORA, 0, NULL },
    { "touched", "touch -d 2001-02-03 m/transformer/*.safetensors", LORA, 0, NULL },
    { "moved", "cp -r m n; rm -r m; mv n m", LORA, 0, NULL },
    { "replaced", "cp other/checkpoint-1/transformer/*.safetensors m/transformer", LORA,
      VC_EMISMATCH, "--allow_mismatch" },
    { "allowed", "cp other/checkpoint-1/transformer/*.safetensors m/transformer",
      LORA "--allow_mismatch", 0, NULL },
    { "part", "cp other/checkpoint-1/transformer/*.safetensors m/transformer",
      "--training_type full-finetune --trainable_modules to_q", VC_EMISMATCH, "was trained on" },
    { "whole", "cp other/checkpoint-1/transformer/*.safetensors m/transformer",
      "--training_type full-finetune", 0, NULL },
    { "unrecorded", "sed -i 's/\"base\":{[^}]*},//; s/,\"checksums\":true//' "
      "unrecorded/checkpoint-1/trainer.json; rm unrecorded/checkpoint-1/checksums.json; "
      "cp other/checkpoint-1/transformer/*.safetensors m/transformer", LORA, 0, NULL },
};

static void test_base(void **state)
{
    const char *dir = *state;
    run_ok(dir, "base", TINY "--max_train_steps 1");
    run_ok(dir, "other", TINY "--max_train_steps 1 --lr 0.5");
    for (size_t i = 0; i < COUNT(bases); i++) {
        vc_err err = { 0 };
        char *first = vc_format("--model %s/m %s --max_train_steps 1", dir, bases[i].args);
        char *then = vc_format("--model %s/m %s --max_train_steps 2 "
                               "--resume_from_checkpoint latest", dir, bases[i].args);
        shell(dir, "rm -rf m && cp -r base/checkpoint-1 m");
        run_ok(dir, bases[i].name, first);
        shell(dir, bases[i].change);
        int rc = run(dir, bases[i].name, then, &err);
        if (rc != bases[i].rc || (rc && !strstr(err.text, bases[i].says)))
            fail_msg("%s: %d %s", bases[i].name, rc, err.text);
        free(first);
        free(then);
    }
    /* A run that begins with noise does not resume a run that began with weights. */
    vc_err err = { 0 };
    int rc = run(dir, "part", TINY "--training_type full-finetune --trainable_modules to_q "
                 "--max_train_steps 3 --resume_from_checkpoint latest", &err);
    if (rc != VC_EMISMATCH || !strstr(err.text, "begins with noise"))
        fail_msg("%d %s", rc, err.text);
}

/* The same for other files that a run takes its numbers from: p.safetensors is the LoRA of
 * --preset_lora_path, other.safetensors another one, and s a folder with a scheduler's file. */
#define PRESET "--preset_lora_path %s/p.safetensors "
static const struct {
    const char *name, *change, *first, *then;
    int rc;
    const char *says;
} sources[] = {
    { "p-same", ":", LORA PRESET, LORA PRESET, 0, NULL },
    { "p-touched", "touch -d 2001-02-03 p.safetensors", LORA PRESET, LORA PRESET, 0, NULL },
    { "p-copied", "cp p.safetensors q && mv q p.safetensors", LORA PRESET, LORA PRESET, 0, NULL },
    { "p-replaced", "cp other.safetensors p.safetensors", LORA PRESET, LORA PRESET, VC_EMISMATCH,
      "p.safetensors: another LoRA" },
    { "p-allowed", "cp other.safetensors p.safetensors", LORA PRESET,
      LORA PRESET "--allow_mismatch ", 0, NULL },
    { "p-removed", ":", LORA PRESET, LORA, VC_EMISMATCH, "was trained with --preset_lora_path" },
    { "p-added", ":", LORA, LORA PRESET, VC_EMISMATCH, "was trained without --preset_lora_path" },
    { "p-weaker", ":", LORA PRESET "--preset_lora_multiplier 0.5 ", LORA PRESET, VC_EMISMATCH,
      "other LoRAs or multipliers" },
    { "p-weak", ":", LORA PRESET "--preset_lora_multiplier 0.5 ",
      LORA PRESET "--preset_lora_multiplier 0.5 ", 0, NULL },
    { "p-part", "cp other.safetensors p.safetensors",
      "--training_type full-finetune --trainable_modules to_q " PRESET,
      "--training_type full-finetune --trainable_modules to_q " PRESET, VC_EMISMATCH,
      "another LoRA" },
    { "p-whole", "cp other.safetensors p.safetensors", "--training_type full-finetune " PRESET,
      "--training_type full-finetune " PRESET, 0, NULL },
    { "s-same", "touch s/scheduler_config.json", LORA "--scheduler %s/s ", LORA "--scheduler %s/s ",
      0, NULL },
    { "s-replaced", "sed -i 's/\"shift\": 3/\"shift\": 5/' s/scheduler_config.json",
      LORA "--scheduler %s/s ", LORA "--scheduler %s/s ", VC_EMISMATCH,
      "scheduler_config.json: another noise schedule (shift 5) than the one that" },
    { "s-allowed", "sed -i 's/\"shift\": 3/\"shift\": 5/' s/scheduler_config.json",
      LORA "--scheduler %s/s ", LORA "--scheduler %s/s --allow_mismatch ", 0, NULL },
    { "s-flag", "sed -i 's/\"shift\": 3/\"shift\": 5/' s/scheduler_config.json",
      LORA "--scheduler %s/s --flow_shift 2 ", LORA "--scheduler %s/s --flow_shift 2 ", 0, NULL },
    { "unrecorded-p", "sed -i 's/\"sources\":{[^}]*},//; s/,\"checksums\":true//' "
      "unrecorded-p/checkpoint-1/trainer.json; rm unrecorded-p/checkpoint-1/checksums.json; "
      "cp other.safetensors p.safetensors", LORA PRESET, LORA PRESET, 0, NULL },
};

static void test_sources(void **state)
{
    const char *dir = *state;
    run_ok(dir, "base", TINY "--max_train_steps 1");
    static const char *const seeds[] = { "1", "2" };
    for (int i = 0; i < 2; i++) {
        char *args = vc_format("--model %s/base/checkpoint-1 " LORA "--max_train_steps 1 --seed %s",
                               dir, seeds[i]);
        run_ok(dir, i ? "lora2" : "lora1", args);
        free(args);
    }
    for (size_t i = 0; i < COUNT(sources); i++) {
        vc_err err = { 0 };
        char *args[2];
        shell(dir, "rm -rf s && mkdir s && echo '{\"_class_name\": "
              "\"FlowMatchEulerDiscreteScheduler\", \"shift\": 3}' >s/scheduler_config.json && "
              "cp lora1/checkpoint-1/pytorch_lora_weights.safetensors p.safetensors && "
              "cp lora2/checkpoint-1/pytorch_lora_weights.safetensors other.safetensors");
        for (int k = 0; k < 2; k++) {
            const char *text = k ? sources[i].then : sources[i].first, *at = strstr(text, "%s");
            char *own = at ? vc_format("%.*s%s%s", (int)(at - text), text, dir, at + 2)
                           : strdup(text);
            args[k] = vc_format("--model %s/base/checkpoint-1 %s --max_train_steps %d%s", dir, own,
                                k + 1, k ? " --resume_from_checkpoint latest" : "");
            free(own);
        }
        run_ok(dir, sources[i].name, args[0]);
        shell(dir, sources[i].change);
        int rc = run(dir, sources[i].name, args[1], &err);
        if (rc != sources[i].rc || (rc && !strstr(err.text, sources[i].says)))
            fail_msg("%s: %d %s", sources[i].name, rc, err.text);
        free(args[0]);
        free(args[1]);
    }
}

/* Unchanged files are not read; a line reports files that are read, and weights that are not
 * known. */
static void test_base_reported(void **state)
{
    static const struct { const char *change, *says; } rows[] = {
        { ":", NULL },
        { "touch m/transformer/*.safetensors", "their weights are hashed and compared" },
        { ":", NULL },
        { "sed -i 's/\"base\":{[^}]*},//; s/,\"checksums\":true//' "
          "known/checkpoint-*/trainer.json; rm known/checkpoint-*/checksums.json",
          "does not record which weights it began with" },
    };
    const char *dir = *state;
    char *args = vc_format("--model %s/m " LORA, dir);
    run_ok(dir, "base", TINY "--max_train_steps 1");
    shell(dir, "cp -r base/checkpoint-1 m");
    char *first = vc_format("%s --max_train_steps 1", args);
    run_ok(dir, "known", first);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *then = vc_format("%s --seed 5 --max_train_steps %d", args, (int)i + 2);
        shell(dir, rows[i].change);
        char *text = stderr_of(dir, "known", then);
        bool reports = strstr(text, "hashed and") || strstr(text, "not record which");
        if (reports != (rows[i].says != NULL) || (reports && !strstr(text, rows[i].says)))
            fail_msg("%zu: %s", i, text);
        free(then);
        free(text);
    }
    free(first);
    free(args);
}

/* A Control model may have the in_channels of an image-to-video model, and is recognised by its
 * pipeline alone: one that is not known is refused. */
static void test_control(void **state)
{
    static const struct { const char *class, *flag; int rc; } rows[] = {
        { "OtherControlPipeline", "--model %s/m", VC_EINVAL },
        { "OtherControlPipeline", "--transformer %s/m/transformer", 0 },
        { "CogVideoXPipeline", "--model %s/m", 0 },
    };
    const char *dir = *state;
    run_ok(dir, "base", TINY "--max_train_steps 1");
    shell(dir, "cp -r base/checkpoint-1 m");
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_err err = { 0 };
        char out[16];
        char *make = vc_format("echo '{\"_class_name\":\"%s\"}' >m/model_index.json",
                               rows[i].class);
        const char *at = strstr(rows[i].flag, "%s");
        char *args = vc_format("%.*s%s%s " LORA "--max_train_steps 1", (int)(at - rows[i].flag),
                               rows[i].flag, dir, at + 2);
        snprintf(out, sizeof out, "control-%zu", i);
        shell(dir, make);
        int rc = run(dir, out, args, &err);
        if (rc != rows[i].rc || (rc && !strstr(err.text, "control clip")))
            fail_msg("%s: %d %s", rows[i].class, rc, err.text);
        free(make);
        free(args);
    }
}

/* The largest difference between tensors of two files, each named by a prefix. */
static double far_apart(const char *dir, const char *a, const char *as, const char *b,
                        const char *bs, const char *tensor)
{
    vc_err err;
    vf_view x, y;
    vf_safetensors *f = run_open(dir, a), *g = run_open(dir, b);
    char *from = vc_format("%s%s", as, tensor), *to = vc_format("%s%s", bs, tensor);
    assert_ok(vf_safetensors_get(f, from, &x, &err), &err);
    assert_ok(vf_safetensors_get(g, to, &y, &err), &err);
    double far = 0;
    for (size_t i = 0; i < x.bytes / sizeof(float); i++)
        far = fmax(far, fabs(((const float *)x.data)[i] - ((const float *)y.data)[i]));
    free(from);
    free(to);
    vf_safetensors_close(f);
    vf_safetensors_close(g);
    return far;
}

/* Checks ema(n) = d ema(n - 1) + (1 - d) w(n) for a step's checkpoint and the one before. */
static void check_average(const char *dir, const char *out, int step, double d)
{
    char path[2][64];
    vf_view w, now, before = { 0 };
    vc_err err;
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s/checkpoint-%d/optimizer.safetensors", out, step - i);
    vf_safetensors *f = run_open(dir, path[0]), *g = d > 0 ? run_open(dir, path[1]) : NULL;
    assert_ok(vf_safetensors_get(f, "master/" WEIGHT, &w, &err), &err);
    assert_ok(vf_safetensors_get(f, "ema/" WEIGHT, &now, &err), &err);
    if (g)
        assert_ok(vf_safetensors_get(g, "ema/" WEIGHT, &before, &err), &err);
    for (size_t i = 0; i < w.bytes / sizeof(float); i++) {
        double old = g ? ((const float *)before.data)[i] : 0;
        double want = d * old + (1 - d) * ((const float *)w.data)[i];
        assert_true(fabs(((const float *)now.data)[i] - want) < 1e-7);
    }
    vf_safetensors_close(f);
    vf_safetensors_close(g);
}

/* The average rises as EMAModel's, begins where --use_ema is added, and is exported beside the
 * plain weights. */
static void test_average(void **state)
{
    static const double decay[] = { 0, 2 / 11.0, 3 / 12.0, 4 / 13.0 };
    static const char state_file[] = "average/checkpoint-4/optimizer.safetensors";
    static const char file[] = "transformer/diffusion_pytorch_model.safetensors";
    const char *dir = *state;
    run_ok(dir, "average", TINY "--use_ema --max_train_steps 4 --checkpointing_steps 1");
    for (int n = 1; n <= 4; n++)
        check_average(dir, "average", n, decay[n - 1]);
    char *main = vc_format("average/checkpoint-4/%s", file);
    char *plain = vc_format("average/checkpoint-4/plain/%s", file);
    assert_true(far_apart(dir, main, "", state_file, "ema/", WEIGHT) == 0);
    assert_true(far_apart(dir, plain, "", state_file, "master/", WEIGHT) == 0);
    assert_true(far_apart(dir, main, "", plain, "", WEIGHT) > 1e-6);
    free(main);
    free(plain);

    run_ok(dir, "late", TINY "--max_train_steps 2 --checkpointing_steps 1");
    run_ok(dir, "late", TINY "--max_train_steps 3 --use_ema --resume_from_checkpoint latest");
    run_ok(dir, "late", TINY "--max_train_steps 4 --use_ema --resume_from_checkpoint latest");
    check_average(dir, "late", 3, decay[0]);
    check_average(dir, "late", 4, decay[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, run_dir_setup, toy_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_refused), TEST(test_warned),
                                         TEST(test_lengths), TEST(test_base),
                                         TEST(test_sources),
                                         TEST(test_base_reported), TEST(test_control),
                                         TEST(test_average) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
