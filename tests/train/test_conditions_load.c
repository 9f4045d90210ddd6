/* test_conditions_load.c - batches hold the right conditions, frames in front and loss weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "tests/lib/ok.h"
#include "tests/train/conditions_set.h"
#include "train/data/parts.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char *const dir = toy_dir;

static uint32_t number_of(const char *key)
{
    return (uint32_t)strtoul(key, NULL, 10);         /* a number is an index of samples */
}

/* ---- values, recomputed one by one ---- */

typedef struct expected {
    bool noised, draw;                   /* the image is a noised one; posterior draws are used */
    double image, video, mask;           /* factors of the conditions */
    bool first;                          /* the image is the clip's first frame */
} expected;

static double noise_at(const vtrain_batch *b, int row, uint32_t purpose, int64_t i)
{
    float four[4];
    vc_train_normals(four, (uint64_t)i / 4 * 4, 4, SEED, (uint32_t)row, (uint32_t)b->micro,
                     purpose);
    return (double)four[i % 4];
}

/* The index of the stored element that is element [c,t,p] of a clip in b; f is the clip's stored
 * number of frames. */
static int64_t stored(const vtrain_batch *b, int64_t f, int64_t c, int64_t t, int64_t p)
{
    int64_t extra = b->dim[2] - f;
    return (c * f + (t < extra ? 0 : t - extra)) * AREA + p;
}

static void check_clip(const vtrain_batch *b, int row, const float *x, int64_t f, bool cond,
                       const expected *e)
{
    uint32_t number = number_of(b->key[row]);
    double factor = cond ? e->video : SCALING;
    for (int64_t c = 0, at = 0; c < CHANNELS; c++)
        for (int64_t t = 0; t < b->dim[2]; t++)
            for (int64_t p = 0; p < AREA; p++, at++) {
                int64_t i = stored(b, f, c, t, p);
                double z = (double)(cond ? toy_condition(VC_ROLE_VIDEO, number, i)
                                         : toy_mean(number, 0, i));
                if (e->first && t == 0)
                    z = (double)toy_condition(VC_ROLE_IMAGE, number, c * AREA + p);
                else if (e->draw)
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
        double z = (double)toy_condition(e->noised ? VC_ROLE_IMAGE_NOISED : VC_ROLE_IMAGE,
                                         number_of(b->key[row]), first + i);
        if (e->draw)
            z += exp(0.5 * (double)toy_logvar(first + i)) *
                 noise_at(b, row, VC_DRAW_IMAGE_LATENT, i);
        assert_float_equal(x[i], z * e->image, 1e-5);
    }
}

static void check_mask(const vtrain_batch *b, int row, const float *x, int64_t f, vc_role what,
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
    const float *i = b->cond[VC_ROLE_IMAGE], *v = b->cond[VC_ROLE_VIDEO];
    const float *m = b->cond[VC_ROLE_MASK];
    if (i && b->cond_dropped[row])
        check_zeros(i + row * image, image);
    else if (i)
        check_image(b, row, i + row * image, e);
    if (v && b->cond_dropped[row]) {
        check_zeros(v + row * clip, clip);
        check_zeros(m + row * mask, mask);
    } else if (v) {
        check_clip(b, row, v + row * clip, f, true, e);
        check_mask(b, row, m + row * mask, f, VC_ROLE_MASK, e->mask);
    }
}

static void check_batch(const vtrain_batch *b, bool pad, const expected *e)
{
    bool weighted = false;
    for (int row = 0; row < b->rows; row++) {
        const toy_sample *s = &set_samples[number_of(b->key[row])];
        int64_t f = s->f ? s->f : 1, padded = pad ? (f + 1) / 2 * 2 : f;
        assert_int_equal(b->dim[2], padded);
        check_clip(b, row, b->latents + row * CHANNELS * padded * AREA, f, false, e);
        check_roles(b, row, f, e);
        weighted |= s->loss_mask;
    }
    assert_int_equal(b->weighted, weighted);
    for (int row = 0; row < b->rows && weighted; row++) {
        const toy_sample *s = &set_samples[number_of(b->key[row])];
        const float *w = b->loss_weight + row * b->dim[2] * AREA;
        if (s->loss_mask)
            check_mask(b, row, w, s->f, VC_ROLE_LOSS_MASK, 1);
        for (int64_t i = 0; i < b->dim[2] * AREA && !s->loss_mask; i++)
            assert_float_equal(w[i], 1, 0);
    }
}

