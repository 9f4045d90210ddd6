"""Linear layers with LoRA and dropout, whose masks are the counter-based draws of
docs/sampling.md: outputs and gradients, by PEFT's own layer for dropout of the input and by the
formula of kohya's LoRA module for the others; and with LoHa and LoKr by LyCORIS's modules, sample
by sample: dropout.safetensors."""
import numpy as np
import torch
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule
from peft import LoraConfig, inject_adapter_in_model

import golden

SEED, KEY, ROW, MICRO = 0xFEDCBA9876543210, 0x1122334455667788, 5, 9
INPUT, NEURON, RANK, MODULE = 82, 83, 84, 85
BATCH, TOKENS = 3, 5
# probabilities of input, neuron, rank, module; in, out, rank
CASES = {
    "input": ((0.4, 0, 0, 0), (7, 6, 3)),
    "neuron": ((0, 0.3, 0, 0), (7, 6, 3)),
    "rank": ((0, 0, 0.5, 0), (8, 6, 6)),
    "module": ((0, 0, 0, 0.5), (8, 6, 4)),
    "all": ((0.2, 0.25, 0.3, 0.35), (9, 5, 7)),
    "down": ((0.4, 0.2, 0, 0), (7, 6, 3)),           # the second layer of a feed-forward
}
ALPHA = 2.0
# probabilities; whether LyCORIS divides by the share of the rows that stay; whether it adds the
# change to the output, where alone it drops values; LoKr's module there drops no rows
ADAPTERS = {
    "input": ((0.4, 0, 0, 0), False, True),
    "neuron": ((0, 0.3, 0, 0), False, True),
    "rank": ((0, 0, 0.5, 0), False, False),
    "share": ((0, 0, 0.4, 0), True, False),
    "module": ((0, 0, 0, 0.5), False, False),
    "two": ((0, 0, 0.3, 0.35), True, False),
    "all": ((0.2, 0.25, 0, 0.35), False, True),
}
MODULES = {"loha": (LohaModule, dict(lora_dim=3, alpha=6)),
           "lokr": (LokrModule, dict(lora_dim=1, alpha=2, factor=2))}
FACTORS = {"loha": ["hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"],
           "lokr": ["lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b"]}
IN, OUT = 12, 8


def words(purpose, row, n):
    """Returns the first n words of a sample's draws."""
    quads = np.arange((n + 3) // 4, dtype=np.uint64)
    counter = [quads] + [np.full_like(quads, v) for v in (row, MICRO, purpose)]
    return np.stack(golden.part("vae_ltx").philox(SEED ^ KEY, counter), 1).reshape(-1)[:n]


def keep(purpose, p, shape):
    """Returns 1 for each value that stays, 0 for the others; shape[0] counts samples."""
    n = int(np.prod(shape[1:]))
    rows = [words(purpose, ROW + b, n) >= int(p * 2**32) for b in range(shape[0])]
    return torch.from_numpy(np.stack(rows).reshape(shape).astype(np.float32))


class Peft(torch.nn.Module):
    """PEFT's layer, whose dropout uses the given mask."""

    def __init__(self, w, a, b, rank, mask, p):
        super().__init__()
        self.lin = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        self.lin.weight.data = w
        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=ALPHA * rank, lora_dropout=p,
                                           target_modules=["lin"]), self)
        self.lin.lora_A["default"].weight = a
        self.lin.lora_B["default"].weight = b
        self.mask, self.p = mask, p

    def forward(self, x):
        before = torch.nn.functional.dropout
        torch.nn.functional.dropout = lambda v, p, training, inplace=False: v * self.mask / (1 - p)
        try:
            return self.lin(x)
        finally:
            torch.nn.functional.dropout = before


def lora(x, w, a, b, p, case):
    rank = a.shape[0]
    if case == "input":
        return Peft(w, a, b, rank, keep(INPUT, p[0], x.shape), p[0])(x)
    h = (x * keep(INPUT, p[0], x.shape) / (1 - p[0]) if p[0] else x) @ a.T
    scale = ALPHA
    if p[1]:
        h = h * keep(NEURON, p[1], h.shape) / (1 - p[1])
    if p[2]:
        h = h * keep(RANK, p[2], (BATCH, rank)).unsqueeze(1)
        scale = scale / (1 - p[2])
    if p[3]:
        h = h * keep(MODULE, p[3], (BATCH, 1)).unsqueeze(1)
    return x @ w.T + (h @ b.T) * scale


class Masked(torch.nn.Module):
    """Stands for the dropout of values."""

    def __init__(self, mask, p):
        super().__init__()
        self.mask, self.p = mask, p

    def forward(self, y):
        return y * self.mask / (1 - self.p)


