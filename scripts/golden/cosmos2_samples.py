"""Samples of diffusers' Cosmos2TextToImagePipeline, from the weights of the transformer's golden.

`samples-cosmos2` and `samples-cosmos2-unguided` have `text` [n,D] of the prompt, `negative_text`,
and the pipeline's `latents` [C,1,h,w], raw: channel c has the mean c and the standard deviation
1 + c. The first noise is vtrain's of seed SEED, prompt 0. Steps are in the metadata, and the
pipeline's guidance_scale less 0, which adds this many times the difference of the predictions.
"""
import golden
import torch
from diffusers import (AutoencoderKLWan, Cosmos2TextToImagePipeline, CosmosTransformer3DModel,
                       FlowMatchEulerDiscreteScheduler)

SEED, STEPS, H, W, N = 3, 4, 4, 6, 7
GUIDANCE = {"cosmos2": 2.5, "cosmos2-unguided": 0.0}


class Unchecked:
    """Stands for the classifier of unsafe prompts and pictures, which the pipeline must be given."""

    def to(self, _):
        return self

    def check_text_safety(self, _):
        return True


def pipeline(**parts):
    vae = golden.part("vae_wan").model(AutoencoderKLWan)[0]
    pipe = Cosmos2TextToImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_karras_sigmas=True), vae=vae,
        safety_checker=Unchecked(), **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def whole(text, rows):
    """Returns [1,rows,D]: rows of zeros follow the text."""
    return torch.nn.functional.pad(text, (0, 0, 0, rows - len(text)))[None]


def sample(name, guidance):
    cosmos, hunyuan = golden.part("cosmos2"), golden.part("hunyuan_samples")
    transformer = golden.tiny(CosmosTransformer3DModel, cosmos.TINY)[0]
    c, wide = cosmos.TINY["in_channels"], cosmos.TINY["text_embed_dim"]
    pipe = pipeline(transformer=transformer, text_encoder=None, tokenizer=None)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N + 3, wide))}
    # at most 1 is no guidance to the pipeline
    latents = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                   guidance_scale=guidance, latents=hunyuan.noise((1, c, 1, H, W)),
                   prompt_embeds=whole(t["text"], cosmos.TEXT_ROWS),
                   negative_prompt_embeds=whole(t["negative_text"], cosmos.TEXT_ROWS)).images
    channel = torch.arange(c)[:, None, None]
    t["latents"] = (latents[0] * (1 + channel) + channel)[:, None]
    return t


def make(out):
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}")
