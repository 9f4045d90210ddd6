"""LTX-2's transformer with sound: outputs of both streams, losses and gradients of 2.0, of 2.3 and
with interleaved rotations.

A row of a case is a clip with or without sound, and rows differ in its length: the reference runs
row by row, with isolate_modalities for a clip without sound. `sound` and `sound_target`
[B,C,L,1,bins] hold zeros beyond a row's `sound_length` latent frames, and so does `sound_output`.
The loss is the mean square of the video's error and, as `sound_loss`, that of the sound of each row
that has some, divided by the number of rows.
`text` has the prompt of the video in its first columns and that of the sound behind them. All else
is as in ltx2.py."""
import golden
import torch
from diffusers import LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.pipeline_ltx2 import LTX2Pipeline

CHANNELS, BINS = 4, 4                          # of the sound's latents: audio_in_channels in all
# The rows' latent frames of sound; 0: the clip has none.
LENGTHS = {"base": [7, 4], "silent": [0, 5], "none": [0], "tokens": [6, 6]}
CASES = {"base": (2, 3, 4, 6), "silent": (2, 2, 4, 4), "none": (1, 2, 3, 3),
         "tokens": (2, 3, 4, 4)}
VARIANTS = {"ltx2-sound-20": {}, "ltx2-sound-23": "V23",
            "ltx2-sound-interleaved": dict(rope_type="interleaved", rope_double_precision=False,
                                           num_layers=1)}
LORA = dict(r=3, lora_alpha=1, target_modules=["to_q", "to_k", "to_v", "to_out.0"])


def widths(config):
    """The widths of the prompts of video and sound."""
    if config.get("use_prompt_embeddings", True):
        return config["caption_channels"], config["caption_channels"]
    return (config["num_attention_heads"] * config["attention_head_dim"],
            config["audio_num_attention_heads"] * config["audio_attention_head_dim"])


def inputs(config, case, b, f, h, w):
    v = golden.part("ltx2").inputs(config, "sound " + case, b, f, h, w)
    v.pop("token_t", None)
    n, lengths = v["text"].shape[1], LENGTHS.get(case, LENGTHS["base"])
    v["text"] = golden.draw("text of both " + case, (b, n, sum(widths(config))))
    for i in range(b):
        v["text"][i, v["length"][i]:] = 0
    if case == "tokens":                       # the first frame is clean
        v["token_t"] = v["t"][:, None].repeat(1, f * h * w)
        v["token_t"][:, :h * w] = 0
    most = max(max(lengths), 1)
    for name in "sound", "sound_target":
        v[name] = golden.draw(f"{name} {case}", (b, CHANNELS, most, 1, BINS))
        for i, n in enumerate(lengths):
            v[name][i, :, n:] = 0
    v["sound_length"] = torch.tensor(lengths, dtype=torch.int32)
    return v


def row(model, config, v, i, dtype):
    """The predictions of row i: [1,C,f,h,w], [1,C,L,1,bins]."""
    x, n = v["x"][i:i + 1], int(v["length"][i])
    _, _, f, h, w = x.shape
    l = max(int(v["sound_length"][i]), 1)
    sound = v["sound"][i:i + 1, :, :l, 0]
    video, audio = v["text"][i:i + 1].split(widths(config), dim=2)
    mask = (torch.arange(video.shape[1])[None] < n).to(dtype)
    t = v["t"][i:i + 1]
    y, a = model(hidden_states=LTX2Pipeline._pack_latents(x, 1, 1).to(dtype),
                 audio_hidden_states=LTX2Pipeline._pack_audio_latents(sound).to(dtype),
                 encoder_hidden_states=video.to(dtype), audio_encoder_hidden_states=audio.to(dtype),
                 timestep=v["token_t"][i:i + 1] if "token_t" in v else t[:, None],
                 audio_timestep=t, sigma=t, encoder_attention_mask=mask,
                 audio_encoder_attention_mask=mask, num_frames=f, height=h, width=w,
                 fps=float(v["fps"][i]), audio_num_frames=l, use_cross_timestep=True,
                 isolate_modalities=not v["sound_length"][i], return_dict=False)
    y = LTX2Pipeline._unpack_latents(y, f, h, w, 1, 1)
    return y, LTX2Pipeline._unpack_audio_latents(a, l, BINS)[:, :, :, None]


def predict(model, config, v):
    """The video's prediction, and the sound's part of the loss."""
    dtype, b = next(model.parameters()).dtype, len(v["x"])
    made, loss = [], 0
    v["sound_output"] = torch.zeros_like(v["sound"])
    for i in range(b):
        y, a = row(model, config, v, i, dtype)
        made.append(y)
        n = int(v["sound_length"][i])
        if n:
            v["sound_output"][i, :, :n] = a[0].detach().float()
            loss = loss + (a[0].float() - v["sound_target"][i, :, :n]).pow(2).mean() / b
    v["sound_loss"] = torch.as_tensor(loss).detach().float()
    return torch.cat(made), loss


def make(out):
    ltx2 = golden.part("ltx2")
    for name, config in VARIANTS.items():
        more = ltx2.V23 if config == "V23" else config
        cases = {"base": CASES["base"]} if "interleaved" in name else CASES
        golden.transformer(out / f"{name}.safetensors", LTX2VideoTransformer3DModel,
                           {**ltx2.TINY, **more}, cases, inputs, predict, LORA)
