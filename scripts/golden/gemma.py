"""Gemma 3 as a text encoder (LTX-2): the states of all layers, from the embeddings to those after
the last norm. transformers encodes two texts of 5 and 40 tokens in one batch with padding in front;
`states_N` [layers + 1,N,D] are the valid rows. Weights are f32, in `bf16_40` bf16."""
import numpy as np
import torch
import transformers

import golden

LENGTHS, VOCAB = (5, 40), 64
ROPE = dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0))
TEXT = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, vocab_size=VOCAB, query_pre_attn_scalar=24,
            sliding_window=48, rope_parameters=ROPE)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
              image_size=28, patch_size=14)


def batch():
    ids = np.zeros((len(LENGTHS), max(LENGTHS)), np.int64)
    for row, n in zip(ids, LENGTHS):
        row[max(LENGTHS) - n:] = np.random.default_rng(n).integers(1, VOCAB - 4, n)
    mask = np.arange(max(LENGTHS))[None] >= max(LENGTHS) - np.array(LENGTHS)[:, None]
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


def states(model):
    ids, mask = batch()
    out = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    return torch.stack(out.hidden_states)


def make(out):
    model = transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
        text_config=TEXT, vision_config=VISION, mm_tokens_per_image=4, image_token_index=60,
        boi_token_index=61, eoi_token_index=62)).eval().float()
    other = ("vision", "multi_modal", "lm_head")     # the head is the table of embeddings
    weights = golden.fill_module(model, skip=[k for k in model.state_dict()
                                              if any(o in k for o in other)])
    t, every = {}, states(model)
    for i, n in enumerate(LENGTHS):
        t[f"ids_{n}"] = batch()[0][i, -n:]
        t[f"states_{n}"] = every[:, i, -n:]
    golden.rounded(model, torch.bfloat16)
    table = model.model.language_model.embed_tokens
    table.embed_scale.copy_(table.embed_scale.bfloat16())       # as where the table is bf16
    t["bf16_40"] = states(model)[:, 1]
    golden.save(out / "gemma3.safetensors", t, config=model.config.to_dict(), weights=weights)
