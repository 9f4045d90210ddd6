/* test_dit.c - the built-in transformer: gradients equal finite differences, padding does not
 * count, recomputed blocks have the same bits, a LoRA equals folded weights; and one model has
 * blocks of several kinds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/adapters/adapter.h"
#include "common/base/rng.h"
#include "tests/lib/ok.h"
#include "train/models/dit.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { B = 2, C = 2, F = 2, H = 4, W = 6, TEXT = 6, N_TEXT = 3 };
enum { LATENT = B * C * F * H * W, EMBEDS = B * N_TEXT * TEXT };
enum { TOKENS = F * (H / 2) * (W / 2) };
enum { MAX_PARAM = 256 * 16 * 8 };

typedef struct tiny {
    vt_ctx *g;
    vt_params *params;
    void *model;
    float x[LATENT], target[LATENT], embeds[EMBEDS], t[B], token_t[B * TOKENS], guidance[B];
    bool by_token, guided;                          /* the forward gets token_t, guidance */
    int32_t length[B];
} tiny;

static cJSON *config_of(const char *text)
{
    cJSON *o;
    vc_err err = { 0 };
    assert_ok(vf_json_parse(&o, text, strlen(text), &err), &err);
    return o;
}

static const char good_config[] =
    "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":2,\"num_attention_heads\":2,"
    "\"attention_head_dim\":8,\"text_embed_dim\":6,\"rope_theta\":100}";

static const char guided_config[] =
    "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":1,\"num_attention_heads\":2,"
    "\"attention_head_dim\":8,\"text_embed_dim\":6,\"rope_theta\":100,"
    "\"guidance_embeds\":true}";

/* Makes all parameters random, since the zeros of a fresh model would make gradients zero. */
static void randomise(vt_params *p)
{
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_tensor *t = vt_params_at(p, i)->t;
        float *v = t->data;
        for (int64_t k = 0; k < vt_count(t); k++)
            v[k] = (float)(vc_train_unit(7, (uint32_t)k, (uint32_t)i, 0, 0) - 0.5) *
                   (t->nd == 1 ? 1.0f : 0.8f);
    }
}

static void fill(float *v, size_t n, uint32_t purpose)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(2 * vc_train_unit(3, (uint32_t)i, 0, 0, purpose) - 1);
}

static void open_config(tiny *m, vc_dtype compute, const char *text)
{
    const vt_options o = { .device = "cpu", .threads = 2, .compute = compute };
    const vt_source src = { .seed = 1 };
    cJSON *config = config_of(text);
    vc_err err = { 0 };
    memset(m, 0, sizeof *m);
    assert_ok(vt_open(&m->g, &o, &err) || vt_params_open(&m->params, m->g, &err) ||
              vtrain_dit_open(&m->model, &vtrain_builtin, config, m->params, &src, &err), &err);
    cJSON_Delete(config);
    randomise(m->params);
    fill(m->x, LATENT, 1);
    fill(m->target, LATENT, 2);
    fill(m->embeds, EMBEDS, 3);
    m->t[0] = 300;
    m->t[1] = 750;
    m->length[0] = N_TEXT;
    m->length[1] = N_TEXT;
}

static void tiny_open(tiny *m, vc_dtype compute)
{
    open_config(m, compute, good_config);
}

static void tiny_close(tiny *m)
{
    vtrain_dit_close(m->model);
    vt_params_close(m->params);
    vt_close(m->g);
}

static vt_tensor *forward(tiny *m, vt_remat remat)
{
    const int64_t dim[5] = { B, C, F, H, W }, text[3] = { B, N_TEXT, TEXT }, rows = B;
    const int64_t tokens[2] = { B, TOKENS };
    vtrain_in in = {
        .x = vt_from_host(m->g, VC_F32, 5, dim, m->x, VC_F32),
        .t = vt_from_host(m->g, VC_F32, 1, &rows, m->t, VC_F32),
        .token_t = m->by_token ? vt_from_host(m->g, VC_F32, 2, tokens, m->token_t, VC_F32) : NULL,
        .guidance = m->guided ? vt_from_host(m->g, VC_F32, 1, &rows, m->guidance, VC_F32) : NULL,
        .n_texts = 1, .recompute = { remat == VT_KEEP ? 0 : 1000, remat },
        .text = { { .embeds = vt_from_host(m->g, VC_F32, 3, text, m->embeds, VC_F32),
                    .length = m->length } },
    };
    return vtrain_forward(m->g, m->model, &in, NULL);
}

