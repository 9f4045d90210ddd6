/* test_vae_ltx2.c - AutoencoderKLLTX2Video equals diffusers': LTX-2.0, 2.3 and a decoder that is
 * causal and reads a timestep, on clips in one chunk and in several; the memory of decoding does
 * not grow with a clip; 2.0 and 2.3 have fingerprints of their own, and wrong sizes and configs are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

#define TIMESTEP 40                            /* as in scripts/golden/vae_ltx.py */

static const char *const versions[] = { "vae_ltx2_20", "vae_ltx2_23" };

static vae_bench open_bench(const char *golden, vc_dtype compute)
{
    vae_bench b = vae_bench_open(&vae_ltx2, golden, compute, VC_F32, false);
    b.vae->decode_timestep = TIMESTEP;
    return b;
}

static void encodes(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vae_bench b = open_bench(versions[i], VC_F32);
        vae_encode_lengths(&b, (int[]){ 1, 9, 41, 0 }, VAE_TOL_F32);
        vae_bench_close(&b);
        b = open_bench(versions[i], VC_BF16);
        vae_encode_lengths(&b, (int[]){ 1, 41, 0 }, VAE_TOL_BF16);
        vae_bench_close(&b);
    }
}

static void decodes(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        vae_bench b = open_bench(versions[i], VC_F32);
        vae_decode_like(&b, 1, VAE_TOL_F32);
        vae_decode_like(&b, 2, VAE_TOL_F32);
        vae_decode_bytes_like(&b, 2, ".2");
        vae_bench_close(&b);
        b = open_bench(versions[i], VC_BF16);
        vae_decode_like(&b, 2, VAE_TOL_BF16);
        vae_bench_close(&b);
    }
}

static void decodes_in_chunks(void **state)
{
    static const char *const goldens[] = { "vae_ltx2_20_long", "vae_ltx2_23_long",
                                           "vae_ltx2_timed_long" };
    (void)state;
    for (int i = 0; i < 3; i++) {
        vae_bench b = open_bench(goldens[i], VC_F32);
        vae_decode_like(&b, 9, VAE_TOL_F32);
        vae_chunks_are_whole(&b, 9);
        vae_bench_close(&b);
        b = open_bench(goldens[i], VC_BF16);
        vae_decode_like(&b, 9, 3e-2);          /* diffusers' own bf16 differs by 2.4e-2 */
        vae_bench_close(&b);
    }
}

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = {
        { false, 1, 32, 64 }, { false, 25, 32, 32 }, { false, 57, 32, 32 },
        { true, 1, 2, 2 }, { true, 3, 2, 2 }, { true, 5, 2, 2 }, { true, 12, 2, 2 },
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        vae_bench b = open_bench(versions[i], VC_F32);
        vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
        vae_decodes_in_bounds(&b, 2, 3);
        vae_bench_close(&b);
    }
}

static void versions_are_told_apart(void **state)
{
    vf_key of[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        vae_bench b = open_bench(versions[i], VC_F32);
        int64_t dim[8];
        float *mean = golden_values(b.golden, "latents_mean", dim);
        assert_string_equal(b.info.class, "AutoencoderKLLTX2Video");
        assert_memory_equal(b.info.ratio, ((int[]){ 8, 32, 32 }), sizeof b.info.ratio);
        for (int k = 0; k < b.info.channels; k++)
            assert_true(b.info.mean[k] == (double)mean[k]);
        of[i] = b.info.fingerprint;
        free(mean);
        vae_bench_close(&b);
    }
    assert_memory_not_equal(of[0].b, of[1].b, sizeof of[0].b);
}

/* ---- refused sizes and configs ---- */

static void refuses_small_frames(void **state)
{
    float z[8 * 2] = { 0 };
    uint8_t rgb[9 * 32 * 64 * 3];
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_ltx2_20", VC_F32);
    int rc = vae_ltx2.decode(b.vae, z, 1, 1, 2, &(vae_output){ .all = rgb }, &err);
    assert_fails(rc, VC_EINVAL, &err, "2x1 places cannot be mirrored");
    vae_bench_close(&b);
}

static void refuses_configs(void **state)
{
    static const char *const rows[][2] = {
        { "{\"_class_name\":\"AutoencoderKLLTXVideo\"}", "_class_name" },
        { "{\"down_block_types\":[\"LTXVideo095DownBlock3D\"]}", "down_block_types" },
        { "{\"upsample_type\":[\"spatial\",\"temporal\"]}", "upsample_type has 2 entries" },
        { "{\"upsample_type\":[\"spatial\",\"temporal\",\"both\"]}", "upsample_type[2]" },
        { "{\"upsample_type\":[\"spatial\",\"temporal\",\"spatiotemporal\"]}",
          "expands time by 4" },
        { "{\"encoder_spatial_padding_mode\":\"reflect\"}", "encoder_spatial_padding_mode" },
        { "{\"decoder_spatial_padding_mode\":\"circular\"}", "decoder_spatial_padding_mode" },
        { "{\"encoder_causal\":false}", "encoder_causal" },
        { "{\"spatial_compression_ratio\":16}", "spatial_compression_ratio: 16" },
        { "{\"temporal_compression_ratio\":16}", "temporal_compression_ratio: 16" },
        { "{\"block_out_channels\":[8,16,16,24,8,8,8,8,8]}", "block_out_channels" },
        { "{\"upsample_factor\":[2,2,16]}", "upsample_factor" },
    };
    (void)state;
    vae_bench b = open_bench("vae_ltx2_20", VC_F32);
    vae_refuses_fields(&b, rows, sizeof rows / sizeof *rows);
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes), cmocka_unit_test(decodes), cmocka_unit_test(decodes_in_chunks),
        cmocka_unit_test(memory_is_predicted), cmocka_unit_test(versions_are_told_apart),
        cmocka_unit_test(refuses_small_frames), cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
