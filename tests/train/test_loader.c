/* test_loader.c - micro-batches: their values, their order, and errors of damaged values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_batches.h"
#include "tests/lib/train_dataset.h"
#include "train/data/loader.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

enum { SEED = 42, CHANNELS = 2, WIDTH = 4, POOLED = 3 };
static char dir[256];

static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a cat" } },
    { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "two dogs", "dogs", "three" } },
    { .number = 2, .h = 5, .w = 7, .caption = { "a still" } },
    { .number = 3, .f = 3, .h = 4, .w = 6, .weight = 2, .caption = { "twice" } },
    { .number = 4, .h = 5, .w = 7, .caption = { "other still" } },
    { .number = 5, .f = 1, .h = 4, .w = 6, .caption = { NULL } },
    { .number = 6, .f = 3, .h = 4, .w = 6, .caption = { "sixth" } },
    { .number = 7, .f = 3, .h = 4, .w = 6, .caption = { "seven", "eight" } },
};
static const toy whole = { .sample = samples, .n = COUNT(samples), .pooled = POOLED, .encoders = 2,
                           .scaling = 0.5, .shift = 0.25, .per_channel = true };

static vtrain_data *make_data(const toy *like, double eval_split)
{
    vc_err err = { 0 };
    vtrain_data *d;
    static int made;                     /* all tests of the group share one dataset */
    char *path = vc_format("%s/%d-set", dir, made++), *note;
    toy t = *like;
    t.path = path;
    toy_make(&t);
    vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = SEED,
                                 .eval_split = eval_split };
    assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
    free(note);
    free(path);
    return d;
}

static int make(void **state)
{
    toy_dir_make(dir);
    *state = make_data(&whole, 0);
    return 0;
}

static int unmake(void **state)
{
    vtrain_data_close(*state);
    toy_dir_remove(dir);
    return 0;
}

static vtrain_loader *open_loader(const vtrain_data *d, vtrain_loader_opts o)
{
    o.plan.seed = SEED;
    return batches_open(d, o);
}

/* ---- the values of a batch ---- */

static uint32_t index_of(const char *key)
{
    return (uint32_t)strtoul(key, NULL, 10);         /* a number is an index of samples */
}

/* Compares row r of b with the values from which the dataset was made. */
static void check_latent(const vtrain_batch *b, int r, bool draw, bool shared)
{
    uint32_t number = index_of(b->key[r]);
    int64_t plane = b->dim[2] * b->dim[3] * b->dim[4], n = plane * CHANNELS;
    float *noise = malloc((size_t)n * 4);
    vc_train_normals(noise, 0, (size_t)n, SEED, (uint32_t)r, (uint32_t)b->micro, VC_DRAW_LATENT);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i / plane;
        double z = (double)toy_mean(number, 0, i);
        if (draw)
            z += exp(0.5 * (double)toy_logvar(shared ? i % plane : i)) * (double)noise[i];
        double x = (z - (0.25 + (double)c)) * 0.5 / (1 + (double)c);
        assert_float_equal(b->latents[r * n + i], x, 1e-5);
    }
    free(noise);
}

static void check_text(const vtrain_batch *b, int r, int e, const char *prompt)
{
    const vtrain_text *t = &b->text[e];
    if (t->embeds) {
        assert_int_equal(t->width, WIDTH);
        assert_int_equal(t->length[r], toy_tokens(prompt));
    } else {                             /* a pooled-only slot */
        assert_true(t->n == 0 && t->length[r] == 0);
    }
    for (int64_t i = 0; i < t->n * WIDTH; i++)
        assert_float_equal(t->embeds[r * t->n * WIDTH + i],
                           i < t->length[r] * WIDTH ? toy_embed(prompt, e, i) : 0, 0);
    for (int64_t i = 0; i < POOLED; i++)
        assert_float_equal(t->pooled[r * POOLED + i], toy_pooled(prompt, e, i), 0);
}

static const char *expected_prompt(const vtrain_batch *b, int r, double dropout, bool *dropped)
{
    const toy_sample *s = &samples[index_of(b->key[r])];
    uint32_t row = (uint32_t)r, m = (uint32_t)b->micro;
    int n = 0;
    while (n < TOY_CAPTIONS && s->caption[n])
        n++;
    *dropped = vc_train_unit(SEED, 0, row, m, VC_DRAW_CAPTION_DROP) < dropout;
    if (*dropped || !n)
        return "";
    return s->caption[(int)(vc_train_unit(SEED, 0, row, m, VC_DRAW_CAPTION) * n)];
}

