"""Caches of LTX-2's trainers, as their preprocessing writes them, for vlat import.

`ltx2_caches.tar` has the folders of each trainer, the constants of the two autoencoders (`vae`,
`audio_vae`), and in `expected` the bytes of the tensors that an import makes of the files. Encoders
are left out: their normalised latents and the features of the prompt are random numbers in the
types and shapes of the trainer's code: ltx-trainer (400fd31: scripts/process_videos.py,
scripts/process_captions.py, src/ltx_trainer/datasets.py), musubi-tuner's fork for LTX-2
(AkaneTendo25 e0e570f: dataset/cache_io.py, ltx2_cache_latents.py), diffusion-pipe (8f83dbf:
models/ltx2.py, utils/cache.py).
"""
import io
import json
import sqlite3
import tarfile

import numpy as np
import torch
from safetensors.torch import save

CHANNELS, SOUND, BINS = 128, 8, 16


class Folder:
    """Files of a tar without times and owners, so that equal files give equal bytes."""

    def __init__(self, path):
        self.tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)

    def add(self, name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))

    def pt(self, name, value):
        data = io.BytesIO()
        torch.save(value, data)
        self.add(name, data.getvalue())

    def tensor(self, name, x):
        self.add(name, x.contiguous().view(torch.uint8).numpy().tobytes())


class Constants:
    """A mean and a std for each channel of the video, and for each number of a frame of sound."""

    def __init__(self, g):
        self.mean = torch.rand(CHANNELS, generator=g) - 0.5
        self.std = torch.rand(CHANNELS, generator=g) + 0.5

    def raw(self, x):
        """Returns normalised latents [C,f,h,w] as the autoencoder made them."""
        shape = [-1] + [1] * (x.dim() - 1)
        mean, std = (v.double().reshape(shape) for v in (self.mean, self.std))
        return (x.double() / (1 / std) + mean).float()

    def raw_sound(self, x):
        """The same of sound [C,T,bins], whose numbers are counted by channel, then bin."""
        tokens = x.transpose(0, 1).reshape(x.shape[1], -1).T
        return self.raw(tokens).T.reshape(x.shape[1], SOUND, BINS).transpose(0, 1)


def write_constants(out, video, sound):
    config = {"_class_name": "AutoencoderKLLTX2Video", "latent_channels": CHANNELS,
              "latents_mean": video.mean.tolist(), "latents_std": video.std.tolist()}
    out.add("vae/config.json", json.dumps(config).encode())
    config = {"_class_name": "AutoencoderKLLTX2Audio", "latent_channels": SOUND,
              "sample_rate": 16000, "mel_hop_length": 160, "mel_bins": 64}
    out.add("audio_vae/config.json", json.dumps(config).encode())
    out.add("audio_vae/diffusion_pytorch_model.safetensors",
            save({"latents_mean": sound.mean, "latents_std": sound.std}))


def features(g, rows, width):
    return torch.randn(rows, width, generator=g).bfloat16()


def conditions(g, n, widths, padding):
    """Features of n tokens, in front of which are rows of padding: up to 1024 rows in all in the
    trainer's first versions, none or one in those that trim the files; fewer here."""
    rows = n + padding
    mask = torch.zeros(rows, dtype=torch.int64)
    mask[-n:] = 1
    video = features(g, rows, widths[0]) * mask[:, None].bfloat16()
    d = {"video_prompt_embeds": video, "prompt_attention_mask": mask}
    if len(widths) > 1:
        d["audio_prompt_embeds"] = (features(g, rows, widths[1]) * mask[:, None].bfloat16()
                                    if widths[1] else video.clone())
    return d


