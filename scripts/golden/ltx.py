"""LTX-Video's transformer: outputs, losses and gradients, in its variants.

Each variant has a file. Its cases `NAME/...` have different grids; a case holds x [B,C,f,h,w], t
[B] or token_t [B,N], text with the lengths of its rows, fps [B], target, output, loss. The
gradients of the case `base` are `grad/<parameter>`. The case `lora` has a LoRA on the same weights,
which are frozen; its gradients are `lora/grad/<factor>`. The file ltx-rope holds rotations of some
tokens at real widths.
"""
import golden
import torch
from diffusers import LTXVideoTransformer3DModel
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed
from diffusers.pipelines.ltx.pipeline_ltx import LTXPipeline
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXConditionPipeline

TINY = dict(in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=32,
            cross_attention_dim=64, num_layers=2, caption_channels=32)

# name: config, {case: (B, f, h, w)}. In "ltx", which is 64 wide, 4 columns have no rotation, as in
# 13B; in "ltx-48" all columns have one.
VARIANTS = {
    "ltx": ({}, {"base": (2, 3, 4, 6), "off": (1, 2, 5, 3), "tokens": (2, 3, 4, 4),
                 "still": (1, 1, 4, 6)}),
    "ltx-48": (dict(num_attention_heads=1, attention_head_dim=48, cross_attention_dim=48,
                    num_layers=1),
               {"base": (1, 2, 3, 4)}),
}
TIMES, LENGTHS, FPS, TEXT = [987.0, 437.0], [5, 9], [25.0, 25.0], 9
RATIO_T, RATIO = 8, 32
LORA = dict(r=3, lora_alpha=1, target_modules=["to_q", "to_k", "to_v", "to_out.0"])


def inputs(config, case, b, f, h, w):
    v = golden.noisy(case, (b, config["in_channels"], f, h, w), TIMES[:b], TEXT,
                     config["caption_channels"], LENGTHS[:b])
    v["fps"] = torch.tensor(FPS[:b])
    if case == "tokens":                            # the first frame is clean
        v["token_t"] = v["t"][:, None].repeat(1, f * h * w)
        v["token_t"][:, :h * w] = 0
    return v


def predict(model, config, v):
    """[B,C,f,h,w] -> [B,C,f,h,w]"""
    b, c, f, h, w = v["x"].shape
    dtype = next(model.parameters()).dtype
    mask = (torch.arange(TEXT)[None] < v["length"][:, None]).to(dtype)
    x = LTXPipeline._pack_latents(v["x"], 1, 1).to(dtype)
    y = model(hidden_states=x, encoder_hidden_states=v["text"].to(dtype),
              timestep=v.get("token_t", v["t"][:, None].expand(b, 1)).float(),
              encoder_attention_mask=mask,
              num_frames=f, height=h, width=w,
              rope_interpolation_scale=(RATIO_T / float(v["fps"][0]), RATIO, RATIO),
              return_dict=False)[0]
    return LTXPipeline._unpack_latents(y, f, h, w, 1, 1)


# width: [(f, h, w) of latents]
ROPES = {2048: [(7, 16, 24), (1, 2, 3)], 4096: [(3, 15, 22)]}


def ropes(out):
    """Writes rotations at real widths, by the rule of the older pipelines and by that of the
    condition pipeline (`video_coords`): all angles of the tokens whose numbers are in `pick`."""
    file = {}
    for width, sizes in ROPES.items():
        rope = LTXVideoRotaryPosEmbed(dim=width, base_num_frames=20, base_height=2048,
                                      base_width=2048)
        for f, h, w in sizes:
            x = torch.zeros(1, f * h * w, 1)
            old = rope(x, f, h, w, rope_interpolation_scale=(RATIO_T / 24, RATIO, RATIO))
            ids = LTXConditionPipeline._prepare_video_ids(1, f, h, w)
            ids = LTXConditionPipeline._scale_video_ids(ids, scale_factor=RATIO,
                                                        scale_factor_t=RATIO_T,
                                                        frame_index=0).float()
            ids[:, 0] = ids[:, 0] * (1.0 / 24)
            new = rope(x, f, h, w, video_coords=ids)
            pick = sorted({0, 1, w, h * w - 1, f * h * w // 2, f * h * w - 1})
            for rule, (cos, sin) in (("old", old), ("new", new)):
                name = f"{width}/{f}x{h}x{w}/{rule}"
                file[name + "/pick"] = torch.tensor(pick)
                file[name + "/cos"] = cos[0, pick, ::2].contiguous()
                file[name + "/sin"] = sin[0, pick, ::2].contiguous()
    golden.save(out / "ltx-rope.safetensors", file)


def make(out):
    for name, (config, cases) in VARIANTS.items():
        golden.transformer(out / f"{name}.safetensors", LTXVideoTransformer3DModel,
                           {**TINY, **config}, cases, inputs, predict, LORA)
    ropes(out)
