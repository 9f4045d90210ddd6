"""A LoRA of a tiny CogVideoX transformer: files in the formats of several programs, the weights
that peft merges from the same factors, and the modules that peft's matcher chooses for a value of
--target_name.

A file's tensors have a name for `fill` of scripts/golden.py, or a `value`."""
import copy
import json

import torch
from diffusers import CogVideoXTransformer3DModel
from peft import LoraConfig, inject_adapter_in_model

import golden

CONFIG = dict(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4,
              time_embed_dim=8, text_embed_dim=8, num_layers=2, sample_width=4, sample_height=4,
              sample_frames=5, max_text_seq_length=4)
Q, OUT, UP = (f"transformer_blocks.{p}" for p in ("0.attn1.to_q", "1.attn1.to_out.0",
                                                  "0.ff.net.0.proj"))

# patterns of the tensors' names: A, B, alpha
PEFT = "{}.lora_A.weight", "{}.lora_B.weight", None
KOHYA = "lora_unet_{}.lora_down.weight", "lora_unet_{}.lora_up.weight", "lora_unet_{}.alpha"


def prefixed(prefix, names):
    return tuple(n and prefix + n for n in names)


def diffusers_header(**fields):
    return {"lora_adapter_metadata": json.dumps({"transformer." + k: v for k, v in fields.items()},
                                                sort_keys=True)}


TARGETS = {"target_modules": ["to_q", "to_out.0"]}
CASES = {
    "diffusers": ({Q: (2, 3), OUT: (2, 3)}, prefixed("transformer.", PEFT),
                  diffusers_header(r=2, lora_alpha=6, **TARGETS)),
    "diffusers_plain": ({Q: (2, 1), UP: (2, 1)}, prefixed("transformer.", PEFT), {}),
    "diffusers_patterns": ({Q: (3, 2), OUT: (2, 4)}, prefixed("transformer.", PEFT),
                           diffusers_header(
        r=2, lora_alpha=8, rank_pattern={"to_q": 3}, alpha_pattern={"attn1.to_q": 6}, **TARGETS)),
    "diffusers_rslora": ({Q: (4, 3)}, prefixed("transformer.", PEFT),
                         diffusers_header(r=4, lora_alpha=6, use_rslora=True, **TARGETS)),
    "finetrainers": ({Q: (2, 2), OUT: (2, 2)}, prefixed("transformer.", PEFT),
                     {"lora_config": json.dumps({"r": 2, "lora_alpha": 4})}),
    "videox_peft": ({Q: (2, 1), OUT: (2, 1)}, PEFT, {}),
    "videox_network": ({Q: (4, 0.5), UP: (2, 1)}, tuple(n.replace("unet_", "unet__")
                                                        for n in KOHYA), {}),
    "diffsynth": ({Q: (2, 1)}, tuple(n and n.replace(".weight", ".default.weight") for n in PEFT),
                  {}),
    "musubi": ({Q: (4, 0.25), OUT: (4, 0.25)}, KOHYA, {}),
    "diffusion_pipe": ({Q: (2, 1), OUT: (3, 1)}, prefixed("diffusion_model.", PEFT), {}),
    "peft": ({Q: (2, 1)}, prefixed("base_model.model.", PEFT), {}),
}

