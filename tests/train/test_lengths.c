/* test_lengths.c - the longest stored text of each slot: it is found among captions, second
 * captions, validation and empty prompts of all datasets, and a longer text arrives whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_batches.h"
#include "tests/lib/train_dataset.h"

enum { WIDTH = 4, SEGMENTS = 2, FIXED = 30 };

/* toy_tokens: 5, 9, 2 and 7; the empty prompt has 1. */
static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 2, .w = 2, .caption = { "four" } },
    { .number = 1, .f = 3, .h = 2, .w = 2, .caption = { "a", "eight888" } },
    { .number = 2, .f = 3, .h = 2, .w = 2, .caption = { "sixsix" } },
};
static const toy_sample longer[] = {
    { .number = 0, .f = 3, .h = 2, .w = 2, .caption = { "ten1010101" } },
};
static const toy_sample of_segments[] = {
    { .number = 0, .f = 3, .h = 2, .w = 2, .segments = SEGMENTS, .caption = { "four" } },
};

/* Opens datasets a and, unless it has no samples, b, and fits them to `rows` of text. */
static vtrain_data *open_data(toy a, toy b, bool growing, int64_t rows)
{
    static const vtrain_family family = { .class_name = "ToyTransformer" };
    const vtrain_fit fit = { .mult = { 1, 1, 1 }, .text_rows = { rows } };
    char *path[2] = { vc_path_join(toy_dir, "a"), vc_path_join(toy_dir, "b") }, *note;
    const vc_list paths = { .item = path, .n = b.n ? 2 : 1 };
    int shards[2];
    const vtrain_data_opts o = { .paths = &paths, .dataset_repeat = 1,
                                 .shards = growing ? shards : NULL };
    bool complete;
    vtrain_data *d;
    vc_err err = { 0 };

    a.path = path[0];
    b.path = path[1];
    toy_make(&a);
    if (b.n)
        toy_make(&b);
    assert_ok(vtrain_data_progress(&paths, shards, &complete, &err), &err);
    assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
    free(note);
    assert_int_equal(vtrain_data_slot(d, 0)->longest, 0);
    assert_ok(vtrain_data_fit(d, &family, &fit, &note, &err), &err);
    free(note);
    free(path[0]);
    free(path[1]);
    return d;
}

static void longest_is_found(void **state)
{
    (void)state;
    const toy none = { .n = 0 }, plain = { .sample = samples, .n = 3 },
              other = { .sample = longer, .n = 1 },
              parts = { .sample = of_segments, .n = 1 },
              broken = { .sample = samples, .n = 3, .bad = 2, .damage = TOY_TEXT_SUM };
    toy asked = plain, mixed = plain;
    asked.prompts = 2;                       /* "validation 0": 13 characters, so 1 token */
    mixed.encoders = 2;
    mixed.pooled = 3;
    mixed.pooled_only = 2;
    const struct {
        toy a, b;
        bool growing;
        int64_t rows, longest;
    } row[] = {
        { plain, none, false, 0, 9 },
        { asked, none, false, 0, 9 },
        { mixed, none, false, 0, 9 },
        { plain, other, false, 0, 11 },
        { broken, none, false, 0, 9 },
        { parts, none, false, 0, SEGMENTS * TOY_TOKENS },
        { plain, none, true, 0, 0 },       /* samples may join */
        { plain, none, false, FIXED, 0 },     /* all texts get this number of rows */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        vtrain_data *d = open_data(row[i].a, row[i].b, row[i].growing, row[i].rows);
        if (vtrain_data_slot(d, 0)->longest != row[i].longest)
            fail_msg("row %zu: %d tokens", i, (int)vtrain_data_slot(d, 0)->longest);
        vtrain_data_close(d);
    }
}

static void rows_of_batches(void **state)
{
    (void)state;
    const vtrain_slot known = { .max_length = 12, .longest = 9, .embeds = true };
    vtrain_slot s = known;

    assert_int_equal(vtrain_data_longest(&s, 0, false), 9);
    assert_int_equal(vtrain_data_longest(&s, 1, false), 9);
    assert_int_equal(vtrain_data_longest(&s, 3, false), 9);
    assert_int_equal(vtrain_data_longest(&s, 0, true), 12);
    assert_int_equal(vtrain_data_longest(&s, 3, true), 36);
    s.longest = 0;
    assert_int_equal(vtrain_data_longest(&s, 0, false), 12);
    assert_int_equal(vtrain_data_longest(&s, 3, false), 36);
    s.longest = 30;                          /* of segments: others are shorter */
    assert_int_equal(vtrain_data_longest(&s, 0, false), 12);
    assert_int_equal(vtrain_data_longest(&s, 3, false), 30);
    s.rows = 20;
    assert_int_equal(vtrain_data_longest(&s, 0, false), 20);
    assert_int_equal(vtrain_data_longest(&s, 3, false), 30);
    s.embeds = false;
    assert_int_equal(vtrain_data_longest(&s, 0, true), 0);
}

/* The loader allocates by the longest text; a text above it, which another's size hid, gets
 * room. */
static void a_longer_text_arrives(void **state)
{
    (void)state;
    vtrain_data *d = open_data((toy){ .sample = samples, .n = 3 }, (toy){ .n = 0 }, false, 0);
    vtrain_slot *s = (vtrain_slot *)(uintptr_t)vtrain_data_slot(d, 0);
    size_t bytes[2];
    int seen = 0;

    for (int i = 0; i < 2; i++) {
        s->longest = i ? 1 : 9;
        vtrain_loader *l = batches_open(d, (vtrain_loader_opts){ .end = 12, .threads = 2 });
        bytes[i] = vtrain_loader_bytes(l);
        for (const vtrain_batch *b; (b = batches_next(l)); vtrain_loader_give_back(l, b))
            for (int r = 0; r < b->rows; r++) {
                const vtrain_text *t = &b->text[0];
                const toy_sample *of = &samples[strtoul(b->key[r], NULL, 10)];
                const int second = of->caption[1] && t->length[r] != toy_tokens(of->caption[0]);
                for (int64_t k = 0; k < t->n * WIDTH; k++)
                    assert_float_equal(t->embeds[r * t->n * WIDTH + k], k >= t->length[r] * WIDTH
                                       ? 0 : toy_embed(of->caption[second], 0, k), 0);
                seen += t->length[r] == 9;
            }
        vtrain_loader_close(l);
    }
    assert_true(seen > 1);
    assert_true(bytes[1] < bytes[0]);
    vtrain_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_is_found), cmocka_unit_test(rows_of_batches),
        cmocka_unit_test(a_longer_text_arrives),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
