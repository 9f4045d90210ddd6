"""Z-Image's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in the picture's size: x [B,C,1,h,w], t [B], text with the lengths of its
rows, noise's target, output, loss. The class has 1 - t / 1000 as its time, and predicts the picture
minus the noise: the output here is the opposite, as the pipeline takes it. The case `base` has
`grad/<parameter>` too; the case `lora` is of a LoRA on the same weights, frozen, and its gradients
are `lora/grad/<factor>`.

Pictures of 6 and of 15 tokens are filled up to 32, one of 32 is not; prompts of 5 and of 37 tokens
in a batch are filled up to 32 and to 64. The class takes lists, so no sample sees another one.

The file "zimage-first" has the case `base` of weights in a file of Z-Image's authors, which
diffusers' converter reads. The file "zimage-names" holds a LoRA in the first authors' names,
`theirs/<tensor>`, and the tensors that diffusers' reader of other trainers' files returns for it,
`ours/<tensor>`.
"""
import golden
import torch
from diffusers import ZImageTransformer2DModel
from diffusers.loaders import lora_conversion_utils, single_file_utils

TINY = dict(all_patch_size=(2,), all_f_patch_size=(1,), in_channels=4, dim=24, n_layers=2,
            n_refiner_layers=1, n_heads=3, n_kv_heads=3, norm_eps=1e-5, qk_norm=True,
            cap_feat_dim=32, siglip_feat_dim=None, rope_theta=256.0, t_scale=1000.0,
            axes_dims=(2, 2, 4), axes_lens=(1024, 16, 16))
CASES = {"base": (2, 4, 6), "odd": (1, 10, 6), "whole": (2, 8, 16), "equal": (2, 6, 6)}
TIMES, LENGTHS, EQUAL, ONE = [984.375, 437.5], [5, 37], [32, 32], [33]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3",
                            "layers.0.adaLN_modulation.0", "layers.1.adaLN_modulation.0",
                            "noise_refiner.0.adaLN_modulation.0", "cap_embedder.1",
                            "all_x_embedder.2-1", "all_final_layer.2-1.linear", "t_embedder.mlp.2"])


def inputs(config, case, b, h, w):
    c, wide = config["in_channels"], config["cap_feat_dim"]
    length = ONE if b == 1 else EQUAL if case == "equal" else LENGTHS
    return golden.noisy(case, (b, c, 1, h, w), TIMES[:b], max(length), wide, length)


def predict(model, config, v):
    dtype = model.cap_embedder[1].weight.dtype
    text = [t[:n].to(dtype) for t, n in zip(v["text"], v["length"])]
    y = model(list(v["x"].to(dtype)), (1000 - v["t"]) / 1000, text, return_dict=False)[0]
    return -torch.stack(y).float()


# The number of rows of B, divided by the width.
NAMES = {"layers.0.attention.qkv": 3, "layers.11.attention.out": 1,
         "noise_refiner.1.attention.qkv": 3, "noise_refiner.0.attention.out": 1,
         "context_refiner.0.attention.qkv": 3, "context_refiner.1.attention.out": 1,
         "layers.3.feed_forward.w1": 2, "layers.3.adaLN_modulation.0": 4}


def names(out):
    golden.lora_names(out / "zimage-names.safetensors", NAMES,
                      lambda name, half: f"{name}.lora.{'down' if half == 'A' else 'up'}.weight",
                      lora_conversion_utils._convert_non_diffusers_z_image_lora_to_diffusers)


FIRST = dict(TINY, dim=128, n_layers=2, n_heads=1, n_kv_heads=1, axes_dims=(32, 48, 48),
             axes_lens=(1024, 512, 512))


def first_shapes(d):
    """The shapes of a first authors' file of width d."""
    wide, hidden, text = min(d, 256), int(d / 3 * 8), FIRST["cap_feat_dim"]
    shapes = {"x_embedder.weight": (d, 16), "x_embedder.bias": (d,),
              "final_layer.linear.weight": (16, d), "final_layer.linear.bias": (16,),
              "final_layer.adaLN_modulation.1.weight": (d, wide),
              "final_layer.adaLN_modulation.1.bias": (d,), "norm_final.weight": (d,),
              "t_embedder.mlp.0.weight": (1024, 256), "t_embedder.mlp.0.bias": (1024,),
              "t_embedder.mlp.2.weight": (wide, 1024), "t_embedder.mlp.2.bias": (wide,),
              "cap_embedder.0.weight": (text,), "cap_embedder.1.weight": (d, text),
              "cap_embedder.1.bias": (d,), "x_pad_token": (1, d), "cap_pad_token": (1, d)}
    for block in ("layers.0", "layers.1", "noise_refiner.0", "context_refiner.0"):
        parts = {"attention.qkv": (3 * d, d), "attention.out": (d, d),
                 "attention.q_norm": (128,), "attention.k_norm": (128,),
                 "feed_forward.w1": (hidden, d), "feed_forward.w2": (d, hidden),
                 "feed_forward.w3": (hidden, d), "attention_norm1": (d,), "attention_norm2": (d,),
                 "ffn_norm1": (d,), "ffn_norm2": (d,)}
        if not block.startswith("context"):
            parts["adaLN_modulation.0"] = (4 * d, wide)
            shapes[block + ".adaLN_modulation.0.bias"] = (4 * d,)
        shapes.update({f"{block}.{name}.weight": shape for name, shape in parts.items()})
    return shapes


def first(out):
    golden.first_file(out / "zimage-first.safetensors", ZImageTransformer2DModel, FIRST,
                      single_file_utils.convert_z_image_transformer_checkpoint_to_diffusers,
                      first_shapes(128), inputs(FIRST, "base", 2, 4, 6), predict)


def make(out):
    names(out)
    first(out)
    golden.transformer(out / "zimage.safetensors", ZImageTransformer2DModel, TINY, CASES, inputs,
                       predict, LORA)
