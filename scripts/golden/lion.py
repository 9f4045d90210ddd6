"""Ten steps of lion-pytorch's Lion on two groups, with and without decay: lion.safetensors."""
import json

import torch
from lion_pytorch import Lion

import golden

STEPS, RATE, BETAS, DECAY = 10, 1e-2, (0.9, 0.99), 0.1
SHAPES = {"weight": (12, 25), "bias": (12,)}


def make(out):
    generator = torch.Generator().manual_seed(11)
    weights = {k: torch.nn.Parameter(torch.from_numpy(golden.fill(k, v).copy()))
               for k, v in SHAPES.items()}
    optimizer = Lion([{"params": [weights["weight"]]}, {"params": [weights["bias"]],
                                                        "weight_decay": 0.0}],
                     lr=RATE, betas=BETAS, weight_decay=DECAY)
    tensors = {"start/" + k: w.detach().numpy().copy() for k, w in weights.items()}
    for step in range(STEPS):
        for k, w in weights.items():
            w.grad = torch.randn(w.shape, generator=generator) * 0.1
            w.grad.flatten()[:3] = 0.0
            tensors[f"grad/{step}/{k}"] = w.grad.numpy().copy()
        optimizer.step()
        for k, w in weights.items():
            tensors[f"step/{step}/{k}"] = w.detach().numpy().copy()
    golden.save(out / "lion.safetensors", tensors, names=json.dumps(list(SHAPES)))
