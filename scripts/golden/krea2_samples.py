"""Samples of diffusers' Krea2Pipeline, from the weights of the transformer's golden.

`samples-krea2`, and `samples-krea2-turbo`, which is not guided and has the shift of the distilled
model, whose mu is 1.15, have `text` [n,D] of the prompt, the states of all taps behind each other,
`negative_text`, and the pipeline's `latents` [C,1,h,w], without means and deviations of the VAE.
The first noise is vtrain's of seed SEED, prompt 0. Steps and the pipeline's guidance_scale, which
counts from 0, are in the metadata, and vtrain's flag for the distilled model's shift.
"""
import math

import golden
import torch
from diffusers import (AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, Krea2Pipeline,
                       Krea2Transformer2DModel)

SEED, STEPS, H, W, N = 3, 3, 4, 6, 7
MU = 1.15
GUIDANCE = {"krea2": 2.5, "krea2-turbo": 0.0}
SCHEDULER = dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256,
                 max_image_seq_len=6400)


def sample(name, guidance):
    krea2, hunyuan = golden.part("krea2"), golden.part("hunyuan_samples")
    transformer = golden.tiny(Krea2Transformer2DModel, krea2.TINY, krea2.NORMS)[0]
    c, taps = krea2.TINY["in_channels"] // 4, krea2.TINY["num_text_layers"]
    wide = krea2.TINY["text_hidden_dim"]
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=c, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    pipe = Krea2Pipeline(scheduler=FlowMatchEulerDiscreteScheduler(**SCHEDULER), vae=vae,
                         transformer=transformer, text_encoder=None, tokenizer=None,
                         is_distilled=name.endswith("turbo"))
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, taps * wide)),
         "negative_text": golden.draw("negative " + name, (N, taps * wide))}
    noise = hunyuan.noise((1, c, 1, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  guidance_scale=guidance, latents=golden.packed(noise),
                  prompt_embeds=t["text"].reshape(1, N, taps, wide),
                  prompt_embeds_mask=torch.ones(1, N).bool(),
                  negative_prompt_embeds=t["negative_text"].reshape(1, N, taps, wide),
                  negative_prompt_embeds_mask=torch.ones(1, N).bool()).images
    t["latents"] = golden.unpacked(packed, noise)[0]
    return t


def make(out):
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}",
                    flags=f"--flow_shift {math.exp(MU):.8f}" if name.endswith("turbo") else "")
