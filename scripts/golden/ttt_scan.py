"""The inner scan of TTT-Linear and TTT-MLP by the reference's own Python code: output and every
gradient, in f64 and in f32.

The environment variable TTT_VIDEO_DIT names a checkout of the public repository
test-time-training/ttt-video-dit at the commit below:

    git clone https://github.com/test-time-training/ttt-video-dit && cd ttt-video-dit
    git checkout 6c316a7

Without the variable this part prints these lines and writes nothing. Results are those of f64; the
metadata `f32` has the distance of the reference's f32 from them, relative to the largest value, for
the test's tolerance."""
import hashlib
import importlib
import os
import pathlib
import sys
import types

import torch

import golden

COMMIT = "6c316a7"
FILES = ("ops/ttt_linear.py", "ops/ttt_mlp.py", "ops/utils.py", "utils.py")
SHA256 = "450882573f589af95fe9696280d6b148eff09cf39008a1cd82ff0e9dc81514df"

# name: layers, batch, tokens, heads, width, hidden width, mini-batch, group, size of the matrices,
# step size of a mini-batch. `real` has the widths, the start and the step size of the published
# TTT-MLP, where the inner norm divides by small deviations.
CASES = {
    "linear": (1, 2, 24, 2, 16, 16, 4, 2, 0.3, 0.5),
    "linear.wide": (1, 1, 64, 1, 64, 64, 16, 3, 0.1, 0.5),
    "mlp": (2, 2, 24, 2, 16, 64, 4, 2, 0.3, 0.2),
    "mlp.odd": (2, 1, 30, 2, 16, 64, 6, 2, 0.3, 0.2),
    "real": (2, 1, 64, 1, 64, 256, 16, 2, 0.02, 0.1 / 64),
}
NAMES = ("q", "k", "target", "eta", "gamma", "beta", "w1", "b1", "w2", "b2")


def reference(root):
    """Returns the reference's functions for one layer and for two, run without a compiler."""
    folder = pathlib.Path(root) / "ttt" / "models" / "ssm"
    found = hashlib.sha256(b"".join((folder / f).read_bytes() for f in FILES)).hexdigest()
    if found != SHA256:
        sys.exit(f"{folder}: {', '.join(FILES)} are not those of commit {COMMIT}")
    empty = {}                                 # libraries that the scan does not call
    for name, parts in (("einops", ("rearrange", "repeat")), ("wandb", ())):
        try:
            importlib.import_module(name)
        except ImportError:
            empty[name] = types.ModuleType(name)
            empty[name].__dict__.update(dict.fromkeys(parts))
    sys.modules.update(empty)
    sys.path.insert(0, str(root))
    ops = importlib.import_module("ttt.models.ssm.ops")
    for name in empty:
        del sys.modules[name]
    torch.compiler.set_stance("force_eager")
    return {1: ops.ttt_linear, 2: ops.ttt_mlp}


def operands(name):
    """Returns a case's operands in f64; q and k have length 1, as in the reference's layer."""
    layers, b, n, h, d, e, m, _, size, step = CASES[name]

    def draw(what, *shape):
        return golden.draw(f"ttt_scan {name} {what}", shape).double()
    v = {x: torch.nn.functional.normalize(draw(x, b, n, h, d), dim=-1) for x in ("q", "k")}
    v["target"] = draw("target", b, n, h, d)
    v["eta"] = step / m * torch.sigmoid(draw("eta", b, n, h))
    v["gamma"], v["beta"] = 1 + 0.2 * draw("gamma", h, d), 0.2 * draw("beta", h, d)
    v["w1"], v["b1"] = size * draw("w1", h, d, e), size / 4 * draw("b1", h, 1, e)
    if layers == 2:
        v["w2"], v["b2"] = size * draw("w2", h, e, d), size / 4 * draw("b2", h, 1, d)
    return {k: x.float().double() for k, x in v.items()}, draw("dout", b, n, h, d).float().double()


def run(scan, case, v, dout):
    """Returns the output and the gradients of sum(output dout)."""
    _, b, n, h, d, _, m, group, _, _ = case
    v = {k: x.detach().requires_grad_() for k, x in v.items()}

    def batches(x):                            # [B,H,mini-batches,m,D]
        return x.transpose(1, 2).reshape(b, h, n // m, m, d)
    with torch.enable_grad():
        eta = v["eta"].transpose(1, 2).reshape(b, h, n // m, 1, m).repeat(1, 1, 1, m, 1)
        start = [v[k][None].expand(b, *v[k].shape) for k in NAMES[6:] if k in v]
        o = scan(batches(v["k"]), batches(v["q"]), batches(v["target"] + v["k"]), eta, v["gamma"],
                 v["beta"], *start, group)     # [B,mini-batches,m,H,D]
        o = o.reshape(b, n, h, d)
        (o * dout).sum().backward()
    return {"o": o.detach(), **{"d" + k: x.grad for k, x in v.items()}}


def make(out):
    root = os.environ.get("TTT_VIDEO_DIT")
    if not root:
        print(__doc__.split("\n\n", 1)[1], file=sys.stderr)
        return
    scans, file, far = reference(root), {}, {}
    for name, case in CASES.items():
        v, dout = operands(name)
        want = run(scans[case[0]], case, v, dout)
        single = run(scans[case[0]], case, {k: x.float() for k, x in v.items()}, dout.float())
        far[name] = max(float((single[k] - x).abs().max() / x.abs().max()) for k, x in want.items())
        print(f"ttt_scan {name}: f32 against f64 {far[name]:.2e}")
        for k, x in {**v, "dout": dout, **want}.items():
            file[f"{name}/{k}"] = x.float()
    golden.save(out / "ttt_scan.safetensors", file, f32=far,
                reference=f"test-time-training/ttt-video-dit {COMMIT}")
