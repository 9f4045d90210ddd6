/* test_ltx2_connector.c - LTX-2's connector of the video's prompt equals diffusers', of 2.0 and 2.3;
 * wrong configs and prompts are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/models/ltx2_connector.h"

enum { ROWS = 12 };                           /* as in scripts/golden/ltx2_connectors.py */

static const char *const versions[] = { "ltx2-connectors-20", "ltx2-connectors-23" };

static void open_connector(ref_model *m, ltx2_connector **c, const char *name, vc_dtype compute)
{
    vc_err err = { 0 };
    ref_open_parts(m, name, VC_BF16, compute);
    const vt_source src = vf_model_source(m->file);
    assert_ok(ltx2_connector_open(c, m->g, m->config, &src, ROWS, &err), &err);
}

/* The distance of the golden's prompt. */
static double error_of(const char *name, vc_dtype compute)
{
    ref_model m;
    ltx2_connector *c;
    vc_err err = { 0 };
    int64_t dim[8];
    int32_t length[2];
    vt_tensor *made[LTX2_CONNECTOR_MADE] = { NULL };

    open_connector(&m, &c, name, compute);
    float *features = golden_values(m.golden, "features", dim);
    float *want = golden_values(m.golden, "prompt", NULL);
    float *n = golden_values(m.golden, "length", NULL);
    const size_t count = (size_t)(dim[0] * dim[1] * dim[2]);
    float *have = malloc(count * sizeof *have);
    for (int i = 0; i < 2; i++)
        length[i] = (int32_t)n[i];
    assert_int_equal(dim[2], ltx2_connector_width(c));
    vt_step_begin(m.g, 0);
    vtrain_cond text = { .embeds = vt_from_host(m.g, VC_F32, 3, dim, features, VC_F32),
                         .length = length };
    ltx2_connector_prepare(m.g, c, &text, made);
    vt_tensor *y = ltx2_connector_run(m.g, c, text.embeds, made);
    assert_true(y && vt_to_host(m.g, y, have, &err) == 0);
    assert_ok(vt_step_end(m.g, &err), &err);
    double e = golden_error(have, want, (int64_t)count);
    free(features), free(want), free(n), free(have);
    ltx2_connector_close(c);
    ref_close(&m);
    return e;
}

static void equals_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        double e = error_of(versions[i], VC_F32), half = error_of(versions[i], VC_BF16);
        if (!(e <= 1e-5 && half <= 2e-2))
            fail_msg("%s: the errors are %.3g and %.3g", versions[i], e, half);
    }
}

static void refuses_configs(void **state)
{
    static const struct { const char *field; double value; const char *says; } rows[] = {
        { "video_connector_num_learnable_registers", 5, "must divide 12" },
        { "video_connector_num_layers", 3, "transformer_blocks.2.attn1.norm_q.weight" },
        { "rope_theta", 100, "rope_theta: 100" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ref_model m;
        ltx2_connector *c;
        vc_err err = { 0 };
        ref_open_parts(&m, versions[0], VC_BF16, VC_F32);
        const vt_source src = vf_model_source(m.file);
        cJSON_DeleteItemFromObject(m.config, rows[i].field);
        cJSON_AddNumberToObject(m.config, rows[i].field, rows[i].value);
        assert_true(ltx2_connector_open(&c, m.g, m.config, &src, ROWS, &err) < 0 && !c);
        assert_says(&err, rows[i].says);
        ref_close(&m);
    }
}

static void refuses_other_lengths(void **state)
{
    ref_model m;
    ltx2_connector *c;
    vc_err err = { 0 };
    vt_tensor *made[LTX2_CONNECTOR_MADE] = { NULL };
    const int32_t length[] = { 3 };

    (void)state;
    open_connector(&m, &c, versions[0], VC_F32);
    vt_step_begin(m.g, 0);
    vtrain_cond text = { .embeds = vt_new(m.g, VC_F32, 3, (int64_t[]){ 1, 8, 32 }),
                         .length = length };
    ltx2_connector_prepare(m.g, c, &text, made);
    assert_fails(vt_step_end(m.g, &err), VC_EINVAL, &err, "prompts of 8 rows, not 12");
    ltx2_connector_close(c);
    ref_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference), cmocka_unit_test(refuses_configs),
        cmocka_unit_test(refuses_other_lengths),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
