"""Samples of diffusers' SkyReelsV2Pipeline and SkyReelsV2DiffusionForcingPipeline, of the latter
from a first frame too, as its image-to-video pipeline makes them.

The files are as those of wan_images.py. `samples-skyreels2-first` has the raw `image` [C,1,h,w].

With diffusion forcing diffusers gives each frame's scheduler a view of the latents, which it then
overwrites, so that UniPC's second step corrects a sample that it does not have any more. Here the
schedulers get copies, as those of all other pipelines do.
"""
import torch
from diffusers import (SkyReelsV2DiffusionForcingImageToVideoPipeline,
                       SkyReelsV2DiffusionForcingPipeline, SkyReelsV2Pipeline,
                       SkyReelsV2Transformer3DModel, UniPCMultistepScheduler)

import golden

F, H, W, N, STEPS, GUIDANCE, SHIFT = 3, 4, 6, 7, 3, 6.0, 3.0


class UniPC(UniPCMultistepScheduler):
    def step(self, model_output, timestep, sample, *args, **kwargs):
        return super().step(model_output, timestep, sample.clone(), *args, **kwargs)


def config_of(name):
    models = golden.part("skyreels2")
    return {**models.wan.TINY, "image_dim": None, "added_kv_proj_dim": None,
            "pos_embed_seq_len": None, "inject_sample_info": False, "num_frame_per_block": 1,
            **models.VARIANTS[name][0]}


def sample(name, model, cls, frames=F, image=None, **more):
    images, config = golden.part("wan_images"), config_of(model)
    scheduler = UniPC(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=SHIFT)
    pipe = cls(tokenizer=None, text_encoder=None, vae=None, scheduler=scheduler,
               transformer=golden.tiny(SkyReelsV2Transformer3DModel, config)[0])
    pipe.set_progress_bar_config(disable=True)
    channels = config["out_channels"]
    vae = images.Vae(name, channels)
    pipe.vae, pipe.vae_scale_factor_spatial, pipe.vae_scale_factor_temporal = vae, 8, 4
    t = {"text": golden.draw("text " + name, (N, 32)),
         "negative_text": golden.draw("negative " + name, (N - 2, 32))}
    noise = golden.part("hunyuan_samples").noise((1, channels, frames, H, W))
    if cls is SkyReelsV2Pipeline:
        more["latents"] = noise
    elif image is None:                   # given latents are returned without the other results
        pipe.prepare_latents = lambda *a, **k: (noise, frames, None, 0)
    else:
        t["image"] = golden.draw("image " + name, (channels, 1, H, W))
        mean = torch.arange(float(channels)).view(-1, 1, 1, 1)
        clean = ((t["image"] - mean) / (1 + mean))[None]
        pipe.prepare_latents = lambda *a, **k: (noise, frames, clean, 1)
        more["image"] = image
    latents = pipe(prompt=None, height=8 * H, width=8 * W, num_frames=4 * frames - 3,
                   num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="latent",
                   prompt_embeds=images.rows(t["text"]),
                   negative_prompt_embeds=images.rows(t["negative_text"]), **more).frames
    t["latents"] = images.raw(latents, vae.config.latents_std)
    return t


def make(out):
    forcing = SkyReelsV2DiffusionForcingPipeline
    first = SkyReelsV2DiffusionForcingImageToVideoPipeline
    picture = torch.zeros(1, 3, 8 * H, 8 * W)
    made = {
        "skyreels2": sample("skyreels2", "skyreels2", SkyReelsV2Pipeline),
        "skyreels2-rate": sample("skyreels2-rate", "skyreels2-rate", forcing),
        "skyreels2-first": sample("skyreels2-first", "skyreels2-rate", first, image=picture),
    }
    for name, t in made.items():
        golden.save(out / f"samples-{name}.safetensors", t, steps=str(STEPS),
                    guidance=str(GUIDANCE), seed=str(golden.part("hunyuan_samples").SEED))
