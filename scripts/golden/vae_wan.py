"""AutoencoderKLWan of Wan 2.1 and 2.2, and AutoencoderKLQwenImage: moments of clips of every
length, decodes of latents of one to nine frames, and both in tiles. Pixels are u8, seen as u8 /
127.5 - 1, channels last; samples are those before diffusers clamps them.
"""
import torch
from diffusers import AutoencoderKLQwenImage, AutoencoderKLWan

import golden

CONFIG = dict(base_dim=8, z_dim=4, num_res_blocks=1,
              latents_mean=[-0.75, 0.5, 0.25, -1.5], latents_std=[2.5, 1.25, 0.5, 3.0])
V22 = dict(decoder_base_dim=16, is_residual=True, in_channels=12, out_channels=12, patch_size=2,
           scale_factor_spatial=16, temperal_downsample=[False, True, True])
LENGTHS = (1, 5, 9, 17, 21, 33)
COUNTS = (1, 2, 3, 5, 9)
TILES = dict(tile_sample_min_height=32, tile_sample_min_width=32, tile_sample_stride_height=24,
             tile_sample_stride_width=24)


def model(cls, **changed):
    return golden.filled(cls, dict(CONFIG, **changed))


def decode(vae, cog, z):
    """Leaves values outside of -1..1 as they are."""
    clamp, torch.clamp = torch.clamp, lambda x, **_: x
    try:
        return cog.decode(vae, z)
    finally:
        torch.clamp = clamp


def moments(vae, cog, tensors, name, pixels):
    tensors[f"mean.{name}"], tensors[f"logvar.{name}"] = cog.encode(vae, pixels)


def lengths(out, cog, name, cls, counts, lengths, tall, **changed):
    vae, meta = model(cls, **changed)
    side = 8 * (changed.get("patch_size") or 1)
    tensors = {"short": cog.clip("wan", max(lengths), 2 * side, 3 * side),
               "z": golden.draw("z.wan", (CONFIG["z_dim"], max(counts), 2, 3))}
    for f in lengths:
        moments(vae, cog, tensors, f, tensors["short"][:f])
    if tall:
        tensors["tall"] = cog.clip("wan.tall", tall, 5 * side, 3 * side)
        moments(vae, cog, tensors, "tall", tensors["tall"])
    for n in counts:
        sample, tensors[f"u8.{n}"] = decode(vae, cog, tensors["z"][:, :n].contiguous())
        tensors[f"sample.{n}"] = sample[-8:]
    golden.save(out / f"{name}.safetensors", tensors, **meta)
    cog.rounding(name, tensors, vae, min(f for f in lengths if f > 1) if max(lengths) > 1 else 1,
                 counts[-1], lambda vae, z: decode(vae, cog, z))


def tiles(out, cog):
    whole = model(AutoencoderKLWan, num_res_blocks=2, decoder_base_dim=16)
    whole[0].enable_tiling(**TILES)
    cog.in_tiles(out, "vae_wan_tiles", whole, cog.clip("wan.tiles", 9, 40, 48),
                 golden.draw("z.wan.tiles", (4, 3, 5, 6)), lambda vae, z: decode(vae, cog, z))


def make(out):
    cog = golden.part("vae_cogvideox")
    lengths(out, cog, "vae_wan", AutoencoderKLWan, COUNTS, LENGTHS, 9)
    lengths(out, cog, "vae_qwen_image", AutoencoderKLQwenImage, (1,), (1,), 1)
    lengths(out, cog, "vae_wan_2.2", AutoencoderKLWan, (1, 2, 5), (1, 5, 9, 17), 5, **V22)
    tiles(out, cog)
