/* test_wan_run.c - whole runs of Wan's tiny transformers: traces, conditions, clean first frames,
 * two transformers, LoRA files, samples, and what of a dataset is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define WEIGHTS "diffusion_pytorch_model.safetensors"
#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { F = 3, H = 4, W = 6, PLANE = H * W, TEXT = 32, ROWS = 512 };
enum { VIDEO = 1 << VC_ROLE_VIDEO | 1 << VC_ROLE_MASK, VISION = 1 << VC_ROLE_VISION };
enum { MASKS = 4, PIXELS = 64 };             /* channels of a mask, of VACE */
enum { EDITED = VIDEO | 1 << VC_ROLE_REACTIVE, PICTURES = 2,
       REFERENCES = 1 << VC_ROLE_REFERENCE | 1 << (VC_ROLE_REFERENCE + 1) };

static const toy_sample samples[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a red ball" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "a long walk" } },
};

/* DIR/set.lmdb with conditions, and DIR/NAME/transformer, the golden's tiny model, with the
 * scheduler's file of Wan 2.1. The prompt has the conditions of `pictured`, or none. */
static void make_with(char dir[256], const char *name, int channels, unsigned conditions,
                      const toy_sample *pictured)
{
    static const char scheduler[] =
        "{\"_class_name\":\"UniPCMultistepScheduler\",\"flow_shift\":5.0,\"use_flow_sigmas\":true,"
        "\"prediction_type\":\"flow_prediction\"}";
    toy_dir_make(dir);
    char *path = vc_path_join(dir, "set.lmdb"), *to = vc_format("%s/%s/transformer", dir, name);
    char *folder = vc_format("%s/%s/scheduler", dir, name);
    char *file = vc_path_join(folder, "scheduler_config.json");
    const toy t = { .path = path, .sample = samples, .n = COUNT(samples), .channels = channels,
                    .width = TEXT, .prompts = 1, .masked = pictured, .conditions = conditions,
                    .train_mode = (conditions & EDITED) == EDITED ? "vace"
                                  : conditions ? "i2v" : "normal",
                    .mask_channels = (conditions & EDITED) == EDITED ? PIXELS : MASKS,
                    .per_channel = true };
    vc_err err = { 0 };
    toy_make(&t);
    vf_safetensors *golden = golden_open(name);
    golden_model(golden, to, VC_BF16);
    vf_safetensors_close(golden);
    assert_ok(vc_mkdirs(folder, &err), &err);
    assert_ok(vc_file_write(file, scheduler, strlen(scheduler), &err), &err);
    free(path);
    free(to);
    free(folder);
    free(file);
}

static void make(char dir[256], const char *name, int channels, unsigned conditions)
{
    make_with(dir, name, channels, conditions, &samples[1]);
}

/* Runs a step with a trace and opens the trace. */
static vf_safetensors *traced(const char *dir, const char *name, const char *more)
{
    vf_safetensors *f;
    vc_err err = { 0 };
    char *args = vc_format("--model %s/%s --max_train_steps 1 --trace_dir %s/%s-trace "
                           "--mixed_precision no --caption_dropout_p 0 %s", dir, name, dir, name,
                           more);
    char *path = vc_format("%s/%s-trace/step-000001-mb-00-rank-00.safetensors", dir, name);
    char *out = vc_format("%s-out", name);
    run_ok(dir, out, args);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(args);
    free(path);
    free(out);
    return f;
}

/* ---- T2V: rows of zeros behind the prompts ---- */

static void test_text(void **state)
{
    char dir[256];
    (void)state;
    make(dir, "wan", 4, 0);
    vf_safetensors *f = traced(dir, "wan", "--training_type full-finetune");
    golden_has_shape(f, "latents", 5, (int64_t[]){ 2, 4, F, H, W });
    golden_has_shape(f, "model_output", 5, (int64_t[]){ 2, 4, F, H, W });
    golden_has_shape(f, "encoder_hidden_states", 3, (int64_t[]){ 2, ROWS, TEXT });
    golden_has_shape(f, "timestep", 1, (int64_t[]){ 2 });
    golden_has_shape(f, "grad/condition_embedder.time_proj.weight", 2, (int64_t[]){ 6 * 32, 32 });
    float *text = golden_values(f, "encoder_hidden_states", NULL);
    for (int64_t i = TOY_TOKENS * TEXT; i < ROWS * TEXT; i++)
        assert_float_equal(text[i], 0, 0);
    free(text);
    vf_safetensors_close(f);
    toy_dir_remove(dir);
}

