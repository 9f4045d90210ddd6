/* test_both_transformers.c - a run that trains a LoRA of each of a model's two transformers: where
 * all levels are one's, it is the run that trains this one alone; a step without levels of one
 * leaves this one as it is; a resumed run, and one on several ranks, is the same. */
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
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"
#include "tests/lib/two_models.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define LORA "--rank 2 --target_name to_q,ff.net.0.proj --learning_rate 1e-2 "
#define LORA_FILE "pytorch_lora_weights.safetensors"

/* ---- one half alone ---- */

static const struct { const char *type, *range, *folder; int low; } half[] = {
    { "high", "--min_timestep 650 --max_timestep 1000", "", 0 },
    { "low", "--min_timestep 50 --max_timestep 550", "transformer_2/", 1 },
    { "high", "--min_timestep 650 --max_timestep 1000 --preserve_distribution_shape", "", 0 },
    { "low", "--max_timestep 550 --preserve_distribution_shape --optimizer adamw_bf16 "
      "--uniform_sampling --gradient_accumulation_steps 3", "transformer_2/", 1 },
    { "low", "--min_timestep 50 --max_timestep 550 --adapter dora", "transformer_2/", 1 },
    { "high", "--min_timestep 650 --max_timestep 1000 --adapter loha", "", 0 },
};

/* True if all values of tensors with this prefix are zero; there is one. */
static bool all_zero(const char *dir, const char *path, const char *prefix)
{
    vf_safetensors *f = run_open(dir, path);
    bool zero = true;
    int n = 0;
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        if (strncmp(v->name, prefix, strlen(prefix)))
            continue;
        n++;
        for (size_t k = 0; k < v->bytes; k++)
            zero = zero && !((const char *)v->data)[k];
    }
    vf_safetensors_close(f);
    assert_true(n > 0);
    return zero;
}

static void equals_one_half(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(half); i++) {
        char both[16], alone[16];
        snprintf(both, sizeof both, "both-%zu", i);
        snprintf(alone, sizeof alone, "alone-%zu", i);
        const char *const out[] = { both, alone };
        for (int k = 0; k < 2; k++) {
            char *args = vc_format("--model %s/two " LORA "--boundary_type %s %s "
                                   "--max_train_steps 3", dir, k ? half[i].type : "both",
                                   half[i].range);
            run_ok(dir, out[k], args);
            free(args);
        }
        char *a = vc_format("%s/checkpoint-3/%s" LORA_FILE, both, half[i].folder);
        char *b = vc_format("%s/checkpoint-3/" LORA_FILE, alone);
        if (!run_same_file(dir, a, b))
            fail_msg("%s and %s differ", a, b);
        for (int line = 0; line < 3; line++) {
            const char *own = half[i].low ? "loss_low" : "loss_high";
            double loss = run_value(dir, alone, line, "loss");
            assert_true(loss == run_value(dir, both, line, "loss"));
            assert_true(loss == run_value(dir, both, line, own));
            assert_true(run_value(dir, alone, line, "grad_norm") ==
                        run_value(dir, both, line, "grad_norm"));
        }
        char *state_of = vc_format("%s/checkpoint-3/optimizer.safetensors", both);
        assert_true(all_zero(dir, state_of, "m/transformer_2.") != half[i].low);
        free(state_of);
        free(a);
        free(b);
    }
}

/* ---- the optimiser ---- */

enum { STEPS = 12 };

static const float *values(const vf_safetensors *f, const char *name, int64_t *n)
{
    vf_view v;
    vc_err err = { 0 };
    if (vf_safetensors_get(f, name, &v, &err))
        fail_msg("%s", err.text);
    *n = (int64_t)vf_view_count(&v);
    return v.data;
}

/* AdamW in f64 over the traced gradients of one value, as torch.optim.AdamW runs on a parameter
 * whose gradient is None in steps that did not reach it: neither moments nor steps are counted. */
