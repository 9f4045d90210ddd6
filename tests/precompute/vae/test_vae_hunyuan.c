/* test_vae_hunyuan.c - AutoencoderKLHunyuanVideo equals diffusers': clips of one to five tiles in
 * time, tiles on three axes, stored types; its predicted memory is right, and it refuses wrong
 * sizes and configs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

/* The error of diffusers itself in bf16 is up to 4.7e-2 with these weights, and 1.5e-2 for
 * CogVideoX: this network is deeper, and its attention multiplies rounded factors. */
#define TOL_BF16 (2 * VAE_TOL_BF16)

static vae_bench open_bench(const char *golden, vc_dtype compute, vc_dtype stored, bool tiling)
{
    return vae_bench_open(&vae_hunyuan, golden, compute, stored, tiling);
}

static void encode_lengths(const vae_bench *b, const int *lengths, double tol)
{
    vae_encode_lengths(b, lengths, tol);
    vae_encode_like(b, "tall", 17, ".tall", tol);
}

/* Clips of up to 13 frames are one tile; 49 frames are five tiles, of which the last adds no
 * frame. */
static void encodes_every_length(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 13, 17, 21, 25, 33, 49, 0 }, VAE_TOL_F32);
    vae_bench_close(&b);
}

static void encodes_in_bf16(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_BF16, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 17, 0 }, TOL_BF16);
    vae_bench_close(&b);
}

/* Weights of other types are held in their type, and change results by their rounding alone. */
static void reads_half_weights(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F16, false);
    vae_encode_like(&b, "short", 17, ".17", 3e-3);
    vae_bench_close(&b);
}

static void decodes_every_length(void **state)
{
    static const int counts[] = { 1, 2, 4, 5, 8 };
    char name[8];

    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, false);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, ".%d", counts[i]);
        vae_decode_bytes_like(&b, counts[i], name);
    }
    for (int i = 0; i < 3; i++)                    /* one tile is one pass */
        vae_decode_like(&b, counts[i], VAE_TOL_F32);
    vae_bench_close(&b);
    b = open_bench("vae_hunyuan", VC_BF16, VC_F32, false);
    vae_decode_like(&b, 4, TOL_BF16);
    vae_bench_close(&b);
}

/* ---- tiles ---- */

/* Tiles equal diffusers'; the golden's tiles are smaller than 256 pixels, and overlap by the same
 * share. */
static void tiles_on_three_axes(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan_tiles", VC_F32, VC_F32, true);
    vae_tiling *t = &b.vae->tiling;
    assert_memory_equal(t->size, ((int[]){ 16, 256, 256 }), sizeof t->size);
    for (int i = 0; i < 3; i++)
        assert_true(t->overlap[i] == 0.25);
    t->size[1] = t->size[2] = 32;
    vae_encode_like(&b, "pixels", 21, "", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 6, "");
    vae_ranges_are_same(&b, "pixels", 21, 6);
    vae_bench_close(&b);
}

/* Rows and columns are cut together where either exceeds a tile, and time is cut on its own: a
 * picture that exceeds a step but not a tile stays whole. */
static void small_pictures_are_one_tile(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, true);
    vf_key with = b.info.fingerprint;
    b.vae->tiling.size[1] = b.vae->tiling.size[2] = 40;        /* steps of 30 */
    vae_encode_like(&b, "tall", 17, ".tall", VAE_TOL_F32);
    vae_encode_like(&b, "short", 21, ".21", VAE_TOL_F32);
    vae_bench_close(&b);
    b = open_bench("vae_hunyuan", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    assert_int_equal(b.info.channels, 4);
    assert_memory_equal(b.info.ratio, ((int[]){ 4, 8, 8 }), sizeof b.info.ratio);
    assert_true(b.info.scaling_factor == 0.476986 && !b.info.invert_scale_latents);
    assert_true(b.info.has_logvar && !b.info.per_channel);
    vae_bench_close(&b);
}

/* ---- memory ---- */

static int keep_nothing(void *arg, float *values, int first, int n, int h, int w, vc_err *err)
{
    (void)arg, (void)values, (void)first, (void)n, (void)h, (void)w, (void)err;
    return 0;
}

/* The memory of a pass over the first tile of f, h, w, which is the largest tile. */
static size_t taken(const vae_bench *b, bool decodes, int f, int h, int w)
{
    int most = decodes ? 5 : 17;
    float *source = vae_area((size_t)(f * h * w * 4), sizeof *source);
    const vae_input in = { .all = source };
    vae_pass p = { .decodes = decodes, .source = source, .pixels = decodes ? NULL : &in,
                   .of = { f, h, w }, .n = { f < most ? f : most, h, w },
                   .take = keep_nothing };
    vc_err err = { 0 };

    assert_ok(vae_run_pass(b->vae, &p, &err), &err);
    free(source);
    return p.peak;
}

