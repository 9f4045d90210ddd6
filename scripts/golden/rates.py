"""Learning rates of diffusers' schedules, 101 steps each: rates.safetensors."""
import json

import numpy as np
import torch
from diffusers.optimization import get_polynomial_decay_schedule_with_warmup, get_scheduler

import golden

STEPS, RATE = 100, 1e-4
CASES = {
    "constant": {},
    "constant_with_warmup": {"num_warmup_steps": 10},
    "linear": {"num_warmup_steps": 10},
    "cosine": {"num_warmup_steps": 10},
    "cosine_with_restarts": {"num_warmup_steps": 10, "num_cycles": 3},
    "polynomial": {"num_warmup_steps": 10, "power": 2.5},
    "polynomial_end": {"num_warmup_steps": 10, "power": 0.8, "lr_end": 4e-7},
    "piecewise_constant": {"step_rules": "1:10,0.1:30,0.5:60,0.005"},
}


def make(out):
    tensors = {}
    for name, given in CASES.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
        s = (get_polynomial_decay_schedule_with_warmup(optimizer, num_training_steps=STEPS, **given)
             if "lr_end" in given
             else get_scheduler(name, optimizer, num_training_steps=STEPS, **given))
        factors = []
        for _ in range(STEPS + 1):
            factors.append(s.get_last_lr()[0] / RATE)
            optimizer.step()
            s.step()
        tensors[name] = np.array(factors, dtype=np.float32)
    golden.save(out / "rates.safetensors", tensors, cases=json.dumps(CASES))