/* ---- I2V: what is beside the latents ---- */

static void check_beside(const vf_safetensors *f)
{
    const int64_t clip = F * PLANE;
    float *x = golden_values(f, "hidden_states", NULL), *noisy;
    float *picture = golden_values(f, "encoder_hidden_states_image", NULL);
    noisy = golden_values(f, "noisy_latents", NULL);
    for (int row = 0; row < 2; row++) {
        const float *of = x + row * 12 * clip, *mask = of + 4 * clip, *video = of + 8 * clip;
        assert_memory_equal(of, noisy + row * 4 * clip, (size_t)(4 * clip) * sizeof *of);
        /* of either sample: per_channel's mean is the channel, its deviation one more */
        float two[2];
        for (int s = 0; s < 2; s++)
            two[s] = (toy_condition(VC_ROLE_VIDEO, (uint32_t)s, 2 * clip + 5) - 2) / 3;
        float got = video[2 * clip + 5];
        assert_true(got == two[0] || got == two[1]);
        uint32_t sample = got == two[1];
        for (int64_t i = 0; i < MASKS * clip; i++)
            assert_float_equal(mask[i], (double)toy_condition(VC_ROLE_MASK, sample, i), 0);
        for (int64_t i = 0; i < TOY_EMBEDS * TOY_EMBED_WIDTH; i++)
            assert_float_equal(picture[row * TOY_EMBEDS * TOY_EMBED_WIDTH + i],
                               (double)toy_condition(VC_ROLE_VISION, sample, i), 0);
    }
    free(x);
    free(noisy);
    free(picture);
}

static void test_picture(void **state)
{
    char dir[256];
    (void)state;
    make(dir, "wan-i2v", 4, VIDEO | VISION);
    vf_safetensors *f = traced(dir, "wan-i2v", "--posterior sample --validation_steps 1 "
                               "--num_inference_steps 3");
    golden_has_shape(f, "hidden_states", 5, (int64_t[]){ 2, 12, F, H, W });
    golden_has_shape(f, "encoder_hidden_states_image", 3,
              (int64_t[]){ 2, TOY_EMBEDS, TOY_EMBED_WIDTH });
    check_beside(f);
    vf_safetensors_close(f);

    vc_err err = { 0 };
    char *path = vc_format("%s/wan-i2v-out/validation/step-1/000.safetensors", dir);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    assert_string_equal(vf_safetensors_meta(f, "sampler"), "unipc");
    assert_string_equal(vf_safetensors_meta(f, "guidance_scale"), "5");
    vf_safetensors_close(f);
    free(path);
    toy_dir_remove(dir);
}

/* ---- VACE: references in front, of what is learned too ---- */

enum { C = 4, ALL = F + PICTURES };

/* Element [c,p] of frame t of a condition of a sample, as the transformer gets it. */
static double edited(vc_role role, uint32_t sample, int frames, int c, int t, int p)
{
    const double x = (double)toy_condition(role, sample, ((int64_t)c * frames + t) * PLANE + p);
    return vc_roles[role].kind == VC_VALUE_MASK ? x : (x - c) / (1 + c);
}

/* What frame t of channel c of VACE's input should be; behind the references their frames are the
 * clip's. */
static double beside(uint32_t sample, int c, int t, int p)
{
    if (t < PICTURES)
        return c < C ? edited((vc_role)(VC_ROLE_REFERENCE + PICTURES - 1 - t), sample, 1, c, 0, p)
                     : 0;
    const vc_role role = c < C ? VC_ROLE_VIDEO : c < 2 * C ? VC_ROLE_REACTIVE : VC_ROLE_MASK;
    return edited(role, sample, F, c < 2 * C ? c % C : c - 2 * C, t - PICTURES, p);
}

static void check_row(const float *x, const float *control, uint32_t sample)
{
    for (int i = 0; i < (2 * C + PIXELS) * ALL * PLANE; i++) {
        const int c = i / (ALL * PLANE), t = i / PLANE % ALL, p = i % PLANE;
        assert_float_equal(control[i], beside(sample, c, t, p), 1e-6);
        if (c >= C)
            continue;
        const int64_t at = ((int64_t)c * F + t - PICTURES) * PLANE + p;
        const double clip = t < PICTURES ? beside(sample, c, t, p)
                                         : ((double)toy_mean(sample, 0, at) - c) / (1 + c);
        assert_float_equal(x[i], clip, 1e-6);
    }
}

