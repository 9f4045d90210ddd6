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
#include "tests/lib/sanitized.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

enum { STEPS = 20, HALF = 8, GRAPHS = 24 };

static const char *device;
static char dir[256];

/* Models: one in f32, whose attention is plain; one in bf16, as users train, whose heads of 64 a
 * GPU's fused attention takes. */
enum { F32, BF16 };
static const struct kind { const char *name, *model, *flags; } kinds[] = {
    [F32] = { "f32", "--dit_width 32 --dit_heads 2", "" },
    [BF16] = { "bf16", "--dit_width 128 --dit_heads 2", "--mixed_precision bf16 --deterministic" },
};
typedef struct kind kind;

/* Returns a folder's name for a run of the kind. */
static char *of_kind(const kind *k, const char *name) { return vc_format("%s-%s", k->name, name); }

static void train_kind(const kind *k, const char *out, const char *on, const char *args, int steps,
                       bool resume)
{
    bool given = strstr(args, "--model ");
    char *all = vc_format("%s %s %s --learning_rate 1e-3 --device %s %s --max_train_steps %d%s",
                          given ? "" : k->model, given ? "" : "--dit_layers 2", k->flags, on, args,
                          steps, resume ? " --resume_from_checkpoint latest" : "");
    vc_err err = { 0 };
    if (run(dir, out, all, &err))
        fail_msg("%s on %s: %s", args, on, err.text);
    free(all);
}

static void train(const char *out, const char *on, const char *args, int steps, bool resume)
{
    train_kind(&kinds[F32], out, on, args, steps, resume);
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
        "--blocks_to_swap 4 --transformer_dtype nf4", "--transformer_dtype nf4",
        "--blocks_to_swap 4 --transformer_dtype int8", "--transformer_dtype int8",
    };
    const kind *k = *state;
    char *base = of_kind(k, "swap"), *model = vc_format("%s --dit_layers 4 --device cpu "
                                                        "--max_train_steps 2", k->model);
    run_ok(dir, base, model);
    for (int i = 0; i < 11; i++) {
        char *all = vc_format("--model %s/%s/checkpoint-2 --rank 4 --learning_rate 1e-2 "
                              "--max_train_steps 3 --device %s %s %s", dir, base, device, k->flags,
                              how[i]);
        char *out = vc_format("%s-%d", base, i);
        vc_err err = { 0 };
        int rc = run(dir, out, all, &err);
        if (rc != (i == 4 ? VC_ENOMEM : 0))
            fail_msg("%s: %s", how[i], err.text);
        free(all);
        free(out);
    }
    static const char *const file = "checkpoint-3/pytorch_lora_weights.safetensors";
    static const int same[][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 5, 6 }, { 7, 8 }, { 9, 10 } };
    for (int i = 0; i < 6; i++) {
        char *a = vc_format("%s-%d/%s", base, same[i][0], file);
        char *b = vc_format("%s-%d/%s", base, same[i][1], file);
        if (!run_same_file(dir, a, b))
            fail_msg("%s and %s differ", a, b);
        free(a);
        free(b);
    }
    vc_err err = { 0 };
    char *all = vc_format("--model %s/%s/checkpoint-2 --rank 4 --max_train_steps 3 --device %s "
                          "--blocks_to_swap 5", dir, base, device);
    assert_fails(run(dir, "swap-many", all, &err), VC_EUSAGE, &err,
                 "--blocks_to_swap 5: the transformer has 4 blocks");
    free(all);
    free(base);
    free(model);
}

/* With the optimiser's state and the gradients of blocks on the host a run has the same bits as
 * without, and resumes either way: with and without recomputation, and with several micro-batches,
 * whose gradients come back to the device. */