static void output(tiny *m, float out[LATENT])
{
    vc_err err = { 0 };
    vt_step_begin(m->g, 0);
    vt_tensor *y = forward(m, VT_KEEP);
    assert_ok(y && vt_to_host(m->g, y, out, &err), &err);
    assert_ok(vt_step_end(m->g, &err), &err);
}

static double loss(tiny *m)
{
    float out[LATENT];
    double sum = 0;
    output(m, out);
    for (int i = 0; i < LATENT; i++)
        sum += ((double)out[i] - (double)m->target[i]) * ((double)out[i] - (double)m->target[i]);
    return sum / LATENT;
}

static void backward(tiny *m, vt_remat remat)
{
    const int64_t dim[5] = { B, C, F, H, W };
    vc_err err = { 0 };
    vt_params_zero_grad(m->params);
    vt_step_begin(m->g, VT_RECORD);
    vt_tensor *y = forward(m, remat);
    vt_backward(m->g, vt_mse(m->g, y, vt_from_host(m->g, VC_F32, 5, dim, m->target, VC_F32), NULL));
    assert_ok(vt_step_end(m->g, &err), &err);
    vt_params_settle(m->params);
}

/* Compares the derivative along a random direction of one parameter with a four-point difference.
 * The loss has an f32 error of about 5e-7, which is 2e-5 of the derivative with this step;
 * curvature adds an error in the fourth power of the step. */
static void check_gradient(tiny *m, const vt_param *p, uint32_t which)
{
    static const double at[4] = { 2, 1, -1, -2 }, weight[4] = { -1, 8, -8, 1 };
    const double step = 2e-2;
    size_t n = (size_t)vt_count(p->t);
    float *v = p->t->data, d[MAX_PARAM], old[MAX_PARAM];
    const float *grad = p->grad->data;
    double along = 0, size = 0, difference = 0;

    assert_true(n <= MAX_PARAM);
    memcpy(old, v, n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        d[i] = (vc_train_unit(11, (uint32_t)i, which, 0, 0) < 0.5 ? -1.0f : 1.0f) / sqrtf((float)n);
        along += (double)grad[i] * (double)d[i];
        size += (double)grad[i] * (double)grad[i];
    }
    for (int point = 0; point < 4; point++) {
        for (size_t i = 0; i < n; i++)
            v[i] = old[i] + (float)(at[point] * step) * d[i];
        difference += weight[point] * loss(m) / (12 * step);
    }
    memcpy(v, old, n * sizeof *v);
    if (!(fabs(difference - along) <= 1e-2 * sqrt(size / (double)n) + 6e-5))
        fail_msg("%s: gradient %.7g, differences %.7g", p->name, along, difference);
}

static void test_gradients(void **state)
{
    (void)state;
    tiny m;
    tiny_open(&m, VC_F32);
    m.length[1] = 2;
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    backward(&m, VT_KEEP);
    for (int i = 0; i < vt_params_count(m.params); i++)
        check_gradient(&m, vt_params_at(m.params, i), (uint32_t)i);
    tiny_close(&m);
}

/* Recomputed blocks make the same bits. */
static void test_recompute(void **state)
{
    (void)state;
    tiny m;
    tiny_open(&m, VC_F32);
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    backward(&m, VT_KEEP);
    int n = vt_params_count(m.params);
    float **kept = calloc((size_t)n, sizeof *kept);
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)vt_count(vt_params_at(m.params, i)->t) * sizeof(float);
        kept[i] = malloc(bytes);
        memcpy(kept[i], vt_params_at(m.params, i)->grad->data, bytes);
    }
    for (int how = VT_RECOMPUTE; how <= VT_KEEP_ATTENTION; how++) {
        backward(&m, (vt_remat)how);
        for (int i = 0; i < n; i++) {
            const vt_param *p = vt_params_at(m.params, i);
            assert_memory_equal(kept[i], p->grad->data, (size_t)vt_count(p->t) * sizeof(float));
        }
    }
    for (int i = 0; i < n; i++)
        free(kept[i]);
    free(kept);
    tiny_close(&m);
}

static double distance(const float *a, const float *b, int n)
{
    double d = 0;
    for (int i = 0; i < n; i++)
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
    return d;
}

/* ---- a timestep for each token ---- */

