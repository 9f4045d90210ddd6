#!/usr/bin/env python3
"""Writes a model folder of a real size with random weights, for benchmarks and runs at full size.

    python3 scripts/random_model.py OUT [--size 2b|5b|5b-i2v|1.5|1.5-i2v] [--layers N]
                                    [--t5_layers N]
                                    [--parts transformer,vae,text_encoder,tokenizer,scheduler]
                                    [--tokenizer SPIECE.MODEL] [--dtype bf16]

Names and shapes are those of diffusers and transformers (instantiated without memory), values are
uniform with a spread that keeps activations near 1. Large parts are sharded at 5 GB as the hub has
them. T5-XXL in bf16 takes 9.5 GB, the 2B transformer 3.4 GB: delete OUT afterwards.
"""
import argparse
import json
import pathlib
import shutil
import struct

import numpy as np
import torch

SHARD = 5 * 10**9
ROPE = dict(use_rotary_positional_embeddings=True)
SIZES = {
    "2b": dict(num_attention_heads=30, num_layers=30),
    "5b": dict(num_attention_heads=48, num_layers=42, **ROPE),
    "5b-i2v": dict(num_attention_heads=48, num_layers=42, in_channels=32,
                   use_learned_positional_embeddings=True, **ROPE),
    "1.5": dict(num_attention_heads=48, num_layers=42, patch_size_t=2, patch_bias=False,
                sample_height=300, sample_width=300, sample_frames=81, **ROPE),
    "1.5-i2v": dict(num_attention_heads=48, num_layers=42, in_channels=32, patch_size_t=2,
                    patch_bias=False,
                    ofs_embed_dim=512, sample_height=300, sample_width=300, sample_frames=81,
                    **ROPE),
}
TYPES = {"bf16": "BF16", "f16": "F16", "f32": "F32"}


def as_type(x, dtype):
    """f32 array -> bytes of the stored type."""
    if dtype == "f32":
        return x.tobytes()
    if dtype == "f16":
        return x.astype(np.float16).tobytes()
    u = x.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def values(rng, name, shape, dtype):
    """The tensor's bytes, made in pieces of 16 M values."""
    n = int(np.prod(shape, dtype=np.int64))
    norm = len(shape) == 1 and name.endswith("weight")
    spread = np.sqrt(3.0 * shape[0] / n) if len(shape) > 1 else 0.02
    if "shared" in name or "embed_tokens" in name:
        spread = 1.0
    for at in range(0, n, 1 << 24):
        u = rng.random(min(1 << 24, n - at), dtype=np.float32) * np.float32(2) - np.float32(1)
        yield as_type((1 + np.float32(0.1) * u) if norm else (u * np.float32(spread)), dtype)


