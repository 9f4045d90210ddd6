"""Chroma's transformer, and a LoRA on it: outputs, losses and gradients.

Cases `NAME/...` have pictures of different sizes: x [B,C,1,h,w], t, text with the lengths of its
rows (a token of padding is among them), target, output, loss. In diffusers' forward a mask hides
other padding; it is boolean, as the authors' is, where ChromaPipeline makes numbers that attention
adds to its scores. The gradients of the case `base` are `grad/<parameter>`, those of the case
`lora`, on the same weights, `lora/grad/<factor>`.

The file "chroma-first" has the case `base` of weights in a file of the first authors, which
diffusers' converter reads; "chroma-names" holds a LoRA in their names, `theirs/<tensor>`, and the
tensors that diffusers' reader of files of kohya's sd-scripts returns for it, `ours/<tensor>`; the
reader takes no modules of the network that makes modulations.
"""
import golden
import torch
from diffusers import ChromaTransformer2DModel, FluxPipeline
from diffusers.loaders import single_file_utils

TINY = dict(patch_size=1, in_channels=16, num_layers=2, num_single_layers=3, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, axes_dims_rope=(4, 6, 6),
            approximator_num_channels=64, approximator_hidden_dim=24, approximator_layers=5)
CASES = {"base": (2, 4, 6), "tall": (1, 8, 2), "equal": (2, 2, 6)}
# diffusers rounds the level to the type of the activations, and its product with 1000 too. Those of
# batches of two are exact in bf16, so that it can be compared.
TIMES, OTHER_TIME, LENGTHS, EQUAL = [1000.0, 250.0], 437.5, [4, 7], [5, 5]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "proj_mlp", "x_embedder", "context_embedder", "in_proj",
                            "layers.1.linear_1", "layers.4.linear_2"])


def inputs(config, case, b, h, w):
    c = config["in_channels"] // 4
    length = LENGTHS[:b] if case != "equal" else EQUAL
    return golden.noisy(case, (b, c, 1, h, w), TIMES if b == 2 else [OTHER_TIME], max(length),
                        config["joint_attention_dim"], length)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    h, w = v["x"].shape[3:]
    packed, ids = golden.part("flux").tokens(v["x"])
    b, n, _ = v["text"].shape
    mask = torch.arange(n)[None] < v["length"][:, None]
    mask = torch.cat([mask, torch.ones(b, packed.shape[1], dtype=torch.bool)], 1)
    y = model(hidden_states=packed.to(dtype), timestep=v["t"] / 1000,
              encoder_hidden_states=v["text"].to(dtype), img_ids=ids, txt_ids=torch.zeros(n, 3),
              attention_mask=mask, return_dict=False)[0]
    return FluxPipeline._unpack_latents(y, 8 * h, 8 * w, 8)[:, :, None]


MODULATED = ("mod.lin", "modulation.lin", "time_in", "guidance_in", "vector_in")


def names(out):
    flux = golden.part("flux")
    kept = {n: rows for n, rows in flux.NAMES.items() if not any(part in n for part in MODULATED)}
    flux.names(out / "chroma-names.safetensors", kept)


# A file of the first authors with heads as diffusers' converter has them, but narrow ones.
FIRST = dict(TINY, num_layers=1, num_single_layers=2, attention_head_dim=32, num_attention_heads=1,
             axes_dims_rope=(4, 14, 14))


def first_shapes(d):
    """The shapes of a first authors' file of width d."""
    guidance, wide = "distilled_guidance_layer.", FIRST["approximator_hidden_dim"]
    shapes = {n: s for n, s in golden.part("flux").first_shapes(d).items()
              if not any(part in n for part in (*MODULATED, "adaLN_modulation"))}
    for name, size in {"in_proj": (wide, 64), "out_proj": (d, wide),
                       **{f"layers.{i}.{half}_layer": (wide, wide)
                          for i in range(5) for half in ("in", "out")}}.items():
        shapes.update({f"{guidance}{name}.weight": size, f"{guidance}{name}.bias": size[:1]})
    shapes.update({f"{guidance}norms.{i}.scale": (wide,) for i in range(5)})
    return shapes


def first(out):
    convert = golden.narrowed(single_file_utils,
                              "convert_chroma_transformer_checkpoint_to_diffusers",
                              "inner_dim = 3072", "inner_dim = 32")
    golden.first_file(out / "chroma-first.safetensors", ChromaTransformer2DModel, FIRST, convert,
                      first_shapes(32), inputs(FIRST, "base", 2, 4, 6), predict)


def make(out):
    first(out)
    names(out)
    golden.transformer(out / "chroma.safetensors", ChromaTransformer2DModel, TINY, CASES, inputs,
                       predict, LORA)
