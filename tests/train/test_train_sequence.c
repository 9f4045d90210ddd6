/* test_train_sequence.c - ranks that share each sequence of tokens (--sp) train like one rank, with
 * any --parallel, and resume with another --sp. Without MPI the test is skipped. */
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
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 4 };

/* Losses and gradient norms differ by f32 summation alone: each is a sum of some thousand terms of
 * which sp ranks add parts, so the error is some units of 2^-24. Weights and moments follow AdamW's
 * quotient, which makes a share of the rate (1e-5 for a full finetune, 1e-4 for a LoRA) of the
 * rounding where a gradient is close to 0: a tenth of the smaller rate is allowed. */
#define LOSS 1e-5
#define WEIGHT 1e-6

/* ---- a model with four heads ---- */

/* Returns `text` with each `from` replaced; the caller frees it. */
static char *replaced(const char *text, const char *from, const char *to)
{
    char *all = strdup("");
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        char *more = vc_format("%s%.*s%s", all, (int)(p - text), text, to);
        free(all);
        all = more;
    }
    char *end = vc_format("%s%s", all, text);
    free(all);
    return end;
}

/* Makes a golden's model, of `heads` heads of `head` numbers, with four heads. */
static void model_make(const char *name, int heads, int head, const char *dir)
{
    char from[64], to[64], *meta[2];
    vf_safetensors *golden = golden_open(name), *four;
    snprintf(from, sizeof from, "\"num_attention_heads\": %d", heads);
    char *config = replaced(vf_safetensors_meta(golden, "config"), from,
                            "\"num_attention_heads\": 4");
    snprintf(from, sizeof from, "\"attention_head_dim\": %d", head);
    snprintf(to, sizeof to, "\"attention_head_dim\": %d", heads * head / 4);
    meta[0] = replaced(config, from, to);
    assert_non_null(strstr(meta[0], to));
    char *weights = strdup(vf_safetensors_meta(golden, "weights"));
    for (int k = 0; k < 4; k++) {
        snprintf(from, sizeof from, "norm_%c.%s\": [%d]", "qk"[k % 2], k < 2 ? "weight" : "bias",
                 head);
        snprintf(to, sizeof to, "norm_%c.%s\": [%d]", "qk"[k % 2], k < 2 ? "weight" : "bias",
                 heads * head / 4);
        char *more = replaced(weights, from, to);
        assert_non_null(strstr(more, to));
        free(weights);
        weights = more;
    }
    meta[1] = weights;
    const vf_meta pair[] = { { "config", meta[0] }, { "weights", meta[1] } };
    char *path = vc_path_join(dir, "four.safetensors"), *folder = vc_path_join(dir, "transformer");
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, NULL, 0, pair, 2, &err), &err);
    assert_ok(vf_safetensors_open(&four, path, &err), &err);
    golden_model(four, folder, VC_F32);
    vf_safetensors_close(four);
    vf_safetensors_close(golden);
    free(config);
    free(meta[0]);
    free(meta[1]);
    free(path);
    free(folder);
}

/* ---- the tests ---- */

static void set_make(const char *dir)
{
    static const toy_sample samples[] = {     /* 11 letters are 12 tokens, as all need */
        { .number = 0, .f = 3, .h = 8, .w = 12, .caption = { "a red ball!", "a round one" } },
        { .number = 1, .f = 3, .h = 8, .w = 12, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 6, .w = 6, .caption = { "three cubes" } },
        { .number = 3, .f = 3, .h = 8, .w = 12, .caption = { "a wet night" } },
        { .number = 4, .f = 1, .h = 6, .w = 6, .caption = { "still water" } },
        { .number = 5, .f = 3, .h = 8, .w = 12, .caption = { "an open end" } },
    };
    char *path = vc_path_join(dir, "set.lmdb");
    toy_make(&(toy){ .path = path, .sample = samples, .n = COUNT(samples), .channels = 4,
                     .width = 16, .family = "cogvideox" });
    free(path);
}

#define ALL "--eval_split 0.2 --eval_steps 2 --dataset_repeat 4 --uniform_sampling --use_ema " \
            "--ema_decay 0.9 --max_train_steps 4 "
#define LORA "--training_type lora --rank 4 --target_name to_q,ff.net.0.proj,to_out.0 "

/* Runs of several ranks; `like` is the run of one rank with the same flags. */
typedef struct ranks_row { int ranks; const char *out, *like, *args; } ranks_row;

static void same(const char *dir, const char *more, const ranks_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *args = vc_format(ALL "%s %s", more, row[i].args);
        ranks_ok(row[i].ranks, dir, row[i].out, args);
        if (row[i].like)
            run_same_training(dir, row[i].like, row[i].out, STEPS, LOSS, WEIGHT);
        free(args);
    }
}

/* Four micro-batches of a step, on one rank or among groups of ranks that share each. */
static void test_full(void **state)
{
    static const ranks_row row[] = {
        { 1, "one", NULL, "--gradient_accumulation_steps 4" },
        { 2, "s2", "one", "--gradient_accumulation_steps 4 --sp 2" },
        { 4, "s4", "one", "--gradient_accumulation_steps 4 --sp 4 --gradient_checkpointing=none" },
        { 4, "g2", "one", "--gradient_accumulation_steps 2 --sp 2" },
        { 2, "z2", "one", "--gradient_accumulation_steps 4 --sp 2 --parallel zero2" },
        { 4, "z4", "one", "--gradient_accumulation_steps 2 --sp 2 --parallel zero2 --dp_degree 2" },
        { 4, "f4", "one", "--gradient_accumulation_steps 2 --tp 2 --parallel fsdp" },
    };
    same(*state, "", row, COUNT(row));
}

static void test_lora(void **state)
{
    static const ranks_row row[] = {
        { 1, "lora", NULL, "--gradient_accumulation_steps 2" },
        { 2, "lora-2", "lora", "--gradient_accumulation_steps 2 --sp 2" },
        { 4, "lora-4", "lora", "--gradient_accumulation_steps 2 --sp 4 --parallel fsdp" },
        { 4, "lora-g2", "lora", "--sp 2 --gradient_checkpointing=none" },
    };
    same(*state, LORA, row, COUNT(row));
}

int main(void)
{
    char dir[256];
    int skipped = ranks_begin();
    if (skipped)
        return skipped;
    toy_dir_make(dir);
    set_make(dir);
    model_make("cogvideox-5b", 1, 64, dir);
    char *own = vc_format("--transformer %s/transformer --mixed_precision no "
                          "--training_type full-finetune --caption_dropout_p 0", dir);
    ranks_model = own;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_full, dir),
        cmocka_unit_test_prestate(test_lora, dir),
    };
    cmocka_set_test_filter(getenv("VLT_TEST"));  /* a test's name; * matches any letters */
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    free(own);
    free(ranks_output);
    toy_dir_remove(dir);
    return bad;
}
