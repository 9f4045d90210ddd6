"""Ideogram 4's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in the picture's size: x [B,C,1,h,w], t [B], text with the lengths of its
rows, noise's target, output, loss. A place of the latents is a token, whose channels are squares:
here the channel of a place is first, as FLUX.2's pipelines have them, and in the class the place in
its square. The class has 1 - t / 1000 as
its time, and predicts the picture minus the noise: the output here is the opposite, as the pipeline
takes it. The case `base` has `grad/<parameter>` too; the case `lora` is of a LoRA on the same
weights, frozen, and its gradients are `lora/grad/<factor>`. The case `none` has no text: its rows
have one row of zeros each, which the class does not get, as the pipeline's unconditional
transformer.

The file "ideogram4-first" has the case `base` of weights in a file of Ideogram 4's authors, as
`first_shapes` names them, which ComfyUI reads. The file "ideogram4-names" holds a LoRA in the first
authors' names, `theirs/<tensor>`, and the tensors that diffusers' reader of other trainers' files
returns for it, `ours/<tensor>`.
"""
import golden
import torch
from diffusers import Ideogram4Pipeline, Ideogram4Transformer2DModel
from diffusers.loaders import lora_conversion_utils
from diffusers.models.transformers.transformer_ideogram4 import Ideogram4MRoPE

TINY = dict(in_channels=16, num_layers=2, attention_head_dim=16, num_attention_heads=2,
            intermediate_size=40, adaln_dim=8, llm_features_dim=208, rope_theta=5000000,
            mrope_section=(3, 2, 2), norm_eps=1e-5)
CASES = {"base": (2, 2, 3), "odd": (1, 5, 3), "equal": (2, 3, 3), "none": (2, 2, 4)}
TIMES, LENGTHS, EQUAL, ONE, NONE = [984.375, 437.5], [5, 9], [7, 7], [9], [0, 0]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3",
                            "layers.0.adaln_modulation", "layers.1.adaln_modulation", "input_proj",
                            "llm_cond_proj", "final_layer.linear", "adaln_proj",
                            "t_embedding.mlp_in", "t_embedding.mlp_out"])


def inputs(config, case, b, h, w):
    c, wide = config["in_channels"], config["llm_features_dim"]
    length = {"equal": EQUAL, "none": NONE}.get(case, ONE if b == 1 else LENGTHS)
    return golden.noisy(case, (b, c, 1, h, w), TIMES[:b], max(1, *length), wide, length)


def squares(c, first):
    """The indices of c channels whose order is (channel, row, column), of the order (row, column,
    channel); or (first) the opposite."""
    rows, columns = (c // 4, 4) if first else (4, c // 4)
    return torch.arange(c).reshape(columns, rows).T.flatten()


def predict(model, config, v):
    """The pipeline's sequence: padding, text and picture. Angles stay f32, as in a model that
    from_pretrained loads in bf16."""
    dtype = model.input_proj.weight.dtype
    model.rotary_emb = Ideogram4MRoPE(config["attention_head_dim"], config["rope_theta"],
                                      config["mrope_section"])
    b, c, _, h, w = v["x"].shape
    length, z = v["length"].tolist(), v["x"].permute(0, 2, 3, 4, 1).reshape(b, h * w, c)
    z = z[..., squares(c, False)]
    rows = max(length)
    text = torch.zeros(b, rows + h * w, v["text"].shape[2])
    for i, n in enumerate(length):
        text[i, rows - n:rows] = v["text"][i, :n]
    places = Ideogram4Pipeline._prepare_ids(length, h, w, rows, "cpu")
    y = model(torch.cat([torch.zeros(b, rows, c), z], dim=1).to(dtype),
              ((1000 - v["t"]) / 1000).to(dtype), text.to(dtype), *places, return_dict=False)[0]
    y = y[:, rows:, squares(c, True)]
    return -y.reshape(b, 1, h, w, c).permute(0, 4, 1, 2, 3).float()


# The number of rows of B, divided by the width.
NAMES = {"layers.0.attention.qkv": 3, "layers.11.attention.o": 1, "layers.3.feed_forward.w1": 2,
         "layers.3.feed_forward.w2": 1, "layers.3.feed_forward.w3": 2,
         "layers.1.adaln_modulation": 4}


def names(out):
    golden.lora_names(out / "ideogram4-names.safetensors", NAMES, golden.in_comfyui,
                      lora_conversion_utils._convert_non_diffusers_ideogram4_lora_to_diffusers)


# The angles of the default sections need heads of 128.
FIRST = dict(TINY, attention_head_dim=128, num_attention_heads=1, mrope_section=(24, 20, 20))


def first_shapes():
    d, text, wide, hidden = 128, *(FIRST[k] for k in ("llm_features_dim", "adaln_dim",
                                                      "intermediate_size"))
    shapes = {"input_proj.weight": (d, 16), "input_proj.bias": (d,),
              "llm_cond_norm.weight": (text,), "llm_cond_proj.weight": (d, text),
              "llm_cond_proj.bias": (d,),
              "adaln_proj.weight": (wide, d), "adaln_proj.bias": (wide,),
              "embed_image_indicator.weight": (2, d), "final_layer.linear.weight": (16, d),
              "final_layer.linear.bias": (16,), "final_layer.adaln_modulation.weight": (d, wide),
              "final_layer.adaln_modulation.bias": (d,)}
    for name in ("mlp_in", "mlp_out"):
        shapes.update({f"t_embedding.{name}.weight": (d, d), f"t_embedding.{name}.bias": (d,)})
    for i in range(FIRST["num_layers"]):
        parts = {"attention.qkv": (3 * d, d), "attention.o": (d, d), "attention.norm_q": (d,),
                 "attention.norm_k": (d,), "feed_forward.w1": (hidden, d),
                 "feed_forward.w2": (d, hidden), "feed_forward.w3": (hidden, d),
                 "attention_norm1": (d,), "attention_norm2": (d,), "ffn_norm1": (d,),
                 "ffn_norm2": (d,), "adaln_modulation": (4 * d, wide)}
        shapes.update({f"layers.{i}.{name}.weight": shape for name, shape in parts.items()})
        shapes[f"layers.{i}.adaln_modulation.bias"] = (4 * d,)
    return shapes


def split(weights):
    """The names of diffusers' class, whose reader of LoRAs cuts the fused module alike."""
    ours = {}
    for name, w in weights.items():
        if ".qkv." in name:
            for part, rows in zip("qkv", w.chunk(3)):
                ours[name.replace(".qkv.", f".to_{part}.")] = rows
        else:
            ours[name.replace("attention.o.", "attention.to_out.0.")] = w
    return ours


def first(out):
    golden.first_file(out / "ideogram4-first.safetensors", Ideogram4Transformer2DModel, FIRST,
                      split, first_shapes(), inputs(FIRST, "base", 2, 2, 3), predict)


def make(out):
    names(out)
    first(out)
    golden.transformer(out / "ideogram4.safetensors", Ideogram4Transformer2DModel, TINY, CASES,
                       inputs, predict, LORA)
