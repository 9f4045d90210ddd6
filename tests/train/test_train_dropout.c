/* test_train_dropout.c - runs with dropout in a LoRA, a LoHa and a LoKr: the same however the steps
 * are divided, where blocks are recomputed, and after a resume; none in held-out losses; and what
 * is refused. */
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
    "--lora_dropout 0.4", "--network_dropout 0.4", "--rank_dropout 0.4", "--module_dropout 0.4",
    "--lora_dropout 0.1 --network_dropout 0.2 --rank_dropout 0.3 --module_dropout 0.4",
    "--adapter loha --lora_dropout 0.1 --network_dropout 0.2 --rank_dropout 0.3 "
    "--module_dropout 0.4",
    "--adapter lokr --rank_dropout 0.4 --rank_dropout_scale --module_dropout 0.4",
};

static void test_same(void **state)
{
    static const run_way ways[] = {
        { 1, 0, "whole", "", 0 },
        { 1, 2, "resumed", "", 2e-5 },
        { 1, 0, "parts", "--train_batch_size 1", 2e-5 },
        { 1, 0, "recomputed", "--gradient_checkpointing", 2e-5 },
        { 2, 0, "ranks", "", 2e-5 },
        { 2, 2, "split", "--train_batch_size 1 --parallel fsdp", 2e-5 },
    };
    const char *dir = *state;
    run_ok(dir, "base", "--dit_width 32 --dit_layers 2 --dit_heads 2 --max_train_steps 2");
    static const char *const adapters[] = { "lora", "loha", "lokr" };
    for (size_t i = 0; i < COUNT(adapters); i++) {
        char plain[32], args[32];
        snprintf(plain, sizeof plain, "plain-%s", adapters[i]);
        snprintf(args, sizeof args, "--adapter %s", adapters[i]);
        run_lora(1, dir, plain, 4, args);
    }
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char first[32], plain[32];
        snprintf(first, sizeof first, "whole-%zu", k);
        snprintf(plain, sizeof plain, "plain-%.4s",
                 strncmp(kinds[k], "--adapter ", 10) ? "lora" : kinds[k] + 10);
        run_lora_ways(dir, k, kinds[k], ways, COUNT(ways));
        double far = run_difference(dir, plain, first, "checkpoint-4/optimizer.safetensors");
        if (far < 1e-3)
            fail_msg("%s: changes the weights by %.2g only", kinds[k], far);
    }
}

/* The held-out loss of a run with dropout is that of the same weights without. */
static void test_held_out(void **state)
{
    const char *dir = *state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        char out[32], again[32], *args = vc_format("%s --eval_split 0.4 --eval_steps 4", kinds[k]);
        snprintf(out, sizeof out, "eval-%zu", k);
        snprintf(again, sizeof again, "again-%zu", k);
        run_lora(1, dir, out, 4, args);
        free(args);
        args = vc_format("--lora_checkpoint %s/%s/checkpoint-4 --eval_split 0.4 --eval_steps 1 "
                         "--learning_rate 1e-20", dir, out);
        run_lora(1, dir, again, 1, args);
        free(args);
        double a = run_value(dir, out, 3, "eval_loss"), b = run_value(dir, again, 0, "eval_loss");
        if (!(fabs(a - b) <= 1e-6 * a))
            fail_msg("%s: held-out loss %.9g, and %.9g without", kinds[k], a, b);
    }
}

static const struct { const char *args, *says; } refused[] = {
    { "--model %s/base/checkpoint-2 --training_type full-finetune --lora_dropout 0.1",
      "--lora_dropout: belongs to --training_type lora" },
    { "--model %s/base/checkpoint-2 --module_dropout 1", "--module_dropout" },
    { "--model %s/base/checkpoint-2 --rank_dropout -0.1", "--rank_dropout" },
    { "--model %s/base/checkpoint-2 --network_dropout 0.1 --sp 2", "--rank_dropout" },
    { "--dit_width 32 --rank_dropout 0.1", "--rank_dropout: belongs to --training_type lora" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err;
        const char *at = strstr(refused[i].args, "%s");
        char *args = at ? vc_format("%.*s%s%s", (int)(at - refused[i].args), refused[i].args, dir,
                                    at + 2) : strdup(refused[i].args);
        if (run(dir, "refused", args, &err) != VC_EUSAGE || !strstr(err.text, refused[i].says))
            fail_msg("%s: %s", args, err.text);
        free(args);
    }
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same), cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
