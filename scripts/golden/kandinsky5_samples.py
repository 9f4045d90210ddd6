"""Samples of diffusers' pipelines of Kandinsky 5, guided by a negative prompt, from the weights of
the transformer's golden.

`samples-kandinsky5` and `samples-kandinsky5-i2v` have `text` [n,D] and `pooled` [P] of the prompt,
`negative_text` and `negative_pooled`, of image to video the first frame's raw latent `image`
[C,1,h,w], and the pipeline's `latents` [C,f,h,w], raw (not scaled). The first noise is vtrain's of
seed SEED, prompt 0. Steps and guidance are in the metadata.

The pipeline of image to video moves mean and deviation of the first four latent frames towards
those of the five frames behind them, after the last step; `latents` are those before.
"""
import golden
import torch
from diffusers import (FlowMatchEulerDiscreteScheduler, Kandinsky5I2VPipeline,
                       Kandinsky5T2VPipeline)
from PIL import Image

SEED, STEPS, F, H, W, N, GUIDANCE = 3, 3, 3, 4, 6, 7, 5.0
PIPELINES = {"kandinsky5": Kandinsky5T2VPipeline, "kandinsky5-i2v": Kandinsky5I2VPipeline}


def lengths(text):
    return torch.tensor([0, len(text)], dtype=torch.int32)


def sample(name, cls):
    kandinsky5, noise = golden.part("kandinsky5"), golden.part("hunyuan_samples").noise
    config = {**kandinsky5.TINY, **kandinsky5.VARIANTS["kandinsky5"][0]}
    transformer = golden.tiny(kandinsky5.Kandinsky5Transformer3DModel, config)[0]
    vae = golden.part("vae_hunyuan").model()[0]
    pipe = cls(transformer=transformer, vae=vae, text_encoder=None, tokenizer=None,
               text_encoder_2=None, tokenizer_2=None,
               scheduler=FlowMatchEulerDiscreteScheduler(shift=5.0))
    pipe.set_progress_bar_config(disable=True)
    wide, pooled = config["in_text_dim"], config["in_text_dim2"]
    t = {"text": golden.draw("text " + name, (N, wide)),
         "pooled": golden.draw("pooled " + name, (pooled,)),
         "negative_text": golden.draw("negative " + name, (N - 2, wide)),
         "negative_pooled": golden.draw("negative pooled " + name, (pooled,))}
    x = noise((1, 4, F, H, W))
    mask, image = torch.zeros(1, F, H, W, 1), {}
    if cls is Kandinsky5I2VPipeline:
        t["image"] = golden.draw("image " + name, (4, 1, H, W))
        x[0, :, :1] = t["image"] * vae.config.scaling_factor
        mask[:, :1] = 1
        image["image"] = Image.new("RGB", (8 * W, 8 * H))
        pipe.normalize_first_frame = lambda latents: latents
    x = x.permute(0, 2, 3, 4, 1)
    with kandinsky5.unrounded():
        latents = pipe(
            height=8 * H, width=8 * W, num_frames=4 * F - 3, num_inference_steps=STEPS,
            guidance_scale=GUIDANCE, output_type="latent", return_dict=False, **image,
            latents=torch.cat([x, torch.zeros_like(x), mask], -1),
            prompt_embeds_qwen=t["text"][None], prompt_embeds_clip=t["pooled"][None],
            negative_prompt_embeds_qwen=t["negative_text"][None],
            negative_prompt_embeds_clip=t["negative_pooled"][None],
            prompt_cu_seqlens=lengths(t["text"]),
            negative_prompt_cu_seqlens=lengths(t["negative_text"]))[0]
    t["latents"] = latents[0].permute(3, 0, 1, 2) / vae.config.scaling_factor
    return t


def make(out):
    for name, cls in PIPELINES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, cls), seed=str(SEED),
                    steps=str(STEPS), guidance=f"{GUIDANCE:g}")
