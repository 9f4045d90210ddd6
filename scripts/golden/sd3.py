"""Stable Diffusion 3's transformer, and a LoRA on it: outputs, losses and gradients.

Each variant has a file: `3` has no norms of queries and keys, `3.5` (large) has them, and the
first block of `3.5-medium` has a second attention. Its cases `NAME/...` have pictures of different
sizes; a case holds x [B,C,1,h,w], t, target, output, loss, the states `text` and `text_2` of both
CLIP encoders with their `pooled` and `pooled_2`, and `text_3` of T5, which forward() gets joined as
the pipeline joins them. In the case `without` T5 was not given the prompt: `text_3` is a row of
zeros, and forward() gets NO_T5. The gradients of the case `base` are `grad/<parameter>`. The case
`lora` has a LoRA on the same weights, which are frozen; its gradients are `lora/grad/<factor>`.

`sd3-run` holds no cases: it is a model for programs, whose texts are those of sd3_text.py.
`sd3-first` has the case `base` of weights in a file of the first authors, which diffusers'
converter reads; `sd3-names` holds a LoRA in their names, `theirs/<tensor>`, and `ours/<tensor>`.
"""
import golden
import torch
from diffusers import SD3Transformer2DModel
from diffusers.loaders import single_file_utils

TINY = dict(num_layers=2, num_attention_heads=2, attention_head_dim=8, in_channels=4,
            out_channels=4, patch_size=2, joint_attention_dim=12, caption_projection_dim=16,
            pooled_projection_dim=10, sample_size=16, pos_embed_max_size=8,
            dual_attention_layers=[])
# name: config, {case: (B, h, w)}. `base` uses the middle 4 x 6 of the table's 8 x 8 positions,
# `odd` uses 7 x 3.
VARIANTS = {
    "3": (dict(qk_norm=None), {"base": (2, 8, 12), "odd": (1, 14, 6), "without": (2, 4, 6)}),
    "3.5": (dict(qk_norm="rms_norm"), {"base": (2, 8, 12), "whole": (1, 16, 16)}),
    "3.5-medium": (dict(qk_norm="rms_norm", num_layers=3, dual_attention_layers=[0]),
                   {"base": (2, 8, 12), "odd": (1, 14, 6)}),
}
TIMES = [999.0, 437.0]
TOKENS, T5_TOKENS, NO_T5 = 3, 5, 256
WIDTHS = 4, 6                              # of both CLIP encoders, narrower together than T5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "pos_embed.proj"])


def inputs(config, case, b, h, w):
    c = config["in_channels"]
    v = golden.noisy(case, (b, c, 1, h, w), TIMES[:b], TOKENS, WIDTHS[0])
    v["text_2"] = golden.draw("text_2 " + case, (b, TOKENS, WIDTHS[1]))
    v["text_3"] = golden.draw("text_3 " + case, (b, T5_TOKENS, config["joint_attention_dim"]))
    if case == "without":
        v["text_3"] = torch.zeros(b, 1, config["joint_attention_dim"])
    v["pooled"] = golden.draw("pooled " + case, (b, WIDTHS[0]))
    v["pooled_2"] = golden.draw("pooled_2 " + case, (b, WIDTHS[1]))
    return v


def joined(v):
    """Returns the embeddings and the pooled vector that StableDiffusion3Pipeline makes."""
    clip = torch.cat([v["text"], v["text_2"]], -1)
    t5 = v["text_3"]
    if t5.shape[1] == 1:
        t5 = torch.zeros(t5.shape[0], NO_T5, t5.shape[2])
    clip = torch.nn.functional.pad(clip, (0, t5.shape[-1] - clip.shape[-1]))
    return torch.cat([clip, t5], -2), torch.cat([v["pooled"], v["pooled_2"]], -1)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    text, pooled = joined(v)
    return model(hidden_states=v["x"][:, :, 0].to(dtype), timestep=v["t"],
                 encoder_hidden_states=text.to(dtype), pooled_projections=pooled.to(dtype),
                 return_dict=False)[0][:, :, None]


