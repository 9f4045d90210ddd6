/* config.c - see config.h */
#include "precompute/gemma/config.h"

#include <math.h>

#define KINDS "sliding_attention|full_attention"

static const vf_config_row rows[] = {
    VF_ONLY("model_type", "gemma3_text", "gemma3_text"),
    VF_INT_NEEDED(gemma_config, width, "hidden_size", 1, 1 << 16),
    VF_INT_NEEDED(gemma_config, hidden, "intermediate_size", 1, 1 << 18),
    VF_INT_NEEDED(gemma_config, layers, "num_hidden_layers", 1, GEMMA_LAYERS),
    VF_INT(gemma_config, heads, "num_attention_heads", 8, 1, 1 << 10),
    VF_INT(gemma_config, kv_heads, "num_key_value_heads", 4, 1, 1 << 10),
    VF_INT(gemma_config, head, "head_dim", 256, 8, GEMMA_HEAD),
    VF_INT(gemma_config, vocab, "vocab_size", 262208, 1, 1 << 24),
    VF_INT(gemma_config, window, "sliding_window", 4096, 1, 1 << 30),
    VF_NUM(gemma_config, eps, "rms_norm_eps", 1e-6, 0, 1),
    VF_NUM(gemma_config, scalar, "query_pre_attn_scalar", 256, VF_ABOVE_0, 1e6),
    VF_WORD_LIST(gemma_config, kind, n_kinds, "layer_types", 1, KINDS),
    VF_ONLY("hidden_activation", "gelu_pytorch_tanh", "gelu_pytorch_tanh"),
    VF_ONLY_FLAG("attention_bias", false),
    VF_ONLY_FLAG("use_bidirectional_attention", false),
    VF_UNSET("attn_logit_softcapping", NULL),
    VF_UNSET("quantization_config", "use the f32, bf16 or f16 files"),
    { 0 }
};

/* ---- rotations ---- */

typedef struct scaling { double theta, factor; int kind; } scaling;
enum { ROPE_DEFAULT, ROPE_LINEAR };

static int read_scaling(gemma_config *c, gemma_layer kind, const cJSON *o, vc_err *err)
{
    scaling s;
    const vf_config_row of[] = {
        VF_WORD(scaling, kind, "rope_type", "default", "default|linear"),
        VF_NUM(scaling, theta, "rope_theta", c->theta[kind], 1, 1e12),
        VF_NUM(scaling, factor, "factor", 1, VF_ABOVE_0, 1e6),
        VF_ONLY_NUM("partial_rotary_factor", 1),
        { 0 }
    };
    int rc = vf_config_read(&s, of, o, err);

    if (!rc) {
        c->theta[kind] = s.theta;
        c->factor[kind] = s.kind == ROPE_LINEAR ? s.factor : 1;
    }
    return rc;
}

/* Files of transformers 5 have an object for each kind of layers in rope_parameters; older files
 * have fields, and rope_scaling for layers without a window. */
static int read_rope(gemma_config *c, const cJSON *o, vc_err *err)
{
    static const char *const kinds[] = { "sliding_attention", "full_attention" };
    static const vf_config_row old[] = {
        VF_NUM(gemma_config, theta[GEMMA_SLIDING], "rope_local_base_freq", 1e4, 1, 1e12),
        VF_NUM(gemma_config, theta[GEMMA_FULL], "rope_theta", 1e6, 1, 1e12),
        { 0 }
    };
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(o, "rope_parameters"), *part;
    int rc = vf_config_read(c, old, o, err);

    c->factor[GEMMA_SLIDING] = c->factor[GEMMA_FULL] = 1;
    if (rc || !all || cJSON_IsNull(all)) {
        part = cJSON_GetObjectItemCaseSensitive(o, "rope_scaling");
        if (rc || !part || cJSON_IsNull(part))
            return rc;
        rc = vf_json_obj(o, "rope_scaling", &part, err);
        return rc ? rc : vc_context(err, read_scaling(c, GEMMA_FULL, part, err), "rope_scaling");
    }
    rc = vf_json_obj(o, "rope_parameters", &all, err);
    for (int i = 0; !rc && i < GEMMA_KINDS; i++) {
        rc = vf_json_obj(all, kinds[i], &part, err);
        if (!rc)
            rc = read_scaling(c, (gemma_layer)i, part, err);
        rc = vc_context(err, rc, "rope_parameters: %s", kinds[i]);
    }
    return rc;
}

