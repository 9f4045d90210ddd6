/* ltx2_connector.c - LTX-2's connectors of prompts: see ltx2_connector.h */
#include "train/models/ltx/ltx2_connector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/nn/attention.h"
#include "formats/json/config.h"

#define EPS 1e-6f
#define THETA 10000.0

/* Begins of the names of a modality's fields and tensors. */
static const char *const names[LTX2_CONNECTORS] = { "video_connector.", "audio_connector." };

enum { MAX_LAYERS = 64, MLP = 4 };
enum { D = -1, HIDDEN = -2, GATES = -3, REGISTERS = -4, N_SIZES = 5 };

typedef struct block {
    nn_attention attn;
    vt_lin up, down;
} block;

struct ltx2_connector {
    vt_ctx *g;
    vt_params *params;
    int64_t heads, head, layers, registers, base, rows;
    bool gated, exact;
    int rope;
    ltx2_connector_of of;
    vt_tensor *table;                         /* [registers,D] */
    vt_tensor *rotation[2];                   /* cosines and sines [rows,D/2] */
    block block[MAX_LAYERS];
};

enum rope { INTERLEAVED, SPLIT };

#define FIELDS(of) { \
    VF_ONLY("_class_name", "LTX2TextConnectors", "LTX2TextConnectors"), \
    VF_INT(ltx2_connector, heads, of "_connector_num_attention_heads", 30, 1, 256), \
    VF_INT(ltx2_connector, head, of "_connector_attention_head_dim", 128, 8, 256), \
    VF_INT(ltx2_connector, layers, of "_connector_num_layers", 2, 1, MAX_LAYERS), \
    VF_INT(ltx2_connector, registers, of "_connector_num_learnable_registers", 128, 1, 4096), \
    VF_INT(ltx2_connector, base, "connector_rope_base_seq_len", 4096, 1, 1 << 20), \
    VF_FLAG(ltx2_connector, gated, of "_gated_attn", false), \
    VF_FLAG(ltx2_connector, exact, "rope_double_precision", true), \
    VF_WORD(ltx2_connector, rope, "rope_type", "interleaved", "interleaved|split"), \
    VF_ONLY_NUM("rope_theta", THETA), \
    { 0 } \
}
static const vf_config_row fields_video[] = FIELDS("video"), fields_sound[] = FIELDS("audio");
static const vf_config_row *const fields[LTX2_CONNECTORS] = { fields_video, fields_sound };

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(block, field), { out, in }, VT_INIT_XAVIER }
#define NORM(field, name) \
    { name, VT_W_TENSOR, offsetof(block, field), { D }, VT_INIT_ONE }
static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    NORM(attn.norm_q.w, "attn1.norm_q.weight"), NORM(attn.norm_k.w, "attn1.norm_k.weight"),
    LIN(attn.q, "attn1.to_q", D, D), LIN(attn.k, "attn1.to_k", D, D),
    LIN(attn.v, "attn1.to_v", D, D), LIN(attn.gate, "attn1.to_gate_logits", GATES, D),
    LIN(attn.out, "attn1.to_out.0", D, D),
    LIN(up, "ff.net.0.proj", HIDDEN, D), LIN(down, "ff.net.2", D, HIDDEN),
    { 0 }
};
static const vt_weight table[] = {
    { "learnable_registers", VT_W_TENSOR, offsetof(ltx2_connector, table), { REGISTERS, D },
      VT_INIT_NORMAL },
    { 0 }
};

/* ---- open and close ---- */

static int bind(ltx2_connector *c, const vt_source *src, vc_err *err)
{
    const int64_t d = c->heads * c->head;
    const int64_t sizes[N_SIZES] = { [-D] = d, [-HIDDEN] = MLP * d,
                                     [-GATES] = c->gated ? c->heads : VT_ABSENT,
                                     [-REGISTERS] = c->registers };
    int rc = vt_params_bind(c->params, table, names[c->of], 0, c, sizes, src, err);
    char prefix[64];

    snprintf(prefix, sizeof prefix, "%stransformer_blocks.%%d.", names[c->of]);
    for (int i = 0; !rc && i < c->layers; i++)
        rc = vt_params_bind(c->params, block_table, prefix, i, &c->block[i], sizes, src, err);
    return rc;
}

/* Frequency j of n, times pi/2, rounded in the reference's steps. */
static float frequency(const ltx2_connector *c, int64_t j, int64_t n)
{
    const double at = n > 1 ? (double)j / (double)(n - 1) : 0;

    return c->exact ? (float)(pow(THETA, at) * M_PI / 2)
                    : (float)pow(THETA, (double)(float)at) * (float)M_PI / 2;
}

static int make_rotation(ltx2_connector *c, vc_err *err)
{
    const int64_t n = c->heads * c->head / 2, dim[2] = { c->rows, n };
    float *host[2] = { NULL, NULL };
    int rc = 0;

    for (int k = 0; k < 2 && !rc; k++)
        if (!(host[k] = malloc((size_t)(c->rows * n) * sizeof(float))))
            rc = vc_no_memory(err);
    for (int64_t j = 0; j < n && !rc; j++) {
        const float f = frequency(c, j, n);
        for (int64_t i = 0; i < c->rows; i++) {
            const float angle = f * ((float)i / (float)c->base * 2 - 1);
            host[0][i * n + j] = (float)cos((double)angle);
            host[1][i * n + j] = (float)sin((double)angle);
        }
    }
    for (int k = 0; k < 2 && !rc; k++) {
        c->rotation[k] = vt_param_new(c->g, VC_F32, 2, dim, host[k], VC_F32, false, err);
        rc = c->rotation[k] ? 0 : err->code;
    }
    free(host[0]), free(host[1]);
    return rc;
}

