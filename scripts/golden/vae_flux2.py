"""AutoencoderKLFlux2: moments and decodes of pictures of odd sizes as Flux2KleinPipeline patches
them, 2 x 2 places to one of four times as many channels, the statistics of its batch norm, and both
in tiles. Pixels are u8, seen as u8 / 127.5 - 1, channels last. `vae_flux2_small` has a decoder
narrower than the encoder."""
import torch
from diffusers import AutoencoderKLFlux2, Flux2KleinPipeline

import golden

CONFIG = dict(block_out_channels=[8, 16, 16, 24], layers_per_block=1, latent_channels=4,
              norm_num_groups=4, sample_size=64, batch_norm_eps=1e-4)
SKIPPED = "bn.num_batches_tracked"                    # an integer


def model(**changed):
    return golden.filled(AutoencoderKLFlux2, dict(CONFIG, **changed), skip=(SKIPPED,))


def encode(vae, pixels, dtype=torch.float32):
    moments = golden.part("vae_kl").encode(vae, pixels, dtype)
    patches = [Flux2KleinPipeline._patchify_latents(m.transpose(0, 1)) for m in moments]
    return [p.transpose(0, 1).contiguous() for p in patches]


def decode(vae, z):
    places = Flux2KleinPipeline._unpatchify_latents(z.transpose(0, 1)).transpose(0, 1)
    return golden.part("vae_kl").decode(vae, places)


def small(out):
    vae, meta = model(decoder_block_out_channels=[4, 8, 12, 16])
    tensors = {"short": golden.part("vae_cogvideox").clip("flux2.small", 1, 32, 48),
               "z": golden.draw("z.flux2.small", (16, 1, 3, 2))}
    tensors["mean.1"], tensors["logvar.1"] = encode(vae, tensors["short"])
    _, tensors["u8.1"] = decode(vae, tensors["z"])
    golden.save(out / "vae_flux2_small.safetensors", tensors, **meta)


def make(out):
    small(out)
    cog = golden.part("vae_cogvideox")
    vae, meta = model()
    tensors = {"short": cog.clip("flux2", 2, 48, 80), "tall": cog.clip("flux2.tall", 1, 112, 16),
               "z": golden.draw("z.flux2", (16, 2, 5, 3)), "bn.mean": vae.bn.running_mean,
               "bn.std": torch.sqrt(vae.bn.running_var + vae.config.batch_norm_eps)}
    for f in (1, 2):
        tensors[f"mean.{f}"], tensors[f"logvar.{f}"] = encode(vae, tensors["short"][:f])
        _, tensors[f"u8.{f}"] = decode(vae, tensors["z"][:, :f])
    tensors["mean.tall"], tensors["logvar.tall"] = encode(vae, tensors["tall"])
    vae.enable_tiling()
    tensors["tiles"] = cog.clip("flux2.tiles", 1, 144, 80)
    tensors["mean.tiles"], tensors["logvar.tiles"] = encode(vae, tensors["tiles"])
    tensors["z.tiles"] = golden.draw("z.flux2.tiles", (16, 1, 9, 5))
    _, tensors["u8.tiles"] = decode(vae, tensors["z.tiles"])
    vae.disable_tiling()
    half = vae.to(torch.bfloat16)
    a, b = encode(half, tensors["short"], torch.bfloat16)[0].float(), tensors["mean.2"]
    print(f"vae_flux2 bf16 against f32: mean {float((a - b).abs().max() / b.abs().max()):.2e}")
    golden.save(out / "vae_flux2.safetensors", tensors, **meta)