void gemma_config_frequencies(const gemma_config *c, gemma_layer kind, float *frequency)
{
    for (int64_t j = 0; j < c->head / 2; j++)
        frequency[j] = 1 / powf((float)c->theta[kind], (float)(2 * j) / (float)c->head) /
                       (float)c->factor[kind];
}

/* ---- all fields ---- */

/* Sets the kinds of layers of older files: each sixth, or as many as the pattern says, sees all. */
static int old_kinds(gemma_config *c, const cJSON *o, vc_err *err)
{
    int64_t pattern = 6;
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(o, "sliding_window_pattern");

    if (of && cJSON_IsNumber(of))
        pattern = (int64_t)of->valuedouble;
    if (pattern < 1)
        return vc_fail(err, VC_EFORMAT, "sliding_window_pattern: %lld is not above 0",
                       (long long)pattern);
    for (int64_t i = 0; i < c->layers; i++)
        c->kind[i] = (i + 1) % pattern ? GEMMA_SLIDING : GEMMA_FULL;
    return 0;
}

static int settle(gemma_config *c, const text_rule *text, const cJSON *o, vc_err *err)
{
    if (c->heads % c->kv_heads)
        return vc_fail(err, VC_EFORMAT, "num_attention_heads: %lld is not a multiple of "
                       "num_key_value_heads: %lld", (long long)c->heads, (long long)c->kv_heads);
    if (c->head % 8)
        return vc_fail(err, VC_EFORMAT, "head_dim: %lld is not a multiple of 8",
                       (long long)c->head);
    if (c->window < text->max_length)
        return vc_fail(err, VC_EFORMAT, "sliding_window: %lld is less than the %d tokens of a "
                       "prompt", (long long)c->window, text->max_length);
    if (c->n_kinds && c->n_kinds != c->layers)
        return vc_fail(err, VC_EFORMAT, "layer_types has %d entries, but there are %lld layers",
                       c->n_kinds, (long long)c->layers);
    return c->n_kinds ? 0 : old_kinds(c, o, err);
}

int gemma_config_read(gemma_config *c, const text_rule *text, const cJSON *o, vc_err *err)
{
    static const vf_config_row type[] = { VF_ONLY("model_type", "gemma3", NULL), { 0 } };
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(o, "text_config");
    int rc = part ? vf_config_read(c, type, o, err) : 0;

    if (!rc && part)
        rc = vf_json_obj(o, "text_config", &o, err);
    if (!rc)
        rc = vf_config_read(c, rows, o, err);
    if (!rc)
        rc = read_rope(c, o, err);
    return rc ? rc : settle(c, text, o, err);
}

vf_key gemma_config_fingerprint(const gemma_config *c, vf_key weights)
{
    vf_hasher h;

    vf_hasher_begin(&h, "gemma 1");
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    vf_hasher_int(&h, "hidden_size", c->width);
    vf_hasher_int(&h, "intermediate_size", c->hidden);
    vf_hasher_int(&h, "num_attention_heads", c->heads);
    vf_hasher_int(&h, "num_key_value_heads", c->kv_heads);
    vf_hasher_int(&h, "head_dim", c->head);
    vf_hasher_bytes(&h, "rms_norm_eps", &c->eps, sizeof c->eps);
    vf_hasher_bytes(&h, "query_pre_attn_scalar", &c->scalar, sizeof c->scalar);
    vf_hasher_bytes(&h, "rope_theta", c->theta, sizeof c->theta);
    vf_hasher_bytes(&h, "factor", c->factor, sizeof c->factor);
    for (int64_t i = 0; i < c->layers; i++)
        vf_hasher_int(&h, "layer_type", c->kind[i]);
    return vf_hasher_end(&h);
}
