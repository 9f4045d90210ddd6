"""Samples of diffusers' QwenImagePipeline, from the weights of the transformer's golden, and levels
of its scheduler.

`samples-qwen` has `text` [n,D] of the prompt and `negative_text`, pooled vectors, which no one
reads, and the pipeline's `latents` [C,1,h,w], with the true CFG of the metadata's `guidance` and
without means and deviations of the VAE. Its first noise is vtrain's of seed SEED, prompt 0.
`levels` are the 1000 levels of the scheduler for TOKENS tokens, with its terminal stretch;
`bell/levels` and `bell/weights` are those of DiffSynth-Studio, whose mu is 0.8, from their formula.
"""
import math

import golden
import numpy as np
import torch
from diffusers import (AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImagePipeline,
                       QwenImageTransformer2DModel)

SEED, STEPS, H, W, N, TOKENS, GUIDANCE = 3, 3, 4, 6, 7, 1024, 4
SCHEDULER = dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=0.9, base_image_seq_len=256,
                 max_image_seq_len=8192, shift_terminal=0.02)


def scheduler():
    return FlowMatchEulerDiscreteScheduler(**SCHEDULER)


def levels(mu):
    s = scheduler()
    s.set_timesteps(sigmas=np.linspace(1, 1 / 1000, 1000), mu=mu)
    return s.sigmas[:-1].double()


def bell(s):
    w = torch.exp(-2 * (s - 0.5) ** 2)
    w = w - w.min()
    return w / w.mean()


def sample():
    qwen, hunyuan = golden.part("qwen"), golden.part("hunyuan_samples")
    transformer = golden.tiny(QwenImageTransformer2DModel, qwen.TINY)[0]
    c, wide = qwen.TINY["out_channels"], qwen.TINY["joint_attention_dim"]
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=c, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    pipe = QwenImagePipeline(scheduler=scheduler(), vae=vae, text_encoder=None, tokenizer=None,
                             transformer=transformer)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text sample", (N, wide)),
         "negative_text": golden.draw("negative sample", (N - 3, wide)),
         "pooled": golden.draw("pooled", (4,)), "negative_pooled": golden.draw("pooled", (4,))}
    noise = hunyuan.noise((1, c, 1, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  true_cfg_scale=float(GUIDANCE), latents=golden.packed(noise),
                  prompt_embeds=t["text"][None], prompt_embeds_mask=torch.ones(1, N).long(),
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_prompt_embeds_mask=torch.ones(1, N - 3).long()).images
    t["latents"] = golden.unpacked(packed, noise)[0]
    return t


def make(out):
    t = sample()
    mu = 0.5 + (TOKENS - 256) * 0.4 / (8192 - 256)
    t["levels"], t["bell/levels"] = levels(mu).float(), levels(0.8).float()
    t["bell/weights"] = bell(levels(0.8)).float()
    golden.save(out / "samples-qwen.safetensors", t, seed=str(SEED), steps=str(STEPS),
                guidance=str(GUIDANCE), tokens=str(TOKENS), mu=str(math.exp(0.8)))
