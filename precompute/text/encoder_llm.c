/* encoder_llm.c - prompts through LLaMA (HunyuanVideo), Qwen2.5-VL's text part (Qwen-Image; with
 * pictures encoder_qwen_vl.c), Qwen3 (Z-Image, FLUX.2 klein) and Mistral 3's text part (FLUX.2 dev):
 * see prompt.h.
 *
 * Padding follows the prompt and no token attends to a later one, so masked padding changes no
 * state and is not encoded. FLUX.2's transformer attends to the states of padding, which see the
 * prompt alone: Qwen3ForCausalLM and Mistral 3 encode all rows. Padding in front, which Mistral's
 * tokenizer makes, sees nothing, so that each row of it has one state. */
#include "precompute/text/llm.h"
#include "precompute/text/prompt.h"
#include "precompute/text/stack.h"

static int open_model(void **model, const encoder_opts *o, const llm_kind *kind, text_info *info,
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

static int open_llama(void **model, const encoder_opts *o, text_info *info, vc_err *err)
{
    return open_model(model, o, &llm_llama, info, err);
}

static int open_qwen(void **model, const encoder_opts *o, text_info *info, vc_err *err)
{
    return open_model(model, o, &llm_qwen2_5_vl, info, err);
}

static int open_qwen3(void **model, const encoder_opts *o, text_info *info, vc_err *err)
{
    return open_model(model, o, &llm_qwen3, info, err);
}

static int open_mistral3(void **model, const encoder_opts *o, text_info *info, vc_err *err)
{
    return open_model(model, o, &llm_mistral3, info, err);
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

static const text_model llama = {
    .class = "LlamaModel", .masked = true, .open = open_llama, .close = close_model,
    .check = check, .encode = encode
};
static const text_model qwen = {
    .class = "Qwen2_5_VLForConditionalGeneration", .masked = true, .open = open_qwen,
    .close = close_model, .check = check, .encode = encode
};
static const text_model qwen3 = {
    .class = "Qwen3Model", .masked = true, .open = open_qwen3, .close = close_model,
    .check = check, .encode = encode
};
static const text_model qwen3_whole = {
    .class = "Qwen3ForCausalLM", .open = open_qwen3, .close = close_model, .check = check,
    .encode = encode
};

static const text_model mistral3 = {
    .class = "Mistral3ForConditionalGeneration", .open = open_mistral3, .close = close_model,
    .check = check, .encode = encode, .padding = padding
};

static int text_open_llama(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_prompt_open(out, &llama, o, info, err);
}

static int text_open_qwen(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_prompt_open(out, o->text.each ? &text_model_qwen_vl : &qwen, o, info, err);
}

static int text_open_qwen3(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_prompt_open(out, &qwen3, o, info, err);
}

static int text_open_qwen3_whole(text_enc **out, const encoder_opts *o, text_info *info,
                                 vc_err *err)
{
    return text_prompt_open(out, &qwen3_whole, o, info, err);
}

static int text_open_mistral3(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_prompt_open(out, &mistral3, o, info, err);
}

const text_class text_llama = { "LlamaModel", text_open_llama, text_prompt_close,
                                text_prompt_encode };
const text_class text_qwen2_5_vl = { "Qwen2_5_VLForConditionalGeneration", text_open_qwen,
                                     text_prompt_close, text_prompt_encode };
const text_class text_qwen3 = { "Qwen3Model", text_open_qwen3, text_prompt_close,
                                text_prompt_encode };
const text_class text_qwen3_whole = { "Qwen3ForCausalLM", text_open_qwen3_whole, text_prompt_close,
                                      text_prompt_encode };
const text_class text_mistral3 = { "Mistral3ForConditionalGeneration", text_open_mistral3,
                                   text_prompt_close, text_prompt_encode };