static void follow(const char *dir, const char *prefix, int *updates)
{
    static const char name[] = "transformer_blocks.0.ff.net.0.proj.lora_A.weight";
    const double lr = 1e-2, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1;
    double w = 0, m = 0, v = 0;
    int64_t n;
    *updates = 0;
    char *param = vc_format("param/%s%s", prefix, name);
    char *grad = vc_format("grad/%s%s", prefix, name);
    char *of_b = vc_format("grad/%stransformer_blocks.0.ff.net.0.proj.lora_B.weight", prefix);
    for (int step = 1; step <= STEPS; step++) {
        char *path = vc_format("adam-trace/step-%06d-mb-00-rank-00.safetensors", step);
        vf_safetensors *f = run_open(dir, path);
        if (step == 1)
            w = (double)values(f, param, &n)[0];
        const float *g = values(f, grad, &n), *b = values(f, of_b, &n);
        bool reached = false;
        for (int64_t i = 0; i < n; i++)        /* that of A is zero as long as B is */
            reached = reached || b[i] != 0;
        *updates += reached;
        if (reached) {
            m = b1 * m + (1 - b1) * (double)g[0];
            v = b2 * v + (1 - b2) * (double)g[0] * (double)g[0];
            w -= lr * decay * w;
            w -= lr * m / (1 - pow(b1, *updates)) / (sqrt(v / (1 - pow(b2, *updates))) + eps);
        }
        vf_safetensors_close(f);
        free(path);
    }
    char *master = vc_format("master/%s%s", prefix, name);
    vf_safetensors *f = run_open(dir, "adam/checkpoint-12/optimizer.safetensors");
    double has = (double)values(f, master, &n)[0];
    if (!(fabs(has - w) < 1e-5))
        fail_msg("%s: %g, not %g", master, has, w);
    vf_safetensors_close(f);
    free(master);
    free(param);
    free(grad);
    free(of_b);
}

static void counts_updates_apart(void **state)
{
    const char *dir = *state;
    int updates[2];
    char *args = vc_format("--model %s/two " LORA "--boundary_type both --max_train_steps 12 "
                           "--max_grad_norm 0 --adam_weight_decay 0.1 --weighting_scheme uniform "
                           "--lora_checkpoint %s/both-0/checkpoint-3 "
                           "--trace_dir %s/adam-trace --trace_steps 12", dir, dir, dir);
    run_ok(dir, "adam", args);
    free(args);
    follow(dir, "", &updates[0]);
    follow(dir, "transformer_2.", &updates[1]);
    assert_true(updates[0] > 0 && updates[1] > 0);
    assert_int_equal(updates[0] + updates[1], STEPS);
    size_t n;
    char *trainer = two_text(dir, "adam/checkpoint-12/trainer.json", &n), want[64];
    snprintf(want, sizeof want, "\"updates_high\":%d", updates[0]);
    assert_non_null(strstr(trainer, want));
    free(trainer);
}

/* ---- resumed, divided, on several ranks ---- */

#define BOTH LORA "--boundary_type both --use_ema --ema_decay 0.9 --caption_dropout_p 0.3 " \
             "--weighting_scheme uniform "

static void resumes(void **state)
{
    const char *dir = *state;
    char *args = vc_format("--model %s/two " BOTH "--validation_steps 7 --num_inference_steps 3 "
                           "--resume_from_checkpoint latest --max_train_steps", dir);
    static const struct { const char *out; int steps; } row[] = {
        { "whole", 7 }, { "parts", 3 }, { "parts", 4 }, { "parts", 7 }
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *all = vc_format("%s %d", args, row[i].steps);
        run_ok(dir, row[i].out, all);
        free(all);
    }
    static const char *const files[] = {
        "checkpoint-7/optimizer.safetensors", "checkpoint-7/" LORA_FILE,
        "checkpoint-7/transformer_2/" LORA_FILE, "checkpoint-7/lora_comfyui_low_noise.safetensors",
        "checkpoint-7/plain/transformer_2/" LORA_FILE, "validation/step-7/001.safetensors",
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        char *a = vc_format("whole/%s", files[i]), *b = vc_format("parts/%s", files[i]);
        if (!run_same_file(dir, a, b))
            fail_msg("%s and %s differ", a, b);
        free(a);
        free(b);
    }
    char *other = vc_format("--model %s/two " LORA "--boundary_type low --use_ema --allow_mismatch "
                            "--resume_from_checkpoint latest --max_train_steps 8", dir);
    vc_err err = { 0 };
    assert_int_equal(run(dir, "whole", other, &err), VC_EMISMATCH);
    if (!strstr(err.text, "continue with --boundary_type both"))
        fail_msg("%s", err.text);
    free(other);
    free(args);
}

