/* test_train_groups.c - runs with groups of parameters: their rates reach the weights and the
 * records, a resumed run equals a whole one, and a checkpoint of other groups is refused. */
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

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 2 --dit_heads 2 --lr 1e-3 "
#define FALL "--lr_scheduler linear --lr_end 1e-4 --lr_warmup_from 1 "
#define FALLS FALL "--lr_warmup_steps 2 "
#define GROUP "--param_groups to_q|to_k:lr=1e-2,schedule=cosine,decay=0 "
#define WEIGHTS "transformer/diffusion_pytorch_model.safetensors"

static void test_same_numbers(void **state)
{
    const char *dir = *state;
    run_ok(dir, "none", TINY "--max_train_steps 3");
    run_ok(dir, "same", TINY "--param_groups to_q:lr=1e-3 to_k:decay=1e-4 --max_train_steps 3");
    run_ok(dir, "other", TINY "--param_groups to_q:lr=1e-2 --max_train_steps 3");
    run_ok(dir, "decay", TINY "--no_decay weight --max_train_steps 3");
    assert_true(run_same_file(dir, "none/checkpoint-3/" WEIGHTS, "same/checkpoint-3/" WEIGHTS));
    assert_false(run_same_file(dir, "none/checkpoint-3/" WEIGHTS, "other/checkpoint-3/" WEIGHTS));
    assert_false(run_same_file(dir, "none/checkpoint-3/" WEIGHTS, "decay/checkpoint-3/" WEIGHTS));
}

/* Rates of steps 1 to 4: 1/2 and 2/2 of the warm-up, then 0/2 and 1/2 of the fall. */
static void check_rates(const char *dir, const char *out)
{
    static const struct { double lr, group; } rows[] = {
        { 5e-4, 5e-3 }, { 1e-3, 1e-2 }, { 1e-3, 1e-2 }, { 5.5e-4, 5.05e-3 },
    };
    char *text = run_metrics(dir, out, NULL), *line = text;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *at = strstr(line, "\"lr_groups\":{\"to_q|to_k\":");
        assert_non_null(at);
        double group = strtod(strchr(strchr(at, '{'), ':') + 1, NULL);
        double lr = run_value(dir, out, (int)i, "lr");
        if (!(fabs(lr / rows[i].lr - 1) < 1e-8 && fabs(group / rows[i].group - 1) < 1e-8))
            fail_msg("%s: step %zu: %g and %g", out, i + 1, lr, group);
        line += strcspn(line, "\n") + 1;
    }
    free(text);
}

static void test_records(void **state)
{
    const char *dir = *state;
    run_ok(dir, "whole", TINY FALLS GROUP "--max_train_steps 4");
    run_ok(dir, "share", TINY FALL "--lr_warmup_steps 0.5 " GROUP "--max_train_steps 4");
    run_ok(dir, "ratio", TINY FALL "--lr_warmup_ratio 0.5 " GROUP "--max_train_steps 4");
    check_rates(dir, "whole");
    check_rates(dir, "share");
    check_rates(dir, "ratio");
}

static void test_resumed(void **state)
{
    const char *dir = *state;
    int na, nb;
    run_ok(dir, "parts", TINY FALLS GROUP "--max_train_steps 4 --checkpointing_steps 2 "
           "--checkpointing_limit 9");
    char *remove = vc_format("rm -r %s/parts/checkpoint-4", dir);
    assert_int_equal(system(remove), 0);
    free(remove);
    run_ok(dir, "parts", TINY FALLS GROUP "--max_train_steps 4 --resume_from_checkpoint latest");
    char *a = run_metrics(dir, "whole", &na), *b = run_metrics(dir, "parts", &nb);
    assert_int_equal(na, 4);
    assert_string_equal(a, b);
    assert_true(run_same_file(dir, "whole/checkpoint-4/" WEIGHTS, "parts/checkpoint-4/" WEIGHTS));
    free(a);
    free(b);
}

static void test_refused(void **state)
{
    static const struct { const char *args; int rc; const char *says; } rows[] = {
        { "", VC_EMISMATCH, "with --param_groups [\"to_q|to_k:lr=1e-2" },
        { "--param_groups to_q:lr=1e-2", VC_EMISMATCH,
          "continue with --param_groups [\"to_q|to_k" },
        { GROUP "--no_decay bias", VC_EMISMATCH, "without --no_decay: leave it out" },
        { "--param_groups to_z:lr=1e-2", VC_EUSAGE, "no trained parameter is in this group" },
        { "--param_groups to_q", VC_EUSAGE, "a colon and settings" },
        { GROUP "--lr_ssm 1", VC_EUSAGE, "--lr_ssm: --param_groups gives groups already" },
        { "--lr_ssm 1", VC_EUSAGE, "--param_groups ttt|ssm: no trained parameter" },
        { "--lr_scheduler constant --lr_warmup_steps 0 --lr_end 1e-4", VC_EUSAGE,
          "--lr_end: belongs to --lr_scheduler linear" },
    };
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_err err = { 0 };
        char *args = vc_format(TINY FALLS "--max_train_steps 5 --resume_from_checkpoint latest %s",
                               rows[i].args);
        assert_int_equal(run(dir, "whole", args, &err), rows[i].rc);
        assert_says(&err, rows[i].says);
        free(args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_numbers), cmocka_unit_test(test_records),
        cmocka_unit_test(test_resumed), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
