/* AutoencoderKLFlux2 against diffusers: pictures of odd numbers of squares, the statistics of its
 * batch norm, tiles, the predicted memory, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

static vae_bench open_bench(vc_dtype compute, bool tiling)
{
    return vae_bench_open(&vae_flux2, "vae_flux2", compute, VC_F32, tiling);
}

/* Two pictures are encoded as each alone. */
static void encodes_and_decodes(void **state)
{
    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    vae_encode_lengths(&b, (const int[]){ 1, 2, 0 }, VAE_TOL_F32);
    vae_encode_like(&b, "tall", 1, ".tall", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 1, ".1");
    vae_decode_bytes_like(&b, 2, ".2");
    vae_bench_close(&b);
}

/* The decoder has widths of its own. */
static void small_decoder(void **state)
{
    static const vae_size sizes[] = { { false, 1, 32, 48 }, { true, 1, 3, 2 } };
    (void)state;
    vae_bench b = vae_bench_open(&vae_flux2, "vae_flux2_small", VC_F32, VC_F32, false);
    vae_encode_like(&b, "short", 1, ".1", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 1, ".1");
    vae_memory_is_right(&b, sizes, 2);
    vae_bench_close(&b);
}

static void runs_in_bf16(void **state)
{
    (void)state;
    vae_bench b = open_bench(VC_BF16, false);
    /* diffusers itself has 1.8e-2; a CPU with products of bf16 has 2.02e-2 */
    vae_encode_like(&b, "short", 2, ".2", 1.25 * VAE_TOL_BF16);
    vae_bench_close(&b);
}

/* Tiles have the sides of sample_size, and are blended place by place of the network's latent. */
static void tiles_in_space(void **state)
{
    int64_t dim[8], of[8];
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench(VC_F32, true);
    vae_encode_like(&b, "tiles", 1, ".tiles", VAE_TOL_F32);
    float *z = golden_values(b.golden, "z.tiles", dim), *want = golden_values(b.golden, "u8.tiles",
                                                                             of);
    uint8_t *rgb = vae_area((size_t)(of[1] * of[2] * 3), 1);
    const vae_output out = { .all = rgb };
    assert_ok(vae_flux2.decode(b.vae, z, 1, (int)dim[2], (int)dim[3], &out, &err), &err);
    vae_same_bytes(&b, "u8.tiles", rgb);
    free(z), free(want), free(rgb);
    vae_bench_close(&b);
}

static void info_of_the_folder(void **state)
{
    int64_t dim[8];

    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    assert_string_equal(b.info.class, "AutoencoderKLFlux2");
    assert_int_equal(b.info.channels, 16);
    assert_memory_equal(b.info.ratio, ((int[]){ 1, 16, 16 }), sizeof b.info.ratio);
    assert_true(b.info.has_logvar && b.info.per_channel && b.info.scaling_factor == 1);
    float *mean = golden_values(b.golden, "bn.mean", dim);
    float *std = golden_values(b.golden, "bn.std", dim);
    for (int i = 0; i < 16; i++)
        if ((float)b.info.mean[i] != mean[i] || fabs(b.info.std[i] - (double)std[i]) > 1e-7)
            fail_msg("channel %d: %g, %g, not %g, %g", i, b.info.mean[i], b.info.std[i],
                     (double)mean[i], (double)std[i]);
    free(mean), free(std);
    vae_bench_close(&b);
}

/* What a family adds to variances stands in place of config.json's batch_norm_eps. */
static void eps_of_a_family(void **state)
{
    vae_info info[2];
    vae *v;
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    for (int i = 0; i < 2; i++) {
        const encoder_opts o = { .dir = b.dir, .dtype = VC_F32, .device = golden_device(),
                                 .threads = 1, .norm_eps = i ? 0.25 : 1e-5 };
        assert_ok(vae_flux2.open(&v, &o, &info[i], &err), &err);
        vae_flux2.close(v);
    }
    for (int c = 0; c < 16; c++) {
        const double less = pow(info[0].std[c], 2) - 1e-5, own = pow(b.info.std[c], 2);
        assert_true(fabs(pow(info[1].std[c], 2) - 0.25 - less) < 1e-12);
        assert_true(own > less + 5e-5);              /* batch_norm_eps is 1e-4 */
    }
    vae_bench_close(&b);
}

