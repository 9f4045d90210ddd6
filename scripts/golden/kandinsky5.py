"""Kandinsky 5's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` have different grids: x [B,C,f,h,w], t [B], text with the lengths of its rows,
pooled, target, output, loss; `clean` has 1 for rows whose first frame is clean. The gradients of
the case `base` are `grad/<parameter>`, those of the case `lora`, on the same weights,
`lora/grad/<factor>`. "kandinsky5-near" has a grid of 480 by 480 pixels, whose positions are nearer
to each other than those of smaller ones.

The class rounds rotated queries and keys to bf16, whatever its type; in f32 they stay as they are
here, as vtrain has them. In bf16 the layers that diffusers keeps in f32 stay in f32.
"""
import unittest.mock

import golden
import torch
from diffusers import Kandinsky5Transformer3DModel as theirs

TINY = dict(in_visual_dim=4, out_visual_dim=4, in_text_dim=32, in_text_dim2=32, time_dim=24,
            patch_size=(1, 2, 2), model_dim=48, ff_dim=40, num_text_blocks=1, num_visual_blocks=2,
            axes_dims=(4, 6, 6), visual_cond=True, attention_type="flash")
SMALL = dict(model_dim=16, ff_dim=16, time_dim=8, num_visual_blocks=1)
# name: config, {case: (B, f, h, w)}
VARIANTS = {
    "kandinsky5": (dict(num_text_blocks=2),
                   {"base": (2, 3, 4, 6), "odd": (1, 2, 6, 10), "still": (2, 1, 4, 2),
                    "known": (2, 3, 4, 4)}),
    "kandinsky5-near": (dict(SMALL, in_visual_dim=2, out_visual_dim=2),
                        {"base": (1, 1, 60, 60)}),
}
TIMES, TEXT = [988.0, 436.0], [5, 9]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_query", "to_key", "to_value", "self_attention.out_layer",
                            "cross_attention.out_layer", "feed_forward.in_layer",
                            "feed_forward.out_layer", "text_modulation.out_layer",
                            "visual_modulation.out_layer", "visual_embeddings.in_layer",
                            "text_embeddings.in_layer", "modulation.out_layer"])


class Kandinsky5Transformer3DModel(theirs):
    """The class, whose `to` keeps the type of the layers that from_pretrained keeps in f32."""

    def __init__(self, **config):
        super().__init__(**config)

    def to(self, dtype):
        super().to(dtype)
        for name, module in self.named_modules():
            if name.split(".")[-1] in self._keep_in_fp32_modules:
                module.float()
        return self


def unrounded():
    return unittest.mock.patch.object(torch, "bfloat16", torch.float32)


def inputs(config, case, b, f, h, w):
    v = golden.noisy(case, (b, config["out_visual_dim"], f, h, w), TIMES[:b], max(TEXT[:b]),
                     config["in_text_dim"], TEXT[:b])
    v["pooled"] = golden.draw("pooled " + case, (b, config["in_text_dim2"]))
    if case == "known":
        v["clean"] = torch.tensor([0, 1], dtype=torch.int32)
    return v


def near(n):
    return 480 <= 8 * n <= 854


def predict(model, config, v):
    """Each row alone, since the class has no mask of texts."""
    dtype = model.out_layer.out_layer.weight.dtype
    b, _, f, h, w = v["x"].shape
    spread = (1, 2, 2) if near(h) and near(w) else (1, 3.16, 3.16)
    rows = []
    for i in range(b):
        n, x = int(v["length"][i]), v["x"][i:i + 1].permute(0, 2, 3, 4, 1)
        mask = torch.zeros_like(x[..., :1])
        mask[:, :1] = v["clean"][i] if "clean" in v else 0
        x = torch.cat([x, torch.zeros_like(x), mask], -1)
        with unrounded() if dtype == torch.float32 else unittest.mock.MagicMock():
            y = model(hidden_states=x.to(dtype), timestep=v["t"][i:i + 1],
                      encoder_hidden_states=v["text"][i:i + 1, :n].to(dtype),
                      pooled_projections=v["pooled"][i:i + 1].to(dtype),
                      visual_rope_pos=[torch.arange(f), torch.arange(h // 2),
                                       torch.arange(w // 2)],
                      text_rope_pos=torch.arange(n), scale_factor=spread, return_dict=False)
        rows.append(y.permute(0, 4, 1, 2, 3))
    return torch.cat(rows)


def make(out):
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", Kandinsky5Transformer3DModel,
                           {**TINY, **config}, cases, inputs, predict,
                           LORA if name == "kandinsky5" else None)
