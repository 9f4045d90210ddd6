"""Samples of diffusers' pipelines of LTX-Video, from the weights of the transformer's golden "ltx",
in the layout of hunyuan_samples.

`samples-ltx` begins with a picture and has the scheduler of LTX-Video 0.9.0; `-rescaled` has no
picture, and --guidance_rescale RESCALE. `-condition` and `-condition-text`, with a picture and
without, are of LTXConditionPipeline, with the scheduler of 0.9.5. The VAE's statistics are mean c
and deviation 1 + c of channel c, so that a wrong one shows; `image` is the first frame's raw
latent.
"""
import golden
import PIL.Image
import torch
from diffusers import (FlowMatchEulerDiscreteScheduler, LTXConditionPipeline,
                       LTXImageToVideoPipeline, LTXPipeline, LTXVideoTransformer3DModel)
from diffusers.pipelines.ltx import pipeline_ltx_condition
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

STEPS, F, H, W, N, GUIDANCE, RESCALE = 10, 3, 4, 6, 7, 3, 0.7
DYNAMIC = dict(use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05,
               base_image_seq_len=1024, max_image_seq_len=4096, shift_terminal=0.1)
# name: class, fields of the scheduler, arguments, whether a picture is known
SAMPLES = {
    "ltx": (LTXImageToVideoPipeline, DYNAMIC, {}, True),
    "ltx-rescaled": (LTXPipeline, DYNAMIC, dict(guidance_rescale=RESCALE), False),
    "ltx-condition": (LTXConditionPipeline, {}, {}, True),
    "ltx-condition-text": (LTXConditionPipeline, {}, {}, False),
}


class Vae:
    """An autoencoder whose posterior of any picture is `image`."""
    dtype, spatial_compression_ratio, temporal_compression_ratio = torch.float32, 32, 8

    def __init__(self, image, channels):
        self.image, self.latents_mean = image[None], torch.arange(float(channels))
        self.latents_std = 1 + self.latents_mean

    def encode(self, _):
        dist = type("Dist", (), dict(sample=lambda *_: self.image))()
        return type("Output", (), dict(latent_dist=dist))


def sample(name, cls, fields, arguments, picture):
    ltx, hunyuan = golden.part("ltx"), golden.part("hunyuan_samples")
    transformer = golden.tiny(LTXVideoTransformer3DModel, ltx.TINY)[0]
    channels, width = ltx.TINY["in_channels"], ltx.TINY["caption_channels"]
    mean = torch.arange(float(channels)).view(-1, 1, 1, 1)
    deviation = 1 + mean
    pipe = cls(transformer=transformer, vae=None, text_encoder=None, tokenizer=None,
               scheduler=FlowMatchEulerDiscreteScheduler(**fields))
    pipe.set_progress_bar_config(disable=True)
    seed = "ltx-i2v" if name == "ltx" else name
    t = {"text": golden.draw("text " + seed, (N, width)),
         "negative_text": golden.draw("negative " + seed, (N - 2, width)),
         "image": golden.draw("image " + seed, (channels, 1, H, W)) * deviation + mean}
    pipe.vae = Vae(t["image"], channels)
    x = hunyuan.noise((channels, F, H, W))
    negative = torch.zeros(1, N, width)
    negative[:, :N - 2] = t["negative_text"]
    mask = torch.ones(1, N)
    fewer = mask.clone()
    fewer[:, N - 2:] = 0
    draws = [x[None]]                                # of the condition pipeline
    if cls is LTXConditionPipeline:
        draws += [pipe._pack_latents(hunyuan.noise((1, channels, F, H, W), i + 1))
                  for i in range(STEPS)]
        pipeline_ltx_condition.randn_tensor = lambda *_, **__: draws.pop(0)
        if picture:
            first = LTXVideoCondition(PIL.Image.new("RGB", (64, 64)))
            arguments = dict(arguments, conditions=[first])
    elif picture:
        x[:, :1] = (t["image"] - mean) / deviation
    y = pipe(height=H * ltx.RATIO, width=W * ltx.RATIO, num_frames=(F - 1) * ltx.RATIO_T + 1,
             num_inference_steps=STEPS, guidance_scale=GUIDANCE,
             latents=pipe._pack_latents(x[None]),
             prompt_embeds=t["text"][None], prompt_attention_mask=mask,
             negative_prompt_embeds=negative, negative_prompt_attention_mask=fewer,
             output_type="latent", return_dict=False, **arguments)[0]
    if cls is not LTXConditionPipeline:
        y = pipe._unpack_latents(y, F, H, W)
    elif picture:
        assert not draws
    if not picture:
        del t["image"]
    t["latents"] = y[0] * deviation + mean
    return t


def make(out):
    for name, row in SAMPLES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, *row),
                    seed=str(golden.part("hunyuan_samples").SEED), steps=str(STEPS),
                    guidance=str(GUIDANCE))
