"""Schedules and samples of diffusers' pipelines, each by the class's own __call__.

`pipelines` in the metadata has a row for each call: class, scheduler_config.json, tokens of the
transformer, number of steps, and the name of its tensors. `NAME.t` has the timesteps that the
transformer got, as levels of 0..1000, and `NAME.x` its inputs at these steps, then the sample.
All elements of a sample are the same, since the transformer is a stand-in: v = x / 2 - t / 1000 +
0.3. Pictures and control clips are zeros, draws of a sampler too; nothing is guided.
"""
import golden
import torch
from diffusers import (CogVideoXDDIMScheduler, CogVideoXDPMScheduler,
                       CogVideoXFunControlPipeline, CogVideoXImageToVideoPipeline,
                       CogVideoXPipeline, CogVideoXTransformer3DModel,
                       FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline,
                       Flux2Transformer2DModel, FluxPipeline, FluxTransformer2DModel,
                       HunyuanSkyreelsImageToVideoPipeline, HunyuanVideoImageToVideoPipeline,
                       HunyuanVideoPipeline, HunyuanVideoTransformer3DModel, LTXConditionPipeline,
                       LTXImageToVideoPipeline, LTXPipeline, LTXVideoTransformer3DModel,
                       QwenImagePipeline, QwenImageTransformer2DModel, UniPCMultistepScheduler,
                       WanImageToVideoPipeline, WanPipeline, WanTransformer3DModel)
from diffusers.schedulers import scheduling_dpm_cogvideox

START, LENGTHS = 0.7, (1, 2, 4, 20, 30, 50)


def cogvideox(**fields):
    return dict(prediction_type="v_prediction", rescale_betas_zero_snr=True,
                timestep_spacing="trailing", **fields)


def euler(*shifts):
    return [(FlowMatchEulerDiscreteScheduler, dict(shift=s)) for s in shifts]


def unipc(*shifts):
    return [(UniPCMultistepScheduler, dict(prediction_type="flow_prediction",
                                           use_flow_sigmas=True, flow_shift=s)) for s in shifts]


def by_tokens(base, most, least, longest, **fields):
    return (FlowMatchEulerDiscreteScheduler,
            dict(use_dynamic_shifting=True, base_shift=base, max_shift=most,
                 base_image_seq_len=least, max_image_seq_len=longest, **fields))


COGVIDEOX = [(c, cogvideox(snr_shift_scale=s)) for c in (CogVideoXDDIMScheduler,
                                                        CogVideoXDPMScheduler) for s in (1.0, 3.0)]
COGVIDEOX_PLAIN = [(CogVideoXDPMScheduler,
                    dict(cogvideox(snr_shift_scale=3.0), timestep_spacing="linspace",
                         set_alpha_to_one=False))]
LTX = [by_tokens(0.95, 2.05, 1024, 4096, shift_terminal=0.1), *euler(1.0)]
FLUX = [by_tokens(0.5, 1.15, 256, 4096, shift=3.0), *euler(1.0)]
QWEN = [by_tokens(0.5, 0.9, 256, 8192, shift_terminal=0.02)]

