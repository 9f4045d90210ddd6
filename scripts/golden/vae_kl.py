"""AutoencoderKL as in FLUX, and with the two convolutions that FLUX leaves out: moments and decodes
of pictures of several sizes, and both in tiles. Pixels are u8, seen as u8 / 127.5 - 1, channels
last."""
import numpy as np
import torch
from diffusers import AutoencoderKL

import golden

CONFIG = dict(block_out_channels=[8, 16, 16, 24], layers_per_block=1, latent_channels=4,
              norm_num_groups=4, down_block_types=["DownEncoderBlock2D"] * 4,
              up_block_types=["UpDecoderBlock2D"] * 4, scaling_factor=0.3611, shift_factor=0.1159,
              use_quant_conv=False, use_post_quant_conv=False, sample_size=32)


def model(**changed):
    return golden.filled(AutoencoderKL, dict(CONFIG, **changed))


def encode(vae, pixels, dtype=torch.float32):
    """Frames are encoded one by one."""
    x = torch.from_numpy(pixels.astype(np.float32) / np.float32(127.5) - 1).permute(0, 3, 1, 2)
    d = [vae.encode(f[None].to(dtype)).latent_dist for f in x]
    return (torch.stack([p.mean[0] for p in d], 1), torch.stack([p.logvar[0] for p in d], 1))


def decode(vae, z):
    y = torch.stack([vae.decode(z[None, :, i]).sample[0] for i in range(z.shape[1])])
    y = y.permute(0, 2, 3, 1).contiguous()
    u8 = (y.float() / 2 + 0.5).clamp(0, 1).numpy() * 255
    return y, u8.round().astype(np.uint8)


def pictures(out, cog, name, **changed):
    vae, meta = model(**changed)
    tensors = {"short": cog.clip(name, 2, 40, 24), "tall": cog.clip(name + ".tall", 1, 72, 8),
               "z": golden.draw("z." + name, (4, 2, 5, 3))}
    for f in (1, 2):
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = encode(vae, tensors["short"][:f])
        tensors[f"sample.{f}"], tensors[f"u8.{f}"] = decode(vae, tensors["z"][:, :f])
    tensors["mean.tall"], tensors["logvar.tall"] = encode(vae, tensors["tall"])
    golden.save(out / f"{name}.safetensors", tensors, **meta)
    half = vae.to(torch.bfloat16)
    mean, sample = (encode(half, tensors["short"], torch.bfloat16)[0].float(),
                    decode(half, tensors["z"].bfloat16())[0].float())
    for what, a, b in (("mean", mean, tensors["mean.2"]), ("sample", sample, tensors["sample.2"])):
        print(f"{name} bf16 against f32: {what} {float((a - b).abs().max() / b.abs().max()):.2e}")


def tiles(out, cog):
    vae, meta = model()
    vae.enable_tiling()
    pixels, z = cog.clip("kl.tiles", 1, 64, 80), golden.draw("z.kl.tiles", (4, 1, 8, 10))
    mean, logvar = encode(vae, pixels)
    _, u8 = decode(vae, z)
    golden.save(out / "vae_kl_tiles.safetensors",
                {"pixels": pixels, "z": z, "mean": mean, "logvar": logvar, "u8": u8}, **meta)


def make(out):
    cog = golden.part("vae_cogvideox")
    pictures(out, cog, "vae_kl")
    pictures(out, cog, "vae_kl_quant", use_quant_conv=True, use_post_quant_conv=True,
             mid_block_add_attention=False, layers_per_block=2)
    tiles(out, cog)