def first_shapes(d, blocks, head, config):
    """The shapes of a file of Stability's, whose first block has a second attention."""
    text, pooled = config["joint_attention_dim"], config["pooled_projection_dim"]
    shapes = {"t_embedder.mlp.0": (d, 256), "t_embedder.mlp.2": (d, d),
              "y_embedder.mlp.0": (d, pooled), "y_embedder.mlp.2": (d, d),
              "context_embedder": (d, text), "final_layer.adaLN_modulation.1": (2 * d, d),
              "final_layer.linear": (4 * config["out_channels"], d)}
    norms = []
    for i in range(blocks):
        for part in ("x_block", "context_block"):
            name, picture, last = f"joint_blocks.{i}.{part}.", part == "x_block", i == blocks - 1
            mods = (9 if i == 0 else 6) if picture else (2 if last else 6)
            shapes.update({name + "attn.qkv": (3 * d, d),
                           name + "adaLN_modulation.1": (mods * d, d)})
            attentions = ["attn"] + (["attn2"] if picture and i == 0 else [])
            norms += [f"{name}{a}.{n}.weight" for a in attentions for n in ("ln_q", "ln_k")]
            if "attn2" in attentions:
                shapes.update({name + "attn2.qkv": (3 * d, d), name + "attn2.proj": (d, d)})
            if picture or not last:
                shapes.update({name + "attn.proj": (d, d), name + "mlp.fc1": (4 * d, d),
                               name + "mlp.fc2": (d, 4 * d)})
    whole = {f"{n}.weight": s for n, s in shapes.items()}
    whole.update({f"{n}.bias": s[:1] for n, s in shapes.items()})
    whole.update({n: (head,) for n in norms})
    side = config["pos_embed_max_size"]
    whole.update({"pos_embed": (1, side * side, d), "x_embedder.proj.bias": (d,),
                  "x_embedder.proj.weight": (d, config["in_channels"], 2, 2)})
    return whole


def names(out):
    """A LoRA by the names of the first authors: diffusers' converter of whole files is given the
    matrices B in place of weights, and then numbers, which say whose A a module has."""
    config, width = {**TINY, **VARIANTS["3.5"][0]}, 4
    shapes = first_shapes(width, 2, 8, config)
    rows = {n.removesuffix(".weight"): s[0] // width for n, s in shapes.items()
            if len(s) == 2 and n.endswith(".weight") and s[0] % width == 0}

    def converted(values):
        state = {n: torch.zeros(s) for n, s in shapes.items()}
        state.update({f"{n}.weight": t for n, t in values.items()})
        return single_file_utils.convert_sd3_transformer_checkpoint_to_diffusers(state)

    def convert(theirs):
        half = {h: {n: theirs[golden.in_comfyui(n, h)] for n in rows} for h in "AB"}
        order = list(rows)
        at = converted({n: torch.full((rows[n] * width, 1), float(i + 1))
                        for i, n in enumerate(order)})
        ours = {}
        for name, t in converted(half["B"]).items():
            if name.endswith(".weight") and at[name].ndim == 2 and at[name].max() > 0:
                module = name.removesuffix(".weight")
                ours[module + ".lora_A.weight"] = half["A"][order[int(at[name].max()) - 1]]
                ours[module + ".lora_B.weight"] = t
        return ours
    golden.lora_names(out / "sd3-names.safetensors", rows, golden.in_comfyui, convert)


def first(out):
    config = {**TINY, **VARIANTS["3.5-medium"][0]}
    shapes = first_shapes(config["caption_projection_dim"], config["num_layers"],
                          config["attention_head_dim"], config)
    golden.first_file(out / "sd3-first.safetensors", SD3Transformer2DModel, config,
                      single_file_utils.convert_sd3_transformer_checkpoint_to_diffusers, shapes,
                      inputs(config, "base", 2, 8, 12), predict)


def fitting(out):
    """Writes the config.json and the shapes of a model whose texts are those of sd3_text.py."""
    text = golden.part("sd3_text")
    config = {**TINY, **VARIANTS["3.5-medium"][0], "joint_attention_dim": text.WIDTH,
              "pooled_projection_dim": sum(c[2] for c in text.CLIPS), "pos_embed_max_size": 12}
    _, config, shapes = golden.tiny(SD3Transformer2DModel, config)
    golden.save(out / "sd3-run.safetensors", {"none": torch.zeros(1)}, config=config,
                weights=shapes)


def make(out):
    names(out)
    first(out)
    fitting(out)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"sd{name}.safetensors", SD3Transformer2DModel, {**TINY, **config},
                           cases, inputs, predict, LORA)
