"""Noise of PyTorch's generator on the CPU: SEED/N are the last numbers of torch.randn(N)."""
import golden
import torch

SEEDS, SIZES, KEPT = (0, 42, 2**33 + 5, 2**64 - 1), (16, 100, 4096), 256


def make(out):
    tensors = {}
    for seed in SEEDS:
        for n in SIZES:
            x = torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed))
            tensors[f"{seed}/{n}"] = x[-KEPT:]
    golden.save(out / "torch_noise.safetensors", tensors)
