"""CLIP's text model (HunyuanVideo, FLUX): states and pooled states of texts of 3, 12 and 77 tokens.

A text is a start (98), words below 98, an end (99), and as padding more ends up to 77 tokens, as in
CLIP's tokenizers. `ids_N`, `states_N` [77,D] and `pooled_N` [D] belong to the text whose end is
token N-1. `clip` has quick-GELU, and finds the end by config.json's eos_token_id; `clip-legacy` has
GELU, eos_token_id 2, which means that the largest id is the end, and pads of 0. `bf16_12` and
`f16_12` are pooled_12 with weights rounded to this type. `clip-projected` is a
CLIPTextModelWithProjection (Stable Diffusion 3): its pooled states are projected to another width,
its states those in front of the last layer. Everything is computed in f32, in one batch without a
mask.
"""
import numpy as np
import torch
import transformers

import golden

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
             vocab_size=100, max_position_embeddings=77, projection_dim=32, bos_token_id=98)
START, END = 98, 99
LENGTHS = (3, 12, 77)


def batch(pad):
    ids = np.full((len(LENGTHS), 77), pad, np.int64)
    for row, n in zip(ids, LENGTHS):
        row[0], row[n - 1] = START, END
        row[1:n - 1] = np.random.default_rng(n).integers(1, START, n - 2)
    return torch.from_numpy(ids)


def projected(out):
    config = transformers.CLIPTextConfig(**dict(SIZES, projection_dim=24), hidden_act="gelu",
                                         eos_token_id=2, pad_token_id=0)
    model = transformers.CLIPTextModelWithProjection(config).eval().float()
    weights = golden.fill_module(model)
    ids = batch(0)
    result = model(ids, output_hidden_states=True)
    t = {}
    for i, n in enumerate(LENGTHS):
        t[f"ids_{n}"] = ids[i]
        t[f"pooled_{n}"] = result.text_embeds[i]
        t[f"states_{n}"] = result.hidden_states[-2][i]
    golden.save(out / "clip-projected.safetensors", t, config=config.to_dict(), weights=weights)


def make(out):
    projected(out)
    for name, act, eos, pad in (("clip", "quick_gelu", END, END), ("clip-legacy", "gelu", 2, 0)):
        config = transformers.CLIPTextConfig(**SIZES, hidden_act=act, eos_token_id=eos,
                                             pad_token_id=pad)
        model = transformers.CLIPTextModel(config).eval().float()
        weights = golden.fill_module(model)
        ids = batch(pad)
        result = model(ids)
        t = {}
        for i, n in enumerate(LENGTHS):
            t[f"ids_{n}"] = ids[i]
            t[f"pooled_{n}"] = result.pooler_output[i]
            t[f"states_{n}"] = result.last_hidden_state[i]
        for dtype, label in ((torch.bfloat16, "bf16_12"), (torch.float16, "f16_12")):
            restore = golden.rounded(model, dtype)
            t[label] = model(ids).pooler_output[1]
            restore()
        golden.save(out / f"{name}.safetensors", t, config=config.to_dict(), weights=weights)
