"""Weights packed by bitsandbytes on the CPU, in 4 bits (nf4) and in 8, and what its functions make
of the codes again: packings.safetensors."""
import bitsandbytes.functional as F
import torch

import golden

OUT, IN = 24, 192


def make(out):
    generator = torch.Generator().manual_seed(47)
    weight = torch.randn(OUT, IN, generator=generator) * 0.05
    weight[3] *= 40.0                              # rows and blocks of other sizes
    weight[5, 64:128] = 0.0
    weight[7, 100] = 3.0
    tensors = {"weight": weight.numpy().copy()}

    codes, state = F.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    tensors["nf4/codes"] = codes.numpy().copy()
    tensors["nf4/absmax"] = state.absmax.numpy().copy()
    tensors["nf4/table"] = state.code.numpy().copy()
    tensors["nf4/values"] = F.dequantize_4bit(codes, state).numpy().copy()

    codes, absmax, _ = F.int8_vectorwise_quant(weight.to(torch.float16))
    tensors["int8/of"] = weight.to(torch.float16).float().numpy().copy()
    tensors["int8/codes"] = codes.numpy().copy()
    tensors["int8/absmax"] = absmax.float().numpy().copy()
    tensors["int8/values"] = F.int8_vectorwise_dequant(codes, absmax.float()).numpy().copy()

    codes, state = F.quantize_4bit(weight, blocksize=64, quant_type="nf4",
                                   compress_statistics=True)
    tensors["nested/values"] = F.dequantize_4bit(codes, state).numpy().copy()
    for key, value in state.as_dict(packed=True).items():
        tensors["nested/" + key] = value.numpy().copy()
    tensors["nested/weight"] = codes.numpy().copy()
    golden.save(out / "packings.safetensors", tensors)