VALUES = r"""to_q|to_q,to_k|to_q to_k,to_v|to_out.0|attn1.to_q|transformer_blocks.0.attn1.to_q
transformer_blocks.1.attn1.to_q,to_v|ff.net.0.proj|ff.net.2|net.2|linear|norm1.linear|proj_out|q
attn1|0|to_qq|all-linear|o_q
linear_1,time_embedding.linear_2""".replace("\n", "|").split("|") + r"""
.*to_q
.*\.to_(q|k)
transformer_blocks\.0\..*to_[qk]
(transformer_blocks|single_transformer_blocks).*(to_q|to_k|to_v|to_out.0)
to_[qk]
to_q|to_k
x|proj_out
transformer_blocks\.\d+\.attn1\.to_q
.*attn1\.to_(?:q|k)
.*?to_q
transformer_blocks.[0-9]+?.attn1.to_v
transformer_blocks\.[\d]\.ff\.net\.2
\w+\.0\.attn1\.to_k
[^.]+\.1\.attn1\.to_out\.0
^transformer_blocks.*to_k$
.*
.*attn1
.*(attn1|to_q)
transformer_blocks\.(0|1)\.ff\.net\.(0\.proj|2)
.*\.to_[^\d]
.*\.to_\D
transformer_blocks\.0{1}\.attn1\.to_q
.*[.]to_q
.*to_q[.]?
.*(to_q|to_k)+?
.*\.to_[\w]
transformer_blocks.*\bto_q
(.*)to_v
.*[]t]o_k
(?!.*ff).*0\.\w+
transformer_blocks\.(?:(?!\.ff\.).)*to_q
.*(?<!attn1\.to)_k
.*(?<=attn1\.)to_v
(?i).*TO_Q
(?P<block>transformer_blocks\.\d)\.attn1\.to_(q|k)
.*\.(\w)\w*_out\.0|.*ne(t)\.0\.proj
.*\.t(o_){,1}k
.*to_[qk]{1,1}
""".strip().split("\n")


def merged(model, factors):
    """Returns {module: weight} after peft merged the factors {module: (rank, scale)}."""
    config = LoraConfig(r=1, lora_alpha=1, target_modules=list(factors), init_lora_weights=False,
                        rank_pattern={m: r for m, (r, _) in factors.items()},
                        alpha_pattern={m: r * s for m, (r, s) in factors.items()})
    model = inject_adapter_in_model(config, copy.deepcopy(model))
    weights = {}
    for name, (rank, _) in factors.items():
        layer = model.get_submodule(name)
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        a.copy_(torch.from_numpy(golden.fill(name + ".lora_A", tuple(a.shape))))
        b.copy_(torch.from_numpy(golden.fill(name + ".lora_B", tuple(b.shape))))
        layer.merge()
        weights[name + ".weight"] = layer.base_layer.weight
    return weights


def file_of(name, model, factors, names, meta):
    """Returns the fields from which the C test writes the file."""
    flat = "lora_unet" in names[0]
    tensors = {}
    for module, (rank, scale) in factors.items():
        out, inner = model.get_submodule(module).weight.shape
        path = module.replace(".", "_") if flat else module
        tensors[names[0].format(path)] = {"fill": module + ".lora_A", "shape": [rank, inner]}
        tensors[names[1].format(path)] = {"fill": module + ".lora_B", "shape": [out, rank]}
        if names[2]:
            tensors[names[2].format(path)] = {"value": rank * scale, "shape": []}
    return {"file": name + ".safetensors", "tensors": tensors, "meta": meta, "pairs": len(factors)}


def picked(model, value):
    """Returns the modules to which peft adds a LoRA, or none if it fails."""
    special = any(c in value for c in r"()|*+?[]^$\\")
    targets = value if special or value == "all-linear" else value.replace(",", " ").split()
    try:
        model = inject_adapter_in_model(LoraConfig(target_modules=targets, r=1),
                                        copy.deepcopy(model))
    except ValueError:
        return []
    return [n for n, m in model.named_modules() if hasattr(m, "lora_A")
            and isinstance(m.base_layer, torch.nn.Linear)]


def make(out):
    torch.manual_seed(0)
    model = CogVideoXTransformer3DModel(**CONFIG)
    shapes = golden.fill_module(model)
    linears = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    tensors, cases = {}, {}
    for name, (factors, names, meta) in CASES.items():
        cases[name] = file_of(name, model, factors, names, meta)
        for weight, value in merged(model, factors).items():
            tensors[f"{name}/{weight}"] = value
    golden.save(out / "lora.safetensors", tensors, config=dict(model.config), cases=cases,
                modules=linears,
                weights={n: s for n, s in shapes.items() if ".attn1." in n or ".ff." in n},
                targets={v: picked(model, v) for v in VALUES})
    return cases
