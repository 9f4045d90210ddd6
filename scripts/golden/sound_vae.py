"""AutoencoderKLLTX2Audio: moments of spectrograms of odd lengths and decoded latents. LTX2Vocoder
and LTX2VocoderWithBWE: waveforms of spectrograms."""
import torch
from diffusers import AutoencoderKLLTX2Audio
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder, LTX2VocoderWithBWE

import golden

VAE = dict(base_channels=16, latent_channels=4, mel_bins=16, num_res_blocks=1, ch_mult=[1, 2, 2])
WIDE = dict(base_channels=32, latent_channels=4, mel_bins=32, num_res_blocks=2, ch_mult=[1, 1, 2])
PLAIN = dict(in_channels=32, hidden_channels=32, upsample_kernel_sizes=[16, 15, 8, 4, 4],
             upsample_factors=[6, 5, 2, 2, 2], resnet_kernel_sizes=[3, 7],
             resnet_dilations=[[1, 3, 5], [1, 3, 5]])
SNAKE = dict(in_channels=32, hidden_channels=32, upsample_kernel_sizes=[11, 4],
             upsample_factors=[5, 2], resnet_kernel_sizes=[3, 11],
             resnet_dilations=[[1, 3, 5], [1, 3, 5]])
WIDER = dict(PLAIN, hidden_channels=64, upsample_kernel_sizes=[11, 4, 4, 4, 4, 4],
             upsample_factors=[5, 2, 2, 2, 2, 2], act_fn="leaky_relu", antialias=False)
BWE = {f"bwe_{k}": v for k, v in dict(PLAIN, upsample_kernel_sizes=[12, 11, 4, 4, 4],
                                       act_fn="leaky_relu", antialias=False).items()}


def fields(model, name):
    config = {k: v for k, v in model.config.items() if not k.startswith("_")}
    return dict(config, _class_name=name)


def vae(out, name, config):
    model = AutoencoderKLLTX2Audio(**config).eval()
    shapes = golden.fill_module(model)
    tensors = {}
    for t in 1, 2, 7, 41:
        x = golden.draw(f"{name}.mel.{t}", (2, t, config["mel_bins"])) * 2 - 5
        posterior = model.encode(x[None]).latent_dist
        tensors.update({f"mel.{t}": x, f"mean.{t}": posterior.mean[0],
                        f"logvar.{t}": posterior.logvar[0]})
    for t in 1, 2, 9:
        z = golden.draw(f"{name}.z.{t}", (config["latent_channels"], t, config["mel_bins"] // 4))
        tensors.update({f"z.{t}": z, f"sample.{t}": model.decode(z[None]).sample[0]})
    golden.save(out / f"{name}.safetensors", tensors, weights=shapes,
                config=fields(model, "AutoencoderKLLTX2Audio"))


def vocoder(out, name, kind, config, lengths):
    model = kind(**config).eval()
    shapes = golden.fill_module(model)
    tensors = {}
    for t in lengths:
        x = golden.draw(f"{name}.mel.{t}", (2, t, 16)) - 1
        tensors.update({f"mel.{t}": x, f"wave.{t}": model(x[None])[0]})
    golden.save(out / f"{name}.safetensors", tensors, config=fields(model, kind.__name__),
                weights=shapes)


def make(out):
    vae(out, "sound_vae", VAE)
    vae(out, "sound_vae_wide", WIDE)
    vocoder(out, "vocoder_20", LTX2Vocoder, PLAIN, (1, 5, 12))
    vocoder(out, "vocoder_snake", LTX2Vocoder,
            dict(SNAKE, act_fn="snakebeta", antialias=True, final_act_fn=None, final_bias=False),
            (2, 5, 12))
    # snake's random weights would multiply the rounding between the two networks: its row is above
    vocoder(out, "vocoder_23", LTX2VocoderWithBWE,
            dict(WIDER, **BWE, filter_length=128, hop_length=80, window_length=128,
                 num_mel_channels=16, input_sampling_rate=16000, output_sampling_rate=48000),
            (1, 4))
