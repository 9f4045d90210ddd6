/* test_vae_ltx.c - AutoencoderKLLTXVideo equals diffusers': LTX-Video 0.9.0, 0.9.1 and 0.9.5, clips
 * of one to three chunks, encoded and decoded, tiles, stored types, statistics, noise; its
 * predicted memory is right, and it refuses wrong sizes and configs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

#define TIMESTEP 40                            /* as in scripts/golden/vae_ltx.py */

static const char *const versions[] = { "vae_ltx_090", "vae_ltx_091", "vae_ltx_095" };

static vae_bench open_bench(const char *golden, vc_dtype compute, vc_dtype stored, bool tiling)
{
    vae_bench b = vae_bench_open(&vae_ltx, golden, compute, stored, tiling);
    b.vae->decode_timestep = TIMESTEP;
    return b;
}

/* Clips of up to 25 frames are one chunk; 41 frames are chunks of 25 and 16. */
static void encodes_every_length(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i += 2) {
        vae_bench b = open_bench(versions[i], VC_F32, VC_F32, false);
        vae_encode_lengths(&b, (int[]){ 1, 9, 17, 33, 41, 49, 0 }, VAE_TOL_F32);
        vae_bench_close(&b);
    }
    vae_bench b = open_bench("vae_ltx_091", VC_F32, VC_F32, false);
    vae_encode_lengths(&b, (int[]){ 9, 0 }, VAE_TOL_F32);
    vae_bench_close(&b);
}

static void encodes_in_bf16(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i += 2) {
        vae_bench b = open_bench(versions[i], VC_BF16, VC_F32, false);
        vae_encode_lengths(&b, (int[]){ 1, 9, 49, 0 }, VAE_TOL_BF16);
        vae_bench_close(&b);
    }
}

/* Weights of other types are held in their type, and change results by their rounding alone. */
static void reads_half_weights(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_ltx_095", VC_F32, VC_F16, false);
    vae_encode_like(&b, "short", 17, ".17", 3e-3);
    vae_decode_like(&b, 2, 3e-3);
    vae_bench_close(&b);
}

static void decode_counts(const vae_bench *b, int one, int other, double tol)
{
    char name[8];

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, ".%d", i ? other : one);
        vae_decode_like(b, i ? other : one, tol);
        if (tol < 1e-3)
            vae_decode_bytes_like(b, i ? other : one, name);
    }
}

/* The golden of 0.9.1 was made with the noise that this decoder draws. */
static void decodes_every_version(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        vae_bench b = open_bench(versions[i], VC_F32, VC_F32, false);
        decode_counts(&b, 1, i == 1 ? 3 : 2, VAE_TOL_F32);
        vae_bench_close(&b);
        b = open_bench(versions[i], VC_BF16, VC_F32, false);
        decode_counts(&b, 1, i == 1 ? 3 : 2, VAE_TOL_BF16);
        vae_bench_close(&b);
    }
}

static void decodes_in_chunks(void **state)
{
    static const char *const goldens[] = { "vae_ltx_090_long", "vae_ltx_091_long",
                                           "vae_ltx_095_long" };
    (void)state;
    for (int i = 0; i < 3; i++) {
        vae_bench b = open_bench(goldens[i], VC_F32, VC_F32, false);
        vae_decode_like(&b, 9, VAE_TOL_F32);
        vae_chunks_are_whole(&b, 9);
        vae_bench_close(&b);
    }
}

static void frames_and_statistics(void **state)
{
    int64_t dim[8];

    (void)state;
    vae_bench b = open_bench("vae_ltx_095", VC_F32, VC_F32, false);
    float *mean = golden_values(b.golden, "latents_mean", dim);
    float *std = golden_values(b.golden, "latents_std", dim);
    assert_int_equal(dim[0], b.info.channels);
    for (int i = 0; i < b.info.channels; i++)
        assert_true(b.info.mean[i] == (double)mean[i] && b.info.std[i] == (double)std[i]);
    assert_true(b.info.per_channel && b.info.has_logvar && b.info.scaling_factor == 1);
    assert_memory_equal(b.info.ratio, ((int[]){ 8, 32, 32 }), sizeof b.info.ratio);
    assert_true(vae_ltx.frames(1) == 1 && vae_ltx.frames(3) == 17);
    free(mean), free(std);
    vae_bench_close(&b);
}