/* A micro-batch of four samples goes to one transformer, also where it is run in parts. */
static void is_divided(void **state)
{
    const char *dir = *state;
    char *args = vc_format("--model %s/two " BOTH "--dataset_repeat 4 --resume_from_checkpoint "
                           "latest ", dir);
    static const struct { const char *out, *more; int steps; } row[] = {
        { "four", "--train_batch_size 4 --gradient_accumulation_steps 2", 6 },
        { "twos", "--train_batch_size 4 --gradient_accumulation_steps 2", 3 },
        { "twos", "--train_batch_size 2 --gradient_accumulation_steps 4", 5 },
        { "twos", "--train_batch_size 1 --gradient_accumulation_steps 8", 6 },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *all = vc_format("%s %s --max_train_steps %d", args, row[i].more, row[i].steps);
        run_ok(dir, row[i].out, all);
        free(all);
    }
    run_same_training(dir, "four", "twos", 6, 1e-5, 1e-5);
    free(args);
}

static void on_ranks(void **state)
{
    const char *dir = *state;
    char *model = vc_format("--model %s/two --dataset_repeat 4 " BOTH, dir);
    ranks_model = model;
    static const struct { int ranks; const char *out, *args; } row[] = {
        { 1, "r1", "--gradient_accumulation_steps 4" },
        { 2, "r2", "--gradient_accumulation_steps 2" },
        { 4, "r4", "" },
        { 4, "r4u", "--uniform_sampling" },
        { 1, "r1u", "--uniform_sampling --gradient_accumulation_steps 4" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("%s --max_train_steps 6", row[i].args);
        ranks_ok(row[i].ranks, dir, row[i].out, args);
        free(args);
    }
    run_same_training(dir, "r1", "r2", 6, 1e-5, 1e-5);
    run_same_training(dir, "r1", "r4", 6, 1e-5, 1e-5);
    run_same_training(dir, "r1u", "r4u", 6, 1e-5, 1e-5);
    ranks_ok(1, dir, "r4", "--gradient_accumulation_steps 4 --max_train_steps 8 "
             "--resume_from_checkpoint latest");
    ranks_ok(4, dir, "r1", "--max_train_steps 8 --resume_from_checkpoint latest");
    run_same_training(dir, "r1", "r4", 8, 1e-5, 1e-5);
    assert_int_equal(ranks_run(2, dir, "sp", "--sp 2 --max_train_steps 2"), 2);
    assert_true(ranks_say("the ranks cannot share samples") > 0);
    assert_int_equal(ranks_run(2, dir, "z2", "--parallel zero2 --max_train_steps 2"), 2);
    assert_true(ranks_say("the ranks cannot split the state of two transformers") > 0);
    ranks_model = RANKS_BUILTIN;
    free(model);
}

/* ---- samples ---- */

/* Samples of two equal transformers are those of one; those of two that differ are neither's. */
static void samples_use_both(void **state)
{
    const char *dir = *state;
    static const struct { const char *out, *model, *more; } row[] = {
        { "s-one", "high/checkpoint-2", "" }, { "s-same", "same", "--boundary_type both" },
        { "s-two", "two", "--boundary_type both" }, { "s-low", "low/checkpoint-2", "" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("--model %s/%s --training_type lora --rank 2 --target_name to_q %s "
                               "--learning_rate 1e-30 --max_train_steps 1 --validation_steps 1 "
                               "--num_inference_steps 4", dir, row[i].model, row[i].more);
        run_ok(dir, row[i].out, args);
        free(args);
    }
    static const char file[] = "validation/step-1/001.safetensors";
    assert_true(run_difference(dir, "s-one", "s-same", file) == 0);
    assert_true(run_difference(dir, "s-one", "s-two", file) > 1e-6);
    assert_true(run_difference(dir, "s-low", "s-two", file) > 1e-6);
}

static int setup(void **state)
{
    int rc = run_dir_setup(state);
    if (!rc)
        two_make(*state);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_one_half), cmocka_unit_test(counts_updates_apart),
        cmocka_unit_test(resumes), cmocka_unit_test(is_divided), cmocka_unit_test(samples_use_both),
        cmocka_unit_test(on_ranks),
    };
    int skip = ranks_begin();
    return skip ? skip : cmocka_run_group_tests(tests, setup, toy_dir_teardown);
}
