/* vae_bench.c - compares autoencoders with goldens: see vae_bench.h */
#include "tests/precompute/vae/vae_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "tests/lib/ok.h"

vae_bench vae_bench_open(const vae_class *class, const char *golden, vc_dtype compute,
                         vc_dtype stored, bool tiling)
{
    vae_bench b = { .class = class, .golden = golden_open(golden), .dir = golden_tmp("vae") };
    vc_err err = { 0 };
    encoder_opts o = { .dir = b.dir, .dtype = compute, .device = golden_device(), .threads = 2,
                       .tiling = tiling };

    golden_model(b.golden, b.dir, stored);
    assert_ok(class->open(&b.vae, &o, &b.info, &err), &err);
    return b;
}

void vae_bench_window(vae_bench *b, int window)
{
    vc_err err = { 0 };
    const encoder_opts o = { .dir = b->dir, .dtype = VC_F32, .device = golden_device(),
                             .threads = 2, .window = window };

    b->class->close(b->vae);
    assert_ok(b->class->open(&b->vae, &o, &b->info, &err), &err);
}

void vae_bench_close(vae_bench *b)
{
    b->class->close(b->vae);
    vf_safetensors_close(b->golden);
}

void *vae_area(size_t n, size_t size)
{
    void *p = calloc(n, size);
    assert_non_null(p);
    return p;
}

float *vae_pixels(const vae_bench *b, const char *name, int64_t dim[8])
{
    float *x = golden_values(b->golden, name, dim);
    for (int64_t i = 0; i < dim[0] * dim[1] * dim[2] * dim[3]; i++)
        x[i] = x[i] / 127.5f - 1;
    return x;
}

float *vae_latents(const vae_bench *b, int n, int64_t dim[8])
{
    float *z = golden_values(b->golden, "z", dim), *some;
    size_t grid = (size_t)(dim[2] * dim[3]);

    some = vae_area((size_t)dim[0] * (size_t)n * grid, 4);
    for (int64_t c = 0; c < dim[0]; c++)
        memcpy(some + (size_t)c * (size_t)n * grid, z + (size_t)(c * dim[1]) * grid,
               (size_t)n * grid * 4);
    free(z);
    return some;
}

void vae_near(const vae_bench *b, const char *name, const float *have, double tol)
{
    int64_t dim[8], n = 1;
    float *want = golden_values(b->golden, name, dim);

    for (int i = 0; i < 4; i++)
        n *= dim[i];
    double e = golden_error(have, want, n);
    if (!(e <= tol))
        fail_msg("%s: the error is %.3g, the limit %.3g", name, e, tol);
    free(want);
}

static double largest(const vae_bench *b, const char *name)
{
    int64_t dim[8];
    float *v = golden_values(b->golden, name, dim), most = 0;

    for (int64_t i = 0; i < dim[0] * dim[1] * dim[2] * dim[3]; i++)
        most = fmaxf(most, fabsf(v[i]));
    free(v);
    return (double)most;
}

/* What `made` of a vae_input was told. */
typedef struct shares {
    double last;
    int n;
} shares;

static void note_share(void *arg, double share)
{
    shares *s = arg;
    assert_true(share > s->last && share <= 1);
    s->last = share;
    s->n++;
}

/* One convolution makes means and logvars, so the error of a logvar, which may be one small number,
 * is measured relative to the largest of both. */
void vae_encode_like(const vae_bench *b, const char *clip, int f, const char *name, double tol)
{
    const int *r = b->info.ratio;
    vc_err err = { 0 };
    int64_t dim[8];
    char field[40];
    float *x = vae_pixels(b, clip, dim);
    size_t n = (size_t)b->info.channels * (size_t)((f - 1) / r[0] + 1) *
               (size_t)(dim[1] / r[1]) * (size_t)(dim[2] / r[2]);
    float *mean = vae_area(n, 4), *logvar = vae_area(n, 4);
    shares made = { 0 };
    const vae_input in = { .all = x, .made = note_share, .arg = &made };
    int rc = b->class->encode(b->vae, &in, f, (int)dim[1], (int)dim[2], mean, logvar, &err);

    assert_ok(rc, &err);
    assert_true(made.last == 1.0);
    snprintf(field, sizeof field, "mean%s", name);
    vae_near(b, field, mean, tol);
    double of_mean = largest(b, field);
    snprintf(field, sizeof field, "logvar%s", name);
    vae_near(b, field, logvar, tol * fmax(1, of_mean / largest(b, field)));
    free(x), free(mean), free(logvar);
}

