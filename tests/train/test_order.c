/* test_order.c - epochs of samples with variants: each number is visited as often as its repeats,
 * one variant after another, and from any position. */
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
#include "tests/lib/train_dataset.h"
#include "train/data/order.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

enum { SEED = 42, BATCH = 2, VISITS = 64, MICROS = 400 };
static char *const dir = toy_dir;

#define CLIP(i, v, height, times) \
    { .number = i, .variant = v, .f = 2, .h = height, .w = 2, .weight = times, .caption = { "x" } }
static const toy_sample alike[] = {
    CLIP(0, 0, 2, 1), CLIP(0, 1, 2, 1), CLIP(0, 2, 2, 1), CLIP(0, 3, 2, 1),
    CLIP(1, 0, 2, 3), CLIP(1, 1, 2, 3), CLIP(1, 2, 2, 3), CLIP(1, 3, 2, 3),
    CLIP(2, 0, 4, 4), CLIP(2, 1, 4, 4), CLIP(3, 0, 2, 2), CLIP(4, 1, 2, 1),
};
static const toy_sample unlike[] = {
    CLIP(0, 0, 2, 1), CLIP(0, 1, 4, 1), CLIP(0, 2, 6, 1), CLIP(1, 0, 2, 3), CLIP(1, 1, 4, 3),
    CLIP(2, 0, 2, 1), CLIP(3, 0, 4, 2), CLIP(3, 1, 4, 2), CLIP(3, 2, 6, 2), CLIP(5, 0, 6, 1),
};

static vtrain_data *open_data(const toy_sample *samples, int n, double eval_split)
{
    static int made;
    char *path = vc_format("%s/%d-set", dir, made++), *note;
    vtrain_data *d;
    vc_err err = { 0 };
    toy_make(&(toy){ .path = path, .sample = samples, .n = n });
    vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = SEED,
                                 .eval_split = eval_split };
    assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
    free(note);
    free(path);
    return d;
}

static vtrain_order *open_order(const vtrain_data *d)
{
    vtrain_order *o;
    vc_err err = { 0 };
    const vtrain_order_plan plan = { .batch = BATCH, .seed = SEED };
    assert_ok(vtrain_order_open(&o, d, &plan, &err), &err);
    return o;
}

/* In as many epochs as a number has variants, each variant is visited as often as the number's
 * repeats, and the counts of one epoch differ by at most one. */
static void check_walk(const toy_sample *samples, int n)
{
    vtrain_data *d = open_data(samples, n, 0);
    uint32_t row[VISITS], group[VISITS], visits = vtrain_data_visits(d);
    int all[VISITS] = { 0 };
    enum { EPOCHS = 12 };                /* a multiple of all counts of variants */
    for (uint64_t e = 0; e < EPOCHS; e++) {
        int now[VISITS] = { 0 };
        vtrain_data_epoch(d, e, row, group);
        for (uint32_t i = 0; i < visits; i++) {
            assert_int_equal(group[i], vtrain_data_sample(d, row[i])->group);
            now[row[i]]++;
            all[row[i]]++;
        }
        for (int i = 0, k; i < n; i += k) {
            int sum = 0, low = VISITS, high = 0;
            for (k = 0; i + k < n && samples[i + k].number == samples[i].number; k++) {
                sum += now[i + k];
                low = now[i + k] < low ? now[i + k] : low;
                high = now[i + k] > high ? now[i + k] : high;
            }
            assert_int_equal(sum, (int)samples[i].weight);
            assert_true(high - low <= 1);
        }
    }
    for (int i = 0, k; i < n; i += k) {
        for (k = 1; i + k < n && samples[i + k].number == samples[i].number;)
            k++;
        for (int v = 0; v < k; v++)
            assert_int_equal(all[i + v], EPOCHS * (int)samples[i].weight / k);
    }
    vtrain_data_close(d);
}

static void test_walk(void **state)
{
    (void)state;
    check_walk(alike, COUNT(alike));
    check_walk(unlike, COUNT(unlike));
}

/* Samples begin with different variants, since otherwise an epoch would have one size where sizes
 * are variants. */
static void test_start(void **state)
{
    (void)state;
    toy_sample many[60];
    uint32_t row[VISITS], group[VISITS];
    int first[2] = { 0 };
    for (uint32_t i = 0; i < 60; i++)
        many[i] = (toy_sample)CLIP(i / 2, i % 2, 2, 1);
    vtrain_data *d = open_data(many, 60, 0);
    assert_int_equal(vtrain_data_visits(d), 30);
    vtrain_data_epoch(d, 0, row, group);
    for (int i = 0; i < 30; i++)
        first[row[i] % 2]++;
    assert_between(first[0], 6, 24);
    vtrain_data_close(d);
}

/* ---- micro-batches ---- */

typedef struct micro {
    uint32_t row[BATCH], n;
} micro;

