"""Wan's transformer: outputs, losses and gradients, in its variants.

One file a variant. Its cases `NAME/...` differ in grid: x [B,C,f,h,w], t [B] or, as token_t, [B,N],
text with the lengths of its rows, which zeros follow up to 512 tokens, the conditions where they
are inputs, noise's target, output, loss; the case `base` has `grad/<parameter>` too. The conditions
are cond.video [B,C,f,h,w], its cond.mask [B,4,f,h,w] and cond.vision [B,n,D], or of VideoX-Fun's
Fun-Control cond.control [B,C,f,h,w] and cond.image [B,C,1,h,w], which stand behind the noisy
latents in this order. The case `lora` is of a LoRA on the same weights, frozen, and its gradients
are `lora/grad/<factor>`.
The file "wan-names" is a LoRA in the first authors' names, `theirs/<module>.lora_A.weight`, and
`ours/<tensor>`, which diffusers' readers of such files make of it, with the prefixes of ComfyUI and
of musubi-tuner. Its metadata `weights` holds {diffusers' name: the first authors' name} of all
tensors of "wan-flf2v" by diffusers' converter of whole files, to which the positions of FLF2V's
picture are unknown.
"""
import golden
import torch
from diffusers import WanTransformer3DModel
from diffusers.loaders import lora_conversion_utils as readers
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers

TINY = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=16, in_channels=4,
            out_channels=4, text_dim=32, freq_dim=32, ffn_dim=48, num_layers=2)
I2V, CLIP, FIVE = dict(in_channels=12, num_layers=1), dict(image_dim=40, added_kv_proj_dim=32), 48
# Channels of Fun-Control with a first frame; with 4 the model would have the inputs of I2V.
REF = 6

# name: config; {case: (B, f, h, w)}. Heads of "wan-40" have 12 angles of rows and of columns, and
# 16 of frames.
VARIANTS = {
    "wan": ({}, {"base": (2, 3, 4, 6), "off": (1, 2, 6, 4), "tokens": (2, 3, 4, 4),
                 "still": (1, 1, 4, 8)}),
    "wan-40": (dict(num_attention_heads=1, attention_head_dim=40, num_layers=1),
               {"base": (1, 3, 4, 6)}),
    "wan-i2v": ({**I2V, **CLIP}, {"base": (2, 3, 4, 4), "still": (1, 1, 4, 4)}),
    "wan-flf2v": ({**I2V, **CLIP, "pos_embed_seq_len": 10}, {"base": (2, 3, 4, 4)}),
    "wan-a14b": (I2V, {"base": (2, 3, 4, 4)}),
    "wan-control": (dict(in_channels=8, num_layers=1), {"base": (2, 3, 4, 4)}),
    "wan-control-ref": (dict(in_channels=3 * REF, out_channels=REF, num_layers=1, **CLIP),
                        {"base": (2, 3, 4, 4)}),
    "wan-5b": (dict(in_channels=FIVE, out_channels=FIVE, num_layers=1), {"base": (2, 3, 4, 4)}),
}
TIMES, LENGTHS, TEXT, TEXT_ROWS, PICTURE = [987.0, 437.0], [37, 64], 64, 512, 5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "net.0.proj", "net.2", "time_proj",
                            "patch_embedding", "proj_out"])


