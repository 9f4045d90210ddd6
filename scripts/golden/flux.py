"""FLUX.1's transformer, and a LoRA on it: outputs, losses and gradients.

`flux-dev` takes guidance as an input, `flux-schnell` does not. Their cases `NAME/...` have pictures
of different sizes; a case holds x [B,C,1,h,w], t, text, pooled, guidance [B] (dev), target, output,
loss. The gradients of the case `base` are `grad/<parameter>`. The case `lora` of dev has a LoRA on
the same weights, which are frozen; its gradients are `lora/grad/<factor>`. `flux-kontext` is dev
with a reference, `cond.reference_1` [B,C,1,H,W] of another size, as FluxKontextPipeline gives it.
`flux-fill` is dev with the masked picture's latents, `cond.video` [B,C,1,h,w], and a mask: of
`pixels` [B,8h,8w], 1 where the picture is to be made, FluxFillPipeline makes the tokens, which are
also unpacked as `cond.mask` [B,64,1,h,w].

The file "flux-first" has the case `base` of weights in a file of FLUX.1's authors, which
diffusers' converter reads; "flux-names" holds a LoRA in the names of FLUX.1's authors,
`theirs/<tensor>`, and the tensors that diffusers' reader of files of kohya's sd-scripts returns
for it, `ours/<tensor>`.
"""
from types import SimpleNamespace

import golden
import torch
from diffusers.loaders import lora_conversion_utils, single_file_utils
from diffusers import FluxFillPipeline, FluxPipeline, FluxTransformer2DModel

TINY = dict(patch_size=1, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=32,
            axes_dims_rope=(4, 6, 6))
# name: config, {case: (B, h, w)}
VARIANTS = {
    "flux-dev": (dict(guidance_embeds=True),
                 {"base": (2, 4, 6), "tall": (1, 8, 2), "small": (1, 2, 2)}),
    "flux-schnell": (dict(guidance_embeds=False), {"base": (2, 4, 6), "wide": (1, 4, 10)}),
    # behind the picture's size the reference's
    "flux-kontext": (dict(guidance_embeds=True),
                     {"base": (2, 4, 6, 6, 8), "tall": (1, 8, 2, 2, 4), "without": (1, 2, 6)}),
    "flux-fill": (dict(guidance_embeds=True, in_channels=16 + 16 + 256, out_channels=16),
                  {"base": (2, 4, 6), "tall": (1, 8, 2), "small": (1, 2, 2)}),
}
SAME = SimpleNamespace(shift_factor=0, scaling_factor=1)
UNIT = SimpleNamespace(vae_scale_factor=8, _pack_latents=FluxPipeline._pack_latents,
                       vae=SimpleNamespace(config=SAME))
# diffusers rounds level and guidance to the type of the activations, and their products with 1000
# too. Those of batches of two are exact in bf16, so that it can be compared.
TIMES, GUIDANCE, OTHER_TIME, OTHER_GUIDANCE, TOKENS = [1000.0, 250.0], [1.0, 0.5], 437.5, 3.5, 5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "proj_mlp", "norm.linear", "x_embedder", "context_embedder"])


def inputs(config, case, b, h, w, *reference):
    fills = "out_channels" in config
    c = config["out_channels" if fills else "in_channels"] // 4
    v = golden.noisy(case, (b, c, 1, h, w), TIMES if b == 2 else [OTHER_TIME], TOKENS,
                     config["joint_attention_dim"])
    v["pooled"] = golden.draw("pooled " + case, (b, config["pooled_projection_dim"]))
    if config["guidance_embeds"]:
        v["guidance"] = torch.tensor(GUIDANCE if b == 2 else [OTHER_GUIDANCE])
    if fills:
        v["cond.video"] = golden.draw("video " + case, (b, c, 1, h, w))
        v["pixels"] = (golden.draw("pixels " + case, (b, 8 * h, 8 * w)) > 0).float()
        mask, _ = masked(v)
        v["cond.mask"] = FluxPipeline._unpack_latents(mask, 8 * h, 8 * w, 8)[:, :, None]
    if reference:
        v["cond.reference_1"] = golden.draw("reference " + case, (b, c, 1, *reference))
    return v


def tokens(x):
    b, c, _, h, w = x.shape
    return (FluxPipeline._pack_latents(x[:, :, 0], b, c, h, w),
            FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32))


