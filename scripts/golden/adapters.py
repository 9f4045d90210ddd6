"""Fifty steps of AdamW on the factors of adapters of two layers, by PEFT and by LyCORIS:
adapters.safetensors.

The layers are a feed-forward, down(gelu(up(x))), whose weights are frozen. CASE/start/NAME are the
factors before the first step, CASE/end/NAME those after the last, CASE/loss the losses, and CASE/y
and CASE/half the output then at strength 1 and 0.5."""
import json

import torch
from peft import LoHaConfig, LoKrConfig, LoraConfig, inject_adapter_in_model
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule

import golden

STEPS, ROWS, IN, HIDDEN, OUT = 50, 6, 12, 24, 16
TARGETS = ["up", "down"]


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(IN, HIDDEN), torch.nn.Linear(HIDDEN, OUT)
        for name, p in self.named_parameters():
            p.data = torch.from_numpy(golden.fill(name, tuple(p.shape)))

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh"))


class Peft:
    """PEFT's adapter; a factor's name lacks that of the adapter."""

    def __init__(self, config):
        self.model = inject_adapter_in_model(config, Layers())

    def factors(self):
        for name, p in self.model.named_parameters():
            if ".base_layer." in name:
                p.requires_grad_(False)
            else:
                name = name.replace(".default", "")
                yield name.replace("_vector.weight", "_vector"), p

    def strength(self, by):
        for layer in (self.model.up, self.model.down):
            layer.scaling["default"] *= by


class Lycoris:
    """LyCORIS's modules around the layers."""

    def __init__(self, module, **settings):
        self.model = Layers().requires_grad_(False)
        self.of = {t: module(t, getattr(self.model, t), **settings) for t in TARGETS}
        for m in self.of.values():
            m.apply_to()

    def factors(self):
        for target, m in self.of.items():
            for name, p in m.named_parameters():
                if not name.startswith("org_module"):
                    yield f"{target}.{name}", p

    def strength(self, by):
        """Of the change, as PEFT's, where magnitudes' own strength is another."""
        for m in self.of.values():
            if m.wd:
                m.scale *= by
            else:
                m.multiplier = by


# an adapter; its rank, alpha, factor, and whether LoKr's matrices are whole or both split
CASES = {
    "rslora": (lambda: Peft(LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=TARGETS)),
               (4, 6, -1, False, False)),
    "dora": (lambda: Peft(LoraConfig(r=4, lora_alpha=6, use_dora=True, target_modules=TARGETS)),
             (4, 6, -1, False, False)),
    "loha": (lambda: Peft(LoHaConfig(r=3, alpha=6, target_modules=TARGETS)),
             (3, 6, -1, False, False)),
    "lokr": (lambda: Peft(LoKrConfig(r=2, alpha=3, target_modules=TARGETS, decompose_factor=-1)),
             (2, 3, -1, False, False)),
    "lokr-both": (lambda: Peft(LoKrConfig(r=1, alpha=2, target_modules=TARGETS, decompose_both=True,
                                          decompose_factor=3)), (1, 2, 3, False, True)),
    "loha-lycoris": (lambda: Lycoris(LohaModule, lora_dim=3, alpha=1.5),
                     (3, 1.5, -1, False, False)),
    "lokr-factor": (lambda: Lycoris(LokrModule, lora_dim=1, alpha=0.5, factor=2),
                    (1, 0.5, 2, False, False)),
    "lokr-whole": (lambda: Lycoris(LokrModule, lora_dim=1, alpha=0.5, factor=4, full_matrix=True),
                   (1, 0.5, 4, True, False)),
    "doha": (lambda: Lycoris(LohaModule, lora_dim=3, alpha=1.5, weight_decompose=True),
             (3, 1.5, -1, False, False)),
    "dokr": (lambda: Lycoris(LokrModule, lora_dim=1, alpha=0.5, factor=2, weight_decompose=True),
             (1, 0.5, 2, False, False)),
    "dokr-both": (lambda: Lycoris(LokrModule, lora_dim=1, alpha=2, factor=3, decompose_both=True,
                                  weight_decompose=True), (1, 2, 3, False, True)),
    "dokr-whole": (lambda: Lycoris(LokrModule, lora_dim=1, alpha=0.5, factor=4, full_matrix=True,
                                   weight_decompose=True), (1, 0.5, 4, True, False)),
}


def make(out):
    tensors, shapes = {}, {}
    tensors["x"], tensors["target"] = golden.draw("x", (ROWS, IN)), golden.draw("t", (ROWS, OUT))
    for case, (opened, _) in CASES.items():
        adapter = opened()
        factors = dict(adapter.factors())
        for name, p in factors.items():
            if not name.endswith(("_vector", "dora_scale")):
                p.data = torch.from_numpy(golden.fill(f"{case}/{name}", tuple(p.shape)))
            tensors[f"{case}/start/{name}"] = p.detach().clone()
        optimizer = torch.optim.AdamW(factors.values(), lr=1e-2, betas=(0.9, 0.99), eps=1e-8,
                                      weight_decay=0.01)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = (adapter.model(tensors["x"]) - tensors["target"]).pow(2).mean()
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        for name, p in factors.items():
            tensors[f"{case}/end/{name}"] = p.detach().clone()
        tensors[f"{case}/loss"] = torch.stack(losses)
        with torch.no_grad():
            tensors[f"{case}/y"] = adapter.model(tensors["x"])
            adapter.strength(0.5)
            tensors[f"{case}/half"] = adapter.model(tensors["x"])
    shapes = {n: list(p.shape) for n, p in Layers().named_parameters()}
    settings = {case: list(s) for case, (_, s) in CASES.items()}
    golden.save(out / "adapters.safetensors", tensors, weights=shapes,
                settings=json.dumps(settings))
