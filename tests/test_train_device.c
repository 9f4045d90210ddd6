/* test_train_device.c - whole runs on another device than the CPU backend, against it: losses, and
 * checkpoints that either goes on with. VLT_DEVICE: "host", the kernels of the CUDA backend on the
 * CPU, or "cuda": skipped where none opens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/file.h"
#include "common/tensor/tensor.h"
#include "tests/train_dataset.h"
#include "tests/train_run.h"

enum { STEPS = 20, HALF = 8 };

static const char *device;
static char dir[256];

static void train(const char *out, const char *on, const char *args, int steps, bool resume)
{
    char *all = vc_format("--dit_width 32 --dit_layers 2 --dit_heads 2 --learning_rate 1e-3 "
                          "--device %s %s --max_train_steps %d%s", on, args, steps,
                          resume ? " --resume_from_checkpoint latest" : "");
    vc_err err = { 0 };
    if (run(dir, out, all, &err)) fail_msg("%s on %s: %s", args, on, err.text);
    free(all);
}

/* f32 sums in another order, over twenty steps; stochastic rounding and codes fall apart where they
 * begin with other last bits. */
static const struct { const char *name, *args; double tolerance; } rows[] = {
    { "f32", "--max_grad_norm 1", 1e-4 },
    { "all", "--use_ema --gradient_accumulation_steps 2 --gradient_checkpointing "
      "--caption_dropout_p 0.3 --validation_steps 20 --num_inference_steps 2", 1e-4 },
    { "8bit", "--optimizer adamw8bit", 2e-3 },
    { "half", "--optimizer adamw_bf16", 1e-2 },
};

static void test_losses(void **state)
{
    bool simulated = !strcmp(device, "host");    /* there nothing comes before it is asked for */
    int ahead = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *here = vc_format("%s-cpu", rows[i].name), *there = vc_format("%s-dev", rows[i].name);
        train(here, "cpu", rows[i].args, STEPS, false);
        train(there, device, rows[i].args, HALF, false);
        train(there, device, rows[i].args, STEPS, true);
        for (int k = 0; k < STEPS; k++) {
            double a = run_value(dir, here, k, "loss"), b = run_value(dir, there, k, "loss");
            if (!(fabs(a - b) <= rows[i].tolerance * a))
                fail_msg("%s, step %d: loss %.7f on the CPU, %.7f on %s", rows[i].name, k + 1, a, b,
                         device);
            double waits = run_value(dir, there, k, "device_waits");
            if (!(waits >= (k == 0 && simulated)))
                fail_msg("%s, step %d: %g waits", rows[i].name, k + 1, waits);
            ahead += waits < 1 && strstr(rows[i].args, "accumulation");
        }
        free(here);
        free(there);
    }
    /* of two micro-batches in a row, without an update that hides a copy: the loader was in time
     * once at least */
    assert_true(ahead > 0);
}

/* Swapped weights are the same weights: the same bits, whatever is recomputed, and however many are
 * swapped; also as few as a limit asks for. */
static void test_swap(void **state)
{
    static const char *const how[] = {
        "", "--blocks_to_swap 3 --gradient_checkpointing=none", "--blocks_to_swap 4",
        "--low_vram", "--low_vram --memory_limit 1M",
        "--blocks_to_swap 4 --transformer_dtype fp8", "--transformer_dtype fp8",
    };
    (void)state;
    run_ok(dir, "swap", "--dit_width 32 --dit_layers 4 --dit_heads 2 --device cpu "
           "--max_train_steps 2");
    for (int i = 0; i < 7; i++) {
        char *all = vc_format("--model %s/swap/checkpoint-2 --rank 4 --learning_rate 1e-2 "
                              "--max_train_steps 3 --device %s %s", dir, device, how[i]);
        char *out = vc_format("swap-%d", i);
        vc_err err = { 0 };
        int rc = run(dir, out, all, &err);
        if (rc != (i == 4 ? VC_ENOMEM : 0)) fail_msg("%s: %s", how[i], err.text);
        free(all);
        free(out);
    }
    static const char *const file = "checkpoint-3/pytorch_lora_weights.safetensors";
    static const int same[][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 5, 6 } };
    for (int i = 0; i < 4; i++) {
        char *a = vc_format("swap-%d/%s", same[i][0], file);
        char *b = vc_format("swap-%d/%s", same[i][1], file);
        if (!run_same_file(dir, a, b)) fail_msg("%s and %s differ", a, b);
        free(a);
        free(b);
    }
    vc_err err = { 0 };
    char *all = vc_format("--model %s/swap/checkpoint-2 --rank 4 --max_train_steps 3 --device %s "
                          "--blocks_to_swap 5", dir, device);
    assert_int_equal(run(dir, "swap-many", all, &err), VC_EUSAGE);
    assert_non_null(strstr(err.text, "--blocks_to_swap 5: the transformer has 4 blocks"));
    free(all);
}

/* A LoRA over fp8 weights; its file is the CPU's but for the last digits' steps. */
static void test_lora(void **state)
{
    (void)state;
    train("base", "cpu", "", STEPS, false);
    char *args = vc_format("--model %s/base/checkpoint-20 --rank 4 --transformer_dtype fp8 "
                           "--mixed_precision no --target_name to_q,to_k,ff.0,ff.2", dir);
    for (int k = 0; k < 2; k++) {
        char *all = vc_format("%s --learning_rate 1e-2 --max_train_steps 4 --device %s", args,
                              k ? device : "cpu");
        vc_err err = { 0 };
        if (run(dir, k ? "lora-dev" : "lora-cpu", all, &err)) fail_msg("%s", err.text);
        free(all);
    }
    for (int i = 0; i < 4; i++)
        assert_true(fabs(run_value(dir, "lora-cpu", i, "loss") -
                         run_value(dir, "lora-dev", i, "loss")) < 1e-4);
    free(args);
}

static int setup(void **state)
{
    (void)state;
    run_dir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    toy_dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses), cmocka_unit_test(test_swap), cmocka_unit_test(test_lora),
    };
    vt_ctx *g;
    vc_err err = { 0 };

    device = getenv("VLT_DEVICE");
    if (!device) device = "host";
    if (vt_open(&g, &(vt_options){ .device = device }, &err)) {
        fprintf(stderr, "SKIPPED: %s\n", err.text);
        return 77;
    }
    vt_close(g);
    return cmocka_run_group_tests(tests, setup, teardown);
}
