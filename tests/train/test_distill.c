/* test_distill.c - --task direct_distill: the noise of stored seeds is PyTorch's, the loss compares
 * the result of the steps with the stored latents, training is the same however a step is divided,
 * recomputed and shared by ranks, and after a resume; memory is predicted; what is refused. */
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

#include "common/base/rng.h"
#include "common/base/torch_normal.h"
#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"
#include "train/data/starts.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

#define DISTILL "--task direct_distill --distill_steps 3 --flow_shift 3 "

/* ---- noise ---- */

/* PyTorch's vector code is off by some units of the last place of f32. */
static void test_torch(void **state)
{
    static const uint64_t seeds[] = { 0, 42, (1ull << 33) + 5, UINT64_MAX };
    static const size_t sizes[] = { 16, 100, 4096 };
    (void)state;
    float x[4096];
    vf_safetensors *golden = golden_open("torch_noise");
    for (size_t i = 0; i < COUNT(seeds) * COUNT(sizes); i++) {
        char name[48];
        int64_t dim[8];
        const size_t n = sizes[i % COUNT(sizes)];
        const uint64_t seed = seeds[i / COUNT(sizes)];
        snprintf(name, sizeof name, "%llu/%zu", (unsigned long long)seed, n);
        float *want = golden_values(golden, name, dim);
        OK(vc_torch_normals(x, n, seed, &err));
        for (size_t k = 0; k < (size_t)dim[0]; k++)
            if (!(fabsf(x[n - (size_t)dim[0] + k] - want[k]) <= 2e-6f))
                fail_msg("%s: number %zu is %.9g, expected %.9g", name, k,
                         (double)x[n - (size_t)dim[0] + k], (double)want[k]);
        free(want);
    }
    vf_safetensors_close(golden);
    vc_err err;
    assert_fails(vc_torch_normals(x, 15, 1, &err), VC_EINVAL, &err, "at least 16 expected");
}

static const struct {
    const char *extra;
    bool seeded;
    uint64_t seed;
    int64_t steps;
    const char *says;                         /* of the error, or NULL */
} records[] = {
    { NULL, false, 0, 0, NULL },
    { "{}", false, 0, 0, NULL },
    { "{\"seed\":\"7\",\"rand_device\":\"cpu\",\"num_inference_steps\":\"4\",\"cfg_scale\":\"1\"}",
      true, 7, 4, NULL },
    { "{\"seed\":\"7.0\",\"num_inference_steps\":\"8.0\"}", true, 7, 8, NULL },
    { "{\"seed\":\"-1\"}", true, UINT64_MAX, 0, NULL },
    { "{\"seed\":\"\",\"rand_device\":\"cuda\"}", false, 0, 0, NULL },
    { "{\"seed\":\"x\"}", false, 0, 0, "extra.seed: \"x\" is no whole number" },
    { "{\"seed\":\"1.5\"}", false, 0, 0, "extra.seed: \"1.5\" is no whole number" },
    { "{\"seed\":\"1e3\"}", false, 0, 0, "is no whole number" },
    { "{\"num_inference_steps\":\"few\"}", false, 0, 0, "extra.num_inference_steps" },
    { "{\"seed\":\"1\",\"rand_device\":\"cuda\"}", false, 0, 0,
      "extra.rand_device: noise of the seed on \"cuda\"" },
};

static void test_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(records); i++) {
        char *text = vc_format("{\"sample\":0%s%s}", records[i].extra ? ",\"extra\":" : "",
                               records[i].extra ? records[i].extra : "");
        cJSON *record = cJSON_Parse(text);
        vtrain_start s;
        vc_err err = { 0 };
        int rc = vtrain_start_read(&s, record, &err);
        if (records[i].says) {
            assert_true(rc < 0);
            assert_says(&err, records[i].says);
        } else {
            assert_ok(rc, &err);
            assert_int_equal(s.seeded, records[i].seeded);
            assert_true(!s.seeded || s.seed == records[i].seed);
            assert_int_equal(s.steps, records[i].steps);
        }
        cJSON_Delete(record);
        free(text);
    }
}

static void test_start(void **state)
{
    (void)state;
    float x[32], want[32];
    const vtrain_start own = { .seeded = false }, seeded = { .seeded = true, .seed = 9 };
    OK(vtrain_start_noise(x, 32, &own, true, 5, 1, 2, &err));
    vc_train_normals(want, 0, 32, 5, 1, 2, VC_DRAW_NOISE);
    assert_memory_equal(x, want, sizeof x);
    OK(vc_torch_normals(want, 32, 9, &err));
    OK(vtrain_start_noise(x, 32, &seeded, false, 5, 1, 2, &err));
    assert_memory_equal(x, want, sizeof x);
    OK(vtrain_start_noise(x, 32, &seeded, true, 5, 1, 2, &err));
    for (int i = 0; i < 32; i++)
        assert_true(x[i] == vc_bf16_to_f32(vc_f32_to_bf16(want[i])));
}

