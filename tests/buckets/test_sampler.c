/* test_sampler.c - epochs cover every sample in batches of one group; a batch does not depend on
 * the batches that were read before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "buckets/sampler.h"
#include "common/base/rng.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MAX_BATCH = 64 };

static vb_sampler *open_sampler(const uint32_t *group, uint32_t n, uint32_t n_groups,
                                uint32_t batch, vb_leftover leftover, uint64_t seed)
{
    vb_sampler *s;
    vc_err err;
    assert_ok(vb_sampler_open(&s, group, n, n_groups, batch, leftover, seed, &err), &err);
    return s;
}

static uint32_t *random_groups(uint32_t n, uint32_t n_groups)
{
    uint32_t *g = malloc(n * sizeof *g);
    vc_draws d = vc_draws_of(5, n, n_groups, 0);
    for (uint32_t i = 0; i < n; i++)           /* low groups are larger */
        g[i] = vc_draw_int(&d, 1 + vc_draw_int(&d, n_groups));
    return g;
}

typedef struct shape {
    uint32_t n, n_groups, batch;
} shape;
static const shape shapes[] = {
    { 1, 1, 1 }, { 1, 3, 4 }, { 7, 1, 3 }, { 8, 2, 4 }, { 100, 7, 4 }, { 100, 100, 8 },
    { 1000, 13, 1 }, { 1000, 5, 64 }, { 999, 300, 2 },
};

/* Counts every sample of one epoch; returns the number of batches that were not full. */
static uint32_t walk(vb_sampler *s, const shape *p, const uint32_t *group, uint64_t epoch,
                     uint32_t *seen)
{
    uint64_t per = vb_sampler_epoch_batches(s);
    uint32_t partial = 0;

    memset(seen, 0, p->n * sizeof *seen);
    for (uint64_t m = epoch * per; m < (epoch + 1) * per; m++) {
        uint32_t rows[MAX_BATCH], n;
        vb_sampler_get(s, m, rows, &n);
        assert_between(n, 1, p->batch);
        partial += n < p->batch;
        for (uint32_t i = 0; i < n; i++) {
            assert_true(rows[i] < p->n);
            assert_int_equal(group[rows[i]], group[rows[0]]);
            seen[rows[i]]++;
        }
    }
    return partial;
}

static uint32_t odd_groups(const shape *p, const uint32_t *group, uint32_t *left)
{
    uint32_t *size = calloc(p->n_groups, sizeof *size), odd = 0;
    for (uint32_t i = 0; i < p->n; i++)
        size[group[i]]++;
    *left = 0;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        odd += size[g] % p->batch != 0;
        *left += size[g] % p->batch;
    }
    free(size);
    return odd;
}

static void check_epoch(const shape *p, const uint32_t *group, vb_leftover leftover)
{
    uint32_t *seen = malloc(p->n * sizeof *seen), left;
    uint32_t odd = odd_groups(p, group, &left);
    vb_sampler *s = open_sampler(group, p->n, p->n_groups, p->batch, leftover, 3);

    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        uint32_t partial = walk(s, p, group, epoch, seen), once = 0, none = 0;
        for (uint32_t i = 0; i < p->n; i++) {
            once += seen[i] == 1;
            none += seen[i] == 0;
        }
        assert_int_equal(partial, leftover == VB_LEFTOVER_SMALL ? odd : 0);
        assert_int_equal(none, leftover == VB_LEFTOVER_DROP ? left : 0);
        if (leftover != VB_LEFTOVER_WRAP)
            assert_int_equal(once + none, p->n);
    }
    vb_sampler_close(s);
    free(seen);
}

static void test_epochs_cover(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        uint32_t *group = random_groups(shapes[i].n, shapes[i].n_groups);
        uint32_t left;
        odd_groups(&shapes[i], group, &left);
        check_epoch(&shapes[i], group, VB_LEFTOVER_SMALL);
        check_epoch(&shapes[i], group, VB_LEFTOVER_WRAP);
        if (left < shapes[i].n)
            check_epoch(&shapes[i], group, VB_LEFTOVER_DROP);
        free(group);
    }
}

