"""Cosmos-Predict2's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in grid: x [B,C,f,h,w], t [B], text with the lengths of its rows, which
zeros follow up to 512 tokens, noise's target, output, loss. The case `base` has `grad/<parameter>`
too; the case `lora` is of a LoRA on the same weights, frozen, and its gradients are
`lora/grad/<factor>`. Heads of "cosmos2" have 5 angles of rows, 5 of columns and 6 of frames, those
of "cosmos2-40" 6, 6 and 8. "cosmos2-world" has a channel that marks clean first frames, which the
first row of a case has unless it is "none", and token_t [B,N] there. The file "cosmos2-names" is a
LoRA in the first authors' names, `theirs/<module>.lora_A.weight`, and `ours/<tensor>` that
diffusers' reader of Anima's makes of it, whose transformer has these modules. The file
"cosmos2-first" has the case `base` of weights in a file of the first authors, which diffusers'
converter reads.
"""
import golden
import torch
from diffusers import CosmosTransformer3DModel
from diffusers.loaders.lora_conversion_utils import _convert_non_diffusers_anima_lora_to_diffusers
from diffusers.loaders.single_file_utils import convert_cosmos_transformer_checkpoint_to_diffusers

TINY = dict(in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=32,
            num_layers=2, mlp_ratio=2.0, text_embed_dim=32, adaln_lora_dim=8,
            max_size=(16, 24, 24), patch_size=(1, 2, 2), rope_scale=(1.0, 4.0, 4.0),
            concat_padding_mask=True, extra_pos_embed_type=None)
VARIANTS = {
    "cosmos2": ({}, {"base": (2, 1, 6, 10), "odd": (1, 1, 14, 2), "clip": (1, 3, 4, 6)}),
    "cosmos2-world": (dict(in_channels=5, num_layers=1, rope_scale=(1.0, 3.0, 3.0)),
                      {"base": (2, 3, 4, 6), "none": (1, 2, 4, 4), "still": (1, 1, 4, 4)}),
    "cosmos2-40": (dict(num_attention_heads=1, attention_head_dim=40, num_layers=1,
                        rope_scale=(1.5, 2.0, 3.0)), {"base": (1, 2, 4, 6)}),
}
TIMES, LENGTHS, TEXT, TEXT_ROWS = [987.0, 437.0], [37, 64], 64, 512
KNOWN = 1e-4 / (1 + 1e-4)                       # the level that a clean frame is said to have
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "net.0.proj", "net.2", "linear_1",
                            "linear_2", "patch_embed.proj", "proj_out"])


def inputs(config, case, b, f, h, w):
    v = golden.noisy(case, (b, config["out_channels"], f, h, w), TIMES[:b], TEXT,
                     config["text_embed_dim"], LENGTHS[:b])
    if config["in_channels"] > config["out_channels"] and case != "none":
        v["token_t"] = v["t"][:, None].repeat(1, f * h * w // 4)
        v["token_t"][0, :h * w // 4] = 0        # a clean first frame in the first row alone
    return v


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    b, h, w = len(v["x"]), *v["x"].shape[-2:]
    text = torch.zeros(b, TEXT_ROWS, config["text_embed_dim"])
    text[:, :TEXT] = v["text"]
    level, more = v["t"] / 1000, {}
    if config["in_channels"] > config["out_channels"]:
        known = torch.zeros(b, 1, v["x"].shape[2], 1, 1)
        if "token_t" in v:
            known[0, :, 0] = 1
            level = known * KNOWN + (1 - known) * level.view(-1, 1, 1, 1, 1)
        more = dict(condition_mask=known.expand(-1, -1, -1, h, w).to(dtype))
    return model(hidden_states=v["x"].to(dtype), timestep=level.to(dtype),
                 encoder_hidden_states=text.to(dtype), **more,
                 padding_mask=torch.zeros(1, 1, 8 * h, 8 * w, dtype=dtype), return_dict=False)[0]


BLOCK = [f"{kind}_attn.{m}_proj" for kind in ("self", "cross") for m in "qkv"]
BLOCK += ["self_attn.output_proj", "cross_attn.output_proj", "mlp.layer1", "mlp.layer2"]
BLOCK += [f"adaln_modulation_{part}.{i}" for part in ("self_attn", "cross_attn", "mlp")
          for i in (1, 2)]
OTHERS = ["x_embedder.proj.1", "t_embedder.1.linear_1", "t_embedder.1.linear_2",
          "final_layer.adaln_modulation.1", "final_layer.adaln_modulation.2", "final_layer.linear"]


def names(out):
    rows = {**{f"blocks.{i}.{m}": 1 for i in range(2) for m in BLOCK}, **{m: 1 for m in OTHERS}}
    golden.lora_names(out / "cosmos2-names.safetensors", rows, golden.in_comfyui,
                      _convert_non_diffusers_anima_lora_to_diffusers)


# Heads are 128 wide in the files of the first authors, whose sizes the tensors show.
FIRST = dict(TINY, num_attention_heads=1, attention_head_dim=128, mlp_ratio=4.0,
             max_size=(128, 240, 240))


def first(out):
    """A file with the prefix and with a tensor that no model of diffusers has."""
    d, text, rank = 128, FIRST["text_embed_dim"], FIRST["adaln_lora_dim"]
    c = FIRST["in_channels"]
    shapes = {"x_embedder.proj.1": (d, 4 * c + 4), "t_embedder.1.linear_1": (d, d),
              "t_embedder.1.linear_2": (3 * d, d), "t_embedding_norm": (d,),
              "final_layer.adaln_modulation.1": (rank, d),
              "final_layer.adaln_modulation.2": (2 * d, rank), "final_layer.linear": (4 * c, d),
              "pos_embedder.dim_spatial_range": (21,)}
    for i in range(FIRST["num_layers"]):
        at = f"blocks.{i}."
        for kind, wide in (("self", d), ("cross", text)):
            shapes.update({f"{at}{kind}_attn.{m}_proj": (d, d if m in ("q", "output") else wide)
                           for m in ("q", "k", "v", "output")})
            shapes.update({f"{at}{kind}_attn.{m}_norm": (128,) for m in "qk"})
        for part in ("self_attn", "cross_attn", "mlp"):
            shapes.update({f"{at}adaln_modulation_{part}.1": (rank, d),
                           f"{at}adaln_modulation_{part}.2": (3 * d, rank)})
        shapes.update({at + "mlp.layer1": (4 * d, d), at + "mlp.layer2": (d, 4 * d)})
    golden.first_file(out / "cosmos2-first.safetensors", CosmosTransformer3DModel, FIRST,
                      convert_cosmos_transformer_checkpoint_to_diffusers,
                      {f"net.{n}" + ".weight" * ("range" not in n): s for n, s in shapes.items()},
                      inputs(FIRST, "base", 2, 1, 4, 6), predict)


def make(out):
    names(out)
    first(out)
    for name, (fields, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", CosmosTransformer3DModel,
                           {**TINY, **fields}, cases, inputs, predict,
                           LORA if name == "cosmos2" else None)
