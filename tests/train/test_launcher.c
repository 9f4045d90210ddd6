/* test_launcher.c - flags of accelerate and files of DeepSpeed set the flags with their meaning. */
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
#include "train/settings/settings.h"
#include "train/vtrain.h"

enum { MOST_WORDS = 20 };

static const char file[] = "launcher.json";
static char offloaded[64];                     /* --offload_optimizer of the last take */

/* Reads the flags; their file has the text. */
static int take(vtrain_config *c, const char *text, const char *flags, vc_err *err)
{
    char words[256], *rest = words, *argv[MOST_WORDS] = { "vtrain", "--latents", ".",
                                                          "--output_dir", "." };
    int argc = 5;
    snprintf(words, sizeof words, "%s", flags);
    for (char *word; (word = strsep(&rest, " ")) && argc < MOST_WORDS;)
        if (*word)
            argv[argc++] = word;
    assert_ok(vc_file_write(file, text, strlen(text), err), err);
    vc_flags *set;
    int rc = vc_flags_parse(&set, &vtrain_program, c, argc, argv, stdout, err);
    if (!rc)
        rc = vtrain_take_shorthand(c, set, err);
    if (!rc)
        rc = vtrain_take_launcher(c, set, err);
    if (!rc)
        rc = vc_flags_verdict(set, err);
    if (!rc) {
        vtrain_take_offload(c, set);
        snprintf(offloaded, sizeof offloaded, "%s", c->offload_optimizer);
    }
    vc_flags_free(set);
    remove(file);
    return rc;
}

