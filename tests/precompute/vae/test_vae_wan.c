/* AutoencoderKLWan and AutoencoderKLQwenImage against diffusers: clips of every length, tiles,
 * stored types, the predicted memory, and what is refused. */
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
    return vae_bench_open(&vae_wan, golden, compute, stored, tiling);
}

static void decode_lengths(const vae_bench *b, const int *counts)
{
    char name[8];

    for (; *counts; counts++) {
        snprintf(name, sizeof name, ".%d", *counts);
        vae_decode_like(b, *counts, VAE_TOL_F32);
        vae_decode_bytes_like(b, *counts, name);
    }
}

/* One chunk up to 5 frames; the latent of 33 frames has passed through eight of them. */
static void encodes_every_length(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 5, 9, 17, 21, 33, 0 }, VAE_TOL_F32);
    vae_encode_like(&b, "tall", 9, ".tall", VAE_TOL_F32);
    vae_bench_close(&b);
}

static void decodes_every_length(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    decode_lengths(&b, (int[]){ 1, 2, 3, 5, 9, 0 });
    assert_true(vae_wan.frames(1) == 1 && vae_wan.frames(21) == 81);
    vae_bench_close(&b);
}

/* Version 2.2: squares of pixels, and levels that add their inputs. */
static void version_2_2(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan_2.2", VC_F32, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 5, 9, 17, 0 }, VAE_TOL_F32);
    vae_encode_like(&b, "tall", 5, ".tall", VAE_TOL_F32);
    decode_lengths(&b, (int[]){ 1, 2, 5, 0 });
    assert_memory_equal(b.info.ratio, ((int[]){ 4, 16, 16 }), sizeof b.info.ratio);
    vae_bench_close(&b);
    b = open_bench("vae_wan_2.2", VC_BF16, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 5, 17, 0 }, VAE_TOL_BF16);
    vae_decode_like(&b, 5, VAE_TOL_BF16);
    vae_bench_close(&b);
}

/* diffusers itself in bf16 is 9.6e-3 (moments) and 2.2e-2 (pixels) from f32 on these weights. Where
 * f32 operands of products are rounded too, pixels are 2.8e-2 from it. */
static void runs_in_bf16(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_BF16, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 5, 33, 0 }, VAE_TOL_BF16);
    vae_decode_like(&b, 9, golden_tolerance(2.2e-2, 3e-2));
    vae_bench_close(&b);
}

/* Weights of other types are used as they are stored: what differs is their rounding. */
static void reads_half_weights(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F16, false);
    vae_encode_like(&b, "short", 17, ".17", 3e-3);
    vae_bench_close(&b);
}

/* The first latent frame of a clip is that of its first picture alone. Sums may have another order,
 * because a still has kernels of one frame. */
static void first_frame_stands_alone(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    vc_err err = { 0 };
    int64_t dim[8];
    float *x = vae_pixels(&b, "short", dim), clip[4 * 3 * 6], alone[4 * 6];
    const vae_input in = { .all = x };

    assert_ok(vae_wan.encode(b.vae, &in, 9, 16, 24, clip, NULL, &err), &err);
    assert_ok(vae_wan.encode(b.vae, &in, 1, 16, 24, alone, NULL, &err), &err);
    for (int c = 0; c < 4; c++)
        assert_true(golden_error(clip + 18 * c, alone + 6 * c, 6) <= VAE_TOL_F32);
    free(x);
    vae_bench_close(&b);
}

static void qwen_image(void **state)
{
    (void)state;
    vae_bench b = vae_bench_open(&vae_qwen_image, "vae_qwen_image", VC_F32, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 0 }, VAE_TOL_F32);
    vae_encode_like(&b, "tall", 1, ".tall", VAE_TOL_F32);
    decode_lengths(&b, (int[]){ 1, 0 });
    assert_string_equal(b.info.class, "AutoencoderKLQwenImage");
    assert_true(b.info.per_channel && b.info.mean[3] == -1.5 && b.info.std[0] == 2.5);
    vae_bench_close(&b);
    b = vae_bench_open(&vae_qwen_image, "vae_qwen_image", VC_BF16, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 1, 0 }, VAE_TOL_BF16);
    vae_bench_close(&b);
}

/* ---- tiles ---- */

/* The tiles of diffusers; the golden's are smaller, of the same shares. */
static void tiles_in_space(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan_tiles", VC_F32, VC_F32, true);
    vae_tiling *t = &b.vae->tiling;
    assert_memory_equal(t->size, ((int[]){ 0, 256, 256 }), sizeof t->size);
    assert_true(t->overlap[1] == 0.25 && t->overlap[2] == 0.25);
    t->size[1] = t->size[2] = 32;
    vae_encode_like(&b, "pixels", 9, "", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 3, "");
    vae_ranges_are_same(&b, "pixels", 9, 3);
    vae_bench_close(&b);
}

static void info_of_the_folder(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, true);
    vf_key with = b.info.fingerprint;
    vae_bench_close(&b);
    b = open_bench("vae_wan", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    assert_string_equal(b.info.class, "AutoencoderKLWan");
    assert_int_equal(b.info.channels, 4);
    assert_memory_equal(b.info.ratio, ((int[]){ 4, 8, 8 }), sizeof b.info.ratio);
    assert_true(b.info.scaling_factor == 1 && b.info.shift_factor == 0 && b.info.has_logvar);
    assert_true(b.info.per_channel && !b.info.one_logvar && !b.info.invert_scale_latents);
    assert_true(b.info.mean[0] == -0.75 && b.info.mean[3] == -1.5);
    assert_true(b.info.std[0] == 2.5 && b.info.std[2] == 0.5);
    vae_bench_close(&b);
}

