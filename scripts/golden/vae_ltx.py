"""AutoencoderKLLTXVideo of LTX-Video 0.9.0, 0.9.1 and 0.9.5: moments of clips of every length,
decoded latents of one to nine frames, and both in tiles. Pixels are u8, which mean u8 / 127.5 - 1,
channels last. The noise that 0.9.1's decoder adds is that of common/base/rng.h."""
import numpy as np
import torch
from diffusers import AutoencoderKLLTXVideo

import golden

V090 = dict(block_out_channels=[8, 16, 16, 24], decoder_block_out_channels=[8, 16, 16, 24],
            layers_per_block=[2, 1, 1, 1, 1], decoder_layers_per_block=[1, 1, 1, 1, 2],
            latent_channels=8)
TIMED = dict(decoder_block_out_channels=[16, 32, 64], decoder_layers_per_block=[1, 1, 1, 1],
             decoder_spatio_temporal_scaling=[True] * 3, upsample_residual=[True] * 3,
             upsample_factor=[2] * 3, timestep_conditioning=True)
V091 = dict(V090, **TIMED, decoder_inject_noise=[True, True, True, False])
V095 = dict(TIMED, block_out_channels=[8, 16, 32, 32, 64], latent_channels=8,
            down_block_types=["LTXVideo095DownBlock3D"] * 4, layers_per_block=[1] * 5,
            spatio_temporal_scaling=[True] * 4, decoder_inject_noise=[False] * 4,
            downsample_type=["spatial", "temporal", "spatiotemporal", "spatiotemporal"],
            spatial_compression_ratio=32, temporal_compression_ratio=8)
TIMESTEP, NOISE_PURPOSE = 40, 79             # a tiny model's timestep multiplier is about 0.1


def philox(key, counter):
    """Returns outputs of Philox4x32-10 (Salmon et al. 2011); counter is [4,n]."""
    mask = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def normals(shape, micro):
    """Returns the values of vc_train_normals() for seed 0 and row 0."""
    n = int(np.prod(shape))
    quads = np.arange((n + 3) // 4, dtype=np.uint64)
    row, micro, purpose = (np.full_like(quads, x) for x in (0, micro, NOISE_PURPOSE))
    w = [(x.astype(np.float64) + 0.5) / 2**32 for x in philox(0, [quads, row, micro, purpose])]
    out = []
    for u, v in ((w[0], w[1]), (w[2], w[3])):
        r = np.sqrt(-2 * np.log(u))
        out += [r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)]
    return torch.from_numpy(np.stack(out, 1).reshape(-1)[:n].astype(np.float32).reshape(shape))


class OurNoise:
    """Replaces torch.randn during a decode by the decoder's draws, which are numbered from 1."""
    def __enter__(self):
        self.draws, self.was = 0, torch.randn

        def randn(shape, **_):
            self.draws += 1
            return normals(tuple(shape), self.draws)
        torch.randn = randn

    def __exit__(self, *_):
        torch.randn = self.was


def model(config):
    return golden.filled(AutoencoderKLLTXVideo, config, "_name_or_path")


def decode(vae, cog, z):
    timed = vae.config.timestep_conditioning
    with OurNoise():
        return cog.decode(vae, z, *([torch.tensor([float(TIMESTEP)])] if timed else []))


def moments(vae, cog, tensors, clip, lengths):
    for f in lengths:
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = cog.encode(vae, tensors[clip][:f])


def save(out, name, config, cog, size, lengths, counts):
    vae, meta = model(config)
    tensors = {"short": cog.clip("ltx", *size), "z": golden.draw("z.ltx", (8, 4, 1, 2)),
               "latents_mean": vae.latents_mean, "latents_std": vae.latents_std}
    moments(vae, cog, tensors, "short", lengths)
    for n in counts:
        sample, tensors[f"u8.{n}"] = decode(vae, cog, tensors["z"][:, :n].contiguous())
        tensors[f"sample.{n}"] = sample[-2:]
    golden.save(out / f"{name}.safetensors", tensors, **meta)


def tiles(out, cog):
    """Writes the results of 0.9.5 in tiles of half the size."""
    vae, meta = model(dict(V095, layers_per_block=[1, 2, 1, 1, 1]))
    vae.enable_tiling(tile_sample_min_height=256, tile_sample_min_width=256,
                      tile_sample_stride_height=224, tile_sample_stride_width=224)
    pixels, z = cog.clip("ltx.tiles", 1, 288, 96), golden.draw("z.ltx.tiles", (8, 1, 9, 3))
    mean, logvar = cog.encode(vae, pixels)
    _, u8 = decode(vae, cog, z)
    golden.save(out / "vae_ltx_tiles.safetensors",
                {"pixels": pixels, "z": z, "mean": mean, "logvar": logvar, "u8": u8}, **meta)


def long(out, cog, name, config):
    """Writes all frames of clips that are decoded in chunks; their squares are single pixels."""
    vae, meta = model(dict(config, patch_size=1))
    tensors = {"z": golden.draw("z.ltx.long", (8, 9, 1, 2))}
    tensors["sample.9"], _ = decode(vae, cog, tensors["z"])
    golden.save(out / f"{name}.safetensors", tensors, **meta)


def make(out):
    cog = golden.part("vae_cogvideox")
    save(out, "vae_ltx_090", V090, cog, (49, 32, 32), (1, 9, 17, 33, 41, 49), (1, 2))
    save(out, "vae_ltx_091", V091, cog, (9, 64, 32), (9,), (1, 3))
    save(out, "vae_ltx_095", V095, cog, (49, 32, 32), (1, 9, 17, 33, 41, 49), (1, 2))
    tiles(out, cog)
    long(out, cog, "vae_ltx_090_long", V090)
    long(out, cog, "vae_ltx_091_long", V091)
    long(out, cog, "vae_ltx_095_long", dict(V095, spatial_compression_ratio=8))
