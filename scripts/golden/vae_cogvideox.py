"""AutoencoderKLCogVideoX: moments of clips of every length, decoded latents of one to five frames,
both in tiles, and moments in windows of 48 frames. Pixels are u8, which mean u8 / 127.5 - 1,
channels last."""
import numpy as np
import torch
from diffusers import AutoencoderKLCogVideoX
from diffusers.video_processor import VideoProcessor

import golden

CONFIG = dict(block_out_channels=[16, 24, 24, 32], layers_per_block=1, latent_channels=4,
              norm_num_groups=4, scaling_factor=0.7, invert_scale_latents=True,
              sample_height=96, sample_width=80)       # tiles of 48 x 40, steps of 40 x 32
LENGTHS = (1, 5, 9, 13, 17, 21, 33, 49)


def model(**changed):
    return golden.filled(AutoencoderKLCogVideoX, dict(CONFIG, **changed), "_name_or_path")


def clip(name, f, h, w):
    """Returns a clip of smooth moving shapes with noise: neighbouring frames are similar."""
    t, y, x, c = np.meshgrid(*(np.arange(n) for n in (f, h, w, 3)), indexing="ij")
    wave = np.sin(0.3 * x + 0.21 * t + c) + np.cos(0.23 * y - 0.17 * t * (c + 1))
    noise = golden.draw(name, (f, h, w, 3)).numpy()
    return np.clip(127.5 + 48 * wave + 20 * noise, 0, 255).astype(np.uint8)


def encode(vae, pixels):
    x = torch.from_numpy(pixels.astype(np.float32) / np.float32(127.5) - 1)
    d = vae.encode(x.permute(3, 0, 1, 2)[None]).latent_dist
    return d.mean[0], d.logvar[0]


def decode(vae, z, *condition):
    y = vae.decode(z[None], *condition).sample
    u8 = VideoProcessor(vae_scale_factor=8).postprocess_video(y, output_type="pil")[0]
    return y[0].permute(1, 2, 3, 0), np.stack([np.asarray(frame) for frame in u8])


def in_tiles(out, name, whole, pixels, z, decode=decode):
    """Writes a clip's moments and a latent's frames of a VAE that works in tiles."""
    vae, meta = whole
    mean, logvar = encode(vae, pixels)
    _, u8 = decode(vae, z)
    tensors = {"pixels": pixels, "z": z, "mean": mean, "logvar": logvar, "u8": u8}
    golden.save(out / f"{name}.safetensors", tensors, **meta)


def rounding(name, tensors, vae, f, n, decode=decode):
    """Prints the distance of diffusers' own bf16 from its f32."""
    vae = vae.to(torch.bfloat16)
    x = torch.from_numpy(tensors["short"][:f]).float() / 127.5 - 1
    mean = vae.encode(x.permute(3, 0, 1, 2)[None].bfloat16()).latent_dist.mean[0].float()
    sample = decode(vae, tensors["z"][:, :n].bfloat16())[0].float()
    for what, a, b in (("mean", mean, tensors[f"mean.{f}"]),
                       ("sample", sample, tensors[f"sample.{n}"])):
        far = float((a[-b.shape[0]:] - b).abs().max() / b.abs().max())
        print(f"{name} bf16 against f32: {what} {far:.2e}")


def lengths(out):
    vae, meta = model()
    short, tall = clip("short", 49, 16, 24), clip("tall", 17, 40, 24)
    z = golden.draw("z", (4, 5, 2, 3))
    tensors = {"short": short, "tall": tall, "z": z}
    for f in LENGTHS:
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = encode(vae, short[:f])
    tensors["mean.tall"], tensors["logvar.tall"] = encode(vae, tall)
    for n in range(1, 6):
        tensors[f"sample.{n}"], tensors[f"u8.{n}"] = decode(vae, z[:, :n].contiguous())
    golden.save(out / "vae_cogvideox.safetensors", tensors, **meta)


def tiles(out):
    vae, meta = model(layers_per_block=2)
    vae.enable_tiling()
    pixels, z = clip("tiles", 17, 64, 56), golden.draw("z.tiles", (4, 3, 8, 7))
    mean, logvar = encode(vae, pixels)
    sample, u8 = decode(vae, z)
    golden.save(out / "vae_cogvideox_tiles.safetensors",
                {"pixels": pixels, "z": z, "mean": mean, "logvar": logvar, "u8": u8,
                 "sample.first": sample[:1], "sample.last": sample[-1:]}, **meta)


def windows(out):
    vae, meta = model()
    vae.num_sample_frames_batch_size = 48
    pixels = clip("windows", 97, 16, 16)
    tensors = {"windows": pixels}
    for f in (49, 97):
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = encode(vae, pixels[:f])
    golden.save(out / "vae_cogvideox_windows.safetensors", tensors, **meta)


def make(out):
    lengths(out)
    tiles(out)
    windows(out)