static int set_up(ltx2_connector *c, const cJSON *config, const vt_source *src, vc_err *err)
{
    int rc = vf_config_read(c, fields[c->of], config, err);

    if (!rc && (c->head % 8 || c->rows % c->registers))
        rc = vc_fail(err, VC_EFORMAT, "%.5s_connector_attention_head_dim must be a multiple of 8, "
                     "and %.5s_connector_num_learnable_registers must divide %lld", names[c->of],
                     names[c->of], (long long)c->rows);
    if (!rc)
        rc = vt_params_open(&c->params, c->g, err);
    if (!rc)
        rc = bind(c, src, err);
    return rc ? rc : make_rotation(c, err);
}

int ltx2_connector_open(ltx2_connector **out, vt_ctx *g, ltx2_connector_of of, const cJSON *config,
                        const vt_source *src, int64_t rows, vc_err *err)
{
    *out = NULL;
    ltx2_connector *c = calloc(1, sizeof *c);
    if (!c)
        return vc_no_memory(err);
    c->g = g;
    c->of = of;
    c->rows = rows;
    int rc = set_up(c, config, src, err);
    if (rc) {
        ltx2_connector_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void ltx2_connector_close(ltx2_connector *c)
{
    if (!c)
        return;
    for (int k = 0; k < 2; k++)
        vt_param_free(c->g, c->rotation[k]);
    vt_params_close(c->params);
    free(c);
}

vt_params *ltx2_connector_params(ltx2_connector *c) { return c->params; }
int64_t ltx2_connector_width(const ltx2_connector *c) { return c->heads * c->head; }

size_t ltx2_connector_bytes(const ltx2_connector *c)
{
    size_t bytes = sizeof *c + vt_params_bytes(c->params).values;

    for (int k = 0; k < 2; k++)
        bytes += (size_t)vt_count(c->rotation[k]) * sizeof(float);
    return bytes;
}

/* ---- forward ---- */

enum { NUMBERS, BEHIND };

/* Makes the numbers of all rows' registers, i32 [B,rows], and 1 for each row behind a prompt's
 * tokens, 0 for others, [B,rows,1]. */
void ltx2_connector_prepare(vt_ctx *g, const ltx2_connector *c, const vtrain_cond *text,
                            vt_tensor *made[LTX2_CONNECTOR_MADE])
{
    if (!text->embeds || vt_failed(g))
        return;
    const int64_t b = text->embeds->dim[0], dim[3] = { b, c->rows, 1 };
    int32_t *number = malloc((size_t)(b * c->rows) * sizeof *number);
    float *behind = malloc((size_t)(b * c->rows) * sizeof *behind);
    if (text->embeds->dim[1] != c->rows)
        vt_fail(g, VC_EINVAL, "connector: prompts of %lld rows, not %lld",
                (long long)text->embeds->dim[1], (long long)c->rows);
    else if (!number || !behind)
        vt_fail(g, VC_ENOMEM, "connector: out of memory");
    else {
        for (int64_t i = 0; i < b * c->rows; i++) {
            number[i] = (int32_t)(i % c->rows % c->registers);
            behind[i] = i % c->rows >= text->length[i / c->rows];
        }
        made[NUMBERS] = vt_from_host(g, VC_I32, 2, dim, number, VC_I32);
        made[BEHIND] = vt_from_host(g, vt_compute(g), 3, dim, behind, VC_F32);
    }
    free(number);
    free(behind);
}

static vt_tensor *run_block(vt_ctx *g, const ltx2_connector *c, const block *w, vt_tensor *x)
{
    const nn_heads heads = { c->heads, EPS, c->rotation[0], c->rotation[1], 0 };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *h = vt_rms_norm(g, x, NULL, EPS);

    h = c->rope == SPLIT ? nn_halves_attention(g, h, &w->attn, &heads, NULL)
                         : nn_self_attention(g, h, &w->attn, &heads, NULL);
    x = vt_add(g, x, h);
    vt_scope_end(g, s, 1, &x);
    x = vt_add(g, x, vt_feed_forward(g, vt_rms_norm(g, x, NULL, EPS), &w->up, &w->down));
    vt_scope_end(g, s, 1, &x);
    return x;
}

vt_tensor *ltx2_connector_run(vt_ctx *g, const ltx2_connector *c, vt_tensor *features,
                              vt_tensor *const made[LTX2_CONNECTOR_MADE])
{
    vt_scope s = vt_scope_begin(g);
    vt_tensor *all = vt_embedding(g, c->table, made[NUMBERS]);
    vt_tensor *x = vt_add(g, vt_cast(g, features, vt_compute(g)), vt_mul(g, all, made[BEHIND]));

    vt_scope_end(g, s, 1, &x);
    for (int i = 0; i < c->layers; i++) {
        x = run_block(g, c, &c->block[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    x = vt_rms_norm(g, x, NULL, EPS);
    vt_scope_end(g, s, 1, &x);
    return x;
}
