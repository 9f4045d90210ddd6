"""Samples of diffusers' Flux2KleinPipeline, from the weights of the transformer's golden.

`samples-flux2`, guided, `samples-flux2-distilled`, which is not, and `samples-flux2-edit`, `-one`
and `-three`, with pictures `reference_K` [C,1,h,w], whose latents are raw, have `text` [n,D] of the
prompt, `negative_text`, and the pipeline's `latents` [C,1,h,w], raw, with squares as channels:
channel c has the mean c and the standard deviation 1 + c in the batch norm. The first noise is
vtrain's of seed SEED, prompt 0. Steps and the pipeline's guidance_scale are in the metadata; the
schedule's shift follows from the tokens and the steps.
"""
import golden
import numpy as np
import torch
from PIL import Image
from diffusers import FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline, Flux2Transformer2DModel

SEED, STEPS, H, W, N = 3, 3, 3, 5, 6
# name: guidance, (h, w) of the references
SAMPLES = {"flux2": (4.0, []), "flux2-distilled": (1.0, []),
           "flux2-edit": (4.0, [(64, 80), (112, 64)]), "flux2-edit-one": (1.0, [(80, 64)]),
           "flux2-edit-three": (4.0, [(64, 96), (64, 64), (96, 64)])}


def pictures(sizes):
    """Pictures of smooth colours, a place each of their own."""
    out = []
    for i, (h, w) in enumerate(sizes):
        y, x = np.mgrid[0:h, 0:w] / 16
        rgb = [np.sin(x + c + i) * np.cos(y - c) for c in range(3)]
        out.append(Image.fromarray((127.5 + 127 * np.stack(rgb, 2)).astype(np.uint8)))
    return out


def sample(name, guidance, sizes):
    flux2, hunyuan = golden.part("flux2"), golden.part("hunyuan_samples")
    transformer = golden.tiny(Flux2Transformer2DModel,
                              {**flux2.TINY, **flux2.VARIANTS["flux2-klein"][0]})[0]
    c, wide = flux2.TINY["in_channels"], flux2.TINY["joint_attention_dim"]
    vae = golden.part("vae_flux2").model()[0]
    vae.bn.running_mean.copy_(torch.arange(c))
    vae.bn.running_var.copy_((1 + torch.arange(c)) ** 2 - vae.config.batch_norm_eps)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    pipe = Flux2KleinPipeline(scheduler=scheduler, vae=vae, transformer=transformer,
                              text_encoder=None, tokenizer=None, is_distilled=guidance == 1)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, wide)),
         "negative_text": golden.draw("negative " + name, (N, wide))}
    images = pictures(sizes)
    for k, image in enumerate(images):
        z = vae.encode(pipe.image_processor.preprocess(image)).latent_dist.mode()
        t[f"reference_{k + 1}"] = pipe._patchify_latents(z)[0][:, None].contiguous()
    latents = pipe(image=images or None, height=H * 16, width=W * 16, num_inference_steps=STEPS,
                   output_type="latent", guidance_scale=guidance,
                   latents=hunyuan.noise((1, c, H, W)), prompt_embeds=t["text"][None],
                   negative_prompt_embeds=t["negative_text"][None]).images
    t["latents"] = pipe._patchify_latents(latents)[0][:, None].contiguous()
    return t


def make(out):
    for name, (guidance, sizes) in SAMPLES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, guidance, sizes),
                    seed=str(SEED), steps=str(STEPS), guidance=f"{guidance:g}")