def inputs(config, case, b, f, h, w):
    c = config["out_channels"]
    v = {"x": golden.draw("x " + case, (b, c, f, h, w)),
         "target": golden.draw("target " + case, (b, c, f, h, w)),
         "t": torch.tensor(TIMES[:b]),
         "text": golden.draw("text " + case, (b, TEXT, config["text_dim"])),
         "length": torch.tensor(LENGTHS[:b], dtype=torch.int32)}
    for i in range(b):
        v["text"][i, LENGTHS[i]:] = 0
    beside = config["in_channels"] - c
    if beside in (c, 2 * c) and beside != c + 4:
        v["cond.control"] = golden.draw("control " + case, (b, c, f, h, w))
        if beside > c:
            v["cond.image"] = golden.draw("image " + case, (b, c, 1, h, w))
    elif beside:
        v["cond.video"] = golden.draw("video " + case, (b, c, f, h, w))
        v["cond.mask"] = known(config, v["x"])
    if config["image_dim"]:
        v["cond.vision"] = golden.draw("vision " + case, (b, config["pos_embed_seq_len"] or PICTURE,
                                                          config["image_dim"]))
    if case == "tokens" or c == FIVE:               # a clean first frame in the first row alone
        v["token_t"] = v["t"][:, None].repeat(1, f * h * w // 4)
        v["token_t"][0, :h * w // 4] = 0
    return v


def known(config, x):
    """The mask that diffusers' pipelines make: pixel frames, of which the first stands for four."""
    b, _, f, h, w = x.shape
    mask = torch.zeros(b, 1, 4 * f - 3, h, w)
    mask[:, :, 0] = 1
    if config["pos_embed_seq_len"]:
        mask[:, :, -1] = 1
    mask = torch.cat([mask[:, :, :1].repeat(1, 1, 4, 1, 1), mask[:, :, 1:]], 2)
    return mask.view(b, f, 4, h, w).transpose(1, 2)


def predict(model, config, v):
    dtype = next(model.parameters()).dtype
    x, image = v["x"], v.get("cond.vision")
    if "cond.control" in v:
        x = torch.cat([x, v["cond.control"]], 1)
    if "cond.image" in v:
        frames = torch.zeros_like(v["x"])
        frames[:, :, :1] = v["cond.image"]
        x = torch.cat([x, frames], 1)
    if "cond.video" in v:
        x = torch.cat([x, v["cond.mask"], v["cond.video"]], 1)
    if image is not None and config["pos_embed_seq_len"]:
        # two pictures of a row are rows of their own
        image = image.reshape(2 * len(image), -1, image.shape[-1])
    text = torch.zeros(len(x), TEXT_ROWS, config["text_dim"])
    text[:, :TEXT] = v["text"]
    return model(hidden_states=x.to(dtype), timestep=v.get("token_t", v["t"]),
                 encoder_hidden_states=text.to(dtype),
                 encoder_hidden_states_image=None if image is None else image.to(dtype),
                 return_dict=False)[0]


BLOCK = ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "cross_attn.q", "cross_attn.k",
         "cross_attn.v", "cross_attn.o", "cross_attn.k_img", "cross_attn.v_img", "ffn.0", "ffn.2"]
OTHERS = ["time_embedding.0", "time_embedding.2", "time_projection.1", "text_embedding.0",
          "text_embedding.2", "img_emb.proj.1", "img_emb.proj.3", "head.head"]
NORMS = ["self_attn.norm_q", "self_attn.norm_k", "cross_attn.norm_q", "cross_attn.norm_k",
         "cross_attn.norm_k_img"]
POSITIONS = {"condition_embedder.image_embedder.pos_embed": "img_emb.emb_pos"}
WIDTH, RANK = 4, 2


def weights():
    """{diffusers' name: the first authors'} of all tensors of FLF2V with one block."""
    modules = ["blocks.0." + m for m in BLOCK + ["norm3"]] + OTHERS
    modules += ["patch_embedding", "img_emb.proj.0", "img_emb.proj.4"]
    theirs = [f"{m}.{part}" for m in modules for part in ("weight", "bias")]
    theirs += [f"blocks.0.{m}.weight" for m in NORMS] + ["blocks.0.modulation", "head.modulation"]
    ours = convert_wan_transformer_to_diffusers(
        {k: torch.tensor([float(i)]) for i, k in enumerate(theirs)})
    found = {**{k: theirs[int(v)] for k, v in ours.items()}, **POSITIONS}
    model = WanTransformer3DModel(**{**TINY, **VARIANTS["wan-flf2v"][0]})
    assert set(found) == set(model.state_dict())
    return found


def names(out):
    blocks = [f"blocks.{i}.{m}" for i in range(2) for m in BLOCK]
    file, comfy, musubi = {}, {}, {}
    for module in blocks + OTHERS:
        flat = "lora_unet_" + module.replace(".", "_")
        factors = (golden.draw("a " + module, (RANK, WIDTH)),
                   golden.draw("b " + module, (WIDTH, RANK)))
        for half, kohya, x in zip("AB", ("down", "up"), factors):
            file[f"theirs/{module}.lora_{half}.weight"] = x
            comfy[f"diffusion_model.{module}.lora_{half}.weight"] = x
            if module in blocks:
                musubi[f"{flat}.lora_{kohya}.weight"] = x
                musubi[flat + ".alpha"] = torch.tensor(float(RANK))
    ours = readers._convert_non_diffusers_wan_lora_to_diffusers(comfy)
    same = readers._convert_musubi_wan_lora_to_diffusers(musubi)
    assert len(same) == 2 * len(blocks) and all(torch.equal(x, ours[k]) for k, x in same.items())
    file.update({"ours/" + k.removeprefix("transformer."): v.clone() for k, v in ours.items()})
    golden.save(out / "wan-names.safetensors", file, weights=weights())


def make(out):
    names(out)
    for name, (config, cases) in VARIANTS.items():
        config = {**TINY, "image_dim": None, "added_kv_proj_dim": None, "pos_embed_seq_len": None,
                  **config}
        golden.transformer(out / f"{name}.safetensors", WanTransformer3DModel, config, cases,
                           inputs, predict, LORA if name in ("wan", "wan-i2v") else None)
