/* test_lora_continue.c - runs that train a LoRA's file further: without flags the file's modules,
 * ranks and alphas are trained, also where they differ from module to module. */
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
#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"
#include "train/models/dit.h"
#include "train/models/flux.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { H = 4, W = 6 };

static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "b" } },
};

static toy toy_of(const char *path)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = 4,
                  .width = 16, .pooled = 32, .encoders = 2, .pooled_only = 1, .family = "flux",
                  .vae = "AutoencoderKL", .scaling = 0.3611, .shift = 0.1159 };
}

static int step(const char *dir, const char *out, const char *more, vc_err *err)
{
    char *args = vc_format("--latents %s/set.lmdb --transformer %s/flux-dev --output_dir %s/%s "
                           "--max_train_steps 1 --mixed_precision no --threads 1 --workers 1 "
                           "--train_batch_size 2 --seed 5 --training_type lora %s", dir, dir, dir,
                           out, more);
    int rc = run_bare(args, err);
    free(args);
    return rc;
}

static char *settings_of(const char *dir, const char *out)
{
    char *path = vc_format("%s/%s/config.yaml", dir, out), *text;
    size_t n;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&text, &n, path, 1 << 20, &err), &err);
    free(path);
    return text;
}

/* ---- one rank ---- */

#define FIRST "--rank 2 --network_alpha 6 --target_name to_q,to_k,to_v,norm1.linear " \
    "--learning_rate 1e-2 --export_kohya --export_comfyui"

static void test_files(void **state)
{
    static const char *const files[] = {
        "pytorch_lora_weights.safetensors", "lora_comfyui.safetensors", "lora_kohya.safetensors",
    };
    const char *dir = *state;
    vc_err err = { 0 };
    assert_ok(step(dir, "a", FIRST, &err), &err);
    char *more = vc_format(FIRST " --lora_checkpoint %s/a/checkpoint-1", dir);
    assert_ok(step(dir, "want", more, &err), &err);
    free(more);
    for (size_t i = 0; i < COUNT(files); i++) {
        char out[16], file[64];
        snprintf(out, sizeof out, "more%zu", i);
        snprintf(file, sizeof file, "%s/checkpoint-1/optimizer.safetensors", out);
        more = vc_format("--learning_rate 1e-2 --lora_checkpoint %s/a/checkpoint-1/%s", dir,
                         files[i]);
        assert_ok(step(dir, out, more, &err), &err);
        assert_true(run_same_file(dir, file, "want/checkpoint-1/optimizer.safetensors"));
        char *text = settings_of(dir, out);
        if (!strstr(text, "\nrank: 2\n") || !strstr(text, "\nnetwork_alpha: 6\n"))
            fail_msg("%s", text);
        free(text);
        free(more);
    }
}

/* ---- flags that differ from the file ---- */

static void test_differs(void **state)
{
    static const struct { const char *flags, *says; } rows[] = {
        { "--rank 4", "has rank 2, but this run's is 4: give --rank 2" },
        { "--network_alpha 2", "has alpha 6, but this run's is 2: give --network_alpha 6" },
        { "--target_name to_q", "--target_name does not match module" },
        { "--target_name to_q,to_k,to_v,norm1.linear,ff.net.2", "the file has no module" },
    };
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *more = vc_format("%s --lora_checkpoint %s/a/checkpoint-1", rows[i].flags, dir);
        vc_err err = { 0 };
        assert_fails(step(dir, "differs", more, &err), VC_EMISMATCH, &err, rows[i].says);
        free(more);
    }
}

/* ---- several ranks ---- */

/* q, k and v of a block have one rank each, as no module of the first authors' has; the last has no
 * alpha. */
static const struct { const char *module; int rank; float alpha; } odd[] = {
    { "transformer_blocks.0.attn.to_q", 2, 2 }, { "transformer_blocks.0.attn.to_k", 3, 1 },
    { "transformer_blocks.0.attn.to_v", 1, 4 }, { "transformer_blocks.0.attn.to_out.0", 4, 0 },
};

static int64_t rows_of(const vf_model *m, const char *module, int64_t *in)
{
    char *name = vc_format("%s.weight", module);
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_model_get(m, name, &v, &err), &err);
    free(name);
    *in = v.dim[1];
    return v.dim[0];
}

static void write_odd(const char *dir, const char *path)
{
    vf_view v[3 * COUNT(odd)];
    float *held[COUNT(v)];
    char *folder = vc_path_join(dir, "flux-dev");
    vf_model *m;
    int n = 0;
    vc_err err = { 0 };
    assert_ok(vf_model_open(&m, folder, &err), &err);
    for (size_t i = 0; i < COUNT(odd); i++) {
        int64_t in, out = rows_of(m, odd[i].module, &in);
        const int64_t dim[3][2] = { { odd[i].rank, in }, { out, odd[i].rank }, { 0, 0 } };
        static const char *const ends[3] = { "lora_down.weight", "lora_up.weight", "alpha" };
        for (int k = 0; k < (odd[i].alpha > 0 ? 3 : 2); k++, n++) {
            const int64_t count = k < 2 ? dim[k][0] * dim[k][1] : 1;
            held[n] = malloc(sizeof **held * (size_t)count);
            for (int64_t c = 0; c < count; c++)
                held[n][c] = k == 2 ? odd[i].alpha : sinf((float)(c + n));
            v[n] = (vf_view){ .name = vc_format("transformer.%s.%s", odd[i].module, ends[k]),
                              .dtype = VC_F32, .nd = k < 2 ? 2 : 0, .dim = { dim[k][0], dim[k][1] },
                              .data = held[n], .bytes = sizeof **held * (size_t)count };
            assert_non_null(v[n].name);
        }
    }
    assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err), &err);
    while (n--) {
        free((void *)(uintptr_t)v[n].name);
        free(held[n]);
    }
    vf_model_close(m);
    free(folder);
}