static void test_values(void **state)
{
    (void)state;
    const vtrain_scale L = VTRAIN_SCALE_LATENT, F = VTRAIN_SCALE_FACTOR, V = VTRAIN_SCALE_INVERT;
    const struct { const toy *t; wish w; bool invert, mean; expected e; } row[] = {
        { &set_i2v, { 0, true, L, L, L, false, false, 0 }, false, false, { .draw = true } },
        { &set_i2v, { IMAGE, false, V, L, L, false, false, 0 }, false, false,
          { true, true, SCALING, 0, 0, false } },
        { &set_i2v, { IMAGE, true, V, L, L, false, false, 0 }, true, false,
          { true, true, 1 / SCALING, 0, 0, false } },
        { &set_i2v, { IMAGE, true, F, L, L, false, false, 0 }, true, true,
          { true, false, SCALING, 0, 0, false } },
        { &set_inpaint, { VIDEO | MASK, false, L, F, F, false, false, 0 }, false, false,
          { false, true, 0, SCALING, SCALING, false } },
        { &set_inpaint, { VIDEO | MASK, true, L, L, L, false, false, 0 }, true, false,
          { false, true, 0, SCALING, 1, false } },
        { &set_inpaint, { VIDEO | MASK, true, L, V, F, false, false, 0 }, true, true,
          { false, false, 0, 1 / SCALING, SCALING, false } },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        char *note;
        vtrain_data *d;
        vc_err err = { 0 };
        t.invert = row[i].invert;
        if (set_try(&d, dir, &t, &row[i].w, 0, &note, &err))
            fail_msg("row %d: %s", i, err.text);
        free(note);
        const vtrain_loader_opts o = { .end = 24, .image_dropout = 0.3, .mask_dropout = 0.5,
                                       .check = i % 2, .threads = 2,
                                       .latent = row[i].mean ? VTRAIN_LATENT_MEAN
                                                             : VTRAIN_LATENT_SAMPLE };
        vtrain_loader *l = set_loader(d, o);
        for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b)) {
            assert_int_equal(b->roles, row[i].w.roles);
            check_batch(b, row[i].w.pad, &row[i].e);
        }
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* With a dataset without noised frames, training reads the clean ones. */
static void test_clean_only(void **state)
{
    (void)state;
    toy t = set_i2v;
    t.conditions = 1 << VC_ROLE_IMAGE;
    vtrain_data *d = set_open(dir, &t, &(wish){ .roles = IMAGE, .image = VTRAIN_SCALE_INVERT }, 0);
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .end = 6 });
    const expected e = { .draw = true, .image = SCALING };
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
        check_batch(b, false, &e);
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* ---- every role ---- */

static void count_finding(void *arg, const char *where, const char *what)
{
    (void)where;
    (void)what;
    ++*(int *)arg;
}

static int findings_of(const char *path)
{
    int n = 0;
    vf_verify_report report;
    vc_err err = { 0 };
    assert_ok(vf_verify(path, count_finding, &n, NULL, &report, &err), &err);
    return n;
}

static void check_role(const vtrain_batch *b, vc_role role)
{
    const vc_role_row *row = &vc_roles[role];
    const bool mask = row->kind == VC_VALUE_MASK, embeds = row->kind == VC_VALUE_EMBEDS;
    const int64_t n = embeds ? TOY_EMBEDS * TOY_EMBED_WIDTH
                             : (mask ? 1 : CHANNELS) * (row->clip ? b->dim[2] : 1) * AREA;
    for (int r = 0; r < b->rows; r++)
        for (int64_t i = 0; i < n; i++)
            assert_float_equal(b->cond[role][r * n + i],
                               (double)toy_condition(role, number_of(b->key[r]), i) *
                                   (mask || embeds ? 1 : SCALING), 1e-5);
}

