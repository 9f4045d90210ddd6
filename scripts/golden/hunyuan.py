"""HunyuanVideo's transformer: outputs, losses and gradients, in its variants.

Each variant has a file. Its cases `NAME/...` have different grids; a case holds x [B,C,f,h,w], t
[B], text with the lengths of its rows, pooled, guidance [B] and cond.image [B,C,1,h,w] if these are
inputs, target, output, loss. The gradients of the case `base` are `grad/<parameter>`. The case
`lora` of "hunyuan" has a LoRA on the same weights, which are frozen; its gradients are
`lora/grad/<factor>`.

The file "hunyuan-names" holds a LoRA in the names of HunyuanVideo's authors, `theirs/<tensor>`, and
the tensors that diffusers' reader of such files returns, `ours/<tensor>`.
"""
import golden
import torch
from diffusers.loaders import lora_conversion_utils, single_file_utils
from diffusers import HunyuanVideoTransformer3DModel

TINY = dict(in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16,
            num_layers=1, num_single_layers=1, num_refiner_layers=1, patch_size=2, patch_size_t=1,
            guidance_embeds=False, text_embed_dim=32, pooled_projection_dim=32,
            rope_axes_dim=(4, 6, 6), rope_theta=256.0)

# name: config, {case: (B, f, h, w)}
VARIANTS = {
    "hunyuan": (dict(num_layers=2, num_refiner_layers=2, guidance_embeds=True),
                {"base": (2, 3, 4, 6), "off": (1, 2, 6, 4), "still": (1, 1, 4, 8)}),
    "hunyuan-replace": (dict(guidance_embeds=True, image_condition_type="token_replace"),
                        {"base": (2, 3, 4, 6), "still": (1, 1, 4, 4)}),
    "hunyuan-concat": (dict(in_channels=9, image_condition_type="latent_concat"),
                       {"base": (2, 3, 4, 6)}),
    "skyreels-i2v": (dict(in_channels=8, guidance_embeds=True),
                     {"base": (2, 3, 4, 6), "dropped": (1, 2, 4, 4)}),
}
TIMES, LENGTHS, TEXT = [987.0, 437.0], [5, 9], 9
# A guidance of 6 is embedded as a timestep of 6000. At this size the last bit of a frequency, which
# f32's exp may round either way, changes an angle and a gradient by 4e-4; therefore the cases with
# gradients have a small guidance.
GUIDANCE, HIGH = [1.0, 0.75], [6.0]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff_context.net.2", "proj_mlp",
                            "norm.linear", "x_embedder.proj"])


def inputs(config, case, b, f, h, w):
    c = config["out_channels"]
    v = {"x": golden.draw("x " + case, (b, c, f, h, w)),
         "target": golden.draw("target " + case, (b, c, f, h, w)),
         "t": torch.tensor(TIMES[:b]),
         "text": golden.draw("text " + case, (b, TEXT, config["text_embed_dim"])),
         "pooled": golden.draw("pooled " + case, (b, config["pooled_projection_dim"])),
         "length": torch.tensor(LENGTHS[:b], dtype=torch.int32)}
    for i in range(b):
        v["text"][i, LENGTHS[i]:] = 0
    if config["guidance_embeds"]:
        v["guidance"] = torch.tensor(HIGH if case == "off" else GUIDANCE[:b])
    if config["in_channels"] > c and case != "dropped":
        v["cond.image"] = golden.draw("image " + case, (b, c, 1, h, w))
    return v


def joined(config, v):
    """Joins the noisy latents, the image as a first frame, and a mask of this frame."""
    x, extra = v["x"], config["in_channels"] - v["x"].shape[1]
    if not extra:
        return x
    image = torch.zeros_like(x)
    if "cond.image" in v:
        image[:, :, :1] = v["cond.image"]
    mask = torch.zeros_like(x[:, :1])
    mask[:, :, 0] = 1
    return torch.cat([x, image] + ([mask] if extra > x.shape[1] else []), 1)


def predict(model, config, v):
    dtype = next(model.parameters()).dtype
    mask = (torch.arange(TEXT)[None] < v["length"][:, None]).to(dtype)
    guidance = v["guidance"] * 1000 if "guidance" in v else None
    return model(hidden_states=joined(config, v).to(dtype), timestep=v["t"], guidance=guidance,
                 encoder_hidden_states=v["text"].to(dtype), encoder_attention_mask=mask,
                 pooled_projections=v["pooled"].to(dtype), return_dict=False)[0]


