"""Samples of diffusers' FluxPipeline, FluxFillPipeline and FluxKontextPipeline, from the weights of
the transformers' goldens.

`samples-NAME` has `text` [n,D] and `pooled` [P] of the prompt, `negative_text`, `negative_pooled`,
and the pipeline's `latents` [C,1,h,w], raw (not scaled). Its first noise is vtrain's of seed SEED,
prompt 0. Steps and vtrain's --guidance_scale are in the metadata. dev's shift follows from the
tokens; `flux-dev-cfg` is guided by the negative prompt too.

`flux-fill` has the masked picture's `video` [C,1,h,w], raw, and the `mask` [64,1,h,w], which is 1
where pixels are made; the pipeline makes both from a picture and a mask of greys. `flux-kontext`
has `reference_1` [C,1,H,W], raw, of another size than the sample's. Posteriors count with their
means.
"""
from types import SimpleNamespace

import golden
import numpy as np
import torch
from diffusers import (FlowMatchEulerDiscreteScheduler, FluxFillPipeline, FluxKontextPipeline,
                       FluxPipeline, FluxTransformer2DModel)
from PIL import Image

SEED, STEPS, C, H, W, N = 3, 3, 4, 4, 6, 7
REFERENCE = 6, 4
DEV = dict(shift=3.0, use_dynamic_shifting=True)
# name: pipeline, transformer's golden, scheduler's fields, its arguments, vtrain's guidance
PIPELINES = {
    "flux-dev": (FluxPipeline, "flux-dev", DEV, dict(guidance_scale=3.5), "3.5"),
    "flux-dev-cfg": (FluxPipeline, "flux-dev", DEV, dict(guidance_scale=1.0, true_cfg_scale=2.0),
                     "1"),
    "flux-schnell": (FluxPipeline, "flux-schnell", dict(shift=1.0), {}, "1"),
    "flux-fill": (FluxFillPipeline, "flux-fill", DEV, dict(guidance_scale=30.0), "30"),
    "flux-kontext": (FluxKontextPipeline, "flux-kontext", DEV,
                     dict(guidance_scale=2.5, max_area=64 * H * W, _auto_resize=False), "2.5"),
}


def picture(h, w):
    y, x = np.mgrid[0:h, 0:w] / 8
    rgb = [np.sin(x + c) * np.cos(y - c) for c in range(3)]
    return Image.fromarray((127.5 + 127 * np.stack(rgb, 2)).astype(np.uint8))


def grey_mask(h, w):
    """A disc, whose edge has greys on both sides of a half, beside a stripe."""
    y, x = np.mgrid[0:h, 0:w]
    disc = np.clip(12 - np.hypot(y - 14, x - 19), 0, 1)
    return Image.fromarray((255 * np.maximum(disc, x >= w - 5)).astype(np.uint8))


def tokens_of(pipe, x):
    return pipe._pack_latents(x, *x.shape)


def raw(vae, x):
    return (x / vae.config.scaling_factor + vae.config.shift_factor)[0][:, None]


def conditions(pipe, vae, t):
    """What the pipeline is given beside the prompt; what it makes of these joins t."""
    encode = vae.encode

    def mean(image):
        z = encode(image).latent_dist.mode()
        if isinstance(pipe, FluxFillPipeline):
            t["video"] = z[0][:, None].clone()
        else:
            t["reference_1"] = z[0][:, None].clone()
        return SimpleNamespace(latents=z)
    if isinstance(pipe, FluxPipeline):
        return {}
    vae.encode = mean
    if isinstance(pipe, FluxKontextPipeline):
        return dict(image=picture(8 * REFERENCE[0], 8 * REFERENCE[1]))
    prepare = pipe.prepare_mask_latents

    def prepare_mask_latents(*args):
        mask, masked = prepare(*args)
        t["mask"] = pipe._unpack_latents(mask, H * 8, W * 8, pipe.vae_scale_factor)[0][:, None]
        return mask, masked
    pipe.prepare_mask_latents = prepare_mask_latents
    return dict(image=picture(H * 8, W * 8), mask_image=grey_mask(H * 8, W * 8))


def sample(name, cls, model, fields, arguments):
    flux, hunyuan = golden.part("flux"), golden.part("hunyuan_samples")
    transformer = golden.tiny(FluxTransformer2DModel,
                              {**flux.TINY, **flux.VARIANTS[model][0]})[0]
    vae = golden.part("vae_kl").model()[0]
    pipe = cls(scheduler=FlowMatchEulerDiscreteScheduler(**fields), vae=vae,
               transformer=transformer, text_encoder=None, tokenizer=None, text_encoder_2=None,
               tokenizer_2=None)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, 16)),
         "pooled": golden.draw("pooled " + name, (32,)),
         "negative_text": golden.draw("negative " + name, (N, 16)),
         "negative_pooled": golden.draw("negative pooled " + name, (32,))}
    arguments = {**arguments, **conditions(pipe, vae, t)}
    if cls is not FluxFillPipeline:
        arguments.update(negative_prompt_embeds=t["negative_text"][None],
                         negative_pooled_prompt_embeds=t["negative_pooled"][None])
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  latents=tokens_of(pipe, hunyuan.noise((1, C, H, W))),
                  prompt_embeds=t["text"][None], pooled_prompt_embeds=t["pooled"][None],
                  **arguments).images
    t["latents"] = raw(vae, pipe._unpack_latents(packed, H * 8, W * 8, pipe.vae_scale_factor))
    return t


def make(out):
    for name, (cls, model, fields, arguments, guidance) in PIPELINES.items():
        golden.save(out / f"samples-{name}.safetensors",
                    sample(name, cls, model, fields, arguments), seed=str(SEED), steps=str(STEPS),
                    guidance=guidance)