static void check_batch(const vtrain_batch *b, double dropout, bool draw, bool shared)
{
    int64_t longest = 1;
    assert_int_equal(b->dim[0], b->rows);
    assert_int_equal(b->tokens, b->rows * b->dim[2] * b->dim[3] * b->dim[4]);
    for (int r = 0; r < b->rows; r++) {
        const toy_sample *s = &samples[index_of(b->key[r])];
        bool dropped;
        const char *prompt = expected_prompt(b, r, dropout, &dropped);
        assert_true(b->dim[2] == (s->f ? s->f : 1) && b->dim[3] == s->h && b->dim[4] == s->w);
        assert_int_equal(b->dropped[r], dropped);
        assert_true(b->fps[r] == (float)toy_fps(s->number));
        check_latent(b, r, draw, shared);
        for (int e = 0; e < b->n_texts; e++)
            check_text(b, r, e, prompt);
        if (b->text[0].length[r] > longest)
            longest = b->text[0].length[r];
    }
    assert_int_equal(b->text[0].n, longest);
}

static void test_content(void **state)
{
    (void)state;
    static const struct {
        toy_store store; vtrain_latent latent; bool draw, shared; unsigned pooled_only;
    } row[] = {
        { TOY_MOMENTS, VTRAIN_LATENT_SAMPLE, true, false, 0 },
        { TOY_MOMENTS, VTRAIN_LATENT_SAMPLE, true, false, 1 << 1 },
        { TOY_MOMENTS, VTRAIN_LATENT_MEAN, false, false, 0 },
        { TOY_SHARED_LOGVAR, VTRAIN_LATENT_SAMPLE, true, true, 0 },
        { TOY_MODE, VTRAIN_LATENT_SAMPLE, false, false, 0 },
        { TOY_SAMPLE, VTRAIN_LATENT_SAMPLE, false, false, 0 },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = whole;
        t.store = row[i].store;
        t.pooled_only = row[i].pooled_only;
        vtrain_data *d = make_data(&t, 0);
        vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 40, .caption_dropout = 0.4,
                                       .latent = row[i].latent, .check = i == 0 });
        int dropped = 0, rows = 0;
        for (uint64_t m = 0; m < 40; m++) {
            const vtrain_batch *b = batches_next(l);
            assert_int_equal(b->micro, m);
            check_batch(b, 0.4, row[i].draw, row[i].shared);
            assert_int_equal(!b->text[1].embeds, row[i].pooled_only != 0);
            for (int r = 0; r < b->rows; r++, rows++)
                dropped += b->dropped[r];
            vtrain_loader_give_back(l, b);
        }
        assert_between(dropped, rows / 5, rows * 3 / 5);
        assert_null(batches_next(l));
        assert_null(batches_next(l));
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* Each epoch has every sample as often as its repeats, and the number of batches is predicted. */
static void test_epochs(void **state)
{
    const vtrain_data *d = *state;
    const vtrain_order_plan plan = { .batch = 2 };
    vtrain_order *order;
    assert_int_equal(vtrain_order_open(&order, d, &plan, NULL), 0);
    uint64_t per = vtrain_order_count(order, 1, UINT64_MAX);
    vtrain_order_close(order);
    assert_int_equal(per, 5);            /* 7 visits of clips, 2 stills, 1 frame, in pairs */
    vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 3 * per, .threads = 2 });
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[COUNT(samples)] = { 0 };
        for (uint64_t m = 0; m < per; m++) {
            const vtrain_batch *b = batches_next(l);
            for (int r = 0; r < b->rows; r++)
                seen[index_of(b->key[r])]++;
            vtrain_loader_give_back(l, b);
        }
        for (int i = 0; i < COUNT(samples); i++)
            assert_int_equal(seen[i], i == 3 ? 2 : 1);
    }
    vtrain_loader_close(l);
}

static uint64_t hash_batch(const vtrain_batch *b)
{
    uint64_t h = b->micro * 31 + b->group;
    size_t n = (size_t)(b->dim[0] * b->dim[1] * b->dim[2] * b->dim[3] * b->dim[4]);
    vf_key k = vf_hash2(b->latents, n * 4, b->key, (size_t)b->rows * sizeof *b->key);
    memcpy(&n, k.b, 8);
    h ^= n;
    for (int e = 0; e < b->n_texts; e++) {
        const vtrain_text *t = &b->text[e];
        k = vf_hash2(t->embeds, (size_t)(b->rows * t->n * t->width) * 4, t->length,
                     (size_t)b->rows * 4);
        memcpy(&n, k.b, 8);
        h = h * 3 ^ n;
    }
    return h;
}

/* Batches are the same for any number of threads, any depth, any start, any number of ranks, and
 * any number of batches in use. */
