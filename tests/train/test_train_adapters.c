/* test_train_adapters.c - runs of every adapter: the same however the steps are divided, where
 * blocks are recomputed, on ranks and after a resume; its files are read again; what is refused. */
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
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"
#include "train/output/ckpt.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const char *const kinds[] = {
    "--adapter rslora", "--use_dora", "--adapter loha", "--adapter lokr",
    "--adapter lokr --lokr_factor 4 --lokr_decompose_both --rank 1",
    "--adapter lokr --lokr_full_matrix --lokr_factor 8",
    "--adapter dora --rank_pattern attn.to_q=2 --alpha_pattern to_v=9",
    "--adapter loha --use_dora", "--adapter dokr",
};

/* The same of a base in fewer bits. Its files are those of the adapter. */
static const char *const packed[] = {
    "--transformer_dtype int8", "--transformer_dtype nf4", "--use_dora --transformer_dtype fp8",
    "--use_dora --transformer_dtype nf4", "--adapter lokr --transformer_dtype nf4",
    "--adapter doha --transformer_dtype fp8", "--adapter lokr --use_dora --transformer_dtype int8",
};

static void test_same(void **state)
{
    /* Two ranks add the gradients of two micro-batches, one rank adds to them; a sum of more terms
     * than a kernel's step (AVX2: fewer than the 256 inputs here) is added in parts there. */
    static const run_way ways[] = {
        { 1, 0, "whole", "", 0 },
        { 1, 2, "resumed", "", 0 },
        { 1, 0, "parts", "--train_batch_size 1", 1e-4 },
        { 1, 0, "recomputed", "--gradient_checkpointing", 0 },
        { 2, 0, "ranks", "", 1e-6 },
        { 2, 2, "moved", "", 1e-6 },
        { 2, 0, "zero2", "--parallel zero2", 1e-4 },
        { 2, 2, "split", "--train_batch_size 1 --parallel fsdp", 1e-4 },
        { 2, 0, "shared", "--sp 2", 1e-4 },
    };
    const char *int8 = "--transformer_dtype int8 --int8_activations";
    enum { WAYS = COUNT(ways), INT8 = COUNT(kinds) + COUNT(packed) };
    const char *dir = *state;
    run_ok(dir, "base", "--dit_width 32 --dit_layers 2 --dit_heads 2 --max_train_steps 2");
    run_lora(1, dir, "plain", 4, "");
    for (size_t k = 0; k < COUNT(kinds); k++)
        run_lora_ways(dir, k, kinds[k], ways, COUNT(ways));
    for (size_t k = 0; k < COUNT(packed); k++)
        run_lora_ways(dir, COUNT(kinds) + k, packed[k], ways, COUNT(ways));
    /* Where a sequence is shared, attention adds in another order, and of numbers that lie between
     * two codes some are rounded to the other one. */
    run_lora_ways(dir, INT8, int8, ways, WAYS - 1);
    char *whole = vc_format("whole-%d", INT8), *all = vc_format("%s --sp 2", int8);
    run_lora(2, dir, "shared-int8", 4, all);
    run_same_training(dir, whole, "shared-int8", 4, 1e-4, 1e-3);
    free(whole);
    free(all);
}

/* The held-out loss of one step at no rate, of weights that a run's file gives. */
static double loss_of(const char *dir, const char *out, const char *args)
{
    char *all = vc_format("--model %s/base/checkpoint-2 --training_type lora --learning_rate 1e-20 "
                          "--max_train_steps 1 --eval_split 0.4 --eval_steps 1 %s", dir, args);
    run_ok(dir, out, all);
    free(all);
    return run_value(dir, out, 0, "eval_loss");
}

/* Every file of a run is read again: trained further it has the weights of the run, and folded into
 * the base it makes the same model. */