def masked(v):
    """The tokens of mask and masked picture, whose latents are normalised already."""
    b, c, _, h, w = v["cond.video"].shape
    return FluxFillPipeline.prepare_mask_latents(
        UNIT, v["pixels"][:, None], v["cond.video"][:, :, 0], b, c, 1, 8 * h, 8 * w, torch.float32,
        "cpu", None)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    h, w = v["x"].shape[3:]
    packed, ids = tokens(v["x"])
    n = packed.shape[1]
    if "cond.reference_1" in v:
        more, places = tokens(v["cond.reference_1"])
        places[..., 0] = 1
        packed, ids = torch.cat([packed, more], 1), torch.cat([ids, places])
    if "out_channels" in config:                # Fill
        mask, picture = masked(v)
        packed = torch.cat([packed, picture, mask], 2)
    y = model(hidden_states=packed.to(dtype), timestep=v["t"] / 1000, guidance=v.get("guidance"),
              encoder_hidden_states=v["text"].to(dtype), pooled_projections=v["pooled"].to(dtype),
              img_ids=ids, txt_ids=torch.zeros(TOKENS, 3), return_dict=False)[0]
    return FluxPipeline._unpack_latents(y[:, :n], 8 * h, 8 * w, 8)[:, :, None]


# The number of rows of B, divided by the width. final_layer.linear and img_in have other widths.
NAMES = {"double_blocks.0.img_attn.qkv": 3, "double_blocks.1.txt_attn.qkv": 3,
         "double_blocks.0.img_attn.proj": 1, "double_blocks.0.txt_attn.proj": 1,
         "double_blocks.0.img_mod.lin": 6, "double_blocks.0.txt_mod.lin": 6,
         "double_blocks.0.img_mlp.0": 4, "double_blocks.0.img_mlp.2": 1,
         "double_blocks.0.txt_mlp.0": 4, "double_blocks.0.txt_mlp.2": 1,
         "single_blocks.3.linear1": 7, "single_blocks.3.linear2": 1,
         "single_blocks.3.modulation.lin": 3, "time_in.in_layer": 1, "time_in.out_layer": 1,
         "guidance_in.in_layer": 1, "guidance_in.out_layer": 1, "vector_in.in_layer": 1,
         "vector_in.out_layer": 1, "img_in": 1, "txt_in": 1, "final_layer.linear": 1}


def names(path, rows):
    convert = golden.narrowed(lora_conversion_utils, "_convert_kohya_flux_lora_to_diffusers",
                              "[3072, 3072, 3072, 12288]", "[4, 4, 4, 16]")
    golden.lora_names(path, rows, golden.in_kohya, convert)


# A file of the first authors with heads as diffusers' converter has them, but narrow ones.
FIRST = dict(TINY, num_layers=1, num_single_layers=2, attention_head_dim=32, num_attention_heads=1,
             guidance_embeds=True, axes_dims_rope=(4, 14, 14))


def first_shapes(d):
    """The shapes of a first authors' file of width d."""
    shapes = {"img_in": (d, 16), "txt_in": (d, 16), "vector_in.in_layer": (d, 32),
              "final_layer.adaLN_modulation.1": (2 * d, d), "final_layer.linear": (16, d)}
    for part in ("time_in", "guidance_in"):
        shapes[part + ".in_layer"] = (d, 256)
    for part in ("time_in", "guidance_in", "vector_in"):
        shapes[part + ".out_layer"] = (d, d)
    for s in ("img", "txt"):
        for name, rows, columns in (("attn.qkv", 3, 1), ("attn.proj", 1, 1), ("mod.lin", 6, 1),
                                    ("mlp.0", 4, 1), ("mlp.2", 1, 4)):
            shapes[f"double_blocks.0.{s}_{name}"] = (rows * d, columns * d)
    for i in range(2):
        shapes.update({f"single_blocks.{i}.linear1": (7 * d, d),
                       f"single_blocks.{i}.linear2": (d, 5 * d),
                       f"single_blocks.{i}.modulation.lin": (3 * d, d)})
    whole = {f"{n}.weight": s for n, s in shapes.items()}
    whole.update({f"{n}.bias": s[:1] for n, s in shapes.items()})
    for norm in ("double_blocks.0.img_attn.norm", "double_blocks.0.txt_attn.norm",
                 "single_blocks.0.norm", "single_blocks.1.norm"):
        whole.update({f"{norm}.{half}_norm.scale": (d,) for half in ("query", "key")})
    return whole


def first(out):
    convert = golden.narrowed(single_file_utils, "convert_flux_transformer_checkpoint_to_diffusers",
                              "inner_dim = 3072", "inner_dim = 32")
    golden.first_file(out / "flux-first.safetensors", FluxTransformer2DModel, FIRST, convert,
                      first_shapes(32), inputs(FIRST, "base", 2, 4, 6), predict)


def make(out):
    first(out)
    names(out / "flux-names.safetensors", NAMES)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", FluxTransformer2DModel, {**TINY, **config},
                           cases, inputs, predict, None if name == "flux-schnell" else LORA)