/* Opens a folder with the golden's config.json and these tensors. */
static int open_with(const char *dir, const char *config, const vf_view *tensors, int n,
                     vc_err *err)
{
    char *weights = vc_path_join(dir, "diffusion_pytorch_model.safetensors");
    char *file = vc_path_join(dir, "config.json");
    const encoder_opts o = { .dir = dir, .dtype = VC_F32, .device = golden_device(), .threads = 1 };
    vae_info info;
    vae *v = NULL;

    assert_ok(vf_safetensors_write(weights, tensors, n, NULL, 0, err), err);
    assert_ok(vc_file_write(file, config, strlen(config), err), err);
    int rc = vae_flux2.open(&v, &o, &info, err);
    assert_true((rc == 0) == (v != NULL));
    if (v)
        vae_flux2.close(v);
    free(weights);
    free(file);
    return rc;
}

/* The released file also has the number of batches of the statistics, an integer; a file without
 * statistics is refused. */
static void other_tensors(void **state)
{
    static const int64_t batches = 3;
    vc_err err = { 0 };
    vf_safetensors *f;

    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    char *path = vc_path_join(b.dir, "diffusion_pytorch_model.safetensors");
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    const char *config = vf_safetensors_meta(b.golden, "config"), *dir = golden_tmp("vae-other");
    int n = vf_safetensors_count(f);
    vf_view *all = vae_area((size_t)n + 1, sizeof *all);
    all[0] = (vf_view){ .name = "bn.num_batches_tracked", .dtype = VC_I64, .data = &batches,
                        .bytes = sizeof batches };
    for (int i = 0; i < n; i++)
        all[i + 1] = *vf_safetensors_at(f, i);
    assert_ok(open_with(dir, config, all, n + 1, &err), &err);

    int kept = 0;
    for (int i = 0; i < n; i++)
        if (strncmp(all[i + 1].name, "bn.", 3))
            all[kept++] = all[i + 1];
    assert_int_equal(open_with(dir, config, all, kept, &err), VC_ENOENT);
    assert_non_null(strstr(err.text, "bn.running_mean"));
    free(all), free(path);
    vf_safetensors_close(f);
    vae_bench_close(&b);
}

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = { { false, 1, 48, 80 }, { false, 2, 16, 112 },
                                     { true, 1, 5, 3 }, { true, 2, 3, 5 } };
    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 0, 16, 16, "frames" }, { 1, 24, 16, "multiples of 16" }, { 1, 16, 0, "multiples of 16" },
        { 1, 16, 1 << 20, "multiples of" },
    };
    (void)state;
    vae_bench b = open_bench(VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

#define TOY "\"block_out_channels\":[8,16,16,24],\"norm_num_groups\":4,\"layers_per_block\":1,"

static void refuses_configs(void **state)
{
    static const vae_bad_config rows[] = {
        { "{\"_class_name\":\"AutoencoderKL\"}", "_class_name" },
        { "{" TOY "\"latent_channels\":64}", "latent_channels" },
        { "{" TOY "\"latent_channels\":4,\"patch_size\":[1,1]}", "patch_size" },
        { "{" TOY "\"latent_channels\":4,\"decoder_block_out_channels\":[4,4,4,4]}",
          "decoder_block_out_channels: the last entry, 4, is the width" },
        { "{" TOY "\"latent_channels\":4,\"decoder_block_out_channels\":[4,4,8]}",
          "decoder_block_out_channels has 3 entries for 4" },
        { "{" TOY "\"latent_channels\":4,\"decoder_block_out_channels\":[4,6,4,8]}",
          "decoder_block_out_channels: 6 is not a multiple of norm_num_groups 4" },
        { "{" TOY "\"latent_channels\":4,\"batch_norm_eps\":-1}", "batch_norm_eps" },
    };
    (void)state;
    vae_bench b = open_bench(VC_F32, false);
    vae_refuses_configs(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_and_decodes), cmocka_unit_test(small_decoder),
        cmocka_unit_test(runs_in_bf16), cmocka_unit_test(tiles_in_space),
        cmocka_unit_test(info_of_the_folder), cmocka_unit_test(eps_of_a_family),
        cmocka_unit_test(other_tensors),
        cmocka_unit_test(memory_is_predicted), cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