/* ---- decode ---- */

typedef struct frames {
    float *v;
    size_t frame;
} frames;

static int keep_frames(void *arg, float *values, int first, int n, int h, int w, vc_err *err)
{
    frames *f = arg;
    (void)err;
    assert_int_equal((size_t)h * (size_t)w * 3, f->frame);
    memcpy(f->v + (size_t)first * f->frame, values, (size_t)n * f->frame * 4);
    return 0;
}

void vae_encode_lengths(const vae_bench *b, const int *lengths, double tol)
{
    char name[8];

    for (; *lengths; lengths++) {
        snprintf(name, sizeof name, ".%d", *lengths);
        vae_encode_like(b, "short", *lengths, name, tol);
    }
}

/* The values [f,h,w,3] of n decoded latent frames; the caller frees them. */
static float *decoded_values(const vae_bench *b, int n, size_t *frame)
{
    vc_err err = { 0 };
    int64_t dim[8];
    float *z = vae_latents(b, n, dim);
    int f = b->class->frames(n), h = (int)dim[2], w = (int)dim[3];
    frames out = { .frame = (size_t)(h * w * b->info.ratio[1] * b->info.ratio[2] * 3) };

    out.v = vae_area((size_t)f * out.frame, 4);
    vae_pass p = { .decodes = true, .source = z, .of = { n, h, w }, .n = { n, h, w },
                   .take = keep_frames, .arg = &out };
    assert_ok(vae_run_pass(b->vae, &p, &err), &err);
    free(z);
    *frame = out.frame;
    return out.v;
}

void vae_decode_like(const vae_bench *b, int n, double tol)
{
    int64_t last[8];
    char name[16];
    size_t frame;
    float *have = decoded_values(b, n, &frame);

    snprintf(name, sizeof name, "sample.%d", n);
    float *want = golden_values(b->golden, name, last);
    vae_near(b, name, have + (size_t)(b->class->frames(n) - (int)last[0]) * frame, tol);
    free(have), free(want);
}

void vae_chunks_are_whole(const vae_bench *b, int n)
{
    const vae_net *net = b->vae->net;
    vae_net whole = *net;
    size_t frame;
    float *chunks = decoded_values(b, n, &frame);

    assert_true(n >= 2 * net->latent_frames);
    whole.latent_frames = n;
    b->vae->net = &whole;
    float *all = decoded_values(b, n, &frame);
    b->vae->net = net;
    assert_true(golden_error(chunks, all, (int64_t)frame * b->class->frames(n)) <= VAE_TOL_F32);
    free(chunks), free(all);
}

void vae_decodes_in_bounds(const vae_bench *b, int h, int w)
{
    size_t few, many, latent = (size_t)(h * w * b->info.channels) * sizeof(float);
    vc_err err = { 0 };

    assert_ok(b->class->memory(b->vae, true, 64, h, w, &few, &err), &err);
    assert_ok(b->class->memory(b->vae, true, 256, h, w, &many, &err), &err);
    assert_in_range(many, few, few + (256 - 64) * 5 * latent);
}

void vae_same_bytes(const vae_bench *b, const char *name, const uint8_t *have)
{
    int64_t dim[8];
    float *want = golden_values(b->golden, name, dim);
    int64_t n = dim[0] * dim[1] * dim[2] * dim[3], off = 0;

    for (int64_t i = 0; i < n; i++) {
        int d = abs((int)have[i] - (int)want[i]);
        if (d > 1)
            fail_msg("%s: byte %d is %d, not %g", name, (int)i, have[i], (double)want[i]);
        off += d;
    }
    if (off > n / 1000)
        fail_msg("%s: %d of %d bytes differ by one", name, (int)off, (int)n);
    free(want);
}

void vae_decode_bytes_like(const vae_bench *b, int n, const char *name)
{
    vc_err err = { 0 };
    int64_t dim[8];
    char field[16];
    float *z = vae_latents(b, n, dim);
    size_t grid = (size_t)(dim[2] * dim[3] * b->info.ratio[1] * b->info.ratio[2]);
    uint8_t *rgb = vae_area((size_t)b->class->frames(n) * grid * 3, 1);

    assert_ok(b->class->decode(b->vae, z, n, (int)dim[2], (int)dim[3],
                               &(vae_output){ .all = rgb }, &err), &err);
    snprintf(field, sizeof field, "u8%s", name);
    vae_same_bytes(b, field, rgb);
    free(z), free(rgb);
}