/* ---- runs ---- */

#define SEED(n) "{\"seed\":\"" #n "\",\"rand_device\":\"cpu\",\"num_inference_steps\":\"3\"}"

static const toy_sample samples[] = {
    { .number = 0, .f = 2, .h = 4, .w = 4, .caption = { "a red ball" }, .extra = SEED(10) },
    { .number = 1, .f = 2, .h = 4, .w = 4, .caption = { "two cubes" }, .extra = SEED(11) },
    { .number = 2, .f = 0, .h = 4, .w = 6, .caption = { "a still" }, .extra = SEED(12) },
    { .number = 3, .f = 2, .h = 4, .w = 4, .caption = { "rain" }, .extra = SEED(13) },
    { .number = 4, .f = 0, .h = 4, .w = 6, .caption = { "another still" }, .extra = SEED(14) },
    { .number = 5, .f = 2, .h = 4, .w = 4, .caption = { "a long walk" }, .extra = SEED(15) },
};

static int setup(void **state)
{
    int rc = toy_dir_setup(state);
    char *path = vc_path_join(toy_dir, "set.lmdb");
    const toy t = { .path = path, .sample = samples, .n = COUNT(samples), .per_channel = true };
    toy_make(&t);
    free(path);
    run_ok(toy_dir, "base", "--dit_width 32 --dit_layers 3 --dit_heads 2 --max_train_steps 2");
    return rc;
}

static char *lora(const char *dir, int steps, const char *args)
{
    char *more = vc_format(DISTILL "%s", args), *all = run_lora_args(dir, steps, more);
    free(more);
    return all;
}

/* The step begins with the noise of the samples' seeds, has their latents for a target, and its
 * loss is that of the result. */
static void test_trace(void **state)
{
    const char *dir = *state;
    char *more = vc_format("--trace_dir %s/trace --trace_steps 1", dir), *args = lora(dir, 1, more);
    run_ok(dir, "traced", args);
    vf_safetensors *st = run_open(dir, "trace/step-000001-mb-00-rank-00.safetensors");
    const vf_view noise = run_tensor(st, "noisy_latents"), x = run_tensor(st, "model_output");
    const vf_view target = run_tensor(st, "target"), latents = run_tensor(st, "latents");
    size_t row = 1, found = 0;
    for (int i = 1; i < noise.nd; i++)
        row *= (size_t)noise.dim[i];
    const size_t n = row * (size_t)noise.dim[0];
    assert_memory_equal(target.data, latents.data, n * sizeof(float));
    for (int64_t r = 0; r < noise.dim[0]; r++)
        for (uint64_t seed = 10; seed < 16; seed++) {
            float want[64];
            OK(vc_torch_normals(want, row, seed, &err));
            found += !memcmp((const float *)noise.data + (size_t)r * row, want,
                             row * sizeof *want);
        }
    assert_int_equal(found, noise.dim[0]);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)((const float *)x.data)[i] -
                         (double)((const float *)target.data)[i];
        sum += d * d / (double)n;
    }
    const double loss = run_value(dir, "traced", 0, "loss");
    assert_true(fabs(sum - loss) <= 1e-5 * loss);
    vf_safetensors_close(st);
    free(args);
    free(more);
}

/* Runs that are the same training: of a LoRA, and of all weights of a built-in DiT of an odd number
 * of blocks, whose last block has the row of the first. */
static const struct { int ranks, stop; const char *name, *like, *args; bool full; } ways[] = {
    { 1, 0, "one", NULL, "", false },
    { 1, 2, "resumed", "one", "", false },
    { 1, 0, "parts", "one", "--train_batch_size 1", false },
    { 1, 0, "recomputed", "one", "--gradient_checkpointing", false },
    { 1, 0, "attention", "one", "--gradient_checkpointing keep_attention", false },
    { 1, 0, "offloaded", "one", "--gradient_checkpointing_offload", false },
    { 2, 0, "ranks", "one", "", false },
    { 2, 0, "zero", "one", "--parallel zero2", false },
    { 2, 2, "split", "one", "--train_batch_size 1 --parallel fsdp", false },
    { 1, 0, "whole", NULL, "", true },
    { 2, 0, "whole-ranks", "whole", "", true },
    { 2, 0, "whole-zero", "whole", "--parallel zero2 --gradient_checkpointing", true },
    { 2, 2, "whole-split", "whole", "--train_batch_size 1 --parallel fsdp", true },
    { 4, 0, "whole-four", "whole", "--train_batch_size 1 --parallel fsdp --dp_shards 2", true },
};

