/* test_train_device.c - whole runs on a device are compared with runs of the CPU backend: losses,
 * and checkpoints from which a run continues. VLT_DEVICE is "host", the kernels of the CUDA backend
 * on the CPU, or "cuda"; the tests are skipped if no such device opens. */
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
#include "common/tensor/tensor.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

enum { STEPS = 20, HALF = 8, GRAPHS = 24 };

static const char *device;
static char dir[256];

static void train(const char *out, const char *on, const char *args, int steps, bool resume)
{
    const char *model = strstr(args, "--model ") ? ""
                                                 : "--dit_width 32 --dit_layers 2 --dit_heads 2";
    char *all = vc_format("%s --learning_rate 1e-3 --device %s %s --max_train_steps %d%s", model,
                          on,
                          args, steps, resume ? " --resume_from_checkpoint latest" : "");
    vc_err err = { 0 };
    if (run(dir, out, all, &err))
        fail_msg("%s on %s: %s", args, on, err.text);
    free(all);
}

/* The tolerances allow for f32 sums in another order over twenty steps. With stochastic rounding
 * and 8-bit codes a difference in the last bits grows faster. */
static const struct { const char *name, *args; double tolerance; } rows[] = {
    { "f32", "--max_grad_norm 1", 1e-4 },
    { "all", "--use_ema --gradient_accumulation_steps 2 --gradient_checkpointing "
      "--caption_dropout_p 0.3 --validation_steps 20 --num_inference_steps 2", 1e-4 },
    { "8bit", "--optimizer adamw8bit", 2e-3 },
    { "half", "--optimizer adamw_bf16", 1e-2 },
    { "inputs", "--first_frame_conditioning_p 0.5 --dit_guidance_embeds --embedded_guidance 3 "
      "--motion_sub_loss --validation_steps 20 --num_inference_steps 2", 1e-4 },
};

static void test_losses(void **state)
{
    bool simulated = !strcmp(device, "host");    /* "host" copies as late as possible */
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
    /* The data of a step's second micro-batch was prefetched in time at least once, although no
     * optimizer step hides its copy. */
    assert_true(ahead > 0);
}

/* Runs with swapped weights have the same bits as without, with and without recomputation, for any
 * number of swapped blocks, and for the number that a memory limit demands. */
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
        if (rc != (i == 4 ? VC_ENOMEM : 0))
            fail_msg("%s: %s", how[i], err.text);
        free(all);
        free(out);
    }
    static const char *const file = "checkpoint-3/pytorch_lora_weights.safetensors";
    static const int same[][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 5, 6 } };
    for (int i = 0; i < 4; i++) {
        char *a = vc_format("swap-%d/%s", same[i][0], file);
        char *b = vc_format("swap-%d/%s", same[i][1], file);
        if (!run_same_file(dir, a, b))
            fail_msg("%s and %s differ", a, b);
        free(a);
        free(b);
    }
    vc_err err = { 0 };
    char *all = vc_format("--model %s/swap/checkpoint-2 --rank 4 --max_train_steps 3 --device %s "
                          "--blocks_to_swap 5", dir, device);
    assert_fails(run(dir, "swap-many", all, &err), VC_EUSAGE, &err,
                 "--blocks_to_swap 5: the transformer has 4 blocks");
    free(all);
}

/* Replayed steps have the bits of steps that are queued kernel by kernel, as with --profile. The
 * runs have two buckets, texts of several lengths, averages that are swapped with the weights, and
 * evaluation between steps; a LoRA, whose frozen blocks have no gradients; a timestep for each
 * token. */