/* ---- noise ---- */

static uint8_t *decoded(const vae_bench *b, int n, double timestep, double share)
{
    int64_t dim[8];
    float *z = vae_latents(b, n, dim);
    size_t grid = (size_t)(dim[2] * dim[3] * 32 * 32 * 3);
    uint8_t *rgb = vae_area((size_t)vae_ltx.frames(n) * grid, 1);
    vc_err err = { 0 };

    b->vae->decode_timestep = timestep;
    b->vae->decode_noise_scale = share;
    assert_ok(vae_ltx.decode(b->vae, z, n, (int)dim[2], (int)dim[3], &(vae_output){ .all = rgb },
                             &err), &err);
    free(z);
    return rgb;
}

/* Timestep and noise change the pictures of versions that read them, equally in each run, and leave
 * those of other versions unchanged. */
static void timestep_and_noise(void **state)
{
    const size_t n = (size_t)9 * 32 * 64 * 3;

    (void)state;
    for (int i = 0; i < 3; i += 2) {
        vae_bench b = open_bench(versions[i], VC_F32, VC_F32, false);
        uint8_t *still = decoded(&b, 2, 0, 0), *timed = decoded(&b, 2, 20, 0);
        uint8_t *noisy = decoded(&b, 2, 0, 0.5), *again = decoded(&b, 2, 0, 0.5);
        bool same = i == 0;
        assert_true(same == !memcmp(still, timed, n));
        assert_true(same == !memcmp(still, noisy, n));
        assert_memory_equal(noisy, again, n);
        free(still), free(timed), free(noisy), free(again);
        vae_bench_close(&b);
    }
}

/* ---- tiles ---- */

static void tiles_are_blended(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_ltx_tiles", VC_F32, VC_F32, true);
    vae_tiling *t = &b.vae->tiling;
    vf_key with = b.info.fingerprint;
    assert_memory_equal(t->size, ((int[]){ 0, 512, 512 }), sizeof t->size);
    assert_true(t->overlap[1] == 0.125 && t->overlap[2] == 0.125);
    t->size[1] = t->size[2] = 256;
    vae_encode_like(&b, "pixels", 1, "", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 1, "");
    vae_bench_close(&b);
    b = open_bench("vae_ltx_tiles", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    vae_bench_close(&b);
}

/* ---- memory ---- */

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = {
        { false, 1, 32, 64 }, { false, 9, 64, 32 }, { false, 25, 32, 32 }, { false, 49, 32, 32 },
        { false, 57, 32, 32 }, { true, 1, 1, 2 }, { true, 3, 2, 1 }, { true, 5, 1, 1 },
        { true, 12, 2, 1 },
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        size_t two, many;
        vc_err err = { 0 };
        vae_bench b = open_bench(versions[i], VC_F32, VC_F32, false);
        b.vae->decode_noise_scale = 0.5;
        vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
        assert_int_equal(vae_ltx.memory(b.vae, false, 33, 64, 96, &two, &err), 0);
        assert_int_equal(vae_ltx.memory(b.vae, false, 1025, 64, 96, &many, &err), 0);
        assert_int_equal(two, many);               /* for any length of the clip */
        vae_decodes_in_bounds(&b, 2, 3);
        vae_bench_close(&b);
    }
}

