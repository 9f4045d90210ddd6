"""Prompts through the text encoders of families as diffusers' pipelines run them: HunyuanVideo's
two (template, crop, mask; pooled), Qwen-Image's (template, crop, mask), Wan's (cleaned, mask),
FLUX's two (pooled, equal to HunyuanVideo's; all tokens), LTX-Video's before 0.9.5 (states of
padding dropped) and from then on (mask), Chroma's (mask, and a row of padding), Z-Image's (chat
template, mask), Ideogram 4's (states of thirteen layers, a channel's together), ERNIE-Image's
(mask), and FLUX.2's (klein: an empty thought, states of three layers and of padding; dev: padding
in front, and in `right_1` that of the prompt 1 with padding behind).

`hunyuanvideo-llama`, `hunyuanvideo-clip`, `qwen-image-text`, `wan-text`, `flux-t5`, `chroma-t5`,
`ltx-text`, `ltx-condition-text`, `z-image-text`, `krea2-text`, `ideogram4-text`, `flux2-text`,
`flux2-dev-text` and `ernie-image-text`, whose tokenizer cuts prompts to ERNIE_LENGTH tokens so
that the file is small, hold a tiny encoder and its `tokenizer` (tokenizer.json) each, and of every
prompt `prompts` [i]:
`ids_i` and `mask_i` as the encoder got them, padded, and the pipeline's result: `states_i` [n,D],
the rows that its mask leaves, or `pooled_i` [D]. `template` is the pipeline's own, or what the
tokenizer makes of its `chat_template`, which has the parts of Qwen3's or Mistral's that a single
prompt reaches.

Of the 100 captions `captions`, most of them odd, `chroma-t5` and the last five hold `caption_ids`
[100,512] (ERNIE_LENGTH) and `caption_sums` [100,D]: the sums of a caption's states, row i times
`row_weights` [i].

The tokenizers are unigram models. Like a real one, a decoder's tokenizer has one piece for each
word of the template, so that the template has its real number of tokens; all other text is split
into single letters.
"""
import json
import re
import string
import tempfile

import torch
import transformers
from diffusers import (ChromaPipeline, ErnieImagePipeline, Flux2KleinPipeline, Flux2Pipeline,
                       FluxPipeline, HunyuanVideoPipeline, Ideogram4Pipeline, Krea2Pipeline,
                       LTXConditionPipeline, LTXPipeline, QwenImagePipeline, WanPipeline,
                       ZImagePipeline)
from diffusers.pipelines.flux2 import pipeline_flux2
from diffusers.pipelines.hunyuan_video import pipeline_hunyuan_video
from diffusers.pipelines.wan.pipeline_wan import prompt_clean
from tokenizers import Tokenizer

import golden

TEMPLATE = pipeline_hunyuan_video.DEFAULT_PROMPT_TEMPLATE
PROMPTS = ["", "a corgi drives along the coast.", "\n1. the video, by camera\n", "the coast, " * 60]
ODD = ["\n", "<b> &amp; </b>", "a corgi </s> <pad>", "caf\u00e9 \u732b \U0001f431 \ufb01ne"]
CHAT = ("{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + "
        "message.content + '<|im_end|>' + '\n' }}{%- endfor %}{%- if add_generation_prompt %}"
        "{{- '<|im_start|>assistant\n' }}{%- if enable_thinking is defined and enable_thinking is "
        "false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}")
MISTRAL_CHAT = ("{{- bos_token + '[SYSTEM_PROMPT]' + messages[0].content[0].text + "
                "'[/SYSTEM_PROMPT]' }}{{- '[INST]' + messages[1].content[0].text + '[/INST]' }}")
CHATS = ["<|im_start|>system\n</think><think>", "{}", "{{ 'a' }} {% if %} \\n", " \t\r\n ",
         "\u00e9\u0301"]
PARTS = ["", " ", "\n", "\t", "a", "A dog, 4k", "caf\u00e9", "cafe\u0301",
         "\u732b\u306f\u3044\u308b", "\U0001f431", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "\U0001f1e9\U0001f1ea",
         "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd", "\ufeffbom", "\u00a0\u2003x",
         "\x01\x7f", "<|im_end|>", "<|im_start|>assistant\n<think>", "</think>",
         "<think>\n\n</think>", "<|endoftext|>", "{}", "{{ messages }}{% raw %}", "%s %d \\n",
         "&amp;lt;b&gt;", "a\r\nb",
         "https://example.org/?q=1&r=2#x", "x" * 60, "1234567890" * 4, "\uff21\uff22 \ufb01",
         "...!!!???"]
