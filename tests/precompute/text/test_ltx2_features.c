/* test_ltx2_features.c - the features of a text that LTX-2's connectors read equal diffusers', of
 * 2.0 and 2.3; connectors of another text encoder are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/gemma/features.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { STATES = 7, CHANNELS = 32 };           /* as in scripts/golden/ltx2_connectors.py */

static const char *const versions[] = { "ltx2-connectors-20", "ltx2-connectors-23",
                                        "ltx2-connectors-wide" };

static vt_ctx *context(vc_dtype compute)
{
    const vt_options o = { .device = golden_device(), .threads = 1, .compute = compute };
    vc_err err = { 0 };
    vt_ctx *g;

    assert_ok(vt_open(&g, &o, &err), &err);
    return g;
}

/* Moves the states [n,C,L] of a text to [L,n,C]. */
static float *by_layer(const float *x, int n)
{
    float *to = malloc((size_t)(n * CHANNELS * STATES) * sizeof *to);

    for (int i = 0; i < n * CHANNELS * STATES; i++)
        to[(i % STATES) * n * CHANNELS + i / STATES] = x[i];
    return to;
}

/* The largest error of the features of both texts. */
static double error_of(const char *name, bool sound, vc_dtype compute)
{
    tf_fixture t = tf_open(name, VC_BF16);
    vt_ctx *g = context(compute);
    ltx2_features *f;
    vc_err err = { 0 };
    int64_t dim[8];
    double most = 0;

    assert_ok(ltx2_features_open(&f, g, t.dir, STATES, CHANNELS, sound, &err), &err);
    float *states = golden_values(t.gold, "states", NULL), *length = golden_values(t.gold, "length",
                                                                                   NULL);
    float *want = golden_values(t.gold, sound ? "both" : "features", dim);
    const int rows = (int)dim[1], width = (int)dim[2];
    assert_int_equal(ltx2_features_width(f), width);
    for (int b = 0; b < 2; b++) {
        const int n = (int)length[b];
        float *x = by_layer(states + b * rows * CHANNELS * STATES, n);
        float *have = malloc((size_t)(n * width) * sizeof *have);
        assert_ok(ltx2_features_make(f, x, n, have, &err), &err);
        double e = golden_error(have, want + b * rows * width, (int64_t)n * width);
        most = e > most ? e : most;
        free(x), free(have);
    }
    free(states), free(length), free(want);
    ltx2_features_close(f);
    vt_close(g);
    tf_close(&t);
    return most;
}

static void equals_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const char *name = versions[i / 2];
        double e = error_of(name, i % 2, VC_F32), half = error_of(name, i % 2, VC_BF16);
        if (!(e <= 1e-5 && half <= 2e-2))
            fail_msg("%s: the errors are %.3g and %.3g", name, e, half);
    }
}

static void versions_are_told_apart(void **state)
{
    vf_key key[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        tf_fixture t = tf_open(versions[i], VC_BF16);
        vt_ctx *g = context(VC_F32);
        ltx2_features *f;
        vf_hasher h;
        vc_err err = { 0 };
        assert_ok(ltx2_features_open(&f, g, t.dir, STATES, CHANNELS, false, &err), &err);
        vf_hasher_begin(&h, "test");
        assert_ok(ltx2_features_hash(f, &h, &err), &err);
        key[i] = vf_hasher_end(&h);
        ltx2_features_close(f);
        vt_close(g);
        tf_close(&t);
    }
    assert_memory_not_equal(key[0].b, key[1].b, sizeof key[0].b);
}

static void refuses_another_text_encoder(void **state)
{
    tf_fixture t = tf_open(versions[0], VC_BF16);
    vt_ctx *g = context(VC_F32);
    ltx2_features *f;
    vc_err err = { 0 };

    (void)state;
    int rc = ltx2_features_open(&f, g, t.dir, STATES + 1, CHANNELS, false, &err);
    assert_fails(rc, VC_EMISMATCH, &err, "text_proj_in_factor: 7");
    assert_null(f);
    char *config = tf_changed(&t, "proj_bias", "true");
    tf_put_config(&t, config);
    rc = ltx2_features_open(&f, g, t.dir, STATES, CHANNELS, false, &err);
    assert_fails(rc, VC_ENOENT, &err, "text_proj_in.bias");
    free(config);
    vt_close(g);
    tf_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference), cmocka_unit_test(versions_are_told_apart),
        cmocka_unit_test(refuses_another_text_encoder),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