/* ---- ranges ---- */

typedef struct ranges {
    const float *pixels;
    uint8_t *rgb;
    size_t frame;
    int most, next;                  /* frames at once; the frame that take gets next */
    int left;                        /* calls before the failure; -1: none fails */
    shares made;
} ranges;

static int may_fail(ranges *r, vc_err *err)
{
    return r->left >= 0 && !r->left-- ? vc_fail(err, VC_EFORMAT, "a damaged range") : 0;
}

static int read_range(void *arg, int first, int n, float *x, vc_err *err)
{
    ranges *r = arg;
    r->most = n > r->most ? n : r->most;
    memcpy(x, r->pixels + (size_t)first * r->frame, (size_t)n * r->frame * 4);
    return may_fail(r, err);
}

static void note_range(void *arg, double share)
{
    note_share(&((ranges *)arg)->made, share);
}

static int take_range(void *arg, const uint8_t *rgb, int first, int n, vc_err *err)
{
    ranges *r = arg;
    assert_int_equal(first, r->next);
    r->next += n;
    memcpy(r->rgb + (size_t)first * r->frame, rgb, (size_t)n * r->frame);
    return may_fail(r, err);
}

static void encode_ranges(const vae_bench *b, const char *clip, int f)
{
    const int *ratio = b->info.ratio;
    vc_err err = { 0 };
    int64_t dim[8];
    float *x = vae_pixels(b, clip, dim);
    const int h = (int)dim[1], w = (int)dim[2];
    const size_t n = (size_t)b->info.channels * (size_t)((f - 1) / ratio[0] + 1) *
                     (size_t)(h / ratio[1]) * (size_t)(w / ratio[2]);
    float *whole = vae_area(2 * n, 4), *parts = vae_area(2 * n, 4);
    ranges r = { .pixels = x, .frame = (size_t)(h * w * 3), .left = -1 };
    const vae_input in = { .read = read_range, .made = note_range, .arg = &r };

    assert_ok(b->class->encode(b->vae, &(vae_input){ .all = x }, f, h, w, whole, whole + n, &err),
              &err);
    assert_ok(b->class->encode(b->vae, &in, f, h, w, parts, parts + n, &err), &err);
    assert_memory_equal(whole, parts, 2 * n * 4);
    assert_int_equal(r.most, b->class->chunk(b->vae, f));
    assert_true(r.made.last == 1.0 && r.made.n * r.most >= f);
    r.made = (shares){ 0 };
    r.left = 1;
    if (f > r.most)
        assert_fails(b->class->encode(b->vae, &in, f, h, w, parts, NULL, &err), VC_EFORMAT, &err,
                     "a damaged range");
    free(x), free(whole), free(parts);
}

static void decode_ranges(const vae_bench *b, int n)
{
    vc_err err = { 0 };
    int64_t dim[8];
    float *z = vae_latents(b, n, dim);
    const int h = (int)dim[2], w = (int)dim[3], f = b->class->frames(n);
    const size_t frame = (size_t)(h * w * b->info.ratio[1] * b->info.ratio[2] * 3);
    uint8_t *whole = vae_area((size_t)f, frame);
    ranges r = { .rgb = vae_area((size_t)f, frame), .frame = frame, .left = -1 };
    char beside[256];
    const vae_output out = { .take = take_range, .arg = &r, .beside = beside };

    snprintf(beside, sizeof beside, "%s/clip", b->dir);
    assert_ok(b->class->decode(b->vae, z, n, h, w, &(vae_output){ .all = whole }, &err), &err);
    assert_ok(b->class->decode(b->vae, z, n, h, w, &out, &err), &err);
    assert_int_equal(r.next, f);
    assert_memory_equal(whole, r.rgb, (size_t)f * frame);
    r.next = r.left = 0;
    assert_fails(b->class->decode(b->vae, z, n, h, w, &out, &err), VC_EFORMAT, &err,
                 "a damaged range");
    free(z), free(whole), free(r.rgb);
}

void vae_ranges_are_same(const vae_bench *b, const char *clip, int f, int n)
{
    encode_ranges(b, clip, f);
    decode_ranges(b, n);
}

