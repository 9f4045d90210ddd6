/* test_vae_cogvideox.c - AutoencoderKLCogVideoX equals diffusers': clips of every length, odd and
 * even latents, tiles, stored types; its predicted memory is right, and it refuses wrong sizes and
 * configs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/vae/cogvideox.h"
#include "tests/lib/ok.h"
#include "tests/precompute/vae/vae_bench.h"

static const vae_class *const cog = &vae_cogvideox;

static vae_bench open_bench(const char *golden, vc_dtype compute, vc_dtype stored, bool tiling)
{
    return vae_bench_open(cog, golden, compute, stored, tiling);
}

static void encode_lengths(const vae_bench *b, const int *lengths, double tol)
{
    vae_encode_lengths(b, lengths, tol);
    vae_encode_like(b, "tall", 17, ".tall", tol);
}

static void encodes_every_length(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 9, 13, 17, 21, 33, 49, 0 }, VAE_TOL_F32);
    vae_bench_close(&b);
}

static void encodes_in_bf16(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_BF16, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 17, 0 }, VAE_TOL_BF16);
    vae_bench_close(&b);
}

/* Weights of other types are held in their type, and change results by their rounding alone. */
static void reads_half_weights(void **state)
{
    static const struct { vc_dtype type; double tol; } rows[] = { { VC_F16, 3e-3 },
                                                                  { VC_BF16, 2e-2 } };
    (void)state;
    for (int i = 0; i < 2; i++) {
        vae_bench b = open_bench("vae_cogvideox", VC_F32, rows[i].type, false);
        vt_param_bytes bytes = vt_params_bytes(b.vae->params);
        bool here = vt_host_memory(b.vae->g);      /* false: the device has a copy of this type */
        assert_int_equal(here ? bytes.mapped : bytes.values, 2 * bytes.frozen);
        assert_int_equal(here ? bytes.values : bytes.mapped, 0);
        vae_encode_like(&b, "short", 9, ".9", rows[i].tol);
        vae_bench_close(&b);
    }
}

/* A far-out last bias clamps logvar, and logvar alone, to the limits of diffusers' posterior. */
static void logvar_is_clamped(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    static const float bias[8] = { 50, 50, 50, 50, 1000, -1000, 1000, -1000 };
    static float x[16 * 16 * 3];
    float mean[4 * 4], logvar[4 * 4];
    vc_err err = { 0 };
    nn_video_conv *last = &((cog_vae *)b.vae)->encoder.conv_out;
    vt_tensor *stored = last->b;

    last->b = vt_param_new(b.vae->g, VC_F32, 1, (int64_t[]){ 8 }, bias, VC_F32, false, &err);
    assert_non_null(last->b);
    assert_ok(cog->encode(b.vae, &(vae_input){ .all = x }, 1, 16, 16, mean, logvar, &err), &err);
    for (int i = 0; i < 16; i++) {
        assert_true(mean[i] > 20);
        assert_true(logvar[i] == (i / 4 % 2 ? -30 : 20));
    }
    vt_param_free(b.vae->g, last->b);
    last->b = stored;
    vae_bench_close(&b);
}

/* Windows of 48 frames, the first with one more, have group norms over all of their frames; the
 * window is part of the fingerprint, unless it is the family's own. */
static void encodes_in_windows(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox_windows", VC_F32, VC_F32, false);
    const vf_key plain = b.info.fingerprint;
    size_t one = 0, many = 0;
    vc_err err = { 0 };

    vae_bench_window(&b, 48);
    assert_memory_not_equal(plain.b, b.info.fingerprint.b, sizeof plain.b);
    assert_int_equal(b.info.window, 48);
    vae_encode_like(&b, "windows", 49, ".49", VAE_TOL_F32);
    vae_encode_like(&b, "windows", 97, ".97", VAE_TOL_F32);
    vae_memory_is_right(&b, (vae_size[]){ { false, 97, 16, 16 } }, 1);
    assert_ok(cog->memory(b.vae, false, 97, 32, 48, &one, &err), &err);
    assert_ok(cog->memory(b.vae, false, 1009, 32, 48, &many, &err), &err);
    assert_int_equal(one, many);         /* a clip of 63 seconds takes no more than one of six */
    vae_bench_window(&b, 8);
    assert_memory_equal(plain.b, b.info.fingerprint.b, sizeof plain.b);
    assert_int_equal(b.info.window, 0);
    vae_bench_close(&b);
}