/* ---- memory ---- */

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = { { false, 1, 16, 24 }, { false, 5, 40, 24 },
                                     { false, 33, 16, 24 }, { true, 1, 2, 3 }, { true, 2, 2, 3 },
                                     { true, 9, 5, 3 } };

    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
    b = open_bench("vae_wan_2.2", VC_F32, VC_F32, false);
    vae_memory_is_right(&b, (vae_size[]){ { false, 17, 32, 48 }, { true, 5, 3, 2 } }, 2);
    vae_bench_close(&b);
}

/* A clip in tiles takes the memory of one tile, and of a chunk of the clip's whole frames. */
static void tiles_bound_memory(void **state)
{
    size_t tiled, tile;
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_wan_tiles", VC_F32, VC_F32, true);
    b.vae->tiling.size[1] = b.vae->tiling.size[2] = 32;
    assert_int_equal(vae_wan.memory(b.vae, false, 9, 40, 480, &tiled, &err), 0);
    assert_int_equal(vae_wan.memory(b.vae, false, 9, 32, 32, &tile, &err), 0);
    assert_between(tiled, tile, tile + (size_t)5 * 40 * 480 * 3 * 4);
    vae_bench_close(&b);
}

/* Some activations of five frames of the widest level, and the frames that are carried; however
 * long the clip is. A decoder also holds the clip's latent. */
static void bound_of_memory(void **state)
{
    size_t encode, longer, decode, decode_longer, act = (size_t)5 * 96 * 192 * 8 * 4;
    size_t latents = (size_t)(99 - 9) * 4 * 12 * 24 * sizeof(float);
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    assert_int_equal(vae_wan.memory(b.vae, false, 33, 96, 192, &encode, &err), 0);
    assert_int_equal(vae_wan.memory(b.vae, false, 1001, 96, 192, &longer, &err), 0);
    assert_between(encode, 3 * act, 6 * act);
    assert_int_equal(encode, longer);
    assert_int_equal(vae_wan.memory(b.vae, true, 9, 12, 24, &decode, &err), 0);
    assert_int_equal(vae_wan.memory(b.vae, true, 99, 12, 24, &decode_longer, &err), 0);
    assert_between(decode, 4 * act, 10 * act);
    assert_between(decode_longer, decode, decode + latents);
    vae_bench_close(&b);
}

/* ---- what is refused ---- */

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 2, 16, 16, "4k+1" }, { 16, 16, 16, "4k+1" }, { 0, 16, 16, "4k+1" },
        { 5, 12, 16, "multiples of 8" }, { 5, 16, 0, "multiples of 8" },
        { 5, 16, 1 << 20, "multiples of 8" },
    };
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

#define TOY "\"base_dim\":8,\"z_dim\":4,\"latents_mean\":[0,0,0,0],\"latents_std\":[1,1,1,1],"

static void refuses_configs(void **state)
{
    static const vae_bad_config rows[] = {
        { "{\"_class_name\":\"AutoencoderKLQwenImage\"}", "_class_name" },
        { "{\"scale_factor_temporal\":8}", "scale_factor_temporal" },
        { "{" TOY "\"scale_factor_spatial\":16}", "scale_factor_spatial: 16" },
        { "{" TOY "\"dim_mult\":[1,2,4]}", "temperal_downsample: a list of 3" },
        { "{" TOY "\"temperal_downsample\":[true,true,true]}", "one frame of 8" },
        { "{" TOY "\"attn_scales\":[1.0]}", "attn_scales" },
        { "{" TOY "\"patch_size\":2}", "in_channels: 3, not the 12" },
        { "{" TOY "\"is_residual\":true,\"dim_mult\":[1,2,4,36]}", "dim_mult" },
        { "{" TOY "\"is_residual\":true,\"dim_mult\":[1,4,2,2]}", "decoder's level 2" },
        { "{" TOY "\"num_res_blocks\":0}", "num_res_blocks" },
        { "{\"z_dim\":4,\"latents_mean\":[0,0,0,0],\"latents_std\":[1]}",
          "latents_std: a list of 1" },
        { "{\"z_dim\":4}", "latents_mean" },
        { "{\"z_dim\":1000}", "z_dim" },
        { "{" TOY "\"decoder_base_dim\":264}", "at most 1024" },
        { "{" TOY "\"decoder_base_dim\":3}", "decoder_base_dim" },
        { "{" TOY "\"latents_std\":[1,1,1,0]}", "latents_std" },
        { "{" TOY "\"num_res_blocks\":2}", "down_blocks" },                  /* missing */
        { "{" TOY "\"num_res_blocks\":1,\"decoder_base_dim\":16}", "decoder" },  /* another shape */
        { "{" TOY "\"num_res_blocks\":1,\"temperal_downsample\":[true,true,false]}", "time_conv" },
        { "[]", "config.json" }, { "{", "config.json" },
    };
    (void)state;
    vae_bench b = open_bench("vae_wan", VC_F32, VC_F32, false);
    vae_refuses_configs(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(decodes_every_length),
        cmocka_unit_test(version_2_2),
        cmocka_unit_test(runs_in_bf16), cmocka_unit_test(reads_half_weights),
        cmocka_unit_test(first_frame_stands_alone), cmocka_unit_test(qwen_image),
        cmocka_unit_test(tiles_in_space), cmocka_unit_test(info_of_the_folder),
        cmocka_unit_test(memory_is_predicted), cmocka_unit_test(tiles_bound_memory),
        cmocka_unit_test(bound_of_memory), cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
