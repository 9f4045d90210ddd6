"""ControlNets of copied blocks, diffusers' FluxControlNetModel and QwenImageControlNetModel, beside
their transformers: outputs, losses, gradients.

Cases as in flux.py and qwen.py, with the condition's latents in `cond.control`, or for inpainting
those of the masked picture in `cond.video` and its mask in `pixels` and `cond.mask`; the weights of
the ControlNet have names with `controlnet.`, and all of them values that are not zero. The case
`scaled` has the ControlNet's results times `control_scale`; in `guided` it reads the first row, and
its results are added to both, as in guided samples of the pipelines. The numbers of blocks are such
that the last result of some is read by no block. `base` has the gradients of all weights,
the base's too. A ControlNet-Union (`num_mode`) reads the kind of each row's picture,
`control_mode`.
"""
import golden
import torch
from diffusers import (FluxControlNetModel, FluxTransformer2DModel, QwenImageControlNetModel,
                       QwenImageTransformer2DModel)

SCALE = 0.75
MODES = [3, 1]                                # of the rows


class MaskedFlux(FluxControlNetModel):
    """FLUX.1's ControlNet for inpainting, as alimama-creative publish it: a token of the condition
    has more numbers, those of the mask."""
    def __init__(self, extra_condition_channels, **config):
        super().__init__(**config)
        self.controlnet_x_embedder = torch.nn.Linear(config["in_channels"] +
                                                     extra_condition_channels, self.inner_dim)


def beside(base, net, results):
    """The class `base` with a ControlNet of the class `net`, whose config is the field
    `controlnet`; `results` makes the arguments of base's forward from the ControlNet's results."""
    class Controlled(base):
        def __init__(self, controlnet, **config):
            super().__init__(**config)
            self.controlnet = net(**controlnet)

        def forward(self, **given):
            taken = dict(given, conditioning_scale=self.scale)
            if not self.controlnet.config.get("guidance_embeds", False):
                taken.pop("guidance", None)
            cond = self.condition.to(given["hidden_states"].dtype)
            if self.mode is not None:
                taken["controlnet_mode"] = self.mode
            if self.first:
                cond = cond[:1]
                taken.update({k: taken[k][:1] for k in ("hidden_states", "timestep", "img_shapes",
                                                        "encoder_hidden_states",
                                                        "encoder_hidden_states_mask")})
            return super().forward(**given, **results(self.controlnet(controlnet_cond=cond,
                                                                      **taken)))
    Controlled.__name__ = base.__name__
    return Controlled


def flux_results(y):
    return {"controlnet_block_samples": y[0], "controlnet_single_block_samples": y[1]}


Flux = beside(FluxTransformer2DModel, FluxControlNetModel, flux_results)
FluxInpaint = beside(FluxTransformer2DModel, MaskedFlux, flux_results)
Qwen = beside(QwenImageTransformer2DModel, QwenImageControlNetModel,
              lambda y: {"controlnet_block_samples": y})

# name: part, class, fields of the transformer, of the ControlNet, {case: (B, h, w)}
VARIANTS = {
    "flux-controlnet": ("flux", Flux, dict(guidance_embeds=True, num_layers=4, num_single_layers=3),
                        dict(num_layers=3, num_single_layers=2),
                        {"base": (2, 4, 6), "tall": (1, 10, 2), "scaled": (1, 6, 6)}),
    # blocks of two streams alone, and no guidance in the ControlNet
    "flux-controlnet-dual": ("flux", Flux, dict(guidance_embeds=True, num_layers=3),
                             dict(num_layers=2, num_single_layers=0, guidance_embeds=False),
                             {"base": (2, 4, 6), "wide": (1, 2, 10)}),
    # for inpainting
    "flux-controlnet-mask": ("flux", FluxInpaint, dict(guidance_embeds=True, num_layers=3),
                             dict(num_layers=2, num_single_layers=0, extra_condition_channels=4),
                             {"base": (2, 4, 6), "tall": (1, 10, 2)}),
    # ControlNet-Union
    "flux-controlnet-union": ("flux", Flux, dict(guidance_embeds=True),
                              dict(num_layers=2, num_single_layers=1, num_mode=4),
                              {"base": (2, 4, 6), "wide": (1, 2, 10)}),
    "qwen-controlnet": ("qwen", Qwen, dict(num_layers=5), dict(num_layers=4),
                        {"base": (2, 4, 6), "odd": (1, 10, 6), "scaled": (2, 2, 8),
                         "guided": (2, 6, 4)}),
    # for inpainting
    "qwen-controlnet-mask": ("qwen", Qwen, dict(num_layers=3),
                             dict(num_layers=2, extra_condition_channels=4),
                             {"base": (2, 4, 6), "odd": (1, 10, 6)}),
}


def condition(v):
    """The condition's tokens: with a mask those of the masked picture and of where it is known, as
    QwenImageControlNetInpaintPipeline.prepare_image_with_mask makes them."""
    if "pixels" not in v:
        return golden.packed(v["cond.control"])
    known = 1 - torch.nn.functional.interpolate(v["pixels"][:, None], size=v["x"].shape[3:])
    return golden.packed(torch.cat([v["cond.video"], known[:, :, None]], 1))


def masked(case, shape):
    """A masked picture, and its mask, 1 where the picture is to be made: the pixels, and by places
    of the latents, whose 8 x 8 pixels are channels."""
    b, _, _, h, w = shape
    pixels = (golden.draw("pixels " + case, (b, 8 * h, 8 * w)) > 0).float()
    places = pixels.reshape(b, h, 8, w, 8).permute(0, 2, 4, 1, 3).reshape(b, 64, 1, h, w)
    return {"cond.video": golden.draw("video " + case, shape), "pixels": pixels,
            "cond.mask": places}


def make(out):
    for name, (part, cls, fields, net, cases) in VARIANTS.items():
        family = golden.part(part)
        config = {**family.TINY, "num_attention_heads": 1, **fields}

        def inputs(config, case, b, h, w):
            v = family.inputs(config, case, b, h, w)
            shape = tuple(v["x"].shape)
            if net.get("extra_condition_channels"):
                v.update(masked(case, shape))
            else:
                v["cond.control"] = golden.draw("control " + case, shape)
            if "num_mode" in net:
                v["control_mode"] = torch.tensor(MODES[:b], dtype=torch.int32)
            if case == "scaled":
                v["control_scale"] = torch.tensor([SCALE])
            if case == "guided":
                v["first_row"] = torch.ones(1)
            return v

        def predict(model, config, v):
            model.condition = condition(v)
            mode = v.get("control_mode")
            model.mode = mode if mode is None else mode[:, None].long()
            model.scale, model.first = SCALE if "control_scale" in v else 1.0, "first_row" in v
            return family.predict(model, config, v)

        golden.transformer(out / f"{name}.safetensors", cls,
                           {**config, "controlnet": {**config, **net}}, cases, inputs, predict)
