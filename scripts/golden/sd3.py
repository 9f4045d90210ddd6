"""Stable Diffusion 3's transformer, and a LoRA on it: outputs, losses and gradients.

Each variant has a file: `3` has no norms of queries and keys, `3.5` has them. Its cases `NAME/...`
have pictures of different sizes; a case holds x [B,C,1,h,w], t, text, pooled, target, output, loss.
The gradients of the case `base` are `grad/<parameter>`. The case `lora` has a LoRA on the same
weights, which are frozen; its gradients are `lora/grad/<factor>`.
"""
import golden
from diffusers import SD3Transformer2DModel

TINY = dict(num_layers=2, num_attention_heads=2, attention_head_dim=8, in_channels=4,
            out_channels=4, patch_size=2, joint_attention_dim=12, caption_projection_dim=16,
            pooled_projection_dim=10, sample_size=16, pos_embed_max_size=8,
            dual_attention_layers=[])
# name: config, {case: (B, h, w)}. `base` uses the middle 4 x 6 of the table's 8 x 8 positions,
# `odd` uses 7 x 3.
VARIANTS = {
    "3": (dict(qk_norm=None), {"base": (2, 8, 12), "odd": (1, 14, 6)}),
    "3.5": (dict(qk_norm="rms_norm"), {"base": (2, 8, 12), "whole": (1, 16, 16)}),
}
TIMES = [999.0, 437.0]
TOKENS = 5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "pos_embed.proj"])


def inputs(config, case, b, h, w):
    c = config["in_channels"]
    v = golden.noisy(case, (b, c, 1, h, w), TIMES[:b], TOKENS, config["joint_attention_dim"])
    v["pooled"] = golden.draw("pooled " + case, (b, config["pooled_projection_dim"]))
    return v


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    return model(hidden_states=v["x"][:, :, 0].to(dtype), timestep=v["t"],
                 encoder_hidden_states=v["text"].to(dtype),
                 pooled_projections=v["pooled"].to(dtype), return_dict=False)[0][:, :, None]


def make(out):
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"sd{name}.safetensors", SD3Transformer2DModel, {**TINY, **config},
                           cases, inputs, predict, LORA)
