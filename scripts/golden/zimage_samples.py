"""Samples of diffusers' ZImagePipeline, from the weights of the transformer's golden.

`samples-z-image` and `samples-z-image-turbo`, which is not guided, have `text` [n,D] of the prompt,
`negative_text`, and the pipeline's `latents` [C,1,h,w], raw (not scaled). The first noise is
vtrain's of seed SEED, prompt 0. Steps and the pipeline's guidance_scale are in the metadata; the
schedule has a static shift, which the pipeline's own mu does not change.
"""
import golden
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel

SEED, STEPS, H, W, N = 3, 3, 4, 6, 7
GUIDANCE = {"z-image": 2.5, "z-image-turbo": 0.0}


def sample(name, guidance):
    zimage, hunyuan = golden.part("zimage"), golden.part("hunyuan_samples")
    transformer = golden.tiny(ZImageTransformer2DModel, zimage.TINY)[0]
    c, wide = zimage.TINY["in_channels"], zimage.TINY["cap_feat_dim"]
    vae = golden.part("vae_kl").model()[0]
    pipe = ZImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=vae,
                          transformer=transformer, text_encoder=None, tokenizer=None)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N + 3, wide))}
    latents = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                   guidance_scale=guidance, latents=hunyuan.noise((1, c, H, W)),
                   prompt_embeds=[t["text"]], negative_prompt_embeds=[t["negative_text"]]).images
    t["latents"] = (latents / vae.config.scaling_factor + vae.config.shift_factor)[0][:, None]
    return t


def make(out):
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}")