/* Five samples in batches of three: the second batch ends with the first sample again. */
static void test_wrap(void **state)
{
    (void)state;
    const uint32_t five[5] = { 0 }, two[2] = { 0 };
    uint32_t a[3], b[3], n;
    vb_sampler *s = open_sampler(five, 5, 1, 3, VB_LEFTOVER_WRAP, 11);

    assert_int_equal(vb_sampler_epoch_batches(s), 2);
    uint32_t order[5];
    vc_permutation(order, 5, 11, 0);
    vb_sampler_get(s, 0, a, &n);
    vb_sampler_get(s, 1, b, &n);
    const uint32_t *full = memcmp(a, order, sizeof a) ? b : a, *rest = full == a ? b : a;
    assert_memory_equal(full, order, 3 * sizeof *order);
    assert_int_equal(rest[0], order[3]);
    assert_int_equal(rest[1], order[4]);
    assert_int_equal(rest[2], order[0]);
    vb_sampler_close(s);

    s = open_sampler(two, 2, 1, 3, VB_LEFTOVER_WRAP, 11);      /* fewer samples than a batch */
    vb_sampler_get(s, 0, a, &n);
    assert_int_equal(n, 3);
    assert_int_equal(a[0], a[2]);
    assert_int_equal(a[0] + a[1], 1);
    vb_sampler_close(s);
}

/* The plan is computed by the definition in sampler.h, in a slow way. */
static void test_plan_as_defined(void **state)
{
    (void)state;
    enum { N = 60, GROUPS = 7, BATCH = 4 };
    uint32_t *group = random_groups(N, GROUPS);
    uint32_t order[N], list[GROUPS][BATCH], fill[GROUPS] = { 0 };
    uint32_t full[N][BATCH], part[GROUPS], n_full = 0, n_part = 0;
    const uint64_t seed = 77, epoch = 2;

    vc_permutation(order, N, seed, epoch);
    for (int i = 0; i < N; i++) {
        uint32_t g = group[order[i]];
        list[g][fill[g]++] = order[i];
        if (fill[g] == BATCH) {
            memcpy(full[n_full++], list[g], sizeof full[0]);
            fill[g] = 0;
        }
    }
    for (uint32_t g = 0; g < GROUPS; g++)
        if (fill[g])
            part[n_part++] = g;
    assert_true(n_part > 2 && n_full > 4);
    vc_draws d = vc_draws_of(seed, epoch, 1, VC_DRAW_ORDER);
    for (uint32_t i = n_part; i > 1; i--) {
        uint32_t j = vc_draw_int(&d, i), t = part[i - 1];
        part[i - 1] = part[j];
        part[j] = t;
    }

    vb_sampler *s = open_sampler(group, N, GROUPS, BATCH, VB_LEFTOVER_SMALL, seed);
    uint64_t per = vb_sampler_epoch_batches(s);
    assert_int_equal(per, n_full + n_part);
    for (uint64_t place = per; place-- > 0;) {
        uint32_t rows[BATCH], n;
        bool rest = n_part && (!n_full || vc_draw_int(&d, (uint32_t)place + 1) < n_part);
        vb_sampler_get(s, epoch * per + place, rows, &n);
        const uint32_t *want = rest ? list[part[--n_part]] : full[--n_full];
        assert_int_equal(n, rest ? fill[part[n_part]] : BATCH);
        assert_memory_equal(rows, want, n * sizeof *rows);
    }
    vb_sampler_close(s);
    free(group);
}

static void test_random_access(void **state)
{
    (void)state;
    uint32_t *group = random_groups(500, 9);
    vb_sampler *a = open_sampler(group, 500, 9, 8, VB_LEFTOVER_SMALL, 42);
    vb_sampler *b = open_sampler(group, 500, 9, 8, VB_LEFTOVER_SMALL, 42);
    vc_draws d = vc_draws_of(1, 0, 0, 0);
    uint64_t per = vb_sampler_epoch_batches(a);
    uint32_t (*plan)[8] = calloc(3 * per, sizeof *plan), *count = calloc(3 * per, sizeof *count);

    for (uint64_t m = 0; m < 3 * per; m++)
        vb_sampler_get(a, m, plan[m], &count[m]);
    for (int i = 0; i < 1000; i++) {
        uint64_t m = vc_draw_int(&d, (uint32_t)(3 * per));
        uint32_t rows[8], n;
        vb_sampler_get(b, m, rows, &n);
        assert_int_equal(n, count[m]);
        assert_memory_equal(rows, plan[m], n * sizeof *rows);
    }
    vb_sampler_close(a);
    vb_sampler_close(b);
    free(plan);
    free(count);
    free(group);
}

