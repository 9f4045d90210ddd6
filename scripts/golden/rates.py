"""Learning rates of diffusers' schedules, 101 steps each: rates.safetensors."""
import json

import numpy as np
import torch
from diffusers.optimization import get_scheduler

import golden

STEPS, RATE = 100, 1e-4
CASES = {
    "constant": {},
    "constant_with_warmup": {"num_warmup_steps": 10},
    "linear": {"num_warmup_steps": 10},
    "cosine": {"num_warmup_steps": 10},
    "cosine_with_restarts": {"num_warmup_steps": 10, "num_cycles": 3},
    "polynomial": {"num_warmup_steps": 10, "power": 2.5},
    "piecewise_constant": {"step_rules": "1:10,0.1:30,0.5:60,0.005"},
}


def make(out):
    tensors = {}
    for name, given in CASES.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
        s = get_scheduler(name, optimizer, num_training_steps=STEPS, **given)
        factors = []
        for _ in range(STEPS + 1):
            factors.append(s.get_last_lr()[0] / RATE)
            optimizer.step()
            s.step()
        tensors[name] = np.array(factors, dtype=np.float32)
    golden.save(out / "rates.safetensors", tensors, cases=json.dumps(CASES))