LETTERS = list(string.ascii_letters + string.digits + string.punctuation + " \n")
ERNIE_LENGTH = 500
YARN = dict(rope_type="yarn", rope_theta=1e6, factor=16.0, beta_fast=32.0, beta_slow=1.0,
            mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=16384,
            llama_4_scaling_beta=0.1)
WIDTHS = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4)


def words(text):
    """Returns the pieces between the special tokens, split by LLaMA 3's pattern."""
    between = "".join(re.split(r"<\|\w+\|>|\{\}", text))
    return re.findall(r"\s*[\r\n]+| ?[A-Za-z]+|\d| ?[^\s\w]|\s", between)


def tokenizer_json(pieces, special, template):
    """Returns a unigram model of the pieces, in which a long piece costs less than its letters.
    Special ids follow those of the pieces."""
    vocab = [["<unk>", -100.0]] + [[p, -1.0 if len(p) > 1 else -10.0] for p in pieces]
    added = [dict(id=len(vocab) + i, content=s, single_word=False, lstrip=False, rstrip=False,
                  normalized=False, special=True) for i, s in enumerate(special)]
    ids = {s["content"]: s["id"] for s in added}
    single = [{"Sequence": {"id": "A", "type_id": 0}} if s is None else
              {"SpecialToken": {"id": s, "type_id": 0}} for s in template]
    tokens = {s: dict(id=s, ids=[ids[s]], tokens=[s]) for s in template if s}
    return json.dumps(dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=None, decoder=None, model=dict(type="Unigram", unk_id=0, vocab=vocab),
        post_processor=dict(type="TemplateProcessing", single=single, pair=single,
                            special_tokens=tokens)), sort_keys=True)


def tokenizer(text, pad):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        return transformers.PreTrainedTokenizerFast(tokenizer_file=f.name, pad_token=pad,
                                                    padding_side="right")


def llama():
    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
               "<pad>"]
    pieces = sorted(set(words(TEMPLATE["template"])) | set(LETTERS))
    text = tokenizer_json(pieces, special, [special[0], None])
    size = 1 + len(pieces) + len(special)
    config = transformers.LlamaConfig(
        **WIDTHS, num_hidden_layers=4, num_key_value_heads=2, vocab_size=size, rms_norm_eps=1e-5,
        rope_parameters=dict(rope_type="default", rope_theta=500000.0), pad_token_id=size - 1)
    return transformers.LlamaModel(config), text, tokenizer(text, "<pad>")


def clip():
    special = ["<|startoftext|>", "<|endoftext|>"]
    text = tokenizer_json(LETTERS, special, [special[0], None, special[1]])
    size = 1 + len(LETTERS) + len(special)
    config = transformers.CLIPTextConfig(
        **WIDTHS, num_hidden_layers=3, vocab_size=size, max_position_embeddings=77,
        projection_dim=32, bos_token_id=size - 2, eos_token_id=2, pad_token_id=size - 1)
    return transformers.CLIPTextModel(config), text, tokenizer(text, "<|endoftext|>")


def ids_of(tok, text, length):
    got = tok(text, max_length=length, padding="max_length", truncation=True, return_tensors="pt")
    return got.input_ids[0], got.attention_mask[0]


def qwen(template, pieces=()):
    """A Qwen2.5-VL, and a tokenizer with these pieces, or else the template's words."""
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    pieces = sorted(set(pieces or words(template)) | set(LETTERS))
    text = tokenizer_json(pieces, special, [None])
    size = 1 + len(pieces) + len(special)
    rope = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 1, 1])
    sizes = dict(WIDTHS, num_hidden_layers=3, num_key_value_heads=2, vocab_size=size,
                 rms_norm_eps=1e-6, rope_parameters=rope, tie_word_embeddings=False)
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32)
    config = transformers.Qwen2_5_VLConfig(text_config=sizes, vision_config=vision)
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    return model, text, tokenizer(text, "<|endoftext|>")


def check_crop(t, crop):
    """Checks that the first two prompts share the tokens of the template."""
    same = (t["ids_0"] == t["ids_1"]).int().tolist()
    assert same.index(0) == crop, same.index(0)