static void test_graphs(void **state)
{
    static const struct { const char *args, *weights; int least; } how[] = {
        { "--use_ema --gradient_checkpointing --caption_dropout_p 0.3 --eval_split 0.2 "
          "--eval_steps "
          "7 "
          "--gradient_accumulation_steps 2 --validation_steps 10 --num_inference_steps 2",
          "transformer/diffusion_pytorch_model.safetensors", GRAPHS },
        { "--model %s/graphs-0-off/checkpoint-24 --rank 4 --transformer_dtype fp8",
          "pytorch_lora_weights.safetensors", GRAPHS / 2 },
        { "--first_frame_conditioning_p 0.5 --dit_guidance_embeds --embedded_guidance 3",
          "transformer/diffusion_pytorch_model.safetensors", GRAPHS / 2 },
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        char *on = vc_format("graphs-%d-on", i), *off = vc_format("graphs-%d-off", i);
        char *args = vc_format(how[i].args, dir), *profile = vc_format("%s --profile", args);
        double replays = 0;
        train(off, device, profile, GRAPHS, false);
        train(on, device, args, GRAPHS, false);
        for (int k = 0; k < GRAPHS; k++) {
            assert_true(run_value(dir, on, k, "loss") == run_value(dir, off, k, "loss"));
            assert_true(run_value(dir, off, k, "graph_replays") == 0);
            if (i == 0 && (k + 1) % 7 == 0)
                assert_true(run_value(dir, on, k, "eval_loss") ==
                            run_value(dir, off, k, "eval_loss"));
            replays += run_value(dir, on, k, "graph_replays");
        }
        if (replays < how[i].least)
            fail_msg("%s: %g replays", args, replays);
        char *a = vc_format("%s/checkpoint-24/%s", on, how[i].weights);
        char *b = vc_format("%s/checkpoint-24/%s", off, how[i].weights);
        if (!run_same_file(dir, a, b))
            fail_msg("%s and %s differ", a, b);
        free(a);
        free(b);
        free(on);
        free(off);
        free(args);
        free(profile);
    }
}

/* If no step can be captured, the first attempted step is repeated and later steps are queued
 * without a capture. */
static void test_no_graphs(void **state)
{
    (void)state;
    if (strcmp(device, "host"))
        skip();
    train("captured", device, "", HALF, false);
    setenv("VLT_HOST_CAPTURE_FAULT", "no room", 1);
    train("not-captured", device, "", HALF, false);
    unsetenv("VLT_HOST_CAPTURE_FAULT");
    double replays = 0;
    for (int k = 0; k < HALF; k++) {
        assert_true(run_value(dir, "captured", k, "loss") ==
                    run_value(dir, "not-captured", k, "loss"));
        assert_true(run_value(dir, "not-captured", k, "graph_replays") == 0);
        replays += run_value(dir, "captured", k, "graph_replays");
    }
    assert_true(replays > 0);
}

/* Runs with offloaded inputs of blocks have the same bits as without. */
static void test_offload(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        char *all = vc_format("--dit_width 32 --dit_layers 4 --dit_heads 2 --max_train_steps 3 "
                              "--device %s --gradient_checkpointing%s", device, k ? "_offload" :
                              "");
        vc_err err = { 0 };
        assert_ok(run(dir, k ? "offload" : "recompute", all, &err), &err);
        free(all);
    }
#define WEIGHTS "/checkpoint-3/transformer/diffusion_pytorch_model.safetensors"
    assert_true(run_same_file(dir, "recompute" WEIGHTS, "offload" WEIGHTS));
#undef WEIGHTS
}

/* Two runs with --deterministic have the same bits, and record that they are deterministic. */
static void test_deterministic(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        char *all = vc_format("--dit_width 32 --dit_layers 4 --dit_heads 2 --max_train_steps 3 "
                              "--device %s --deterministic", device);
        vc_err err = { 0 };
        assert_ok(run(dir, k ? "again" : "once", all, &err), &err);
        free(all);
    }
    assert_true(run_same_file(dir, "once/checkpoint-3/optimizer.safetensors",
                              "again/checkpoint-3/optimizer.safetensors"));
    char *path = vc_path_join(dir, "once/checkpoint-3/trainer.json"), *text;
    size_t n;
    assert_int_equal(vc_file_read(&text, &n, path, 1 << 20, NULL), 0);
    assert_non_null(strstr(text, ", deterministic\""));
    free(text);
    free(path);
}

/* The losses of a LoRA over fp8 weights are those of the CPU. */
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
        assert_ok(run(dir, k ? "lora-dev" : "lora-cpu", all, &err), &err);
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
        cmocka_unit_test(test_graphs), cmocka_unit_test(test_no_graphs),
        cmocka_unit_test(test_offload), cmocka_unit_test(test_deterministic),
    };
    vt_ctx *g;
    vc_err err = { 0 };

    device = getenv("VLT_DEVICE");
    if (!device)
        device = "host";
    if (!strcmp(device, "cpu")) {
        fprintf(stderr, "SKIPPED: the CPU is what a device is compared with\n");
        return 77;
    }
    if (vt_open(&g, &(vt_options){ .device = device }, &err)) {
        fprintf(stderr, "SKIPPED: %s\n", err.text);
        return 77;
    }
    vt_close(g);
    return cmocka_run_group_tests(tests, setup, teardown);
}
