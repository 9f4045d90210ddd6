"""Prompts through the two text encoders of HunyuanVideo 1.5 as diffusers' pipeline runs them:
Qwen2.5-VL's text part (chat template, crop, mask, the state before the last two layers) and ByT5,
which reads what a prompt has in quotes.

`hunyuan15-text` and `hunyuan15-glyphs` are like the files of text_families.py: `prompts` with
`ids_i`, `mask_i` and `states_i`, and 100 `captions` with `caption_ids` and `caption_sums`. A prompt
without quotes has a row of zeros for glyphs, and the ids of an empty text. `tokenizer_config` is
ByT5's, which has no other file.
"""
import json
import pathlib
import re
import tempfile

import torch
import transformers
from diffusers import HunyuanVideo15Pipeline
from diffusers.pipelines.hunyuan_video1_5.pipeline_hunyuan_video1_5 import extract_glyph_texts

import golden

LENGTH, CROP, GLYPHS, CAPTIONS = 1000, 108, 256, 100
QUOTED = ['a sign "OPEN"', "\u201cCaf\u00e9 \u732b \U0001f431\u201d", '"a" and "b", "a"',
          '"" and nothing', 'no end "here', 'one "', '"two\nlines"', '\u201ctwo\nlines\u201d "x"',
          '\u201ca "b" c\u201d', '"a \u201cb\u201d c"', "\u201da\u201c", "'single'",
          '\u201c\u201c x \u201d\u201d', '"' + "long " * 60 + '"', '"' + "\u732b" * 84 + '"',
          '"</s>" and "<pad> <unk>"', '"<0x41>"', '" blanks "', '"\t"', '"<extra_id_0>"',
          '\u201cA\u201d\u201cB\u201d', '"A""B"', "\"'\"", '\u201eA\u201c', '\u00abA\u00bb',
          '"\x01\x7f"', '"{} %s"', '"a\rb"', '"a\u2028b"', '\\"A\\"']


def captions():
    found = golden.part("text_families").captions()
    found = list(dict.fromkeys(QUOTED + found))[:CAPTIONS - 12]
    return found + ["b" * n for n in range(990, 1002)]


def qwen():
    """Qwen2.5-VL's text part, and a tokenizer with a piece for each token that Qwen's makes of the
    template."""
    text_families = golden.part("text_families")
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    message = HunyuanVideo15Pipeline._get_mllm_prompt_embeds.__defaults__[-2]
    template = (f"<|im_start|>system\n{message}<|im_end|>\n<|im_start|>user\n{{}}<|im_end|>\n"
                "<|im_start|>assistant\n")
    between = re.split(r"<\|\w+\|>|\{\}", template)
    pieces = {p for part in between
              for p in re.findall(r"\s*\n+| ?[A-Za-z]+|\d| ?[^\s\w]+|\s+(?!\S)|\s", part)}
    pieces = sorted(pieces | set(text_families.LETTERS))
    text = text_families.tokenizer_json(pieces, special, [None])
    tok = text_families.tokenizer(text, "<|endoftext|>")
    tok.chat_template = text_families.CHAT
    rope = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 1, 1])
    config = transformers.models.qwen2_5_vl.configuration_qwen2_5_vl.Qwen2_5_VLTextConfig(
        **text_families.WIDTHS, num_hidden_layers=4, num_key_value_heads=2,
        vocab_size=1 + len(pieces) + len(special), rms_norm_eps=1e-6, rope_parameters=rope)
    model = transformers.Qwen2_5_VLTextModel(config).eval().float()
    return model, golden.fill_module(model), text, tok, template


def byt5():
    tok = transformers.ByT5Tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        tok.save_pretrained(folder)
        files = sorted(p.name for p in pathlib.Path(folder).iterdir())
        config = (pathlib.Path(folder) / "tokenizer_config.json").read_text()
    print("ByT5Tokenizer:", files)
    size = len(tok)
    model = transformers.T5EncoderModel(transformers.T5Config(
        d_model=32, d_kv=8, num_heads=4, d_ff=64, num_layers=2, vocab_size=size,
        feed_forward_proj="gated-gelu", dropout_rate=0.0, pad_token_id=0,
        eos_token_id=1)).eval().float()
    return model, golden.fill_module(model, skip=("encoder.embed_tokens.weight",)), config, tok


def pipeline(text, glyphs):
    vae = golden.part("vae_hunyuan15").model()[0]
    return HunyuanVideo15Pipeline(text_encoder=text[0], tokenizer=text[3], transformer=None,
                                  vae=vae, scheduler=None, text_encoder_2=glyphs[0],
                                  tokenizer_2=glyphs[3], guider=None)


def padded(ids, mask, length):
    return ids.reshape(length), mask.reshape(length)


def text_tokens(tok, prompt):
    message = HunyuanVideo15Pipeline._get_mllm_prompt_embeds.__defaults__[-2]
    got = tok.apply_chat_template(
        [dict(role="system", content=message), dict(role="user", content=prompt or " ")],
        add_generation_prompt=True, tokenize=True, return_dict=True, padding="max_length",
        max_length=LENGTH + CROP, truncation=True, return_tensors="pt")
    return padded(got.input_ids, got.attention_mask, LENGTH + CROP)


def glyph_tokens(tok, prompt):
    got = tok(extract_glyph_texts(prompt) or "", padding="max_length", max_length=GLYPHS,
              truncation=True, add_special_tokens=True, return_tensors="pt")
    return padded(got.input_ids, got.attention_mask, GLYPHS)


def save(path, model, weights, tokens, encode, prompts, rows, **meta):
    weight = golden.draw("row_weights", (rows,))
    t, ids, sums = {"row_weights": weight}, [], []
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
    for caption in captions():
        states = encode(caption)
        ids.append(tokens(caption)[0].to(torch.int16))
        sums.append(weight[:len(states)] @ states)
    assert len(ids) == CAPTIONS
    t.update(caption_ids=torch.stack(ids), caption_sums=torch.stack(sums))
    golden.save(path, t, config=model.config.to_dict(), weights=weights,
                prompts=json.dumps(prompts), captions=json.dumps(captions()), **meta)


def make(out):
    text, glyphs = qwen(), byt5()
    pipe = pipeline(text, glyphs)

    def states(prompt, k):
        got = pipe.encode_prompt(prompt, device="cpu", dtype=torch.float32)
        embeds, mask = got[2 * k][0], got[2 * k + 1][0].bool()
        return embeds[mask] if mask.any() else torch.zeros(1, embeds.shape[1])

    prompts = golden.part("text_families").PROMPTS + ['a sign "OPEN" at \u201cnight\u201d']
    save(out / "hunyuan15-text.safetensors", text[0], text[1],
         lambda p: text_tokens(text[3], p), lambda p: states(p, 0), prompts, LENGTH,
         tokenizer=text[2], template=text[4], chat_template=text[3].chat_template)
    save(out / "hunyuan15-glyphs.safetensors", glyphs[0], glyphs[1],
         lambda p: glyph_tokens(glyphs[3], p), lambda p: states(p, 1),
         prompts + QUOTED[:6] + QUOTED[13:17], GLYPHS, tokenizer_config=glyphs[2])
