"""Conditions and samples of diffusers' WanImageToVideoPipeline, and samples of its WanPipeline.

`wan-vision` holds a tiny CLIPVisionModel, whose width and tokens are those of the goldens "wan-i2v"
and "wan-flf2v", its `image_processor` (preprocessor_config.json), and the pipeline's values of the
pictures `first` and `last` u8 [H,W,3] for a clip of 9 frames with the VAE of "vae_wan":
`condition.NAME` [4+C,f,h,w], the folded mask and the normalised latents, and `embeds.NAME` [n,D],
where NAME is i2v, or flf2v with both pictures. `wan-5b-vae` and `wan-ref-vae` are
configs of autoencoders for the goldens "wan-5b" and "wan-control-ref".

`samples-NAME` has `text` [n,D], `negative_text`, `video` [C,f,h,w] (5B: `image` [C,1,h,w]) raw,
`mask` [4,f,h,w], `vision` [n,D] where the transformer of the golden NAME takes these, and the
pipeline's `latents` [C,f,h,w], raw. Channel c of the latents has the mean c and the deviation 1+c.
The first noise is vtrain's of SEED in hunyuan_samples.py, prompt 0. The metadata holds steps,
guidance and seed. `samples-wan-euler` is of WanPipeline with Euler's scheduler.
"""
import PIL.Image
import numpy as np
import torch
import transformers
from diffusers import (AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler,
                       WanImageToVideoPipeline, WanPipeline, WanTransformer3DModel)

import golden

F, H, W, N, STEPS, GUIDANCE, SHIFT = 3, 8, 12, 7, 3, 5.0, 3.0
VISION = dict(hidden_size=40, intermediate_size=64, num_hidden_layers=3, num_attention_heads=5,
              projection_dim=32, hidden_act="gelu", image_size=28, patch_size=14)
SAMPLES = {"wan-i2v": False, "wan-flf2v": True, "wan-a14b": False, "wan-5b": False,
           "wan-two": False}
TWO = "wan-two"


def picture(i):
    """Gradients with noise, as bytes."""
    y, x = np.mgrid[:8 * H, :8 * W]
    smooth = np.stack([x * 2 + 20 * i, 255 - y * 3, (x + y) * 1.5], -1)
    noise = np.random.default_rng(i).integers(-40, 41, smooth.shape)
    return PIL.Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8))


def pipeline(cls=WanImageToVideoPipeline, **parts):
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                        flow_shift=SHIFT)
    pipe = cls(tokenizer=None, text_encoder=None, scheduler=scheduler, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def conditions(out):
    config = transformers.CLIPVisionConfig(**VISION)
    model = transformers.CLIPVisionModel(config).eval().float()
    weights = golden.fill_module(model)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 28},
                                                crop_size={"height": 28, "width": 28})
    vae = golden.part("vae_wan").model(AutoencoderKLWan)[0]
    pipe = pipeline(vae=vae, image_encoder=model, image_processor=processor)
    pictures = [picture(0), picture(1)]
    t = dict(zip(("first", "last"), (np.asarray(p) for p in pictures)))
    for name, used in (("i2v", pictures[:1]), ("flf2v", pictures)):
        pixels = [pipe.video_processor.preprocess(p, height=8 * H, width=8 * W) for p in used]
        t["condition." + name] = pipe.prepare_latents(
            pixels[0], 1, 4, 8 * H, 8 * W, 4 * F - 3, torch.float32, "cpu",
            last_image=pixels[1] if len(used) > 1 else None)[1][0]
        embeds = pipe.encode_image(used if len(used) > 1 else used[0])
        t["embeds." + name] = embeds.reshape(-1, embeds.shape[-1])
    fields = {k: v for k, v in processor.to_dict().items() if v is not None}
    golden.save(out / "wan-vision.safetensors", t, config=config.to_dict(), weights=weights,
                image_processor=fields)


