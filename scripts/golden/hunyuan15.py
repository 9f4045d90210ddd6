"""HunyuanVideo 1.5's transformer, for text and for pictures, and a LoRA on it: outputs, losses and
gradients.

Cases `NAME/...` have different grids: x [B,C,f,h,w], t [B], text with the lengths of its rows and
text_2 with length_2, of which a row may have none, cond.image [B,C,1,h,w] and cond.vision [B,n,V]
of clips whose first frame is known, target, output, loss; of a step-distilled model t_next [B],
the times that the steps lead to, without which the steps lead nowhere (t). The gradients of the
case `base` are `grad/<parameter>`, those of the case `lora`, on the same weights,
`lora/grad/<factor>`.

The layers for glyphs are 2048 wide in the class and 24 wide here.

"hunyuan15-first" is a file with Tencent's names, as diffusers' conversion script reads them: the
case `base` of a model of text, whose queries, keys and values Tencent keeps apart in the dual
blocks and joins in the refiner, and whose last modulation has shift before scale;
"hunyuan15-packed" is the same repackaged for ComfyUI, with queries, keys and values joined in all
blocks. "hunyuan15-first-steps" is Tencent's of a step-distilled model.
"""
import golden
import torch
from diffusers.models.transformers import transformer_hunyuan_video15 as theirs

GLYPH_WIDTH = 24
TINY = dict(in_channels=9, out_channels=4, num_attention_heads=2, attention_head_dim=16,
            num_layers=2, num_refiner_layers=1, patch_size=1, patch_size_t=1, text_embed_dim=32,
            text_embed_2_dim=32, image_embed_dim=40, rope_axes_dim=(4, 6, 6), rope_theta=256.0,
            target_size=64, task_type="t2v")
# name: config, {case: (B, f, h, w)}
VARIANTS = {
    "hunyuan15": (dict(num_refiner_layers=2),
                  {"base": (2, 3, 3, 5), "quoteless": (1, 2, 5, 3), "still": (2, 1, 4, 3)}),
    "hunyuan15-i2v": (dict(task_type="i2v"),
                      {"base": (2, 3, 3, 5), "still": (1, 1, 3, 2), "dropped": (1, 2, 3, 3)}),
    "hunyuan15-steps": (dict(task_type="i2v", use_meanflow=True),
                        {"base": (2, 3, 3, 5), "nowhere": (1, 1, 3, 2)}),
}
NEXT = [872.0, 0.0]
TIMES, TEXT, GLYPHS, PICTURE = [988.0, 436.0], [5, 9], [4, 2], 5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "norm1.linear", "context_embedder_2.linear_2", "x_embedder.proj"])


def model_class():
    """The class with narrow layers for glyphs."""
    return golden.narrowed(theirs, "HunyuanVideo15Transformer3DModel", "2048", str(GLYPH_WIDTH))


def rows(name, lengths, width):
    x = golden.draw(name, (len(lengths), max(1, *lengths, 0), width))
    for i, n in enumerate(lengths):
        x[i, n:] = 0
    return x


def inputs(config, case, b, f, h, w):
    c = config["out_channels"]
    text = TEXT[:b]
    # the second row of `still` has no words in quotes, that of `quoteless` neither
    glyphs = {"quoteless": [0], "still": [3, 0]}.get(case, GLYPHS)[:b]
    v = {"x": golden.draw("x " + case, (b, c, f, h, w)),
         "target": golden.draw("target " + case, (b, c, f, h, w)),
         "t": torch.tensor(TIMES[:b]),
         "text": rows("text " + case, text, config["text_embed_dim"]),
         "length": torch.tensor(text, dtype=torch.int32),
         "text_2": rows("glyphs " + case, glyphs, config["text_embed_2_dim"]),
         "length_2": torch.tensor(glyphs, dtype=torch.int32)}
    if config["task_type"] == "i2v" and case != "dropped":
        v["cond.image"] = golden.draw("image " + case, (b, c, 1, h, w))
        v["cond.vision"] = golden.draw("seen " + case, (b, PICTURE, config["image_embed_dim"]))
    if config.get("use_meanflow") and case != "nowhere":
        v["t_next"] = torch.tensor(NEXT[:b])
    return v


def mask_of(text, length, dtype):
    return (torch.arange(text.shape[1])[None] < length[:, None]).to(dtype)


def predict(model, config, v):
    dtype = model.proj_out.weight.dtype
    image, mask = torch.zeros_like(v["x"]), torch.zeros_like(v["x"][:, :1])
    seen = torch.zeros(v["x"].shape[0], PICTURE, config["image_embed_dim"])
    if "cond.image" in v:
        image[:, :, :1] = v["cond.image"]
        mask[:, :, 0] = 1
        seen = v["cond.vision"]
    next_time = v.get("t_next", v["t"])
    return model(hidden_states=torch.cat([v["x"], image, mask], 1).to(dtype),
                 timestep=v["t"].to(dtype), encoder_hidden_states=v["text"].to(dtype),
                 timestep_r=next_time.to(dtype) if config.get("use_meanflow") else None,
                 encoder_attention_mask=mask_of(v["text"], v["length"], dtype),
                 encoder_hidden_states_2=v["text_2"].to(dtype),
                 encoder_attention_mask_2=mask_of(v["text_2"], v["length_2"], dtype),
                 image_embeds=seen.to(dtype), return_dict=False)[0]


