"""Qwen-Image's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in the picture's size: x [B,C,1,h,w], t [B], text with the lengths of its
rows, noise's target, output, loss. The case `base` has `grad/<parameter>` too, but for parameters
that the output does not depend on; the case `lora` is of a LoRA on the same weights, frozen, and
its gradients are `lora/grad/<factor>`. Levels are numbers of bf16, to which diffusers rounds them
where the model is in bf16; those of the case `any` are not.
"""
import golden
import torch
from diffusers import QwenImageTransformer2DModel

TINY = dict(patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=32, axes_dims_rope=(4, 6, 6))
CASES = {"base": (2, 4, 6), "odd": (1, 10, 6), "wide": (2, 2, 8), "any": (2, 4, 4)}
TIMES, ANY_TIMES, LENGTHS, TEXT = [984.375, 437.5], [987.3, 437.1], [5, 9], 9
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "img_mlp.net.0.proj", "img_mlp.net.2",
                            "txt_mlp.net.2", "img_mod.1", "txt_mod.1", "img_in", "txt_in",
                            "norm_out.linear", "proj_out"])


def inputs(config, case, b, h, w):
    c, wide = config["out_channels"], config["joint_attention_dim"]
    length = LENGTHS[:b] if b > 1 else [TEXT]
    return golden.noisy(case, (b, c, 1, h, w), (ANY_TIMES if case == "any" else TIMES)[:b], TEXT,
                        wide, length)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    b, _, _, h, w = v["x"].shape
    mask = torch.arange(TEXT)[None] < v["length"][:, None]
    y = model(hidden_states=golden.packed(v["x"]).to(dtype), timestep=v["t"] / 1000,
              encoder_hidden_states=v["text"].to(dtype), encoder_hidden_states_mask=mask,
              img_shapes=[[(1, h // 2, w // 2)]] * b, return_dict=False)[0]
    return golden.unpacked(y, v["x"])


def make(out):
    golden.transformer(out / "qwen.safetensors", QwenImageTransformer2DModel, TINY, CASES, inputs,
                       predict, LORA)
