"""Ten steps of torch's AdamW with groups of parameters, each with a LambdaLR:
groups.safetensors."""
import json
import math

import numpy as np
import torch

import golden

STEPS, WARMUP, DECAY, CLIP = 10, 3, 0.5, 0.1
BLOCK = "layers.0.seq_modeling_block."
SHAPES = {
    BLOCK + "q.weight": (6, 5), BLOCK + "q.bias": (6,), BLOCK + "q_norm.weight": (6,),
    BLOCK + "ssm.ttt.W1": (2, 5, 4), BLOCK + "ssm.ttt.b1": (2, 1, 4),
    BLOCK + "ssm.ttt.learnable_ttt_lr_weight": (2, 1, 5),
    BLOCK + "forward_ssm_gating_text.gating_alpha": (5,),
}
NO_DECAY = ("bias", "norm", "b1", "b2")
RATES = {"base": (1e-2, 1e-3, "linear"), "ttt": (1e-1, 1e-3, "cosine")}


def factor(rate, end, shape):
    """Returns LambdaLR's function: a warm-up that begins with its first step, then the fall."""
    def at(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        done = (step - WARMUP) / (STEPS - WARMUP)
        left = 1 - done if shape == "linear" else (1 + math.cos(math.pi * done)) / 2
        return (end + (rate - end) * left) / rate
    return at


def make(out):
    generator = torch.Generator().manual_seed(7)
    weights = {k: torch.nn.Parameter(torch.from_numpy(golden.fill(k, v).copy()))
               for k, v in SHAPES.items()}
    groups = {}
    for name, w in weights.items():
        group = "ttt" if "ttt" in name or "ssm" in name else "base"
        decay = 0.0 if any(part in name for part in NO_DECAY) else DECAY
        groups.setdefault((group, decay), []).append(w)
    optimizer = torch.optim.AdamW(
        [{"params": v, "lr": RATES[k[0]][0], "weight_decay": k[1]} for k, v in groups.items()],
        betas=(0.9, 0.95), eps=1e-8)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [factor(*RATES[k[0]]) for k in groups])
    tensors = {"start/" + k: w.detach().numpy().copy() for k, w in weights.items()}
    rates = []
    for step in range(STEPS):
        rates.append([dict(zip((k[0] for k in groups), scheduler.get_last_lr()))[name]
                      for name in RATES])
        for k, w in weights.items():
            w.grad = torch.randn(w.shape, generator=generator) * 0.1
            tensors[f"grad/{step}/{k}"] = w.grad.numpy().copy()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        scheduler.step()
        for k, w in weights.items():
            tensors[f"step/{step}/{k}"] = w.detach().numpy().copy()
    tensors["rates"] = np.array(rates, dtype=np.float32)
    golden.save(out / "groups.safetensors", tensors, names=json.dumps(list(SHAPES)))