static size_t predicted(const vae_bench *b, bool decodes, int f, int h, int w)
{
    size_t bytes;
    vc_err err = { 0 };

    assert_ok(vae_hunyuan.memory(b->vae, decodes, f, h, w, &bytes, &err), &err);
    return bytes;
}

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = { { false, 1, 16, 24 }, { false, 9, 40, 24 },
                                     { false, 13, 16, 24 }, { true, 1, 2, 3 }, { true, 4, 2, 3 } };
    size_t latents = (9 - 5) * 4 * 2 * 3 * sizeof(float);

    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, false);
    vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
    for (int f = 17; f < 1100; f *= 3, f -= 2)     /* for any length of the clip */
        assert_int_equal(predicted(&b, false, f, 16, 24), taken(&b, false, 17, 16, 24));
    assert_int_equal(predicted(&b, true, 5, 2, 3), taken(&b, true, 5, 2, 3));
    assert_int_equal(predicted(&b, true, 9, 2, 3), taken(&b, true, 9, 2, 3));
    assert_int_equal(predicted(&b, true, 9, 2, 3), predicted(&b, true, 5, 2, 3) + latents);
    vae_bench_close(&b);
}

/* Memory is some activations of the widest level. The scores of attention over 5 latent frames of
 * 288 places would take 5 * 288 * 5 * 288 numbers, if they were stored. */
static void bound_of_memory(void **state)
{
    size_t encode, decode, act = (size_t)17 * 96 * 192 * 8 * 4;
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_hunyuan_tiles", VC_F32, VC_F32, false);
    assert_int_equal(vae_hunyuan.memory(b.vae, false, 17, 96, 192, &encode, &err), 0);
    assert_between(encode, 3 * act, 4 * act);
    assert_int_equal(vae_hunyuan.memory(b.vae, true, 5, 12, 24, &decode, &err), 0);
    assert_between(decode, 4 * act, 6 * act);
    vae_bench_close(&b);
}

/* ---- refused sizes and configs ---- */

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 2, 16, 16, "4k+1" }, { 16, 16, 16, "4k+1" }, { 0, 16, 16, "4k+1" },
        { -3, 16, 16, "4k+1" }, { 5, 12, 16, "multiples of 8" }, { 5, 16, 0, "multiples of 8" },
        { 5, 16, 1 << 20, "multiples of 8" },
    };
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

#define TOY "\"block_out_channels\":[8,16,16,24],\"norm_num_groups\":4,\"latent_channels\":4,"

static void refuses_configs(void **state)
{
    static const vae_bad_config rows[] = {
        { "{\"_class_name\":\"AutoencoderKLCogVideoX\"}", "_class_name" },
        { "{\"temporal_compression_ratio\":8}", "temporal_compression_ratio" },
        { "{\"spatial_compression_ratio\":16}", "spatial_compression_ratio" },
        { "{\"act_fn\":\"gelu\"}", "act_fn" },
        { "{\"out_channels\":4}", "out_channels" },
        { "{\"block_out_channels\":[16,32]}", "block_out_channels" },
        { "{\"block_out_channels\":[16,24,24,1e300]}", "block_out_channels" },
        { "{\"block_out_channels\":[32,32,32,33]}", "norm_num_groups" },
        { "{\"block_out_channels\":[4,4,4,12],\"norm_num_groups\":4}", "a multiple of 8" },
        { "{\"block_out_channels\":[32,32,32,1024]}", "at most 512" },
        { "{\"down_block_types\":[\"HunyuanVideoDownBlock3D\"]}", "down_block_types" },
        { "{\"up_block_types\":[\"a\",\"b\",\"c\",\"d\"]}", "up_block_types" },
        { "{\"layers_per_block\":0}", "layers_per_block" },
        { "{\"latent_channels\":1000}", "latent_channels" },
        { "{\"mid_block_add_attention\":1}", "mid_block_add_attention" },
        { "{\"scaling_factor\":-1}", "scaling_factor" },
        { "{" TOY "\"layers_per_block\":2}", "resnets.1" },              /* missing */
        { "{" TOY "\"layers_per_block\":1,\"mid_block_add_attention\":false}",
          "attentions.0" },                                              /* not used */
        { "{\"block_out_channels\":[8,16,24],\"norm_num_groups\":4,\"latent_channels\":4,"
          "\"layers_per_block\":1}", "encoder" },                        /* another shape */
        { "[]", "config.json" }, { "{", "config.json" },
    };
    (void)state;
    vae_bench b = open_bench("vae_hunyuan", VC_F32, VC_F32, false);
    vae_refuses_configs(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(encodes_in_bf16),
        cmocka_unit_test(reads_half_weights), cmocka_unit_test(decodes_every_length),
        cmocka_unit_test(tiles_on_three_axes), cmocka_unit_test(small_pictures_are_one_tile),
        cmocka_unit_test(memory_is_predicted), cmocka_unit_test(bound_of_memory),
        cmocka_unit_test(refuses_sizes), cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
