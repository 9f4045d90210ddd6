"""FLUX.2's transformer, and a LoRA on it: outputs, losses and gradients.

`flux2-dev` takes guidance as an input, `flux2-klein` does not. Their cases `NAME/...` have pictures
of different sizes, odd ones among them; a case holds x [B,C,1,h,w], t, text, guidance [B] (dev),
target, output, loss. The gradients of the case `base` are `grad/<parameter>`. The case `lora` of
klein has a LoRA on the same weights, which are frozen; its gradients are `lora/grad/<factor>`.
`flux2-edit` is klein with up to three pictures `cond.reference_K` [B,C,1,H,W] of sizes of their
own.

The file "flux2-first" has the case `base` of weights in a file of FLUX.2's authors, which
diffusers' converter reads; "flux2-names" holds a LoRA in the names of FLUX.2's authors,
`theirs/<tensor>`, and the tensors that diffusers' reader returns for it, `ours/<tensor>`.
"""
import golden
import torch
from diffusers import Flux2KleinPipeline, Flux2Transformer2DModel
from diffusers.loaders import lora_conversion_utils, single_file_utils

TINY = dict(patch_size=1, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=48, timestep_guidance_channels=256,
            mlp_ratio=3.0, axes_dims_rope=(2, 4, 4, 6), rope_theta=2000, eps=1e-6)
# name: config, {case: (B, h, w, and h, w of each reference)}
VARIANTS = {
    "flux2-klein": (dict(guidance_embeds=False),
                    {"base": (2, 3, 5), "tall": (1, 7, 1), "one": (1, 1, 1)}),
    "flux2-dev": (dict(guidance_embeds=True), {"base": (2, 3, 5), "wide": (1, 2, 9)}),
    "flux2-edit": (dict(guidance_embeds=False),
                   {"base": (2, 3, 5, 4, 2, 1, 3), "three": (1, 2, 2, 3, 1, 1, 4, 5, 3),
                    "without": (1, 2, 3)}),
}
# diffusers rounds level and guidance to the type of the activations, and their products with 1000
# too. Those of batches of two are exact in bf16, so that it can be compared.
TIMES, GUIDANCE, OTHER_TIME, OTHER_GUIDANCE, TOKENS = [1000.0, 250.0], [1.0, 0.5], 437.5, 4.0, 6
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.linear_in", "ff.linear_out",
                            "ff_context.linear_in", "ff_context.linear_out", "to_qkv_mlp_proj",
                            "single_transformer_blocks.0.attn.to_out",
                            "single_transformer_blocks.1.attn.to_out", "x_embedder",
                            "context_embedder", "double_stream_modulation_img.linear",
                            "single_stream_modulation.linear"])