static void test_edited(void **state)
{
    char dir[256];
    (void)state;
    make(dir, "wan-vace", C, EDITED | REFERENCES);
    vf_safetensors *f = traced(dir, "wan-vace", "--validation_steps 1 --num_inference_steps 3");
    golden_has_shape(f, "control_hidden_states", 5,
                     (int64_t[]){ 2, 2 * C + PIXELS, ALL, H, W });
    golden_has_shape(f, "latents", 5, (int64_t[]){ 2, C, ALL, H, W });
    float *x = golden_values(f, "latents", NULL);
    float *control = golden_values(f, "control_hidden_states", NULL);
    const uint32_t of = x[PICTURES * PLANE] != toy_mean(0, 0, 0);     /* of the first row */
    for (uint32_t row = 0; row < 2; row++)
        check_row(x + row * C * ALL * PLANE, control + row * (2 * C + PIXELS) * ALL * PLANE,
                  of ^ row);
    free(x);
    free(control);
    vf_safetensors_close(f);
    toy_dir_remove(dir);

    make(dir, "wan-vace", C, EDITED | REFERENCES);
    f = traced(dir, "wan-vace", "--reference_dropout_p 1");
    golden_has_shape(f, "latents", 5, (int64_t[]){ 2, C, F, H, W });
    golden_has_shape(f, "control_hidden_states", 5, (int64_t[]){ 2, 2 * C + PIXELS, F, H, W });
    vf_safetensors_close(f);
    toy_dir_remove(dir);
}

/* A prompt without a picture is sampled all the same, with zeros for the picture. */
static void test_no_picture(void **state)
{
    char dir[256];
    (void)state;
    make_with(dir, "wan-i2v", 4, VIDEO | VISION, NULL);
    char *args = vc_format("--model %s/wan-i2v --rank 2 --max_train_steps 1 --validation_steps 1 "
                           "--num_inference_steps 2", dir);
    run_ok(dir, "out", args);
    assert_true(run_exists(dir, "out/validation/step-1/000.safetensors"));
    free(args);
    toy_dir_remove(dir);
}

/* ---- 5B: a clean first frame ---- */

static void test_clean_first(void **state)
{
    char dir[256];
    (void)state;
    make(dir, "wan-5b", 48, 0);
    vf_safetensors *f = traced(dir, "wan-5b", "--first_frame_conditioning_p 1");
    golden_has_shape(f, "timestep", 2, (int64_t[]){ 2, F * PLANE / 4 });
    float *t = golden_values(f, "timestep", NULL), *times = golden_values(f, "timesteps", NULL);
    float *weight = golden_values(f, "loss_weight", NULL);
    for (int i = 0; i < F * PLANE / 4; i++)
        assert_true(t[i] == (i < PLANE / 4 ? 0 : times[0]));
    assert_true(weight[0] == 0 && weight[1] == 1.5f);
    free(t);
    free(times);
    free(weight);
    vf_safetensors_close(f);

    /* without a scheduler's file the shift is 5B's own */
    char *args = vc_format("--transformer %s/wan-5b/transformer --rank 2 --max_train_steps 1", dir);
    run_ok(dir, "alone", args);
    char *path = vc_format("%s/alone/config.yaml", dir), *yaml;
    size_t n;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&yaml, &n, path, 1 << 20, &err), &err);
    assert_non_null(strstr(yaml, "\nflow_shift: 5\n"));
    free(yaml);
    free(path);
    free(args);
    toy_dir_remove(dir);
}

/* ---- LoRA files: the first authors' names, which the next run reads ---- */

static void test_lora(void **state)
{
    static const char *const files[][2] = {
        { "pytorch_lora_weights", "transformer.blocks.0.attn1.to_out.0.lora_A.weight" },
        { "lora_kohya", "lora_unet__blocks_0_self_attn_o.lora_down.weight" },
        { "lora_comfyui", "diffusion_model.blocks.0.cross_attn.q.lora_down.weight" },
    };
    char dir[256];
    (void)state;
    make(dir, "wan", 4, 0);
    char *args = vc_format("--model %s/wan --rank 2 --max_train_steps 1", dir);
    run_ok(dir, "lora", args);
    for (size_t i = 0; i < COUNT(files); i++) {
        vf_safetensors *f;
        vf_view v;
        vc_err err = { 0 };
        char *path = vc_format("%s/lora/checkpoint-1/%s.safetensors", dir, files[i][0]);
        char *out = vc_format("from-%s", files[i][0]);
        assert_ok(vf_safetensors_open(&f, path, &err), &err);
        assert_ok(vf_safetensors_get(f, files[i][1], &v, &err), &err);
        vf_safetensors_close(f);
        char *again = vc_format("%s --lora_checkpoint %s", args, path);
        run_ok(dir, out, again);
        free(again);
        free(out);
        free(path);
    }
    assert_true(run_same_file(dir, "from-lora_kohya/checkpoint-1/optimizer.safetensors",
                              "from-pytorch_lora_weights/checkpoint-1/optimizer.safetensors"));
    assert_true(run_same_file(dir, "from-lora_comfyui/checkpoint-1/optimizer.safetensors",
                              "from-pytorch_lora_weights/checkpoint-1/optimizer.safetensors"));
    free(args);
    toy_dir_remove(dir);
}