/* The products of a file, which may be in any layout, are those of the odd file. */
static void same_products(const char *dir, const char *path, const char *odd_path)
{
    char *folder = vc_path_join(dir, "flux-dev");
    vf_model *m;
    vtrain_lora *l[2];
    vc_err err = { 0 };
    assert_ok(vf_model_open(&m, folder, &err) || vtrain_lora_open(&l[0], path, &err) ||
              vtrain_lora_open(&l[1], odd_path, &err), &err);
    vtrain_lora_rename(l[0], vtrain_flux.lora_names, vtrain_flux.peer_names);
    for (size_t i = 0; i < COUNT(odd); i++) {
        int64_t in, out = rows_of(m, odd[i].module, &in);
        float *w[2];
        for (int k = 0; k < 2; k++) {
            vtrain_lora_pair p;
            w[k] = calloc((size_t)(out * in), sizeof *w[k]);
            assert_ok(vtrain_lora_get(l[k], odd[i].module, &p, &err), &err);
            vtrain_lora_merge(w[k], out, in, p.a.data, p.b.data, p.a.dim[0], p.scale);
        }
        if (!(golden_error(w[0], w[1], out * in) < 1e-6))
            fail_msg("%s: %s differs", path, odd[i].module);
        free(w[0]);
        free(w[1]);
    }
    vtrain_lora_close(l[0]);
    vtrain_lora_close(l[1]);
    vf_model_close(m);
    free(folder);
}

static void test_ranks(void **state)
{
    static const char *const files[] = { "pytorch_lora_weights", "lora_comfyui", "lora_kohya" };
    const char *dir = *state;
    char *path = vc_path_join(dir, "odd.safetensors");
    vc_err err = { 0 };
    write_odd(dir, path);
    for (int baked = 0; baked < 2; baked++) {
        const char *out = baked ? "odd-baked" : "odd";
        char *more = vc_format("--lora_checkpoint %s --learning_rate 1e-20 --export_kohya "
                               "--export_comfyui %s", path, baked ? "--bake_scale" : "");
        assert_ok(step(dir, out, more, &err), &err);
        free(more);
        for (size_t i = 0; i < COUNT(files); i++) {
            char *file = vc_format("%s/%s/checkpoint-1/%s.safetensors", dir, out, files[i]);
            same_products(dir, file, path);
            more = vc_format("--lora_checkpoint %s --learning_rate 1e-20", file);
            char out_again[32];
            snprintf(out_again, sizeof out_again, "again-%d-%zu", baked, i);
            assert_ok(step(dir, out_again, more, &err), &err);
            char *again = vc_format("%s/%s/checkpoint-1/pytorch_lora_weights.safetensors", dir,
                                    out_again);
            same_products(dir, again, path);
            free(again);
            free(more);
            free(file);
        }
    }
    char *more = vc_format("--lora_checkpoint %s --rank 2", path);
    assert_fails(step(dir, "differs", more, &err), VC_EMISMATCH, &err,
                 "leave --rank out");
    free(more);
    /* A run resumes with the ranks of its file. */
    more = vc_format("--lora_checkpoint %s --learning_rate 1e-20 --max_train_steps 2 "
                     "--export_kohya --export_comfyui --resume_from_checkpoint latest", path);
    assert_ok(step(dir, "odd", more, &err), &err);
    free(more);
    more = vc_path_join(dir, "odd/checkpoint-2/pytorch_lora_weights.safetensors");
    same_products(dir, more, path);
    free(more);
    free(path);
}

/* ---- a file of another model ---- */

static void test_other(void **state)
{
    static const float one[4] = { 1, 1, 1, 1 };
    const vf_view v[] = {
        { "transformer.down.0.lora_A.weight", VC_F32, 2, { 1, 4 }, one, 16 },
        { "transformer.down.0.lora_B.weight", VC_F32, 2, { 4, 1 }, one, 16 },
    };
    const char *dir = *state;
    char *path = vc_path_join(dir, "other.safetensors");
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, v, 2, NULL, 0, &err), &err);
    char *more = vc_format("--lora_checkpoint %s", path);
    assert_fails(step(dir, "other", more, &err), VC_EMISMATCH, &err,
                 "the file is of another model");
    assert_says(&err, "\"down.0\"");
    free(more);
    free(path);
}

static int make(void **state)
{
    static const char *const names[] = { "flux-dev", NULL };
    int rc = pipeline_models_make(state, names);
    char *set = vc_path_join(*state, "set.lmdb");
    const toy t = toy_of(set);
    toy_make(&t);
    free(set);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files), cmocka_unit_test(test_differs), cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_other),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