def adapter(tensors, kind, case):
    """A layer with LyCORIS's module, whose draws for each sample are the given ones."""
    p, share, bypass = ADAPTERS[case]
    name = f"{kind}-{case}"
    opened, settings = MODULES[kind]
    lin = torch.nn.Linear(IN, OUT, bias=False)
    lin.weight.data = torch.from_numpy(golden.fill(name + " w", (OUT, IN)).copy())
    lin.weight.requires_grad_(False)
    m = opened(name, lin, dropout=p[1], rank_dropout=p[2], module_dropout=p[3],
               rank_dropout_scale=share, bypass_mode=bypass, **settings)
    m.train()
    for i, factor in enumerate(FACTORS[kind]):
        if hasattr(m, factor):
            t = getattr(m, factor)
            t.data = torch.from_numpy(golden.fill(f"{name} {factor}", tuple(t.shape)).copy())
            tensors[f"{name}/f{i}"] = t.detach().clone().numpy()
    x = torch.from_numpy(golden.fill(name + " x", (BATCH, TOKENS, IN)).copy()).requires_grad_()
    inputs, values = keep(INPUT, p[0], x.shape), keep(NEURON, p[1], (BATCH, TOKENS, OUT))
    rows, modules = keep(RANK, p[2], (BATCH, OUT)), keep(MODULE, p[3], (BATCH, 1))
    before, ys = torch.rand, []
    try:
        for b in range(BATCH):
            draws = ([modules[b]] if p[3] else []) + ([rows[b]] if p[2] else [])
            # a mask of 1 stands for a draw of 1, above every probability, and 0 for one below
            torch.rand = lambda *shape, draws=draws, **_: draws.pop(0).clone()
            m.drop = Masked(values[b], p[1])
            if p[0]:
                diff = m.bypass_forward_diff
                m.bypass_forward_diff = lambda v, scale=1, b=b: diff(
                    v * inputs[b] / (1 - p[0]), scale=scale)
            ys.append(m.forward(x[b]))
            if p[0]:
                del m.bypass_forward_diff
    finally:
        torch.rand = before
    y = torch.stack(ys)
    dy = torch.from_numpy(golden.fill(name + " dy", tuple(y.shape)).copy())
    y.backward(dy)
    tensors.update({f"{name}/w": lin.weight.numpy(), f"{name}/x": x.detach().numpy(),
                    f"{name}/dy": dy.numpy(), f"{name}/y": y.detach().numpy(),
                    f"{name}/grad_x": x.grad.numpy(),
                    f"{name}/p": np.array([*p, share], dtype=np.float32),
                    f"{name}/scale": np.array([m.scale], dtype=np.float32)})
    for i, factor in enumerate(FACTORS[kind]):
        if hasattr(m, factor):
            tensors[f"{name}/grad_f{i}"] = getattr(m, factor).grad.numpy()


@torch.enable_grad()
def make(out):
    tensors = {}
    for name, (p, (n_in, n_out, rank)) in CASES.items():
        leaf = {k: torch.from_numpy(golden.fill(f"{name} {k}", s).copy()).requires_grad_()
                for k, s in {"x": (BATCH, TOKENS, n_in), "a": (rank, n_in),
                             "b": (n_out, rank)}.items()}
        leaf["a"], leaf["b"] = (torch.nn.Parameter(leaf[k].detach()) for k in "ab")
        w = torch.from_numpy(golden.fill(name + " w", (n_out, n_in)).copy())
        x = leaf["x"]
        if name == "down":
            up = torch.from_numpy(golden.fill("down up", (n_in, n_in)).copy())
            tensors["down/up"] = up.numpy()
            x = torch.nn.functional.gelu(x @ up.T, approximate="tanh")
        y = lora(x, w, leaf["a"], leaf["b"], p, name)
        dy = torch.from_numpy(golden.fill(name + " dy", tuple(y.shape)).copy())
        y.backward(dy)
        tensors.update({f"{name}/{k}": v.detach().numpy() for k, v in leaf.items()})
        tensors.update({f"{name}/grad_{k}": v.grad.numpy() for k, v in leaf.items()})
        tensors.update({f"{name}/w": w.numpy(), f"{name}/dy": dy.numpy(),
                        f"{name}/y": y.detach().numpy(),
                        f"{name}/p": np.array(p, dtype=np.float32)})
    for kind in MODULES:
        for case in ADAPTERS:
            adapter(tensors, kind, case)
    golden.save(out / "dropout.safetensors", tensors)
