"""Conditions and samples of diffusers' WanVACEPipeline.

`wan-vace-conditions` holds the clip to edit `video` u8 [F,H,W,3], its masks `masks` u8 [F,H,W], the
pictures `picture_1` and `picture_2` u8, and what the pipeline makes of them with the VAE of
"vae_wan": `condition` [2C,f,h,w], `mask` [64,f,h,w] with the references in front, and `whole`
[2C,f,h,w], `whole_mask` of the clip without masks and references.

`samples-wan-vace` has what other goldens of samples have, with the raw conditions `video`,
`reactive` [C,f,h,w] and `reference_1`, `reference_2` [C,1,h,w] and `mask` [64,f,h,w];
`samples-wan-vace-plain` has no references.
"""
import PIL.Image
import numpy as np
import torch
from diffusers import (AutoencoderKLWan, UniPCMultistepScheduler, WanVACEPipeline,
                       WanVACETransformer3DModel)

import golden

F, H, W, SIZES = 9, 32, 48, [(50, 70), (41, 100)]
LF, LH, LW, N, STEPS, GUIDANCE, SHIFT = 3, 4, 6, 7, 3, 5.0, 3.0


def pipeline(vae):
    config = golden.part("wan_vace").TINY
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                        flow_shift=SHIFT)
    pipe = WanVACEPipeline(tokenizer=None, text_encoder=None, vae=None, scheduler=scheduler,
                           transformer=golden.tiny(WanVACETransformer3DModel, config)[0])
    pipe.set_progress_bar_config(disable=True)
    pipe.vae, pipe.vae_scale_factor_spatial, pipe.vae_scale_factor_temporal = vae, 8, 4
    return pipe


def picture(i, h, w):
    y, x = np.mgrid[:h, :w]
    smooth = np.stack([x * 2 + 20 * i, 255 - y * 3 + 9 * i, (x + y) * 1.5], -1)
    noise = np.random.default_rng(i).integers(-40, 41, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def masks():
    """A box that moves, whose edges cut latent places."""
    m = np.zeros((F, H, W), np.uint8)
    for t in range(F):
        m[t, 3 + t:15 + 3 * t // 2, 11 * t // 4:19 + 5 * t // 2] = 255
    return m


def prepare(pipe, video, mask, pictures):
    video, mask, pictures = pipe.preprocess_conditions(
        [PIL.Image.fromarray(f) for f in video],
        None if mask is None else [PIL.Image.fromarray(f).convert("RGB") for f in mask],
        [PIL.Image.fromarray(p) for p in pictures] if pictures else None, 1, H, W, F,
        torch.float32, "cpu")
    return (pipe.prepare_video_latents(video, mask, pictures, None, "cpu")[0],
            pipe.prepare_masks(mask, pictures)[0])


def conditions(out):
    pipe = pipeline(golden.part("vae_wan").model(AutoencoderKLWan)[0])
    t = {"video": np.stack([picture(i, H, W) for i in range(F)]), "masks": masks()}
    for k, size in enumerate(SIZES):
        t[f"picture_{k + 1}"] = picture(20 + k, *size)
    pictures = [t["picture_1"], t["picture_2"]]
    t["condition"], t["mask"] = prepare(pipe, t["video"], t["masks"], pictures)
    t["whole"], t["whole_mask"] = prepare(pipe, t["video"], None, None)
    golden.save(out / "wan-vace-conditions.safetensors", t)


class Vae(golden.part("wan_images").Vae):
    """Posteriors by the number of the call."""
    def __init__(self, name, channels):
        super().__init__(name, channels)
        self.made = []

    def encode(self, x):
        name, self.name = self.name, f"{self.name} {len(self.made)}"
        made = super().encode(x)
        mean, self.name = self.mean, name
        self.made.append(mean)
        made.latent_dist.mode = lambda: mean
        return made


def samples(out, name, references):
    images, config = golden.part("wan_images"), golden.part("wan_vace").TINY
    pipe = pipeline(Vae(name, config["out_channels"]))
    t = {"text": golden.draw("text " + name, (N, 32)),
         "negative_text": golden.draw("negative " + name, (N - 2, 32))}
    made, prepare_masks = [], pipe.prepare_masks
    pipe.prepare_masks = lambda *a: made.append(prepare_masks(*a)) or made[0]
    h, w, frames = 8 * LH, 8 * LW, 4 * LF - 3
    noise = golden.part("hunyuan_samples").noise((1, config["out_channels"], LF + references, LH,
                                                  LW))
    latents = pipe(video=[PIL.Image.fromarray(picture(i, h, w)) for i in range(frames)],
                   mask=[PIL.Image.fromarray(m[:h, :w]).convert("RGB") for m in masks()[:frames]],
                   reference_images=[PIL.Image.fromarray(picture(k, h, w))
                                     for k in range(references)] or None,
                   height=h, width=w, num_frames=frames, num_inference_steps=STEPS,
                   guidance_scale=GUIDANCE, output_type="latent", latents=noise,
                   prompt_embeds=images.rows(t["text"]),
                   negative_prompt_embeds=images.rows(t["negative_text"])).frames
    values = ["video", "reactive"] + [f"reference_{k + 1}" for k in range(references)]
    t.update({k: v[0] for k, v in zip(values, pipe.vae.made)})
    t["mask"] = made[0][0][:, references:]
    t["latents"] = images.raw(latents[:, :, references:], pipe.vae.config.latents_std)
    golden.save(out / f"samples-{name}.safetensors", t, steps=str(STEPS), guidance=str(GUIDANCE),
                seed=str(golden.part("hunyuan_samples").SEED))


def make(out):
    conditions(out)
    samples(out, "wan-vace", 2)
    samples(out, "wan-vace-plain", 0)
