"""Sampling with DDIM and the stochastic DPM-Solver++ of CogVideoX, and with UniPC of Wan, in f64,
from a stand-in for a model: v = x / 2 - t / 1000 + w. The noise is given; where a step draws twice,
the first draw is spoilt, so that using it would show. Of UniPC, whose sigmas are those of f32, the
stand-in gets 1000 sigma, and `.t` has the scheduler's whole timesteps."""
import torch
from diffusers import CogVideoXDDIMScheduler, CogVideoXDPMScheduler, UniPCMultistepScheduler
from diffusers.schedulers import scheduling_dpm_cogvideox as dpm_module

import golden

WIDTH, LENGTHS, SHIFTS = 6, (50, 28, 10, 7, 1), {"s1": 1.0, "s3": 3.0}
TIMES = {"trailing": (1, 2, 7, 10, 16, 28, 30, 48, 50, 61, 96, 999, 1000),
         "linspace": (1, 7, 10, 50), "leading": (1, 7, 10, 50)}
UNIPC = {"s1": dict(flow_shift=1.0), "s3": dict(flow_shift=3.0),
         "terminal": dict(flow_shift=3.0, shift_terminal=0.1)}
FIELDS = dict(prediction_type="v_prediction", rescale_betas_zero_snr=True,
              timestep_spacing="trailing")


def walk(scheduler, x, w, noise, steps):
    """Returns the sample after each step."""
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


def walk_unipc(scheduler, x, w, steps):
    scheduler.set_timesteps(steps)
    scheduler.set_begin_index(0)
    scheduler.sigmas = scheduler.sigmas.double()
    x, out = x[None], []
    for t, sigma in zip(scheduler.timesteps, scheduler.sigmas):
        x = scheduler.step(x / 2 - sigma + w, t, x, return_dict=False)[0]
        out.append(x[0])
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
    for name, fields in UNIPC.items():
        # one level cannot be stretched
        for steps in LENGTHS[:4] if name == "terminal" else LENGTHS:
            s = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                        **fields)
            tensors[f"unipc.{name}.{steps}"] = walk_unipc(s, x, w, steps)
            tensors[f"unipc.{name}.{steps}.t"] = s.timesteps.int()
    for spacing, lengths in TIMES.items():
        for steps in lengths:
            s = CogVideoXDDIMScheduler(timestep_spacing=spacing)
            s.set_timesteps(steps)
            tensors[f"times.{spacing}.{steps}"] = s.timesteps[:steps].int()
    golden.save(out / "samplers.safetensors", tensors)
