#!/usr/bin/env python3
"""Makes tests/golden: results of diffusers, transformers and peft on tiny models.

    python3 scripts/golden.py [PART...] [--out tests/golden]

A PART is a file of scripts/golden/; the default is all of them. The tests read the golden files and
need neither this script nor its libraries. Weights are not stored: a tensor's values are computed
from its name (`fill` below, and golden_fill in tests/lib/golden.c), so that a file holds inputs,
outputs and gradients only. Its metadata holds `config` (the component's config.json), `weights`
({name: shape}), and the versions of the libraries. Everything is computed in f32 on one thread with
fixed seeds.
"""
import argparse
import importlib.util
import inspect
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent


def splitmix(x):
    """Returns an output of SplitMix64 (Steele, Lea & Flood 2014) for each u64 of x."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def name_hash(name):
    """Returns the 64-bit FNV-1a hash of a name."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & (2**64 - 1)
    return h


def fill(name, shape):
    """Returns the values of a weight: uniform numbers whose size keeps activations near 1. Vectors
    named `weight` (norms) or `std` lie around 1, other vectors around 0; matrices and kernels are
    divided by the root of the number of elements in a row."""
    n = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        bits = splitmix(np.uint64(name_hash(name)) + np.arange(n, dtype=np.uint64))
    u = (bits >> np.uint64(40)).astype(np.float64) / 2**23 - 1            # [-1,1), 24 bits
    if len(shape) > 1:
        u *= np.sqrt(3.0 * shape[0] / n)
    elif name.endswith(("weight", "std", "var")):
        u = 1 + 0.25 * u
    else:
        u *= 0.25
    return u.astype(np.float32).reshape(shape)


def fill_module(module, skip=()):
    """Fills every parameter of a torch module by its name; returns {name: shape}."""
    shapes = {}
    for name, p in module.state_dict().items():
        if name in skip:
            continue
        p.copy_(torch.from_numpy(fill(name, tuple(p.shape))))
        shapes[name] = list(p.shape)
    return shapes


def filled(cls, config, hidden="_", skip=()):
    """Makes a module of diffusers with filled weights; returns it and its metadata. Fields of its
    config whose names begin with `hidden` are left out."""
    module = cls(**config).eval()
    shapes = fill_module(module, skip)
    kept = {k: v for k, v in module.config.items() if not k.startswith(hidden)}
    return module, dict(config=dict(kept, _class_name=cls.__name__), weights=shapes)


def rounded(model, dtype):
    """Rounds the weights to dtype, as in a file of this type; returns a function that restores
    them."""
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    for p in model.parameters():
        p.copy_(p.to(dtype).float())
    return lambda: model.load_state_dict(kept)


def draw(name, shape):
    """Returns standard normals for an input, which depend on its name alone."""
    seed = name_hash(name) % 2**63
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def save(path, tensors, **meta):
    """Writes {name: tensor} with metadata, whose values are stored as JSON unless they are
    strings."""
    import diffusers
    import transformers
    meta["made_by"] = (f"torch {torch.__version__.split('+')[0]}, "
                       f"diffusers {diffusers.__version__}, "
                       f"transformers {transformers.__version__}")
    meta = {k: v if isinstance(v, str) else json.dumps(v, sort_keys=True) for k, v in meta.items()}
    arrays = {}
    for name, t in tensors.items():
        a = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
        arrays[name] = np.ascontiguousarray(a)
    path = pathlib.Path(path)
    save_file(arrays, str(path), metadata=meta)
    print(f"{path.name}: {len(arrays)} tensors, {path.stat().st_size:,} bytes")


