"""Qwen-Image-Edit's transformer, as QwenImageEditPlusPipeline calls it: outputs, losses and
gradients with reference pictures of other sizes than the picture's, and those of a LoRA.

`qwen-edit` is Qwen-Image's transformer, `qwen-edit-2511` the same with zero_cond_t. Their cases
`NAME/...` hold qwen.py's tensors and `cond.reference_k` [B,C,1,H,W]; the case `without` has none.
The gradients of the case `base` are `grad/<parameter>`, those of its LoRA `lora/grad/<factor>`.
"""
import golden
import torch
from diffusers import QwenImageTransformer2DModel

# the picture's B, h, w, and the references' heights and widths
CASES = {"base": (2, 4, 6, (6, 8)), "two": (1, 4, 6, (8, 2), (2, 4)),
         "three": (1, 2, 4, (4, 10), (6, 2), (2, 2)), "without": (1, 4, 4)}


def inputs(config, case, b, h, w, *references):
    v = golden.part("qwen").inputs(config, case, b, h, w)
    for k, size in enumerate(references):
        shape = (b, config["out_channels"], 1, *size)
        v[f"cond.reference_{k + 1}"] = golden.draw(f"reference {k} {case}", shape)
    return v


def predict(model, config, v):
    qwen = golden.part("qwen")
    dtype, b = model.proj_out.weight.dtype, len(v["x"])
    x = [v["x"]] + [v[n] for n in sorted(v) if n.startswith("cond.reference")]
    packed = [golden.packed(p) for p in x]
    mask = torch.arange(qwen.TEXT)[None] < v["length"][:, None]
    shapes = [(1, p.shape[3] // 2, p.shape[4] // 2) for p in x]
    y = model(hidden_states=torch.cat(packed, 1).to(dtype), timestep=v["t"] / 1000,
              encoder_hidden_states=v["text"].to(dtype), encoder_hidden_states_mask=mask,
              img_shapes=[shapes] * b, return_dict=False)[0]
    return golden.unpacked(y[:, :packed[0].shape[1]], v["x"])


def make(out):
    qwen = golden.part("qwen")
    for name, fields in (("qwen-edit", {}), ("qwen-edit-2511", dict(zero_cond_t=True))):
        golden.transformer(out / f"{name}.safetensors", QwenImageTransformer2DModel,
                           {**qwen.TINY, **fields}, CASES, inputs, predict, qwen.LORA)
