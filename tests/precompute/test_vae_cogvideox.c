/* AutoencoderKLCogVideoX against diffusers: clips of every length, odd and even latents, tiles,
 * stored types, the predicted memory, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/vae/cogvideox.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

/* Of the largest value. f32: sums of up to 27 * 32 terms in another order, some 20 layers deep.
 * bf16: activations keep 8 bits, 2e-3 each time they are stored. */
/* Devices sum a convolution's products one after another, not in blocks: 1.5e-5 was seen. */
#define TOL_F32 (strcmp(golden_device(), "cpu") ? 3e-5 : 1e-5)
#define TOL_BF16 2e-2

static const vae_class *const cog = &vae_cogvideox;

typedef struct bench {
    vf_safetensors *golden;
    vae *vae;
    vae_info info;
} bench;

static const char *folder(const vf_safetensors *f, vc_dtype stored)
{
    const char *dir = golden_tmp("cogvideox");
    golden_model(f, dir, stored);
    return dir;
}

static bench open_bench(const char *golden, vc_dtype compute, vc_dtype stored, bool tiling)
{
    bench b = { .golden = golden_open(golden) };
    vc_err err = { 0 };
    encoder_opts o = { .dir = folder(b.golden, stored), .dtype = compute, .device = golden_device(),
                       .threads = 2, .tiling = tiling };
    assert_ok(cog->open(&b.vae, &o, &b.info, &err), &err);
    return b;
}

static void close_bench(bench *b)
{
    cog->close(b->vae);
    vf_safetensors_close(b->golden);
}

/* A stored clip as the VAE gets it: f32 in -1..1. */
static float *pixels_of(const bench *b, const char *name, int64_t dim[8])
{
    float *x = golden_values(b->golden, name, dim);
    for (int64_t i = 0; i < dim[0] * dim[1] * dim[2] * dim[3]; i++)
        x[i] = x[i] / 127.5f - 1;
    return x;
}

static void near(const bench *b, const char *name, const float *have, double tol)
{
    int64_t dim[8], n = 1;
    float *want = golden_values(b->golden, name, dim);
    for (int i = 0; i < 4; i++)
        n *= dim[i];
    double e = golden_error(have, want, n);
    if (!(e <= tol)) fail_msg("%s: error %.3g, at most %.3g is right", name, e, tol);
    free(want);
}

static void *area(size_t n, size_t size)
{
    void *p = calloc(n, size);
    assert_non_null(p);
    return p;
}

/* The first f frames of a clip -> moments, compared with mean.NAME and logvar.NAME. */
static void encode_like(const bench *b, const char *clip, int f, const char *name, double tol)
{
    vc_err err = { 0 };
    int64_t dim[8];
    char field[40];
    float *x = pixels_of(b, clip, dim);
    size_t n = (size_t)b->info.channels * (size_t)((f - 1) / 4 + 1) * (size_t)(dim[1] / 8) *
               (size_t)(dim[2] / 8);
    float *mean = area(n, 4), *logvar = area(n, 4);

    assert_ok(cog->encode(b->vae, x, f, (int)dim[1], (int)dim[2], mean, logvar, &err), &err);
    snprintf(field, sizeof field, "mean%s", name);
    near(b, field, mean, tol);
    snprintf(field, sizeof field, "logvar%s", name);
    near(b, field, logvar, tol);
    free(x), free(mean), free(logvar);
}

static void encode_lengths(const bench *b, const int *lengths, double tol)
{
    char name[8];

    for (; *lengths; lengths++) {
        snprintf(name, sizeof name, ".%d", *lengths);
        encode_like(b, "short", *lengths, name, tol);
    }
    encode_like(b, "tall", 17, ".tall", tol);
}

static void encodes_every_length(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 9, 13, 17, 21, 33, 49, 0 }, TOL_F32);
    close_bench(&b);
}

static void encodes_in_bf16(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_BF16, VC_F32, false);
    encode_lengths(&b, (int[]){ 1, 5, 17, 0 }, TOL_BF16);
    close_bench(&b);
}

