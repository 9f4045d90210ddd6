/* llm_config.c - see llm_config.h */
#include "precompute/text/llm_config.h"

#include <math.h>

static const vf_config_row needed_sizes[] = {
    VF_INT_NEEDED(llm_config, width, "hidden_size", 1, 1 << 16),
    VF_INT_NEEDED(llm_config, hidden, "intermediate_size", 1, 1 << 18),
    VF_INT_NEEDED(llm_config, layers, "num_hidden_layers", 1, 1 << 10),
    VF_INT_NEEDED(llm_config, heads, "num_attention_heads", 1, 1 << 10),
    VF_INT_NEEDED(llm_config, vocab, "vocab_size", 1, 1 << 24),
    { 0 }
};
static const vf_config_row llama_sizes[] = {
    VF_INT(llm_config, width, "hidden_size", 4096, 1, 1 << 16),
    VF_INT(llm_config, hidden, "intermediate_size", 11008, 1, 1 << 18),
    VF_INT(llm_config, layers, "num_hidden_layers", 32, 1, 1 << 10),
    VF_INT(llm_config, heads, "num_attention_heads", 32, 1, 1 << 10),
    VF_INT(llm_config, vocab, "vocab_size", 32000, 1, 1 << 24),
    { 0 }
};
static const vf_config_row rows[] = {
    VF_INT(llm_config, kv_heads, "num_key_value_heads", 0, 1, 1 << 10),
    VF_INT(llm_config, head, "head_dim", 0, 8, LLM_MAX_HEAD),
    VF_NUM(llm_config, eps, "rms_norm_eps", 1e-6, 0, 1),
    VF_INT(llm_config, window, "sliding_window", 0, 0, 1 << 30),
    VF_FLAG(llm_config, o_bias, "attention_bias", false),
    VF_FLAG(llm_config, mlp_bias, "mlp_bias", false),
    VF_FLAG(llm_config, final_norm, "final_norm", true),
    VF_ONLY("hidden_act", "silu", "silu"),
    VF_ONLY_FLAG("use_sliding_window", false),
    VF_UNSET("quantization_config", "use the f32, bf16 or f16 files"),
    { 0 }
};
static const vf_config_row llama3_rows[] = {
    VF_NUM_NEEDED(llm_rope, factor, "factor", VF_ABOVE_0, 1e6),
    VF_NUM_NEEDED(llm_rope, low, "low_freq_factor", VF_ABOVE_0, 1e6),
    VF_NUM_NEEDED(llm_rope, high, "high_freq_factor", VF_ABOVE_0, 1e6),
    VF_INT_NEEDED(llm_rope, original, "original_max_position_embeddings", 1, 1 << 30),
    { 0 }
};

/* llama_4_scaling_beta changes nothing within the tokens that the model was first trained with. */
static const vf_config_row yarn_rows[] = {
    VF_NUM_NEEDED(llm_rope, factor, "factor", VF_ABOVE_0, 1e6),
    VF_NUM(llm_rope, low, "beta_slow", 1, VF_ABOVE_0, 1e6),
    VF_NUM(llm_rope, high, "beta_fast", 32, VF_ABOVE_0, 1e6),
    VF_INT_NEEDED(llm_rope, original, "original_max_position_embeddings", 1, 1 << 30),
    VF_NUM_NEEDED(llm_rope, scale, "mscale", VF_ABOVE_0, 1e6),
    VF_NUM_NEEDED(llm_rope, all_scale, "mscale_all_dim", VF_ABOVE_0, 1e6),
    VF_UNSET("attention_factor", NULL),
    VF_ONLY_FLAG("truncate", true),
    { 0 }
};

static int check_scaling(const llm_rope *r, vc_err *err)
{
    if (r->kind == ROPE_LLAMA3 && r->high <= r->low)
        return vc_fail(err, VC_EFORMAT, "high_freq_factor: %g is not above low_freq_factor: %g",
                       r->high, r->low);
    if (r->kind == ROPE_YARN && r->high <= r->low)
        return vc_fail(err, VC_EFORMAT, "beta_fast: %g is not above beta_slow: %g", r->high,
                       r->low);
    if (r->kind == ROPE_YARN && r->scale != r->all_scale)
        return vc_fail(err, VC_EFORMAT, "mscale: %g is not mscale_all_dim: %g, so that scores of "
                       "attention would be scaled", r->scale, r->all_scale);
    return 0;
}

/* Reads a scaling from the object o. Its kind is the field rope_type, which older files call
 * type. */
