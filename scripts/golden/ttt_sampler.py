"""Guided sampling with the first authors' stochastic DPM-Solver++ of TTT (Dalal et al. 2025), from
a stand-in for a model: v = x / 2 - t / 1000 + w, with a w for each text: ttt-sampler.safetensors.

The variable TTT_VIDEO_DIT names a folder with github.com/test-time-training/ttt-video-dit at
6c316a7. The noise is given; where a step draws twice, the first draw is spoilt, so that using it
would show. `time` is guided as the first authors compute it, at (N - t) / N; `step` at i / N, which
their formula means. Their sampler rescales the roots of the N levels that it takes, so that the
last of them keeps its value, while training rescales those of all 1000: names with `own` are of
their sampler as it is, the others of their sampler on the table of the training."""
import importlib.util
import math
import os
import pathlib
import sys
import types

import golden
import torch

WIDTH, SCALE, POWER, LENGTHS = 6, 6, 5, (50, 20, 10)


def theirs():
    """Returns the module of their sampler. It needs no GPU; its other imports are not used."""
    if "TTT_VIDEO_DIT" not in os.environ:
        raise SystemExit("ttt_sampler: TTT_VIDEO_DIT names no folder of ttt-video-dit")
    path = pathlib.Path(os.environ["TTT_VIDEO_DIT"], "ttt/models/cogvideo/utils.py")
    lacking = [n for n in ("wandb", "einops", "tqdm")
               if n not in sys.modules and importlib.util.find_spec(n) is None]
    for name in lacking:
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(run=None, rearrange=None, repeat=None,
                                       tqdm=lambda x, **_: x)
    spec = importlib.util.spec_from_file_location("ttt_utils", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ttt_utils"] = module
    spec.loader.exec_module(module)
    for name in lacking:
        del sys.modules[name]
    module.wandb.run = None
    return module


def on_training_table(ttt):
    """Lets the sampler take its levels from the table of the training."""
    levels = ttt.ZeroSNRDDPMDiscretization.get_sigmas

    def get_sigmas(self, n, device="cpu", return_idx=False):
        times = ttt.generate_roughly_equally_spaced_steps(n, 1000).copy()
        taken = torch.flip(levels(self, 1000, device=device), (0,))[times]
        return (torch.flip(taken, (0,)), times) if return_idx else torch.flip(taken, (0,))

    ttt.ZeroSNRDDPMDiscretization.get_sigmas = get_sigmas


def walk(ttt, x, pos, neg, noise, steps, by_time):
    """Returns the sample after each step, and the weights of guidance."""
    samples, weights, draws = [], [], []
    denoiser = ttt.DiscreteDenoiser(lambda x, w, t: x / 2 - t / 1000 + w, 1000, torch.float64,
                                    quantize_c_noise=False)
    sampler = ttt.VPSDEDPMPP2MSampler(denoiser, {"shift_scale": 1.0}, steps,
                                      {"scale": SCALE, "exp": POWER, "num_steps": steps},
                                      use_wandb=False, device="cpu")
    rule = sampler.guider.scale_schedule

    def weigh(sigma, step_index):
        i = step_index if by_time else len(weights)
        weights.append(rule(sigma, i))
        return weights[-1]

    sampler.guider.scale_schedule = weigh
    step, randn_like = sampler.sampler_step, torch.randn_like

    def one(old, *args, **kwargs):
        i = len(samples)
        draws[:] = [noise[i]] if old is None else [torch.full_like(noise[i], 1e9), noise[i]]
        x, clean = step(old, *args, **kwargs)
        samples.append(x[0].double())
        return x, clean

    sampler.sampler_step = one
    torch.randn_like = lambda *a, **k: draws.pop(0)
    try:
        sampler(x[None], {"crossattn": pos[None]}, {"crossattn": neg[None]})
    finally:
        torch.randn_like = randn_like
    return torch.stack(samples), torch.tensor(weights, dtype=torch.float64)


def make(out):
    ttt = theirs()
    zeros = ttt.ZeroSNRDDPMDiscretization.__call__
    ttt.ZeroSNRDDPMDiscretization.__call__ = lambda self, *a, **k: zeros(self, *a,
                                                                         **{**k, "device": "cpu"})
    tensors = {k: golden.draw("ttt-" + k, (WIDTH,)).double() for k in ("start", "pos", "neg")}
    tensors["noise"] = golden.draw("ttt-noise", (max(LENGTHS), WIDTH)).double()
    given = [tensors[k] for k in ("start", "pos", "neg", "noise")]
    tensors["own.time.50"], _ = walk(ttt, *given, 50, True)
    on_training_table(ttt)
    for steps in LENGTHS:
        for name, by_time in (("time", True), ("step", False)):
            key = f"{name}.{steps}"
            tensors[key], tensors[key + ".weights"] = walk(ttt, *given, steps, by_time)
    assert math.isclose(tensors["step.50.weights"][0], 1)
    golden.save(out / "ttt-sampler.safetensors", tensors, scale=SCALE, power=POWER)