static void test_pure(void **state)
{
    static const struct { int threads, ahead, out; uint64_t first, stride; } row[] = {
        { 1, 1, 1, 0, 0 }, { 4, 1, 1, 0, 1 }, { 4, 7, 1, 0, 1 }, { 2, 3, 3, 0, 1 },
        { 3, 4, 2, 17, 1 }, { 8, 2, 1, 29, 1 },
        { 2, 3, 1, 0, 4 }, { 1, 2, 2, 3, 4 }, { 3, 9, 1, 5, 7 }, { 2, 2, 1, 1, 40 },
    };
    enum { N = 30 };
    uint64_t want[N] = { 0 };
    for (int i = 0; i < COUNT(row); i++) {
        const vtrain_batch *held[8];
        int out = 0;
        uint64_t stride = row[i].stride ? row[i].stride : 1;
        const vtrain_loader_opts o = { .first = row[i].first, .end = N, .stride = row[i].stride,
                                       .threads = row[i].threads, .ahead = row[i].ahead,
                                       .caption_dropout = 0.2 };
        vtrain_loader *l = open_loader(*state, o);
        for (uint64_t m = row[i].first; m < N; m += stride) {
            const vtrain_batch *b = batches_next(l);
            assert_int_equal(b->micro, m);
            want[m] = i ? want[m] : hash_batch(b);
            assert_int_equal(hash_batch(b), want[m]);
            held[out++] = b;
            while (out == row[i].out)                /* any order is allowed: newest first */
                for (; out; out--)
                    vtrain_loader_give_back(l, held[out - 1]);
        }
        vtrain_loader_close(l);
    }
    for (int m = 1; m < N; m++)
        assert_int_not_equal(want[m], want[m - 1]);
}

static void test_held_out(void **state)
{
    (void)state;
    vtrain_data *d = make_data(&whole, 0.45);
    uint64_t n;
    uint32_t last = 0, group = 0, seen = 0;
    uint32_t held = vtrain_data_held_out(d);
    assert_between(held, 2, 8);
    assert_int_equal(vtrain_loader_pass(d, 3, &n, NULL), 0);
    vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .held_out = true, .end = n,
                                                            .plan.batch = 3,
                                                            .caption_dropout = 1 });
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
        for (int r = 0; r < b->rows; r++, seen++) {
            const toy_sample *s = &samples[index_of(b->key[r])];
            assert_true(vtrain_data_sample(d, index_of(b->key[r]))->held_out);
            assert_true(b->group > group || !seen || index_of(b->key[r]) > last);
            assert_false(b->dropped[r]);
            check_text(b, r, 0, s->caption[0] ? s->caption[0] : "");
            check_latent(b, r, true, false);
            last = index_of(b->key[r]);
            group = b->group;
        }
    assert_int_equal(seen, held);
    vtrain_loader_close(l);

    vc_err err = { 0 };
    const vtrain_loader_opts o = { .held_out = true, .plan.batch = 3, .threads = 1, .ahead = 1,
                                   .end = n + 1 };
    assert_int_equal(vtrain_loader_open(&l, d, &o, &err), VC_EINVAL);
    vtrain_data_close(d);
}

/* ---- damage ---- */

