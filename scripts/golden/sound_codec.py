"""A codec of sound that keeps a tone's frequency, `sound_codec.tar.gz`: the folders audio_vae and
vocoder of a tiny LTX-2.0, for a test that hears what was encoded.

The autoencoder (diffusers' AutoencoderKLLTX2Audio) learns spectrograms of tones here, in 500 steps.
The vocoder (LTX2Vocoder) is constructed. The frequency f of a bin is a multiple of 100 Hz, the rate
of the spectrogram, and A is the mean of the channels' logarithms above -2:

    sin(2 pi f t) A(t) = sum over i of w(t - t_i) (s_i cos(2 pi f (t - t_i)) + c_i sin(..)),
    s_i, c_i = A(t_i) sin(2 pi f t_i), A(t_i) cos(..),

where the t_i are 1/1500 s apart and the windows w of neighbours add up to 1. The first transposed
convolution makes s and c of A in the same way, from one frame to the next, where 2 pi f t is a
multiple of 2 pi, and the second one the sum; each number stands beside its negative, so that the
rectifiers between them change nothing, and the residual blocks have zeros."""
import gzip
import io
import json
import math
import tarfile

import torch
import torchaudio
from diffusers import AutoencoderKLLTX2Audio
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder
from safetensors.torch import save

BINS, RATE = 16, 16000
VAE = dict(base_channels=16, latent_channels=4, mel_bins=BINS, num_res_blocks=1, ch_mult=[1, 1, 1])
VOCODER = dict(in_channels=2 * BINS, hidden_channels=128, upsample_kernel_sizes=[31, 32],
               upsample_factors=[15, 16], resnet_kernel_sizes=[3], resnet_dilations=[[1]],
               leaky_relu_negative_slope=0.0)
STEPS = 500


def spectrum():
    return torchaudio.transforms.MelSpectrogram(
        sample_rate=RATE, n_fft=1024, win_length=1024, hop_length=160, f_min=0.0, f_max=RATE / 2,
        n_mels=BINS, window_fn=torch.hann_window, center=True, pad_mode="reflect", power=1.0,
        mel_scale="slaney", norm="slaney")


def centres():
    """The frequency of each bin, a multiple of 100 Hz."""
    filters = spectrum().mel_scale.fb                      # [lines,bins]
    return [100 * round(float(i) * RATE / 1024 / 100) for i in filters.argmax(0)]


def tones(n, g):
    """Spectrograms [n,2,T,BINS] of tones from 150 to 6000 Hz."""
    t = torch.arange(160 * 99) / RATE
    f = 150 * 40 ** torch.rand(n, 1, generator=g)
    x = (0.05 + 0.9 * torch.rand(n, 1, generator=g)) * torch.sin(2 * math.pi * f * t)
    y = torch.log(torch.clamp(spectrum()(x), min=1e-5)).transpose(1, 2)
    return torch.stack([y, y], 1)


@torch.enable_grad()
def train(model, data, g):
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=STEPS)
    for _ in range(STEPS):
        begin = int(torch.randint(0, 36, (1,), generator=g)) * int(torch.rand(1, generator=g) < 0.5)
        x = data[torch.randint(0, len(data), (10,), generator=g)][:, :, begin:begin + 65]
        z = model.encode(x).latent_dist.mean
        y = model.decode(z + 0.02 * torch.randn(z.shape, generator=g)).sample
        loss = ((y - x) ** 2).mean() + 1e-4 * (z ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return float(loss.detach())


def autoencoder():
    g = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = AutoencoderKLLTX2Audio(**VAE)
    data = tones(512, g)
    print(f"sound_codec: the last loss is {train(model, data, g):.3f}")
    with torch.no_grad():
        out = model.encoder.conv_out.conv                  # nearly a point: exp(-12)
        out.weight[4:] = 0
        out.bias[4:] = -12
        z = model.encode(data).latent_dist.mean.transpose(1, 2).flatten(2).flatten(0, 1)
        model.latents_mean.copy_(z.mean(0))
        model.latents_std.copy_(z.std(0).clamp(min=1e-2))
        x = tones(64, g)
        y = model.decode(model.encode(x).latent_dist.mean).sample
    same = (x.mean((1, 2)).argmax(-1) == y.mean((1, 2)).argmax(-1)).float().mean()
    print(f"sound_codec: {100 * float(same):.0f}% of new tones keep the loudest of {BINS} bins")
    return model


def hann(n):
    return torch.sin(math.pi * (torch.arange(n) + 0.5) / n) ** 2


def vocoder():
    model = LTX2Vocoder(**VOCODER)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        w = {name: p for name, p in model.named_parameters()}
        first, second = (w[f"upsamplers.{i}.weight"] for i in range(2))
        # tap m is of sample 15 j + m - 8 of the first result, and 16 i + m - 8 of the second
        m1, m2 = torch.arange(31) - 8.0, torch.arange(32) - 8.0
        w1, w2 = torch.cat([hann(30), torch.zeros(1)]), hann(32)
        for k, f in enumerate(centres()):
            w["conv_in.weight"][k, [k, BINS + k], 3] = 0.5
            w["conv_in.bias"][k] = 2
            for j, of in enumerate((torch.sin, torch.cos)):
                a = w1 * of(2 * math.pi * f * m1 / 1500)
                b = w2 * (torch.cos, torch.sin)[j](2 * math.pi * f * m2 / 24000)
                at = 4 * k + 2 * j
                first[k, at], first[k, at + 1] = a, -a
                second[at, 0], second[at + 1, 0] = b, -b
                second[at, 1], second[at + 1, 1] = -b, b
        w["conv_out.weight"][:, 0, 3] = 0.1
        w["conv_out.weight"][:, 1, 3] = -0.1
    return model


def make(out):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder, model in ("audio_vae", autoencoder()), ("vocoder", vocoder()):
            config = {k: v for k, v in model.config.items() if not k.startswith("_")}
            config["_class_name"] = type(model).__name__
            tensors = {k: v.contiguous().float() for k, v in model.state_dict().items()}
            for name, content in (("config.json", json.dumps(config).encode()),
                                  ("diffusion_pytorch_model.safetensors", save(tensors))):
                info = tarfile.TarInfo(f"{folder}/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    with open(out / "sound_codec.tar.gz", "wb") as f:
        with gzip.GzipFile("", "wb", 9, f, mtime=0) as packed:
            packed.write(data.getvalue())
