"""Direct distillation: the loss of the result of a few steps, and its gradient through all of them.

DiffSynth-Studio's direct_distill walks from the noise x along the levels of its scheduler,

    x <- x + (s' - s) model(x, 1000 s),

the last time to s' = 0, and compares x with the latents `target`. The files distill-NAME are of the
tiny models of other parts: the tensors of the case `base` as there, `levels` (s of each step),
output, loss; `grad/<parameter>` for all weights of Qwen-Image, `lora/grad/<factor>` for a LoRA of
all families. distill-levels has the levels of DiffSynth-Studio's scheduler for N steps: NAME/N.
"""
import math

import diffusers
import golden
import torch

STEPS = 3
# file: part, class, case, shift, and whether all gradients are kept
MODELS = {
    "qwen": ("qwen", "QwenImageTransformer2DModel", None, math.exp(0.8), True),
    "flux": ("flux", "FluxTransformer2DModel", "flux-dev", 3, False),
    "flux2": ("flux2", "Flux2Transformer2DModel", "flux2-klein", math.exp(0.8), False),
    "zimage": ("zimage", "ZImageTransformer2DModel", None, 3, False),
    "wan": ("wan", "WanTransformer3DModel", "wan", 5, False),
    "ltx": ("ltx", "LTXVideoTransformer3DModel", "ltx", 3, False),
    "hunyuan": ("hunyuan", "HunyuanVideoTransformer3DModel", "hunyuan", 7, False),
}
# scheduler: shift, last level
LEVELS = {"qwen": (math.exp(0.8), 0.02), "wan": (5, 0), "z-image": (3, 0),
          "flux2": (math.exp(0.8), 0), "ltx2": (math.exp(2.05), 0.1)}
DEFAULTS = {"wan": dict(image_dim=None, added_kv_proj_dim=None, pos_embed_seq_len=None)}
ONE_LAYER = {"qwen": dict(num_layers=1)}


def levels(n, shift, last=0):
    """Even levels from 1 on, shifted, and stretched so that the last one is `last`."""
    even = torch.linspace(1, 0, n + 1)[:-1]
    s = shift * even / (1 + (shift - 1) * even)
    return 1 - (1 - s) * (1 - last) / (1 - s[-1]) if last else s


def walk(model, config, v, predict):
    """The result of all steps from v["x"] on."""
    x, s = v["x"], v["levels"].tolist() + [0]
    for now, after in zip(s, s[1:]):
        at = {**v, "x": x, "t": torch.full((len(x),), 1000 * now)}
        x = x + predict(model, config, at) * (after - now)
    return x


def case(part, whole, variant, shift):
    shape = (part.VARIANTS[variant][1] if variant else part.CASES)["base"]
    return {**part.inputs(whole, "base", *shape), "levels": levels(STEPS, shift)}


def make(out):
    for name, (of, cls, variant, shift, full) in MODELS.items():
        part, file = golden.part(of), {}
        config = {**part.TINY, **(part.VARIANTS[variant][0] if variant else {}),
                  **DEFAULTS.get(name, {}), **ONE_LAYER.get(name, {})}
        _, whole, shapes = golden.tiny(getattr(diffusers, cls), config)
        for prefix, lora in [("base", None)] * full + [("lora", part.LORA)]:
            model = golden.tiny(getattr(diffusers, cls), config)[0]
            model = golden.with_lora(model, lora) if lora else model
            v, grads = golden.step(model, whole, case(part, whole, variant, shift),
                                   lambda m, c, x: walk(m, c, x, part.predict))
            file.update({f"{prefix}/{k}": t for k, t in v.items()})
            file.update({("lora/" if lora else "") + "grad/" + n: g for n, g in grads.items()})
        golden.save(out / f"distill-{name}.safetensors", file, config=whole, weights=shapes,
                    lora=part.LORA)
    golden.save(out / "distill-levels.safetensors",
                {f"{k}/{n}": levels(n, *of) for k, of in LEVELS.items() for n in (2, 4, 8)})