static void check_epochs(const vtrain_data *d, const micro *m, vtrain_order *o)
{
    uint64_t at = 0;
    for (uint64_t e = 0; at < MICROS - 40; e++) {
        uint64_t end = vtrain_order_count(o, e + 1, UINT64_MAX);
        uint32_t row[VISITS], group[VISITS], n = vtrain_data_visits(d), seen = 0;
        int want[VISITS] = { 0 };
        vtrain_data_epoch(d, e, row, group);
        for (uint32_t i = 0; i < n; i++)
            want[row[i]]++;
        for (; at < end; at++)
            for (uint32_t k = 0; k < m[at].n; k++, seen++) {
                want[m[at].row[k]]--;
                assert_int_equal(vtrain_data_sample(d, m[at].row[k])->group,
                                 vtrain_data_sample(d, m[at].row[0])->group);
            }
        assert_int_equal(seen, n);
        for (int i = 0; i < VISITS; i++)
            assert_int_equal(want[i], 0);
    }
}

/* Data that join a run later begin with the epoch in which they join, for any epoch. */
static void check_origin(const vtrain_data *d, const micro *all, vtrain_order *from_start)
{
    const vtrain_origin at = { .epoch = 2, .micro = 1000 };
    const vtrain_order_plan plan = { .batch = BATCH, .seed = SEED, .origin = at };
    uint64_t skipped = vtrain_order_count(from_start, at.epoch, UINT64_MAX), epoch, begin, end;
    vtrain_order *o;
    vc_err err = { 0 };
    micro got;
    assert_int_equal(vtrain_order_open(&o, d, &plan, &err), 0);
    for (uint64_t i = 0; i < 60; i++) {
        const micro *want = &all[skipped + i];
        assert_int_equal(vtrain_order_get(o, at.micro + i, got.row, &got.n, &err), 0);
        assert_int_equal(got.n, want->n);
        assert_memory_equal(got.row, want->row, got.n * sizeof *got.row);
    }
    assert_int_equal(vtrain_order_epoch(o, at.micro, &epoch, &begin, &end, &err), 0);
    assert_int_equal(epoch, 2);
    assert_int_equal(end - at.micro,
                     vtrain_order_count(from_start, 3, UINT64_MAX) - skipped);
    assert_int_equal(vtrain_order_epoch(o, end, &epoch, &begin, &end, &err), 0);
    assert_int_equal(epoch, 3);
    assert_int_equal(vtrain_order_get(o, at.micro - 1, got.row, &got.n, &err), VC_EINVAL);
    vtrain_order_close(o);
}

static void check_order(const toy_sample *samples, int n, bool varied)
{
    vtrain_data *d = open_data(samples, n, 0);
    vtrain_order *o = open_order(d), *other = open_order(d);
    static micro all[MICROS];
    vc_err err = { 0 };
    assert_int_equal(vtrain_data_varied(d), varied);
    for (uint64_t m = 0; m < MICROS; m++)
        assert_int_equal(vtrain_order_get(o, m, all[m].row, &all[m].n, &err), 0);
    check_epochs(d, all, o);
    for (uint64_t i = 0; i < MICROS; i++) {          /* leaps forward and backward */
        uint64_t m = i * 157 % MICROS;
        micro again;
        assert_int_equal(vtrain_order_get(other, m, again.row, &again.n, &err), 0);
        assert_int_equal(again.n, all[m].n);
        assert_memory_equal(again.row, all[m].row, again.n * sizeof *again.row);
    }
    check_origin(d, all, o);
    assert_int_equal(vtrain_order_count(o, UINT64_MAX, 1000), 1000);
    assert_int_equal(vtrain_order_count(o, 0, 1000), 0);
    assert_int_equal(vtrain_order_get(o, (uint64_t)1 << 32, all[0].row, &all[0].n, &err),
                     VC_EINVAL);
    vtrain_order_close(o);
    vtrain_order_close(other);
    vtrain_data_close(d);
}

static void test_order(void **state)
{
    (void)state;
    check_order(alike, COUNT(alike), false);
    check_order(unlike, COUNT(unlike), true);
}

/* The counts of a group, by which buffers are sized and which the plan prints. */
static void test_groups(void **state)
{
    (void)state;
    static const struct { uint32_t samples; uint64_t repeats, most; } want[] = {
        { 3, 3, 5 },                     /* 1/3 + 3/2 + 1 repeats; at most 1 + 3 + 1 */
        { 4, 4, 6 },                     /* 1/3 + 3/2 + 4/3 */
        { 3, 2, 4 },                     /* 1/3 + 2/3 + 1 */
    };
    vtrain_data *d = open_data(unlike, COUNT(unlike), 0);
    assert_int_equal(vtrain_data_groups(d), COUNT(want));
    for (int i = 0; i < COUNT(want); i++) {
        const vtrain_group *g = vtrain_data_group(d, (uint32_t)i);
        assert_int_equal(g->samples, want[i].samples);
        assert_int_equal(g->repeats, want[i].repeats);
        assert_int_equal(g->most, want[i].most);
    }
    vtrain_data_close(d);
}

/* Held-out numbers are not visited, in any variant. */
static void test_held_out(void **state)
{
    (void)state;
    vtrain_data *d = open_data(alike, COUNT(alike), 0.4);
    uint32_t row[VISITS], group[VISITS];
    for (uint64_t e = 0; e < 4; e++) {
        vtrain_data_epoch(d, e, row, group);
        for (uint32_t i = 0; i < vtrain_data_visits(d); i++)
            assert_false(vtrain_data_sample(d, row[i])->held_out);
    }
    vtrain_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk), cmocka_unit_test(test_start), cmocka_unit_test(test_order),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_held_out),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
