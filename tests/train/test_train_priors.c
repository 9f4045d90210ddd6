/* test_train_priors.c - datasets that hold the model in place: targets and losses as the traces
 * have them, the same training however the steps are divided and after a resume, and what is
 * refused. */
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
#include "formats/json/json.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"
#include "train/output/ckpt.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 6 };

static void run_on_base(int ranks, const char *dir, const char *out, int steps, const char *args)
{
    char *all = run_lora_args(dir, steps, args);
    run_on(ranks, dir, out, all);
    free(all);
}

static void make_base(const char *dir)
{
    if (!run_exists(dir, "base"))
        run_ok(dir, "base", "--dit_width 32 --dit_layers 2 --dit_heads 2 --max_train_steps 2");
}

/* A second dataset of the same samples, of this kind. */
static char *also(const char *dir, const char *kind, const char *args)
{
    return vc_format("--latents %s/set.lmdb:%s %s", dir, kind, args);
}

/* ---- traces ---- */

static vf_safetensors *trace_of(const char *dir, const char *out, int step)
{
    char path[96];
    snprintf(path, sizeof path, "%s/step-%06d-mb-00-rank-00.safetensors", out, step);
    return run_open(dir, path);
}

static size_t count(const vf_view *v)
{
    size_t n = 1;
    for (int i = 0; i < v->nd; i++)
        n *= (size_t)v->dim[i];
    return n;
}

static bool same(const vf_safetensors *a, const char *name, const vf_safetensors *b,
                 const char *other)
{
    vf_view x = run_tensor(a, name), y = run_tensor(b, other);
    return count(&x) == count(&y) && !memcmp(x.data, y.data, count(&x) * sizeof(float));
}

/* The mean of weight * (model_output - target)^2, in double. */
static double loss_of(const vf_safetensors *st)
{
    vf_view out = run_tensor(st, "model_output"), target = run_tensor(st, "target");
    vf_view weight = run_tensor(st, "loss_weight");
    const float *x = out.data, *y = target.data, *w = weight.data;
    size_t n = count(&out), rows = (size_t)out.dim[0];
    double sum = 0;
    assert_int_equal(count(&weight), rows);
    for (size_t i = 0; i < n; i++)
        sum += (double)w[i / (n / rows)] * ((double)x[i] - (double)y[i]) *
               ((double)x[i] - (double)y[i]);
    return sum / (double)n;
}

static bool is_prior(const char *dir, const char *out, int step)
{
    bool prior;
    char *all = run_metrics(dir, out, NULL), *line = all;
    for (int i = 1; i < step; i++)
        line = strchr(line, '\n') + 1;
    *strchr(line, '\n') = 0;
    prior = strstr(line, "-prior\"") != NULL;
    free(all);
    return prior;
}

/* Runs with a trace of all steps, with weights that hardly change. */
static void run_traced(const char *dir, const char *out, const char *kind, const char *args)
{
    char *set = also(dir, kind, args);
    char *all = vc_format("%s --trace_dir %s/trace-%s --trace_steps %d --learning_rate 1e-20", set,
                          dir, out, STEPS);
    run_on_base(1, dir, out, STEPS, all);
    free(all);
    free(set);
}

/* The target of a prior is what a new LoRA, which changes nothing yet, predicts. */
static void test_target(void **state)
{
    const char *dir = *state;
    int priors = 0, own = 0;
    make_base(dir);
    run_on_base(1, dir, "trained", 4, "--dataset_repeat 1");
    char *from = vc_format("--lora_checkpoint %s/trained/checkpoint-4", dir);
    run_traced(dir, "held", "prior=0.25", from);
    run_traced(dir, "bare", "prior=1", "");
    free(from);
    for (int step = 1; step <= STEPS; step++) {
        vf_safetensors *held = trace_of(dir, "trace-held", step);
        vf_safetensors *bare = trace_of(dir, "trace-bare", step);
        const bool prior = is_prior(dir, "held", step);
        const double loss = run_value(dir, "held", step - 1, "loss");
        *(prior ? &priors : &own) += 1;
        assert_true(same(held, "noisy_latents", bare, "noisy_latents"));
        assert_false(same(held, "model_output", bare, "model_output"));
        assert_true(same(held, "target", bare, prior ? "model_output" : "target"));
        assert_true(prior == same(bare, "target", bare, "model_output"));
        vf_view w = run_tensor(held, "loss_weight");
        assert_true(((const float *)w.data)[0] == (prior ? 0.25f : 1));
        if (!(fabs(loss_of(held) - loss) <= 1e-5 * loss))
            fail_msg("step %d: loss %.9g, expected %.9g", step, loss, loss_of(held));
        assert_true(run_value(dir, "held", step - 1, prior ? "loss_prior" : "loss_own") > 0);
        if (prior)
            assert_true(run_value(dir, "bare", step - 1, "loss_prior") == 0);
        vf_safetensors_close(held);
        vf_safetensors_close(bare);
    }
    assert_true(priors >= 2 && own >= 2);
}

