"""Fifty steps of optimisers on weights that fall into a bowl: optimizers.safetensors.

The gradient of a weight is slope * (weight - target), so that a golden holds slopes and targets in
place of gradients, and later steps depend on earlier ones. CASE/STEP/NAME are the weights after
STEP + 1 steps, CASE/x/NAME those that an optimiser evaluates after the last, if they are others,
and CASE/d/STEP Prodigy's d."""
import json

import prodigyopt
import schedulefree
import torch
from transformers.optimization import Adafactor

import golden

STEPS, KEPT = 50, (0, 9, 24, 49)
SHAPES = {"weight": (24, 10), "wide": (6, 20), "bias": (24,)}


class Exact:
    """torch, in which bfloat16 is f32."""
    bfloat16 = torch.float32

    def __getattr__(self, name):
        return getattr(torch, name)


class Muon:
    """torch's Muon for matrices, with its products in f32, and its AdamW for the rest."""

    def __init__(self, weights, lr, **settings):
        matrices = [w for w in weights if w.ndim == 2]
        self.parts = [torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, **settings),
                      torch.optim.AdamW([w for w in weights if w.ndim != 2], lr=lr,
                                        betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)]
        self.param_groups = []

    def step(self):
        module = torch.optim._muon
        module.torch = Exact()
        self.parts[0].step()
        module.torch = torch
        self.parts[1].step()


CASES = {
    # With d0 1e-4 and d_coef 1, prodigyopt in f32 differs from itself in f64 by 4e-4, here by 2e-6.
    "prodigy": lambda w: prodigyopt.Prodigy(w, d0=1e-3, d_coef=0.03),
    "prodigy-safe": lambda w: prodigyopt.Prodigy(w, d0=1e-4, d_coef=0.5, weight_decay=0.02,
                                                 beta3=0.98, growth_rate=1.5,
                                                 use_bias_correction=True, safeguard_warmup=True),
    "adafactor": lambda w: Adafactor(w, weight_decay=0.01),
    "adafactor-init": lambda w: Adafactor(w, warmup_init=True),
    "adafactor-rate": lambda w: Adafactor(w, lr=3e-3, relative_step=False, scale_parameter=False),
    "schedule-free": lambda w: schedulefree.AdamWScheduleFree(w, lr=5e-3, weight_decay=0.02,
                                                              warmup_steps=8),
    "muon": lambda w: Muon(w, lr=5e-3, adjust_lr_fn="match_rms_adamw"),
    "muon-original": lambda w: Muon(w, lr=5e-3, nesterov=False, momentum=0.9, ns_steps=4),
}


def make(out):
    generator = torch.Generator().manual_seed(12)
    tensors, slopes, targets = {}, {}, {}
    for k, shape in SHAPES.items():
        slopes[k] = 0.1 + torch.rand(shape, generator=generator)
        targets[k] = torch.randn(shape, generator=generator) * 0.5
        tensors |= {"slope/" + k: slopes[k].numpy(), "target/" + k: targets[k].numpy(),
                    "start/" + k: golden.fill(k, shape)}
    for case, opened in CASES.items():
        weights = {k: torch.nn.Parameter(torch.from_numpy(golden.fill(k, v).copy()))
                   for k, v in SHAPES.items()}
        optimizer = opened(list(weights.values()))
        if hasattr(optimizer, "train"):
            optimizer.train()
        for step in range(STEPS):
            for k, w in weights.items():
                w.grad = slopes[k] * (w.detach() - targets[k])
            optimizer.step()
            for k, w in weights.items():
                if step in KEPT:
                    tensors[f"{case}/{step}/{k}"] = w.detach().numpy().copy()
            if case.startswith("prodigy") and step in KEPT:
                tensors[f"{case}/d/{step}"] = torch.tensor(
                    [optimizer.param_groups[0]["d"]]).numpy()
        if hasattr(optimizer, "eval"):
            optimizer.eval()
            for k, w in weights.items():
                tensors[f"{case}/x/{k}"] = w.detach().numpy().copy()
    golden.save(out / "optimizers.safetensors", tensors, names=json.dumps(list(SHAPES)))
