"""Sampling with DDIM and the stochastic DPM-Solver++ of CogVideoX, in f64, from a stand-in for a
model: v = x / 2 - t / 1000 + w. The noise is given; where a step draws twice, the first draw is
spoilt, so that using it would show."""
import torch
from diffusers import CogVideoXDDIMScheduler, CogVideoXDPMScheduler
from diffusers.schedulers import scheduling_dpm_cogvideox as dpm_module

import golden

WIDTH, LENGTHS, SHIFTS = 6, (50, 28, 10, 7, 1), {"s1": 1.0, "s3": 3.0}
TIMES = {"trailing": (1, 2, 7, 10, 16, 28, 30, 48, 50, 61, 96, 999, 1000),
         "linspace": (1, 7, 10, 50), "leading": (1, 7, 10, 50)}
FIELDS = dict(prediction_type="v_prediction", rescale_betas_zero_snr=True,
              timestep_spacing="trailing")


def walk(scheduler, x, w, noise, steps):
    """The sample after each step."""
    scheduler.set_timesteps(steps)
    times, before, last, out = scheduler.timesteps, None, None, []
    stochastic = isinstance(scheduler, CogVideoXDPMScheduler)
    for i, t in enumerate(times):
        v = x / 2 - t.double() / 1000 + w
        if stochastic:
            second = last is not None and t - 1000 // steps >= 0
            draws = [torch.full_like(x, 1e9), noise[i]] if second else [noise[i]]
            dpm_module.randn_tensor = lambda *a, **k: draws.pop(0)
            x, last = scheduler.step(v, last, t, before, x, return_dict=False)
            assert not draws
            before = t
        else:
            x = scheduler.step(v, t, x, return_dict=False)[0]
        out.append(x)
    return torch.stack(out)


def make(out):
    x, w = golden.draw("start", (WIDTH,)).double(), golden.draw("w", (WIDTH,)).double()
    noise = golden.draw("noise", (max(LENGTHS), WIDTH)).double()
    tensors = {"start": x, "w": w, "noise": noise}
    for name, shift in SHIFTS.items():
        for kind, cls in (("ddim", CogVideoXDDIMScheduler), ("dpm", CogVideoXDPMScheduler)):
            for steps in LENGTHS:
                s = cls(snr_shift_scale=shift, **FIELDS)
                tensors[f"{kind}.{name}.{steps}"] = walk(s, x, w, noise, steps)
            s = cls(snr_shift_scale=shift, **{**FIELDS, "timestep_spacing": "linspace",
                                              "set_alpha_to_one": False})
            tensors[f"{kind}.{name}.linspace"] = walk(s, x, w, noise, 10)
    for spacing, lengths in TIMES.items():
        for steps in lengths:
            s = CogVideoXDDIMScheduler(timestep_spacing=spacing)
            s.set_timesteps(steps)
            tensors[f"times.{spacing}.{steps}"] = s.timesteps[:steps].int()
    golden.save(out / "samplers.safetensors", tensors)
