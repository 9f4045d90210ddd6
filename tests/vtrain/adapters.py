"""Loads the files of adapters with diffusers, PEFT and LyCORIS, at strength 1 and 0.5, and compares
the outputs with those of the trained factors: adapters.py TRANSFORMER RUN KIND...

ComfyUI's formula for a DoRA, and its factors, are compared by their weights."""
import logging
import pathlib
import sys

try:
    import torch
    from diffusers import LTXVideoTransformer3DModel
    from lycoris import create_lycoris_from_weights
    from peft import (LoHaConfig, LoKrConfig, inject_adapter_in_model,
                      set_peft_model_state_dict)
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

logging.disable(logging.WARNING)
RANK, ALPHA, MOST = 4, 6, 2e-6
DECOMPOSED = ("dora", "doha", "dokr")
FOLDER, RUNS = pathlib.Path(sys.argv[1]), sys.argv[2:]
wrong = 0


def model():
    return LTXVideoTransformer3DModel.from_pretrained(FOLDER, torch_dtype=torch.float32).eval(
        ).requires_grad_(False)


@torch.no_grad()
def output(m):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(1, 48, m.config.in_channels, generator=draw)
    text = torch.randn(1, 7, m.config.caption_channels, generator=draw)
    return m(hidden_states=x, encoder_hidden_states=text, timestep=torch.tensor([500.0]),
             encoder_attention_mask=torch.ones(1, 7), num_frames=3, height=4, width=4,
             return_dict=False)[0]


def factors(run):
    """{module: {factor: values}} as they were trained."""
    out = {}
    for name, t in load_file(f"{run}/checkpoint-5/optimizer.safetensors").items():
        if name.startswith("master/"):
            module, factor = name[len("master/"):].removesuffix(".weight").rsplit(".", 1)
            out.setdefault(module, {})[factor] = t
    return out


def change(kind, f):
    if "lora_A" in f:
        return f["lora_B"] @ f["lora_A"] * ALPHA / (RANK ** 0.5 if kind == "rslora" else RANK)
    if "hada_w1_a" in f:
        return (f["hada_w1_a"] @ f["hada_w1_b"]) * (f["hada_w2_a"] @ f["hada_w2_b"]) * ALPHA / RANK
    whole = "lokr_w1" in f and "lokr_w2" in f
    one = f["lokr_w1"] if "lokr_w1" in f else f["lokr_w1_a"] @ f["lokr_w1_b"]
    two = f["lokr_w2"] if "lokr_w2" in f else f["lokr_w2_a"] @ f["lokr_w2_b"]
    return torch.kron(one, two) * (1 if whole else ALPHA / RANK)


def trained(kind, run, strength, means="product"):
    """The output of the base with the trained factors. The strength of magnitudes is that of B A
    (PEFT), or of the factor by which rows get longer (LyCORIS), or of the whole change
    (ComfyUI)."""
    m = model()
    weights = m.state_dict()
    for module, f in factors(run).items():
        w = weights[module + ".weight"]
        new = w + (strength if means == "product" else 1) * change(kind, f)
        lengths = f.get("lora_magnitude_vector", f.get("dora_scale"))
        if lengths is not None:
            by = lengths[:, None] / new.norm(dim=1, keepdim=True)
            new = new * (1 + strength * (by - 1) if means == "length" else by)
        w.copy_(w + (strength if means == "change" else 1) * (new - w))
    return output(m)


def same(what, have, want, base):
    global wrong
    far, moved = float((have - want).norm() / want.norm()), float((want - base).norm())
    ok = far < MOST and moved > 1e-3 * float(base.norm())
    wrong += not ok
    print(f"{what}: differs by {far:.1e}" + ("" if ok else ", which is wrong"))


def in_diffusers(run, strength):
    m = model()
    m.load_lora_adapter(f"{run}/checkpoint-5", weight_name="pytorch_lora_weights.safetensors",
                        prefix="transformer")
    if strength != 1:
        m.set_adapters(next(iter(m.peft_config)), strength)
    return output(m)


def in_peft(kind, run, strength):
    """LoKr's modules of two whole matrices have the scale 1 here, and alpha / rank in PEFT."""
    f = {k.removeprefix("transformer."): v for k, v in
         load_file(f"{run}/checkpoint-5/pytorch_lora_weights.safetensors").items()
         if not k.endswith(".alpha")}
    modules = sorted({k.rsplit(".", 1)[0] for k in f})
    whole = {n: RANK for n in modules if n + ".lokr_w1" in f and n + ".lokr_w2" in f}
    more = {} if kind == "loha" else {"decompose_factor": 2 if "factor" in str(run) else -1}
    config = LoHaConfig if kind == "loha" else LoKrConfig
    m = inject_adapter_in_model(config(r=RANK, alpha=ALPHA, alpha_pattern=whole,
                                       target_modules=modules, **more), model())
    assert not set_peft_model_state_dict(m, f).unexpected_keys
    for layer in m.modules():
        if strength != 1 and hasattr(layer, "set_scale"):
            layer.set_scale("default", strength)
    return output(m)


def in_lycoris(run, file, strength):
    f = {}
    for name, t in load_file(f"{run}/checkpoint-5/{file}.safetensors").items():
        name = name.replace("lora_unet__", "").removeprefix("transformer.")
        module, factor = name.split(".", 1) if file == "lora_kohya" else name.rsplit(".", 1)
        f["lycoris_" + module.replace(".", "_") + "." + factor] = t
    m = model()
    network, _ = create_lycoris_from_weights(strength, None, m, weights_sd=f)
    network.apply_to()
    return output(m)


def in_comfyui(run, strength):
    """ComfyUI divides the sum by the lengths of the base's rows."""
    m = model()
    weights, files = m.state_dict(), load_file(f"{run}/checkpoint-5/lora_comfyui.safetensors")
    for key in [k for k in files if k.endswith(".dora_scale")]:
        module = key.removesuffix(".dora_scale")
        w = weights[module.removeprefix("diffusion_model.") + ".weight"]
        f = {k.removeprefix(module + "."): t for k, t in files.items()
             if k.startswith(module + ".")}
        if "lora_up.weight" in f:
            new = w + f["lora_up.weight"] @ f["lora_down.weight"] * float(f["alpha"]) / RANK
        else:
            new = w + change("", f)
        new = new * (files[key] / w.norm(dim=1, keepdim=True))
        w.copy_(w + strength * (new - w))
    return output(m)


base = output(model())
for run in RUNS:
    kind = pathlib.Path(run).name.split("-")[0]
    pair = kind in ("lora", "rslora", "dora")
    for s in (1, 0.5):
        want = trained(kind, run, s)
        if pair:
            same(f"{run} in diffusers at {s}", in_diffusers(run, s), want, base)
        elif "whole" not in run and kind not in DECOMPOSED:
            # PEFT decides by the rank alone what is whole
            same(f"{run} in PEFT at {s}", in_peft(kind, run, s), want, base)
        for file in ["lora_kohya"] + ([] if pair else ["pytorch_lora_weights"]):
            same(f"{run}/{file} in LyCORIS at {s}", in_lycoris(run, file, s),
                 trained(kind, run, s, "length") if kind in DECOMPOSED else want, base)
        if kind in DECOMPOSED:
            same(f"{run} by ComfyUI's formula at {s}", in_comfyui(run, s),
                 trained(kind, run, s, "change"), base)
sys.exit(wrong > 0)