static void run_one(size_t i, const char *dir, int ranks, int steps)
{
    char *more = vc_format("--global_batch_size 4 %s", ways[i].args), *args;
    if (ways[i].full)
        args = vc_format("--dit_width 32 --dit_layers 5 --dit_heads 2 " DISTILL
                         "--mixed_precision no --checkpointing_steps 2 --max_train_steps %d "
                         "--resume_from_checkpoint latest %s", steps, more);
    else
        args = lora(dir, steps, more);
    run_on(ranks, dir, ways[i].name, args);
    free(args);
    free(more);
}

static void test_same(void **state)
{
    const char *dir = *state;
    ranks_model = "";
    for (size_t i = 0; i < COUNT(ways); i++) {
        if (ways[i].stop)
            run_one(i, dir, 1, ways[i].stop);
        run_one(i, dir, ways[i].ranks, 4);
        if (ways[i].like)
            run_same_training(dir, ways[i].like, ways[i].name, 4, 1e-5, 2e-5);
    }
}

/* More training brings the result nearer to the stored latents, in as many steps. */
static void test_learns(void **state)
{
    const char *dir = *state;
    run_ok(dir, "learns", "--dit_width 32 --dit_layers 2 --dit_heads 2 " DISTILL
           "--learning_rate 3e-3 --lr_scheduler constant --lr_warmup_steps 0 --max_train_steps 60 "
           "--eval_split 0.2 --eval_steps 60");
    double first = 0, last = 0;
    for (int i = 0; i < 10; i++) {
        first += run_value(dir, "learns", i, "loss");
        last += run_value(dir, "learns", 50 + i, "loss");
    }
    assert_true(last < 0.7 * first);
    assert_true(run_value(dir, "learns", 59, "eval_loss") > 0);
}

static const struct { const char *args, *says; } refused[] = {
    { "--distill_steps 2", "--distill_steps: belongs to --task direct_distill" },
    { "--distill_sigmas 1 0.5", "--distill_sigmas: belongs to --task direct_distill" },
    { "--task direct_distill --objective v", "the steps follow a flow" },
    { DISTILL "--sp 2", "--sp 2: the steps of --task direct_distill depend on each other" },
    { DISTILL "--min_timestep 100", "--min_timestep: --task direct_distill begins with pure" },
    { DISTILL "--max_timestep_boundary 0.5", "--max_timestep_boundary: --task direct_distill" },
    { DISTILL "--min_denoising_steps 5", "--min_timestep_boundary: --task direct_distill" },
    { DISTILL "--uniform_sampling", "--uniform_sampling: --task direct_distill begins" },
    { DISTILL "--first_frame_conditioning_p 0.5", "clips that begin with a clean frame" },
    { DISTILL "--distill_sigmas 1 0.5", "--distill_sigmas has 2 levels, --distill_steps says 3" },
    { "--task direct_distill --distill_sigmas 0.5 0.9", "--distill_sigmas 0.9: levels are" },
    { "--task direct_distill --distill_sigmas 1 0", "--distill_sigmas 0: levels are" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err = { 0 };
        char *args = vc_format("--dit_width 32 --dit_layers 1 --dit_heads 2 --max_train_steps 1 %s",
                               refused[i].args);
        if (run(dir, "refused", args, &err) != VC_EUSAGE || !strstr(err.text, refused[i].says))
            fail_msg("%s: %s", args, err.text);
        free(args);
    }
}

/* Without flags the number of steps is the samples'; a sample of another number is an error. */
static void test_numbers(void **state)
{
    const char *dir = *state;
    static toy_sample other[2];
    vc_err err = { 0 };
    char *path = vc_format("%s/other.lmdb", dir);
    memcpy(other, samples, sizeof other);
    other[1].extra = "{\"num_inference_steps\":\"5\"}";
    toy_make(&(toy){ .path = path, .sample = other, .n = 2, .per_channel = true });
    char *args = vc_format("--latents %s --output_dir %s/numbers --dit_width 32 --dit_layers 1 "
                           "--dit_heads 2 --max_train_steps 2 --train_batch_size 2 --device cpu "
                           "--task direct_distill", path, dir);
    assert_fails(run_bare(args, &err), VC_EMISMATCH, &err,
                 "extra.num_inference_steps: 5, but the run trains 3 steps");
    free(args);
    args = vc_format("--latents %s --output_dir %s/numbers-2 --dit_width 32 --dit_layers 1 "
                     "--dit_heads 2 --max_train_steps 2 --train_batch_size 2 --device cpu "
                     "--task direct_distill:train --distill_steps 2", path, dir);
    assert_ok(run_bare(args, &err), &err);
    free(args);
    free(path);
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch), cmocka_unit_test(test_records), cmocka_unit_test(test_start),
        cmocka_unit_test(test_trace), cmocka_unit_test(test_same), cmocka_unit_test(test_learns),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, setup, toy_dir_teardown);
}