/* ---- memory, refused sizes and configs ---- */

void vae_memory_is_right(const vae_bench *b, const vae_size *rows, int n)
{
    for (int i = 0; i < n; i++) {
        vc_err err = { 0 };
        int f = rows[i].f, h = rows[i].h, w = rows[i].w, rc;
        const int *r = b->info.ratio;
        size_t bytes, places = (size_t)(h * w) * (size_t)(rows[i].decode ? r[1] * r[2] : 1);
        size_t values = (size_t)(rows[i].decode ? b->class->frames(f) : f) * places *
                        (size_t)(b->info.channels + 3);
        float *in = vae_area(values, 4), *out = vae_area(values, 4);
        rc = b->class->memory(b->vae, rows[i].decode, f, h, w, &bytes, &err);
        if (!rc && rows[i].decode)
            rc = b->class->decode(b->vae, in, f, h, w, &(vae_output){ .all = (uint8_t *)out },
                                  &err);
        else if (!rc)
            rc = b->class->encode(b->vae, &(vae_input){ .all = in }, f, h, w, out, NULL, &err);
        assert_ok(rc, &err);
        vt_usage use = vt_usage_of(b->vae->g);
        assert_int_equal(use.pool_peak + use.scratch, bytes);
        free(in), free(out);
    }
}

void vae_refuses_sizes(const vae_bench *b, const vae_refusal *rows, int n)
{
    for (int i = 0; i < n; i++) {
        const vae_refusal *r = &rows[i];
        vc_err err = { 0 };
        size_t bytes;
        int rc = b->class->encode(b->vae, NULL, r->f, r->h, r->w, NULL, NULL, &err);
        assert_fails(rc, VC_EINVAL, &err, r->says);
        assert_int_equal(b->class->memory(b->vae, false, r->f, r->h, r->w, &bytes, &err),
                         VC_EINVAL);
    }
    vc_err err = { 0 };
    assert_int_equal(b->class->decode(b->vae, NULL, 0, 2, 2, NULL, &err), VC_EINVAL);
    assert_int_equal(b->class->decode(b->vae, NULL, 1, 1 << 20, 2, NULL, &err), VC_EINVAL);
}

/* Opens the golden's folder with another config.json and returns the error's text; "" where the
 * folder opens. */
static const char *opened_with(const vae_bench *b, const char *config)
{
    static vc_err err;
    char *path = vc_path_join(b->dir, "config.json");
    vae *v = NULL;
    vae_info info;
    encoder_opts o = { .dir = b->dir, .dtype = VC_F32, .device = golden_device(), .threads = 1 };

    err = (vc_err){ 0 };
    assert_int_equal(vc_file_write(path, config, strlen(config), &err), 0);
    free(path);
    int rc = b->class->open(&v, &o, &info, &err);
    b->class->close(v);
    if (rc)
        assert_null(v);
    return rc ? err.text : "";
}

void vae_refuses_config(const vae_bench *b, const char *text, const char *says)
{
    const char *error = opened_with(b, text);
    if (!strstr(error, says) || !strstr(error, b->dir))
        fail_msg("%s: \"%s\" does not name %s", text, error, says);
}

void vae_refuses_configs(const vae_bench *b, const vae_bad_config *rows, int n)
{
    for (int i = 0; i < n; i++)
        vae_refuses_config(b, rows[i].text, rows[i].says);
    assert_string_equal(opened_with(b, vf_safetensors_meta(b->golden, "config")), "");
}

/* The golden's config.json with these fields in place of its own. */
static char *changed(const vae_bench *b, const char *fields)
{
    cJSON *config = cJSON_Parse(vf_safetensors_meta(b->golden, "config"));
    cJSON *with = cJSON_Parse(fields), *f;

    assert_true(config && with);
    while ((f = with->child)) {
        cJSON_DetachItemViaPointer(with, f);
        cJSON_DeleteItemFromObjectCaseSensitive(config, f->string);
        cJSON_AddItemToObject(config, f->string, f);
    }
    char *text = cJSON_PrintUnformatted(config);
    cJSON_Delete(config), cJSON_Delete(with);
    return text;
}

void vae_refuses_fields(const vae_bench *b, const char *const (*rows)[2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *config = changed(b, rows[i][0]);
        vae_refuses_config(b, config, rows[i][1]);
        cJSON_free(config);
    }
    vae_refuses_configs(b, NULL, 0);
}
