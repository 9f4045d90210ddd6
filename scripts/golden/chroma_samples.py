"""Samples of diffusers' ChromaPipeline, from the weights of the transformer's golden.

`samples-chroma`, and `samples-chroma-unguided`, have `text` [n,D] of the prompt with its row of
padding, `negative_text`, which is shorter, and the pipeline's `latents` [C,1,h,w], raw (not
scaled). The pipeline gets both padded to PADDED rows, with boolean masks: its own are numbers that
attention adds to its scores. The first noise is vtrain's of seed SEED, prompt 0; steps and vtrain's
--guidance_scale are in the metadata. The shift follows from the tokens.
"""
import golden
import torch
from diffusers import ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler

SEED, STEPS, C, H, W, PADDED = 3, 3, 4, 4, 6, 9
ROWS = {"text": 7, "negative_text": 2}
GUIDANCE = {"chroma": 4.0, "chroma-unguided": 1.0}
SCHEDULER = dict(shift=3.0, use_dynamic_shifting=True)


def padded(x):
    """Text with rows of padding, and its mask."""
    rows = torch.full((1, PADDED, x.shape[1]), 5.0)
    rows[0, :len(x)] = x
    return rows, torch.arange(PADDED)[None] < len(x)


def sample(name, guidance):
    hunyuan = golden.part("hunyuan_samples")
    transformer = golden.tiny(ChromaTransformer2DModel, golden.part("chroma").TINY)[0]
    vae = golden.part("vae_kl").model()[0]
    pipe = ChromaPipeline(scheduler=FlowMatchEulerDiscreteScheduler(**SCHEDULER), vae=vae,
                          transformer=transformer, text_encoder=None, tokenizer=None)
    pipe.set_progress_bar_config(disable=True)
    t = {part: golden.draw(part + name, (rows, 16)) for part, rows in ROWS.items()}
    text, mask = padded(t["text"])
    negative, negative_mask = padded(t["negative_text"])
    noise = hunyuan.noise((1, C, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  guidance_scale=guidance, latents=pipe._pack_latents(noise, 1, C, H, W),
                  prompt_embeds=text, prompt_attention_mask=mask, negative_prompt_embeds=negative,
                  negative_prompt_attention_mask=negative_mask).images
    latents = pipe._unpack_latents(packed, H * 8, W * 8, pipe.vae_scale_factor)
    t["latents"] = (latents / vae.config.scaling_factor + vae.config.shift_factor)[0][:, None]
    return t


def make(out):
    for name, guidance in GUIDANCE.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{guidance:g}")