/* A clip whose frames come as they are read, and go as they are decoded, is the same clip. */
static void ranges_are_the_clip(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    vae_ranges_are_same(&b, "short", 49, 5);
    vae_ranges_are_same(&b, "short", 1, 1);
    vae_bench_window(&b, 16);
    vae_ranges_are_same(&b, "short", 45, 4);
    vae_bench_close(&b);
    b = open_bench("vae_cogvideox_tiles", VC_F32, VC_F32, true);
    vae_ranges_are_same(&b, "pixels", 17, 3);
    vae_bench_close(&b);
}

static void wrong_windows_are_refused(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    encoder_opts o = { .dir = b.dir, .dtype = VC_F32, .device = golden_device(), .window = 50 };
    vae_info info;
    vae *v;
    vc_err err = { 0 };

    assert_fails(cog->open(&v, &o, &info, &err), VC_EUSAGE, &err, "multiples of 8");
    o.window = 48;
    assert_fails(vae_wan.open(&v, &o, &info, &err), VC_EUSAGE, &err, "leave the flag out");
    vae_bench_close(&b);
}

/* ---- decode ---- */

static void decodes_odd_and_even(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    for (int n = 1; n <= 5; n++) {
        assert_int_equal(cog->frames(n), n % 2 ? 4 * n - 3 : 4 * n);
        vae_decode_like(&b, n, VAE_TOL_F32);
    }
    vae_bench_close(&b);
    b = open_bench("vae_cogvideox", VC_BF16, VC_F32, false);
    for (int n = 3; n <= 4; n++)
        vae_decode_like(&b, n, VAE_TOL_BF16);
    vae_bench_close(&b);
}

static void decodes_to_bytes(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    for (int n = 1; n <= 5; n++) {
        char name[8];
        snprintf(name, sizeof name, ".%d", n);
        vae_decode_bytes_like(&b, n, name);
    }
    vae_bench_close(&b);
}

/* ---- tiles ---- */

static void tiles_are_blended(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox_tiles", VC_F32, VC_F32, true);
    vae_encode_like(&b, "pixels", 17, "", VAE_TOL_F32);
    vae_decode_bytes_like(&b, 3, "");
    vae_bench_close(&b);
}

/* Tiling does not change a clip that fits into a tile, but changes the fingerprint. */
static void small_clips_are_one_tile(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, true);
    vf_key with = b.info.fingerprint;
    vae_encode_like(&b, "tall", 17, ".tall", VAE_TOL_F32);
    vae_bench_close(&b);
    b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    assert_int_equal(b.info.channels, 4);
    assert_int_equal(b.info.ratio[0], 4);
    assert_int_equal(b.info.ratio[1], 8);
    assert_true(b.info.scaling_factor == 0.7 && b.info.invert_scale_latents && b.info.has_logvar);
    vae_bench_close(&b);
}

/* ---- tiles in time, which no released CogVideoX uses ---- */

/* The latent [C,f,grid] that the tile of `n` pixel frames from `at` on makes alone. */
typedef struct part {
    float *mean;
    int f;
} part;

static part encode_part(const vae_bench *b, const float *x, const int64_t dim[8], int at, int n)
{
    part p = { .f = (n - 1) / 4 + 1 };
    vc_err err = { 0 };
    size_t frame = (size_t)(dim[1] * dim[2] * 3), grid = (size_t)(dim[1] * dim[2] / 64);

    p.mean = vae_area((size_t)b->info.channels * (size_t)p.f * grid, 4);
    x += (size_t)at * frame;
    assert_ok(cog->encode(b->vae, &(vae_input){ .all = x }, n, (int)dim[1], (int)dim[2], p.mean,
                          NULL, &err), &err);
    return p;
}

/* Compares n frames of `tiled` (which has f frames) from a on with the frames of p from c on, or
 * with their blend with the frames of the part before from d on. */
