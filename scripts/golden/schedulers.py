"""Noise schedules of CogVideoX in f64: alphas_cumprod, noisy samples and targets. Sigmas of flows
in f32: those of a pipeline for a number of tokens and of steps, and every eighth of the 1000 sigmas
from which trainers draw."""
import numpy as np
import torch
from diffusers import CogVideoXDDIMScheduler, FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift

import golden

TIMES = [0, 1, 250, 251, 500, 750, 998, 999]
CASES = {"s1": (1.0, True), "s3": (3.0, True), "plain": (1.0, False), "plain3": (3.0, False)}

TOKENS, STEPS = (64, 256, 1024, 4096, 13312), (50, 28, 7, 1)
FLOWS = {
    "flux": dict(shift=3.0, use_dynamic_shifting=True),
    "qwen": dict(use_dynamic_shifting=True, max_shift=0.9, max_image_seq_len=8192,
                 shift_terminal=0.02),
    "ltx": dict(use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05,
                base_image_seq_len=1024, shift_terminal=0.1),
    "hunyuan": dict(shift=7.0),
    "linear": dict(use_dynamic_shifting=True, time_shift_type="linear", shift_terminal=0.05),
}


def sigmas(fields, tokens, steps):
    """Returns the sigmas of sampling, without the 0 at the end."""
    s = FlowMatchEulerDiscreteScheduler(**fields)
    c = s.config
    mu = calculate_shift(tokens, c.base_image_seq_len, c.max_image_seq_len, c.base_shift,
                         c.max_shift)
    if steps == 1:
        s.register_to_config(shift_terminal=None)        # stretching one level would compute 0 / 0
    s.set_timesteps(sigmas=np.linspace(1, 1 / steps, steps),
                    mu=mu if c.use_dynamic_shifting else None)
    return s.sigmas[:-1]


def make(out):
    x, n = golden.draw("x", (1, 6)).double(), golden.draw("n", (1, 6)).double()
    t = torch.tensor(TIMES)
    tensors = {"x": x[0], "n": n[0], "times": t}
    for name, (shift, zero) in CASES.items():
        s = CogVideoXDDIMScheduler(prediction_type="v_prediction", rescale_betas_zero_snr=zero,
                                   snr_shift_scale=shift)
        rows = (len(TIMES), 1)
        tensors[f"{name}.alphas_cumprod"] = s.alphas_cumprod
        tensors[f"{name}.noisy"] = s.add_noise(x.repeat(rows), n.repeat(rows), t)
        tensors[f"{name}.velocity"] = s.get_velocity(x.repeat(rows), n.repeat(rows), t)
    for name, fields in FLOWS.items():
        for tokens in TOKENS:
            for steps in STEPS:
                tensors[f"flow.{name}.{tokens}.{steps}"] = sigmas(fields, tokens, steps)
            tensors[f"flow.{name}.{tokens}.table"] = sigmas(fields, tokens, 1000)[::8].clone()
    golden.save(out / "schedulers.safetensors", tensors, cases=CASES)