def hunyuanvideo(out):
    model, text, tok = llama()
    model_2, text_2, tok_2 = clip()
    models = [m.eval().float() for m in (model, model_2)]
    weights = [golden.fill_module(m) for m in models]
    pipe = HunyuanVideoPipeline(text_encoder=models[0], tokenizer=tok, transformer=None, vae=None,
                                scheduler=None, text_encoder_2=models[1], tokenizer_2=tok_2)
    t, t_2 = {}, {}
    crop = TEMPLATE["crop_start"]
    for i, prompt in enumerate(PROMPTS):
        states, pooled, mask = pipe.encode_prompt(prompt, device="cpu", dtype=torch.float32)
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok, TEMPLATE["template"].format(prompt), 256 + crop)
        t_2[f"ids_{i}"], t_2[f"mask_{i}"] = ids_of(tok_2, prompt, 77)
        assert torch.equal(t[f"mask_{i}"][crop:], mask[0])
        t[f"states_{i}"] = states[0][mask[0].bool()]
        t_2[f"pooled_{i}"] = pooled[0]
    check_crop(t, crop)
    prompts = json.dumps(PROMPTS)
    golden.save(out / "hunyuanvideo-llama.safetensors", t, config=model.config.to_dict(),
                weights=weights[0], tokenizer=text, prompts=prompts, template=TEMPLATE["template"])
    golden.save(out / "hunyuanvideo-clip.safetensors", t_2, config=model_2.config.to_dict(),
                weights=weights[1], tokenizer=text_2, prompts=prompts)
    return [t_2[f"pooled_{i}"] for i in range(len(PROMPTS))]


def qwen_image(out):
    template = QwenImagePipeline(None, None, None, None, None).prompt_template_encode
    model, text, tok = qwen(template)
    model.eval().float()
    weights = golden.fill_module(model, skip=[k for k in model.state_dict() if "visual" in k])
    pipe = QwenImagePipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                             transformer=None)
    crop, t = pipe.prompt_template_encode_start_idx, {}
    for i, prompt in enumerate(PROMPTS):
        states, mask = pipe.encode_prompt(prompt, device="cpu")
        assert mask is None                      # a single prompt is not padded
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok, template.format(prompt), 1024 + crop)
        t[f"states_{i}"] = states[0]
    check_crop(t, crop)
    golden.save(out / "qwen-image-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(PROMPTS), template=template)


def t5(kind, width, proj="gated-gelu"):
    """T5 or UMT5, and a tokenizer of letters."""
    special = ["<pad>", "</s>"]
    text = tokenizer_json(LETTERS, special, [None, special[1]])
    size = 1 + len(LETTERS) + len(special)
    config = getattr(transformers, kind + "Config")(
        d_model=width, d_kv=8, num_heads=4, d_ff=64, num_layers=2, vocab_size=size,
        feed_forward_proj=proj, dropout_rate=0.0, pad_token_id=size - 2,
        eos_token_id=size - 1)
    model = getattr(transformers, kind + "EncoderModel")(config).eval().float()
    weights = golden.fill_module(model, skip=("encoder.embed_tokens.weight",))
    return model, weights, text, tokenizer(text, special[0])


def wan(out):
    model, weights, text, tok = t5("UMT5", 32)
    pipe = WanPipeline(tokenizer=tok, text_encoder=model, vae=None, scheduler=None)
    prompts = ["", "a &amp;lt;corgi&gt;\n drives  along the coast. ", "caf&#x65;",
               "the coast, " * 60]
    t = {}
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok, prompt_clean(prompt), 512)
        states = pipe._get_t5_prompt_embeds(prompt, max_sequence_length=512)[0]
        n = int(t[f"mask_{i}"].sum())
        assert not states[n:].any()
        t[f"states_{i}"] = states[:n]
    golden.save(out / "wan-text.safetensors", t, config=model.config.to_dict(), weights=weights,
                tokenizer=text, prompts=json.dumps(prompts))


def flux(out, pooled_of_clip):
    model, _, tok = clip()
    golden.fill_module(model.eval().float())
    model_2, weights_2, text_2, tok_2 = t5("T5", 16)
    pipe = FluxPipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                        text_encoder_2=model_2, tokenizer_2=tok_2, transformer=None)
    pipe.tokenizer_max_length = 77
    t = {}
    for i, prompt in enumerate(PROMPTS):
        states, pooled, _ = pipe.encode_prompt(prompt, None, device="cpu", max_sequence_length=512)
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok_2, prompt, 512)
        t[f"states_{i}"] = states[0]
        assert torch.equal(pooled[0], pooled_of_clip[i])
    golden.save(out / "flux-t5.safetensors", t, config=model_2.config.to_dict(),
                weights=weights_2, tokenizer=text_2, prompts=json.dumps(PROMPTS))


