/* test_conditions_load.c - pictures beside the latents, frames in front, weights of the loss: what
 * reaches the transformer, and what is refused */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/file.h"
#include "common/rng.h"
#include "formats/safetensors.h"
#include "tests/train_dataset.h"
#include "tests/train_run.h"
#include "train/data_parts.h"
#include "train/vtrain.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

enum { SEED = 42, CHANNELS = 2, AREA = 24 };
enum { IMAGE = 1 << VTRAIN_ROLE_IMAGE, VIDEO = 1 << VTRAIN_ROLE_VIDEO,
       MASK = 1 << VTRAIN_ROLE_MASK };
enum { I2V = 1 << TOY_IMAGE | 1 << TOY_IMAGE_NOISED, INPAINT = 1 << TOY_VIDEO | 1 << TOY_MASK };
static const double scaling = 0.75;
static char dir[256];

static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a cat" } },
    { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "dogs" }, .loss_mask = true },
    { .number = 2, .h = 4, .w = 6, .caption = { "a still" } },
    { .number = 3, .f = 3, .h = 4, .w = 6, .caption = { "all" }, .mask_all = true },
    { .number = 4, .h = 4, .w = 6, .caption = { "other" }, .mask_all = true },
    { .number = 5, .f = 4, .h = 4, .w = 6, .caption = { NULL } },
    { .number = 6, .f = 4, .h = 4, .w = 6, .caption = { "all" }, .loss_mask = true },
    { .number = 7, .f = 3, .h = 4, .w = 6, .caption = { "seven" }, .mask_all = true },
};
static const toy i2v = { .sample = samples, .n = COUNT(samples), .scaling = scaling,
                         .train_mode = "i2v", .conditions = I2V, .noised = 3 };
static const toy inpaint = { .sample = samples, .n = COUNT(samples), .scaling = scaling,
                             .train_mode = "inpaint", .conditions = INPAINT };

/* A transformer that is only what data and loader see of it. */
typedef struct wish {
    unsigned roles;
    bool pad;
    vtrain_scale image, video, mask;
} wish;

static vtrain_fit fit_of(const wish *w)
{
    return (vtrain_fit){ .channels = CHANNELS, .n_texts = 1, .text_width = { 4 },
                         .mult = { w->pad ? 2 : 1, 2, 2 }, .pad_front = w->pad,
                         .roles = w->roles };
}

static vtrain_family family_of(const wish *w)
{
    return (vtrain_family){ .name = "toy", .class_name = "ToyTransformer3DModel",
                            .scale = { w->image, w->video, w->mask } };
}

static int try_fit(vtrain_data **d, const toy *like, const wish *w, double eval_split,
                   char **note, vc_err *err)
{
    static int made;
    char *path = vc_format("%s/%d-set", dir, made++);
    toy t = *like;
    t.path = path;
    toy_make(&t);
    vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = SEED,
                                 .eval_split = eval_split };
    if (vtrain_data_open(d, &o, note, err))
        fail_msg("%s", err->text);
    free(*note);
    free(path);
    vtrain_family family = family_of(w);
    vtrain_fit fit = fit_of(w);
    return vtrain_data_fit(*d, &family, &fit, note, err);
}

static vtrain_data *make_data(const toy *like, const wish *w, double eval_split)
{
    vtrain_data *d;
    char *note;
    vc_err err = { 0 };
    if (try_fit(&d, like, w, eval_split, &note, &err))
        fail_msg("%s", err.text);
    assert_null(note);
    return d;
}

static vtrain_loader *open_loader(const vtrain_data *d, vtrain_loader_opts o)
{
    vc_err err = { 0 };
    vtrain_loader *l;
    o.seed = SEED;
    o.batch = 2;
    o.threads = o.threads ? o.threads : 1;
    o.ahead = o.ahead ? o.ahead : 2;
    if (vtrain_loader_open(&l, d, &o, &err))
        fail_msg("%s", err.text);
    return l;
}