def write_file(path, tensors, dtype, rng):
    header, at = {}, 0
    size = {"bf16": 2, "f16": 2, "f32": 4}[dtype]
    for name, shape in tensors:
        n = int(np.prod(shape, dtype=np.int64)) * size
        header[name] = {"dtype": TYPES[dtype], "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors:
            for piece in values(rng, name, shape, dtype):
                f.write(piece)
    return at


def write_weights(folder, stem, module, dtype, rng):
    """A module's tensors in one file, or in shards with an index."""
    tensors = [(k, tuple(v.shape)) for k, v in sorted(module.state_dict().items())]
    if any(k == "shared.weight" for k, _ in tensors):
        tensors = [t for t in tensors if t[0] != "encoder.embed_tokens.weight"]
    size = {"bf16": 2, "f16": 2, "f32": 4}[dtype]
    shards, room = [[]], SHARD
    for name, shape in tensors:
        n = int(np.prod(shape, dtype=np.int64)) * size
        if n > room and shards[-1]:
            shards.append([])
            room = SHARD
        shards[-1].append((name, shape))
        room -= n
    if len(shards) == 1:
        return write_file(folder / f"{stem}.safetensors", tensors, dtype, rng)
    total, weight_map = 0, {}
    for i, part in enumerate(shards):
        name = f"{stem}-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        total += write_file(folder / name, part, dtype, rng)
        weight_map.update({k: name for k, _ in part})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return total


def transformer(out, a, rng):
    from diffusers import CogVideoXTransformer3DModel
    config = dict(SIZES[a.size])
    if a.layers:
        config["num_layers"] = a.layers
    with torch.device("meta"):
        m = CogVideoXTransformer3DModel(**config)
    m.save_config(out)
    return write_weights(out, "diffusion_pytorch_model", m, a.dtype, rng)


def vae(out, a, rng):
    from diffusers import AutoencoderKLCogVideoX
    big = a.size != "2b"
    with torch.device("meta"):
        m = AutoencoderKLCogVideoX(
            in_channels=3, out_channels=3, latent_channels=16,
            block_out_channels=(128, 256, 256, 512), layers_per_block=3,
            down_block_types=("CogVideoXDownBlock3D",) * 4,
            up_block_types=("CogVideoXUpBlock3D",) * 4,
            scaling_factor=0.7 if big else 1.15258426,
            invert_scale_latents=a.size.startswith("1.5"))
    m.save_config(out)
    return write_weights(out, "diffusion_pytorch_model", m, a.dtype, rng)


def text_encoder(out, a, rng):
    from transformers import T5Config, T5EncoderModel
    config = T5Config(d_model=4096, d_ff=10240, d_kv=64, num_heads=64, num_layers=a.t5_layers,
                      vocab_size=32128,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                      architectures=["T5EncoderModel"])
    with torch.device("meta"):
        m = T5EncoderModel(config)
    config.save_pretrained(out)
    return write_weights(out, "model", m, a.dtype, rng)


def tokenizer(out, a, rng):
    """A given spiece.model, or one of a few hundred pieces learnt from this file's own text."""
    del rng
    if a.tokenizer:
        shutil.copyfile(a.tokenizer, out / "spiece.model")
    else:
        import sentencepiece
        sentencepiece.SentencePieceTrainer.train(
            input=__file__, model_prefix=str(out / "spiece"), vocab_size=250, model_type="unigram",
            pad_id=0, eos_id=1,
            unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2)
        (out / "spiece.vocab").unlink()
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer"}))
    return 0


def scheduler(out, a, rng):
    del rng
    from diffusers import CogVideoXDDIMScheduler, CogVideoXDPMScheduler
    small = a.size == "2b"
    cls = CogVideoXDDIMScheduler if small else CogVideoXDPMScheduler
    cls(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True, snr_shift_scale=3.0 if small else 1.0,
        timestep_spacing="trailing",
        set_alpha_to_one=True, clip_sample=False).save_config(out)
    return 0


PARTS = {f.__name__: f for f in (transformer, vae, text_encoder, tokenizer, scheduler)}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("out", type=pathlib.Path)
    a.add_argument("--size", choices=SIZES, default="2b")
    a.add_argument("--layers", type=int)
    a.add_argument("--t5_layers", type=int, default=24)
    a.add_argument("--parts", default="transformer,vae,scheduler")
    a.add_argument("--tokenizer")
    a.add_argument("--dtype", choices=TYPES, default="bf16")
    args = a.parse_args()
    rng = np.random.default_rng(0)
    classes = {"transformer": ["diffusers", "CogVideoXTransformer3DModel"],
               "vae": ["diffusers", "AutoencoderKLCogVideoX"],
               "text_encoder": ["transformers", "T5EncoderModel"],
               "tokenizer": ["transformers", "T5Tokenizer"],
               "scheduler": ["diffusers", "CogVideoXDDIMScheduler" if args.size == "2b"
                             else "CogVideoXDPMScheduler"]}
    args.out.mkdir(parents=True, exist_ok=True)
    pipeline = "CogVideoXImageToVideoPipeline" if args.size.endswith("i2v") else "CogVideoXPipeline"
    for part in args.parts.split(","):
        folder = args.out / part
        folder.mkdir(exist_ok=True)
        n = PARTS[part](folder, args, rng)
        print(f"{part}: {n / 1e9:.2f} GB" if n else part, flush=True)
    (args.out / "model_index.json").write_text(json.dumps({"_class_name": pipeline, **classes},
                                                          indent=2))


if __name__ == "__main__":
    main()