def chroma(out):
    model, weights, text, tok = t5("T5", 16)
    pipe = ChromaPipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                          transformer=None)

    def encode(prompt):
        states, _, mask, *_ = pipe.encode_prompt(prompt, device="cpu",
                                                 do_classifier_free_guidance=False)
        return states[0][mask[0].bool()]

    def tokens(prompt):
        return ids_of(tok, prompt, 512)
    t, prompts = many(tokens, encode), PROMPTS + ODD
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
        assert len(t[f"states_{i}"]) == min(t[f"mask_{i}"].sum() + 1, 512)
    golden.save(out / "chroma-t5.safetensors", t, config=model.config.to_dict(), weights=weights,
                tokenizer=text, prompts=json.dumps(prompts), captions=json.dumps(captions()))


def ltx(out, name, pipeline, length):
    model, weights, text, tok = t5("T5", 16)
    pipe = pipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok, transformer=None)
    t = {}
    for i, prompt in enumerate(PROMPTS + ODD):
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok, prompt, length)
        states, mask, _, _ = pipe.encode_prompt(prompt, do_classifier_free_guidance=False,
                                                device="cpu", max_sequence_length=length)
        assert torch.equal(mask[0], t[f"mask_{i}"].bool())
        t[f"states_{i}"] = states[0][mask[0]]
    golden.save(out / f"{name}.safetensors", t, config=model.config.to_dict(), weights=weights,
                tokenizer=text, prompts=json.dumps(PROMPTS + ODD))


def chat(special):
    """A tokenizer with Qwen's special tokens and CHAT, and its tokenizer.json."""
    pieces = sorted({"user", "assistant", "\n\n"} | set(LETTERS))
    text = tokenizer_json(pieces, special, [None])
    tok = tokenizer(text, "<|endoftext|>")
    tok.chat_template = CHAT
    return text, tok, 1 + len(pieces) + len(special)


def captions():
    """Returns 100 captions: odd ones, two of them joined, and lengths around the limit of 512."""
    short = PARTS + [a + " " + b for a, b in zip(PARTS, PARTS[7:] + PARTS[:7])]
    long = ["b" * n for n in range(490, 515)]
    long += [p * 200 for p in ("a cat. ", "\u732b", "\n \n", "<think>")]
    found = list(dict.fromkeys(short + long))
    more = (f"{k}: " + PARTS[k] * 3 for k in range(len(PARTS)))
    return (found + list(more))[:100]


def qwen3(width, layers, out_class):
    """A Qwen3 with a tokenizer that has CHAT; returns a function that renders a prompt too."""
    text, tok, size = chat(["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>"])
    rope = dict(rope_type="default", rope_theta=1000000.0)
    model = out_class(transformers.Qwen3Config(
        **dict(WIDTHS, hidden_size=width, intermediate_size=2 * width), num_hidden_layers=layers,
        num_key_value_heads=2, head_dim=16, vocab_size=size, rms_norm_eps=1e-6,
        rope_parameters=rope, tie_word_embeddings=False)).eval().float()
    return model, golden.fill_module(model), text, tok


def in_chat(tok, prompt, thinking):
    return tok.apply_chat_template([dict(role="user", content=prompt)], tokenize=False,
                                   add_generation_prompt=True, enable_thinking=thinking)


def many(tokens, encode):
    """The ids and the sums of the states of all captions; `tokens` returns a caption's ids and
    their mask, `encode` its states."""
    weights, ids, sums = golden.draw("row_weights", (512,)), [], []
    for caption in captions():
        ids.append(tokens(caption)[0].to(torch.int16))
        states = encode(caption)
        sums.append(weights[:len(states)] @ states)
    assert len(ids) == 100
    return {"row_weights": weights, "caption_ids": torch.stack(ids),
            "caption_sums": torch.stack(sums)}


def z_image(out):
    model, weights, text, tok = qwen3(32, 3, transformers.Qwen3Model)
    pipe = ZImagePipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                          transformer=None)

    def encode(prompt):
        return pipe.encode_prompt(prompt, device="cpu", do_classifier_free_guidance=False)[0][0]

    def tokens(prompt):
        return ids_of(tok, in_chat(tok, prompt, True), 512)
    t, prompts = many(tokens, encode), PROMPTS + ODD + CHATS
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
        assert len(t[f"states_{i}"]) == t[f"mask_{i}"].sum()
    golden.save(out / "z-image-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()), template=in_chat(tok, "{}", True),
                chat_template=CHAT)


