"""Samples of diffusers' Cosmos2TextToImagePipeline and Cosmos2VideoToWorldPipeline, from the
weights of the transformers' goldens.

`samples-cosmos2` and `samples-cosmos2-unguided` have `text` [n,D] of the prompt, `negative_text`,
and the pipeline's `latents` [C,1,h,w], raw: channel c has the mean c and the standard deviation
1 + c. The first noise is vtrain's of seed SEED, prompt 0. Steps are in the metadata, and the
pipeline's guidance_scale, which adds this many times the difference of the predictions.
`samples-cosmos2-world` is a clip [C,f,h,w] that begins with the raw latent `image` [C,1,h,w], which
stands for the first frame that the pipeline leaves noise of the last level in. Frame rates do not
change positions at 24 a second, as in NVIDIA's program at any rate.
"""
import golden
import torch
from diffusers import (AutoencoderKLWan, Cosmos2TextToImagePipeline, Cosmos2VideoToWorldPipeline,
                       CosmosTransformer3DModel, FlowMatchEulerDiscreteScheduler)

SEED, STEPS, F, H, W, N = 3, 4, 3, 4, 6, 7
GUIDANCE = {"cosmos2": 2.5, "cosmos2-unguided": 0.0}


class Unchecked:
    """Stands for the classifier of unsafe prompts and pictures that the pipelines must be given."""

    def to(self, _):
        return self

    def check_text_safety(self, _):
        return True


def pipeline(cls=Cosmos2TextToImagePipeline, **parts):
    vae = golden.part("vae_wan").model(AutoencoderKLWan)[0]
    pipe = cls(
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


def world(name):
    cosmos, hunyuan = golden.part("cosmos2"), golden.part("hunyuan_samples")
    config = {**cosmos.TINY, **cosmos.VARIANTS[name][0]}
    pipe = pipeline(Cosmos2VideoToWorldPipeline, text_encoder=None, tokenizer=None,
                    transformer=golden.tiny(CosmosTransformer3DModel, config)[0])
    c, wide = config["out_channels"], config["text_embed_dim"]
    vae, channel = pipe.vae.config, torch.arange(float(c)).view(-1, 1, 1, 1)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N + 3, wide))}
    first = golden.draw("image " + name, (c, 1, H, W))
    mean, deviation = (torch.tensor(x).view(-1, 1, 1, 1) for x in (vae.latents_mean,
                                                                  vae.latents_std))

    def encode(pixels):
        clip = (first * deviation + mean).repeat(1, (pixels.shape[2] + 3) // 4, 1, 1)
        dist = type("Dist", (), dict(sample=lambda *_: clip[None]))()
        return type("Output", (), dict(latent_dist=dist))
    pipe.vae.encode = encode
    y = pipe(image=torch.zeros(1, 3, H * 8, W * 8), height=H * 8, width=W * 8,
             num_frames=4 * F - 3, fps=24, num_inference_steps=STEPS, output_type="latent",
             guidance_scale=GUIDANCE["cosmos2"], latents=hunyuan.noise((1, c, F, H, W)),
             prompt_embeds=whole(t["text"], cosmos.TEXT_ROWS),
             negative_prompt_embeds=whole(t["negative_text"], cosmos.TEXT_ROWS)).frames[0]
    y[:, :1] = first
    return {**t, "image": first * (1 + channel) + channel, "latents": y * (1 + channel) + channel}


def make(out):
    golden.save(out / "samples-cosmos2-world.safetensors", world("cosmos2-world"), seed=str(SEED),
                steps=str(STEPS), guidance=f"{GUIDANCE['cosmos2']:g}")
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}")
