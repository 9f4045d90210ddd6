"""AutoencoderKLHunyuanVideo15: moments of clips of every length, decodes of latents of one to five
frames, and both in tiles. Pixels are u8, seen as u8 / 127.5 - 1, channels last.
"""
import torch
from diffusers import AutoencoderKLHunyuanVideo15

import golden

CONFIG = dict(block_out_channels=(8, 8, 16, 32, 32), layers_per_block=1, latent_channels=4,
              scaling_factor=0.75)
LENGTHS, COUNTS = (1, 5, 9, 17), (1, 2, 5)
TILES = dict(tile_sample_min_height=64, tile_sample_min_width=64, tile_latent_min_height=4,
             tile_latent_min_width=4, tile_overlap_factor=0.25)


def model(**changed):
    vae = AutoencoderKLHunyuanVideo15(**dict(CONFIG, **changed)).eval()
    shapes = golden.fill_module(vae)
    config = {k: v for k, v in vae.config.items() if not k.startswith("_")}
    return vae, dict(config=dict(config, _class_name="AutoencoderKLHunyuanVideo15"),
                     weights=shapes)


def rounding(tensors, vae, cog, f, n):
    """Prints the distance of diffusers' own bf16 from its f32."""
    vae = vae.to(torch.bfloat16)
    x = torch.from_numpy(tensors["short"][:f]).float() / 127.5 - 1
    mean = vae.encode(x.permute(3, 0, 1, 2)[None].bfloat16()).latent_dist.mean[0].float()
    sample = cog.decode(vae, tensors["z"][:, :n].bfloat16())[0].float()
    for what, a, b in (("mean", mean, tensors[f"mean.{f}"]),
                       ("sample", sample, tensors[f"sample.{n}"])):
        far = float((a[-b.shape[0]:] - b).abs().max() / b.abs().max())
        print(f"vae_hunyuan15 bf16 against f32: {what} {far:.2e}")


def lengths(out, cog):
    vae, meta = model()
    tensors = {"short": cog.clip("hunyuan15", max(LENGTHS), 32, 48),
               "tall": cog.clip("hunyuan15.tall", 5, 80, 48),
               "z": golden.draw("z.hunyuan15", (4, max(COUNTS), 2, 3))}
    for f in LENGTHS:
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = cog.encode(vae, tensors["short"][:f])
    tensors["mean.tall"], tensors["logvar.tall"] = cog.encode(vae, tensors["tall"])
    for n in COUNTS:
        sample, tensors[f"u8.{n}"] = cog.decode(vae, tensors["z"][:, :n].contiguous())
        tensors[f"sample.{n}"] = sample[-4:]
    golden.save(out / "vae_hunyuan15.safetensors", tensors, **meta)
    rounding(tensors, vae, cog, 17, 5)


def tiles(out, cog):
    vae, meta = model(layers_per_block=2)
    vae.enable_tiling(**TILES)
    pixels, z = cog.clip("hunyuan15.tiles", 5, 80, 96), golden.draw("z.hunyuan15.tiles",
                                                                   (4, 2, 5, 6))
    mean, logvar = cog.encode(vae, pixels)
    _, u8 = cog.decode(vae, z)
    golden.save(out / "vae_hunyuan15_tiles.safetensors",
                {"pixels": pixels, "z": z, "mean": mean, "logvar": logvar, "u8": u8}, **meta)


def make(out):
    cog = golden.part("vae_cogvideox")
    lengths(out, cog)
    tiles(out, cog)