static const vtrain_batch *next(vtrain_loader *l)
{
    const vtrain_batch *b;
    vc_err err = { 0 };
    double waited;
    if (vtrain_loader_next(l, &b, &waited, &err))
        fail_msg("%s", err.text);
    return b;
}

static uint32_t number_of(const char *key)
{
    return (uint32_t)strtoul(key, NULL, 10);         /* numbers are places in `samples` */
}

/* ---- values, recomputed one by one ---- */

typedef struct expected {
    bool noised, draw;                   /* the image is one of several; posterior draws */
    double image, video, mask;           /* factors */
} expected;

static double noise_at(const vtrain_batch *b, int row, uint32_t purpose, int64_t i)
{
    float four[4];
    vc_train_normals(four, (uint64_t)i / 4 * 4, 4, SEED, (uint32_t)row, (uint32_t)b->micro,
                     purpose);
    return (double)four[i % 4];
}

/* Stored element [c,t,p] that element [c,t',p] of a clip of b's frames comes from. */
static int64_t stored(const vtrain_batch *b, int64_t f, int64_t c, int64_t t, int64_t p)
{
    int64_t extra = b->dim[2] - f;
    return (c * f + (t < extra ? 0 : t - extra)) * AREA + p;
}

static void check_clip(const vtrain_batch *b, int row, const float *x, int64_t f, bool cond,
                       const expected *e)
{
    uint32_t number = number_of(b->key[row]);
    double factor = cond ? e->video : scaling;
    for (int64_t c = 0, at = 0; c < CHANNELS; c++)
        for (int64_t t = 0; t < b->dim[2]; t++)
            for (int64_t p = 0; p < AREA; p++, at++) {
                int64_t i = stored(b, f, c, t, p);
                double z = (double)(cond ? toy_condition(TOY_VIDEO, number, i)
                                         : toy_mean(number, 0, i));
                if (e->draw)
                    z += exp(0.5 * (double)toy_logvar(i)) *
                         noise_at(b, row, cond ? VC_DRAW_VIDEO_LATENT : VC_DRAW_LATENT, i);
                assert_float_equal(x[at], z * factor, 1e-5);
            }
}

static void check_image(const vtrain_batch *b, int row, const float *x, const expected *e)
{
    double u = vc_train_unit(SEED, 0, (uint32_t)row, (uint32_t)b->micro, VC_DRAW_IMAGE);
    int64_t n = CHANNELS * AREA, first = e->noised ? (int64_t)(u * 3) * n : 0;
    for (int64_t i = 0; i < n; i++) {
        double z = (double)toy_condition(e->noised ? TOY_IMAGE_NOISED : TOY_IMAGE,
                                         number_of(b->key[row]), first + i);
        if (e->draw)
            z += exp(0.5 * (double)toy_logvar(first + i)) *
                 noise_at(b, row, VC_DRAW_IMAGE_LATENT, i);
        assert_float_equal(x[i], z * e->image, 1e-5);
    }
}

static void check_mask(const vtrain_batch *b, int row, const float *x, int64_t f, toy_cond what,
                       double factor)
{
    for (int64_t t = 0, at = 0; t < b->dim[2]; t++)
        for (int64_t p = 0; p < AREA; p++, at++) {
            double m = (double)toy_condition(what, number_of(b->key[row]),
                                             stored(b, f, 0, t, p));
            assert_float_equal(x[at], m * factor, 1e-6);
        }
}

static void check_zeros(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(x[i], 0, 0);
}

static void check_roles(const vtrain_batch *b, int row, int64_t f, const expected *e)
{
    int64_t mask = b->dim[2] * AREA, clip = mask * CHANNELS, image = CHANNELS * AREA;
    const float *i = b->cond[VTRAIN_ROLE_IMAGE], *v = b->cond[VTRAIN_ROLE_VIDEO];
    const float *m = b->cond[VTRAIN_ROLE_MASK];
    if (i && b->cond_dropped[row])
        check_zeros(i + row * image, image);
    else if (i)
        check_image(b, row, i + row * image, e);
    if (v && b->cond_dropped[row]) {
        check_zeros(v + row * clip, clip);
        check_zeros(m + row * mask, mask);
    } else if (v) {
        check_clip(b, row, v + row * clip, f, true, e);
        check_mask(b, row, m + row * mask, f, TOY_MASK, e->mask);
    }
}