/* Sets the times of a clip with a clean first frame. */
static void set_token_times(tiny *m)
{
    m->by_token = true;
    for (int i = 0; i < B * TOKENS; i++)
        m->token_t[i] = i % TOKENS < TOKENS / F ? 0 : m->t[i / TOKENS];
}

static void test_token_gradients(void **state)
{
    (void)state;
    tiny m;
    tiny_open(&m, VC_F32);
    m.length[1] = 2;
    set_token_times(&m);
    assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
    backward(&m, VT_RECOMPUTE);
    for (int i = 0; i < vt_params_count(m.params); i++)
        check_gradient(&m, vt_params_at(m.params, i), (uint32_t)i);
    tiny_close(&m);
}

/* Products of B rows and of B TOKENS rows have different kernels, which sum in another order;
 * outputs are below 8. */
#define SUM_ORDER 1e-5f

/* The output with the row's timestep for each token equals the output with one timestep per row. */
static void test_token_times_alike(void **state)
{
    (void)state;
    tiny m;
    float rows[LATENT], tokens[LATENT];
    tiny_open(&m, VC_F32);
    m.length[1] = 2;
    output(&m, rows);
    set_token_times(&m);
    for (int i = 0; i < B * TOKENS; i++)
        m.token_t[i] = m.t[i / TOKENS];
    output(&m, tokens);
    assert_true(distance(rows, tokens, LATENT) < SUM_ORDER);
    tiny_close(&m);
}

/* Removes attention, which alone makes a token depend on another token's time. */
static void cut_attention(const tiny *m)
{
    for (int i = 0; i < vt_params_count(m->params); i++) {
        const vt_param *p = vt_params_at(m->params, i);
        if (strstr(p->name, "attn.to_out"))
            memset(p->t->data, 0, (size_t)vt_count(p->t) * sizeof(float));
    }
}

/* The token, among those of all rows, of element i of the latents [B,C,F,H,W]. */
static int token_of(int i)
{
    int w = i % W, h = i / W % H, f = i / W / H % F, row = i / (C * F * H * W);
    return row * TOKENS + (f * (H / 2) + h / 2) * (W / 2) + w / 2;
}

/* Without attention, each token is the same as if its whole row had the token's timestep. */
static void test_token_times_apart(void **state)
{
    (void)state;
    static const float times[2] = { 100, 900 };
    tiny m;
    float alike[2][LATENT], mixed[LATENT];
    tiny_open(&m, VC_F32);
    cut_attention(&m);
    for (int k = 0; k < 2; k++) {
        m.t[0] = m.t[1] = times[k];
        output(&m, alike[k]);
    }
    m.by_token = true;
    for (int i = 0; i < B * TOKENS; i++)
        m.token_t[i] = times[i % 3 == 0];
    output(&m, mixed);
    for (int i = 0; i < LATENT; i++) {
        const float want = alike[token_of(i) % 3 == 0][i], other = alike[token_of(i) % 3 != 0][i];
        assert_true(fabsf(mixed[i] - want) < SUM_ORDER && fabsf(mixed[i] - other) > 1e-3f);
    }
    tiny_close(&m);
}

/* A row's output depends on its text up to its length, its time and its latents, and on nothing
 * else. */
static void test_dependence(void **state)
{
    (void)state;
    tiny m;
    float y0[LATENT], y1[LATENT];
    const int row = LATENT / B;
    tiny_open(&m, VC_F32);
    m.length[1] = 2;
    output(&m, y0);
    m.embeds[EMBEDS - 1] += 9;                      /* padding of row 1 */
    output(&m, y1);
    assert_true(distance(y0, y1, LATENT) == 0);
    m.embeds[EMBEDS - TEXT - 1] += 9;               /* the last token of row 1 */
    output(&m, y1);
    assert_true(distance(y0, y1, row) == 0);
    assert_true(distance(y0 + row, y1 + row, row) > 1e-3);
    m.t[0] += 100;
    output(&m, y1);
    assert_true(distance(y0, y1, row) > 1e-3);
    tiny_close(&m);
}

/* ---- guidance as an input ---- */

static void guided_open(tiny *m)
{
    open_config(m, VC_F32, guided_config);
    m->guided = true;
    m->guidance[0] = 1;
    m->guidance[1] = 3.5f;
}

