"""Noise levels, weights and losses of diffusers and PyTorch: objective.safetensors.

Levels are those of training scripts that index diffusers' table of 1000 levels; draws of their
densities are replaced by quantiles. The bell-shaped weight is computed here from its formula.
"""
import json
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.training_utils import (compute_density_for_timestep_sampling,
                                      compute_loss_weighting_for_sd3)

import golden

QUANTILES = (torch.arange(97, dtype=torch.float64) + 0.3713) / 97
MEAN, STD, MODE_SCALE = 0.4, 1.3, 1.29
LEVELS = [(scheme, shift) for scheme in ("none", "logit_normal", "mode", "sigma_sqrt", "cosmap")
          for shift in (1.0, 3.0, 7.0)]
BELLS = (1.0, 3.0, 5.0)
# name: (kind, delta, cutoff, weighted)
LOSSES = {
    "mse": ("mse", 1.0, 0.0, True),
    "mse_cut": ("mse", 1.0, 1.25, True),
    "huber": ("huber", 0.7, 0.0, False),
    "huber_weighted": ("huber", 0.7, 0.0, True),
    "huber_cut": ("huber", 0.4, 1.5, True),
    "smooth_l1": ("smooth_l1", 0.3, 0.0, False),
    "smooth_l1_cut": ("smooth_l1", 0.3, 2.0, True),
}


def densities(scheme):
    """diffusers' draws u, where the random numbers are QUANTILES."""
    def normal(mean, std, **_):
        return mean + std * torch.special.ndtri(QUANTILES)

    with mock.patch("torch.rand", lambda **_: QUANTILES), mock.patch("torch.normal", normal):
        return compute_density_for_timestep_sampling(scheme, len(QUANTILES), MEAN, STD, MODE_SCALE)


def bell(shift):
    """(levels of the table, weights)"""
    s = np.arange(1000, 0, -1) / 1000
    s = shift * s / (1 + (shift - 1) * s)
    w = np.exp(-2 * (s - 0.5) ** 2)
    w -= w.min()
    return s, w / w.mean()


def loss_of(kind, delta, cutoff, pred, target, weight):
    if kind == "mse":
        each = F.mse_loss(pred, target, reduction="none")
    elif kind == "huber":
        each = F.huber_loss(pred, target, reduction="none", delta=delta)
    else:
        each = F.smooth_l1_loss(pred, target, reduction="none", beta=delta)
    if cutoff:
        each = torch.where((pred - target).abs() > cutoff, 0, each)
    return (each * weight).mean()


def make(out):
    tensors = {"quantiles": QUANTILES.float()}
    for scheme, shift in LEVELS:
        table = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=shift).sigmas
        s = table[(densities(scheme) * 1000).long()]
        tensors[f"levels/{scheme}/{shift:g}"] = s
        tensors[f"weights/{scheme}/{shift:g}"] = compute_loss_weighting_for_sd3(scheme, s)
    for shift in BELLS:
        s, w = bell(shift)
        tensors[f"levels/bell/{shift:g}"] = s.astype(np.float32)
        tensors[f"weights/bell/{shift:g}"] = w.astype(np.float32)
    shape = (2, 3, 2, 4, 5)
    tensors["pred"], tensors["target"] = golden.draw("pred", shape), golden.draw("target", shape)
    tensors["weight"] = torch.tensor([0.5, 2.25]).reshape(2, 1, 1, 1, 1)
    for name, (kind, delta, cutoff, weighted) in LOSSES.items():
        with torch.enable_grad():
            pred = tensors["pred"].clone().requires_grad_(True)
            loss = loss_of(kind, delta, cutoff, pred, tensors["target"],
                           tensors["weight"] if weighted else 1.0)
            loss.backward()
        tensors[f"{name}/loss"], tensors[f"{name}/grad"] = loss.reshape(1), pred.grad
    golden.save(out / "objective.safetensors", tensors, losses=json.dumps(LOSSES),
                mean=str(MEAN), std=str(STD), mode_scale=str(MODE_SCALE))
