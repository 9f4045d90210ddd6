/* test_ttt_model.c - CogVideoX with TTT layers equals the first authors' program: outputs, losses
 * and every gradient, of one segment and of several, and ten steps; recomputed blocks and dry steps
 * are right; weights of CogVideoX get the authors' names, the others their first values; wrong
 * configs and batches are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/models/weights.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const ref_variant variants[] = {
    { "ttt-mlp", { "one", "off" }, 0 },
    { "ttt-mlp-one", { NULL }, 0 },
    { "ttt-linear", { "one" }, 0 },
    { "ttt-linear-compat", { NULL }, 0 },
    { "ttt-mlp-compat", { "one" }, 0 },
};

/* The promise for f32 is 1e-4; sums in another order differ by 2e-6. In bf16 outputs differ by 6e-3
 * and gradients, in the mean square, by up to 8e-3; the authors' own bf16 differs by up to 9e-2
 * from its f32. */
static ref_suite suite = {
    .family = &vtrain_ttt, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 2e-2, 1e-2, true },
};

/* All errors but those of k_norm.bias, whose gradients are rounding errors, are below 1e-2. */
static void test_steps(void **state)
{
    (void)state;
    ref_check_steps(&vtrain_ttt, "ttt-steps", 3e-2);
}

/* ---- weights of CogVideoX ---- */

/* Checks that the parameter `ours` has the values that the file has under the name `theirs`. */
static void check_value(const ref_model *m, const char *ours, const char *theirs)
{
    const vt_param *p = vt_params_find(m->params, ours);
    if (!p)
        fail_msg("%s is no parameter", ours);
    float *x = ref_read(m, p->t);
    for (int64_t i = 0; i < vt_count(p->t); i++)
        if (x[i] != golden_fill(theirs, p->t->nd, p->t->dim, i))
            fail_msg("%s has other values than %s", ours, theirs);
    free(x);
}

/* The mean and the deviation of a parameter's values, and the largest absolute value. */
static void moments(const ref_model *m, const char *name, double of[3])
{
    const vt_param *p = vt_params_find(m->params, name);
    int64_t n = vt_count(p->t);
    float *x = ref_read(m, p->t);
    of[0] = of[1] = of[2] = 0;
    for (int64_t i = 0; i < n; i++) {
        of[0] += (double)x[i] / (double)n;
        of[2] = fmax(of[2], fabs((double)x[i]));
    }
    for (int64_t i = 0; i < n; i++)
        of[1] += ((double)x[i] - of[0]) * ((double)x[i] - of[0]) / (double)n;
    of[1] = sqrt(of[1]);
    free(x);
}

#define TTT "dit.layers.1.seq_modeling_block.ssm.ttt."
/* Means and deviations, which have an error of 1/sqrt(n), and bounds of values. D is 32. */
static const struct { const char *name; double mean, deviation, most; } drawn[] = {
    { TTT "wq.weight", 0, 0.02, 0.1 },
    { TTT "wo.weight", 0, 0.02, 0.1 },
    { TTT "W1", 0, 0.02, 0.1 },
    { TTT "W2", 0, 0.02, 0.1 },
    { TTT "wv.bias", 0, 0.102, 0.1768 },       /* uniform within 1/sqrt(32) */
    { TTT "learnable_ttt_lr_bias", 0, 0, 0 },
    { TTT "b1", 0, 0, 0 },
    { TTT "ttt_norm_weight", 1, 0, 1 },
    { TTT "post_norm.bias", 0, 0, 0 },
    { "dit.layers.1.seq_modeling_block.backward_ssm_gating_text.gating_alpha", 0.1, 0, 0.1001 },
};