def inputs(config, case, b, h, w, *references):
    c = config["in_channels"]
    v = {"x": golden.draw("x " + case, (b, c, 1, h, w)),
         "target": golden.draw("target " + case, (b, c, 1, h, w)),
         "t": torch.tensor(TIMES if b == 2 else [OTHER_TIME]),
         "text": golden.draw("text " + case, (b, TOKENS, config["joint_attention_dim"]))}
    if config["guidance_embeds"]:
        v["guidance"] = torch.tensor(GUIDANCE if b == 2 else [OTHER_GUIDANCE])
    for k in range(len(references) // 2):
        v[f"cond.reference_{k + 1}"] = golden.draw(f"reference {k} {case}",
                                                   (b, c, 1, *references[2 * k:2 * k + 2]))
    return v


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    x, text = v["x"][:, :, 0], v["text"].to(dtype)
    ids, packed = Flux2KleinPipeline._prepare_latent_ids(x), Flux2KleinPipeline._pack_latents(x)
    all_ids, n = ids, packed.shape[1]
    references = [v[k][:, :, 0] for k in sorted(v) if k.startswith("cond.reference")]
    if references:
        places = Flux2KleinPipeline._prepare_image_ids([r[:1] for r in references])
        all_ids = torch.cat([ids, places.repeat(len(x), 1, 1)], 1)
        packed = torch.cat([packed] + [Flux2KleinPipeline._pack_latents(r) for r in references], 1)
    y = model(hidden_states=packed.to(dtype), timestep=v["t"] / 1000,
              guidance=v.get("guidance"), encoder_hidden_states=text, img_ids=all_ids,
              txt_ids=Flux2KleinPipeline._prepare_text_ids(text), return_dict=False)[0]
    return Flux2KleinPipeline._unpack_latents_with_ids(y[:, :n], ids)[:, :, None]


# The number of rows of B, divided by the width.
NAMES = {"double_blocks.0.img_attn.qkv": 3, "double_blocks.1.txt_attn.qkv": 3,
         "double_blocks.0.img_attn.proj": 1, "double_blocks.0.txt_attn.proj": 1,
         "double_blocks.0.img_mlp.0": 6, "double_blocks.0.img_mlp.2": 1,
         "double_blocks.0.txt_mlp.0": 6, "double_blocks.0.txt_mlp.2": 1,
         "single_blocks.3.linear1": 9, "single_blocks.3.linear2": 1,
         "double_stream_modulation_img.lin": 6, "double_stream_modulation_txt.lin": 6,
         "single_stream_modulation.lin": 3, "time_in.in_layer": 1, "time_in.out_layer": 1,
         "guidance_in.in_layer": 1, "guidance_in.out_layer": 1, "img_in": 1, "txt_in": 1,
         "final_layer.linear": 1}


def names(out):
    golden.lora_names(out / "flux2-names.safetensors", NAMES, golden.in_comfyui,
                      lora_conversion_utils._convert_non_diffusers_flux2_lora_to_diffusers)


FIRST = dict(TINY, num_layers=1, num_single_layers=2, attention_head_dim=32, num_attention_heads=1,
             guidance_embeds=True, axes_dims_rope=(8, 8, 8, 8))


def first_shapes(d):
    """The shapes of a first authors' file of width d."""
    shapes = {"img_in": (d, 16), "txt_in": (d, 48), "final_layer.adaLN_modulation.1": (2 * d, d),
              "final_layer.linear": (16, d), "double_stream_modulation_img.lin": (6 * d, d),
              "double_stream_modulation_txt.lin": (6 * d, d),
              "single_stream_modulation.lin": (3 * d, d)}
    for part in ("time_in", "guidance_in"):
        shapes.update({part + ".in_layer": (d, 256), part + ".out_layer": (d, d)})
    for s in ("img", "txt"):
        for name, rows, columns in (("attn.qkv", 3, 1), ("attn.proj", 1, 1), ("mlp.0", 6, 1),
                                    ("mlp.2", 1, 3)):
            shapes[f"double_blocks.0.{s}_{name}"] = (rows * d, columns * d)
    for i in range(2):
        shapes.update({f"single_blocks.{i}.linear1": (9 * d, d),
                       f"single_blocks.{i}.linear2": (d, 4 * d)})
    whole = {f"{n}.weight": s for n, s in shapes.items()}
    for norm in ("double_blocks.0.img_attn.norm", "double_blocks.0.txt_attn.norm",
                 "single_blocks.0.norm", "single_blocks.1.norm"):
        whole.update({f"{norm}.{half}_norm.scale": (d,) for half in ("query", "key")})
    return whole


def first(out):
    golden.first_file(out / "flux2-first.safetensors", Flux2Transformer2DModel, FIRST,
                      single_file_utils.convert_flux2_transformer_checkpoint_to_diffusers,
                      first_shapes(32), inputs(FIRST, "base", 2, 3, 5), predict)


def make(out):
    names(out)
    first(out)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", Flux2Transformer2DModel,
                           {**TINY, **config}, cases, inputs, predict,
                           LORA if name != "flux2-dev" else None)
