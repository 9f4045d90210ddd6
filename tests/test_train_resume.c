/* test_train_resume.c - going on with other settings: what a checkpoint's state is of is refused,
 * what changes the training is told, all else goes on without a word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/file.h"
#include "tests/train_dataset.h"
#include "tests/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 1 --dit_heads 2 "
#define LORA "--training_type lora --target_name to_q,to_k --rank 4 --network_alpha 2 "

/* Of a LoRA's run of one step; says NULL: goes on. */
static const struct { const char *args, *says; } changes[] = {
    { LORA, NULL },
    { LORA "--checkpointing_steps 1 --gradient_checkpointing=none --max_train_steps 3", NULL },
    { "--training_type lora --target_name to_q,to_k --rank 8", "go on with --rank 4" },
    { LORA "--network_alpha 4", "go on with --network_alpha 2" },
    { "--training_type lora --target_name to_q --rank 4 --network_alpha 2",
      "the state of 4 parameters, but this run trains 2: go on with the same --target_name" },
    { "--training_type lora --target_name to_q,to_k,to_v --rank 4 --network_alpha 2",
      "this run trains 6" },
    { "--training_type lora --target_name to_q,to_v --rank 4 --network_alpha 2", "no tensor" },
    { LORA "--use_ema", "no tensor ema/" },
    { "--training_type full-finetune", "it is of a lora" },
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
        if (changes[i].says && !strstr(err.text, changes[i].says)) fail_msg("%s", err.text);
        free(first);
        free(then);
    }
    free(model);
}

/* What the program says on stderr when it goes on with `args`; out was run for a step. */
static char *said(const char *dir, const char *out, const char *args)
{
    const char *build = getenv("VLT_BUILD");
    char *path = vc_path_join(dir, "said"), *text;
    char *command = vc_format("'%s/vtrain' --latents %s/set.lmdb --output_dir %s/%s "
                              "--train_batch_size 2 --threads 1 --report_to none "
                              "--resume_from_checkpoint latest %s 2>%s", build ? build : "build",
                              dir, dir, out, args, path);
    size_t n;
    vc_err err = { 0 };
    assert_int_equal(system(command), 0);
    if (vc_file_read(&text, &n, path, 1 << 20, &err)) fail_msg("%s", err.text);
    free(path);
    free(command);
    return text;
}

static void test_told(void **state)
{
    static const struct { const char *args, *says; } rows[] = {
        { TINY "--max_train_steps 2 --seed 5", NULL },
        { TINY "--max_train_steps 3 --seed 5 --lr 0.5",
          "--learning_rate is 0.5 from here on, in the checkpoint it was " },
        { TINY "--max_train_steps 4 --seed 6 --lr 0.5", "--seed differs" },
        { TINY "--max_train_steps 2 --seed 6 --lr 0.5", "nothing is left to do: 4 steps are done" },
    };
    const char *dir = *state;
    run_ok(dir, "told", TINY "--max_train_steps 1");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = said(dir, "told", rows[i].args);
        bool warns = strstr(text, "warning") != NULL;
        if (warns != (rows[i].says != NULL) || (warns && !strstr(text, rows[i].says)))
            fail_msg("%s", text);
        free(text);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, run_dir_setup, toy_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_refused), TEST(test_told) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
