"""Prompts through the text encoders of families as diffusers' pipelines run them: HunyuanVideo's
two (template, crop, mask; pooled) and Qwen-Image's (template, crop, mask).

`hunyuanvideo-llama`, `hunyuanvideo-clip` and `qwen-image-text` hold a tiny encoder and its
`tokenizer` (tokenizer.json) each, and of every prompt `prompts` [i]: `ids_i` and `mask_i` as the
encoder got them, padded, and the pipeline's result: `states_i` [n,D], the rows that its mask
leaves, or `pooled_i` [D]. `template` is the pipeline's own.

The tokenizers are unigram models. Each decoder's has one piece for each word of the template, as
the real ones have, so that as many tokens stand in front of the prompt here; all else is single
letters.
"""
import json
import re
import string
import tempfile

import torch
import transformers
from diffusers import HunyuanVideoPipeline, QwenImagePipeline
from diffusers.pipelines.hunyuan_video import pipeline_hunyuan_video

import golden

TEMPLATE = pipeline_hunyuan_video.DEFAULT_PROMPT_TEMPLATE
PROMPTS = ["", "a corgi drives along the coast.", "\n1. the video, by camera\n", "the coast, " * 60]
LETTERS = list(string.ascii_letters + string.digits + string.punctuation + " \n")
WIDTHS = dict(hidden_size=32, intermediate_size=64, num_attention_heads=4)


def words(text):
    """The pieces between the special tokens, as LLaMA 3's pattern cuts them."""
    between = "".join(re.split(r"<\|\w+\|>|\{\}", text))
    return re.findall(r"\s*[\r\n]+| ?[A-Za-z]+|\d| ?[^\s\w]|\s", between)


def tokenizer_json(pieces, special, template):
    """A unigram model of the pieces; longer ones cost as little as letters. Special ids follow."""
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


def qwen(template):
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    pieces = sorted(set(words(template)) | set(LETTERS))
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
    """The first two prompts have the template's tokens in common."""
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
        assert mask is None                      # one prompt has no padding
        t[f"ids_{i}"], t[f"mask_{i}"] = ids_of(tok, template.format(prompt), 1024 + crop)
        t[f"states_{i}"] = states[0]
    check_crop(t, crop)
    golden.save(out / "qwen-image-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(PROMPTS), template=template)


def make(out):
    hunyuanvideo(out)
    qwen_image(out)
