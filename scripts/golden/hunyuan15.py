"""HunyuanVideo 1.5's transformer, for text and for pictures, and a LoRA on it: outputs, losses and
gradients.

Cases `NAME/...` have different grids: x [B,C,f,h,w], t [B], text with the lengths of its rows and
text_2 with length_2, of which a row may have none, cond.image [B,C,1,h,w] and cond.vision [B,n,V]
of clips whose first frame is known, target, output, loss. The gradients of the case `base` are
`grad/<parameter>`, those of the case `lora`, on the same weights, `lora/grad/<factor>`.

The layers for glyphs are 2048 wide in the class and 24 wide here.
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
}
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
    return model(hidden_states=torch.cat([v["x"], image, mask], 1).to(dtype),
                 timestep=v["t"].to(dtype), encoder_hidden_states=v["text"].to(dtype),
                 encoder_attention_mask=mask_of(v["text"], v["length"], dtype),
                 encoder_hidden_states_2=v["text_2"].to(dtype),
                 encoder_attention_mask_2=mask_of(v["text_2"], v["length_2"], dtype),
                 image_embeds=seen.to(dtype), return_dict=False)[0]


def make(out):
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", model_class(), {**TINY, **config}, cases,
                           inputs, predict, LORA if name == "hunyuan15" else None,
                           {"text_embed_2_hidden_dim": GLYPH_WIDTH})
