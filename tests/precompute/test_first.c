/* test_first.c - encoders in single files, with their first authors' names: each tensor, the hash,
 * the fingerprint and every bit of the results are those of the folder in diffusers' layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "precompute/text/clip.h"
#include "precompute/text/clip_vision.h"
#include "precompute/text/t5.h"
#include "tests/lib/first.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

/* A golden's model as a folder and as a file. */
typedef struct both {
    vf_safetensors *golden;
    char dir[512], file[600];
} both;

static both make(const char *golden, const char *ending)
{
    both b = { .golden = golden_open(golden) };
    snprintf(b.dir, sizeof b.dir, "%s", golden_tmp(golden));
    golden_model(b.golden, b.dir, VC_F32);
    snprintf(b.file, sizeof b.file, "%s/single%s", golden_tmp("files"), ending);
    first_write(b.golden, b.file);
    return b;
}

static void end(both *b)
{
    vf_safetensors_close(b->golden);
}

/* A name without the prefix that transformers writes or leaves out. */
static const char *bare(const char *name)
{
    static const char *const prefixes[] = { "vision_model.", "text_model." };
    for (int i = 0; i < 2; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return name + strlen(prefixes[i]);
    return name;
}

static void same_tensors(const vf_model *a, const vf_model *b)
{
    assert_int_equal(vf_model_count(a), vf_model_count(b));
    for (int i = 0; i < vf_model_count(a); i++) {
        const vf_view *x = vf_model_at(a, i), *y = vf_model_at(b, i);
        assert_string_equal(bare(x->name), bare(y->name));
        assert_true(x->dtype == y->dtype && x->nd == y->nd && x->bytes == y->bytes);
        assert_memory_equal(x->dim, y->dim, (size_t)x->nd * sizeof *x->dim);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static vf_key hash_of(const vf_model *m)
{
    vc_err err = { 0 };
    vf_key k;
    assert_ok(vf_model_hash(&k, m, NULL, &err), &err);
    return k;
}

/* The keys of a dataset depend on the hash of the weights. */
static void compare_files(const both *b, bool prefixed)
{
    vc_err err = { 0 };
    vf_model *folder, *file;
    assert_ok(vf_component_open(&folder, b->dir, NULL, &err), &err);
    assert_ok(vf_component_open(&file, b->file, NULL, &err), &err);
    same_tensors(folder, file);
    vf_key is = hash_of(file), was = hash_of(folder);
    if (!prefixed)
        assert_memory_equal(&is, &was, sizeof is);
    vf_model_close(folder);
    vf_model_close(file);
}

/* ---- autoencoders ---- */

static vae *open_vae(const vae_class *class, const char *path, vae_info *info)
{
    encoder_opts o = { .dir = path, .dtype = VC_F32, .device = "cpu" };
    vc_err err = { 0 };
    vae *v;
    assert_ok(class->open(&v, &o, info, &err), &err);
    return v;
}

enum { F = 5, H = 32, W = 48, MOST = 2 * 4 * 6 * 48 };

/* Latents of f frames have the same pixels. */
static void same_pixels(const vae_class *class, vae *const v[2], const vae_info *info,
                        const float *z, int f)
{
    static uint8_t pixels[2][F * H * W * 3];
    vc_err err = { 0 };

    for (int i = 0; i < 2; i++) {
        memset(pixels[i], i, sizeof pixels[i]);
        assert_ok(class->decode(v[i], z, f, H / info->ratio[1], W / info->ratio[2],
                                &(vae_output){ .all = pixels[i] }, &err), &err);
    }
    const size_t n = (size_t)((f - 1) * info->ratio[0] + 1) * H * W * 3;
    assert_memory_equal(pixels[0], pixels[1], n);
}

static void same_latents(const vae_class *class, const both *b)
{
    static float pixels[F * H * W * 3], mean[2][MOST], logvar[2][MOST];
    vae_info info[2];
    vae *v[2] = { open_vae(class, b->dir, &info[0]), open_vae(class, b->file, &info[1]) };
    const int f = info[0].ratio[0] > 1 ? F : 1;
    const int frames = (f - 1) / info[0].ratio[0] + 1;
    const size_t n = (size_t)frames * (H / (size_t)info[0].ratio[1]) *
                     (W / (size_t)info[0].ratio[2]) * (size_t)info[0].channels;
    vc_err err = { 0 };

    assert_true(n <= MOST);
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = (float)(i * 37 % 256) / 127.5f - 1;
    assert_memory_equal(&info[0].fingerprint, &info[1].fingerprint, sizeof info[0].fingerprint);
    assert_string_equal(info[0].class, info[1].class);
    assert_true(info[0].scaling_factor == info[1].scaling_factor &&
                info[0].shift_factor == info[1].shift_factor);
    for (int c = 0; info[0].per_channel && c < info[0].channels; c++)
        assert_true(info[0].mean[c] == info[1].mean[c] && info[0].std[c] == info[1].std[c]);
    for (int i = 0; i < 2; i++)
        assert_ok(class->encode(v[i], &(vae_input){ .all = pixels }, f, H, W, mean[i], logvar[i],
                                &err), &err);
    assert_memory_equal(mean[0], mean[1], n * sizeof(float));
    assert_memory_equal(logvar[0], logvar[1], n * sizeof(float));
    same_pixels(class, v, info, mean[0], frames);
    class->close(v[0]);
    class->close(v[1]);
}

static void autoencoders(void **state)
{
    static const struct { const char *golden; const vae_class *class; } rows[] = {
        { "first-vae-wan", &vae_wan }, { "first-vae-wan-2.2", &vae_wan },
        { "first-vae-flux", &vae_kl }, { "first-vae-hunyuan", &vae_hunyuan },
        { "first-vae-flux2", &vae_flux2 }, { "first-vae-flux2-comfy", &vae_flux2 },
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        both b = make(rows[i / 2].golden, i % 2 ? ".pth" : ".safetensors");
        compare_files(&b, false);
        same_latents(rows[i / 2].class, &b);
        end(&b);
    }
}

/* The weights of diffusers' folder, as a file elsewhere: its sizes follow from its tensors. */
static void flux2_of_diffusers(void **state)
{
    (void)state;
    both b = make("first-vae-flux2", ".safetensors");
    char *weights = vc_path_join(b.dir, "diffusion_pytorch_model.safetensors");
    vc_err err = { 0 };
    cJSON *config;

    assert_int_equal(remove(b.file), 0);
    assert_int_equal(link(weights, b.file), 0);
    compare_files(&b, false);
    same_latents(&vae_flux2, &b);
    assert_ok(vf_component_config(&config, b.file, NULL, "AutoencoderKLFlux2", &err), &err);
    cJSON_Delete(config);
    assert_fails(vf_component_config(&config, b.file, NULL, "AutoencoderKL", &err), VC_EUSAGE, &err,
                 "the file holds AutoencoderKLFlux2, not AutoencoderKL");
    free(weights);
    end(&b);
}

/* Qwen-Image's autoencoder has Wan's names, and a class of its own. */
static void class_of_qwen_image(void **state)
{
    (void)state;
    both b = make("first-vae-wan", ".safetensors");
    vae_info info;
    vae *v = open_vae(&vae_qwen_image, b.file, &info);
    assert_string_equal(info.class, "AutoencoderKLQwenImage");
    vae_qwen_image.close(v);
    end(&b);
}

/* ---- text encoders ---- */

static void same_states(const char *golden, const char *type, const char *ending)
{
    both b = make(golden, ending);
    const int64_t ids[5] = { 9, 40, 3, 17, 1 };
    float states[2][5 * 32];
    vf_key key[2];
    vc_err err = { 0 };

    compare_files(&b, false);
    for (int i = 0; i < 2; i++) {
        encoder_opts o = { .dir = i ? b.file : b.dir, .dtype = VC_F32, .device = "cpu" };
        t5 *m;
        assert_ok(t5_open(&m, &o, type, &key[i], &err), &err);
        assert_ok(t5_encode(m, &(text_ids){ ids, 5, 0, 0 }, 1, states[i], &err), &err);
        t5_close(m);
    }
    assert_memory_equal(&key[0], &key[1], sizeof *key);
    assert_memory_equal(states[0], states[1], sizeof *states);
    end(&b);
}

static void t5_and_umt5(void **state)
{
    (void)state;
    same_states("first-umt5", "umt5", ".pth");
    same_states("first-umt5", "umt5", ".safetensors");
    same_states("first-t5", "t5", ".safetensors");
}

static void clip_text(void **state)
{
    (void)state;
    both b = make("first-clip", ".safetensors");
    const int64_t ids[4] = { 7, 8, 9, 49 };
    float states[2][4 * 64], pooled[2][64];
    vf_key key[2];
    vc_err err = { 0 };

    compare_files(&b, true);
    for (int i = 0; i < 2; i++) {
        encoder_opts o = { .dir = i ? b.file : b.dir, .dtype = VC_F32, .device = "cpu" };
        clip *m;
        assert_ok(clip_open(&m, &o, false, &key[i], &err), &err);
        assert_ok(clip_encode(m, &(text_ids){ ids, 4, 0, 0 }, 1, states[i], pooled[i], &err), &err);
        clip_close(m);
    }
    assert_memory_equal(&key[0], &key[1], sizeof *key);
    assert_memory_equal(states[0], states[1], sizeof *states);
    assert_memory_equal(pooled[0], pooled[1], sizeof *pooled);
    end(&b);
}

static void clip_pictures(void **state)
{
    enum { SIDE = 224, TOKENS = 17, WIDTH = 80 };
    static float pixels[SIDE * SIDE * 3], states[2][TOKENS * WIDTH];
    clip_vision_info info[2];
    vc_err err = { 0 };
    (void)state;
    both b = make("first-clip-vision", ".pth");

    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = (float)(i * 37 % 256) / 127.5f - 1;
    compare_files(&b, true);
    for (int i = 0; i < 2; i++) {
        encoder_opts o = { .dir = i ? b.file : b.dir, .dtype = VC_F32, .device = "cpu" };
        clip_vision *m;
        assert_ok(clip_vision_open(&m, &o, 1, &info[i], &err), &err);
        assert_true(info[i].size == SIDE && info[i].tokens == TOKENS && info[i].width == WIDTH);
        assert_ok(clip_vision_encode(m, pixels, states[i], NULL, &err), &err);
        clip_vision_close(m);
    }
    assert_memory_equal(&info[0].fingerprint, &info[1].fingerprint, sizeof(vf_key));
    assert_memory_equal(states[0], states[1], sizeof *states);
    end(&b);
}

/* ---- other files ---- */

/* The autoencoders of FLUX.1 and FLUX.2 have the same names but for the batch norm's. */
static void other_autoencoders(void **state)
{
    static const struct { const char *golden; const vae_class *class; const char *says; } rows[] = {
        { "first-vae-flux", &vae_flux2, "the file holds AutoencoderKL, "
          "not AutoencoderKLFlux2: give one of AutoencoderKLFlux2, or its folder" },
        { "first-vae-flux2", &vae_kl, "the file holds AutoencoderKLFlux2, "
          "not AutoencoderKL: give one of AutoencoderKL, or its folder" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        both b = make(rows[i].golden, ".safetensors");
        encoder_opts o = { .dir = b.file, .dtype = VC_F32, .device = "cpu" };
        vc_err err = { 0 };
        vae_info info;
        vae *v;
        assert_fails(rows[i].class->open(&v, &o, &info, &err), VC_EUSAGE, &err, rows[i].says);
        end(&b);
    }
}

static void refuses(void **state)
{
    (void)state;
    both b = make("first-umt5", ".pth");
    vf_safetensors *other = golden_open("vae_kl");
    char file[600];
    vae_info info;
    vf_key key;
    vae *v;
    t5 *m;
    vc_err err = { 0 };
    encoder_opts o = { .dir = b.file, .dtype = VC_F32, .device = "cpu" };

    assert_fails(vae_wan.open(&v, &o, &info, &err), VC_EUSAGE, &err,
                 "the file holds umt5, not AutoencoderKLWan");
    assert_fails(t5_open(&m, &o, "t5", &key, &err), VC_EUSAGE, &err, "holds umt5, not t5");
    golden_model(other, golden_tmp("other"), VC_F32);
    snprintf(file, sizeof file, "%s/config.json", golden_tmp("other"));
    assert_int_equal(remove(file), 0);
    o.dir = golden_tmp("other");
    assert_fails(t5_open(&m, &o, "umt5", &key, &err), VC_EUSAGE, &err,
                 "no names that are known of files of umt5");
    end(&b);
    vf_safetensors_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(autoencoders), cmocka_unit_test(flux2_of_diffusers),
        cmocka_unit_test(class_of_qwen_image),
        cmocka_unit_test(t5_and_umt5), cmocka_unit_test(clip_text),
        cmocka_unit_test(clip_pictures), cmocka_unit_test(other_autoencoders),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests_name("first", tests, NULL, NULL);
}
