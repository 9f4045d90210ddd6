"""SkyReels V2's transformer: outputs, losses and gradients, in its variants.

The files are as those of wan.py. A case with a noise level for each latent frame (diffusion
forcing) has frame_t [B,f], the timesteps of the frames; diffusers gets them with
enable_diffusion_forcing. Models that read a frame rate have fps [B]. diffusers has no batches of
two where frames have timesteps and the model reads a rate, so that each row is a batch of its own.
"""
import golden
import torch
from diffusers import SkyReelsV2Transformer3DModel

wan = golden.part("wan")
RATES = [16.0, 24.0]
FRAMES = [[12.0, 437.0, 437.0, 987.0], [0.0, 655.0, 1000.0, 998.0]]
CASES = {"base": (2, 3, 4, 6), "off": (1, 4, 6, 4), "plain": (2, 3, 4, 4), "still": (1, 1, 4, 8)}

# name: config; {case: (B, f, h, w)}
VARIANTS = {
    "skyreels2": ({}, {k: v for k, v in CASES.items() if k != "off"}),
    "skyreels2-rate": (dict(inject_sample_info=True), CASES),
    "skyreels2-causal": (dict(num_frame_per_block=2, num_layers=1),
                         {"base": (2, 4, 4, 4), "plain": (1, 2, 4, 4)}),
    "skyreels2-i2v": ({**wan.I2V, **wan.CLIP}, {"base": (2, 3, 4, 4)}),
}


def inputs(config, case, b, f, h, w):
    v = wan.inputs(config, case, b, f, h, w)
    if case != "plain" and not config["image_dim"]:
        v["frame_t"] = torch.tensor([row[:f] for row in FRAMES[:b]])
    if config["inject_sample_info"]:
        v["fps"] = torch.tensor(RATES[:b])
    return v


def predict(model, config, v):
    dtype = next(model.parameters()).dtype
    x, image, fps = v["x"], v.get("cond.vision"), v.get("fps")
    if fps is not None and "frame_t" in v and len(x) > 1:
        rows = [{k: t[i:i + 1] for k, t in v.items()} for i in range(len(x))]
        return torch.cat([predict(model, config, row) for row in rows])
    if "cond.video" in v:
        x = torch.cat([x, v["cond.mask"], v["cond.video"]], 1)
    text = torch.zeros(len(x), wan.TEXT_ROWS, config["text_dim"])
    text[:, :wan.TEXT] = v["text"]
    return model(hidden_states=x.to(dtype), timestep=v.get("frame_t", v["t"]),
                 encoder_hidden_states=text.to(dtype),
                 encoder_hidden_states_image=None if image is None else image.to(dtype),
                 enable_diffusion_forcing="frame_t" in v,
                 fps=None if fps is None else [int(x != 16) for x in fps], return_dict=False)[0]


def make(out):
    for name, (config, cases) in VARIANTS.items():
        config = {**wan.TINY, "image_dim": None, "added_kv_proj_dim": None,
                  "pos_embed_seq_len": None, "inject_sample_info": False, "num_frame_per_block": 1,
                  **config}
        golden.transformer(out / f"{name}.safetensors", SkyReelsV2Transformer3DModel, config, cases,
                           inputs, predict, wan.LORA if name == "skyreels2-rate" else None)