/* For every role of the table that a transformer may read, its row suffices for the check of the
 * dataset and for training. Values of a size of their own need records that have it, as the
 * script kontext.sh makes them. */
static void test_each_role(void **state)
{
    (void)state;
    for (int r = 0; r < VC_ROLES; r++) {
        const wish w = { .roles = VC_ROLE_BIT(r) };
        toy t = set_i2v;
        t.conditions = VC_ROLE_BIT(r);
        if (!vc_roles[r].what || vc_roles[r].own_size)
            continue;
        vtrain_data *d = set_open(dir, &t, &w, 0);
        assert_int_equal(findings_of(vf_dataset_path(vtrain_data_set(d, 0))), 0);
        vtrain_loader *l = set_loader(d, (vtrain_loader_opts){
            .end = 12, .check = true, .latent = VTRAIN_LATENT_MEAN });
        for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b)) {
            assert_int_equal(b->roles, w.roles);
            check_role(b, (vc_role)r);
        }
        vtrain_loader_close(l);
        vtrain_data_close(d);

        char *note;
        vc_err err = { 0 };
        t.damage = TOY_COND_SHAPE;
        assert_fails(set_try(&d, dir, &t, &w, 0, &note, &err), VC_EMISMATCH, &err,
                     vc_roles[r].name);
        assert_int_equal(findings_of(vf_dataset_path(vtrain_data_set(d, 0))), 1);
        vtrain_data_close(d);
    }
}

/* A transformer that wants the means of conditions gets them beside draws of the clips, and prompts
 * with rows of zeros up to the number that it wants. */
static void test_means_and_rows(void **state)
{
    (void)state;
    enum { ROWS = 20 };
    const wish w = { .roles = VIDEO | MASK, .means = true, .text_rows = ROWS };
    vtrain_data *d = set_open(dir, &set_inpaint, &w, 0);
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .end = 12 });
    const expected clip = { .draw = true }, cond = { .video = SCALING, .mask = 1 };
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
        for (int r = 0; r < b->rows; r++) {
            const int64_t all = CHANNELS * b->dim[2] * AREA, width = b->text[0].width;
            check_clip(b, r, b->latents + r * all, b->dim[2], false, &clip);
            check_roles(b, r, b->dim[2], &cond);
            assert_int_equal(b->text[0].n, ROWS);
            assert_between(b->text[0].length[r], 1, TOY_TOKENS);
            const float *x = b->text[0].embeds + r * ROWS * width;
            assert_true(x[1] != 0);
            check_zeros(x + b->text[0].length[r] * width, (ROWS - b->text[0].length[r]) * width);
        }
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* ---- how often ---- */

/* Conditions are dropped at the given rate, and only where they may be; each noised frame is used
 * equally often. */
static void test_rates(void **state)
{
    (void)state;
    enum { N = 1500 };
    for (int mode = 0; mode < 2; mode++) {
        const wish w = { .roles = mode ? VIDEO | MASK : IMAGE };
        vtrain_data *d = set_open(dir, mode ? &set_inpaint : &set_i2v, &w, 0);
        vtrain_loader *l = set_loader(d, (vtrain_loader_opts){
            .end = N, .image_dropout = 0.2, .mask_dropout = 0.9, .threads = 2 });
        int rows = 0, dropped = 0, variant[3] = { 0 };
        for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
            for (int r = 0; r < b->rows; r++) {
                double u = vc_train_unit(SEED, 0, (uint32_t)r, (uint32_t)b->micro, VC_DRAW_IMAGE);
                bool may = !mode || set_samples[number_of(b->key[r])].mask_all;
                assert_true(may || !b->cond_dropped[r]);
                rows += may;
                dropped += b->cond_dropped[r];
                variant[(int)(u * 3)]++;
            }
        double want = mode ? 0.9 : 0.2, got = (double)dropped / rows;
        assert_true(fabs(got - want) < 4 * sqrt(want * (1 - want) / rows));
        for (int k = 0; k < 3; k++)
            assert_between(variant[k], N / 2, 4 * N / 5);
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* ---- pure functions of the micro-batch ---- */

static uint64_t hash_batch(const vtrain_batch *b)
{
    int64_t mask = b->rows * b->dim[2] * AREA;
    const int64_t n[VC_ROLES] = { [VC_ROLE_IMAGE] = b->rows * CHANNELS * AREA,
                                  [VC_ROLE_VIDEO] = mask * CHANNELS, [VC_ROLE_MASK] = mask };
    vf_key k = vf_hash(b->latents, (size_t)(mask * CHANNELS) * 4);
    for (int i = 0; i < VC_ROLES; i++)
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
        vtrain_data *d = set_open(dir, mode ? &set_inpaint : &set_i2v, &w, 0);
        for (int i = 0; i < COUNT(row); i++) {
            vtrain_loader *l = set_loader(d, (vtrain_loader_opts){
                .first = row[i].first, .end = N, .threads = row[i].threads, .ahead = row[i].ahead,
                .image_dropout = 0.3, .mask_dropout = 0.5 });
            for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b)) {
                want[b->micro] = i ? want[b->micro] : hash_batch(b);
                assert_int_equal(hash_batch(b), want[b->micro]);
            }
            vtrain_loader_close(l);
        }
        vtrain_data_close(d);
    }
}

