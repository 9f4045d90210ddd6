"""Samples of LTX-2 without and with sound, in the layout of hunyuan_samples: 2.3 from a first frame
and 2.0 from text, from the weights of the goldens of ltx2.py and ltx2_connectors.py.

The pipelines let sound and video see each other, so the loop is written here from their parts:
diffusers' scheduler and shift, connector, transformer with isolate_modalities, and guidance of
velocities, which equals their guidance of clean latents. `text` [n,D] are features; the VAE's
statistics are as in ltx_samples.

In `samples-ltx2-sound-NAME` the streams see each other as in the pipelines, and the sound `audio`
[C,L,1,bins] is guided by a scale of its own; number k of a frame has the mean k and the standard
deviation 1 + k. `text` of 2.3 has the features of the sound behind those of the video."""
import golden
import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, LTX2Pipeline, LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.pipeline_ltx2 import calculate_shift

STEPS, F, H, W, N, GUIDANCE, ROWS = 4, 3, 4, 6, 7, 3.0, 1024
SOUND_GUIDANCE, SOUND_PURPOSE, FPS, PIXEL_FRAMES, RATE = 7.0, 88, 24.0, 9, 25


def prompts(connector, features):
    """Runs a connector on features, with the padding in front."""
    x, mask = torch.zeros(len(features), ROWS, features[0].shape[-1]), torch.zeros(
        len(features), 1, 1, ROWS)
    for i, f in enumerate(features):
        x[i, ROWS - len(f):] = f
        mask[i, ..., :ROWS - len(f)] = torch.finfo(torch.float32).min
    return connector(x, mask)[0]


def predict(model, x, times, level, text, sound, words):
    """The velocity [1,C,F,H,W], guided."""
    pack = LTX2Pipeline._pack_latents(x, 1, 1)
    y = model(hidden_states=pack.repeat(2, 1, 1), audio_hidden_states=sound,
              encoder_hidden_states=text, audio_encoder_hidden_states=words,
              timestep=times.repeat(2, 1), audio_timestep=level.repeat(2), sigma=level.repeat(2),
              num_frames=F, height=H, width=W, fps=24.0, audio_num_frames=sound.shape[1],
              isolate_modalities=True, return_dict=False)[0]
    negative, positive = LTX2Pipeline._unpack_latents(y, F, H, W, 1, 1).chunk(2)
    return negative + GUIDANCE * (positive - negative)


def sample(name, config, more, picture):
    part, hunyuan = golden.part("ltx2"), golden.part("hunyuan_samples")
    connector = golden.part("ltx2_connectors")
    model = golden.tiny(LTX2VideoTransformer3DModel, {**part.TINY, **config})[0]
    connectors = golden.tiny(LTX2TextConnectors, {**connector.TINY, **more})[0]
    c, width = 8, 32
    mean = torch.arange(float(c)).view(-1, 1, 1, 1)
    t = {"text": golden.draw("text " + name, (N, width)),
         "negative_text": golden.draw("negative " + name, (N - 2, width))}
    x = hunyuan.noise((c, F, H, W))[None]
    if picture:
        t["image"] = golden.draw("image " + name, (c, 1, H, W)) * (1 + mean) + mean
        x[0, :, :1] = (t["image"] - mean) / (1 + mean)
    text = prompts(connectors.video_connector, [t["negative_text"], t["text"]])
    sound = golden.draw("sound", (2, part.SOUND, part.TINY["audio_in_channels"]))
    words = golden.draw("words", (2, ROWS, width if model.config.use_prompt_embeddings else 16))
    scheduler = FlowMatchEulerDiscreteScheduler(**golden.part("ltx_samples").DYNAMIC)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / STEPS, STEPS),
                            mu=calculate_shift(F * H * W, 1024, 4096, 0.95, 2.05))
    for level in scheduler.timesteps:
        times = level.repeat(1, F * H * W)
        if picture:
            times[:, :H * W] = 0
        v = predict(model, x, times, level[None], text, sound, words)
        first = 1 if picture else 0
        x[:, :, first:] = scheduler.step(v[:, :, first:], level, x[:, :, first:],
                                         return_dict=False)[0]
    t["latents"] = x[0] * (1 + mean) + mean
    return t