def part(name):
    """Imports scripts/golden/NAME.py and returns the module."""
    spec = importlib.util.spec_from_file_location("golden_" + name, HERE / "golden" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(name, file, case, prefix, v16, grads16, floor=1e-2):
    """Prints how far diffusers' bf16 is from its f32 in a case; a test's tolerance must allow for
    as much."""
    def size(x):
        return float(x.pow(2).mean().sqrt())
    most = max(size(g) for k, g in file.items() if k.startswith(prefix))
    far = {n: size(g - file[prefix + n]) / max(size(file[prefix + n]), floor * most)
           for n, g in grads16.items()}
    worst = sorted(far, key=far.get)[-3:]
    y, y16 = file[case + "/output"], v16["output"].float()
    print(f"{name} {case}: bf16 against f32: output {float((y - y16).norm() / y.norm()):.2e},",
          ", ".join(f"{n} {far[n]:.2e}" for n in worst))


def tiny(cls, config, less=()):
    """Returns a small model of a class with the values of `fill`, its config.json, and the
    shapes of its weights. Those whose names end with a word of `less` have 1 less: they lie around
    0, as those of norms that are stored so. The values are rounded to bf16, the type of the files
    that tests write, so that a run in bf16 rounds only activations."""
    torch.manual_seed(0)
    model = cls(**config).eval()
    shapes = fill_module(model)
    for name, p in model.state_dict().items():
        p.sub_(1) if name.endswith(tuple(less)) else None
        p.copy_(p.to(torch.bfloat16))
    return model, {"_class_name": cls.__name__, **config}, shapes


def plain(name):
    """Returns a parameter's name in files, which lacks the name of PEFT's adapter."""
    return name.replace(".default.", ".")


def with_lora(model, lora):
    """Returns the model with PEFT's factors A and B, which are filled by their names; only these
    factors are trained."""
    from peft import LoraConfig, inject_adapter_in_model
    model = inject_adapter_in_model(LoraConfig(init_lora_weights=False, **lora), model)
    for n, p in model.named_parameters():
        p.requires_grad_(".lora_" in n)
        if p.requires_grad:
            p.copy_(torch.from_numpy(fill(plain(n), tuple(p.shape))))
    return model


def step(model, config, v, predict):
    """Adds the output and the loss to a case's tensors; returns the tensors and the gradients.
    predict may return the output and a term of the loss that is added to its mean square."""
    with torch.enable_grad():
        model.zero_grad()
        y = predict(model, config, v)
        y, more = y if isinstance(y, tuple) else (y, 0)
        loss = (y.float() - v["target"]).pow(2).mean() + more
        loss.backward()
    v.update(output=y.detach(), loss=loss.detach())
    return v, {plain(n): p.grad.float().clone() for n, p in model.named_parameters()
               if p.grad is not None}


def noisy(case, shape, times, rows, width, length=None):
    """Returns the tensors that a case of any transformer has: latents and their target of a shape
    [B,C,f,h,w], B times, and texts [B,rows,width], which are zeros beyond their lengths."""
    v = {"x": draw("x " + case, shape), "target": draw("target " + case, shape),
         "t": torch.tensor(times), "text": draw("text " + case, (shape[0], rows, width))}
    if length:
        v["length"] = torch.tensor(length, dtype=torch.int32)
        for i, n in enumerate(length):
            v["text"][i, n:] = 0
    return v


def transformer(path, cls, config, cases, inputs, predict, lora=None, fields={}, less=()):
    """Writes the golden of a transformer: the cases {NAME: shape}, the gradients of `base`, and
    the case `lora` of a LoRA on the same weights. inputs(config.json, NAME, *shape) returns a
    case's tensors; predict(model, config.json, tensors) returns the output. `fields` are those of
    config.json that the class does not have, `less` as in `tiny`. The function prints how far bf16
    is from f32."""
    file, variants = {}, [("base", "grad/", None)]
    if lora:
        variants.append(("lora", "lora/grad/", lora))
    model, whole, shapes = tiny(cls, config, less)
    whole = {**whole, **fields}
    for case in cases:
        if case != "base":
            v, _ = step(model, whole, inputs(whole, case, *cases[case]), predict)
            file.update({f"{case}/{k}": t for k, t in v.items()})
    for case, prefix, adapter in variants:
        def run(dtype):
            model = tiny(cls, config, less)[0]
            model = (with_lora(model, adapter) if adapter else model).to(dtype)
            return step(model, whole, inputs(whole, case, *cases["base"]), predict)
        v, grads = run(torch.float32)
        file.update({f"{case}/{k}": t for k, t in v.items()})
        file.update({prefix + n: g for n, g in grads.items()})
        report(path.stem, file, case, prefix, *run(torch.bfloat16))
    meta = {**({"lora": lora} if lora else {}), **({"less": list(less)} if less else {})}
    save(path, file, config=whole, weights=shapes, **meta)


def narrowed(module, function, was, now):
    """Returns a function of a module with `now` in place of the code `was`, which holds the width
    of the model that the function is for."""
    source, scope = inspect.getsource(getattr(module, function)), dict(vars(module))
    assert was in source
    exec(source.replace(was, now), scope)
    return scope[function]


def lora_names(path, rows, name_in_file, convert, width=4, rank=5):
    """Writes the golden of the names of a LoRA's modules, {name of the first authors: rows of B,
    divided by the width}: the factors by these names, and those that diffusers' reader
    convert({name_in_file(name, half): factor}) returns."""
    file, theirs = {}, {}
    for name, n in rows.items():
        for half, shape in (("A", (rank, width)), ("B", (n * width, rank))):
            t = draw(half + name, shape)
            file[f"theirs/{name}.lora_{half}.weight"] = theirs[name_in_file(name, half)] = t
    ours = convert(theirs)
    file.update({"ours/" + k.removeprefix("transformer."): v.clone() for k, v in ours.items()})
    save(path, file)


def in_kohya(name, half):
    """Returns the name of a factor in a file of kohya's sd-scripts."""
    return f"lora_unet_{name.replace('.', '_')}.lora_{'down' if half == 'A' else 'up'}.weight"


def in_comfyui(name, half):
    """Returns the name of a factor in a file of ComfyUI."""
    return f"diffusion_model.{name}.lora_{half}.weight"


def first_file(path, cls, config, convert, shapes, v, predict):
    """Writes the golden of a first authors' file whose weights have these shapes: the case `base`
    of the tensors v, of the model that convert(weights) is read into."""
    model = cls(**config).eval()
    model.load_state_dict(convert({n: torch.from_numpy(fill(n, s)) for n, s in shapes.items()}))
    v, _ = step(model, config, v, predict)
    save(path, {f"base/{k}": t for k, t in v.items()}, config={},
         weights={n: list(s) for n, s in shapes.items()})


def packed(x):
    """Returns latents [B,C,1,h,w] as tokens [B,hw/4,4C] of two by two."""
    b, c, _, h, w = x.shape
    x = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, h * w // 4, c * 4)


def unpacked(x, like):
    """Returns tokens as the latents that `packed` makes them of."""
    b, c, _, h, w = like.shape
    x = x.reshape(b, h // 2, w // 2, c, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return x.reshape(like.shape)


def main():
    parts = sorted(p for p in (HERE / "golden").glob("*.py"))
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("part", nargs="*", help="; ".join(p.stem for p in parts))
    a.add_argument("--out", default=str(HERE.parent / "tests" / "golden"))
    args = a.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    sys.modules["golden"] = sys.modules["__main__"]      # the parts import this file as golden
    pathlib.Path(args.out).mkdir(parents=True, exist_ok=True)
    for p in parts:
        if args.part and p.stem not in args.part:
            continue
        with torch.no_grad():
            part(p.stem).make(pathlib.Path(args.out))


if __name__ == "__main__":
    main()