static void test_guidance_gradients(void **state)
{
    (void)state;
    for (int by_token = 0; by_token < 2; by_token++) {
        tiny m;
        int embedders = 0;
        guided_open(&m);
        if (by_token)
            set_token_times(&m);
        assert_int_equal(vt_params_train(m.params, NULL, NULL, NULL), 0);
        backward(&m, VT_KEEP);
        for (int i = 0; i < vt_params_count(m.params); i++) {
            const vt_param *p = vt_params_at(m.params, i);
            if (strncmp(p->name, "guidance_embed.", 15))
                continue;
            check_gradient(&m, p, (uint32_t)i);
            embedders++;
        }
        assert_int_equal(embedders, 4);
        tiny_close(&m);
    }
}

/* A row's guidance changes this row alone. */
static void test_guidance_by_row(void **state)
{
    (void)state;
    tiny m;
    float before[LATENT], after[LATENT];
    const int row = LATENT / B;
    guided_open(&m);
    output(&m, before);
    m.guidance[1] = 6;
    output(&m, after);
    assert_true(distance(before, after, row) == 0);
    assert_true(distance(before + row, after + row, row) > 1e-3);
    tiny_close(&m);
}

/* The output of a picture that is moved by a patch is not the moved output: positions count. */
static void test_positions(void **state)
{
    (void)state;
    tiny m;
    float y0[LATENT], y1[LATENT];
    tiny_open(&m, VC_F32);
    for (int i = 0; i < LATENT; i++)
        m.x[i] = 0;
    output(&m, y0);
    for (int i = 0; i + 2 < W; i++)                 /* columns of a constant input differ */
        y1[i] = y0[i + 2];
    assert_true(distance(y0, y1, W - 2) > 1e-4);
    tiny_close(&m);
}

static void test_bf16(void **state)
{
    (void)state;
    tiny m;
    float exact[LATENT], rounded[LATENT];
    tiny_open(&m, VC_F32);
    output(&m, exact);
    tiny_close(&m);
    tiny_open(&m, VC_BF16);
    output(&m, rounded);
    tiny_close(&m);
    double size = 0;
    for (int i = 0; i < LATENT; i++)
        size = fmax(size, fabs((double)exact[i]));
    double d = distance(exact, rounded, LATENT);
    assert_true(d > 0 && d < 0.05 * size);          /* 8 bits of mantissa in two blocks */
}

/* ---- LoRA ---- */

static bool is_q(void *arg, const char *module)
{
    (void)arg;
    return strstr(module, "to_q") || strstr(module, "net.2");
}

static void test_lora(void **state)
{
    (void)state;
    tiny m;
    float base[LATENT], fresh[LATENT], trained[LATENT], merged[LATENT];
    int matched;
    vc_err err = { 0 };
    tiny_open(&m, VC_F32);
    output(&m, base);
    assert_int_equal(vt_params_lora(m.params, is_q, NULL, 4, 8, 5, &matched, &err), 0);
    assert_int_equal(matched, 4);
    output(&m, fresh);                              /* B is zero */
    assert_true(distance(base, fresh, LATENT) == 0);

    for (int i = 0; i < vt_params_count(m.params); i++) {
        vt_param *p = vt_params_at(m.params, i);
        if (p->role == VT_P_LORA_B)
            fill(p->t->data, (size_t)vt_count(p->t), 40 + (uint32_t)i);
    }
    output(&m, trained);
    assert_true(distance(base, trained, LATENT) > 0.01);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        vt_param *p = vt_params_at(m.params, i);
        if (p->role != VT_P_LORA_A)
            continue;
        vt_lin *l = p->lin;
        assert_true(l->lora_scale == 2);
        vtrain_lora_merge(l->w->data, l->w->dim[0], l->w->dim[1], l->lora_a->data,
                          l->lora_b->data, 4, (double)l->lora_scale);
        memset(l->lora_b->data, 0, (size_t)vt_count(l->lora_b) * sizeof(float));
    }
    output(&m, merged);
    assert_true(distance(trained, merged, LATENT) < 2e-5);
    tiny_close(&m);
}

/* ---- kinds of blocks ---- */

typedef struct kinds { vtrain_dit dit; } kinds;
typedef struct step_weights { vt_tensor *w; } step_weights;
typedef struct twice_weights { float unused[5]; vt_tensor *w; } twice_weights;