static void test_hosted_state(void **state)
{
#define FACTOR "adafactor --no_adafactor_relative_step --no_adafactor_scale_parameter"
    static const char *const how[] = { "adamw", "adamw_bf16", "adamw8bit", "lion", "lion8bit",
                                       FACTOR, "muon", "prodigy --optimizer_args d0=1e-4" };
#undef FACTOR
    static const char *const files[] = { "optimizer.safetensors",
                                         "transformer/diffusion_pytorch_model.safetensors" };
    static const char away[] = "--offload_optimizer cpu";
    const kind *k = *state;

    size_t n = k == &kinds[F32] ? sizeof how / sizeof *how : 2;

    for (size_t i = 0; i < n; i++) {
        char *whole = vc_format("%s-host-%zu", k->name, i), *parts = vc_format("%s-parts", whole);
        char *plain = vc_format("--optimizer %s --use_ema --gradient_accumulation_steps %zu "
                                "--gradient_checkpointing=%s", how[i], 1 + i % 3,
                                i % 2 ? "block" : "none");
        char *other = vc_format("%s %s", plain, away);
        train_kind(k, whole, device, plain, 5, false);
        train_kind(k, parts, device, other, 2, false);
        train_kind(k, parts, device, plain, 3, true);
        train_kind(k, parts, device, other, 5, true);
        for (int f = 0; f < 2; f++) {
            char *a = vc_format("%s/checkpoint-5/%s", whole, files[f]);
            char *b = vc_format("%s/checkpoint-5/%s", parts, files[f]);
            if (!run_same_file(dir, a, b))
                fail_msg("%s: %s and %s differ", how[i], a, b);
            free(a);
            free(b);
        }
        free(whole);
        free(parts);
        free(plain);
        free(other);
    }
}

/* An update on the host has the rules and draws of one on the device, and resumes after it and
 * before it, also where samples of the average take the weights' place in between. Sums of the norm
 * have another order: weights may differ by a hundredth of the rate, losses by some units of
 * 2^-24. */
static void test_host_update(void **state)
{
    static const char file[] = "checkpoint-5/transformer/diffusion_pytorch_model.safetensors";
    static const char *const how[] = { "adamw", "adamw_bf16", "adamw8bit", "lion", "lion8bit" };
    const kind *k = *state;
    for (size_t i = 0; i < (k == &kinds[F32] ? sizeof how / sizeof *how : 1); i++) {
        char *there = vc_format("%s-there-%zu", k->name, i), *mixed = vc_format("%s-mixed", there);
        char *plain = vc_format("--optimizer %s --use_ema --gradient_accumulation_steps %zu "
                                "--max_grad_norm %d --offload_optimizer cpu --validation_steps 2 "
                                "--num_inference_steps 1", how[i], 1 + i % 2, i ? 1 : 1000);
        char *other = vc_format("%s --offload_update host", plain);
        train_kind(k, there, device, plain, 5, false);
        train_kind(k, mixed, device, other, 2, false);
        train_kind(k, mixed, device, plain, 3, true);
        train_kind(k, mixed, device, other, 5, true);
        for (int s = 0; s < 5; s++) {
            const double a = run_value(dir, there, s, "loss"), b = run_value(dir, mixed, s, "loss");
            if (!(fabs(a - b) <= 1e-6 * a))
                fail_msg("%s, step %d: loss %.9g on the device, %.9g on the host", how[i], s + 1,
                         a, b);
        }
        const double far = run_difference(dir, there, mixed, file);
        if (!(far <= 1e-5))
            fail_msg("%s: weights differ by %.3g", how[i], far);
        free(there);
        free(mixed);
        free(plain);
        free(other);
    }
}

/* A run whose updates go on beside the next forward has the bits of one that saves after each step,
 * so that each forward begins after the whole update; and each checkpoint is that of its step. */
static void test_update_beside(void **state)
{
    static const char *const files[] = { "optimizer.safetensors",
                                         "transformer/diffusion_pytorch_model.safetensors" };
    static const int at[] = { 3, 5 };
    static const char plain[] = "--dit_layers 4 --offload_optimizer cpu --offload_update host "
                                "--gradient_accumulation_steps 2 --max_grad_norm 1";
    const kind *k = *state;
    char *saves = of_kind(k, "saves"), *beside = of_kind(k, "beside");
    char *each = vc_format("%s --checkpointing_steps 1", plain);
    train_kind(k, saves, device, each, 5, false);
    train_kind(k, beside, device, plain, 3, false);
    train_kind(k, beside, device, plain, 5, true);
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < 2; f++) {
            char *a = vc_format("%s/checkpoint-%d/%s", saves, at[i], files[f]);
            char *b = vc_format("%s/checkpoint-%d/%s", beside, at[i], files[f]);
            if (!run_same_file(dir, a, b))
                fail_msg("%s and %s differ", a, b);
            free(a);
            free(b);
        }
    free(saves);
    free(beside);
    free(each);
}