/* Blank prompts are those of a caption that is dropped; learned samples keep their captions. */
static void test_blank(void **state)
{
    const char *dir = *state;
    int blanks = 0;
    make_base(dir);
    run_traced(dir, "blank", "blank=1", "");
    run_traced(dir, "dropped", "prior=1", "--caption_dropout_p 1");
    for (int step = 1; step <= STEPS; step++) {
        vf_safetensors *blank = trace_of(dir, "trace-blank", step);
        vf_safetensors *dropped = trace_of(dir, "trace-dropped", step);
        const bool prior = is_prior(dir, "blank", step);
        blanks += prior;
        assert_true(same(blank, "noisy_latents", dropped, "noisy_latents"));
        assert_true(prior == same(blank, "encoder_hidden_states", dropped,
                                  "encoder_hidden_states"));
        vf_safetensors_close(blank);
        vf_safetensors_close(dropped);
    }
    assert_true(blanks >= 2);
    assert_true(run_value(dir, "blank", STEPS - 1, "caption_dropout") == 0);
}

/* :reg= changes the loss's factor and nothing else; its rows are in batches with the others. */
static void test_reg(void **state)
{
    const char *dir = *state;
    make_base(dir);
    run_traced(dir, "reg", "reg=0.5", "");
    int halves = 0, ones = 0;
    for (int step = 1; step <= STEPS; step++) {
        vf_safetensors *reg = trace_of(dir, "trace-reg", step);
        vf_view w = run_tensor(reg, "loss_weight");
        for (size_t i = 0; i < count(&w); i++) {
            const float x = ((const float *)w.data)[i];
            assert_true(x == 0.5f || x == 1);
            *(x == 1 ? &ones : &halves) += 1;
        }
        if (!(fabs(loss_of(reg) - run_value(dir, "reg", step - 1, "loss")) <= 1e-5))
            fail_msg("step %d: expected %.9g", step, loss_of(reg));
        vf_safetensors_close(reg);
    }
    assert_true(halves >= 2 && ones >= 2);
}

static void test_same(void **state)
{
    static const struct { int ranks, stop; const char *name, *like, *args; } ways[] = {
        { 1, 0, "one", NULL, "--network_dropout 0.2" },
        { 1, 2, "resumed", "one", "--network_dropout 0.2" },
        { 1, 0, "parts", "one", "--network_dropout 0.2 --train_batch_size 1" },
        { 1, 0, "recomputed", "one", "--network_dropout 0.2 --gradient_checkpointing" },
        { 2, 0, "ranks", "one", "--network_dropout 0.2" },
        { 2, 0, "zero", "one", "--network_dropout 0.2 --parallel zero2" },
        { 2, 2, "split", "one", "--network_dropout 0.2 --train_batch_size 1 --parallel fsdp" },
        { 1, 0, "alone", NULL, "" },             /* shared samples have no dropout */
        { 2, 2, "shared", "alone", "--sp 2" },
    };
    const char *dir = *state;
    make_base(dir);
    for (size_t i = 0; i < COUNT(ways); i++) {
        char *more = vc_format("--global_batch_size 4 %s", ways[i].args);
        char *args = also(dir, "prior=0.5", more);
        if (ways[i].stop)
            run_on_base(strstr(ways[i].args, "--sp") ? 2 : 1, dir, ways[i].name, ways[i].stop,
                        args);
        run_on_base(ways[i].ranks, dir, ways[i].name, 4, args);
        if (ways[i].like)
            run_same_training(dir, ways[i].like, ways[i].name, 4, 1e-5, 2e-5);
        free(args);
        free(more);
    }
}

/* Held-out samples are learned ones, the same with priors and without. */
static void test_held_out(void **state)
{
    const char *dir = *state;
    const char *const args = "--eval_split 0.4 --eval_steps 1 --learning_rate 1e-20";
    char *with = also(dir, "prior=1", args);
    make_base(dir);
    run_on_base(1, dir, "eval-with", 1, with);
    run_on_base(1, dir, "eval-without", 1, args);
    assert_true(run_value(dir, "eval-with", 0, "eval_loss") ==
                run_value(dir, "eval-without", 0, "eval_loss"));
    free(with);
}

static const struct { const char *kind, *args, *says; } refused[] = {
    { "prior=1", "--training_type full-finetune", "give --training_type lora" },
    { "blank=1", "--training_type full-finetune", "give --training_type lora" },
    { "prior=0", "", "is no weight" },
    { "prior=x", "", "is no weight" },
    { "prior=1:reg=2", "", "the second option of its kind" },
    { "repeat=2:prior=1:3", "", "the second option of its kind" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    make_base(dir);
    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err;
        char *set = also(dir, refused[i].kind, refused[i].args);
        char *args = vc_format("--model %s/base/checkpoint-2 --max_train_steps 1 %s", dir, set);
        if (run(dir, "refused", args, &err) != VC_EUSAGE || !strstr(err.text, refused[i].says))
            fail_msg("%s: %s", args, err.text);
        free(args);
        free(set);
    }
    vc_err err;
    char *alone = vc_format("--latents %s/set.lmdb:prior=1 --output_dir %s/none "
                            "--max_train_steps 1 --dit_width 32 --dit_layers 1 --dit_heads 2", dir,
                            dir);
    if (run_bare(alone, &err) != VC_EUSAGE || !strstr(err.text, "give one that is learned"))
        fail_msg("%s", err.text);
    free(alone);
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target), cmocka_unit_test(test_blank), cmocka_unit_test(test_reg),
        cmocka_unit_test(test_same), cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
