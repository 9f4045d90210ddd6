"""T5 v1.1, T5 v1.0 ("t5-relu") and UMT5 encoders: states of 40 and 150 tokens, beyond the last
bucket of distances.

`states_N` have f32 weights, `bf16_40` and `f16_40` have weights rounded to this type; all states
are computed in f32. T5 gets no mask: tokens attend to the pads at the end. UMT5 gets a mask, which
ends before the first id 0; `masked_40` lacks the states of pads.

The weights of queries are a quarter of the values of their names: T5 initializes them smaller by
sqrt(d_kv), and scores are not scaled. With larger random weights the softmax is so sharp that
PyTorch's bf16 has an error of 5e-2 too.
"""
import numpy as np
import torch
import transformers

import golden

SIZES = dict(d_model=32, d_kv=8, num_heads=4, d_ff=64, num_layers=2, vocab_size=64,
             feed_forward_proj="gated-gelu", dropout_rate=0.0)
TIED = ("encoder.embed_tokens.weight",)


def prompt(length, words):
    """Returns ids like a tokenizer's: words, the end (1), pads (0)."""
    ids = np.zeros((1, length), np.int64)
    ids[0, :words] = np.random.default_rng(length).integers(2, SIZES["vocab_size"], words)
    ids[0, words] = 1
    return torch.from_numpy(ids)


def make(out):
    for name, kind, proj in (("t5", "T5", "gated-gelu"), ("t5-relu", "T5", "relu"),
                             ("umt5", "UMT5", "gated-gelu")):
        config = getattr(transformers, kind + "Config")(**dict(SIZES, feed_forward_proj=proj))
        model = getattr(transformers, kind + "EncoderModel")(config).eval().float()
        weights = golden.fill_module(model, skip=TIED)
        for key, p in model.named_parameters():
            if key.endswith(".q.weight"):
                p.mul_(0.25)
        ids = {40: prompt(40, 30), 150: prompt(150, 149)}
        t = {f"ids_{n}": v[0] for n, v in ids.items()}
        for n, v in ids.items():
            t[f"states_{n}"] = model(v).last_hidden_state[0]
        if name == "umt5":
            v = ids[40]
            mask = (v != 0).long()
            t["masked_40"] = model(v, attention_mask=mask).last_hidden_state[0, :int(mask.sum())]
        for dtype, label in ((torch.bfloat16, "bf16_40"), (torch.float16, "f16_40")):
            restore = golden.rounded(model, dtype)
            t[label] = model(ids[40]).last_hidden_state[0]
            restore()
        golden.save(out / f"{name}.safetensors", t, config=config.to_dict(), weights=weights)
