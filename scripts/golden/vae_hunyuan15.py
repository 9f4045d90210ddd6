"""AutoencoderKLHunyuanVideo15: moments of clips of every length, decodes of latents of one to five
frames, and both in tiles. Pixels are u8, seen as u8 / 127.5 - 1, channels last.
"""
from diffusers import AutoencoderKLHunyuanVideo15

import golden

CONFIG = dict(block_out_channels=(8, 8, 16, 32, 32), layers_per_block=1, latent_channels=4,
              scaling_factor=0.75)
LENGTHS, COUNTS = (1, 5, 9, 17), (1, 2, 5)
TILES = dict(tile_sample_min_height=64, tile_sample_min_width=64, tile_latent_min_height=4,
             tile_latent_min_width=4, tile_overlap_factor=0.25)


def model(**changed):
    return golden.filled(AutoencoderKLHunyuanVideo15, dict(CONFIG, **changed))


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
    cog.rounding("vae_hunyuan15", tensors, vae, 17, 5)


def tiles(out, cog):
    whole = model(layers_per_block=2)
    whole[0].enable_tiling(**TILES)
    cog.in_tiles(out, "vae_hunyuan15_tiles", whole, cog.clip("hunyuan15.tiles", 5, 80, 96),
                 golden.draw("z.hunyuan15.tiles", (4, 2, 5, 6)))


def make(out):
    cog = golden.part("vae_cogvideox")
    lengths(out, cog)
    tiles(out, cog)