static void test_files(void **state)
{
    static const char *const files[] = {
        "pytorch_lora_weights.safetensors", "lora_kohya.safetensors", "lora_comfyui.safetensors",
    };
    const char *dir = *state;
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int bake = 0; bake < 2; bake++) {
            char out[32];
            char *args = vc_format("%s --export_comfyui --export_kohya --eval_split 0.4 "
                                   "--eval_steps 4 --bake_scale %s", kinds[k],
                                   bake ? "true" : "false");
            snprintf(out, sizeof out, "files-%zu-%d", k, bake);
            run_lora(1, dir, out, 4, args);
            const double want = run_value(dir, out, 3, "eval_loss");
            for (size_t i = 0; i < COUNT(files); i++) {
                char name[48];
                const bool comfyui = i == 2 && (strstr(kinds[k], "dora") ||
                                                strstr(kinds[k], "dokr"));
                free(args);
                args = vc_format("--lora_checkpoint %s/%s/checkpoint-4/%s", dir, out, files[i]);
                snprintf(name, sizeof name, "again-%zu-%d-%zu", k, bake, i);
                double have = comfyui ? want : loss_of(dir, name, args);
                if (!(fabs(have - want) <= 2e-6 * want))
                    fail_msg("%s, %s: trained further the loss is %.9g, not %.9g", kinds[k],
                             files[i], have, want);
                free(args);
                args = vc_format("--preset_lora_path %s/%s/checkpoint-4/%s", dir, out, files[i]);
                snprintf(name, sizeof name, "folded-%zu-%d-%zu", k, bake, i);
                have = comfyui ? want : loss_of(dir, name, args);
                if (!(fabs(have - want) <= 2e-6 * want))
                    fail_msg("%s, %s: folded in the loss is %.9g, not %.9g", kinds[k], files[i],
                             have, want);
            }
            free(args);
        }
}

/* Validation samples of a run are those of the base with its file folded in. */
static void test_samples(void **state)
{
    const char *dir = *state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char out[32], folded[32];
        char *args = vc_format("%s --validation_steps 4 --num_inference_steps 3", kinds[k]);
        snprintf(out, sizeof out, "samples-%zu", k);
        snprintf(folded, sizeof folded, "of-folded-%zu", k);
        run_lora(1, dir, out, 4, args);
        free(args);
        args = vc_format("--preset_lora_path %s/%s/checkpoint-4 --validation_steps 4 "
                         "--num_inference_steps 3 --learning_rate 1e-20", dir, out);
        run_lora(1, dir, folded, 4, args);
        free(args);
        double far = run_difference(dir, out, folded, "validation/step-4/000.safetensors");
        if (!(far < 1e-4))
            fail_msg("%s: a sample differs by %g", kinds[k], far);
    }
}

static const struct { const char *args, *says; } refused[] = {
    { "--training_type full-finetune --adapter dora", "--adapter: belongs to --training_type" },
    { "--use_dora --use_rslora", "are two adapters here" },
    { "--use_dora --adapter rslora", "means --adapter dora, but --adapter gives rslora" },
    { "--use_dora --adapter loha --rank_dropout 0.1", "--adapter doha drops nothing of this" },
    { "--use_dora --lora_dropout 0.1", "--adapter dora drops nothing of this kind" },
    { "--rank_dropout 0.1 --rank_dropout_scale", "belongs to --adapter loha and lokr: lora" },
    { "--lokr_factor 4", "belongs to --adapter lokr, but this is lora" },
    { "--adapter lokr --lokr_factor 0", "a number of rows above 0 is expected" },
    { "--adapter lokr --lokr_full_matrix --lokr_decompose_both", "both matrices are whole" },
    { "--rank_pattern to_q", "--rank_pattern to_q: PATTERN=NUMBER is expected" },
    { "--rank_pattern to_q=1.5", "rank of 1 to 4096" },
    { "--rank_pattern to_q=0", "rank of 1 to 4096" },
    { "--alpha_pattern to_q=-1", "number above 0" },
    { "--rank_pattern (to_q=4", "is not a regular expression" },
    { "--rank_pattern to_x=4 --target_name to_q", "matches no module" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err;
        char *args = vc_format("--model %s/base/checkpoint-2 %s%s", dir,
                               strstr(refused[i].args, "training_type") ? ""
                                                                        : "--training_type lora ",
                               refused[i].args);
        int rc = run(dir, "refused", args, &err);
        if (!rc || !strstr(err.text, refused[i].says))
            fail_msg("%s: %s", args, rc ? err.text : "was not refused");
        free(args);
    }
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