def guided(y, scale):
    negative, positive = y.chunk(2)
    return negative + scale * (positive - negative)


def sample_both(name, config, more, picture):
    part, hunyuan = golden.part("ltx2"), golden.part("hunyuan_samples")
    connector, sound = golden.part("ltx2_connectors"), golden.part("ltx2_sound")
    model = golden.tiny(LTX2VideoTransformer3DModel, {**part.TINY, **config})[0]
    connectors = golden.tiny(LTX2TextConnectors, {**connector.TINY, **more})[0]
    c, numbers = 8, sound.CHANNELS * sound.BINS
    own = bool(more)                              # the sound's features are its own
    mean, of_sound = torch.arange(float(c)).view(-1, 1, 1, 1), torch.arange(float(numbers))
    t = {"text": golden.draw("both " + name, (N, 48 if own else 32)),
         "negative_text": golden.draw("negative both " + name, (N - 2, 48 if own else 32))}
    x = hunyuan.noise((c, F, H, W))[None]
    length = round(PIXEL_FRAMES / FPS * RATE)
    hunyuan.PURPOSE = SOUND_PURPOSE
    a = LTX2Pipeline._pack_audio_latents(hunyuan.noise((sound.CHANNELS, length, sound.BINS))[None])
    if picture:
        t["image"] = golden.draw("image " + name, (c, 1, H, W)) * (1 + mean) + mean
        x[0, :, :1] = (t["image"] - mean) / (1 + mean)
    texts = [t["negative_text"], t["text"]]
    text = prompts(connectors.video_connector, [y[:, :32] for y in texts])
    words = prompts(connectors.audio_connector, [y[:, 32:] if own else y for y in texts])
    scheduler = FlowMatchEulerDiscreteScheduler(**golden.part("ltx_samples").DYNAMIC)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / STEPS, STEPS),
                            mu=calculate_shift(F * H * W, 1024, 4096, 0.95, 2.05))
    levels, first = scheduler.sigmas, 1 if picture else 0
    for i, level in enumerate(scheduler.timesteps):
        times = level.repeat(1, F * H * W)
        if picture:
            times[:, :H * W] = 0
        both = level.repeat(2)
        v, s = model(hidden_states=LTX2Pipeline._pack_latents(x, 1, 1).repeat(2, 1, 1),
                     audio_hidden_states=a.repeat(2, 1, 1), encoder_hidden_states=text,
                     audio_encoder_hidden_states=words, timestep=times.repeat(2, 1),
                     audio_timestep=both, sigma=both, num_frames=F, height=H, width=W, fps=FPS,
                     audio_num_frames=length, use_cross_timestep=True, return_dict=False)
        step = levels[i + 1] - levels[i]
        v = guided(LTX2Pipeline._unpack_latents(v, F, H, W, 1, 1), GUIDANCE)
        x[:, :, first:] += step * v[:, :, first:]
        a = a + step * guided(s, SOUND_GUIDANCE)
    t["latents"] = x[0] * (1 + mean) + mean
    a = LTX2Pipeline._unpack_audio_latents(a * (1 + of_sound) + of_sound, length, sound.BINS)
    t["audio"] = a[0][:, :, None]
    return t


def make(out):
    part, connector = golden.part("ltx2"), golden.part("ltx2_connectors")
    for name, config, more, picture in (("20", {}, {}, False),
                                        ("23", part.V23, connector.V23, True)):
        for kind, of in ("ltx2-", sample), ("ltx2-sound-", sample_both):
            golden.save(out / f"samples-{kind}{name}.safetensors",
                        of("ltx2-" + name, config, more, picture),
                        seed=str(golden.part("hunyuan_samples").SEED), steps=str(STEPS),
                        guidance=str(GUIDANCE))