class Vae(torch.nn.Module):
    """An autoencoder whose posteriors are drawn."""
    dtype = torch.float32

    def __init__(self, name, channels):
        super().__init__()
        self.name, self.mean, self.device = name, None, torch.device("cpu")
        self.config = type("Config", (), dict(
            z_dim=channels, scale_factor_temporal=4, scale_factor_spatial=16 if channels > 4 else 8,
            latents_mean=list(range(channels)), latents_std=[1.0 + c for c in range(channels)]))

    def encode(self, x):
        frames, side = (x.shape[2] - 1) // 4 + 1, self.config.scale_factor_spatial
        self.mean = golden.draw("mean " + self.name, (1, self.config.z_dim, frames,
                                                      x.shape[3] // side, x.shape[4] // side))
        dist = type("Dist", (), dict(mode=lambda _: self.mean))()
        return type("Output", (), dict(latent_dist=dist))


def transformers_of(name, config):
    """The second of two transformers predicts the opposite of the first."""
    parts = dict(transformer=golden.tiny(WanTransformer3DModel, config)[0])
    if name == TWO:
        low = golden.tiny(WanTransformer3DModel, config)[0]
        with torch.no_grad():
            low.proj_out.weight.neg_()
            low.proj_out.bias.neg_()
        parts.update(transformer_2=low, boundary_ratio=0.9)
    return parts


def rows(x):
    """Zeros follow the prompt, as in encode_prompt."""
    return torch.cat([x, torch.zeros(golden.part("wan").TEXT_ROWS - len(x), 32)])[None]


def raw(latents, std):
    std = torch.tensor(std).view(-1, 1, 1, 1)
    return latents[0] * std + torch.arange(float(len(std))).view(-1, 1, 1, 1)


def euler():
    wan, h, w = golden.part("wan"), 4, 6
    pipe = WanPipeline(transformer=golden.tiny(WanTransformer3DModel, wan.TINY)[0], vae=None,
                       tokenizer=None, text_encoder=None,
                       scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT))
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text wan-euler", (N, 32)),
         "negative_text": golden.draw("negative wan-euler", (N - 2, 32))}
    channels = wan.TINY["out_channels"]
    latents = pipe(height=8 * h, width=8 * w, num_frames=4 * F - 3, num_inference_steps=STEPS,
                   guidance_scale=GUIDANCE, output_type="latent",
                   latents=golden.part("hunyuan_samples").noise((1, channels, F, h, w)),
                   prompt_embeds=rows(t["text"]),
                   negative_prompt_embeds=rows(t["negative_text"])).frames
    t["latents"] = raw(latents, [1.0 + c for c in range(channels)])
    return t


def sample(name, last):
    wan = golden.part("wan")
    config = {**wan.TINY, "image_dim": None, "added_kv_proj_dim": None, "pos_embed_seq_len": None,
              **wan.VARIANTS["wan-a14b" if name == TWO else name][0]}
    five = config["out_channels"] == wan.FIVE
    pipe = pipeline(vae=None, expand_timesteps=five, **transformers_of(name, config))
    return animate(name, pipe, config, last)


def animate(name, pipe, config, last=False, guidance=GUIDANCE):
    """A sample of a pipeline of image to video."""
    wan = golden.part("wan")
    vae, five = Vae(name, config["out_channels"]), config["out_channels"] == wan.FIVE
    side, h, w = vae.config.scale_factor_spatial, 4, 6
    pipe.vae, pipe.vae_scale_factor_spatial, pipe.vae_scale_factor_temporal = vae, side, 4
    pipe.video_processor.config["vae_scale_factor"] = side
    t = {"text": golden.draw("text " + name, (N, 32)),
         "negative_text": golden.draw("negative " + name, (N - 2, 32))}
    seen = golden.draw("vision " + name, (2 if last else 1, wan.PICTURE, config["image_dim"] or 1))
    pipe.encode_image = lambda *_: seen
    prepare = pipe.prepare_latents
    made = []
    pipe.prepare_latents = lambda *a, **k: made.append(prepare(*a, **k)) or made[0]

    noise = golden.part("hunyuan_samples").noise((1, config["out_channels"], F, h, w))
    latents = pipe(image=picture(0), last_image=picture(1) if last else None, height=side * h,
                   width=side * w, num_frames=4 * F - 3, num_inference_steps=STEPS,
                   guidance_scale=guidance, latents=noise, output_type="latent",
                   prompt_embeds=rows(t["text"]),
                   negative_prompt_embeds=rows(t["negative_text"])).frames
    t["latents"] = raw(latents, vae.config.latents_std)
    t["image" if five else "video"] = vae.mean[0]
    if not five:
        t["mask"] = made[0][1][0, :4]
    if config["image_dim"]:
        t["vision"] = seen.reshape(-1, seen.shape[-1])
    return t


def autoencoders(out):
    vae, wan = golden.part("vae_wan"), golden.part("wan")
    for name, channels, fields in (("wan-5b-vae", wan.FIVE, vae.V22), ("wan-ref-vae", wan.REF, {})):
        changed = dict(fields, z_dim=channels, latents_mean=[0.0] * channels,
                       latents_std=[1.0] * channels)
        golden.save(out / f"{name}.safetensors", {}, **vae.model(AutoencoderKLWan, **changed)[1])


def make(out):
    conditions(out)
    autoencoders(out)
    made = {name: sample(name, last) for name, last in SAMPLES.items()}
    made["wan-euler"] = euler()
    for name, t in made.items():
        golden.save(out / f"samples-{name}.safetensors", t, steps=str(STEPS),
                    guidance=str(GUIDANCE), seed=str(golden.part("hunyuan_samples").SEED))
