/* encoder_llm.c - prompts through LLaMA (HunyuanVideo), Qwen2.5-VL's text part (Qwen-Image; with
 * pictures encoder_qwen_vl.c; HunyuanVideo 1.5 has this part alone), Qwen3 (Z-Image, FLUX.2 klein),
 * Qwen3-VL's text part (Krea 2), Mistral 3's text part (FLUX.2 dev) and Ministral 3 in a model of
 * Mistral 3's class (ERNIE-Image): see prompt.h.
 *
 * Padding follows the prompt and no token attends to a later one, so masked padding changes no
 * state and is not encoded. FLUX.2's transformer attends to the states of padding, which see the
 * prompt alone: Qwen3ForCausalLM and Mistral 3 encode all rows. Padding in front, which Mistral's
 * tokenizer makes, sees nothing, so that each row of it has one state. */
#include "precompute/text/llm.h"
#include "precompute/text/prompt.h"
#include "precompute/text/stack.h"

static int open_model(void **model, const void *kind, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    llm *m;
    int rc = llm_open(&m, kind, o, &info->fingerprint, err);

    if (rc)
        return rc;
    info->width = llm_width(m);
    info->batch = llm_batch(m);
    *model = m;
    return 0;
}

static void close_model(void *model)
{
    llm_close(model);
}

static int check(void *model, const text_tokens *t, vc_err *err)
{
    return text_ids_known(t->ids, llm_vocab(model), err);
}

static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)pooled;
    return llm_encode(model, t->ids, t->prompts, states, err);
}

static int padding(void *model, int64_t id, float *state, vc_err *err)
{
    return llm_padding(model, id, state, err);
}

#define LLM(class_, kind_) \
    .class = class_, .kind = &kind_, .open = open_model, .close = close_model, .check = check, \
    .encode = encode

static const text_model llama = { LLM("LlamaModel", llm_llama), .masked = true };
static const text_model qwen = {
    LLM("Qwen2_5_VLForConditionalGeneration", llm_qwen2_5_vl), .masked = true
};
static const text_model qwen_text = {
    LLM("Qwen2_5_VLTextModel", llm_qwen2_5_vl_text), .masked = true
};
static const text_model qwen3 = { LLM("Qwen3Model", llm_qwen3), .masked = true };
static const text_model qwen3_whole = { LLM("Qwen3ForCausalLM", llm_qwen3) };
static const text_model qwen3_vl = { LLM("Qwen3VLModel", llm_qwen3_vl), .masked = true };
static const text_model mistral3 = {
    LLM("Mistral3ForConditionalGeneration", llm_mistral3), .padding = padding
};
static const text_model ministral3 = { LLM("Mistral3Model", llm_ministral3), .masked = true };

const text_class text_llama = { "LlamaModel", &llama, NULL };
const text_class text_qwen2_5_vl = { "Qwen2_5_VLForConditionalGeneration", &qwen,
                                     &text_model_qwen_vl };
const text_class text_qwen2_5_vl_text = { "Qwen2_5_VLTextModel", &qwen_text, NULL };
const text_class text_qwen3 = { "Qwen3Model", &qwen3, NULL };
const text_class text_qwen3_whole = { "Qwen3ForCausalLM", &qwen3_whole, NULL };
const text_class text_qwen3_vl = { "Qwen3VLModel", &qwen3_vl, NULL };
const text_class text_mistral3 = { "Mistral3ForConditionalGeneration", &mistral3, NULL };
const text_class text_ministral3 = { "Mistral3Model", &ministral3, NULL };