static const vt_weight no_table[] = { { 0 } };
static const vt_weight step_table[] = {
    { "w", VT_W_TENSOR, offsetof(step_weights, w), { 1 }, VT_INIT_ONE }, { 0 }
};
static const vt_weight twice_table[] = {
    { "w", VT_W_TENSOR, offsetof(twice_weights, w), { 1 }, VT_INIT_ONE }, { 0 }
};

static int kinds_read(void *model, const cJSON *config, vc_err *err)
{
    kinds *m = model;
    (void)err;
    for (int k = 0; k < VTRAIN_KINDS; k++)
        m->dit.layers[k] = cJSON_GetArrayItem(config, k)->valueint;
    return 0;
}

static void kinds_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[0] = s[1] = vt_scale(g, in->x, 1);
}

/* Makes x + w, and leaves the second input. */
static void add_step(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                     vt_tensor **out)
{
    (void)model;
    out[0] = vt_add(g, in[0], ((const step_weights *)weights)->w);
}

/* Makes 2 * x, and the second input + w. */
static void double_it(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                      vt_tensor **out)
{
    (void)model;
    out[0] = vt_scale(g, in[0], 2);
    out[1] = vt_add(g, in[1], ((const twice_weights *)weights)->w);
}

static vt_tensor *kinds_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    (void)model;
    (void)in;
    return vt_add(g, s[0], vt_scale(g, s[1], 100));
}

static const vtrain_family kinds_family = {
    .class_name = "Kinds", .size = sizeof(kinds), .table = no_table, .read = kinds_read,
    .embed = kinds_embed,
    .blocks = { { "a.%d.", step_table, sizeof(step_weights), 1, 1, add_step, NULL, NULL },
                { "a.%d.", twice_table, sizeof(twice_weights), 2, 2, double_it, NULL, NULL },
                { "b.%d.", step_table, sizeof(step_weights), 1, 1, add_step, NULL, NULL } },
    .head = kinds_head,
};

/* Kinds run in their order. The numbers in names continue while the prefix stays, and the index of
 * a block always does. */
static const struct {
    const char *layers, *names[5];
    float result;                             /* the output for x = 1 */
} kind_cases[] = {
    { "[2,1,2]", { "a.0.w", "a.1.w", "a.2.w", "b.0.w", "b.1.w" }, 6 + 2 + 200 },
    { "[0,2,1]", { "a.0.w", "a.1.w", "b.0.w" }, 4 + 1 + 300 },
    { "[2,0,2]", { "a.0.w", "a.1.w", "b.0.w", "b.1.w" }, 5 + 100 },
    { "[1,0,0]", { "a.0.w" }, 2 + 100 },
};

static void test_kinds(void **state)
{
    const vt_options o = { .device = "cpu", .threads = 1, .compute = VC_F32 };
    const vt_source src = { .seed = 1 };
    const int64_t one = 1;
    const float x = 1;
    (void)state;
    for (size_t i = 0; i < COUNT(kind_cases); i++) {
        cJSON *config = config_of(kind_cases[i].layers);
        vt_ctx *g;
        vt_params *p;
        void *model;
        float y = 0;
        OK(vt_open(&g, &o, &err) || vt_params_open(&p, g, &err) ||
           vtrain_dit_open(&model, &kinds_family, config, p, &src, &err));
        for (int k = 0; k < vt_params_count(p); k++) {
            assert_string_equal(vt_params_at(p, k)->name, kind_cases[i].names[k]);
            assert_int_equal(vt_params_at(p, k)->block, k);
        }
        assert_true(vt_params_count(p) == 5 || !kind_cases[i].names[vt_params_count(p)]);
        vt_step_begin(g, 0);
        vtrain_in in = { .x = vt_from_host(g, VC_F32, 1, &one, &x, VC_F32) };
        OK(vt_to_host(g, vtrain_dit_forward(g, model, &in, NULL), &y, &err));
        OK(vt_step_end(g, &err));
        assert_true(y == kind_cases[i].result);
        vtrain_dit_close(model);
        vt_params_close(p);
        vt_close(g);
        cJSON_Delete(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),  cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_token_gradients), cmocka_unit_test(test_token_times_alike),
        cmocka_unit_test(test_token_times_apart), cmocka_unit_test(test_guidance_gradients),
        cmocka_unit_test(test_guidance_by_row),
        cmocka_unit_test(test_dependence), cmocka_unit_test(test_positions),
        cmocka_unit_test(test_bf16),       cmocka_unit_test(test_lora),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