/* ---- a folder of the first authors ---- */

/* Writes the weights of DIR/NAME/transformer to the folder `to`, with the first authors' names if
 * `map` has them, and with one tensor more unless its name is NULL. */
static void copy_weights(const char *dir, const char *name, const char *to, const cJSON *map,
                         const char *more)
{
    enum { MOST = 128 };
    vf_view view[MOST];
    vf_safetensors *f;
    char *from = vc_format("%s/%s/transformer/" WEIGHTS, dir, name);
    char *weights = vc_path_join(to, WEIGHTS);
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, from, &err), &err);
    int n = vf_safetensors_count(f);
    assert_true(n < MOST);
    for (int i = 0; i < n; i++) {
        view[i] = *vf_safetensors_at(f, i);
        if (map)
            view[i].name = cJSON_GetObjectItem(map, view[i].name)->valuestring;
    }
    if (more) {
        view[n] = view[0];
        view[n++].name = more;
    }
    assert_ok(vf_safetensors_write(weights, view, n, NULL, 0, &err), &err);
    vf_safetensors_close(f);
    free(from);
    free(weights);
}

/* Makes DIR/first, the golden's model in the first authors' form. */
static void make_first(const char *dir, const char *name, const char *config, const char *more)
{
    vf_safetensors *names = golden_open("wan-names");
    const char *text = vf_safetensors_meta(names, "weights");
    char *to = vc_format("%s/first", dir), *file = vc_path_join(to, "config.json");
    cJSON *map;
    vc_err err = { 0 };
    assert_ok(vf_json_parse(&map, text, strlen(text), &err), &err);
    assert_ok(vc_mkdirs(to, &err), &err);
    assert_ok(vc_file_write(file, config, strlen(config), &err), &err);
    copy_weights(dir, name, to, map, more);
    vf_safetensors_close(names);
    cJSON_Delete(map);
    free(to);
    free(file);
}

#define FIRST "{\"_class_name\":\"WanModel\",\"dim\":32,\"ffn_dim\":48,\"freq_dim\":32," \
    "\"num_heads\":2,\"num_layers\":1,\"in_dim\":12,\"out_dim\":4,\"eps\":1e-6,\"text_len\":512,"

/* A full finetune begins with the same values, and its checkpoint is diffusers'. */
static void test_first_authors(void **state)
{
    static const char args[] = "--training_type full-finetune --max_train_steps 1";
    char dir[256];
    (void)state;
    make(dir, "wan-a14b", 4, VIDEO);
    make_first(dir, "wan-a14b", FIRST "\"model_type\":\"i2v\"}", NULL);
    char *ours = vc_format("--model %s/wan-a14b --scheduler %s/wan-a14b/scheduler %s", dir, dir,
                           args);
    char *theirs = vc_format("--model %s/first --scheduler %s/wan-a14b/scheduler %s", dir, dir,
                             args);
    run_ok(dir, "ours", ours);
    run_ok(dir, "theirs", theirs);
    assert_true(run_same_file(dir, "ours/checkpoint-1/optimizer.safetensors",
                              "theirs/checkpoint-1/optimizer.safetensors"));
    assert_true(run_same_file(dir, "ours/checkpoint-1/transformer/" WEIGHTS,
                              "theirs/checkpoint-1/transformer/" WEIGHTS));
    char *again = vc_format("--model %s/theirs/checkpoint-1 %s", dir, args);
    run_ok(dir, "again", again);

    vc_err err = { 0 };
    make_first(dir, "wan-a14b", FIRST "\"model_type\":\"vace\"}", NULL);
    assert_fails(run(dir, "vace", theirs, &err), VC_EFORMAT, &err,
                 "model_type: no model of the type \"vace\"");
    make_first(dir, "wan-a14b", FIRST "\"model_type\":\"i2v\"}", "blocks.0.norm2.weight");
    assert_fails(run(dir, "more", theirs, &err), VC_EMISMATCH, &err,
                 "tensor blocks.0.norm2.weight: the transformers of the class WanModel");
    make_first(dir, "wan-a14b", FIRST "\"model_type\":\"i2v\"}", "ref_conv.weight");
    assert_fails(run(dir, "ref", theirs, &err), VC_EMISMATCH, &err,
                 "ref_conv.weight: the transformer reads a reference picture");
    make_first(dir, "wan-a14b", FIRST "\"model_type\":\"i2v\"}", "control_adapter.conv.weight");
    assert_fails(run(dir, "poses", theirs, &err), VC_EMISMATCH, &err,
                 "control_adapter.conv.weight: the transformer reads camera poses");
    free(ours);
    free(theirs);
    free(again);
    toy_dir_remove(dir);
}

