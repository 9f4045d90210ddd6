"""torchaudio's resampling and its log-mel spectrogram, as the trainers of LTX-2 make it: tones that
rise, noise, silence, and lengths that are no multiples of the hop."""
import numpy as np
import torch
import torchaudio

import golden

RATES = (44100, 48000, 22050, 8000, 16000, 11025)


def sound(name, n, rate):
    t = np.arange(n) / rate
    x = 0.4 * np.sin(2 * np.pi * (200 * t + 1500 * t * t)) + 0.05 * golden.draw(name, (n,)).numpy()
    x[n // 3:n // 3 + n // 8] = 0
    return torch.from_numpy(x.astype(np.float32))


def log_mel(x, rate, bins, hop, window):
    mel = torchaudio.transforms.MelSpectrogram(
        sample_rate=rate, n_fft=window, win_length=window, hop_length=hop, f_min=0.0,
        f_max=rate / 2.0, n_mels=bins, window_fn=torch.hann_window, center=True,
        pad_mode="reflect", power=1.0, mel_scale="slaney", norm="slaney")
    return torch.log(torch.clamp(mel(x), min=1e-5)).transpose(-1, -2), mel.mel_scale.fb


def make(out):
    tensors = {}
    for rate in RATES:
        x = sound(f"rate.{rate}", 2207, rate)
        tensors[f"x.{rate}"] = x
        for to in 16000, 24000, 48000:
            tensors[f"y.{rate}.{to}"] = torchaudio.functional.resample(x.double(), rate, to).float()
    for n in 513, 3200, 5003:
        x = sound(f"mel.{n}", n, 16000)
        tensors[f"wave.{n}"] = x
        tensors[f"mel.{n}"], tensors["filters"] = log_mel(x, 16000, 64, 160, 1024)
    golden.save(out / "sound.safetensors", tensors)
