"""Stable Diffusion 3's transformer, and a LoRA on it: outputs, losses and gradients.

Each variant has a file: `3` has no norms of queries and keys, `3.5` (large) has them, and the
first block of `3.5-medium` has a second attention. Its cases `NAME/...` have pictures of different
sizes; a case holds x [B,C,1,h,w], t, target, output, loss, the states `text` and `text_2` of both
CLIP encoders with their `pooled` and `pooled_2`, and `text_3` of T5, which forward() gets joined as
the pipeline joins them. In the case `without` T5 was not given the prompt: `text_3` is a row of
zeros, and forward() gets NO_T5. The gradients of the case `base` are `grad/<parameter>`. The case
`lora` has a LoRA on the same weights, which are frozen; its gradients are `lora/grad/<factor>`. `sd3-run` holds no cases: it is a
model for programs, whose texts are those of sd3_text.py.
"""
import golden
import torch
from diffusers import SD3Transformer2DModel

TINY = dict(num_layers=2, num_attention_heads=2, attention_head_dim=8, in_channels=4,
            out_channels=4, patch_size=2, joint_attention_dim=12, caption_projection_dim=16,
            pooled_projection_dim=10, sample_size=16, pos_embed_max_size=8,
            dual_attention_layers=[])
# name: config, {case: (B, h, w)}. `base` uses the middle 4 x 6 of the table's 8 x 8 positions,
# `odd` uses 7 x 3.
VARIANTS = {
    "3": (dict(qk_norm=None), {"base": (2, 8, 12), "odd": (1, 14, 6), "without": (2, 4, 6)}),
    "3.5": (dict(qk_norm="rms_norm"), {"base": (2, 8, 12), "whole": (1, 16, 16)}),
    "3.5-medium": (dict(qk_norm="rms_norm", num_layers=3, dual_attention_layers=[0]),
                   {"base": (2, 8, 12), "odd": (1, 14, 6)}),
}
TIMES = [999.0, 437.0]
TOKENS, T5_TOKENS, NO_T5 = 3, 5, 256
WIDTHS = 4, 6                              # of both CLIP encoders, narrower together than T5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "pos_embed.proj"])


def inputs(config, case, b, h, w):
    c = config["in_channels"]
    v = golden.noisy(case, (b, c, 1, h, w), TIMES[:b], TOKENS, WIDTHS[0])
    v["text_2"] = golden.draw("text_2 " + case, (b, TOKENS, WIDTHS[1]))
    v["text_3"] = golden.draw("text_3 " + case, (b, T5_TOKENS, config["joint_attention_dim"]))
    if case == "without":
        v["text_3"] = torch.zeros(b, 1, config["joint_attention_dim"])
    v["pooled"] = golden.draw("pooled " + case, (b, WIDTHS[0]))
    v["pooled_2"] = golden.draw("pooled_2 " + case, (b, WIDTHS[1]))
    return v


def joined(v):
    """Returns the embeddings and the pooled vector that StableDiffusion3Pipeline makes."""
    clip = torch.cat([v["text"], v["text_2"]], -1)
    t5 = v["text_3"]
    if t5.shape[1] == 1:
        t5 = torch.zeros(t5.shape[0], NO_T5, t5.shape[2])
    clip = torch.nn.functional.pad(clip, (0, t5.shape[-1] - clip.shape[-1]))
    return torch.cat([clip, t5], -2), torch.cat([v["pooled"], v["pooled_2"]], -1)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    text, pooled = joined(v)
    return model(hidden_states=v["x"][:, :, 0].to(dtype), timestep=v["t"],
                 encoder_hidden_states=text.to(dtype), pooled_projections=pooled.to(dtype),
                 return_dict=False)[0][:, :, None]


def fitting(out):
    """Writes the config.json and the shapes of a model whose texts are those of sd3_text.py."""
    text = golden.part("sd3_text")
    config = {**TINY, **VARIANTS["3.5-medium"][0], "joint_attention_dim": text.WIDTH,
              "pooled_projection_dim": sum(c[2] for c in text.CLIPS), "pos_embed_max_size": 12}
    _, config, shapes = golden.tiny(SD3Transformer2DModel, config)
    golden.save(out / "sd3-run.safetensors", {"none": torch.zeros(1)}, config=config,
                weights=shapes)


def make(out):
    fitting(out)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"sd{name}.safetensors", SD3Transformer2DModel, {**TINY, **config},
                           cases, inputs, predict, LORA)
