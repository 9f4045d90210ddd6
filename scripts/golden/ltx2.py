"""LTX-2's transformer without sound: outputs, losses and gradients of 2.0, of 2.3 and with
interleaved rotations.

The reference is the forward of the whole model with isolate_modalities, in which the two streams do
not see each other; its sound is noise, and its loss that of the video. Files are as those of ltx.py
and the file ltx2-rope holds rotations of some tokens at real widths."""
import golden
import torch
from diffusers import LTX2VideoTransformer3DModel
from diffusers.models.transformers.transformer_ltx2 import LTX2AudioVideoRotaryPosEmbed
from diffusers.pipelines.ltx2.pipeline_ltx2 import LTX2Pipeline

TINY = dict(in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=16,
            cross_attention_dim=32, num_layers=2, caption_channels=32, rope_type="split",
            audio_in_channels=16, audio_out_channels=16, audio_num_attention_heads=2,
            audio_attention_head_dim=8, audio_cross_attention_dim=16)
V23 = dict(gated_attn=True, cross_attn_mod=True, audio_gated_attn=True, audio_cross_attn_mod=True,
           use_prompt_embeddings=False, perturbed_attn=True)
VARIANTS = {
    "ltx2-20": ({}, {"base": (2, 3, 4, 6), "off": (1, 2, 5, 3), "tokens": (2, 3, 4, 4)}),
    "ltx2-23": (V23, {"base": (2, 3, 4, 6), "off": (1, 2, 5, 3), "tokens": (2, 3, 4, 4),
                      "still": (1, 1, 4, 6)}),
    "ltx2-interleaved": (dict(rope_type="interleaved", rope_double_precision=False, num_layers=1),
                         {"base": (1, 2, 3, 4)}),
}
SOUND = 5                                      # audio latents of a clip
LORA = dict(r=3, lora_alpha=1, target_modules=[f"attn{i}.{n}" for i in (1, 2) for n in
                                               ("to_q", "to_k", "to_v", "to_out.0")])


def inputs(config, case, b, f, h, w):
    v = golden.part("ltx").inputs(config, "ltx2 " + case, b, f, h, w)
    if case == "tokens":                       # the first frame is clean
        v["token_t"] = v["t"][:, None].repeat(1, f * h * w)
        v["token_t"][:, :h * w] = 0
    return v


def predict(model, config, v):
    """[B,C,f,h,w] -> [B,C,f,h,w]"""
    b, c, f, h, w = v["x"].shape
    dtype = next(model.parameters()).dtype
    n = v["text"].shape[1]
    mask = (torch.arange(n)[None] < v["length"][:, None]).to(dtype)
    width = config["caption_channels"] if model.config.use_prompt_embeddings else (
        config["audio_num_attention_heads"] * config["audio_attention_head_dim"])
    y = model(hidden_states=LTX2Pipeline._pack_latents(v["x"], 1, 1).to(dtype),
              audio_hidden_states=golden.draw("sound", (b, SOUND, config["audio_in_channels"])
                                              ).to(dtype),
              encoder_hidden_states=v["text"].to(dtype),
              audio_encoder_hidden_states=golden.draw("words", (b, n, width)).to(dtype),
              timestep=v.get("token_t", v["t"][:, None]).float(), audio_timestep=v["t"],
              sigma=v["t"], encoder_attention_mask=mask, num_frames=f, height=h, width=w,
              fps=float(v["fps"][0]), audio_num_frames=SOUND, isolate_modalities=True,
              return_dict=False)[0]
    return LTX2Pipeline._unpack_latents(y, f, h, w, 1, 1)


# (f, h, w) of latents, at a width of 4096 in 32 heads
ROPES = [(4, 15, 22), (1, 2, 3)]


def ropes(out):
    """Writes cosines and sines of the tokens whose numbers are in `pick`, [tokens, width / 2]."""
    file = {}
    rope = LTX2AudioVideoRotaryPosEmbed(dim=4096, rope_type="split", num_attention_heads=32)
    for f, h, w in ROPES:
        coords = rope.prepare_video_coords(1, f, h, w, "cpu", fps=24)
        pick = sorted({0, w - 1, h * w - 1, f * h * w // 2, f * h * w - 1})
        name = f"4096/{f}x{h}x{w}/two"
        file[name + "/pick"] = torch.tensor(pick)
        for part, values in zip(("cos", "sin"), rope(coords)):
            file[f"{name}/{part}"] = values[0, :, pick].permute(1, 0, 2).flatten(1).contiguous()
    golden.save(out / "ltx2-rope.safetensors", file)


def make(out):
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", LTX2VideoTransformer3DModel,
                           {**TINY, **config}, cases, inputs, predict, LORA)
    ropes(out)