/* Weights of other types are used as they are stored: what differs is their rounding. */
static void reads_half_weights(void **state)
{
    static const struct { vc_dtype type; double tol; } rows[] = { { VC_F16, 3e-3 },
                                                                  { VC_BF16, 2e-2 } };
    (void)state;
    for (int i = 0; i < 2; i++) {
        bench b = open_bench("vae_cogvideox", VC_F32, rows[i].type, false);
        vt_param_bytes bytes = vt_params_bytes(b.vae->params);
        bool here = vt_host_memory(b.vae->g);      /* else on the device, in the same type */
        assert_int_equal(here ? bytes.mapped : bytes.values, 2 * bytes.frozen);
        assert_int_equal(here ? bytes.values : bytes.mapped, 0);
        encode_like(&b, "short", 9, ".9", rows[i].tol);
        close_bench(&b);
    }
}

/* As diffusers' posterior: a last bias far out brings logvar, and only that, to its ends. */
static void logvar_is_clamped(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    static const float bias[8] = { 50, 50, 50, 50, 1000, -1000, 1000, -1000 };
    static float x[16 * 16 * 3];
    float mean[4 * 4], logvar[4 * 4];
    vc_err err = { 0 };
    nn_video_conv *last = &((cog_vae *)b.vae)->encoder.conv_out;
    vt_tensor *stored = last->b;

    last->b = vt_param_new(b.vae->g, VC_F32, 1, (int64_t[]){ 8 }, bias, VC_F32, false, &err);
    assert_non_null(last->b);
    assert_int_equal(cog->encode(b.vae, x, 1, 16, 16, mean, logvar, &err), 0);
    for (int i = 0; i < 16; i++) {
        assert_true(mean[i] > 20);
        assert_true(logvar[i] == (i / 4 % 2 ? -30 : 20));
    }
    vt_param_free(b.vae->g, last->b);
    last->b = stored;
    close_bench(&b);
}

/* ---- decode ---- */

typedef struct frames {
    float *v;
    size_t frame;
} frames;

static void keep_frames(void *arg, const float *values, int first, int n, int h, int w)
{
    frames *f = arg;
    assert_int_equal((size_t)h * (size_t)w * 3, f->frame);
    memcpy(f->v + (size_t)first * f->frame, values, (size_t)n * f->frame * 4);
}

/* Latents 0..n-1 of the golden's z, [C,n,h,w]. */
static float *some_latents(const bench *b, int n, int64_t dim[8])
{
    float *z = golden_values(b->golden, "z", dim), *some;
    size_t grid = (size_t)(dim[2] * dim[3]);
    some = area((size_t)dim[0] * (size_t)n * grid, 4);
    for (int64_t c = 0; c < dim[0]; c++)
        memcpy(some + (size_t)c * (size_t)n * grid, z + (size_t)(c * dim[1]) * grid,
               (size_t)n * grid * 4);
    free(z);
    return some;
}

static void decode_counts(const bench *b, int from, int to, double tol)
{
    for (int n = from; n <= to; n++) {
        vc_err err = { 0 };
        int64_t dim[8];
        char name[16];
        float *z = some_latents(b, n, dim);
        int f = cog->frames(n), h = (int)dim[2], w = (int)dim[3];
        frames out = { .frame = (size_t)(h * w * 64 * 3) };
        out.v = area((size_t)f * out.frame, 4);
        vae_pass p = { .decodes = true, .source = z, .of = { n, h, w }, .n = { n, h, w },
                       .take = keep_frames, .arg = &out };
        assert_int_equal(f, n % 2 ? 4 * n - 3 : 4 * n);
        assert_ok(vae_run_pass(b->vae, &p, &err), &err);
        snprintf(name, sizeof name, "sample.%d", n);
        near(b, name, out.v, tol);
        free(z), free(out.v);
    }
}

static void decodes_odd_and_even(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    decode_counts(&b, 1, 5, TOL_F32);
    close_bench(&b);
    b = open_bench("vae_cogvideox", VC_BF16, VC_F32, false);
    decode_counts(&b, 3, 4, TOL_BF16);
    close_bench(&b);
}

/* Bytes: equal, but where a value lies within the tolerance of f32 of a half. */
static void same_bytes(const bench *b, const char *name, const uint8_t *have)
{
    int64_t dim[8];
    float *want = golden_values(b->golden, name, dim);
    int64_t n = dim[0] * dim[1] * dim[2] * dim[3], off = 0;
    for (int64_t i = 0; i < n; i++) {
        int d = abs((int)have[i] - (int)want[i]);
        if (d > 1) fail_msg("%s: byte %d is %d, not %g", name, (int)i, have[i], (double)want[i]);
        off += d;
    }
    if (off > n / 1000) fail_msg("%s: %d bytes of %d differ by one", name, (int)off, (int)n);
    free(want);
}