def krea2_pipeline(model, tok):
    return Krea2Pipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                         transformer=None)


def qwen3_vl(size):
    rope = dict(rope_type="default", rope_theta=5000000.0, mrope_section=[2, 1, 1],
                mrope_interleaved=True)
    sizes = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_hidden_layers=36,
                 num_key_value_heads=1, head_dim=8, vocab_size=size, rms_norm_eps=1e-6,
                 rope_parameters=rope, tie_word_embeddings=False)
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=16,
                  num_position_embeddings=16, deepstack_visual_indexes=[0])
    model = transformers.Qwen3VLModel(
        transformers.Qwen3VLConfig(text_config=sizes, vision_config=vision)).eval().float()
    return model, golden.fill_module(model, skip=[k for k in model.state_dict() if "visual" in k])


def krea2(out):
    """The pipeline pads in front of the template's end, and its positions leave padding out; here
    the padding is behind."""
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    pipe = krea2_pipeline(None, None)
    template = (pipe.prompt_template_encode_prefix + "{}" + pipe.prompt_template_encode_suffix)
    pieces = sorted(set(words(template)) | set(LETTERS))
    text = tokenizer_json(pieces, special, [None])
    tok = tokenizer(text, "<|endoftext|>")
    model, weights = qwen3_vl(1 + len(pieces) + len(special))
    pipe = krea2_pipeline(model, tok)
    ids = {}
    forward = model.forward

    def record(*args, **kw):
        own = kw["attention_mask"][0]
        got, pads = kw["input_ids"][0][own], kw["input_ids"][0][~own]
        pads = torch.full_like(pads, tok.pad_token_id)
        ids.update(ids=torch.cat([got, pads]), mask=own.long().sort(descending=True).values)
        return forward(*args, **kw)
    model.forward = record

    def encode(prompt):
        states, mask = pipe.encode_prompt(prompt, device="cpu")
        return states[0][mask[0]].flatten(1)

    def tokens(prompt):
        encode(prompt)
        return ids["ids"], ids["mask"]
    t, prompts = many(tokens, encode), PROMPTS + ODD
    for i, prompt in enumerate(prompts):
        t[f"states_{i}"] = encode(prompt)
        t[f"ids_{i}"], t[f"mask_{i}"] = ids["ids"], ids["mask"]
    golden.save(out / "krea2-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()), template=template)


IDEOGRAM4_CHAT = ("{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}"
                  "{%- for content in message.content %}{%- if 'text' in content %}"
                  "{{- content.text }}{%- endif %}{%- endfor %}{{- '<|im_end|>\n' }}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}")


def ideogram4(out):
    """The pipeline raises on a prompt that is too long; here its first tokens are encoded, as by
    trainers that cut. It pads in front, which changes nothing: here there is no padding."""
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    text, tok, size = chat(special)
    tok.chat_template = IDEOGRAM4_CHAT
    model, weights = qwen3_vl(size)
    pipe = Ideogram4Pipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                             transformer=None, unconditional_transformer=None)

    def in_list(prompt):
        messages = [dict(role="user", content=[dict(type="text", text=prompt)])]
        return tok.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def tokens(prompt):
        return ids_of(tok, in_list(prompt), 512)

    def encode(prompt):
        ids, mask = tokens(prompt)
        n = int(mask.sum())
        if len(tok(in_list(prompt)).input_ids) <= 512:
            states = pipe.encode_prompt(prompt, 0, 0, n, "cpu")[0][0]
            assert len(states) == n
            return states
        states = pipe._get_text_encoder_hidden_states(model, ids[None], mask[None],
                                                      torch.arange(512)[None])
        return torch.stack(states, dim=-1)[0].flatten(1)
    t, prompts = many(tokens, encode), PROMPTS + ODD
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
    golden.save(out / "ideogram4-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()), template=in_list("{}"),
                chat_template=IDEOGRAM4_CHAT)


def flux2(out):
    model, weights, text, tok = qwen3(16, 28, transformers.Qwen3ForCausalLM)
    pipe = Flux2KleinPipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                              transformer=None)

    def encode(prompt):
        return pipe.encode_prompt(prompt, device="cpu")[0][0]

    def tokens(prompt):
        return ids_of(tok, in_chat(tok, prompt, False), 512)
    t, prompts = many(tokens, encode), PROMPTS
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
        assert len(t[f"states_{i}"]) == 512
    golden.save(out / "flux2-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()), template=in_chat(tok, "{}", False),
                chat_template=CHAT)