def ltx_trainer(out, g, name, clips, widths, video, sound):
    """clips: of each its path, frames, rate, tokens, and frames of sound, 0 for none."""
    for i, (path, frames, fps, tokens, length) in enumerate(clips):
        f, h, w = (frames - 1) // 8 + 1, 1, 2
        x = torch.randn(CHANNELS, f, h, w, generator=g).bfloat16()
        out.pt(f"{name}/latents/{path}", {"latents": x, "num_frames": f, "height": h, "width": w,
                                          "fps": fps})
        d = conditions(g, tokens, widths, i)
        out.pt(f"{name}/conditions/{path}", d)
        rows = [d["video_prompt_embeds"][-tokens:]]
        if len(widths) > 1 and widths[1]:
            rows.append(d["audio_prompt_embeds"][-tokens:])
        out.tensor(f"expected/{name}/{i}.latent", video.raw(x))
        out.tensor(f"expected/{name}/{i}.text", torch.cat(rows, 1))
        if length:
            a = torch.randn(SOUND, length, BINS, generator=g)
            out.pt(f"{name}/audio_latents/{path}",
                   {"latents": a, "num_time_steps": length, "frequency_bins": BINS,
                    "duration": frames / fps})
            kept = min(length, int(np.rint(frames / fps * 25)))
            out.tensor(f"expected/{name}/{i}.sound", sound.raw_sound(a)[:, :kept])


def ltx_trainer_old(out, g, video):
    """The files of its first versions: tokens, and features that are the same for both."""
    x = torch.randn(CHANNELS, 2, 1, 2, generator=g).bfloat16()
    rows = features(g, 3, 3840)
    name = "ltx-trainer-old"
    out.pt(f"{name}/latents/latent_0.pt", {"latents": x.reshape(CHANNELS, -1).T.contiguous(),
                                           "num_frames": 2, "height": 1, "width": 2, "fps": 25.0})
    out.pt(f"{name}/conditions/condition_0.pt",
           {"prompt_embeds": rows, "prompt_attention_mask": torch.tensor([0, 1, 1])})
    out.tensor(f"expected/{name}/0.latent", video.raw(x))
    out.tensor(f"expected/{name}/0.text", rows[1:])


def musubi(out, g, video, sound):
    """musubi-tuner's fork: clips of 17 frames at 24 a second, the second with sound that was padded
    to the length of the clip (17 latent frames, rounded down), and one without."""
    for i, (stem, length) in enumerate((("a_b", 18), ("c", 15), ("d", 0))):
        x = torch.randn(CHANNELS, 3, 1, 2, generator=g).bfloat16()
        name = f"musubi/{stem}_00000-017_0096x0048_ltx2"
        meta = {"architecture": "ltx2_v1", "format_version": "1.0.1"}
        out.add(f"{name}.safetensors",
                save({"latents_3x1x2_bfloat16": x},
                     dict(meta, width="96", height="48", frame_count="17")))
        text = torch.randn(8, 6, generator=g).bfloat16()     # outputs of the connectors
        mask = torch.ones(8, dtype=torch.int64)
        out.add(f"musubi/{stem}_ltx2_te.safetensors",
                save({"video_prompt_embeds_bfloat16": text, "prompt_attention_mask": mask,
                      "text_bfloat16": text.clone(), "text_mask": mask.clone()},
                     dict(meta, caption1=stem)))
        out.tensor(f"expected/musubi/{i}.latent", video.raw(x))
        if length:
            a = torch.randn(SOUND, 17 if i else length, BINS, generator=g).bfloat16()
            a[:, length:] = 0
            steps = a.shape[1]
            out.add(f"{name}_audio.safetensors",
                    save({f"audio_latents_{steps}x{BINS}x{SOUND}_fp32": a,
                          "audio_lengths_int32": torch.tensor(17 if i else length,
                                                              dtype=torch.int32)},
                         dict(meta, duration_seconds="0.7", target_fps="24.0")))
            out.tensor(f"expected/musubi/{i}.sound", sound.raw_sound(a)[:, :18])


class Cache:
    """A cache of diffusion-pipe (8f83dbf, utils/cache.py): a database, and values in a row."""

    def __init__(self, out, path):
        self.out, self.path, self.data, self.items = out, path, b"", []

    def add(self, value):
        data = io.BytesIO()
        torch.save(value, data)
        self.items.append((len(self.data), len(data.getvalue())))
        self.data += data.getvalue()

    def close(self):
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE fingerprint(value)")
        db.execute("INSERT INTO fingerprint VALUES('x')")
        db.execute("CREATE TABLE items(shard, shard_index)")
        db.execute("CREATE TABLE shard_0(offset, size)")
        db.executemany("INSERT INTO items VALUES(0, ?)", [(i,) for i in range(len(self.items))])
        db.executemany("INSERT INTO shard_0 VALUES(?, ?)", self.items)
        db.commit()
        self.out.add(f"{self.path}/metadata.db", db.serialize())
        self.out.add(f"{self.path}/shard_0.bin", self.data)