/* ---- refused sizes and configs ---- */

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 5, 32, 32, "8k+1" }, { 16, 32, 32, "8k+1" }, { 0, 32, 32, "8k+1" },
        { 9, 48, 32, "multiples of 32" }, { 9, 32, 0, "multiples of 32" },
        { 9, 32, 1 << 20, "multiples of 32" },
    };
    (void)state;
    vae_bench b = open_bench("vae_ltx_090", VC_F32, VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

static void refuse(const char *golden, const char *const (*rows)[2], size_t n)
{
    vae_bench b = open_bench(golden, VC_F32, VC_F32, false);

    vae_refuses_fields(&b, rows, n);
    vae_bench_close(&b);
}

static void refuses_configs(void **state)
{
    static const char *const of_090[][2] = {
        { "{\"_class_name\":\"AutoencoderKLWan\"}", "_class_name" },
        { "{\"patch_size_t\":2}", "patch_size_t" },
        { "{\"patch_size\":0}", "patch_size" },
        { "{\"encoder_causal\":false}", "encoder_causal" },
        { "{\"latent_channels\":129}", "latent_channels" },
        { "{\"block_out_channels\":[8,16,16]}", "layers_per_block has 5 entries" },
        { "{\"block_out_channels\":[8,16,16,24,8,8,8,8,8,8]}", "block_out_channels" },
        { "{\"layers_per_block\":[2,1,1,1,200]}", "layers_per_block[4]" },
        { "{\"spatio_temporal_scaling\":[true,true,true,1]}", "true or false" },
        { "{\"spatio_temporal_scaling\":[true,true,true,true]}", "compresses time by 16" },
        { "{\"decoder_spatio_temporal_scaling\":[true,true,false,false]}",
          "decoder_spatio_temporal_scaling" },
        { "{\"down_block_types\":[\"A\"]}", "down_block_types" },
        { "{\"down_block_types\":[\"LTXVideoDownBlock3D\",\"LTXVideoDownBlock3D\","
          "\"LTXVideoDownBlock3D\",\"LTXVideo095DownBlock3D\"]}", "two versions" },
        { "{\"downsample_type\":[\"conv\",\"conv\",\"conv\",\"none\"]}", "downsample_type[3]" },
        { "{\"upsample_factor\":[2,1,1,1]}", "upsample_factor" },
        { "{\"upsample_factor\":[3,1,1,1]}", "does not divide" },
        { "{\"timestep_conditioning\":true}", "decoder_block_out_channels" },
        { "{\"decoder_inject_noise\":[true,false,false,false,false]}", "or decoder_inject_noise" },
        { "{\"spatial_compression_ratio\":16}", "spatial_compression_ratio: 16" },
        { "{\"temporal_compression_ratio\":4}", "temporal_compression_ratio: 4" },
        { "{\"decoder_layers_per_block\":[1,1,1,1]}", "decoder_layers_per_block" },
        { "{\"resnet_norm_eps\":-1}", "resnet_norm_eps" },
        { "{\"layers_per_block\":[3,1,1,1,1]}", "resnets.2" },                    /* missing */
        { "{\"layers_per_block\":[1,1,1,1,1]}", "not used" },
        { "{\"latent_channels\":9}", "latents_mean" },
    };
    static const char *const of_095[][2] = {
        { "{\"downsample_type\":[\"conv\",\"temporal\",\"spatiotemporal\",\"spatiotemporal\"]}",
          "level 0 widens 8 to 16" },
        { "{\"block_out_channels\":[8,16,24,32,64]}", "cannot fold" },
        { "{\"block_out_channels\":[8,16,32,32,60]}", "cannot fold" },
        { "{\"upsample_factor\":[2,2,1]}", "upsample_factor" },
        { "{\"decoder_block_out_channels\":[12,24,48]}", "upsample_residual" },
    };
    (void)state;
    refuse("vae_ltx_090", of_090, sizeof of_090 / sizeof *of_090);
    refuse("vae_ltx_095", of_095, sizeof of_095 / sizeof *of_095);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(encodes_in_bf16),
        cmocka_unit_test(reads_half_weights), cmocka_unit_test(decodes_every_version),
        cmocka_unit_test(decodes_in_chunks), cmocka_unit_test(frames_and_statistics),
        cmocka_unit_test(timestep_and_noise),
        cmocka_unit_test(tiles_are_blended), cmocka_unit_test(memory_is_predicted),
        cmocka_unit_test(refuses_sizes), cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
