"""Samples of diffusers' SkyReelsV2Pipeline, SkyReelsV2ImageToVideoPipeline and
SkyReelsV2DiffusionForcingPipeline, of the latter from a first frame too, to a last one, and from a
clip, as its pipelines of image to video and of video to video make them.

The files are as those of wan_images.py; those from a first frame have the raw `image` [C,1,h,w],
those to a last one also `last` [C,1,h,w], and those that go on from a clip `start` [C,k,h,w].
In `async` blocks of frames lag behind each other (ar_step, causal_block_size), `long` samples are
made of windows that share frames (overlap_history). The noise of a window is its part of the noise
of the whole sample, and the noise of a known frame (addnoise_condition) is vtrain's of this step,
counted over all windows.

With diffusion forcing diffusers gives each frame's scheduler a view of the latents, which it then
overwrites, so that UniPC's second step corrects a sample that it does not have any more. Here the
schedulers get copies, as those of all other pipelines do.
"""
from unittest import mock

import torch
from diffusers import (SkyReelsV2DiffusionForcingImageToVideoPipeline,
                       SkyReelsV2DiffusionForcingPipeline,
                       SkyReelsV2DiffusionForcingVideoToVideoPipeline,
                       SkyReelsV2ImageToVideoPipeline, SkyReelsV2Pipeline,
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


def draws_of(name, frames, window, known):
    """The draws of a pipeline of diffusion forcing whose windows of `window` frames share `known`,
    and a callback that counts the steps."""
    noise, at = golden.part("hunyuan_samples").noise, {"window": 0, "step": 0}
    whole = (1, config_of(name)["out_channels"], frames, H, W)

    def draw(shape, **_):
        first = at["window"] * (window - known)
        at["window"] += 1
        return noise(whole)[:, :, first:first + shape[2]].clone()

    def draw_like(x):
        first = (at["window"] - 1) * (window - known)
        return noise(whole, at["step"] + 1)[:, :, first:first + x.shape[2]]

    def count(_pipe, _step, _time, values):
        at["step"] += 1
        return values

    return draw, draw_like, count


def encode_as(vae, *pictures):
    """The autoencoder's means of anything are these, a row each."""
    mean = torch.stack(pictures)
    vae.encode = lambda x: type("Output", (), dict(latent_dist=type("Dist", (), dict(
        mode=lambda _: mean))()))


def sample(name, model, cls, frames=F, image=None, last=None, video=None, window=None, known=0,
           **more):
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
    draws = draws_of(model, frames, window or frames, known)
    if cls is SkyReelsV2Pipeline:
        more["latents"] = noise
    elif image is not None:
        t["image"] = golden.draw("image " + name, (channels, 1, H, W))
        more["image"] = image
        if last is not None:
            t["last"] = golden.draw("last " + name, (channels, 1, H, W))
            more["last_image"] = last
        encode_as(vae, *(t[k] for k in ("image", "last") if k in t))
    elif video is not None:
        t["start"] = golden.draw("start " + name, (channels, known, H, W))
        more["video"] = video
        encode_as(vae, t["start"])
    if window:
        more.update(base_num_frames=4 * window - 3, overlap_history=4 * known - 3)
    with mock.patch(cls.__module__ + ".randn_tensor", draws[0]), \
            mock.patch("torch.randn_like", draws[1]):
        latents = pipe(prompt=None, height=8 * H, width=8 * W, num_frames=4 * frames - 3,
                       num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="latent",
                       prompt_embeds=images.rows(t["text"]), callback_on_step_end=draws[2],
                       negative_prompt_embeds=images.rows(t["negative_text"]), **more).frames
    # the last picture, which is no frame of the sample, stands behind its latents
    t["latents"] = images.raw(latents[:, :, :frames], vae.config.latents_std)
    return t


def pictured(name):
    images, config = golden.part("wan_images"), config_of(name)
    pipe = images.pipeline(SkyReelsV2ImageToVideoPipeline, vae=None, image_encoder=None,
                           image_processor=None,
                           transformer=golden.tiny(SkyReelsV2Transformer3DModel, config)[0])
    return images.animate(name, pipe, config, guidance=GUIDANCE)


def make(out):
    forcing = SkyReelsV2DiffusionForcingPipeline
    first = SkyReelsV2DiffusionForcingImageToVideoPipeline
    more = SkyReelsV2DiffusionForcingVideoToVideoPipeline
    picture, clip = torch.zeros(1, 3, 8 * H, 8 * W), torch.zeros(1, 9, 3, 8 * H, 8 * W)
    made = {
        "skyreels2": sample("skyreels2", "skyreels2", SkyReelsV2Pipeline),
        "skyreels2-i2v": pictured("skyreels2-i2v"),
        "skyreels2-rate": sample("skyreels2-rate", "skyreels2-rate", forcing),
        "skyreels2-first": sample("skyreels2-first", "skyreels2-rate", first, image=picture),
        "skyreels2-async": sample("skyreels2-async", "skyreels2-rate", forcing, frames=6,
                                  ar_step=2, causal_block_size=2),
        "skyreels2-async-first": sample("skyreels2-async-first", "skyreels2-rate", first,
                                        image=picture, ar_step=1, addnoise_condition=20),
        "skyreels2-long": sample("skyreels2-long", "skyreels2", forcing, frames=6, window=4,
                                 known=1, addnoise_condition=30),
        "skyreels2-long-async": sample("skyreels2-long-async", "skyreels2-rate", forcing, frames=8,
                                       window=4, known=2, addnoise_condition=20, ar_step=1,
                                       causal_block_size=2),
        "skyreels2-long-first": sample("skyreels2-long-first", "skyreels2-rate", first, frames=5,
                                       image=picture, window=3, known=1, addnoise_condition=20),
        "skyreels2-last": sample("skyreels2-last", "skyreels2-rate", first, image=picture,
                                 last=picture, ar_step=1),
        "skyreels2-long-last": sample("skyreels2-long-last", "skyreels2", first, frames=5,
                                      image=picture, last=picture, window=3, known=1,
                                      addnoise_condition=20),
        "skyreels2-more": sample("skyreels2-more", "skyreels2-rate", more, frames=5, video=clip,
                                 window=5, known=2),
        "skyreels2-more-async": sample("skyreels2-more-async", "skyreels2-rate", more, frames=6,
                                       video=clip, window=6, known=2, addnoise_condition=20,
                                       ar_step=1, causal_block_size=2),
        "skyreels2-more-long": sample("skyreels2-more-long", "skyreels2", more, frames=7,
                                      video=clip, window=4, known=2, addnoise_condition=30),
    }
    for name, t in made.items():
        golden.save(out / f"samples-{name}.safetensors", t, steps=str(STEPS),
                    guidance=str(GUIDANCE), seed=str(golden.part("hunyuan_samples").SEED))
