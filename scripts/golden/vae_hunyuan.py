"""AutoencoderKLHunyuanVideo: moments of clips of one to five tiles in time, decoded latents of one
to eight frames, and both in tiles on three axes. Pixels are u8, which mean u8 / 127.5 - 1, channels
last."""
from diffusers import AutoencoderKLHunyuanVideo

import golden

CONFIG = dict(block_out_channels=[8, 16, 16, 24], layers_per_block=1, latent_channels=4,
              norm_num_groups=4)
LENGTHS = (1, 5, 13, 17, 21, 25, 33, 49)
TILES = dict(tile_sample_min_height=32, tile_sample_min_width=32, tile_sample_stride_height=24,
             tile_sample_stride_width=24)


def model(**changed):
    return golden.filled(AutoencoderKLHunyuanVideo, dict(CONFIG, **changed), "_name_or_path")


def lengths(out, cog):
    vae, meta = model()
    short, tall = cog.clip("short", 49, 16, 24), cog.clip("tall", 17, 40, 24)
    z = golden.draw("z", (4, 8, 2, 3))
    tensors = {"short": short, "tall": tall, "z": z}
    for f in LENGTHS:
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = cog.encode(vae, short[:f])
    tensors["mean.tall"], tensors["logvar.tall"] = cog.encode(vae, tall)
    for n in (1, 2, 4, 5, 8):
        sample, tensors[f"u8.{n}"] = cog.decode(vae, z[:, :n].contiguous())
        tensors[f"sample.{n}"] = sample if n < 5 else sample[-8:]
    golden.save(out / "vae_hunyuan.safetensors", tensors, **meta)


def tiles(out, cog):
    """Writes results in tiles, of a model whose config disables the attention in its middle."""
    whole = model(mid_block_add_attention=False, layers_per_block=2)
    whole[0].enable_tiling(**TILES)
    cog.in_tiles(out, "vae_hunyuan_tiles", whole, cog.clip("tiles", 21, 40, 48),
                 golden.draw("z.tiles", (4, 6, 5, 6)))


def make(out):
    cog = golden.part("vae_cogvideox")
    lengths(out, cog)
    tiles(out, cog)