static void test_who_splits_what(void **state)
{
    static const struct { const char *flags; int parallel; } rows[] = {
        { "", VTRAIN_DDP },
        { "--zero_stage 1", VTRAIN_ZERO2 },
        { "--zero_stage 2", VTRAIN_ZERO2 },
        { "--zero_stage 3", VTRAIN_FSDP },
        { "--zero_stage 3 --parallel zero2", VTRAIN_ZERO2 },
        { "--use_fsdp", VTRAIN_FSDP },
        { "--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP", VTRAIN_ZERO2 },
        { "--fsdp_sharding_strategy NO_SHARD", VTRAIN_DDP },
        { "--deepspeed_config launcher.json", VTRAIN_FSDP },
        { "--deepspeed_config launcher.json --zero_stage 2", VTRAIN_ZERO2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vtrain_config c;
        vc_err err = { 0 };
        assert_ok(take(&c, "{\"zero_optimization\": {\"stage\": 3}}", rows[i].flags, &err), &err);
        assert_int_equal(c.parallel, rows[i].parallel);
    }
}

static void test_entries_of_deepspeed(void **state)
{
    static const char text[] =
        "{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": \"auto\","
        " \"gradient_clipping\": 0.25, \"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": "
        "false}, \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-5, \"eps\": 1e-7,"
        " \"weight_decay\": 0.02}}}";
    (void)state;
    vtrain_config c;
    vc_err err = { 0 };
    assert_ok(take(&c, text, "--deepspeed_config launcher.json --gradient_accumulation_steps 5",
                   &err), &err);
    assert_int_equal(c.train_batch_size, 4);
    assert_int_equal(c.gradient_accumulation_steps, 5);
    assert_true(c.max_grad_norm == 0.25 && c.adam_epsilon == 1e-7);
    assert_true(c.adam_weight_decay == 0.02 && c.learning_rate == 3e-5);
    assert_int_equal(c.mixed_precision, VTRAIN_PRECISION_BF16);
}

static void test_offloading_of_deepspeed(void **state)
{
    static const struct { const char *device, *flags, *optimizer; bool low_vram; } rows[] = {
        { "{\"device\": \"none\"}", "", "none", true },
        { "{\"device\": \"cpu\"}", "", "cpu", true },
        { "{\"device\": \"nvme\", \"nvme_path\": \"/fast\"}", "", "/fast", true },
        { "{\"device\": \"nvme\"}", "", "disk", true },
        { "{\"device\": \"cpu\"}", " --offload_optimizer disk --training_type full-finetune",
          "disk", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vtrain_config c;
        vc_err err = { 0 };
        char *text = vc_format("{\"zero_optimization\": {\"offload_optimizer\": %s, "
                               "\"offload_param\": {\"device\": \"cpu\"}}}", rows[i].device);
        char *args = vc_format("--deepspeed_config launcher.json --model m%s", rows[i].flags);
        assert_ok(take(&c, text, args, &err), &err);
        assert_string_equal(offloaded, rows[i].optimizer);
        assert_int_equal(c.low_vram, rows[i].low_vram);
        free(text);
        free(args);
    }
}

static void test_bad_files(void **state)
{
    static const struct { const char *text, *message; } rows[] = {
        { "{", "line 1" },
        { "[1]", "an object" },
        { "{\"gradient_clipping\": true}", "gradient_clipping: a number or \"auto\" expected" },
        { "{\"gradient_clipping\": -1}", "gradient_clipping" },
        { "{\"bf16\": {\"enabled\": 1}}", "bf16.enabled: true, false or" },
        { "{\"fp16\": {\"enabled\": true}}", "fp16" },
        { "{\"zero_optimization\": {\"stage\": 7}}", "zero_optimization.stage" },
        { "{\"zero_optimization\": {\"offload_param\": {\"device\": \"moon\"}}}",
          "zero_optimization.offload_param.device: --offload_param: \"moon\" is not one of" },
        { "{\"optimizer\": {\"type\": \"Lamb\"}}",
          "optimizer.type: --optimizer: \"Lamb\" is not one of adamw" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vtrain_config c;
        vc_err err = { 0 };
        assert_int_equal(take(&c, rows[i].text, "--deepspeed_config launcher.json", &err),
                         VC_EUSAGE);
        assert_says(&err, rows[i].message);
    }
}

static void test_expected_ranks(void **state)
{
    (void)state;
    vc_err err = { 0 };
    vtrain_config c = { .num_processes = 3, .sp = 1 };
    assert_int_equal(vtrain_check_ranks(&c, 2, &err), VC_EUSAGE);
    assert_says(&err, "mpirun -np 3");
    assert_ok(vtrain_check_ranks(&c, 3, &err), &err);
    c = (vtrain_config){ .sp = 2, .global_batch_size = 12, .train_batch_size = 3 };
    assert_ok(vtrain_check_ranks(&c, 4, &err), &err);
    assert_int_equal(c.gradient_accumulation_steps, 2);
}

/* Groups, shards and ranks of a sequence: the product of two or of all three is the number of
 * ranks. */
static void test_mesh(void **state)
{
    static const struct {
        const char *flags;
        int ranks, rc, degree, shards, sp, parallel;
    } rows[] = {
        { "--parallelism.dp_replicate 2 --parallelism.dp_sharding 1 --parallelism.tp_sharding 2",
          4, 0, 4, 1, 2, VTRAIN_DDP },
        { "--parallelism.dp_replicate 16 --parallelism.dp_sharding 4 --parallelism.tp_sharding 2",
          128, 0, 32, 4, 2, VTRAIN_FSDP },
        { "--parallelism.dp_replicate 16 --parallelism.dp_sharding 4 --parallelism.tp_sharding 4",
          256, 0, 64, 4, 4, VTRAIN_FSDP },
        { "--parallelism.dp_replicate 8 --parallelism.dp_sharding 8 --parallelism.tp_sharding 1",
          64, 0, 8, 8, 1, VTRAIN_FSDP },
        { "--dp_degree 2 --dp_shards 2 --cp_degree 2", 8, 0, 4, 2, 2, VTRAIN_FSDP },
        { "--dp_degree 2 --dp_shards 2 --sp 2 --parallel zero2", 4, 0, 2, 2, 2, VTRAIN_ZERO2 },
        { "--dp_shards 4", 4, 0, 1, 4, 1, VTRAIN_FSDP },
        { "--dp_shards 2 --zero_stage 2", 4, 0, 2, 2, 1, VTRAIN_ZERO2 },
        { "--dp_shards 2 --parallel ddp", 4, VC_EUSAGE, 0, 0, 0, 0 },
        { "--dp_degree 3 --dp_shards 1 --sp 2", 4, VC_EUSAGE, 0, 0, 0, 0 },
        { "--dp_degree 2 --dp_shards 1", 4, VC_EUSAGE, 0, 0, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vtrain_config c;
        vc_err err = { 0 };
        assert_ok(take(&c, "{}", rows[i].flags, &err), &err);
        int rc = vtrain_check_ranks(&c, rows[i].ranks, &err);
        if (rc != rows[i].rc)
            fail_msg("%s: %d, %s", rows[i].flags, rc, rc ? err.text : "");
        if (rc)
            continue;
        assert_int_equal(c.dp_degree, rows[i].degree);
        assert_int_equal(c.dp_shards, rows[i].shards);
        assert_int_equal(c.sp, rows[i].sp);
        assert_int_equal(c.parallel, rows[i].parallel);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_splits_what),
        cmocka_unit_test(test_entries_of_deepspeed),
        cmocka_unit_test(test_offloading_of_deepspeed),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_expected_ranks),
        cmocka_unit_test(test_mesh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