/* A damaged value ends the run at its batch, with the value's name; earlier batches are right. */
static void test_damage(void **state)
{
    (void)state;
    static const struct { toy_damage damage; bool check; int rc; const char *says; } row[] = {
        { TOY_NAN_MEAN, false, VC_ENUMERIC, "NaN or infinite" },
        { TOY_INF_LOGVAR, false, VC_ENUMERIC, "NaN or infinite" },
        { TOY_WRONG_SHAPE, false, VC_EMISMATCH, "shape [2,3,5,6], expected [2,3,4,6]" },
        { TOY_INTEGERS, false, VC_EMISMATCH, "type i16" },
        { TOY_OTHER_NAME, false, VC_EFORMAT, "both `mean` and `sample`" },
        { TOY_LATENT_SUM, true, VC_EFORMAT, "xxh3" },
        { TOY_TEXT_WIDTH, false, VC_EMISMATCH, "expected [0,4]" },
        { TOY_TEXT_LONG, false, VC_EMISMATCH, "13 tokens, at most 12" },
        { TOY_TEXT_NAN, false, VC_ENUMERIC, "prompt_embeds: a value is NaN" },
        { TOY_TEXT_SUM, true, VC_EFORMAT, "xxh3" },
        { TOY_NO_POOLED, false, VC_ENOENT, "pooled" },
        { TOY_FEW_KEYS, false, VC_EFORMAT, "1 keys" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = whole;
        t.bad = 7;                       /* open reads the first of each group */
        t.damage = row[i].damage;
        vtrain_data *d = make_data(&t, 0);
        vtrain_loader *l = open_loader(d, (vtrain_loader_opts){ .end = 20, .threads = 3, .ahead = 6,
                                                                .check = row[i].check });
        const vtrain_batch *b;
        vc_err err = { 0 };
        double waited;
        int rc, good = 0;
        for (; !(rc = vtrain_loader_next(l, &b, &waited, &err)) && b; good++) {
            for (int r = 0; r < b->rows; r++)
                assert_int_not_equal(index_of(b->key[r]), 7);
            vtrain_loader_give_back(l, b);
        }
        if (rc != row[i].rc || !strstr(err.text, row[i].says) ||
            !strstr(err.text, "-set: sample 000000000007/000") ||
            !strstr(err.text, "micro-batch") ||
            (rc == VC_ENUMERIC && !strstr(err.text, "--repair keeps what is good")))
            fail_msg("row %d: %d after %d batches: %s", i, rc, good, err.text);
        assert_int_equal(vtrain_loader_next(l, &b, &waited, &err), rc);
        assert_null(b);
        assert_null(vtrain_loader_peek(l));
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* ---- closing, and bounds ---- */

/* A loader may be closed at any moment: before the first batch, with batches in use, at the end. */
static void test_stop(void **state)
{
    for (int i = 0; i < 40; i++) {
        vtrain_loader *l = open_loader(*state, (vtrain_loader_opts){ .end = 1000, .threads = 3,
                                                                     .ahead = 4 });
        for (int k = 0; k < i % 4; k++)
            batches_next(l);
        vtrain_loader_close(l);
    }
    vtrain_loader_close(NULL);
}

/* peek() leaves the batch for batches_next(), and finds no batch after the last. */
static void test_peek(void **state)
{
    vtrain_loader *l = open_loader(*state, (vtrain_loader_opts){ .first = 3, .end = 6 });
    for (uint64_t m = 3; m < 6; m++) {
        const vtrain_batch *seen;
        while (!(seen = vtrain_loader_peek(l)))
            usleep(1000);
        assert_ptr_equal(vtrain_loader_peek(l), seen);
        assert_int_equal(seen->micro, m);
        assert_ptr_equal(batches_next(l), seen);
        assert_ptr_not_equal(vtrain_loader_peek(l), seen);
        vtrain_loader_give_back(l, seen);
    }
    assert_null(vtrain_loader_peek(l));
    assert_null(batches_next(l));
    vtrain_loader_close(l);
}

static void test_bounds(void **state)
{
    static const vtrain_loader_opts bad[] = {
        { .plan.batch = 0, .threads = 1, .ahead = 1 },
        { .plan.batch = 1 << 20, .threads = 1, .ahead = 1 },
        { .plan.batch = 1, .threads = 0, .ahead = 1 },
        { .plan.batch = 1, .threads = 1, .ahead = 0 },
        { .plan.batch = 1, .threads = 1, .ahead = 1, .first = 2 },
        { .plan.batch = 1, .threads = 1, .ahead = 1, .caption_dropout = 1.5 },
        { .plan.batch = 1, .threads = 1, .ahead = 1, .end = (uint64_t)1 << 33 },
        { .plan.batch = 3, .parts = 2, .threads = 1, .ahead = 1 },
    };
    vtrain_loader *l;
    vc_err err = { 0 };
    for (int i = 0; i < COUNT(bad); i++)
        assert_int_equal(vtrain_loader_open(&l, *state, &bad[i], &err), VC_EINVAL);
    const vtrain_batch *b;
    double waited;
    l = open_loader(*state, (vtrain_loader_opts){ .end = 9, .ahead = 2 });
    assert_true(vtrain_loader_bytes(l) > 3 * 2 * 3 * 4 * 6 * CHANNELS * 4);
    batches_next(l);
    batches_next(l);
    assert_int_equal(vtrain_loader_next(l, &b, &waited, &err), VC_EINVAL);
    vtrain_loader_close(l);

    /* Buffers have the size of the rows in the dataset, not of the batch size. */
    l = open_loader(*state, (vtrain_loader_opts){ .end = 9, .plan.batch = 1 << 16 });
    assert_true(vtrain_loader_bytes(l) < 10 << 20);
    for (int m = 0, rows = 0; m < 3; m++) {
        const vtrain_batch *whole_group = batches_next(l);
        rows += whole_group->rows;
        vtrain_loader_give_back(l, whole_group);
        assert_true(m < 2 || rows == 9);
    }
    vtrain_loader_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content), cmocka_unit_test(test_epochs), cmocka_unit_test(test_pure),
        cmocka_unit_test(test_held_out), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_stop), cmocka_unit_test(test_peek), cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