def diffusion_pipe(out, g, video):
    """LTX-2.3 without sound: features of video and sound in one row, padding behind them."""
    latents = Cache(out, "cache/ltx2/cache_2.000x64x32x9/latents")
    texts = Cache(out, "cache/ltx2/ar_frames_2.000_9/text_embeddings_1")
    empty = Cache(out, "cache/ltx2/uncond_text_embeddings_1")
    for i in range(2):
        x = torch.randn(CHANNELS, 2, 1, 2, generator=g)
        spec, rows = [None, f"clips/{i}.mp4"], features(g, 5, 6144)
        mask = torch.tensor([1, 1, 1, 0, 0] if i else [1, 1, 0, 0, 0])
        latents.add({"latents": x, "mask": None, "image_spec": spec, "caption": [f"clip {i}"]})
        texts.add({"text_embeds_0": rows, "attention_mask_0": mask, "image_spec": spec})
        out.tensor(f"expected/ltx2/{i}.latent", video.raw(x))
        out.tensor(f"expected/ltx2/{i}.text", rows[:2 + i])
    empty.add({"text_embeds_0": features(g, 1, 6144), "attention_mask_0": torch.tensor([1])})
    for cache in (latents, texts, empty):
        cache.close()


def broken(out, g):
    """A sample with each kind of damage, by the folder's name."""
    kinds = ("latents sizes mask unmarked width text nan_sound long_sound still_sound rate").split()
    for kind in kinds:
        still = kind == "still_sound"
        x = torch.randn(CHANNELS, 1 if still else 2, 1, 2, generator=g).bfloat16()
        rows = features(g, 3, 3584 if kind == "width" else 3840)
        sound = torch.randn(SOUND, 12 if kind == "long_sound" else 9, BINS, generator=g)
        mask = {"mask": [1, 0, 1], "unmarked": [0, 0, 0]}.get(kind, [0, 1, 1])
        for damaged, at in (("latents", 5), ("text", 3840 + 7), ("nan_sound", 3)):
            if kind == damaged:
                {"latents": x, "text": rows, "nan_sound": sound}[kind].view(-1)[at] = torch.nan
        out.pt(f"broken/{kind}/latents/a.pt",
               {"latents": x, "num_frames": 3 if kind == "sizes" else x.shape[1], "height": 1,
                "width": 2, "fps": 0.0 if kind == "rate" else 25.0})
        out.pt(f"broken/{kind}/conditions/a.pt",
               {"video_prompt_embeds": rows, "prompt_attention_mask": torch.tensor(mask)})
        if kind.endswith("sound"):
            out.pt(f"broken/{kind}/audio_latents/a.pt",
                   {"latents": sound, "num_time_steps": sound.shape[1], "frequency_bins": BINS,
                    "duration": 0.36})


def make(out):
    g = torch.Generator().manual_seed(2)
    video, sound = Constants(g), Constants(g)
    folder = Folder(out / "ltx2_caches.tar")
    write_constants(folder, video, sound)
    # 9 frames at 25 a second are 0.36 s: 37 columns of the spectrogram, 10 latent frames
    ltx_trainer(folder, g, "ltx-trainer-2.0",
                [("a.pt", 9, 25.0, 3, 10), ("more/b.pt", 17, 24.0, 5, 0),
                 ("still.pt", 1, 1.0, 2, 0)],
                [3840, 0], video, sound)
    ltx_trainer(folder, g, "ltx-trainer-2.3",
                [("a.pt", 9, 25.0, 3, 9), ("b.pt", 9, 24.0, 4, 10)],
                [4096, 2048], video, sound)
    ltx_trainer_old(folder, g, video)
    broken(folder, g)
    musubi(folder, g, video, sound)
    diffusion_pipe(folder, g, video)
    folder.tar.close()