FIRST = dict(TINY, num_attention_heads=1, attention_head_dim=32, rope_axes_dim=(4, 14, 14))
TENCENT = {                                         # theirs: ours, of modules
    "time_in.mlp.": "time_embed.timestep_embedder.linear_",
    "time_r_in.mlp.": "time_embed.timestep_embedder_r.linear_",
    "txt_in.t_embedder.mlp.": "context_embedder.time_text_embed.timestep_embedder.linear_",
    "txt_in.c_embedder.linear_": "context_embedder.time_text_embed.text_embedder.linear_",
    "txt_in.input_embedder": "context_embedder.proj_in", "byt5_in.layernorm":
    "context_embedder_2.norm", "byt5_in.fc": "context_embedder_2.linear_",
    "vision_in.proj.0": "image_embedder.norm_in", "vision_in.proj.1": "image_embedder.linear_1",
    "vision_in.proj.3": "image_embedder.linear_2", "vision_in.proj.4": "image_embedder.norm_out",
    "img_in.proj": "x_embedder.proj", "cond_type_embedding": "cond_type_embed",
    "final_layer.adaLN_modulation.1": "norm_out.linear", "final_layer.linear": "proj_out",
}
REFINER = {"self_attn_proj": "attn.to_out.0", "mlp.fc1": "ff.net.0.proj", "mlp.fc2": "ff.net.2",
           "adaLN_modulation.1": "norm_out.linear", "norm1": "norm1", "norm2": "norm2"}
DUAL = {"img_mod.linear": "norm1.linear", "txt_mod.linear": "norm1_context.linear",
        "img_attn_proj": "attn.to_out.0", "txt_attn_proj": "attn.to_add_out",
        "img_attn_q_norm": "attn.norm_q", "img_attn_k_norm": "attn.norm_k",
        "txt_attn_q_norm": "attn.norm_added_q", "txt_attn_k_norm": "attn.norm_added_k",
        "img_mlp.fc1": "ff.net.0.proj", "img_mlp.fc2": "ff.net.2",
        "txt_mlp.fc1": "ff_context.net.0.proj", "txt_mlp.fc2": "ff_context.net.2",
        **{f"img_attn_{x}": f"attn.to_{x}" for x in "qkv"},
        **{f"txt_attn_{x}": f"attn.add_{x}_proj" for x in "qkv"}}
FUSED = "self_attn_qkv"


def tencent(name, packed):
    """Tencent's name of one of our tensors, and the part of the matrix that it is there. In a file
    that is repackaged for ComfyUI all blocks have queries, keys and values in one matrix."""
    module, end = name.rsplit(".", 1)
    words = module.split(".")
    if name.startswith("context_embedder.token_refiner"):
        own = ".".join(words[4:])
        at = f"txt_in.individual_token_refiner.blocks.{words[3]}."
        if own[:-1] == "attn.to_":
            return at + FUSED + "." + end, "qkv".index(own[-1])
        return at + {o: t for t, o in REFINER.items()}[own] + "." + end, None
    if name.startswith("transformer_blocks"):
        own = {o: t for t, o in DUAL.items()}[".".join(words[2:])]
        stream, last = own[:-1], own[-1]
        if packed and stream.endswith("_attn_"):
            return f"double_blocks.{words[1]}.{stream}qkv.{end}", "qkv".index(last)
        return f"double_blocks.{words[1]}.{own}.{end}", None
    theirs, ours = max(((t, o) for t, o in TENCENT.items() if module.startswith(o)),
                       key=lambda x: len(x[1]))
    rest = module[len(ours):]
    if "mlp." in theirs:
        rest = {"1": "0", "2": "2"}[rest]
    return theirs + rest + "." + end, None


def first(out, name, packed=False, **more):
    config, shapes, place = {**FIRST, **more}, {}, {}
    for ours, x in model_class()(**config).state_dict().items():
        theirs, part = tencent(ours, packed)
        rows = x.shape[0] * (1 if part is None else 3)
        shapes[theirs], place[ours] = (rows, *x.shape[1:]), (theirs, part)

    def convert(file):
        made = {}
        for name, (theirs, part) in place.items():
            x = file[theirs]
            made[name] = x if part is None else x.chunk(3)[part]
            if name.startswith("norm_out."):
                made[name] = torch.cat(x.chunk(2)[::-1])
        return made

    golden.first_file(out / f"{name}.safetensors", model_class(), config, convert, shapes,
                      inputs(config, "base", 2, 3, 3, 5), predict)


def make(out):
    first(out, "hunyuan15-first")
    first(out, "hunyuan15-packed", packed=True)
    first(out, "hunyuan15-first-steps", use_meanflow=True)
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", model_class(), {**TINY, **config}, cases,
                           inputs, predict, LORA if name == "hunyuan15" else None,
                           {"text_embed_2_hidden_dim": GLYPH_WIDTH})