static void decodes_to_bytes(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    for (int n = 1; n <= 5; n++) {
        vc_err err = { 0 };
        int64_t dim[8];
        char name[16];
        float *z = some_latents(&b, n, dim);
        uint8_t *rgb = area((size_t)(cog->frames(n) * dim[2] * dim[3] * 64 * 3), 1);
        assert_ok(cog->decode(b.vae, z, n, (int)dim[2], (int)dim[3], rgb, &err), &err);
        snprintf(name, sizeof name, "u8.%d", n);
        same_bytes(&b, name, rgb);
        free(z), free(rgb);
    }
    close_bench(&b);
}

/* ---- tiles ---- */

static void tiles_are_blended(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox_tiles", VC_F32, VC_F32, true);
    encode_like(&b, "pixels", 17, "", TOL_F32);
    vc_err err = { 0 };
    int64_t dim[8];
    float *z = some_latents(&b, 3, dim);
    uint8_t *rgb = area((size_t)(9 * dim[2] * dim[3] * 64 * 3), 1);
    assert_ok(cog->decode(b.vae, z, 3, (int)dim[2], (int)dim[3], rgb, &err), &err);
    same_bytes(&b, "u8", rgb);
    free(z), free(rgb);
    close_bench(&b);
}

/* Below the threshold tiling changes nothing, and the fingerprint knows of it. */
static void small_clips_are_one_tile(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, true);
    vf_key with = b.info.fingerprint;
    encode_like(&b, "tall", 17, ".tall", TOL_F32);
    close_bench(&b);
    b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    assert_memory_not_equal(with.b, b.info.fingerprint.b, sizeof with.b);
    assert_int_equal(b.info.channels, 4);
    assert_int_equal(b.info.ratio[0], 4);
    assert_int_equal(b.info.ratio[1], 8);
    assert_true(b.info.scaling_factor == 0.7 && b.info.invert_scale_latents && b.info.has_logvar);
    close_bench(&b);
}

/* ---- tiles in time, which no released CogVideoX is run with ---- */

/* Frames of the latent [C,f,grid] that tile `at` of `n` pixel frames makes alone. */
typedef struct part {
    float *mean;
    int f;
} part;

static part encode_part(const bench *b, const float *x, const int64_t dim[8], int at, int n)
{
    part p = { .f = (n - 1) / 4 + 1 };
    vc_err err = { 0 };
    size_t frame = (size_t)(dim[1] * dim[2] * 3), grid = (size_t)(dim[1] * dim[2] / 64);

    p.mean = area((size_t)b->info.channels * (size_t)p.f * grid, 4);
    x += (size_t)at * frame;
    assert_ok(cog->encode(b->vae, x, n, (int)dim[1], (int)dim[2], p.mean, NULL, &err), &err);
    return p;
}

/* Frames a.. of `tiled` (of f in all) against frames c.. of p: equal, or a mix with frames d.. of
 * the part before it. */