static void same_frames(const vae_bench *b, const float *tiled, int f, int a, int n, const part *p,
                        int c, const part *before, int d, size_t grid)
{
    for (int k = 0; k < b->info.channels; k++)
        for (int i = 0; i < n; i++)
            for (size_t g = 0; g < grid; g++) {
                float have = tiled[((size_t)k * (size_t)f + (size_t)(a + i)) * grid + g];
                float want = p->mean[((size_t)k * (size_t)p->f + (size_t)(c + i)) * grid + g];
                float s = (float)i / (float)n;
                size_t at = before ? (size_t)k * (size_t)before->f + (size_t)(d + i) : 0;
                if (before)
                    want = before->mean[at * grid + g] * (1 - s) + want * s;
                if (memcmp(&have, &want, sizeof have))
                    fail_msg("frame %d: %g, not %g", a + i, (double)have, (double)want);
            }
}

/* Tiles of size + 1 frames keep their own latents but for the first, which are blended with the
 * last latents of the tile before; the first tile equals a whole clip. */
static void encodes_tiles_of(const vae_bench *b, int size, int blend)
{
    int64_t dim[8];
    float *x = vae_pixels(b, "short", dim);
    size_t grid = (size_t)(dim[1] * dim[2] / 64);
    const vae_tiling space = b->vae->tiling;
    vae_tiling both = space;
    both.size[0] = size;
    both.overlap[0] = 0.25;
    part whole = encode_part(b, x, dim, 0, 49), before = { 0 };

    b->vae->tiling = both;
    part tiled = encode_part(b, x, dim, 0, 49);
    b->vae->tiling = space;
    for (int at = 0, t = 0; at < 48; at += size * 3 / 4) {
        part p = encode_part(b, x, dim, at, at + size + 1 < 49 ? size + 1 : 49 - at);
        int drop = at > 0, mixed = at ? blend : 0, kept = size * 3 / 16 + !at;
        kept = kept < p.f - drop ? kept : p.f - drop;
        if (at)
            same_frames(b, tiled.mean, 13, t, mixed, &p, drop, &before, before.f - mixed, grid);
        else
            same_frames(b, tiled.mean, 13, 0, kept, &whole, 0, NULL, 0, grid);
        same_frames(b, tiled.mean, 13, t + mixed, kept - mixed, &p, drop + mixed, NULL, 0, grid);
        t += kept;
        free(before.mean);
        before = p;
    }
    free(x), free(before.mean), free(whole.mean), free(tiled.mean);
}

/* Decoded tiles keep their own frames. Results are bytes, so blended frames are not compared. */
static void decodes_tiles(const vae_bench *b)
{
    enum { F = 13, H = 2, W = 3, FRAME = H * W * 64 * 3 };
    static float z[4 * F * H * W], part_z[4 * 7 * H * W];
    static uint8_t whole[49 * FRAME], tiled[49 * FRAME], second[25 * FRAME];
    vc_err err = { 0 };

    for (int i = 0; i < 4 * F * H * W; i++)
        z[i] = (float)(i * 37 % 101) / 25 - 2;
    for (int c = 0; c < 4; c++)
        memcpy(part_z + c * 7 * H * W, z + (c * F + 6) * H * W, sizeof(float) * 7 * H * W);
    assert_int_equal(cog->decode(b->vae, z, F, H, W, &(vae_output){ .all = whole }, &err), 0);
    assert_int_equal(cog->decode(b->vae, part_z, 7, H, W, &(vae_output){ .all = second }, &err), 0);
    b->vae->tiling = (vae_tiling){ .size = { 32 }, .overlap = { 0.25 } };
    assert_int_equal(cog->decode(b->vae, z, F, H, W, &(vae_output){ .all = tiled }, &err), 0);
    assert_memory_equal(tiled, whole, 25 * FRAME);
    assert_memory_not_equal(tiled + 33 * FRAME, whole + 33 * FRAME, 16 * FRAME);
    assert_memory_equal(tiled + 33 * FRAME, second + 9 * FRAME, 16 * FRAME);
}