static void check_batch(const vtrain_batch *b, bool pad, const expected *e)
{
    bool weighted = false;
    for (int row = 0; row < b->rows; row++) {
        const toy_sample *s = &samples[number_of(b->key[row])];
        int64_t f = s->f ? s->f : 1, padded = pad ? (f + 1) / 2 * 2 : f;
        assert_int_equal(b->dim[2], padded);
        check_clip(b, row, b->latents + row * CHANNELS * padded * AREA, f, false, e);
        check_roles(b, row, f, e);
        weighted |= s->loss_mask;
    }
    assert_int_equal(b->weighted, weighted);
    for (int row = 0; row < b->rows && weighted; row++) {
        const toy_sample *s = &samples[number_of(b->key[row])];
        const float *w = b->loss_weight + row * b->dim[2] * AREA;
        if (s->loss_mask)
            check_mask(b, row, w, s->f, TOY_LOSS_MASK, 1);
        for (int64_t i = 0; i < b->dim[2] * AREA && !s->loss_mask; i++)
            assert_float_equal(w[i], 1, 0);
    }
}

static void test_values(void **state)
{
    (void)state;
    const vtrain_scale L = VTRAIN_SCALE_LATENT, F = VTRAIN_SCALE_FACTOR, V = VTRAIN_SCALE_INVERT;
    const struct { const toy *t; wish w; bool invert, mean; expected e; } row[] = {
        { &i2v, { 0, true, L, L, L }, false, false, { .draw = true } },
        { &i2v, { IMAGE, false, V, L, L }, false, false, { true, true, scaling, 0, 0 } },
        { &i2v, { IMAGE, true, V, L, L }, true, false, { true, true, 1 / scaling, 0, 0 } },
        { &i2v, { IMAGE, true, F, L, L }, true, true, { true, false, scaling, 0, 0 } },
        { &inpaint, { VIDEO | MASK, false, L, F, F }, false, false,
          { false, true, 0, scaling, scaling } },
        { &inpaint, { VIDEO | MASK, true, L, L, L }, true, false, { false, true, 0, scaling, 1 } },
        { &inpaint, { VIDEO | MASK, true, L, V, F }, true, true,
          { false, false, 0, 1 / scaling, scaling } },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        char *note;
        vtrain_data *d;
        vc_err err = { 0 };
        t.invert = row[i].invert;
        if (try_fit(&d, &t, &row[i].w, 0, &note, &err))
            fail_msg("row %d: %s", i, err.text);
        free(note);
        const vtrain_loader_opts o = { .end = 24, .image_dropout = 0.3, .mask_dropout = 0.5,
                                       .check = i % 2, .threads = 2,
                                       .latent = row[i].mean ? VTRAIN_LATENT_MEAN
                                                             : VTRAIN_LATENT_SAMPLE };
        vtrain_loader *l = open_loader(d, o);
        for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b)) {
            assert_int_equal(b->roles, row[i].w.roles);
            check_batch(b, row[i].w.pad, &row[i].e);
        }
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* A dataset without noised frames trains on the clean ones. */
static void test_clean_only(void **state)
{
    (void)state;
    toy t = i2v;
    t.conditions = 1 << TOY_IMAGE;
    vtrain_data *d = make_data(&t, &(wish){ .roles = IMAGE, .image = VTRAIN_SCALE_INVERT }, 0);
    vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 6 });
    const expected e = { .draw = true, .image = scaling };
    for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b))
        check_batch(b, false, &e);
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* ---- how often ---- */