/* All tensors of FLF2V are found by their names. */
static void test_first_tensors(void **state)
{
    char dir[256];
    vc_err err = { 0 };
    (void)state;
    make(dir, "wan-flf2v", 4, VIDEO | VISION);
    make_first(dir, "wan-flf2v", FIRST "\"model_type\":\"flf2v\"}", NULL);
    char *args = vc_format("--model %s/first --rank 2 --max_train_steps 1", dir);
    assert_fails(run(dir, "out", args, &err), VC_EMISMATCH, &err,
                 "shape [5,40], expected [10,40]");          /* of the dataset, after the model */
    free(args);
    toy_dir_remove(dir);
}

/* ---- what is refused ---- */

/* Released files have a norm that no one uses; any other tensor is a sign of another model. */
static void test_spare(void **state)
{
    char dir[256];
    vc_err err = { 0 };
    (void)state;
    make(dir, "wan-i2v", 4, VIDEO | VISION);
    char *args = vc_format("--transformer %s/more --rank 2 --max_train_steps 1", dir);
    char *to = vc_format("%s/more", dir), *file = vc_path_join(to, "config.json"), *config;
    char *from = vc_format("%s/wan-i2v/transformer/config.json", dir);
    size_t n;
    assert_ok(vc_file_read(&config, &n, from, 1 << 20, &err), &err);
    assert_ok(vc_mkdirs(to, &err), &err);
    assert_ok(vc_file_write(file, config, n, &err), &err);
    copy_weights(dir, "wan-i2v", to, NULL, "blocks.0.attn2.norm_added_q.weight");
    run_ok(dir, "spare", args);
    copy_weights(dir, "wan-i2v", to, NULL, "blocks.0.attn2.norm_added_v.weight");
    assert_fails(run(dir, "other", args, &err), VC_EMISMATCH, &err,
                 "tensor blocks.0.attn2.norm_added_v.weight: "
                 "the transformers of the class WanTrans");
    free(args);
    free(to);
    free(file);
    free(from);
    free(config);
    toy_dir_remove(dir);
}

static void refused(const char *name, int channels, unsigned conditions, const char *more, int rc,
                    const char *says)
{
    char dir[256];
    vc_err err = { 0 };
    make(dir, name, channels, conditions);
    char *args = vc_format("--model %s/%s --rank 2 --max_train_steps 1 %s", dir, name, more);
    assert_fails(run(dir, "out", args, &err), rc, &err, says);
    assert_false(run_exists(dir, "out"));
    free(args);
    toy_dir_remove(dir);
}

static void test_refused(void **state)
{
    (void)state;
    refused("wan-i2v", 4, 0, "", VC_EMISMATCH, "was made with --train_mode normal: run vprep "
            "--train_mode i2v");
    refused("wan-i2v", 4, VIDEO, "", VC_EMISMATCH, "takes a vision model's states of the first "
            "frame, which the dataset");
    refused("wan-flf2v", 4, VIDEO | VISION, "", VC_EMISMATCH, "image_embeds: shape [5,40], "
            "expected [10,40]");
    refused("wan-i2v", 4, VIDEO | VISION, "--first_frame_conditioning_p 1", VC_EUSAGE,
            "takes one timestep for all tokens of a sample");
    refused("wan", 6, 0, "", VC_EMISMATCH, "latents have 6 channels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text), cmocka_unit_test(test_picture), cmocka_unit_test(test_edited),
        cmocka_unit_test(test_no_picture),
        cmocka_unit_test(test_clean_first), cmocka_unit_test(test_lora),
        cmocka_unit_test(test_first_authors), cmocka_unit_test(test_first_tensors),
        cmocka_unit_test(test_spare),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
