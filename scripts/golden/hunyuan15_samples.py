"""Samples of diffusers' pipelines of HunyuanVideo 1.5, guided by a negative prompt, from weights
of the transformers' goldens of the same names.

`samples-NAME` has `text` and `text_2` [n,D] of the prompt, `negative_text` and `negative_text_2`,
of which the last is a row of zeros, since the negative prompt has no words in quotes; of image to
video the first frame's raw latent `image` [C,1,h,w] and its states `vision` [n,V]; and the
pipeline's `latents` [C,f,h,w], raw (not scaled). Its first noise is vtrain's of seed SEED, prompt
0. Steps and guidance are in the metadata.
"""
import golden
import torch
from diffusers import (FlowMatchEulerDiscreteScheduler, HunyuanVideo15ImageToVideoPipeline,
                       HunyuanVideo15Pipeline)
from diffusers.guiders import ClassifierFreeGuidance
from PIL import Image

SEED, STEPS, F, N, GLYPHS, GUIDANCE = 3, 3, 3, 7, 4, 6.0
PIPELINES = {"hunyuan15": (HunyuanVideo15Pipeline, 4, 6),
             "hunyuan15-i2v": (HunyuanVideo15ImageToVideoPipeline, 4, 4),
             "hunyuan15-steps": (HunyuanVideo15ImageToVideoPipeline, 4, 4)}


def prompt(text, glyphs, prefix):
    return {prefix + "prompt_embeds": text[None],
            prefix + "prompt_embeds_mask": torch.ones(1, len(text)),
            prefix + "prompt_embeds_2": glyphs[None],
            prefix + "prompt_embeds_mask_2": glyphs.any(1)[None].long()}


def sample(name, cls, h, w):
    hunyuan, noise = golden.part("hunyuan15"), golden.part("hunyuan_samples").noise
    config = {**hunyuan.TINY, **hunyuan.VARIANTS[name][0]}
    transformer = golden.tiny(hunyuan.model_class(), config)[0]
    vae = golden.part("vae_hunyuan15").model()[0]
    sees = cls is HunyuanVideo15ImageToVideoPipeline
    pipe = cls(text_encoder=None, tokenizer=None, transformer=transformer, vae=vae,
               scheduler=FlowMatchEulerDiscreteScheduler(shift=5.0), text_encoder_2=None,
               tokenizer_2=None, guider=ClassifierFreeGuidance(guidance_scale=GUIDANCE),
               **(dict(image_encoder=None, feature_extractor=None) if sees else {}))
    pipe.set_progress_bar_config(disable=True)
    wide, wide_2 = config["text_embed_dim"], config["text_embed_2_dim"]
    t = {"text": golden.draw("text " + name, (N, wide)),
         "text_2": golden.draw("glyphs " + name, (GLYPHS, wide_2)),
         "negative_text": golden.draw("negative " + name, (N - 2, wide)),
         "negative_text_2": torch.zeros(1, wide_2)}
    size = dict(height=16 * h, width=16 * w)
    if sees:
        t["image"] = golden.draw("image " + name, (4, 1, h, w))
        t["vision"] = golden.draw("seen " + name, (hunyuan.PICTURE, config["image_embed_dim"]))
        pipe._get_image_latents = lambda **_: t["image"][None] * vae.config.scaling_factor
        pipe.encode_image = lambda **_: t["vision"][None]
        size = dict(image=Image.new("RGB", (16 * w, 16 * h)))
    latents = pipe(num_frames=4 * F - 3, num_inference_steps=STEPS,
                   latents=noise((1, 4, F, h, w)), output_type="latent",
                   **prompt(t["text"], t["text_2"], ""),
                   **prompt(t["negative_text"], t["negative_text_2"], "negative_"), **size).frames
    t["latents"] = latents[0] / vae.config.scaling_factor
    return t


def make(out):
    for name, (cls, h, w) in PIPELINES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, cls, h, w), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{GUIDANCE:g}")