static void same_frames(const bench *b, const float *tiled, int f, int a, int n, const part *p,
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

/* Tiles of size + 1 frames: their insides are what each makes alone, the first ones' of a whole
 * clip; the first latents of a tile are blended with the last ones of the tile before. */
static void encodes_tiles_of(const bench *b, int size, int blend)
{
    int64_t dim[8];
    float *x = pixels_of(b, "short", dim);
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

/* The same of decoding, where bytes are compared and so only what is not blended. */
static void decodes_tiles(const bench *b)
{
    enum { F = 13, H = 2, W = 3, FRAME = H * W * 64 * 3 };
    static float z[4 * F * H * W], part_z[4 * 7 * H * W];
    static uint8_t whole[49 * FRAME], tiled[49 * FRAME], second[25 * FRAME];
    vc_err err = { 0 };

    for (int i = 0; i < 4 * F * H * W; i++)
        z[i] = (float)(i * 37 % 101) / 25 - 2;
    for (int c = 0; c < 4; c++)
        memcpy(part_z + c * 7 * H * W, z + (c * F + 6) * H * W, sizeof(float) * 7 * H * W);
    assert_int_equal(cog->decode(b->vae, z, F, H, W, whole, &err), 0);
    assert_int_equal(cog->decode(b->vae, part_z, 7, H, W, second, &err), 0);
    b->vae->tiling = (vae_tiling){ .size = { 32 }, .overlap = { 0.25 } };
    assert_int_equal(cog->decode(b->vae, z, F, H, W, tiled, &err), 0);
    assert_memory_equal(tiled, whole, 25 * FRAME);
    assert_memory_not_equal(tiled + 33 * FRAME, whole + 33 * FRAME, 16 * FRAME);
    assert_memory_equal(tiled + 33 * FRAME, second + 9 * FRAME, 16 * FRAME);
}

static void tiles_in_time(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    size_t tile, clip;
    vc_err err = { 0 };

    encodes_tiles_of(&b, 16, 1);
    b.vae->tiling = (vae_tiling){ .size = { 0, 0, 16 }, .overlap = { 0, 0, 0.25 } };
    encodes_tiles_of(&b, 32, 2);                   /* on two axes */
    b.vae->tiling = (vae_tiling){ 0 };
    assert_int_equal(cog->memory(b.vae, true, 3, 2, 3, &clip, &err), 0);
    decodes_tiles(&b);
    b.vae->tiling = (vae_tiling){ .size = { 8 }, .overlap = { 0.5 } };
    assert_int_equal(cog->memory(b.vae, true, 7, 2, 3, &tile, &err), 0);
    assert_int_equal(tile, clip + (7 - 3) * 4 * 2 * 3 * sizeof(float));    /* the whole latent's */
    assert_int_equal(cog->memory(b.vae, true, 8, 2, 3, &tile, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "tiles of 3 frames in steps of 1 make"));
    close_bench(&b);
}

/* ---- memory ---- */

static void memory_is_predicted(void **state)
{
    static const struct { bool decode; int f, h, w; } rows[] = {
        { false, 1, 16, 24 }, { false, 9, 40, 24 }, { false, 17, 16, 24 }, { false, 49, 16, 24 },
        { true, 1, 2, 3 }, { true, 2, 2, 3 }, { true, 3, 2, 3 }, { true, 13, 2, 3 },
    };
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, false);
    size_t most = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        int f = rows[i].f, h = rows[i].h, w = rows[i].w, rc;
        size_t bytes, n = (size_t)(f * h * w) * 768;
        float *in = area(n, 4), *out = area(n, 4);
        rc = cog->memory(b.vae, rows[i].decode, f, h, w, &bytes, &err);
        if (!rc && rows[i].decode)
            rc = cog->decode(b.vae, in, f, h, w, (uint8_t *)out, &err);
        else if (!rc)
            rc = cog->encode(b.vae, in, f, h, w, out, NULL, &err);
        assert_ok(rc, &err);
        vt_usage use = vt_usage_of(b.vae->g);
        assert_int_equal(use.pool_peak + use.scratch, bytes);
        free(in), free(out);
        if (w == 24 && h == 16 && f >= 17) {       /* however long the clip is */
            if (most) assert_int_equal(bytes, most);
            most = bytes;
        }
    }
    close_bench(&b);
}

/* Three activations of the widest level, and what is carried. */
static void bound_of_memory(void **state)
{
    (void)state;
    bench b = open_bench("vae_cogvideox_tiles", VC_F32, VC_F32, false);  /* two resnets a level */
    size_t one, two, act = (size_t)9 * 96 * 96 * 16 * 4;
    vc_err err = { 0 };
    assert_int_equal(cog->memory(b.vae, false, 9, 96, 96, &one, &err), 0);
    assert_int_equal(cog->memory(b.vae, false, 49, 96, 96, &two, &err), 0);
    assert_in_range(one, 3 * act, 3 * act + act / 2);
    assert_in_range(two, one, 5 * act);
    /* decoder: the last level's input is half as wide again and lives until its shortcut is added;
     * tensors of two sizes leave holes */
    assert_int_equal(cog->memory(b.vae, true, 3, 12, 12, &one, &err), 0);
    assert_in_range(one, 4 * act + act / 2, 5 * act + act / 2);
    close_bench(&b);
}

/* ---- what is refused ---- */

