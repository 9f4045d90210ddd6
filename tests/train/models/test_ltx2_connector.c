/* test_ltx2_connector.c - LTX-2's connectors of the prompts of video and sound equal diffusers', of
 * 2.0 and 2.3; that of the video runs before the transformer; wrong configs and prompts are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/models/ltx/ltx2_connector.h"

enum { ROWS = 12 };                           /* as in scripts/golden/ltx2_connectors.py */

static const char *const versions[] = { "ltx2-connectors-20", "ltx2-connectors-23",
                                        "ltx2-connectors-wide" };

static void open_connector(ref_model *m, ltx2_connector **c, ltx2_connector_of of,
                           const char *name, vc_dtype compute)
{
    vc_err err = { 0 };
    ref_open_parts(m, name, VC_BF16, compute);
    const vt_source src = vf_model_source(m->file);
    assert_ok(ltx2_connector_open(c, m->g, of, m->config, &src, ROWS, &err), &err);
}

/* The distance of the golden's prompt. */
static double error_of(const char *name, ltx2_connector_of of, vc_dtype compute)
{
    const bool sound = of == LTX2_OF_SOUND;
    ref_model m;
    ltx2_connector *c;
    vc_err err = { 0 };
    int64_t dim[8];
    int32_t length[2];
    vt_tensor *made[LTX2_CONNECTOR_MADE] = { NULL };

    open_connector(&m, &c, of, name, compute);
    float *features = golden_values(m.golden, sound ? "sound_features" : "features", dim);
    float *want = golden_values(m.golden, sound ? "sound_prompt" : "prompt", NULL);
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
    for (int i = 0; i < 3 * LTX2_CONNECTORS; i++) {
        const char *name = versions[i / LTX2_CONNECTORS];
        const ltx2_connector_of of = (ltx2_connector_of)(i % LTX2_CONNECTORS);
        double e = error_of(name, of, VC_F32), half = error_of(name, of, VC_BF16);
        if (!(e <= 1e-5 && half <= 2e-2))
            fail_msg("%s, connector %d: the errors are %.3g and %.3g", name, of, e, half);
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
        assert_true(ltx2_connector_open(&c, m.g, LTX2_OF_VIDEO, m.config, &src, ROWS, &err) < 0 &&
                    !c);
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
    open_connector(&m, &c, LTX2_OF_VIDEO, versions[0], VC_F32);
    vt_step_begin(m.g, 0);
    vtrain_cond text = { .embeds = vt_new(m.g, VC_F32, 3, (int64_t[]){ 1, 8, 32 }),
                         .length = length };
    ltx2_connector_prepare(m.g, c, &text, made);
    assert_fails(vt_step_end(m.g, &err), VC_EINVAL, &err, "prompts of 8 rows, not 12");
    ltx2_connector_close(c);
    ref_close(&m);
}

/* ---- with the transformer ---- */

/* Opens the transformer of 2.0 and these connectors for it. */
static int open_both(ref_model *m, vf_model **file, const char *connectors, vc_err *err)
{
    vf_safetensors *golden = golden_open(connectors);
    cJSON *config = golden_json(golden, "config");
    const char *dir = golden_tmp(connectors);

    ref_open(m, &vtrain_ltx2, "ltx2-20", VC_BF16, VC_F32);
    golden_model(golden, dir, VC_BF16);
    assert_ok(vf_model_open(file, dir, err), err);
    int rc = vtrain_ltx2.open_beside(m->model, m->g, config, *file, err);
    cJSON_Delete(config);
    vf_safetensors_close(golden);
    return rc;
}

/* A batch of two prompts of 5 and 12 tokens, in LTX2_PROMPT_ROWS rows. */
static ref_case features_case(const ref_model *m)
{
    ref_case c;
    vf_safetensors *golden = golden_open(versions[0]);
    int64_t dim[8];
    float *features = golden_values(golden, "features", dim);
    const size_t row = (size_t)(dim[1] * dim[2]);

    ref_case_open(&c, m->golden, "base");
    free(c.text);
    c.text_dim[1] = LTX2_PROMPT_ROWS;
    c.text = calloc((size_t)(2 * LTX2_PROMPT_ROWS * dim[2]), sizeof(float));
    for (int i = 0; i < 2; i++) {
        memcpy(c.text + (size_t)(i * LTX2_PROMPT_ROWS * dim[2]), features + (size_t)i * row,
               row * sizeof(float));
        c.length[i] = i ? 12 : 5;
    }
    free(features);
    vf_safetensors_close(golden);
    return c;
}

/* Replaces a case's text by the connector's result. */
static void connect_text(const ref_model *m, const vf_model *file, ref_case *c)
{
    ltx2_connector *of;
    vc_err err = { 0 };
    vf_safetensors *golden = golden_open(versions[0]);
    cJSON *config = golden_json(golden, "config");
    const vt_source src = vf_model_source(file);
    vt_tensor *made[LTX2_CONNECTOR_MADE] = { NULL };

    assert_ok(ltx2_connector_open(&of, m->g, LTX2_OF_VIDEO, config, &src, LTX2_PROMPT_ROWS, &err),
              &err);
    vt_step_begin(m->g, 0);
    vtrain_cond text = { .embeds = vt_from_host(m->g, VC_F32, 3, c->text_dim, c->text, VC_F32),
                         .length = c->length };
    ltx2_connector_prepare(m->g, of, &text, made);
    vt_tensor *y = ltx2_connector_run(m->g, of, text.embeds, made);
    assert_true(y && vt_to_host(m->g, y, c->text, &err) == 0);
    assert_ok(vt_step_end(m->g, &err), &err);
    for (int i = 0; i < 2; i++)
        c->length[i] = LTX2_PROMPT_ROWS;
    ltx2_connector_close(of);
    cJSON_Delete(config);
    vf_safetensors_close(golden);
}

/* The transformer with its connector computes of features what it computes without one of the
 * connector's result, and its gradients are recomputed as without. */
static void runs_before_the_transformer(void **state)
{
    ref_model with, without;
    vf_model *file;
    vc_err err = { 0 };

    (void)state;
    assert_ok(open_both(&with, &file, versions[0], &err), &err);
    ref_open(&without, &vtrain_ltx2, "ltx2-20", VC_BF16, VC_F32);
    ref_case c = features_case(&with);
    const size_t n = (size_t)(c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4]);
    float *one = malloc(n * sizeof *one), *other = malloc(n * sizeof *other);
    float loss = ref_step(&with, &c, VT_RECOMPUTE, one);
    connect_text(&without, file, &c);
    assert_true(loss == ref_step(&without, &c, VT_RECOMPUTE, other));
    assert_memory_equal(one, other, n * sizeof *one);
    free(one), free(other);
    ref_case_close(&c);
    ref_close(&without);
    ref_close(&with);
    vf_model_close(file);
}

static void refuses_other_connectors(void **state)
{
    ref_model m;
    vf_model *file;
    vc_err err = { 0 };

    (void)state;
    assert_fails(open_both(&m, &file, versions[2], &err), VC_EMISMATCH, &err,
                 "prompts are 48 wide, but the transformer reads 32");
    ref_close(&m);
    vf_model_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference), cmocka_unit_test(refuses_configs),
        cmocka_unit_test(refuses_other_lengths), cmocka_unit_test(runs_before_the_transformer),
        cmocka_unit_test(refuses_other_connectors),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
