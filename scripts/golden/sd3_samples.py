"""Samples of diffusers' StableDiffusion3Pipeline, from the weights of the transformer's goldens.

`samples-NAME` has the prompt's states `text_1`, `text_2` [n,D] of both CLIP encoders and `text_3`
of T5, with the pooled vectors `pooled_1` and `pooled_2`, the same of the negative prompt
(`negative_...`), `text`, which is text_1, and the pipeline's `latents` [C,1,h,w], raw (not scaled).
`sd3-without` has no T5: text_3 is one row of zeros. `sd3-unguided` has a guidance of 1,
`sd3-skipped` skip-layer guidance in the second of three steps. The first noise is vtrain's of seed
SEED, prompt 0; steps, guidance_scale and vtrain's further flags are in the metadata.
"""
import golden
from diffusers import (FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel,
                       StableDiffusion3Pipeline)

SEED, STEPS, C, H, W, TOKENS, T5_TOKENS = 3, 3, 4, 4, 6, 3, 5
# name: the transformer's variant, guidance, further arguments
SAMPLES = {"sd3": ("3.5-medium", 2.5, {}), "sd3-unguided": ("3.5-medium", 1.0, {}),
           "sd3-without": ("3.5-medium", 4.0, {}),
           "sd3-skipped": ("3.5-medium", 3.0, dict(skip_guidance_layers=[0, 2],
                                                   skip_layer_guidance_scale=1.5,
                                                   skip_layer_guidance_stop=0.6))}


def sample(name, variant, guidance, more):
    sd3, hunyuan = golden.part("sd3"), golden.part("hunyuan_samples")
    config = {**sd3.TINY, **sd3.VARIANTS[variant][0]}
    transformer = golden.tiny(SD3Transformer2DModel, config)[0]
    vae = golden.part("vae_kl").model(scaling_factor=1.5305, shift_factor=0.0609)[0]
    pipe = StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=vae, transformer=transformer,
        **{f"{part}{n}": None for part in ("text_encoder", "tokenizer") for n in ("", "_2", "_3")})
    pipe.set_progress_bar_config(disable=True)
    t, arguments = {}, {}
    for which in ("", "negative_"):
        rows = {"text_1": (TOKENS, sd3.WIDTHS[0]), "text_2": (TOKENS, sd3.WIDTHS[1]),
                "text_3": (T5_TOKENS, config["joint_attention_dim"]),
                "pooled_1": sd3.WIDTHS[:1], "pooled_2": sd3.WIDTHS[1:]}
        v = {k: golden.draw(f"{which}{k} {name}", shape) for k, shape in rows.items()}
        if name.endswith("without"):
            v["text_3"] = v["text_3"][:1] * 0
        t.update({which + k: x for k, x in v.items()})
        text, pooled = sd3.joined({"text": v["text_1"][None], "text_2": v["text_2"][None],
                                   "text_3": v["text_3"][None], "pooled": v["pooled_1"][None],
                                   "pooled_2": v["pooled_2"][None]})
        t[which + "text"] = v["text_1"].clone()
        arguments.update({which + "prompt_embeds": text, which + "pooled_prompt_embeds": pooled})
    latents = pipe(height=H * 8, width=W * 8, num_inference_steps=STEPS, output_type="latent",
                   guidance_scale=guidance, latents=hunyuan.noise((1, C, H, W)),
                   **arguments, **more).images
    t["latents"] = (latents / vae.config.scaling_factor + vae.config.shift_factor)[0][:, None]
    return t


def make(out):
    for name, (variant, guidance, more) in SAMPLES.items():
        flags = " ".join(f"--{k} {','.join(map(str, v)) if isinstance(v, list) else v}"
                         for k, v in more.items())
        golden.save(out / f"samples-{name}.safetensors", sample(name, variant, guidance, more),
                    seed=str(SEED), steps=str(STEPS), guidance=f"{guidance:g}", flags=flags)