static void test_seeds_and_epochs_differ(void **state)
{
    (void)state;
    uint32_t *group = calloc(256, sizeof *group), rows[4][64], n;
    vb_sampler *a = open_sampler(group, 256, 1, 64, VB_LEFTOVER_SMALL, 1);
    vb_sampler *b = open_sampler(group, 256, 1, 64, VB_LEFTOVER_SMALL, 2);

    vb_sampler_get(a, 0, rows[0], &n);
    vb_sampler_get(b, 0, rows[1], &n);
    vb_sampler_get(a, 4, rows[2], &n);
    vb_sampler_get(a, 0, rows[3], &n);
    assert_memory_not_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_not_equal(rows[0], rows[2], sizeof rows[0]);
    assert_memory_equal(rows[0], rows[3], sizeof rows[0]);
    vb_sampler_close(a);
    vb_sampler_close(b);
    free(group);
}

/* A leftover batch is equally likely at every place of the epoch. */
static void test_leftovers_are_spread(void **state)
{
    (void)state;
    enum { EPOCHS = 4000, PLACES = 10 };
    uint32_t group[37], at[PLACES] = { 0 }, rows[4], n;
    for (uint32_t i = 0; i < 37; i++)
        group[i] = i >= 35;                     /* 8 batches and 3 samples, and 2 samples */
    vb_sampler *s = open_sampler(group, 37, 2, 4, VB_LEFTOVER_SMALL, 9);

    assert_int_equal(vb_sampler_epoch_batches(s), PLACES);
    for (uint64_t m = 0; m < (uint64_t)EPOCHS * PLACES; m++) {
        vb_sampler_get(s, m, rows, &n);
        at[m % PLACES] += n == 2;
    }
    for (int i = 0; i < PLACES; i++)            /* expected 400, standard deviation 19 */
        assert_between(at[i], 400 - 76, 400 + 76);
    vb_sampler_close(s);
}

static void test_refusals(void **state)
{
    (void)state;
    const uint32_t group[4] = { 0, 1, 1, 5 };
    static const struct { uint32_t n, groups, batch; vb_leftover leftover; const char *text; }
    rows[] = {
        { 0, 6, 2, VB_LEFTOVER_SMALL, "0 samples" },
        { 4, 0, 2, VB_LEFTOVER_SMALL, "0 groups" },
        { 4, 6, 0, VB_LEFTOVER_SMALL, "batches of 0" },
        { 4, 5, 2, VB_LEFTOVER_SMALL, "sample 3 is in group 5 of 5" },
        { 4, 6, 3, VB_LEFTOVER_DROP, "no group has 3 samples" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_sampler *s;
        vc_err err = { 0 };
        int rc = vb_sampler_open(&s, group, rows[i].n, rows[i].groups, rows[i].batch,
                                 rows[i].leftover, 0, &err);
        assert_int_equal(rc, VC_EINVAL);
        assert_null(s);
        assert_says(&err, rows[i].text);
    }
    vb_sampler *s = open_sampler(group, 4, 6, UINT32_MAX, VB_LEFTOVER_SMALL, 0);
    uint32_t n, few[4];
    assert_int_equal(vb_sampler_epoch_batches(s), 3);
    vb_sampler_get(s, UINT64_MAX, few, &n);
    assert_between(n, 1, 2);
    vb_sampler_close(s);
    vb_sampler_close(NULL);
}

static void test_million(void **state)
{
    (void)state;
    enum { N = 1000000 };
    uint32_t *group = random_groups(N, 300), rows[8], n;
    vb_sampler *s = open_sampler(group, N, 300, 8, VB_LEFTOVER_SMALL, 1);

    const clock_t began = clock();              /* of the processor: others may run beside */
    vb_sampler_get(s, 0, rows, &n);
    double ms = 1e3 * (double)(clock() - began) / CLOCKS_PER_SEC;
    print_message("plan of %d samples: %.0f ms\n", N, ms);
    assert_true(ms < 5000);                     /* sanitizers take a tenth of it */
    vb_sampler_close(s);
    free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_cover),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_plan_as_defined),
        cmocka_unit_test(test_random_access),
        cmocka_unit_test(test_seeds_and_epochs_differ),
        cmocka_unit_test(test_leftovers_are_spread),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