static int read_scaling(llm_rope *r, const cJSON *o, vc_err *err)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(o, "rope_type");
    const vf_config_row kind_rows[] = {
        VF_WORD(llm_rope, kind, name ? "rope_type" : "type", "default",
                "default|llama3|mrope|yarn"),
        VF_NUM(llm_rope, theta, "rope_theta", r->theta, 1, 1e12),
        VF_INTS(llm_rope, section, n_section, "mrope_section", 3, 0, LLM_MAX_HEAD),
        VF_ONLY_NUM("partial_rotary_factor", 1),
        { 0 }
    };

    int rc = vf_config_read(r, kind_rows, o, err);
    if (!rc && r->kind == ROPE_LLAMA3)
        rc = vf_config_read(r, llama3_rows, o, err);
    if (!rc && r->kind == ROPE_YARN)
        rc = vf_config_read(r, yarn_rows, o, err);
    return rc ? rc : check_scaling(r, err);
}

/* Files of transformers 5 have theta and scaling in rope_parameters; older files have them in
 * rope_theta and rope_scaling. */
static int read_rope(llm_rope *r, const cJSON *o, vc_err *err)
{
    static const char *const fields[] = { "rope_parameters", "rope_scaling" };
    static const vf_config_row theta[] = {
        VF_NUM(llm_rope, theta, "rope_theta", 10000, 1, 1e12), { 0 }
    };

    int rc = vf_config_read(r, theta, o, err);
    for (int i = 0; !rc && i < 2; i++) {
        const cJSON *scaling = cJSON_GetObjectItemCaseSensitive(o, fields[i]);
        if (!scaling || cJSON_IsNull(scaling))
            continue;
        rc = vf_json_obj(o, fields[i], &scaling, err);
        return rc ? rc : vc_context(err, read_scaling(r, scaling, err), "%s", fields[i]);
    }
    return rc;
}

/* Sets the layers that are run. */
static int choose_layers(llm_config *c, const text_rule *text, vc_err *err)
{
    const int skip = text->skip;

    if (skip < 0 || skip > c->layers)
        return vc_fail(err, VC_EINVAL, "num_hidden_layers: %lld, of which the last %d layers "
                       "cannot be left out", (long long)c->layers, skip);
    c->used = text->taps[0] ? 0 : c->layers - skip;
    for (c->taps = 0; c->taps < VC_TAPS && text->taps[c->taps]; c->taps++) {
        const int tap = c->tap[c->taps] = text->taps[c->taps];
        if (tap < 1 || tap > c->layers)
            return vc_fail(err, VC_EINVAL, "num_hidden_layers: %lld, but the transformer reads "
                           "states of layer %d: give the text encoder that it was trained with",
                           (long long)c->layers, tap);
        c->used = tap > c->used ? tap : c->used;
    }
    return 0;
}

/* Checks that a window, which Mistral's tokens see alone, holds all tokens of a prompt. */
static int check_window(const llm_config *c, const llm_kind *kind, const text_rule *text,
                        vc_err *err)
{
    if (!kind->windowed || !c->window || c->window >= text->max_length)
        return 0;
    return vc_fail(err, VC_EFORMAT, "sliding_window: %lld is less than the %d tokens of a prompt",
                   (long long)c->window, text->max_length);
}

/* Sets the fields that follow from others, and checks the rules between fields. */
static int settle(llm_config *c, const llm_kind *kind, const text_rule *text, vc_err *err)
{
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (c->heads % c->kv_heads)
        return vc_fail(err, VC_EFORMAT, "num_attention_heads: %lld is not a multiple of "
                       "num_key_value_heads: %lld", (long long)c->heads, (long long)c->kv_heads);
    if (!c->head)
        c->head = kind->head ? kind->head : c->width / c->heads;
    if (c->head < 8 || c->head > LLM_MAX_HEAD || c->head % 8)
        return vc_fail(err, VC_EFORMAT, "head_dim: %lld is not a multiple of 8 within 8..%d",
                       (long long)c->head, LLM_MAX_HEAD);
    int rc = check_window(c, kind, text, err);
    if (!rc && c->rope.kind == ROPE_YARN && c->rope.original < text->max_length)
        rc = vc_fail(err, VC_EFORMAT, "original_max_position_embeddings: %lld is less than the %d "
                     "tokens of a prompt", (long long)c->rope.original, text->max_length);
    return rc ? rc : choose_layers(c, text, err);
}

/* Adds the remedy to the error of a model_type. */
static int other_model(int rc, vc_err *err)
{
    const vc_err is = *err;

    return vc_fail(err, rc, "%s: give the text encoder that the transformer was trained with",
                   is.text);
}

