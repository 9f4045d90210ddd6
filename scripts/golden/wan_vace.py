"""Wan VACE's transformer: outputs, losses and gradients.

As wan.py's; the conditions are cond.video and cond.reactive [B,C,f,h,w], the known and the other
part of the clip to edit, cond.mask [B,M,f,h,w], and cond.reference_k [B,C,1,h,w]. With n
references x has f + n frames, and the references stand in front of the conditions, each beside
zeros under a mask of zeros. The file "wan-vace-names" is a LoRA as wan.py's "wan-names", by
diffusers' converter of whole files, and its metadata `weights` have the tensors of a model of one
block of each kind.
"""
import golden
import torch
from diffusers import WanVACETransformer3DModel
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers

wan = golden.part("wan")
MASK = 64
TINY = {**wan.TINY, "num_layers": 3, "vace_layers": [0, 2], "vace_in_channels": 2 * 4 + MASK,
        "image_dim": None, "added_kv_proj_dim": None, "pos_embed_seq_len": None}
CASES = {"base": (2, 3, 4, 6), "off": (1, 2, 6, 4), "references": (1, 4, 4, 6),
         "still": (1, 1, 4, 8)}
REFERENCES = {"references": 2}
LORA = {**wan.LORA, "target_modules": wan.LORA["target_modules"] + ["vace_patch_embedding",
                                                                    "proj_in"]}
VACE = ["before_proj", "after_proj"]


def inputs(config, case, b, f, h, w):
    c, n = config["out_channels"], REFERENCES.get(case, 0)
    v = wan.inputs(config, case, b, f, h, w)
    v["cond.video"] = golden.draw("video " + case, (b, c, f - n, h, w))
    v["cond.reactive"] = golden.draw("reactive " + case, (b, c, f - n, h, w))
    v["cond.mask"] = (golden.draw("mask " + case, (b, MASK, f - n, h, w)) > 0).float()
    for k in range(n):
        v[f"cond.reference_{k + 1}"] = golden.draw(f"reference {k} {case}", (b, c, 1, h, w))
    return v


def predict(model, config, v):
    dtype = next(model.parameters()).dtype
    control = torch.cat([v["cond.video"], v["cond.reactive"], v["cond.mask"]], 1)
    for k in range(1, 4):                     # the pipeline puts each before those before it
        if f"cond.reference_{k}" in v:
            picture = v[f"cond.reference_{k}"]
            zeros = torch.zeros_like(control[:, picture.shape[1]:, :1])
            control = torch.cat([torch.cat([picture, zeros], 1), control], 2)
    text = torch.zeros(len(v["x"]), wan.TEXT_ROWS, config["text_dim"])
    text[:, :wan.TEXT] = v["text"]
    return model(hidden_states=v["x"].to(dtype), timestep=v["t"],
                 encoder_hidden_states=text.to(dtype), control_hidden_states=control.to(dtype),
                 return_dict=False)[0]


def weights():
    """{diffusers' name: the first authors'} of all tensors of a model of one block of each kind."""
    block = [m for m in wan.BLOCK if "img" not in m] + ["norm3"]
    norms = [m for m in wan.NORMS if "img" not in m]
    modules = [m for m in wan.OTHERS if "img" not in m] + ["patch_embedding",
                                                           "vace_patch_embedding"]
    theirs = []
    for b in ("blocks.0.", "vace_blocks.0."):
        modules += [b + m for m in block]
        theirs += [f"{b}{m}.weight" for m in norms] + [b + "modulation"]
    modules += ["vace_blocks.0." + m for m in VACE]
    theirs += [f"{m}.{part}" for m in modules for part in ("weight", "bias")] + ["head.modulation"]
    ours = convert_wan_transformer_to_diffusers(
        {k: torch.tensor([float(i)]) for i, k in enumerate(theirs)})
    found = {k: theirs[int(v)] for k, v in ours.items()}
    model = WanVACETransformer3DModel(**{**TINY, "num_layers": 1, "vace_layers": [0]})
    assert set(found) == set(model.state_dict())
    return found


def names(out):
    block = [m for m in wan.BLOCK if "img" not in m]
    modules = [f"{b}.{i}.{m}" for b in ("blocks", "vace_blocks") for i in range(2) for m in block]
    modules += [m for m in wan.OTHERS if "img" not in m] + ["vace_blocks.0." + m for m in VACE]
    theirs = {}
    for module in modules:
        for half, shape in (("A", (wan.RANK, wan.WIDTH)), ("B", (wan.WIDTH, wan.RANK))):
            theirs[f"{module}.lora_{half}.weight"] = golden.draw(half + module, shape)
    ours = convert_wan_transformer_to_diffusers(dict(theirs))
    golden.save(out / "wan-vace-names.safetensors",
                {**{"theirs/" + k: v for k, v in theirs.items()},
                 **{"ours/" + k: v.clone() for k, v in ours.items()}}, weights=weights())


def make(out):
    names(out)
    golden.transformer(out / "wan-vace.safetensors", WanVACETransformer3DModel, TINY, CASES, inputs,
                       predict, LORA)
