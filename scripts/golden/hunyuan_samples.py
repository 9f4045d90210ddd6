"""Samples of diffusers' pipelines of HunyuanVideo that begin with an image, or are guided by a
negative prompt, from the weights of the transformers' goldens of the same names.

`samples-NAME` has `text` [n,D], `pooled` [P] of the prompt and `negative_text`, `negative_pooled`,
the first frame's raw latent `image` [C,1,h,w] where there is one, and the pipeline's `latents`
[C,f,h,w], raw (not scaled). Its first noise is vtrain's of seed SEED, prompt 0. Steps and vtrain's
--guidance_scale are in the metadata.
"""
import golden
import numpy as np
import torch
from diffusers import (AutoencoderKLHunyuanVideo, FlowMatchEulerDiscreteScheduler,
                       HunyuanSkyreelsImageToVideoPipeline, HunyuanVideoImageToVideoPipeline,
                       HunyuanVideoPipeline, HunyuanVideoTransformer3DModel)

SEED, PURPOSE, STEPS, F, H, W, N = 3, 72, 3, 3, 4, 6, 7
PIPELINES = {"hunyuan-replace": (HunyuanVideoImageToVideoPipeline, dict(guidance_scale=6.0)),
             "hunyuan-concat": (HunyuanVideoImageToVideoPipeline, dict(guidance_scale=1.0)),
             "skyreels-i2v": (HunyuanSkyreelsImageToVideoPipeline,
                              dict(guidance_scale=1.0, true_cfg_scale=6.0)),
             "hunyuan": (HunyuanVideoPipeline, dict(guidance_scale=1.0, true_cfg_scale=6.0))}


def noise(shape, step=0):
    """vc_train_normals of the sample's first noise, or of the noise of step 1, 2, ..."""
    ltx = golden.part("vae_ltx")
    n = int(np.prod(shape))
    quads = np.arange((n + 3) // 4, dtype=np.uint64)
    zero, purpose = np.zeros_like(quads), np.full_like(quads, PURPOSE)
    words = ltx.philox(SEED, [quads, zero, np.full_like(quads, step), purpose])
    w = [(x.astype(np.float64) + 0.5) / 2**32 for x in words]
    out = []
    for u, v in ((w[0], w[1]), (w[2], w[3])):
        r = np.sqrt(-2 * np.log(u))
        out += [r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)]
    return torch.from_numpy(np.stack(out, 1).reshape(-1)[:n].astype(np.float32).reshape(shape))


def sample(name, cls, guidance):
    hunyuan = golden.part("hunyuan")
    config = {**hunyuan.TINY, **hunyuan.VARIANTS[name][0]}
    transformer = golden.tiny(HunyuanVideoTransformer3DModel, config)[0]
    vae = golden.part("vae_hunyuan").model()[0]
    also = dict(image_processor=None) if cls is HunyuanVideoImageToVideoPipeline else {}
    pipe = cls(text_encoder=None, tokenizer=None, transformer=transformer, vae=vae,
               scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0), text_encoder_2=None,
               tokenizer_2=None, **also)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, 32)),
         "pooled": golden.draw("pooled " + name, (32,)),
         "negative_text": golden.draw("negative " + name, (N - 2, 32)),
         "negative_pooled": golden.draw("negative pooled " + name, (32,))}
    seen = {}

    class FirstFrame:                            # the posterior's mean, also where it is sampled
        config, dtype = vae.config, vae.dtype

        def encode(self, x):
            dist = vae.encode(x).latent_dist
            seen["image"] = dist.mode()
            dist.sample = lambda *_: dist.mode()
            return type("Output", (), dict(latent_dist=dist))

    pipe.vae = FirstFrame()
    image = golden.draw("picture " + name, (1, 3, H * 8, W * 8)).clamp(-1, 1) * 0.5 + 0.5
    latents = []

    def keep(_pipe, _step, _time, v):
        latents.append(v["latents"])
        return v

    embeds = dict(prompt_embeds=t["text"][None], pooled_prompt_embeds=t["pooled"][None],
                  prompt_attention_mask=torch.ones(1, N),
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_pooled_prompt_embeds=t["negative_pooled"][None],
                  negative_prompt_attention_mask=torch.ones(1, N - 2))
    if cls is not HunyuanVideoPipeline:
        embeds["image"] = image
    pipe(height=H * 8, width=W * 8, num_frames=4 * F - 3, num_inference_steps=STEPS,
         latents=noise((1, 4, F, H, W)), output_type="latent", callback_on_step_end=keep,
         **embeds, **guidance)
    if seen:
        t["image"] = seen["image"][0]
    t["latents"] = latents[-1][0] / vae.config.scaling_factor
    return t


def make(out):
    for name, (cls, guidance) in PIPELINES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, cls, guidance),
                    seed=str(SEED), steps=str(STEPS),
                    guidance="6" if "replace" in name or "skyreels" in name else "1")