# The number of rows of B, divided by the width. diffusers' reader cannot split A of the refiner's
# self_attn_qkv: this module is left out.
NAMES = {"double_blocks.0.img_attn_qkv": 3, "double_blocks.1.txt_attn_qkv": 3,
         "double_blocks.0.img_attn_proj": 1, "double_blocks.0.txt_attn_proj": 1,
         "double_blocks.0.img_mod.linear": 6, "double_blocks.0.txt_mod.linear": 6,
         "double_blocks.0.img_mlp.fc1": 4, "double_blocks.0.img_mlp.fc2": 1,
         "double_blocks.0.txt_mlp.fc1": 4, "double_blocks.0.txt_mlp.fc2": 1,
         "single_blocks.3.linear1": 7, "single_blocks.3.linear2": 1,
         "single_blocks.3.modulation.linear": 3,
         "txt_in.individual_token_refiner.blocks.0.self_attn_proj": 1,
         "txt_in.individual_token_refiner.blocks.0.mlp.fc1": 4,
         "txt_in.individual_token_refiner.blocks.0.mlp.fc2": 1,
         "txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1": 2,
         "txt_in.input_embedder": 1, "txt_in.t_embedder.mlp.0": 1, "txt_in.t_embedder.mlp.2": 1,
         "txt_in.c_embedder.linear_1": 1, "txt_in.c_embedder.linear_2": 1, "time_in.mlp.0": 1,
         "time_in.mlp.2": 1, "guidance_in.mlp.0": 1, "guidance_in.mlp.2": 1,
         "vector_in.in_layer": 1, "vector_in.out_layer": 1, "img_in.proj": 1,
         "final_layer.linear": 1}
WIDTH, RANK = 4, 2

# A file of Tencent's with heads as diffusers' converter has them, but narrow ones.
FIRST = dict(TINY, num_attention_heads=1, attention_head_dim=32, guidance_embeds=True,
             num_single_layers=2, rope_axes_dim=(4, 14, 14))


def first_shapes(d):
    """The shapes of Tencent's file of width d."""
    refiner = "txt_in.individual_token_refiner.blocks.0."
    shapes = {"img_in.proj": (d, 4, 1, 2, 2), "txt_in.input_embedder": (d, 32),
              "txt_in.t_embedder.mlp.0": (d, 256), "txt_in.c_embedder.linear_1": (d, 32),
              "vector_in.in_layer": (d, 32), "time_in.mlp.0": (d, 256),
              "guidance_in.mlp.0": (d, 256), "final_layer.linear": (16, d),
              "final_layer.adaLN_modulation.1": (2 * d, d), refiner + "self_attn_qkv": (3 * d, d),
              refiner + "self_attn_proj": (d, d), refiner + "mlp.fc1": (4 * d, d),
              refiner + "mlp.fc2": (d, 4 * d), refiner + "adaLN_modulation.1": (2 * d, d),
              refiner + "norm1": (d,), refiner + "norm2": (d,)}
    for name in ("txt_in.t_embedder.mlp.2", "txt_in.c_embedder.linear_2", "vector_in.out_layer",
                 "time_in.mlp.2", "guidance_in.mlp.2"):
        shapes[name] = (d, d)
    for s in ("img", "txt"):
        shapes.update({f"double_blocks.0.{s}_{name}": (rows * d, columns * d)
                       for name, rows, columns in
                       (("attn_qkv", 3, 1), ("attn_proj", 1, 1), ("mod.linear", 6, 1),
                        ("mlp.fc1", 4, 1), ("mlp.fc2", 1, 4))})
    for i in range(2):
        shapes.update({f"single_blocks.{i}.linear1": (7 * d, d),
                       f"single_blocks.{i}.linear2": (d, 5 * d),
                       f"single_blocks.{i}.modulation.linear": (3 * d, d)})
    whole = {f"{n}.weight": s for n, s in shapes.items()}
    whole.update({f"{n}.bias": s[:1] for n, s in shapes.items()})
    for norm in ("double_blocks.0.img_attn_", "double_blocks.0.txt_attn_", "single_blocks.0.",
                 "single_blocks.1."):
        whole.update({f"{norm}{half}_norm.weight": (d,) for half in "qk"})
    return whole


def first(out):
    """The model that diffusers makes of Tencent's file."""
    convert = golden.narrowed(single_file_utils, "convert_hunyuan_video_transformer_to_diffusers",
                              "hidden_size = 3072", "hidden_size = 32")
    golden.first_file(out / "hunyuan-first.safetensors", HunyuanVideoTransformer3DModel, FIRST,
                      convert, first_shapes(32), inputs(FIRST, "base", 2, 3, 4, 6), predict)


def names(out):
    convert = golden.narrowed(lora_conversion_utils, "_convert_hunyuan_video_lora_to_diffusers",
                              "hidden_size = 3072", f"hidden_size = {WIDTH}")
    theirs = {}
    for name, rows in NAMES.items():
        theirs[name + ".lora_A.weight"] = golden.draw("a " + name, (RANK, WIDTH))
        theirs[name + ".lora_B.weight"] = golden.draw("b " + name, (rows * WIDTH, RANK))
    ours = convert(dict(theirs))
    file = {"theirs/" + k: v for k, v in theirs.items()}
    file.update({"ours/" + k.removeprefix("transformer."): v.clone() for k, v in ours.items()})
    golden.save(out / "hunyuan-names.safetensors", file)


def make(out):
    first(out)
    names(out)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", HunyuanVideoTransformer3DModel,
                           {**TINY, **config}, cases, inputs, predict,
                           LORA if name == "hunyuan" else None)