/* Held-out samples have the clean image, and no condition is dropped. */
static void test_held_out(void **state)
{
    (void)state;
    const wish w = { .roles = IMAGE, .image = VTRAIN_SCALE_INVERT };
    vtrain_data *d = set_open(dir, &set_i2v, &w, 0.5);
    uint64_t n;
    assert_int_equal(vtrain_loader_pass(d, 2, &n, NULL), 0);
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){
        .held_out = true, .end = n, .image_dropout = 1, .latent = VTRAIN_LATENT_MEAN });
    const expected e = { .image = SCALING };
    int rows = 0;
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b)) {
        check_batch(b, false, &e);
        for (int r = 0; r < b->rows; r++, rows++)
            assert_false(b->cond_dropped[r]);
    }
    assert_true(rows > 0);
    assert_int_equal(rows, vtrain_data_held_out(d));
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* ---- frames in front ---- */

static void test_padded(void **state)
{
    (void)state;
    vtrain_data *d = set_open(dir, &set_inpaint, &(wish){ .roles = VIDEO | MASK, .pad = true }, 0);
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

/* Records have the shape of a family with patches of 1; this transformer has patches of 2. */
static void test_patches(void **state)
{
    (void)state;
    vtrain_data *d = set_open(dir, &set_inpaint, &(wish){ .roles = VIDEO | MASK }, 0);
    for (uint32_t i = 0; i < vtrain_data_groups(d); i++) {
        const vtrain_group *g = vtrain_data_group(d, i);
        assert_int_equal(g->padded, g->f);
        assert_int_equal(g->tokens, g->f * 2 * 3);
    }
    vtrain_data_close(d);
}

/* A clip with an image begins with the mean of this image, a clip without one with its own first
 * latent. */
static void test_clean_first(void **state)
{
    (void)state;
    const toy plain = { .sample = set_samples, .n = SAMPLES, .scaling = SCALING };
    const toy *const sets[] = { &set_i2v, &plain };
    for (int i = 0; i < COUNT(sets); i++) {
        const expected e = { .draw = true, .first = sets[i] == &set_i2v };
        vtrain_data *d = set_open(dir, sets[i], &(wish){ .clean = true }, 0);
        vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .end = 8, .image_dropout = 1,
                                                               .check = true });
        for (int k = 0; k < 8; k++) {
            const vtrain_batch *b = batches_next(l);
            assert_int_equal(b->roles, 0);
            check_batch(b, false, &e);
            vtrain_loader_give_back(l, b);
        }
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_clean_only),
        cmocka_unit_test(test_each_role), cmocka_unit_test(test_means_and_rows),
        cmocka_unit_test(test_rates), cmocka_unit_test(test_pure),
        cmocka_unit_test(test_held_out), cmocka_unit_test(test_padded),
        cmocka_unit_test(test_patches), cmocka_unit_test(test_clean_first),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