static void tiles_in_time(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    size_t tile, clip;
    vc_err err = { 0 };

    encodes_tiles_of(&b, 16, 1);
    b.vae->tiling = (vae_tiling){ .size = { 0, 0, 16 }, .overlap = { 0, 0, 0.25 } };
    encodes_tiles_of(&b, 32, 2);                   /* also tiled in space */
    b.vae->tiling = (vae_tiling){ 0 };
    assert_int_equal(cog->memory(b.vae, true, 3, 2, 3, &clip, &err), 0);
    decodes_tiles(&b);
    b.vae->tiling = (vae_tiling){ .size = { 8 }, .overlap = { 0.5 } };
    assert_int_equal(cog->memory(b.vae, true, 7, 2, 3, &tile, &err), 0);
    /* The whole latent is held. */
    assert_int_equal(tile, clip + (7 - 3) * 4 * 2 * 3 * sizeof(float));
    assert_int_equal(cog->memory(b.vae, true, 8, 2, 3, &tile, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "tiles of 3 frames in steps of 1 make"));
    vae_bench_close(&b);
}

/* ---- memory ---- */

static void memory_is_predicted(void **state)
{
    static const vae_size rows[] = {
        { false, 1, 16, 24 }, { false, 9, 40, 24 }, { false, 17, 16, 24 }, { false, 49, 16, 24 },
        { true, 1, 2, 3 }, { true, 2, 2, 3 }, { true, 3, 2, 3 }, { true, 13, 2, 3 },
    };
    size_t two_chunks, six;
    vc_err err = { 0 };

    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    vae_memory_is_right(&b, rows, (int)(sizeof rows / sizeof *rows));
    assert_int_equal(cog->memory(b.vae, false, 17, 16, 24, &two_chunks, &err), 0);
    assert_int_equal(cog->memory(b.vae, false, 49, 16, 24, &six, &err), 0);
    assert_int_equal(two_chunks, six);             /* for any length of the clip */
    vae_bench_close(&b);
}

/* Memory is three activations of the widest level, and the frames that convolutions carry. */
static void bound_of_memory(void **state)
{
    (void)state;
    /* The golden has two residual blocks per level. */
    vae_bench b = open_bench("vae_cogvideox_tiles", VC_F32, VC_F32, false);
    size_t one, two, act = (size_t)9 * 96 * 96 * 16 * 4;
    vc_err err = { 0 };
    assert_int_equal(cog->memory(b.vae, false, 9, 96, 96, &one, &err), 0);
    assert_int_equal(cog->memory(b.vae, false, 49, 96, 96, &two, &err), 0);
    assert_between(one, 3 * act, 3 * act + act / 2);
    assert_between(two, one, 5 * act);
    /* The decoder also holds the input of the last level, which has half as many channels more,
     * until the shortcut is added; tensors of two sizes leave holes. */
    assert_int_equal(cog->memory(b.vae, true, 3, 12, 12, &one, &err), 0);
    assert_between(one, 4 * act + act / 2, 5 * act + act / 2);
    vae_bench_close(&b);
}

/* ---- refused sizes and configs ---- */

