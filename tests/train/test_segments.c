/* test_segments.c - samples of several segments: batches have the rows of all segments, dropped
 * captions are zeros, and a bucket has one number of segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_batches.h"
#include "tests/lib/train_dataset.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

enum { WIDTH = 4, FITTED = 30 };

static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 2, .w = 2, .segments = 2, .caption = { "one" } },
    { .number = 1, .f = 3, .h = 2, .w = 2, .segments = 2, .caption = { "other" } },
    { .number = 2, .f = 5, .h = 2, .w = 2, .segments = 3, .caption = { "longer" } },
    { .number = 3, .f = 2, .h = 2, .w = 2, .segments = 1, .caption = { "short" } },
    { .number = 4, .f = 4, .h = 2, .w = 2, .caption = { "plain" } },
};

static vtrain_data *open_data(const toy_sample *list, int n)
{
    char *path = vc_path_join(toy_dir, "set"), *note;
    const toy t = { .path = path, .sample = list, .n = n };
    const vc_list paths = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &paths, .dataset_repeat = 1 };
    vtrain_data *d;
    vc_err err = { 0 };
    toy_make(&t);
    assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
    free(note);
    free(path);
    return d;
}

/* Checks a row's text: all rows of all segments, or zeros where the caption was dropped. */
static void check_row(const vtrain_batch *b, int r, int64_t least)
{
    const toy_sample *s = &samples[strtoul(b->key[r], NULL, 10)];
    const vtrain_text *t = &b->text[0];
    const char *prompt = b->dropped[r] && !s->segments ? "" : s->caption[0];
    const int64_t rows = s->segments ? s->segments * TOY_TOKENS : toy_tokens(prompt);
    assert_int_equal(b->dim[2], s->f);
    assert_int_equal(t->length[r], rows);
    assert_int_equal(t->n, s->segments || rows > least ? rows : least);
    for (int64_t i = 0; i < t->n * WIDTH; i++) {
        const bool is_zero = i >= rows * WIDTH || (b->dropped[r] && s->segments);
        assert_float_equal(t->embeds[r * t->n * WIDTH + i],
                           is_zero ? 0 : toy_embed(prompt, 0, i), 0);
    }
}

static void check_batches(const vtrain_data *d, double dropout, int64_t least)
{
    vtrain_loader *l = batches_open(d, (vtrain_loader_opts){ .end = 20, .threads = 2, .check = true,
                                                             .caption_dropout = dropout });
    int seen[COUNT(samples)] = { 0 };
    for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
        for (int r = 0; r < b->rows; r++) {
            check_row(b, r, least);
            seen[strtoul(b->key[r], NULL, 10)]++;
        }
    for (int i = 0; i < COUNT(samples); i++)
        assert_true(seen[i] > 0);
    vtrain_loader_close(l);
}

static void all_rows_arrive(void **state)
{
    (void)state;
    vtrain_data *d = open_data(samples, COUNT(samples));

    check_batches(d, 0, 1);
    for (uint32_t i = 0; i < vtrain_data_groups(d); i++) {
        const vtrain_group *g = vtrain_data_group(d, i);
        assert_int_equal(g->segments, g->f == 3 ? 2 : g->f == 5 ? 3 : g->f == 2 ? 1 : 0);
    }
    vtrain_data_close(d);
}

static void dropped_segments_are_zeros(void **state)
{
    (void)state;
    vtrain_data *d = open_data(samples, COUNT(samples));

    check_batches(d, 1, 1);
    check_batches(d, 0.5, 1);
    vtrain_data_close(d);
}

/* A transformer with a fixed number of text rows pads plain captions, and segments not at all. */
static void segments_are_not_padded(void **state)
{
    (void)state;
    static const vtrain_family family = { .class_name = "ToyTransformer" };
    const vtrain_fit fit = { .mult = { 1, 1, 1 }, .text_rows = { FITTED } };
    vtrain_data *d = open_data(samples, COUNT(samples));
    vc_err err = { 0 };
    char *note;

    assert_ok(vtrain_data_fit(d, &family, &fit, &note, &err), &err);
    free(note);
    check_batches(d, 0, FITTED);
    vtrain_data_close(d);
}

/* Row i of `bad` is a bucket of two samples that fails with the text `says`. */
static void wrong_segments_are_refused(void **state)
{
    (void)state;
    static const struct {
        int segments[2];
        toy_damage damage;
        const char *says;
    } bad[] = {
        { { 2, 3 }, TOY_WHOLE, "text_chunks: 3, the other samples of bucket 3x2x2 have 2" },
        { { 2, 0 }, TOY_WHOLE, "text_chunks: 1, the other samples of bucket 3x2x2 have 2" },
        { { 2, 2 }, TOY_TEXT_LONG, "25 tokens, at most 24" },
    };
    for (int i = 0; i < COUNT(bad); i++) {
        toy_sample list[2] = { samples[0], samples[1] };
        char *path = vc_path_join(toy_dir, "set"), *note;
        const toy t = { .path = path, .sample = list, .n = 2, .bad = 1, .damage = bad[i].damage };
        const vc_list paths = { .item = &path, .n = 1 };
        const vtrain_data_opts o = { .paths = &paths, .dataset_repeat = 1 };
        const vtrain_batch *b;
        vtrain_data *d;
        vc_err err = { 0 };
        double waited;

        for (int k = 0; k < 2; k++)
            list[k].segments = bad[i].segments[k];
        toy_make(&t);
        assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
        vtrain_loader *l = batches_open(d, (vtrain_loader_opts){ .end = 20, .check = true });
        assert_int_equal(vtrain_loader_next(l, &b, &waited, &err), VC_EMISMATCH);
        if (!strstr(err.text, bad[i].says) || !strstr(err.text, "sample 000000000001/000"))
            fail_msg("row %d: %s", i, err.text);
        vtrain_loader_close(l);
        vtrain_data_close(d);
        free(note);
        free(path);
    }
}

/* Prompts from training have the rows of all segments, and the empty prompt for each of them. */
static void prompts_have_all_segments(void **state)
{
    (void)state;
    vtrain_data *d = open_data(samples, COUNT(samples));
    const int64_t empty = toy_tokens("");
    vc_err err = { 0 };

    for (uint32_t i = 0; i < vtrain_data_prompts(d); i++) {
        vtrain_prompt p = { 0 };
        int k = 0;
        assert_ok(vtrain_data_prompt(d, i, &p, &err), &err);
        while (strcmp(samples[k].caption[0], p.text))
            k++;
        const int n = samples[k].segments ? samples[k].segments : 1;
        assert_int_equal(p.neg[0].n, n * empty);
        for (int64_t j = 0; j < p.neg[0].n * WIDTH; j++)
            assert_float_equal(p.neg[0].embeds[j], toy_embed("", 0, j % (empty * WIDTH)), 0);
        assert_int_equal(p.pos[0].n, samples[k].segments ? n * TOY_TOKENS : toy_tokens(p.text));
        vtrain_prompt_free(&p);
    }
    vtrain_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_arrive), cmocka_unit_test(dropped_segments_are_zeros),
        cmocka_unit_test(segments_are_not_padded), cmocka_unit_test(wrong_segments_are_refused),
        cmocka_unit_test(prompts_have_all_segments),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