# class: module of the tiny transformer and its variant, schedulers, (f, h, w) of latents
PIPELINES = {
    CogVideoXPipeline: ("cogvideox", "5b", COGVIDEOX + COGVIDEOX_PLAIN, [(3, 8, 12)]),
    CogVideoXImageToVideoPipeline: ("cogvideox", "5b-i2v", COGVIDEOX[3:], [(3, 8, 12)]),
    CogVideoXFunControlPipeline: ("cogvideox", "control", COGVIDEOX[1:2], [(3, 8, 12)]),
    HunyuanVideoPipeline: ("hunyuan", "hunyuan", euler(7.0, 1.0) + unipc(7.0), [(3, 4, 6)]),
    HunyuanVideoImageToVideoPipeline: ("hunyuan", "hunyuan-concat", euler(7.0, 17.0), [(3, 4, 6)]),
    HunyuanSkyreelsImageToVideoPipeline: ("hunyuan", "skyreels-i2v", euler(7.0), [(3, 4, 6)]),
    LTXPipeline: ("ltx", "ltx", LTX + unipc(3.0), [(3, 4, 6), (7, 16, 24)]),
    LTXImageToVideoPipeline: ("ltx", "ltx", LTX, [(3, 4, 6)]),
    LTXConditionPipeline: ("ltx", "ltx", euler(1.0, 3.0) +
                           [(FlowMatchEulerDiscreteScheduler, dict(shift_terminal=0.1))],
                           [(3, 4, 6)]),
    WanPipeline: ("wan", "wan", unipc(3.0, 5.0, 8.0) + euler(1.0, 3.0, 5.0, 8.0) +
                  [(FlowMatchEulerDiscreteScheduler, dict(shift=3.0, shift_terminal=0.1))],
                  [(3, 4, 6)]),
    WanImageToVideoPipeline: ("wan", "wan-a14b", unipc(3.0, 5.0) + euler(3.0, 5.0), [(3, 4, 6)]),
    QwenImagePipeline: ("qwen", None, QWEN + euler(1.0) + unipc(3.0), [(1, 4, 6), (1, 64, 96)]),
    FluxPipeline: ("flux", "flux-dev", FLUX + unipc(3.0), [(1, 4, 6), (1, 64, 96), (1, 128, 128)]),
    Flux2KleinPipeline: ("flux2", "flux2-klein", FLUX,
                         [(1, 4, 6), (1, 64, 64), (1, 50, 86), (1, 17, 253)]),   # 4300, 4301
}
CLASSES = {"cogvideox": CogVideoXTransformer3DModel, "hunyuan": HunyuanVideoTransformer3DModel,
           "ltx": LTXVideoTransformer3DModel, "wan": WanTransformer3DModel,
           "qwen": QwenImageTransformer2DModel, "flux": FluxTransformer2DModel,
           "flux2": Flux2Transformer2DModel}
PATCH = {"ltx": 1, "flux2": 1}                       # rows and columns of a token, if not 2


def transformer_of(module, variant):
    part = golden.part(module)
    config = dict(part.TINY, **(part.VARIANTS[variant][0] if variant else {}))
    return golden.tiny(CLASSES[module], config)[0].float()


def stand_in(transformer, module, seen):
    """Replaces the transformer's forward by the stand-in, which adds to `seen` what it gets."""
    unit = 1000 if module in ("qwen", "flux", "flux2") else 1
    axis = 2 if module == "cogvideox" else 1

    def forward(hidden_states, timestep, **_):
        channels = getattr(transformer.config, "out_channels", None)
        x = hidden_states
        if module in ("cogvideox", "hunyuan", "wan"):
            x = x.narrow(axis, 0, channels)          # the rest is of conditions
        t = timestep.flatten()[-1].double() * unit
        seen.append((float(t), float(x.flatten()[-1])))
        return ((x.double() / 2 - t / 1000 + 0.3).float(),)

    transformer.forward = forward


def parts(cls, module, transformer, scheduler):
    names = ["text_encoder", "tokenizer", "vae", "image_encoder", "image_processor"]
    names += ["text_encoder_2", "tokenizer_2"] if module in ("flux", "hunyuan") else []
    accepted = set(cls.__init__.__code__.co_varnames)
    return cls(**{n: None for n in names if n in accepted}, transformer=transformer,
               scheduler=scheduler)


class Vae:
    """What pipelines read of an autoencoder."""
    dtype = torch.float32

    def __init__(self, channels):
        self.config = type("Config", (), dict(z_dim=channels, batch_norm_eps=0.5))
        self.bn = type("Statistics", (), dict(running_mean=torch.zeros(channels),
                                              running_var=torch.full((channels,), 0.5)))


def no_pictures(pipe, module, size, latents):
    """Puts zeros in place of pictures and of what is encoded of them."""
    f, h, w = size
    pipe.video_processor.preprocess = lambda *a, **k: torch.zeros(1, 3, h * 8, w * 8)
    beside = torch.zeros_like(latents)
    if module == "ltx":                              # the mask of a clean first frame
        beside = (torch.arange(f * h * w) < h * w).float()[None]
    elif module == "wan":
        beside = torch.cat([beside, beside], 1)      # the mask too
    pipe.prepare_latents = lambda *a, **k: (latents, beside)