static void refuses_sizes(void **state)
{
    static const struct { int f, h, w; const char *says; } rows[] = {
        { 2, 16, 16, "4k+1" }, { 8, 16, 16, "4k+1" }, { 0, 16, 16, "4k+1" }, { -3, 16, 16, "4k+1" },
        { 1 << 20, 16, 16, "4k+1" }, { 5, 12, 16, "multiples of 8" },
        { 5, 16, 0, "multiples of 8" }, { 5, 16, 1 << 20, "multiples of 8" },
    };
    (void)state;
    bench b = open_bench("vae_cogvideox", VC_F32, VC_F32, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        size_t bytes;
        int rc = cog->encode(b.vae, NULL, rows[i].f, rows[i].h, rows[i].w, NULL, NULL, &err);
        assert_fails(rc, VC_EINVAL, &err, rows[i].says);
        assert_int_equal(cog->memory(b.vae, false, rows[i].f, rows[i].h, rows[i].w, &bytes, &err),
                         VC_EINVAL);
    }
    vc_err err = { 0 };
    assert_int_equal(cog->decode(b.vae, NULL, 0, 2, 2, NULL, &err), VC_EINVAL);
    assert_int_equal(cog->decode(b.vae, NULL, 1, 1 << 20, 2, NULL, &err), VC_EINVAL);
    close_bench(&b);
}

/* Opens the folder with another config.json; the text of the failure. */
static const char *opened_with(const char *dir, const char *config)
{
    static vc_err err;
    char *path = vc_path_join(dir, "config.json");
    vae *v = NULL;
    vae_info info;
    encoder_opts o = { .dir = dir, .dtype = VC_F32, .device = golden_device(), .threads = 1 };

    err = (vc_err){ 0 };
    assert_int_equal(vc_file_write(path, config, strlen(config), &err), 0);
    free(path);
    int rc = cog->open(&v, &o, &info, &err);
    cog->close(v);
    if (rc) assert_null(v);
    return rc ? err.text : "";
}

static void refuses_configs(void **state)
{
    static const struct { const char *config, *says; } rows[] = {
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
    vf_safetensors *f = golden_open("vae_cogvideox");
    const char *dir = folder(f, VC_F32);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = opened_with(dir, rows[i].config);
        if (!strstr(text, rows[i].says))
            fail_msg("%s: \"%s\" does not name %s", rows[i].config, text, rows[i].says);
    }
    assert_string_equal(opened_with(dir, vf_safetensors_meta(f, "config")), "");
    vf_safetensors_close(f);
}

/* Tiles that would not make the whole picture are refused, not cropped. */
static void refuses_uneven_tiles(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("vae_cogvideox");
    const char *dir = folder(f, VC_F32);
    vc_err err = { 0 };
    vae *v;
    vae_info info;
    encoder_opts o = { .dir = dir, .dtype = VC_F32, .device = golden_device(), .threads = 1, .tiling = true };
    float *x = area(48 * 64 * 3, 4);
    static const char *const sizes[] = { "16", "18", "30", "33", "46" };
    static const char config[] = "{\"block_out_channels\":[16,24,24,32],\"norm_num_groups\":4,"
                                 "\"latent_channels\":4,\"layers_per_block\":1,"
                                 "\"sample_height\":%s,\"sample_width\":%s}";
    for (int i = 0; i < 5; i++) {
        char *text = vc_format(config, sizes[i], sizes[i]);
        char *path = vc_path_join(dir, "config.json");
        assert_int_equal(vc_file_write(path, text, strlen(text), &err), 0);
        assert_int_equal(cog->open(&v, &o, &info, &err), 0);
        float mean[4 * 6 * 8];
        int rc = cog->encode(v, x, 1, 48, 64, mean, NULL, &err);
        assert_ok(rc && (rc != VC_EINVAL || !strstr(err.text, "tiles of")), &err);
        cog->close(v);
        free(text), free(path);
    }
    free(x);
    vf_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_every_length), cmocka_unit_test(encodes_in_bf16),
        cmocka_unit_test(reads_half_weights), cmocka_unit_test(logvar_is_clamped),
        cmocka_unit_test(decodes_odd_and_even), cmocka_unit_test(decodes_to_bytes),
        cmocka_unit_test(tiles_are_blended), cmocka_unit_test(small_clips_are_one_tile),
        cmocka_unit_test(tiles_in_time), cmocka_unit_test(memory_is_predicted),
        cmocka_unit_test(bound_of_memory), cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_configs), cmocka_unit_test(refuses_uneven_tiles),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