/* Drops are as often as asked for, and only where they may be; each noised frame has its turn. */
static void test_rates(void **state)
{
    (void)state;
    enum { N = 1500 };
    for (int mode = 0; mode < 2; mode++) {
        const wish w = { .roles = mode ? VIDEO | MASK : IMAGE };
        vtrain_data *d = make_data(mode ? &inpaint : &i2v, &w, 0);
        vtrain_loader *l = open_loader(d, (vtrain_loader_opts){
            .end = N, .image_dropout = 0.2, .mask_dropout = 0.9, .threads = 2 });
        int rows = 0, dropped = 0, variant[3] = { 0 };
        for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b))
            for (int r = 0; r < b->rows; r++) {
                double u = vc_train_unit(SEED, 0, (uint32_t)r, (uint32_t)b->micro, VC_DRAW_IMAGE);
                bool may = !mode || samples[number_of(b->key[r])].mask_all;
                assert_true(may || !b->cond_dropped[r]);
                rows += may;
                dropped += b->cond_dropped[r];
                variant[(int)(u * 3)]++;
            }
        double want = mode ? 0.9 : 0.2, got = (double)dropped / rows;
        assert_true(fabs(got - want) < 4 * sqrt(want * (1 - want) / rows));
        for (int k = 0; k < 3; k++)
            assert_in_range(variant[k], N / 2, 4 * N / 5);
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* ---- pure functions of the micro-batch ---- */

static uint64_t hash_batch(const vtrain_batch *b)
{
    int64_t mask = b->rows * b->dim[2] * AREA;
    const int64_t n[VTRAIN_ROLES] = { b->rows * CHANNELS * AREA, mask * CHANNELS, mask };
    vf_key k = vf_hash(b->latents, (size_t)(mask * CHANNELS) * 4);
    for (int i = 0; i < VTRAIN_ROLES; i++)
        if (b->cond[i])
            k = vf_hash2(&k, sizeof k, b->cond[i], (size_t)n[i] * 4);
    if (b->weighted)
        k = vf_hash2(&k, sizeof k, b->loss_weight, (size_t)mask * 4);
    uint64_t h;
    memcpy(&h, k.b, sizeof h);
    return h;
}

static void test_pure(void **state)
{
    (void)state;
    static const struct { int threads, ahead; uint64_t first; } row[] = {
        { 1, 1, 0 }, { 4, 7, 0 }, { 3, 2, 13 }, { 8, 3, 19 },
    };
    enum { N = 20 };
    for (int mode = 0; mode < 2; mode++) {
        uint64_t want[N] = { 0 };
        const wish w = { .roles = mode ? VIDEO | MASK : IMAGE, .pad = true };
        vtrain_data *d = make_data(mode ? &inpaint : &i2v, &w, 0);
        for (int i = 0; i < COUNT(row); i++) {
            vtrain_loader *l = open_loader(d, (vtrain_loader_opts){
                .first = row[i].first, .end = N, .threads = row[i].threads, .ahead = row[i].ahead,
                .image_dropout = 0.3, .mask_dropout = 0.5 });
            for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b)) {
                want[b->micro] = i ? want[b->micro] : hash_batch(b);
                assert_int_equal(hash_batch(b), want[b->micro]);
            }
            vtrain_loader_close(l);
        }
        vtrain_data_close(d);
    }
}

/* Held-out samples: the clean image, nothing dropped. */
static void test_held_out(void **state)
{
    (void)state;
    vtrain_data *d = make_data(&i2v, &(wish){ .roles = IMAGE, .image = VTRAIN_SCALE_INVERT }, 0.5);
    uint64_t n;
    assert_int_equal(vtrain_loader_epoch(d, 2, true, &n, NULL), 0);
    vtrain_loader *l = open_loader(d, (vtrain_loader_opts){
        .held_out = true, .end = n, .image_dropout = 1, .latent = VTRAIN_LATENT_MEAN });
    const expected e = { .image = scaling };
    int rows = 0;
    for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b)) {
        check_batch(b, false, &e);
        for (int r = 0; r < b->rows; r++, rows++)
            assert_false(b->cond_dropped[r]);
    }
    assert_int_equal(rows, 4);
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* ---- frames in front ---- */

