"""Samples of diffusers' FluxPipeline, from the weights of the transformers' goldens.

`samples-NAME` has `text` [n,D] and `pooled` [P] of the prompt, `negative_text`, `negative_pooled`,
and the pipeline's `latents` [C,1,h,w], raw (not scaled). Its first noise is vtrain's of seed SEED,
prompt 0. Steps and vtrain's --guidance_scale are in the metadata. dev's shift follows from the
tokens; `flux-dev-cfg` is guided by the negative prompt too.
"""
import golden
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

SEED, STEPS, C, H, W, N = 3, 3, 4, 4, 6, 7
DEV = dict(shift=3.0, use_dynamic_shifting=True)
# name: transformer's golden, scheduler's fields, arguments of the pipeline, vtrain's guidance
PIPELINES = {
    "flux-dev": ("flux-dev", DEV, dict(guidance_scale=3.5), "3.5"),
    "flux-dev-cfg": ("flux-dev", DEV, dict(guidance_scale=1.0, true_cfg_scale=2.0), "1"),
    "flux-schnell": ("flux-schnell", dict(shift=1.0), {}, "1"),
}


def sample(name, model, fields, arguments):
    flux, hunyuan = golden.part("flux"), golden.part("hunyuan_samples")
    transformer = golden.tiny(FluxTransformer2DModel,
                              {**flux.TINY, **flux.VARIANTS[model][0]})[0]
    vae = golden.part("vae_kl").model()[0]
    pipe = FluxPipeline(scheduler=FlowMatchEulerDiscreteScheduler(**fields), vae=vae,
                        transformer=transformer, text_encoder=None, tokenizer=None,
                        text_encoder_2=None, tokenizer_2=None)
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text " + name, (N, 16)),
         "pooled": golden.draw("pooled " + name, (32,)),
         "negative_text": golden.draw("negative " + name, (N, 16)),
         "negative_pooled": golden.draw("negative pooled " + name, (32,))}
    noise = hunyuan.noise((1, C, H, W))
    packed = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                  latents=pipe._pack_latents(noise, 1, C, H, W), prompt_embeds=t["text"][None],
                  pooled_prompt_embeds=t["pooled"][None],
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_pooled_prompt_embeds=t["negative_pooled"][None], **arguments).images
    latents = pipe._unpack_latents(packed, H * 8, W * 8, pipe.vae_scale_factor)
    t["latents"] = (latents / vae.config.scaling_factor + vae.config.shift_factor)[0][:, None]
    return t


def make(out):
    for name, (model, fields, arguments, guidance) in PIPELINES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(name, model, fields, arguments),
                    seed=str(SEED), steps=str(STEPS), guidance=guidance)
