"""Samples of diffusers' ErnieImagePipeline, from the weights of the transformer's golden.

`samples-ernie-image` and `samples-ernie-image-turbo`, which is not guided, have `text` [n,D] of the
prompt, `negative_text`, and the pipeline's `latents` [C,1,h,w], raw: channel c has the mean c and
the standard deviation 1 + c. The first noise is vtrain's of seed SEED, prompt 0. Steps and the
pipeline's guidance_scale are in the metadata; the schedule has a static shift.
"""
import golden
import torch
from diffusers import (AutoencoderKLFlux2, ErnieImagePipeline, ErnieImageTransformer2DModel,
                       FlowMatchEulerDiscreteScheduler)

SEED, STEPS, H, W, N = 3, 3, 3, 5, 7
GUIDANCE = {"ernie-image": 2.5, "ernie-image-turbo": 1.0}


def sample(name, guidance):
    ernie, hunyuan = golden.part("ernie_image"), golden.part("hunyuan_samples")
    transformer = golden.tiny(ErnieImageTransformer2DModel, ernie.TINY)[0]
    c, wide = ernie.TINY["in_channels"], ernie.TINY["text_in_dim"]
    vae = AutoencoderKLFlux2(block_out_channels=(8, 8, 8, 8), layers_per_block=1,
                             latent_channels=c // 4, norm_num_groups=4)
    pipe = ErnieImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=4.0), vae=vae,
                              transformer=transformer, text_encoder=None, tokenizer=None)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N + 3, wide))}
    latents = pipe(height=H * 16, width=W * 16, num_inference_steps=STEPS, output_type="latent",
                   guidance_scale=guidance, latents=hunyuan.noise((1, c, H, W)),
                   prompt_embeds=[t["text"]], negative_prompt_embeds=[t["negative_text"]]).images
    channel = torch.arange(c)[:, None, None]
    t["latents"] = (latents[0] * (1 + channel) + channel)[:, None]
    return t


def make(out):
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}")
