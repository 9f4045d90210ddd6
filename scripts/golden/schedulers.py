"""Noise schedules of CogVideoX: alphas_cumprod, noisy samples and targets, in f64."""
import torch
from diffusers import CogVideoXDDIMScheduler

import golden

TIMES = [0, 1, 250, 251, 500, 750, 998, 999]
CASES = {"s1": (1.0, True), "s3": (3.0, True), "plain": (1.0, False), "plain3": (3.0, False)}


def make(out):
    x, n = golden.draw("x", (1, 6)).double(), golden.draw("n", (1, 6)).double()
    t = torch.tensor(TIMES)
    tensors = {"x": x[0], "n": n[0], "times": t}
    for name, (shift, zero) in CASES.items():
        s = CogVideoXDDIMScheduler(prediction_type="v_prediction", rescale_betas_zero_snr=zero, snr_shift_scale=shift)
        rows = (len(TIMES), 1)
        tensors[f"{name}.alphas_cumprod"] = s.alphas_cumprod
        tensors[f"{name}.noisy"] = s.add_noise(x.repeat(rows), n.repeat(rows), t)
        tensors[f"{name}.velocity"] = s.get_velocity(x.repeat(rows), n.repeat(rows), t)
    golden.save(out / "schedulers.safetensors", tensors, cases=CASES)