static void test_hosted_refused(void **state)
{
    static const struct { const char *args, *message; } refused[] = {
        { "--offload_update host", "takes --offload_optimizer cpu, a full finetune" },
        { "--offload_optimizer cpu --offload_update host --optimizer muon",
          "--optimizer muon measures or multiplies whole tensors" },
        { "--offload_optimizer disk", "disk: on a GPU the optimiser's state goes to the host's" },
        { "--offload_optimizer cpu --optimizer schedule_free --lr_scheduler constant",
          "not on a GPU with --optimizer schedule_free" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *all = vc_format("--dit_width 32 --dit_heads 2 --device %s --max_train_steps 1 %s",
                              device, refused[i].args);
        vc_err err = { 0 };
        assert_fails(run(dir, "refused", all, &err), VC_EUSAGE, &err, refused[i].message);
        free(all);
    }
}

/* The losses of the quarters of noise, which come from those of a batch's rows, are the same in all
 * steps. */
static void same_levels(const char *a, const char *b)
{
    static const char *const field = "\"loss_levels\"";
    char *x = run_metrics(dir, a, NULL), *y = run_metrics(dir, b, NULL);
    const char *p = x, *q = y;
    int n = 0;

    for (; (p = strstr(p, field)); n++) {
        size_t length = strcspn(p, "]");
        q = strstr(q, field);
        if (!q || strncmp(p, q, length))
            fail_msg("%s and %s: %.*s", a, b, (int)length, p);
        p += length;
        q += length;
    }
    assert_int_equal(n, GRAPHS);
    free(x);
    free(y);
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
        { "--model %s/%s-graphs-0-off/checkpoint-24 --rank 4 --transformer_dtype fp8",
          "pytorch_lora_weights.safetensors", GRAPHS / 2 },
        { "--first_frame_conditioning_p 0.5 --dit_guidance_embeds --embedded_guidance 3",
          "transformer/diffusion_pytorch_model.safetensors", GRAPHS / 2 },
    };
    const kind *k = *state;
    for (int i = 0; i < 3; i++) {
        char *on = vc_format("%s-graphs-%d-on", k->name, i);
        char *off = vc_format("%s-graphs-%d-off", k->name, i);
        char *args = vc_format(how[i].args, dir, k->name);
        char *profile = vc_format("%s --profile", args);
        double replays = 0;
        train_kind(k, off, device, profile, GRAPHS, false);
        train_kind(k, on, device, args, GRAPHS, false);
        for (int at = 0; at < GRAPHS; at++) {
            assert_true(run_value(dir, on, at, "loss") == run_value(dir, off, at, "loss"));
            assert_true(run_value(dir, off, at, "graph_replays") == 0);
            if (i == 0 && (at + 1) % 7 == 0)
                assert_true(run_value(dir, on, at, "eval_loss") ==
                            run_value(dir, off, at, "eval_loss"));
            replays += run_value(dir, on, at, "graph_replays");
        }
        same_levels(on, off);
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
    static const char *const how[] = { "--gradient_checkpointing",
                                       "--gradient_checkpointing_offload" };
    const kind *k = *state;
    char *file[2];
    for (int i = 0; i < 2; i++) {
        char *args = vc_format("--dit_layers 4 %s", how[i]), *out = of_kind(k, how[i] + 2);
        train_kind(k, out, device, args, 3, false);
        file[i] = vc_format("%s/checkpoint-3/transformer/diffusion_pytorch_model.safetensors", out);
        free(args);
        free(out);
    }
    assert_true(run_same_file(dir, file[0], file[1]));
    free(file[0]);
    free(file[1]);
}

/* Two runs with --deterministic have the same bits, and record that they are deterministic. */
static void test_deterministic(void **state)
{
    const kind *k = *state;
    char *once = of_kind(k, "once"), *again = of_kind(k, "again");
    train_kind(k, once, device, "--dit_layers 4 --deterministic", 3, false);
    train_kind(k, again, device, "--dit_layers 4 --deterministic", 3, false);
    char *a = vc_format("%s/checkpoint-3/optimizer.safetensors", once);
    char *b = vc_format("%s/checkpoint-3/optimizer.safetensors", again);
    assert_true(run_same_file(dir, a, b));
    char *path = vc_format("%s/%s/checkpoint-3/trainer.json", dir, once), *text;
    size_t n;
    free(a);
    free(b);
    free(once);
    free(again);
    assert_int_equal(vc_file_read(&text, &n, path, 1 << 20, NULL), 0);
    assert_non_null(strstr(text, ", deterministic\""));
    free(text);
    free(path);
}

/* The losses of a LoRA and of a DoRA over weights of codes are those of the CPU. */
static void test_lora(void **state)
{
    static const char *const how[] = { "fp8", "int8", "nf4", "nf4 --use_dora" };
    (void)state;
    train("base", "cpu", "", STEPS, false);
    for (int h = 0; h < 4; h++) {
        char out[2][24];
        for (int k = 0; k < 2; k++) {
            char *all = vc_format("--model %s/base/checkpoint-20 --rank 4 --mixed_precision no "
                                  "--target_name to_q,to_k,ff.0,ff.2 --learning_rate 1e-2 "
                                  "--max_train_steps 4 --device %s --transformer_dtype %s", dir,
                                  k ? device : "cpu", how[h]);
            vc_err err = { 0 };
            snprintf(out[k], sizeof out[k], "lora-%s-%d", k ? "dev" : "cpu", h);
            assert_ok(run(dir, out[k], all, &err), &err);
            free(all);
        }
        for (int i = 0; i < 4; i++)
            assert_true(fabs(run_value(dir, out[0], i, "loss") -
                             run_value(dir, out[1], i, "loss")) < 1e-4);
    }
}

/* A step with as many tokens as CogVideoX has at 49 x 480 x 720: 17,776, of which 12 are a text's.
 * They are no multiple of 128, the size of fused attention's tiles. Sanitizers run 80. The weights
 * are trained before, as the blocks' gates begin at zero.
 * Sums over tokens have another order; bf16 keeps 8 bits of each activation. */
static void test_long(void **state)
{
    static const char *const what[] = { "loss", "grad_norm" };
    const kind *k = *state;
    char *path = vc_path_join(dir, "long.lmdb"), *base = of_kind(k, "gates");
    const toy_sample one = { .f = 4, .h = 2, .w = SANITIZED ? 34 : 8882, .caption = { "long" } };
    double found[2][2];
    toy_make(&(toy){ .path = path, .sample = &one, .n = 1 });
    train_kind(k, base, "cpu", "--dit_layers 1", HALF, false);
    for (int i = 0; i < 2; i++) {
        char *out = vc_format("long-%d", i);
        char *args = vc_format("--latents %s --output_dir %s/%s --seed 5 --threads %d "
                               "--report_to none --model %s/%s/checkpoint-%d %s --device %s "
                               "--max_train_steps 1", path, dir, out,
                               strcmp(device, "host") ? 8 : 1, dir, base, HALF, k->flags,
                               i ? device : "cpu");
        vc_err err = { 0 };
        assert_ok(run_bare(args, &err), &err);
        for (int j = 0; j < 2; j++)
            found[i][j] = run_value(dir, out, 0, what[j]);
        free(args);
        free(out);
    }
    for (int j = 0; j < 2; j++)
        if (!(fabs(found[0][j] - found[1][j]) <= 2e-2 * found[0][j]))
            fail_msg("%s: %.6g on the CPU, %.6g on %s", what[j], found[0][j], found[1][j], device);
    free(path);
    free(base);
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
#define OF_KIND(test, i) { #test ", " #i, test, NULL, NULL, (void *)(uintptr_t)&kinds[i] }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses), cmocka_unit_test(test_lora),
        cmocka_unit_test(test_no_graphs),
        OF_KIND(test_swap, F32), OF_KIND(test_swap, BF16),
        OF_KIND(test_graphs, F32), OF_KIND(test_graphs, BF16),
        OF_KIND(test_hosted_state, F32), OF_KIND(test_hosted_state, BF16),
        OF_KIND(test_host_update, F32), OF_KIND(test_host_update, BF16),
        OF_KIND(test_update_beside, F32), OF_KIND(test_update_beside, BF16),
        cmocka_unit_test(test_hosted_refused),
        OF_KIND(test_offload, F32), OF_KIND(test_offload, BF16),
        OF_KIND(test_deterministic, F32), OF_KIND(test_deterministic, BF16),
        OF_KIND(test_long, BF16),
    };
#undef OF_KIND
    vt_ctx *g;
    vc_err err = { 0 };

    cmocka_set_test_filter(getenv("VLT_TEST"));  /* a test's name; * matches any letters */
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