static void test_padded(void **state)
{
    (void)state;
    vtrain_data *d = make_data(&inpaint, &(wish){ .roles = VIDEO | MASK, .pad = true }, 0);
    for (uint32_t i = 0; i < vtrain_data_groups(d); i++) {
        const vtrain_group *g = vtrain_data_group(d, i);
        assert_int_equal(g->padded, (g->f + 1) / 2 * 2);
        assert_int_equal(g->tokens, g->padded / 2 * 2 * 3);
    }
    assert_int_equal(vtrain_data_frames(d, 1), 2);
    assert_int_equal(vtrain_data_frames(d, 13), 14);
    assert_int_equal(vtrain_data_frames(d, 14), 14);
    vtrain_data_close(d);
}

/* ---- what is refused, and told ---- */

static void test_refused(void **state)
{
    (void)state;
    toy normal = { .sample = samples, .n = COUNT(samples) };
    const struct { const toy *t; unsigned roles; toy_damage bad; int rc; const char *says; } row[] = {
        { &normal, IMAGE, 0, VC_EMISMATCH, "ToyTransformer3DModel takes a first-frame image (4 "
          "channels in all)" },
        { &normal, IMAGE, 0, VC_EMISMATCH, "--train_mode normal: run vprep --train_mode i2v" },
        { &i2v, VIDEO | MASK, 0, VC_EMISMATCH, "takes a masked clip (5 channels in all)" },
        { &inpaint, IMAGE, 0, VC_EMISMATCH, "--train_mode inpaint: run vprep --train_mode i2v" },
        { &i2v, IMAGE, TOY_NO_CONDITION, VC_ENOENT, "sample 000000000000/000: conditions: image: "
          "missing" },
        { &i2v, IMAGE, TOY_COND_SHAPE, VC_EMISMATCH, "shape [2,1,5,6], expected [2,1,4,6]" },
        { &i2v, IMAGE, TOY_COND_NO_VARIANT, VC_EMISMATCH, "image_noised: latent" },
        { &inpaint, VIDEO | MASK, TOY_COND_SHAPE, VC_EMISMATCH, "conditions: video: latent" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        vtrain_data *d;
        char *note;
        vc_err err = { 0 };
        t.bad = 0;                       /* the first of its group */
        t.damage = row[i].bad;
        const wish w = { .roles = row[i].roles };
        int rc = try_fit(&d, &t, &w, 0, &note, &err);
        if (rc != row[i].rc || !strstr(err.text, row[i].says) || !strstr(err.text, "-set"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        vtrain_data_close(d);
    }
}

/* A plain transformer trains on such a dataset; a line says what it leaves out. */
static void test_unused(void **state)
{
    (void)state;
    vtrain_data *d;
    char *note;
    vc_err err = { 0 };
    assert_int_equal(try_fit(&d, &i2v, &(wish){ 0 }, 0, &note, &err), 0);
    assert_non_null(strstr(note, "--train_mode i2v: its conditions are not used"));
    free(note);
    vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 1, .image_dropout = 1 });
    const vtrain_batch *b = next(l);
    assert_true(!b->roles && !b->cond[0] && !b->cond_dropped[0]);
    vtrain_loader_close(l);
    vtrain_family family = family_of(&(wish){ 0 });
    vtrain_fit fit = fit_of(&(wish){ 0 });
    assert_int_equal(vtrain_data_fit(d, &family, &fit, &note, &err), VC_EINVAL);
    vtrain_data_close(d);
}

/* A damaged entry of a later sample ends the run at its batch, by name. */
static void test_damage(void **state)
{
    (void)state;
    const struct { const toy *t; unsigned roles; toy_damage bad; bool check; int rc;
                   const char *says; } row[] = {
        { &i2v, IMAGE, TOY_NO_CONDITION, false, VC_ENOENT, "conditions: image_noised: missing" },
        { &i2v, IMAGE, TOY_COND_NAN, false, VC_ENUMERIC, "conditions: image_noised: latent" },
        { &i2v, IMAGE, TOY_COND_SHAPE, false, VC_EMISMATCH, "expected [0,2,1,4,6]" },
        { &i2v, IMAGE, TOY_COND_NO_VARIANT, false, VC_EMISMATCH, "expected [0,2,1,4,6]" },
        { &i2v, IMAGE, TOY_COND_SUM, true, VC_EFORMAT, "xxh3" },
        { &inpaint, VIDEO | MASK, TOY_NO_CONDITION, false, VC_ENOENT, "video: missing" },
        { &inpaint, VIDEO | MASK, TOY_COND_NAN, false, VC_ENUMERIC, "video: latent" },
        { &inpaint, MASK, TOY_COND_NAN, false, VC_ENUMERIC, "mask: latent" },
        { &inpaint, MASK, TOY_COND_SUM, true, VC_EFORMAT, "conditions: mask" },
        { &i2v, 0, TOY_COND_NAN, false, VC_ENUMERIC, "conditions: loss_mask: latent" },
        { &i2v, 0, TOY_COND_NEGATIVE, false, VC_ENUMERIC, "loss_mask: a weight of -1" },
        { &i2v, 0, TOY_COND_SHAPE, false, VC_EMISMATCH, "conditions: loss_mask: latent" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        vtrain_data *d;
        char *note;
        const vtrain_batch *b;
        vc_err err = { 0 };
        double waited;
        int rc;
        t.bad = row[i].roles ? 7 : 6;    /* not the first of its group; 6 has a loss mask */
        t.damage = row[i].bad;
        if (try_fit(&d, &t, &(wish){ .roles = row[i].roles }, 0, &note, &err))
            fail_msg("row %d: %s", i, err.text);
        free(note);
        vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 40, .threads = 2,
                                                                .check = row[i].check });
        while (!(rc = vtrain_loader_next(l, &b, &waited, &err)) && b)
            vtrain_loader_give_back(l, b);
        if (rc != row[i].rc || !strstr(err.text, row[i].says) ||
            !strstr(err.text, row[i].roles ? "sample 000000000007/000" : "000000000006/000"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* Records are from anybody: odd ones are refused before anything is read by them. */
static void test_hostile_record(void **state)
{
    (void)state;
    static const struct { const char *record, *says; } row[] = {
        { "{\"conditions\":[1]}", "conditions: an object" },
        { "{\"conditions\":{\"image\":7}}", "conditions: image: 32 hex digits" },
        { "{\"conditions\":{\"mask\":\"../0123456789abcdef0123456789abc\"}}", "conditions: mask" },
        { "{\"conditions\":{},\"mask_all\":\"yes\"}", "mask_all" },
    };
    vtrain_conditions c;
    vc_err err = { 0 };
    cJSON *o = NULL;
    for (int i = 0; i < COUNT(row); i++) {
        assert_int_equal(vf_json_parse(&o, row[i].record, strlen(row[i].record), &err), 0);
        assert_int_equal(vtrain_conditions_read(&c, o, &err), VC_EFORMAT);
        assert_non_null(strstr(err.text, row[i].says));
        cJSON_Delete(o);
    }
    const char *fine = "{\"conditions\":{\"vision\":3,\"image\":null}}";
    assert_int_equal(vf_json_parse(&o, fine, strlen(fine), &err), 0);
    assert_int_equal(vtrain_conditions_read(&c, o, &err), 0);
    assert_true(!c.has && !c.mask_all);
    cJSON_Delete(o);
}

static void test_bounds(void **state)
{
    (void)state;
    vtrain_data *d = make_data(&i2v, &(wish){ .roles = IMAGE }, 0);
    vtrain_loader *l;
    vc_err err = { 0 };
    const vtrain_loader_opts bad[] = {
        { .batch = 1, .threads = 1, .ahead = 1, .image_dropout = -0.1 },
        { .batch = 1, .threads = 1, .ahead = 1, .mask_dropout = 2 },
    };
    for (int i = 0; i < COUNT(bad); i++)
        assert_int_equal(vtrain_loader_open(&l, d, &bad[i], &err), VC_EINVAL);
    vtrain_data_close(d);
}

/* ---- in a step ---- */

static struct { float *x, *image, *video, *mask; int calls; } seen;

static void keep(vt_ctx *g, float **to, const vt_tensor *t)
{
    *to = t ? calloc((size_t)vt_count(t), sizeof **to) : NULL;
    if (t && vt_to_host(g, t, *to, NULL))
        fail_msg("cannot read a tensor of the step");
}

static void forget(void)
{
    free(seen.x);
    free(seen.image);
    free(seen.video);
    free(seen.mask);
    memset(&seen, 0, sizeof seen);
}

/* Predicts its input; remembers what it was given. */
static vt_tensor *toy_forward(vt_ctx *g, void *model, const vtrain_in *in)
{
    (void)model;
    forget();
    keep(g, &seen.x, in->x);
    keep(g, &seen.image, in->cond[VTRAIN_ROLE_IMAGE]);
    keep(g, &seen.video, in->cond[VTRAIN_ROLE_VIDEO]);
    keep(g, &seen.mask, in->cond[VTRAIN_ROLE_MASK]);
    vt_tensor *y = in->x;
    for (int i = 0; i < VTRAIN_ROLES; i++)
        if (in->cond[i])
            y = vt_add(g, y, vt_scale(g, in->cond[i], 0));
    return y;
}

/* mean(w (x - (n - x0))^2) at level s of a flow, n from x = (1-s) x0 + s n. */
static double loss_of(const vtrain_batch *b, double s)
{
    int64_t area = b->dim[3] * b->dim[4], n = b->rows * CHANNELS * b->dim[2] * area;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = i % (b->dim[2] * area), row = i / (CHANNELS * b->dim[2] * area);
        double x = (double)seen.x[i], x0 = (double)b->latents[i], noise = (x - (1 - s) * x0) / s;
        double w = b->weighted ? (double)b->loss_weight[row * b->dim[2] * area + place] : 1;
        sum += w * (x - (noise - x0)) * (x - (noise - x0));
    }
    return sum / (double)n;
}

/* Of a step's text, which is as long as its longest row; a dry step's is as long as can be. */
static size_t text_bytes(int rows, int64_t n)
{
    return ((size_t)(rows * n) * 4 * sizeof(float) + 63) / 64 * 64;
}

/* The forward gets what the batch holds, the loss has its weights, and a dry step takes the same
 * memory. */
static void check_step(vtrain *t, const vtrain_batch *b)
{
    vtrain_micro m = { .batch = b, .seed = SEED, .level = 0.5, .number = b->micro };
    vtrain_level level = vtrain_level_of(t->objective, 0.5);
    vc_err err = { 0 };
    vt_usage dry, real;
    int64_t place = b->rows * b->dim[2] * AREA;

    if (vtrain_micro_run(t, &m, false, &err))
        fail_msg("%s", err.text);
    real = vt_usage_of(t->g);
    assert_true(fabs((double)m.loss - loss_of(b, level.sigma)) < 1e-4 * (double)m.loss);
    assert_true(!seen.image == !b->cond[VTRAIN_ROLE_IMAGE]);
    assert_true(!seen.video == !b->cond[VTRAIN_ROLE_VIDEO]);
    if (seen.image)
        assert_memory_equal(seen.image, b->cond[VTRAIN_ROLE_IMAGE],
                            (size_t)(b->rows * CHANNELS * AREA) * 4);
    if (seen.video) {
        assert_memory_equal(seen.video, b->cond[VTRAIN_ROLE_VIDEO], (size_t)(place * CHANNELS) * 4);
        assert_memory_equal(seen.mask, b->cond[VTRAIN_ROLE_MASK], (size_t)place * 4);
    }
    if (vtrain_micro_dry(t, b->dim, false, &dry, &err))
        fail_msg("%s", err.text);
    if (b->weighted == vtrain_data_weighted(t->data))
        assert_int_equal(dry.pool_peak - text_bytes(b->rows, TOY_TOKENS),
                         real.pool_peak - text_bytes(b->rows, b->text[0].n));
}

static void test_step(void **state)
{
    (void)state;
    static const int stop = 0;
    for (int mode = 0; mode < 3; mode++) {
        const wish w = { .roles = mode == 2 ? 0 : mode ? VIDEO | MASK : IMAGE, .pad = true };
        vtrain_family family = family_of(&w);
        toy data = mode ? inpaint : i2v;
        data.train_mode = mode == 2 ? "normal" : data.train_mode;
        data.conditions |= 1 << TOY_LOSS_MASK;
        vc_err err = { 0 };
        family.forward = toy_forward;
        vtrain t = { .family = &family, .data = make_data(&data, &w, 0), .stop = &stop };
        t.cfg.gradient_accumulation_steps = 1;
        const vtrain_objective_opts o = { .kind = VTRAIN_FLOW, .shift = 1, .logit_std = 1,
                                          .micros = 1 };
        if (vt_open(&t.g, &(vt_options){ .threads = 1 }, &err) ||
            vtrain_objective_open(&t.objective, &o, &err))
            fail_msg("%s", err.text);
        vtrain_loader *l = open_loader(t.data, (vtrain_loader_opts){ .end = 6 });
        for (const vtrain_batch *b; (b = next(l)); vtrain_loader_give_back(l, b))
            check_step(&t, b);
        forget();
        vtrain_loader_close(l);
        vtrain_objective_close(t.objective);
        vt_close(t.g);
        vtrain_data_close(t.data);
    }
}

/* A whole run on a dataset with loss masks: its trace holds to the contract. */
static void test_trace(void **state)
{
    (void)state;
    toy t = { .sample = samples, .n = COUNT(samples), .conditions = 1 << TOY_LOSS_MASK };
    char *path = vc_format("%s/traced", dir), *args;
    t.path = path;
    toy_make(&t);
    args = vc_format("--latents %s --output_dir %s/run --trace_dir %s/trace --max_train_steps 1 "
                     "--train_batch_size 2 --threads 1 --report_to none --dit_width 16 "
                     "--dit_layers 1 --dit_heads 1", path, dir, dir);
    vc_err err = { 0 };
    if (run_bare(args, &err))
        fail_msg("%s", err.text);
    free(args);
    free(path);

    vf_safetensors *st;
    vf_view y, target, w, loss;
    path = vc_format("%s/trace/step-000001-mb-00-rank-00.safetensors", dir);
    if (vf_safetensors_open(&st, path, &err) || vf_safetensors_get(st, "model_output", &y, &err) ||
        vf_safetensors_get(st, "target", &target, &err) ||
        vf_safetensors_get(st, "loss_weight", &w, &err) || vf_safetensors_get(st, "loss", &loss, &err))
        fail_msg("%s", err.text);
    assert_true(w.nd == 5 && w.dim[1] == 1 && w.dim[2] == y.dim[2] && w.dim[4] == y.dim[4]);
    int64_t place = w.dim[2] * w.dim[3] * w.dim[4], all = place * y.dim[1], n = y.dim[0] * all;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = (double)((const float *)y.data)[i] - (double)((const float *)target.data)[i];
        sum += e * e * (double)((const float *)w.data)[i / all * place + i % place];
    }
    assert_float_equal(sum / (double)n, *(const float *)loss.data, 1e-5);
    vf_safetensors_close(st);
    free(path);
}

static int make(void **state)
{
    (void)state;
    toy_dir_make(dir);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    toy_dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_clean_only),
        cmocka_unit_test(test_rates), cmocka_unit_test(test_pure),
        cmocka_unit_test(test_held_out), cmocka_unit_test(test_padded),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_unused),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_hostile_record),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_step), cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
