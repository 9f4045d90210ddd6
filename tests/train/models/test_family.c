/* test_family.c - whole runs of a family that exists in this test alone: LoRA files are written and
 * read with its first authors' names, and all its clips begin with a clean frame.
 *
 * This file replaces the table of families.c. Its family is the built-in transformer with these
 * differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/families/families.h"
#include "train/models/dit.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define BLOCK "transformer_blocks.#."

static const vtrain_rename renames[] = {
    { "blocks.#.qkv", .ours = { BLOCK "attn.to_q", BLOCK "attn.to_k", BLOCK "attn.to_v" } },
    { "blocks.#.proj", .ours = { BLOCK "attn.to_out.0" } },
    { "blocks.#.mlp.0", .ours = { BLOCK "ff.net.0.proj" } },
    { 0 }
};
static vtrain_family family;
static bool clean_first;

static void fit(const void *model, vtrain_fit *f)
{
    vtrain_builtin.fit(model, f);
    f->clean_first = clean_first;
}

const vtrain_family *vtrain_family_of_class(const char *class_name)
{
    return strcmp(class_name, family.class_name) ? NULL : &family;
}

const vtrain_family *vtrain_family_with_sound(const vtrain_family *f)
{
    (void)f;
    return NULL;
}

const vtrain_family *vtrain_family_fresh(void)
{
    return &family;
}

const vtrain_family *vtrain_family_with_ssm(const vtrain_family *f)
{
    (void)f;
    return NULL;
}

const char *vtrain_family_name(const vtrain_family *f)
{
    (void)f;
    return "builtin";
}

/* Makes DIR/base/checkpoint-2, the base of the LoRAs. */
static int setup(void **state)
{
    family = vtrain_builtin;
    family.lora_names = renames;
    family.fit = fit;
    run_dir_setup(state);
    run_ok(*state, "base", "--dit_width 32 --dit_layers 2 --dit_heads 2 --max_train_steps 2");
    return 0;
}

static void lora_run(const char *dir, const char *out, const char *args)
{
    char *all = vc_format("--transformer %s/base/checkpoint-2/transformer --learning_rate 1e-2 %s",
                          dir, args);
    run_ok(dir, out, all);
    free(all);
}

/* ---- written ---- */

static const struct { const char *file, *module; } written[] = {
    { "pytorch_lora_weights", "transformer.transformer_blocks.0.attn.to_q.lora_A.weight" },
    { "pytorch_lora_weights", "transformer.transformer_blocks.1.ff.net.0.proj.lora_B.weight" },
    { "lora_comfyui", "diffusion_model.blocks.0.qkv.lora_down.weight" },
    { "lora_comfyui", "diffusion_model.blocks.1.mlp.0.alpha" },
    { "lora_kohya", "lora_unet__blocks_0_qkv.lora_up.weight" },
    { "lora_kohya", "lora_unet__blocks_1_proj.lora_down.weight" },
};

static void test_written(void **state)
{
    const char *dir = *state;
    lora_run(dir, "all", "--rank 4 --network_alpha 8 --max_train_steps 3 "
             "--target_name to_q,to_k,to_v,to_out.0,ff.net.0.proj");
    for (size_t i = 0; i < COUNT(written); i++) {
        char *path = vc_format("%s/all/checkpoint-3/%s.safetensors", dir, written[i].file);
        vf_safetensors *f;
        vf_view v;
        vc_err err = { 0 };
        assert_ok(vf_safetensors_open(&f, path, &err) ||
                  vf_safetensors_get(f, written[i].module, &v, &err), &err);
        vf_safetensors_close(f);
        free(path);
    }
}

/* ---- read ---- */

/* All three files make the same weights when they are folded in: training has the same bits. */
static void test_preset(void **state)
{
    const char *dir = *state;
    static const char *const files[] = { "pytorch_lora_weights", "lora_comfyui", "lora_kohya" };
    static const char after[] = "--rank 2 --max_train_steps 1 --target_name to_out.0";
    lora_run(dir, "without", after);
    for (size_t i = 0; i < COUNT(files); i++) {
        char *args = vc_format("--preset_lora_path %s/all/checkpoint-3/%s.safetensors %s", dir,
                               files[i], after);
        lora_run(dir, files[i], args);
        free(args);
        char *state_of = vc_format("%s/checkpoint-1/optimizer.safetensors", files[i]);
        assert_true(run_same_file(dir, state_of,
                                  "pytorch_lora_weights/checkpoint-1/optimizer.safetensors"));
        assert_false(run_same_file(dir, state_of, "without/checkpoint-1/optimizer.safetensors"));
        free(state_of);
    }
}

/* The training of a LoRA without fused modules can continue from each of its files. */
static void test_checkpoint(void **state)
{
    const char *dir = *state;
    static const char *const files[] = { "pytorch_lora_weights", "lora_comfyui" };
    lora_run(dir, "first", "--rank 2 --max_train_steps 2 --target_name to_out.0");
    for (size_t i = 0; i < COUNT(files); i++) {
        char *out = vc_format("on-%s", files[i]);
        char *args = vc_format("--rank 2 --max_train_steps 1 --target_name to_out.0 "
                               "--lora_checkpoint %s/first/checkpoint-2/%s.safetensors", dir,
                               files[i]);
        lora_run(dir, out, args);
        free(args);
        free(out);
    }
    assert_true(run_same_file(dir, "on-pytorch_lora_weights/checkpoint-1/optimizer.safetensors",
                              "on-lora_comfyui/checkpoint-1/optimizer.safetensors"));
}

/* ---- clean first frames ---- */

static void test_clean_first(void **state)
{
    const char *dir = *state;
    static const char tiny[] = "--dit_width 32 --dit_layers 1 --dit_heads 2 --max_train_steps 2";
    char *args = vc_format("%s --first_frame_conditioning_p 1", tiny), *text;
    run_ok(dir, "asked", args);
    free(args);
    clean_first = true;
    run_ok(dir, "by-family", tiny);
    assert_true(run_same_file(dir, "asked/checkpoint-2/optimizer.safetensors",
                              "by-family/checkpoint-2/optimizer.safetensors"));
    size_t size;
    vc_err err = { 0 };
    char *path = vc_format("%s/by-family/config.yaml", dir);
    assert_ok(vc_file_read(&text, &size, path, 1 << 16, &err), &err);
    assert_non_null(strstr(text, "first_frame_conditioning_p: 1\n"));
    free(text);
    free(path);
    args = vc_format("%s --first_frame_conditioning_p 0.5", tiny);
    assert_fails(run(dir, "half", args, &err), VC_EUSAGE, &err, "begin with a clean frame");
    free(args);
    clean_first = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written), cmocka_unit_test(test_preset),
        cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_clean_first),
    };
    return cmocka_run_group_tests(tests, setup, toy_dir_teardown);
}