int llm_config_read(llm_config *c, const llm_kind *kind, const text_rule *text, const cJSON *o,
                    vc_err *err)
{
    const vf_config_row type[] = { VF_ONLY("model_type", kind->model_type, NULL), { 0 } };
    const vf_config_row part_type[] = {
        VF_ONLY("model_type", kind->part_type, kind->part_default ? kind->part_default
                                                                  : kind->part_type), { 0 }
    };
    const cJSON *part = kind->part ? cJSON_GetObjectItemCaseSensitive(o, kind->part) : NULL;

    int rc = vf_config_read(c, type, o, err);
    if (!rc && part)
        rc = vf_json_obj(o, kind->part, &o, err);
    if (!rc && kind->part_type && (part || kind->part_defaults))
        rc = vf_config_read(c, part_type, o, err);
    if (rc)
        return other_model(rc, err);
    rc = vf_config_read(c, kind->part_defaults ? llama_sizes : needed_sizes, o, err);
    if (!rc)
        rc = vf_config_read(c, rows, o, err);
    if (!rc)
        rc = read_rope(&c->rope, o, err);
    if (!rc)
        rc = settle(c, kind, text, err);
    c->head_norms = kind->head_norms;
    c->inner = text->taps_inner;
    c->final_norm &= !text->unnormed;
    c->qkv_bias = c->o_bias || kind->qkv_bias;
    return rc;
}

/* The frequency f scaled as by Dubey et al. 2024 (LLaMA 3.1): slow rotations are slowed by
 * `factor`, fast rotations stay, and the rotations between are interpolated. */
static float scaled(const llm_rope *r, float f)
{
    float period = 6.28318530717958647692f / f;   /* tokens per whole rotation */
    float slow = (float)((double)r->original / r->low);
    float fast = (float)((double)r->original / r->high);

    if (period < fast)
        return f;
    if (period > slow)
        return f / (float)r->factor;
    float s = ((float)r->original / period - (float)r->low) / (float)(r->high - r->low);
    return (1 - s) * f / (float)r->factor + s * f;
}

/* The angle of a head, counted from the fastest, that makes so many whole rotations in the tokens
 * that the model was first trained with. */
static double angle_of(const llm_config *c, double rotations)
{
    const double tau = 6.28318530717958647692;

    return (double)c->head * log((double)c->rope.original / (rotations * tau)) /
           (2 * log(c->rope.theta));
}

/* The frequency f of angle j scaled as by Peng et al. 2023 (YaRN): as scaled does, but interpolated
 * over the angles' numbers. */
static float scaled_yarn(const llm_config *c, int64_t j, float f)
{
    const double low = fmax(floor(angle_of(c, c->rope.high)), 0);
    const double high = fmin(ceil(angle_of(c, c->rope.low)), (double)c->head - 1);
    const float slow = (float)fmin(fmax(((double)j - low) / (high > low ? high - low : 1e-3), 0),
                                   1);

    return f / (float)c->rope.factor * slow + f * (1 - slow);
}

/* Frequencies are computed in f32, as when the models were trained: in f64 the angles would differ
 * by 2e-5 after 300 tokens. */
void llm_config_frequencies(const llm_config *c, float *frequency)
{
    for (int64_t j = 0; j < c->head / 2; j++) {
        float f = 1 / powf((float)c->rope.theta, (float)(2 * j) / (float)c->head);
        frequency[j] = c->rope.kind == ROPE_LLAMA3 ? scaled(&c->rope, f)
                     : c->rope.kind == ROPE_YARN ? scaled_yarn(c, j, f) : f;
    }
}

vf_key llm_config_fingerprint(const llm_config *c, const llm_kind *kind, vf_key weights)
{
    vf_hasher h;

    vf_hasher_begin(&h, "decoder 1");
    vf_hasher_str(&h, "model_type", kind->model_type);
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    vf_hasher_int(&h, "hidden_size", c->width);
    vf_hasher_int(&h, "intermediate_size", c->hidden);
    vf_hasher_int(&h, "num_hidden_layers", c->layers);
    vf_hasher_int(&h, "layers", c->used);
    for (int i = 0; i < c->taps; i++)
        vf_hasher_int(&h, "tap", c->tap[i]);
    vf_hasher_int(&h, "num_attention_heads", c->heads);
    vf_hasher_int(&h, "num_key_value_heads", c->kv_heads);
    vf_hasher_int(&h, "head_dim", c->head);
    vf_hasher_int(&h, "biases", c->qkv_bias + 2 * c->o_bias + 4 * c->mlp_bias);
    if (c->inner)
        vf_hasher_int(&h, "inner", 1);
    if (!c->final_norm)
        vf_hasher_int(&h, "final_norm", 0);
    vf_hasher_bytes(&h, "rms_norm_eps", &c->eps, sizeof c->eps);
    vf_hasher_bytes(&h, "rope_theta", &c->rope.theta, sizeof c->rope.theta);
    if (c->rope.kind == ROPE_YARN)
        vf_hasher_int(&h, "yarn", 1);
    if (c->rope.kind == ROPE_LLAMA3 || c->rope.kind == ROPE_YARN) {
        vf_hasher_bytes(&h, "factor", &c->rope.factor, sizeof c->rope.factor);
        vf_hasher_bytes(&h, "low_freq_factor", &c->rope.low, sizeof c->rope.low);
        vf_hasher_bytes(&h, "high_freq_factor", &c->rope.high, sizeof c->rope.high);
        vf_hasher_int(&h, "original_max_position_embeddings", c->rope.original);
    }
    return vf_hasher_end(&h);
}