def arguments(cls, module, transformer, size, latents):
    f, h, w = size
    c = transformer.config
    text = torch.zeros(1, 7, {"cogvideox": lambda: c.text_embed_dim,
                              "hunyuan": lambda: c.text_embed_dim, "ltx": lambda:
                              c.caption_channels, "wan": lambda: c.text_dim,
                              "qwen": lambda: c.joint_attention_dim,
                              "flux": lambda: c.joint_attention_dim,
                              "flux2": lambda: c.joint_attention_dim}[module]())
    a = dict(prompt_embeds=text, output_type="latent", return_dict=False)
    side = {"ltx": 32, "flux2": 16}.get(module, 8)
    if cls is not CogVideoXFunControlPipeline and f > 1:
        a["num_frames"] = (f - 1) * (8 if module == "ltx" else 4) + 1
    a.update(height=h * side, width=w * side, latents=latents)
    if module in ("hunyuan", "flux"):
        a["pooled_prompt_embeds"] = torch.zeros(1, c.pooled_projection_dim)
    if module in ("hunyuan", "ltx"):
        a["prompt_attention_mask"] = torch.ones(1, 7)
    if module == "qwen":
        a.update(prompt_embeds_mask=torch.ones(1, 7).long(), true_cfg_scale=1.0)
    else:
        a["guidance_scale"] = 1.0
    return a


def call(cls, module, variant, scheduler, size, steps):
    seen = []
    f, h, w = size
    transformer = transformer_of(module, variant)
    stand_in(transformer, module, seen)
    pipe = parts(cls, module, transformer, scheduler)
    pipe.set_progress_bar_config(disable=True)
    config = transformer.config
    channels = 4 if module in ("qwen", "flux") else config.out_channels or config.in_channels
    pipe.vae = Vae(channels)
    latents = torch.full((1, f, channels, h, w) if module == "cogvideox" else
                         (1, channels, f, h, w), START)
    if module in ("qwen", "flux"):
        latents = torch.full((1, h // 2 * w // 2, 4 * channels), START)
    if module == "flux2":
        latents = torch.full((1, channels, h, w), START)
    a = arguments(cls, module, transformer, size, latents)
    if "ImageToVideo" in cls.__name__:
        a["image"] = torch.zeros(1, 3, h * 8, w * 8)
        no_pictures(pipe, module, size, pipe._pack_latents(latents, 1, 1) if module == "ltx"
                    else latents)
    if cls is CogVideoXFunControlPipeline:
        a["control_video_latents"] = torch.zeros(1, f, channels, h, w)
        pipe.prepare_control_latents = lambda *_: (None, torch.zeros(1, channels, f, h, w))
    if module == "ltx" and cls is not LTXImageToVideoPipeline:
        a["latents"] = pipe._pack_latents(latents, 1, 1)
    y = pipe(num_inference_steps=steps, **a)[0]
    assert len(seen) == steps
    return [t for t, _ in seen], [x for _, x in seen] + [float(y.flatten()[-1])]


def tokens(module, size):
    f, h, w = size
    patch = PATCH.get(module, 2)
    return f * (h // patch) * (w // patch)


def make(out):
    scheduling_dpm_cogvideox.randn_tensor = lambda shape, **_: torch.zeros(shape)
    file, rows = {}, []
    for cls, (module, variant, schedulers, sizes) in PIPELINES.items():
        for kind, fields in schedulers:
            for size in sizes if fields.get("use_dynamic_shifting") else sizes[:1]:
                for steps in LENGTHS:
                    if fields.get("shift_terminal") and steps == 1:
                        continue                     # one level cannot be stretched
                    name = str(len(rows))
                    t, x = call(cls, module, variant, kind(**fields), size, steps)
                    file[name + ".t"], file[name + ".x"] = torch.tensor(t), torch.tensor(x)
                    rows.append(dict(name=name, **{"class": cls.__name__}, steps=steps,
                                     tokens=tokens(module, size),
                                     scheduler=dict(_class_name=kind.__name__, **fields)))
    golden.save(out / "schedules.safetensors", file, pipelines=rows)