def mistral():
    special = ["<s>", "</s>", "<pad>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
               "[IMG]"]
    pieces = sorted(set(words(pipeline_flux2.SYSTEM_MESSAGE)) | set(LETTERS))
    text = tokenizer_json(pieces, special, [special[0], None])
    tok = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text),
                                               bos_token="<s>", pad_token="<pad>",
                                               padding_side="left")
    tok.chat_template = MISTRAL_CHAT
    rope = dict(rope_type="default", rope_theta=1e9)
    sizes = dict(WIDTHS, hidden_size=16, intermediate_size=32, num_hidden_layers=32, head_dim=16,
                 num_key_value_heads=2, vocab_size=1 + len(pieces) + len(special),
                 rms_norm_eps=1e-5, rope_parameters=rope, sliding_window=None, model_type="mistral",
                 tie_word_embeddings=False)
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                  num_attention_heads=1, head_dim=16)
    model = transformers.Mistral3ForConditionalGeneration(
        transformers.Mistral3Config(text_config=sizes, vision_config=vision,
                                    tie_word_embeddings=False)).eval().float()
    parts = ("vision_tower", "multi_modal_projector")
    return model, golden.fill_module(model, skip=[k for k in model.state_dict()
                                                  if any(p in k for p in parts)]), text, tok


def flux2_dev(out):
    model, weights, text, tok = mistral()
    pipe = Flux2Pipeline(scheduler=None, vae=None, text_encoder=model, tokenizer=tok,
                         transformer=None)

    def encode(prompt):
        return pipe.encode_prompt(prompt, device="cpu")[0][0]

    def tokens(prompt):
        got = tok.apply_chat_template(
            pipeline_flux2.format_input([prompt]), padding="max_length", truncation=True,
            max_length=512, return_dict=True, return_tensors="pt")
        return got["input_ids"][0], got["attention_mask"][0]
    t = many(tokens, encode)
    prompts = PROMPTS[:2] + ["an [IMG] [[IMG]IMG] <s>[INST]x"] + PROMPTS[3:]
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
    tok.padding_side = "right"
    t["right_1"] = encode(prompts[1])
    template = tok.apply_chat_template(pipeline_flux2.format_input(["{}"])[0], tokenize=False)
    golden.save(out / "flux2-dev-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()), template=template, chat_template=MISTRAL_CHAT)


def ernie():
    special = ["<s>", "</s>", "<pad>", "[INST]", "[/INST]", "[IMG]"]
    text = tokenizer_json(LETTERS, special, [special[0], None])
    tok = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text), bos_token="<s>", pad_token="<pad>",
        padding_side="right", model_max_length=ERNIE_LENGTH)
    sizes = dict(WIDTHS, num_hidden_layers=4, head_dim=16, num_key_value_heads=2,
                 vocab_size=1 + len(LETTERS) + len(special), rms_norm_eps=1e-5,
                 rope_parameters=YARN, sliding_window=None, model_type="ministral3")
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                  num_attention_heads=1, head_dim=16)
    model = transformers.Mistral3Model(transformers.Mistral3Config(
        text_config=sizes, vision_config=vision)).eval().float()
    parts = ("vision_tower", "multi_modal_projector")
    return model, golden.fill_module(model, skip=[k for k in model.state_dict()
                                                  if k.startswith(parts)]), text, tok


def ernie_image(out):
    model, weights, text, tok = ernie()
    pipe = ErnieImagePipeline(transformer=None, vae=None, text_encoder=model, tokenizer=tok,
                              scheduler=None)

    def encode(prompt):
        return pipe.encode_prompt(prompt, device="cpu")[0]

    def tokens(prompt):
        return ids_of(tok, prompt, ERNIE_LENGTH)
    t, prompts = many(tokens, encode), PROMPTS + ODD
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
        assert len(t[f"states_{i}"]) == t[f"mask_{i}"].sum()
    golden.save(out / "ernie-image-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(captions()))


def make(out):
    pooled = hunyuanvideo(out)
    qwen_image(out)
    wan(out)
    flux(out, pooled)
    chroma(out)
    ltx(out, "ltx-text", LTXPipeline, 128)
    ltx(out, "ltx-condition-text", LTXConditionPipeline, 256)
    z_image(out)
    krea2(out)
    ideogram4(out)
    flux2(out)
    flux2_dev(out)
    ernie_image(out)
