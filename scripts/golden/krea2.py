"""Krea 2's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in the picture's size: x [B,C,1,h,w], t [B], text with the lengths of its
rows, a token of which has the states of all taps behind each other, noise's target, output, loss.
The case `base` has `grad/<parameter>` too; the case `lora` is of a LoRA on the same weights,
frozen, and its gradients are `lora/grad/<factor>`. In bf16 the norms' weights stay f32, as the
class keeps them.

The file "krea2-first" has the case `base` of weights in a file of Krea 2's authors, which
diffusers' converter reads. The file "krea2-names" holds a LoRA in the first authors' names,
`theirs/<tensor>`, and the tensors that diffusers' reader of other trainers' files returns for it,
`ours/<tensor>`.
"""
import golden
import torch
from diffusers import Krea2Transformer2DModel
from diffusers.loaders import lora_conversion_utils, single_file_utils

TINY = dict(in_channels=16, num_layers=2, attention_head_dim=16, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=40, timestep_embed_dim=16, text_hidden_dim=16,
            num_text_layers=12, text_num_attention_heads=2, text_num_key_value_heads=1,
            text_intermediate_size=24, num_layerwise_text_blocks=2, num_refiner_text_blocks=1,
            axes_dims_rope=(4, 6, 6), rope_theta=1000.0, norm_eps=1e-5)
CASES = {"base": (2, 4, 6), "odd": (1, 10, 6), "wide": (2, 2, 8), "equal": (2, 6, 6)}
TIMES, LENGTHS, EQUAL, ONE = [984.375, 437.5], [5, 9], [7, 7], [9]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "to_gate", "ff.gate", "ff.up",
                            "ff.down", "img_in", "final_layer.linear", "txt_in.linear_1",
                            "txt_in.linear_2", "time_embed.linear_1", "time_embed.linear_2",
                            "time_mod_proj", "text_fusion.projector"])
NORMS = ("norm.weight", "norm1.weight", "norm2.weight", "norm_q.weight", "norm_k.weight")


def inputs(config, case, b, h, w):
    c, wide = config["in_channels"] // 4, config["num_text_layers"] * config["text_hidden_dim"]
    length = ONE if b == 1 else EQUAL if case == "equal" else LENGTHS
    return golden.noisy(case, (b, c, 1, h, w), TIMES[:b], max(length), wide, length)


def places(tokens, rows, columns):
    """The positions of the prompt's tokens, which are zeros, and of the picture's."""
    at = torch.zeros(tokens + rows * columns, 3)
    at[tokens:, 1] = torch.arange(rows).repeat_interleave(columns)
    at[tokens:, 2] = torch.arange(columns).repeat(rows)
    return at


def predict(model, config, v):
    dtype = model.img_in.weight.dtype
    for name, p in model.named_parameters():
        if name.endswith(NORMS):
            p.data = p.data.float()
    b, n, _ = v["text"].shape
    _, _, _, h, w = v["x"].shape
    text = v["text"].reshape(b, n, config["num_text_layers"], config["text_hidden_dim"])
    mask = torch.arange(n)[None] < v["length"][:, None]
    y = model(hidden_states=golden.packed(v["x"]).to(dtype), encoder_hidden_states=text.to(dtype),
              timestep=v["t"] / 1000, position_ids=places(n, h // 2, w // 2),
              encoder_attention_mask=mask, return_dict=False)[0]
    return golden.unpacked(y, v["x"])


NAMES = [*(f"blocks.{i}.attn.{n}" for i in (0, 11) for n in ("wq", "wk", "wv", "wo", "gate")),
         *(f"blocks.3.mlp.{n}" for n in ("gate", "up", "down")),
         *(f"txtfusion.{kind}.1.{n}" for kind in ("layerwise_blocks", "refiner_blocks")
           for n in ("attn.wq", "attn.gate", "attn.wo", "mlp.gate", "mlp.down")),
         "first", "last.linear", "tmlp.0", "tmlp.2", "tproj.1", "txtmlp.1", "txtmlp.3",
         "txtfusion.projector"]


def names(out):
    golden.lora_names(out / "krea2-names.safetensors", dict.fromkeys(NAMES, 2), golden.in_comfyui,
                      lora_conversion_utils._convert_non_diffusers_krea2_lora_to_diffusers)


# Heads are 128 wide in the files of the first authors, whose sizes the tensors show.
FIRST = dict(TINY, attention_head_dim=128, num_attention_heads=2, num_key_value_heads=1,
             text_hidden_dim=128, text_num_attention_heads=1, text_num_key_value_heads=1,
             axes_dims_rope=(32, 48, 48), timestep_embed_dim=256)


def block_shapes(begin, d, kv, head, hidden):
    return {begin + "prenorm.scale": (d,), begin + "postnorm.scale": (d,),
            begin + "attn.wq.weight": (d, d), begin + "attn.wk.weight": (kv * head, d),
            begin + "attn.wv.weight": (kv * head, d), begin + "attn.wo.weight": (d, d),
            begin + "attn.gate.weight": (d, d), begin + "attn.qknorm.qnorm.scale": (head,),
            begin + "attn.qknorm.knorm.scale": (head,), begin + "mlp.gate.weight": (hidden, d),
            begin + "mlp.up.weight": (hidden, d), begin + "mlp.down.weight": (d, hidden)}


def first_shapes():
    d, text, time = 256, FIRST["text_hidden_dim"], FIRST["timestep_embed_dim"]
    shapes = {"first.weight": (d, 16), "first.bias": (d,), "last.linear.weight": (16, d),
              "last.linear.bias": (16,), "last.norm.scale": (d,), "last.modulation.lin": (2, d),
              "tmlp.0.weight": (d, time), "tmlp.0.bias": (d,), "tmlp.2.weight": (d, d),
              "tmlp.2.bias": (d,), "tproj.1.weight": (6 * d, d), "tproj.1.bias": (6 * d,),
              "txtmlp.0.scale": (text,), "txtmlp.1.weight": (d, text), "txtmlp.1.bias": (d,),
              "txtmlp.3.weight": (d, d), "txtmlp.3.bias": (d,),
              "txtfusion.projector.weight": (1, FIRST["num_text_layers"])}
    for i in range(FIRST["num_layers"]):
        shapes.update(block_shapes(f"blocks.{i}.", d, 1, 128, FIRST["intermediate_size"]))
        shapes[f"blocks.{i}.mod.lin"] = (6 * d,)
    for kind, n in (("layerwise_blocks", 2), ("refiner_blocks", 1)):
        for i in range(n):
            shapes.update(block_shapes(f"txtfusion.{kind}.{i}.", text, 1, 128,
                                       FIRST["text_intermediate_size"]))
    return shapes


def first(out):
    golden.first_file(out / "krea2-first.safetensors", Krea2Transformer2DModel, FIRST,
                      single_file_utils.convert_krea2_transformer_checkpoint_to_diffusers,
                      first_shapes(), inputs(FIRST, "base", 2, 4, 6), predict)


def make(out):
    names(out)
    first(out)
    golden.transformer(out / "krea2.safetensors", Krea2Transformer2DModel, TINY, CASES, inputs,
                       predict, LORA, less=NORMS)
