"""Qwen-Image with a blockwise ControlNet, as DiffSynth-Studio has it: outputs, losses, gradients.

Behind each block the picture's tokens x get output_proj(gelu(input_proj(rms(x) + rms(c)))), where c
is img_in of the condition's tokens. Cases as in qwen.py, with the condition's latents in
`cond.control` (for inpainting as in controlnet.py); the weights of the ControlNet have names with
`controlnet.`, and all of them values that are not zero. The case `base` has the gradients of all
weights, the base's too.
"""
import golden
import torch
from diffusers import QwenImageTransformer2DModel

CASES = {"base": (2, 4, 6), "odd": (1, 10, 6)}


class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.x_rms, self.y_rms = (torch.nn.RMSNorm(dim, eps=1e-6) for _ in range(2))
        self.input_proj, self.output_proj = (torch.nn.Linear(dim, dim) for _ in range(2))

    def forward(self, x, c):
        y = self.input_proj(self.x_rms(x) + self.y_rms(c))
        return self.output_proj(torch.nn.functional.gelu(y))


class Controlled(QwenImageTransformer2DModel):
    """The transformer with the weights of a ControlNet; `tokens` are those of its condition, which
    have `more` numbers than those of the latents."""
    more = 0

    def __init__(self, **config):
        super().__init__(**config)
        dim = self.inner_dim
        img_in = torch.nn.Linear(config["in_channels"] + self.more, dim)
        self.controlnet = torch.nn.ModuleDict({"img_in": img_in})
        for block in self.transformer_blocks:
            block.controlnet = Block(dim)
            block.register_forward_hook(self.control)

    def control(self, block, args, out):
        text, x = out
        return text, x + block.controlnet(x, self.controlnet["img_in"](self.tokens.to(x.dtype)))


class Masked(Controlled):
    more = 4


Masked.__name__ = Controlled.__name__ = "QwenImageTransformer2DModel"


def make(out):
    qwen, copied = golden.part("qwen"), golden.part("controlnet")

    def inputs(config, case, b, h, w):
        v = qwen.inputs(config, case, b, h, w)
        shape = tuple(v["x"].shape)
        return {**v, **(copied.masked(case, shape) if "extra_condition_channels" in config else
                        {"cond.control": golden.draw("control " + case, shape)})}

    def predict(model, config, v):
        model.tokens = copied.condition(v)
        return qwen.predict(model, config, v)

    blockwise = {"blockwise_controlnet": True}
    golden.transformer(out / "qwen-control.safetensors", Controlled, qwen.TINY, CASES, inputs,
                       predict, fields=blockwise)
    golden.transformer(out / "qwen-control-mask.safetensors", Masked, qwen.TINY, CASES, inputs,
                       predict, fields={**blockwise, "extra_condition_channels": 4})
