"""Decoders as text encoders: LLaMA (HunyuanVideo), Qwen2.5-VL's text part (Qwen-Image), Qwen3
(Z-Image), Qwen3-VL's text part (Krea 2) and Ministral 3 in Mistral 3's class (ERNIE-Image).

transformers encodes three texts of 5, 40 and 150 tokens in one batch, padded on the right and
masked. `states_N` are the valid rows of hidden_states[-1], after the final norm; `skip2_N` are
those of hidden_states[-3], before the norm; `skip4_5` is the embedding, without any layer.
`taps_40` are the states after the layers 3, 1 and 4, one behind the other, the last
after the final norm; `padded_40` those of skip2_40 with the rows of padding, 150.
`bf16_40` and `f16_40` are skip2_40 with weights rounded to this type. Everything is computed in
f32.

`llama` has fewer key heads than query heads. `llama3` has scaled rotations of all three kinds
(unchanged, slowed, between), heads that are wider than width / heads, and all biases. `qwen2.5-vl`
has the whole model's hidden_states, as the pipeline uses them. `qwen3` has norms of each head's
queries and keys, and heads that are wider than width / heads. `ministral3` has YaRN's rotations of
all three kinds. `mistral-comfyui` holds the tensors
of a file that is cut to the layers whose states are read, three of five: `taps_N` are the states
after the layers 1, 2 and 3, none of which passes the final norm.
"""
import re

import numpy as np
import torch
import transformers

import golden

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=64, max_position_embeddings=512)
LENGTHS = (5, 40, 150)
SCALED = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)


def llama():
    rope = dict(rope_type="default", rope_theta=500000.0)
    return transformers.LlamaModel(transformers.LlamaConfig(
        **SIZES, rms_norm_eps=1e-5, rope_parameters=rope))


def llama3():
    return transformers.LlamaModel(transformers.LlamaConfig(
        **SIZES, rms_norm_eps=1e-5, rope_parameters=SCALED, head_dim=16, attention_bias=True,
        mlp_bias=True))


def qwen():
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32)
    rope = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 1, 1])
    text = dict(**SIZES, rms_norm_eps=1e-6, rope_parameters=rope, tie_word_embeddings=False)
    return transformers.Qwen2_5_VLForConditionalGeneration(
        transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision))


def qwen3():
    rope = dict(rope_type="default", rope_theta=1000000.0)
    return transformers.Qwen3Model(transformers.Qwen3Config(
        **SIZES, rms_norm_eps=1e-6, rope_parameters=rope, head_dim=16, tie_word_embeddings=False))


def ministral3():
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                  num_attention_heads=1, head_dim=16)
    text = dict(**dict(SIZES, max_position_embeddings=262144), rms_norm_eps=1e-5, head_dim=16,
                model_type="ministral3", rope_parameters=golden.part("text_families").YARN)
    return transformers.Mistral3Model(
        transformers.Mistral3Config(text_config=text, vision_config=vision))


def mistral_comfyui(out):
    """Heads are 128 wide, as of all files without a config.json."""
    rope = dict(rope_type="default", rope_theta=1e9)
    model = transformers.MistralForCausalLM(transformers.MistralConfig(
        **dict(SIZES, num_hidden_layers=5), rms_norm_eps=1e-5, rope_parameters=rope, head_dim=128,
        sliding_window=None, tie_word_embeddings=False)).eval().float()
    weights = golden.fill_module(model)
    cut = {k: v for k, v in weights.items()
           if not re.match(r"lm_head|model\.norm|model\.layers\.[34]\.", k)}
    ids, all_states = batch()[0], states(model)
    t = {}
    for i, n in enumerate(LENGTHS[:2]):
        t[f"ids_{n}"] = ids[i, :n]
        t[f"taps_{n}"] = torch.cat([all_states[k][i, :n] for k in (1, 2, 3)], -1)
    golden.save(out / "mistral-comfyui.safetensors", t, config={}, weights=cut)


def qwen3_vl():
    """Qwen3VLModel, whose text part has Qwen3's layers and three axes of positions."""
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
                  num_position_embeddings=16, deepstack_visual_indexes=[0])
    rope = dict(rope_type="default", rope_theta=5000000.0, mrope_section=[4, 2, 2],
                mrope_interleaved=True)
    text = dict(**SIZES, rms_norm_eps=1e-6, rope_parameters=rope, head_dim=16,
                tie_word_embeddings=False)
    return transformers.Qwen3VLModel(
        transformers.Qwen3VLConfig(text_config=text, vision_config=vision))


def batch():
    """Returns the ids and the mask: words, then pads."""
    ids = np.zeros((len(LENGTHS), max(LENGTHS)), np.int64)
    for row, n in zip(ids, LENGTHS):
        row[:n] = np.random.default_rng(n).integers(1, SIZES["vocab_size"], n)
    mask = np.arange(max(LENGTHS))[None] < np.array(LENGTHS)[:, None]
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


def states(model):
    ids, mask = batch()
    return model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states


def make(out):
    for name, build in (("llama", llama), ("llama3", llama3), ("qwen2.5-vl", qwen),
                        ("qwen3", qwen3), ("qwen3-vl", qwen3_vl), ("ministral3", ministral3)):
        model = build().eval().float()
        vision = [k for k in model.state_dict()
                  if any(part in k for part in ("visual", "vision_tower", "multi_modal"))]
        weights = golden.fill_module(model, skip=vision)
        all_states = states(model)
        t = {}
        for i, n in enumerate(LENGTHS):
            t[f"ids_{n}"] = batch()[0][i, :n]
            t[f"states_{n}"] = all_states[-1][i, :n]
            t[f"skip2_{n}"] = all_states[-3][i, :n]
        t["skip4_5"] = all_states[-5][0, :5]
        t["taps_40"] = torch.cat([all_states[k][1, :40] for k in (3, 1, 4)], -1)
        t["padded_40"] = all_states[-3][1]
        for dtype, label in ((torch.bfloat16, "bf16_40"), (torch.float16, "f16_40")):
            restore = golden.rounded(model, dtype)
            t[label] = states(model)[-3][1, :40]
            restore()
        golden.save(out / f"{name}.safetensors", t, config=model.config.to_dict(), weights=weights)
    mistral_comfyui(out)