static void test_weights(void **state)
{
    static const vtrain_ssm want = { .layer = 2 };       /* ttt_mlp */
    ref_model m;
    vtrain_weights *w;
    cJSON *names, *config;
    const cJSON *name;
    int n = 0;
    (void)state;
    ref_open_parts(&m, "ttt-names", VC_F32, VC_F32);
    const char *text = vf_safetensors_meta(m.golden, "names");
    OK(vf_json_parse(&names, text, strlen(text), &err));
    OK(vtrain_weights_open(&w, NULL, "transformer", golden_tmp("ttt-names"), VC_DTYPE_NONE, &err));
    OK(vtrain_weights_family(w, &vtrain_ttt, &err));
    config = cJSON_Duplicate(vtrain_weights_config(w), true);
    OK(vtrain_ttt.ssm(config, &want, &err));
    vt_source src = vtrain_weights_source(w, false);
    src.seed = 5;
    OK(vtrain_dit_open(&m.model, &vtrain_ttt, config, m.params, &src, &err));
    OK(vtrain_weights_check(w, m.params, &err));
    assert_true(cJSON_GetObjectItem(config, "norm_eps")->valuedouble == 1e-6);
    assert_int_equal(cJSON_GetObjectItem(config, "mini_batch_size")->valueint, 64);
    cJSON_ArrayForEach(name, names) {
        check_value(&m, name->valuestring, name->string);
        n++;
    }
    assert_int_equal(n, 64);
    for (size_t i = 0; i < COUNT(drawn); i++) {
        double is[3];
        moments(&m, drawn[i].name, is);
        if (fabs(is[0] - drawn[i].mean) > 0.02 + 0.2 * drawn[i].deviation ||
            fabs(is[1] - drawn[i].deviation) > 0.2 * drawn[i].deviation + 1e-6 ||
            is[2] > drawn[i].most)
            fail_msg("%s: mean %g, deviation %g, up to %g", drawn[i].name, is[0], is[1], is[2]);
    }
    vtrain_dit_close(m.model);
    m.model = NULL;
    vt_params_close(m.params);
    m.params = NULL;
    vtrain_weights_close(w);
    cJSON_Delete(config);
    cJSON_Delete(names);
    ref_close(&m);
}

/* ---- refused ---- */

static const ref_refusal bad_models[] = {
    { "{\"ssm_layer\":\"mamba\"}", "ssm_layer: \"mamba\"" },
    { "{\"mini_batch_size\":-1}", "mini_batch_size" },
    { "{\"ttt_base_lr\":-1}", "ttt_base_lr" },
    { "{\"use_rotary_positional_embeddings\":false}", "must be true" },
    { "{\"patch_size_t\":2}", "patch_size_t absent" },
    { "{\"in_channels\":8}", "in_channels equal to" },
    { "{\"ssm_layer\":\"ttt_linear\"}",
      "tensor \"dit.layers.0.seq_modeling_block.ssm.ttt.W1\" is [2,16,64], [2,16,16]" },
};

static void test_bad_models(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_ttt, "ttt-mlp", bad_models, COUNT(bad_models));
}

static const struct { int64_t f, tokens; const char *says; } bad_inputs[] = {
    { 13, 2, NULL },
    { 1, 2, "latents of 1 frames" },
    { 24, 4, "latents of 24 frames: TTT layers read segments of 12 latent frames" },
    { 25, 3, "prompts of 3 tokens for 2 segments" },
    { 13, 11, "13 latent frames of 6 tokens and 1 prompts of 11 tokens are a sequence of 89 "
              "tokens, which is no multiple of --mini_batch_size 8: prompts of 10 tokens fit "
              "(vprep --tokenizer_max_length 10)" },
    { 25, 4, "2 prompts of 2 tokens are a sequence of 154 tokens, which is no multiple of "
             "--mini_batch_size 8: prompts of 1 tokens fit" },
    { 24, 4, "give clips of 25 latent frames (97 pixel frames)" },
    { 37, 3, "3 prompts of 1 tokens are a sequence of 225 tokens, which is no multiple of "
             "--mini_batch_size 8: prompts of 6 tokens fit" },
};

static void test_bad_inputs(void **state)
{
    static float zero[4 * 37 * 4 * 6];
    (void)state;
    for (size_t i = 0; i < COUNT(bad_inputs); i++) {
        ref_case c = { .dim = { 1, 4, bad_inputs[i].f, 4, 6 },
                       .text_dim = { 1, bad_inputs[i].tokens, 12 }, .x = zero, .t = zero,
                       .text = zero, .length = { (int32_t)bad_inputs[i].tokens } };
        ref_check_input(&vtrain_ttt, "ttt-mlp", &c, bad_inputs[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite),
        cmocka_unit_test(test_steps), cmocka_unit_test(test_weights),
        cmocka_unit_test(test_bad_models), cmocka_unit_test(test_bad_inputs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
