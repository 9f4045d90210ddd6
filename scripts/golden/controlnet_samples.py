"""Samples of diffusers' FluxControlNetPipeline, QwenImageControlNetPipeline and
QwenImageControlNetInpaintPipeline, from the weights of the transformers' goldens.

`samples-control-NAME` has the prompts and the raw `latents` [C,1,h,w] as flux_samples.py and
qwen_samples.py have them, and the raw latents of the pipeline's condition picture, `control`, or
for inpainting those of the masked picture, `video`, and the `mask` [64,1,h,w], which is 1 where
pixels are made. The metadata's `config` and `weights` are those of the ControlNet, whose values
follow from their names; `flags` are vtrain's for this sample. The negative prompt guides each of
them, and the ControlNet reads the prompt alone. Posteriors count with their means.
"""
from types import SimpleNamespace

import golden
import torch
from diffusers import (AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler,
                       FluxControlNetModel, FluxControlNetPipeline, FluxTransformer2DModel,
                       QwenImageControlNetInpaintPipeline, QwenImageControlNetModel,
                       QwenImageControlNetPipeline, QwenImageTransformer2DModel)

SEED, STEPS, C, H, W, N = 3, 3, 4, 4, 6, 7
MODE = 2


def encode_means(vae, t, name):
    """Lets the VAE encode to the mean of the posterior, which joins t as `name`."""
    encode = vae.encode

    def mean(image):
        z = encode(image).latent_dist.mode()
        t[name] = (z[:, :, None] if z.ndim == 4 else z)[0].clone()
        return SimpleNamespace(latent_dist=SimpleNamespace(sample=lambda generator=None: z))
    vae.encode = mean


def flux(t, fields, arguments):
    part, samples = golden.part("flux"), golden.part("flux_samples")
    config = {**part.TINY, "guidance_embeds": True}
    net, whole, weights = golden.tiny(FluxControlNetModel, {**config, **fields})
    vae = golden.part("vae_kl").model()[0]
    pipe = FluxControlNetPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(**samples.DEV), vae=vae, controlnet=net,
        transformer=golden.tiny(FluxTransformer2DModel, config)[0], text_encoder=None,
        tokenizer=None, text_encoder_2=None, tokenizer_2=None)
    pipe.set_progress_bar_config(disable=True)
    encode_means(vae, t, "control")
    noise = golden.part("hunyuan_samples").noise((1, C, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  control_image=samples.picture(H * 8, W * 8), guidance_scale=3.5,
                  true_cfg_scale=2.0, latents=samples.tokens_of(pipe, noise),
                  prompt_embeds=t["text"][None], pooled_prompt_embeds=t["pooled"][None],
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_pooled_prompt_embeds=t["negative_pooled"][None], **arguments).images
    unpacked = pipe._unpack_latents(packed, H * 8, W * 8, pipe.vae_scale_factor)
    t["latents"] = samples.raw(vae, unpacked)
    return whole, weights


def qwen(t, fields, arguments):
    part, samples = golden.part("qwen"), golden.part("flux_samples")
    net, whole, weights = golden.tiny(QwenImageControlNetModel, {**part.TINY, **fields})
    torch.manual_seed(0)
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=C, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
                                 latents_mean=[0.0] * C, latents_std=[1.0] * C)
    masked = "extra_condition_channels" in fields
    cls = QwenImageControlNetInpaintPipeline if masked else QwenImageControlNetPipeline
    pipe = cls(scheduler=golden.part("qwen_samples").scheduler(), vae=vae, controlnet=net,
               text_encoder=None, tokenizer=None,
               transformer=golden.tiny(QwenImageTransformer2DModel, part.TINY)[0])
    pipe.set_progress_bar_config(disable=True)
    encode_means(vae, t, "video" if masked else "control")
    if masked:
        mask = samples.grey_mask(H * 8, W * 8)
        pixels = pipe.mask_processor.preprocess(mask, H * 8, W * 8)
        t["mask"] = pixels.reshape(H, 8, W, 8).permute(1, 3, 0, 2).reshape(64, 1, H, W)
        arguments = {**arguments, "control_mask": mask}
    noise = golden.part("hunyuan_samples").noise((1, C, 1, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  control_image=samples.picture(H * 8, W * 8), true_cfg_scale=4.0,
                  latents=golden.packed(noise), prompt_embeds=t["text"][None],
                  prompt_embeds_mask=torch.ones(1, N).long(),
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_prompt_embeds_mask=torch.ones(1, N - 3).long(), **arguments).images
    t["latents"] = golden.unpacked(packed, noise)[0]
    return whole, weights


# name: function, widths of text and pooled vector, rows of the negative prompt, fields of the
# ControlNet's config.json, the pipeline's arguments, vtrain's guidance and flags
PIPELINES = {
    "flux": (flux, 16, 32, N, dict(num_layers=2, num_single_layers=1),
             dict(controlnet_conditioning_scale=0.75), "3.5",
             "--guidance_scale 3.5 --true_cfg_scale 2 --controlnet_conditioning_scale 0.75"),
    "union": (flux, 16, 32, N, dict(num_layers=1, num_single_layers=0, num_mode=4),
              dict(control_mode=MODE), "3.5",
              f"--guidance_scale 3.5 --true_cfg_scale 2 --controlnet_mode {MODE}"),
    "qwen": (qwen, 32, 4, N - 3, dict(num_layers=1), dict(controlnet_conditioning_scale=0.75), "4",
             "--controlnet_conditioning_scale 0.75"),
    "qwen-mask": (qwen, 32, 4, N - 3, dict(num_layers=1, extra_condition_channels=4), {}, "4", ""),
}


def make(out):
    for name, row in PIPELINES.items():
        run, wide, pooled, negative, fields, arguments, guidance, flags = row
        t = {"text": golden.draw("text control " + name, (N, wide)),
             "negative_text": golden.draw("negative control " + name, (negative, wide)),
             "pooled": golden.draw("pooled control " + name, (pooled,)),
             "negative_pooled": golden.draw("negative pooled control " + name, (pooled,))}
        config, weights = run(t, fields, arguments)
        golden.save(out / f"samples-control-{name}.safetensors", t, seed=str(SEED),
                    steps=str(STEPS), guidance=guidance, flags=flags, config=config,
                    weights=weights)
