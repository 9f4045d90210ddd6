/* AutoencoderKLHunyuanVideo15 against diffusers: clips of every length, tiles, stored types, the
 * predicted memory, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

static vae_bench open_bench(const char *golden, vc_dtype compute, vc_dtype stored, bool tiling)
{
    return vae_bench_open(&vae_hunyuan15, golden, compute, stored, tiling);
}

/* One chunk up to 5 frames; the latent of 17 frames has passed through four of them. */
static void encodes_every_length(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 5, 9, 17, 0 }, VAE_TOL_F32);
    vae_encode_like(&b, "tall", 5, ".tall", VAE_TOL_F32);
    vae_bench_close(&b);
}

static void decodes_every_length(void **state)
{
    static const int counts[] = { 1, 2, 5 };
    char name[8];

    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, ".%d", counts[i]);
        vae_decode_like(&b, counts[i], VAE_TOL_F32);
        vae_decode_bytes_like(&b, counts[i], name);
    }
    assert_true(vae_hunyuan15.frames(1) == 1 && vae_hunyuan15.frames(31) == 121);
    vae_bench_close(&b);
}

static void runs_in_bf16(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_BF16, VC_F32, false);
    /* diffusers itself has 2.13e-2 in means; -O1 has 2.1e-2 here */
    vae_encode_lengths(&b, (int[]){ 1, 5, 17, 0 }, 1.25 * VAE_TOL_BF16);
    vae_decode_like(&b, 5, VAE_TOL_BF16);
    vae_bench_close(&b);
}

/* Weights of other types are used as they are stored: what differs is their rounding. */
static void reads_half_weights(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F16, false);
    vae_encode_like(&b, "short", 9, ".9", 3e-3);
    vae_bench_close(&b);
}

/* The first latent frame of a clip is that of its first picture alone. */
static void first_frame_stands_alone(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    vc_err err = { 0 };
    int64_t dim[8];
    float *x = vae_pixels(&b, "short", dim), clip[4 * 3 * 6], alone[4 * 6];
    const vae_input in = { .all = x };

    assert_ok(vae_hunyuan15.encode(b.vae, &in, 9, 32, 48, clip, NULL, &err), &err);
    assert_ok(vae_hunyuan15.encode(b.vae, &in, 1, 32, 48, alone, NULL, &err), &err);
    for (int c = 0; c < 4; c++)
        assert_true(golden_error(clip + 18 * c, alone + 6 * c, 6) <= VAE_TOL_F32);
    free(x);
    vae_bench_close(&b);
}

/* The tiles of diffusers; the golden's are smaller, of the same shares. */
static void tiles_in_space(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15_tiles", VC_F32, VC_F32, true);
    vae_tiling *t = &b.vae->tiling;
    assert_memory_equal(t->size, ((int[]){ 0, 256, 256 }), sizeof t->size);
    assert_true(t->overlap[1] == 0.25 && t->overlap[2] == 0.25);
    t->size[1] = t->size[2] = 64;
    vae_encode_like(&b, "pixels", 5, "", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 2, "");
    vae_ranges_are_same(&b, "pixels", 5, 2);
    vae_bench_close(&b);
}

static void info_of_the_folder(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, true);
    vf_key with = b.info.fingerprint;
    vae_bench_close(&b);
    b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    assert_string_equal(b.info.class, "AutoencoderKLHunyuanVideo15");
    assert_int_equal(b.info.channels, 4);
    assert_memory_equal(b.info.ratio, ((int[]){ 4, 16, 16 }), sizeof b.info.ratio);
    assert_true(b.info.scaling_factor == 0.75 && b.info.shift_factor == 0 && b.info.has_logvar);
    assert_false(b.info.per_channel || b.info.one_logvar || b.info.invert_scale_latents);
    vae_bench_close(&b);
}

/* ---- memory ---- */

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = { { false, 1, 32, 48 }, { false, 5, 80, 48 },
                                     { false, 17, 32, 48 }, { true, 1, 2, 3 }, { true, 2, 2, 3 },
                                     { true, 5, 5, 3 } };

    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

/* However long the clip is, it adds the keys and values of its latent places, which attention packs
 * in its scratch, and a decoder also holds the latent. */
static void bound_of_memory(void **state)
{
    const size_t places = 6 * 12, longer = 99 - 9, f = sizeof(float);
    size_t some, more;
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    for (int decode = 0; decode < 2; decode++) {
        const int h = decode ? 6 : 96, w = decode ? 12 : 192;
        const size_t each = places * (2 * 2 * 32 + (decode ? 4 : 0)) * f;
        assert_int_equal(vae_hunyuan15.memory(b.vae, decode, decode ? 9 : 33, h, w, &some, &err),
                         0);
        assert_int_equal(vae_hunyuan15.memory(b.vae, decode, decode ? 99 : 393, h, w, &more, &err),
                         0);
        assert_between(more, some, some + longer * each);
    }
    vae_bench_close(&b);
}

/* ---- what is refused ---- */

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 2, 32, 32, "4k+1" }, { 0, 32, 32, "4k+1" }, { 5, 24, 32, "multiples of 16" },
        { 5, 32, 0, "multiples of 16" }, { 5, 32, 1 << 20, "multiples of 16" },
    };
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

static void refuses_configs(void **state)
{
    static const char *const rows[][2] = {
        { "{\"_class_name\":\"AutoencoderKLHunyuanVideo\"}", "_class_name" },
        { "{\"spatial_compression_ratio\":8}", "spatial_compression_ratio" },
        { "{\"temporal_compression_ratio\":8}", "temporal_compression_ratio" },
        { "{\"block_out_channels\":[8,8,16,32]}", "block_out_channels" },
        { "{\"block_out_channels\":[8,8,16,20,32]}", "16 and 20 of neighbouring levels" },
        { "{\"block_out_channels\":[8,8,16,32,64]}", "block" },
        { "{\"latent_channels\":5}", "twice latent_channels, which are 5" },
        { "{\"downsample_match_channel\":false}", "downsample_match_channel" },
        { "{\"upsample_match_channel\":false}", "upsample_match_channel" },
        { "{\"layers_per_block\":2}", "resnets.1" },                  /* missing */
        { "{\"scaling_factor\":0}", "scaling_factor" },
    };
    (void)state;
    vae_bench b = open_bench("vae_hunyuan15", VC_F32, VC_F32, false);
    vae_refuses_fields(&b, rows, sizeof rows / sizeof *rows);
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(decodes_every_length),
        cmocka_unit_test(runs_in_bf16), cmocka_unit_test(reads_half_weights),
        cmocka_unit_test(first_frame_stands_alone), cmocka_unit_test(tiles_in_space),
        cmocka_unit_test(info_of_the_folder), cmocka_unit_test(memory_is_predicted),
        cmocka_unit_test(bound_of_memory), cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
