"""AutoencoderKLLTX2Video of LTX-2.0 and 2.3, and of 2.0 with a timestep and noise: moments of
clips, decoded latents, and 65 frames of squares of one pixel, which are decoded in chunks. Pixels
are u8, which mean u8 / 127.5 - 1, channels last."""
from diffusers import AutoencoderKLLTX2Video

import golden

V20 = dict(block_out_channels=[8, 16, 32, 64], decoder_block_out_channels=[16, 32, 64],
           layers_per_block=[1, 2, 1, 1, 1], decoder_layers_per_block=[1, 2, 1, 1],
           latent_channels=8, decoder_causal=False, spatial_compression_ratio=32,
           temporal_compression_ratio=8)
V23 = dict(V20, block_out_channels=[8, 16, 32, 32], decoder_block_out_channels=[8, 16, 16, 32],
           decoder_layers_per_block=[1, 1, 1, 1, 2], decoder_spatial_padding_mode="zeros",
           decoder_spatio_temporal_scaling=[True] * 4, decoder_inject_noise=[False] * 5,
           upsample_type=["spatiotemporal", "spatiotemporal", "temporal", "spatial"],
           upsample_residual=[False] * 4, upsample_factor=[2, 2, 1, 2])
FINE = dict(patch_size=1, spatial_compression_ratio=8)


def model(config):
    return golden.filled(AutoencoderKLLTX2Video, config, "_name_or_path")


def decode(vae, z):
    return golden.part("vae_ltx").decode(vae, golden.part("vae_cogvideox"), z)


def short(out, name, config):
    cog = golden.part("vae_cogvideox")
    vae, meta = model(config)
    tensors = {"short": cog.clip("ltx2", 41, 32, 32), "z": golden.draw("z.ltx2", (8, 2, 2, 2)),
               "latents_mean": vae.latents_mean, "latents_std": vae.latents_std}
    golden.part("vae_ltx").moments(vae, cog, tensors, "short", (1, 9, 41))
    for n in (1, 2):
        sample, u8 = decode(vae, tensors["z"][:, :n].contiguous())
        tensors[f"sample.{n}"] = sample[-2:]
    tensors["u8.2"] = u8
    golden.save(out / f"{name}.safetensors", tensors, **meta)


def long(out, name, config):
    vae, meta = model(dict(config, **FINE))
    tensors = {"z": golden.draw("z.ltx2.long", (8, 9, 2, 2))}
    tensors["sample.9"], _ = decode(vae, tensors["z"])
    golden.save(out / f"{name}.safetensors", tensors, **meta)


def make(out):
    for name, config in ("20", V20), ("23", V23):
        short(out, f"vae_ltx2_{name}", config)
        long(out, f"vae_ltx2_{name}_long", config)
    long(out, "vae_ltx2_timed_long", dict(V20, timestep_conditioning=True, decoder_causal=True,
                                          decoder_inject_noise=[True, False, True, True]))
