"""Samples of diffusers' Ideogram4Pipeline, from the weights of the transformer's golden and of
another one, the unconditional transformer.

`samples-ideogram4` has one guidance, and `samples-ideogram4-end` the pipeline's own, 7 and then 3,
in 17 steps. They have `text` [n,D] of the prompt, `negative_text`, which the pipeline does not
read, and the pipeline's `latents` [C,1,h,w] in the order of channels (channel, row, column) of
squares. The first noise is vtrain's of seed SEED, prompt 0. Steps and guidance are in the metadata.
The weights of the unconditional transformer are half of the other one's.
"""

import golden
import torch
from diffusers import (AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Ideogram4Pipeline,
                       Ideogram4Transformer2DModel)

SEED, H, W, N = 3, 2, 3, 7
ROWS = {"ideogram4": (3, 2.5), "ideogram4-end": (17, 7.0)}


def unconditional(config):
    """The class with other weights: those of the golden, each with half of its size."""
    model = golden.tiny(Ideogram4Transformer2DModel, config)[0]
    for p in model.parameters():
        p.mul_(0.5)
    return model


def sample(name, steps, guidance):
    ideogram4, hunyuan = golden.part("ideogram4"), golden.part("hunyuan_samples")
    config = ideogram4.TINY
    c, wide = config["in_channels"], config["llm_features_dim"]
    vae = AutoencoderKLFlux2(block_out_channels=[4, 4, 4, 4], norm_num_groups=1, latent_channels=4,
                             layers_per_block=1)
    pipe = Ideogram4Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=None, tokenizer=None,
        transformer=golden.tiny(Ideogram4Transformer2DModel, config)[0],
        unconditional_transformer=unconditional(config))
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N, wide))}
    features = torch.cat([t["text"][None], torch.zeros(1, H * W, wide)], dim=1)
    pipe.encode_prompt = lambda *args, **kw: (features,
                                              *pipe._prepare_ids([N], H, W, N, "cpu"))
    noise = hunyuan.noise((1, c, 1, H, W)).permute(0, 2, 3, 4, 1).reshape(1, H * W, c)
    schedule = dict(guidance_scale=guidance, guidance_schedule=None)
    if name.endswith("end"):
        last = steps // 16
        schedule = dict(guidance_schedule=[7.0] * (steps - last) + [3.0] * last)
    latents = pipe("", height=H * 16, width=W * 16, num_inference_steps=steps,
                   max_sequence_length=N, output_type="latent",
                   latents=noise[..., ideogram4.squares(c, False)],
                   **schedule).images
    latents = latents[..., ideogram4.squares(c, True)]
    t["latents"] = latents.reshape(1, 1, H, W, c).permute(0, 4, 1, 2, 3)[0]
    return t


def make(out):
    for name, (steps, guidance) in ROWS.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, steps, guidance),
                    seed=str(SEED), steps=str(steps), guidance=f"{guidance:g}")