static void refuses_sizes(void **state)
{
    static const vae_refusal rows[] = {
        { 2, 16, 16, "4k+1" }, { 8, 16, 16, "4k+1" }, { 0, 16, 16, "4k+1" }, { -3, 16, 16, "4k+1" },
        { 1 << 20, 16, 16, "4k+1" }, { 5, 12, 16, "multiples of 8" },
        { 5, 16, 0, "multiples of 8" }, { 5, 16, 1 << 20, "multiples of 8" },
    };
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, true);
    vae_refuses_sizes(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

static void refuses_configs(void **state)
{
    static const vae_bad_config rows[] = {
        { "{\"_class_name\":\"AutoencoderKL\"}", "_class_name" },
        { "{\"use_quant_conv\":true}", "use_quant_conv" },
        { "{\"use_post_quant_conv\":true}", "use_post_quant_conv" },
        { "{\"temporal_compression_ratio\":8}", "temporal_compression_ratio" },
        { "{\"act_fn\":\"gelu\"}", "act_fn" },
        { "{\"in_channels\":4}", "in_channels" },
        { "{\"block_out_channels\":[16,32]}", "block_out_channels" },
        { "{\"block_out_channels\":[16,24,24,1e300]}", "block_out_channels" },
        { "{\"block_out_channels\":[16,24,24,30.5]}", "block_out_channels" },
        { "{\"block_out_channels\":\"x\"}", "block_out_channels" },
        { "{\"block_out_channels\":[16,24,24,33]}", "norm_num_groups" },
        { "{\"down_block_types\":[\"CogVideoXDownBlock3D\"]}", "down_block_types" },
        { "{\"up_block_types\":[\"a\",\"b\",\"c\",\"d\"]}", "up_block_types" },
        { "{\"layers_per_block\":200}", "layers_per_block" },
        { "{\"latent_channels\":0}", "latent_channels" },
        { "{\"norm_num_groups\":-1}", "norm_num_groups" },
        { "{\"norm_eps\":0}", "norm_eps" },
        { "{\"sample_height\":0}", "sample_height" },
        { "{\"scaling_factor\":0}", "scaling_factor" },
        { "{\"latents_mean\":[1,2]}", "latents_mean" },
        { "{\"latent_channels\":1,\"latents_mean\":[0],\"latents_std\":[0]}", "latents_std" },
        { "{\"latent_channels\":1,\"latents_std\":[1]}", "latents_mean" },
        { "{\"block_out_channels\":[16,24,24,32],\"norm_num_groups\":4,\"latent_channels\":4,"
          "\"layers_per_block\":2}", "resnets.1" },                      /* missing */
        { "{\"block_out_channels\":[16,24,32],\"norm_num_groups\":4,\"latent_channels\":4,"
          "\"layers_per_block\":1}", "encoder" },                        /* another shape */
        { "[]", "config.json" }, { "{", "config.json" },
    };
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    vae_refuses_configs(&b, rows, (int)(sizeof rows / sizeof *rows));
    vae_bench_close(&b);
}

/* Tiles that would not make the whole picture are refused, and never cropped. */
static void refuses_uneven_tiles(void **state)
{
    (void)state;
    vae_bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    vc_err err = { 0 };
    vae *v;
    vae_info info;
    encoder_opts o = { .dir = b.dir, .dtype = VC_F32, .device = golden_device(),
                       .threads = 1, .tiling = true };
    float *x = vae_area(48 * 64 * 3, 4);
    static const char *const sizes[] = { "16", "18", "30", "33", "46" };
    static const char config[] = "{\"block_out_channels\":[16,24,24,32],\"norm_num_groups\":4,"
                                 "\"latent_channels\":4,\"layers_per_block\":1,"
                                 "\"sample_height\":%s,\"sample_width\":%s}";
    for (int i = 0; i < 5; i++) {
        char *text = vc_format(config, sizes[i], sizes[i]);
        char *path = vc_path_join(b.dir, "config.json");
        assert_int_equal(vc_file_write(path, text, strlen(text), &err), 0);
        assert_int_equal(cog->open(&v, &o, &info, &err), 0);
        float mean[4 * 6 * 8];
        int rc = cog->encode(v, &(vae_input){ .all = x }, 1, 48, 64, mean, NULL, &err);
        assert_ok(rc && (rc != VC_EINVAL || !strstr(err.text, "tiles of")), &err);
        cog->close(v);
        free(text), free(path);
    }
    free(x);
    vae_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(encodes_in_bf16),
        cmocka_unit_test(reads_half_weights), cmocka_unit_test(encodes_in_windows),
        cmocka_unit_test(ranges_are_the_clip), cmocka_unit_test(wrong_windows_are_refused),
        cmocka_unit_test(logvar_is_clamped),
        cmocka_unit_test(decodes_odd_and_even), cmocka_unit_test(decodes_to_bytes),
        cmocka_unit_test(tiles_are_blended), cmocka_unit_test(small_clips_are_one_tile),
        cmocka_unit_test(tiles_in_time), cmocka_unit_test(memory_is_predicted),
        cmocka_unit_test(bound_of_memory), cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_configs), cmocka_unit_test(refuses_uneven_tiles),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
