/* test_sound_load.c - batches hold the sound of clips, normalised by each number of a frame, with
 * zeros behind it and for clips without; damaged, wrong and missing sounds are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/train/conditions_set.h"

enum { C = 2, BINS = 3, LONGEST = 11 };       /* 9 frames of 20 a second, 25 latent frames of it */

static const toy_sample clips[] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a" }, .frames = 9, .sound = 11 },
    { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "b" }, .frames = 9, .sound = 7 },
    { .number = 2, .f = 3, .h = 4, .w = 6, .caption = { "c" }, .frames = 9 },
    { .number = 3, .h = 4, .w = 6, .caption = { "d" } },
};

static const toy_sample silent[] = {
    { .number = 2, .f = 3, .h = 4, .w = 6, .caption = { "c" }, .frames = 9 },
};

/* The dataset of the clips, of which number 0 has a damage. */
static toy set_of(toy_damage damage)
{
    return (toy){ .sample = clips, .n = 4, .channels = CHANNELS, .sound_channels = C,
                  .sound_bins = BINS, .damage = damage };
}

/* Opens a dataset for a transformer with `numbers` a frame of sound. */
static int try_set(vtrain_data **d, const toy *like, int numbers, vc_err *err)
{
    static int made;
    const wish plain = { .roles = 0 };
    const vtrain_family family = set_family(&plain);
    vtrain_fit fit = set_fit(&plain);
    toy t = *like;
    char *path = vc_format("%s/%d", toy_dir, made++), *note = NULL;
    const vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = SEED };
    t.path = path;
    toy_make(&t);
    assert_ok(vtrain_data_open(d, &o, &note, err), err);
    free(note);
    free(path);
    fit.sound = numbers;
    int rc = vtrain_data_fit(*d, &family, &fit, &note, err);
    free(note);
    return rc;
}

static vtrain_data *open_set(toy_damage damage, int numbers)
{
    const toy t = set_of(damage);
    vtrain_data *d;
    vc_err err = { 0 };
    assert_ok(try_set(&d, &t, numbers, &err), &err);
    return d;
}

static void check_row(const vtrain_batch *b, int row)
{
    const uint32_t number = (uint32_t)strtoul(b->key[row], NULL, 10);
    const int length = clips[number].sound, l = (int)b->sound_dim[2];
    const float *x = b->sound + (size_t)(row * C * l * BINS);
    assert_int_equal(b->sound_length[row], length);
    for (int i = 0; i < C * l * BINS; i++) {
        const int c = i / (l * BINS), at = i / BINS % l, bin = i % BINS, k = c * BINS + bin;
        const int from = (c * length + at) * BINS + bin;
        const float z = toy_condition(VC_ROLE_AUDIO, number, from);
        const float want = at < length ? (z - (float)k) / (float)(1 + k) : 0;
        assert_true(fabsf(x[i] - want) <= 1e-5f * (1 + fabsf(want)));
    }
}

static void sounds_of_a_batch(void **state)
{
    vtrain_data *d = open_set(TOY_WHOLE, C * BINS);
    vc_err err = { 0 };
    int rows = 0;
    (void)state;
    assert_int_equal(vtrain_data_sound_frames(d, 9, 20), LONGEST);
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .plan = { .batch = 4 }, .end = 2,
                                                           .check = true });
    for (int i = 0; i < 2; i++) {
        const vtrain_batch *b;
        double waited;
        assert_ok(vtrain_loader_next(l, &b, &waited, &err), &err);
        const int64_t dim[5] = { b->rows, C, b->dim[2] > 1 ? LONGEST : 1, 1, BINS };
        assert_memory_equal(b->sound_dim, dim, sizeof dim);
        for (int row = 0; row < b->rows; row++, rows++)
            check_row(b, row);
        vtrain_loader_give_back(l, b);
    }
    assert_int_equal(rows, 4);
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

/* A model without sound gets none of it. */
static void no_sound(void **state)
{
    vtrain_data *d = open_set(TOY_WHOLE, 0);
    const vtrain_batch *b;
    vc_err err = { 0 };
    double waited;
    (void)state;
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .plan = { .batch = 4 }, .end = 1 });
    assert_ok(vtrain_loader_next(l, &b, &waited, &err), &err);
    assert_true(!b->sound && !b->sound_dim[1]);
    vtrain_loader_close(l);
    vtrain_data_close(d);
}

static void refused_sets(void **state)
{
    const toy without = { .sample = silent, .n = 1, .channels = CHANNELS }, with = set_of(0);
    vtrain_data *d;
    vc_err err = { 0 };
    (void)state;
    assert_fails(try_set(&d, &without, C * BINS, &err), VC_EMISMATCH, &err,
                 "has no sound: run vprep with --with_audio");
    vtrain_data_close(d);
    assert_fails(try_set(&d, &with, 4, &err), VC_EMISMATCH, &err,
                 "has 2 channels of 3 bins, but the transformer takes 4 numbers");
    vtrain_data_close(d);
}

static void damaged_sounds(void **state)
{
    static const struct { toy_damage damage; int code; const char *says; } rows[] = {
        { TOY_COND_SHAPE, VC_EMISMATCH, "12 frames of sound, but the clip has time for 11" },
        { TOY_COND_NAN, VC_ENUMERIC, "conditions: audio" },
        { TOY_COND_SUM, VC_EFORMAT, "conditions: audio" },
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        vtrain_data *d = open_set(rows[i].damage, C * BINS);
        const vtrain_batch *b;
        vc_err err = { 0 };
        double waited;
        int rc = 0;
        vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .plan = { .batch = 4 }, .end = 2,
                                                               .check = true });
        for (int k = 0; k < 2 && !rc; k++) {
            rc = vtrain_loader_next(l, &b, &waited, &err);
            if (!rc)
                vtrain_loader_give_back(l, b);
        }
        assert_fails(rc, rows[i].code, &err, rows[i].says);
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sounds_of_a_batch, toy_dir_setup, toy_dir_teardown),
        cmocka_unit_test_setup_teardown(no_sound, toy_dir_setup, toy_dir_teardown),
        cmocka_unit_test_setup_teardown(refused_sets, toy_dir_setup, toy_dir_teardown),
        cmocka_unit_test_setup_teardown(damaged_sounds, toy_dir_setup, toy_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
