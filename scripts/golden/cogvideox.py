"""CogVideoX's transformer, and a LoRA on it: outputs, losses, gradients, position tables, ten
optimiser steps.

Each variant has a file. Its cases `NAME/...` have different grids; a case holds x [B,C,f,h,w], t,
text, the conditions (cond.image, cond.mask, cond.video, cond.control), target, output, loss. The
gradients of the case `base` are `grad/<parameter>`.
"""
import golden
import torch
from diffusers import CogVideoXPipeline, CogVideoXTransformer3DModel
from diffusers.pipelines.cogvideo import pipeline_cogvideox

TINY = dict(num_attention_heads=1, attention_head_dim=64, num_layers=2, time_embed_dim=32,
            text_embed_dim=16, max_text_seq_length=12, in_channels=4, out_channels=4,
            sample_height=8, sample_width=12, sample_frames=9)
ROPE = dict(use_rotary_positional_embeddings=True)
V15 = dict(patch_size_t=2, patch_bias=False, sample_height=16, sample_width=20, num_layers=1,
           **ROPE)

# name: config, {case: (B, f, h, w)}. The stored position table is used where f is
# (sample_frames - 1) / 4 + 1.
VARIANTS = {
    "2b": (dict(num_attention_heads=2, attention_head_dim=32, temporal_interpolation_scale=1.25),
           {"base": (2, 3, 8, 12), "off": (1, 3, 12, 8), "odd": (1, 2, 8, 12)}),
    "5b": (ROPE, {"base": (2, 3, 8, 12), "off": (1, 2, 10, 6), "still": (1, 1, 4, 14)}),
    "5b-i2v": (dict(in_channels=8, use_learned_positional_embeddings=True, patch_bias=False,
                    num_layers=1,
                    **ROPE),
               {"base": (2, 3, 8, 12), "frames": (1, 2, 8, 12), "dropped": (1, 3, 8, 12)}),
    "1.5": (V15, {"base": (2, 4, 8, 12), "off": (1, 2, 14, 6)}),
    "1.5-i2v": (dict(in_channels=8, ofs_embed_dim=32, **V15),
                {"base": (2, 4, 8, 12), "dropped": (1, 2, 8, 12)}),
    "inp": (dict(in_channels=9, num_layers=1, norm_eps=1e-3, **ROPE),
            {"base": (2, 3, 8, 12), "off": (1, 2, 6, 10), "dropped": (1, 3, 8, 12)}),
    "control": (dict(in_channels=8, num_layers=1, text_embed_dim=32, **ROPE),
                {"base": (2, 3, 8, 12), "off": (1, 2, 6, 10), "dropped": (1, 3, 8, 12)}),
}
FIELDS = {"control": dict(control_latents=True)}          # that diffusers' class does not have
TIMES = [999.0, 437.0]


def model_of(name):
    return golden.tiny(CogVideoXTransformer3DModel, {**TINY, **VARIANTS[name][0]})


class Rope:
    """Calls the pipeline's preparation of rotations, with the fields that this method reads."""
    vae_scale_factor_spatial = 8

    def __init__(self, model):
        self.transformer = model

    def __call__(self, f, h, w):
        if not self.transformer.config.use_rotary_positional_embeddings:
            return None
        return CogVideoXPipeline._prepare_rotary_positional_embeddings(self, 8 * h, 8 * w, f, "cpu")


def conditions(config, case, b, f, h, w):
    """Returns the conditions {role: tensor} of a case, or {} if they were dropped."""
    c, extra = config["out_channels"], config["in_channels"] - config["out_channels"]
    if extra == 0 or case == "dropped":
        return {}
    if config.get("control_latents"):
        return {"control": golden.draw("control " + case, (b, c, f, h, w))}
    if extra == c:
        return {"image": golden.draw("image " + case, (b, c, 1, h, w))}
    return {"mask": torch.round(torch.rand(b, 1, f, h, w,
                                           generator=torch.Generator().manual_seed(1))) * 0.7,
            "video": golden.draw("video " + case, (b, c, f, h, w))}


def joined(config, x, cond):
    """Joins x [B,C,f,h,w] and its conditions to hidden_states [B,f,C',h,w]."""
    c, extra = x.shape[1], config["in_channels"] - x.shape[1]
    if config.get("control_latents"):
        x = torch.cat([x, cond.get("control", torch.zeros_like(x))], 1)
    elif extra == c:
        image = torch.zeros_like(x)
        if "image" in cond:
            image[:, :, :1] = cond["image"]
        x = torch.cat([x, image], 1)
    elif extra:
        beside = torch.zeros(x.shape[0], extra, *x.shape[2:])
        if "mask" in cond:
            beside = torch.cat([cond["mask"], cond["video"]], 1)
        x = torch.cat([x, beside], 1)
    return x.transpose(1, 2)


def predict(model, config, x, t, text, cond):
    """[B,C,f,h,w] -> [B,C,f,h,w]"""
    ofs = torch.full((1,), 2.0) if config.get("ofs_embed_dim") else None
    h = joined(config, x, cond)
    rope = Rope(model)(x.shape[2], *x.shape[3:])
    if rope is not None:
        rope = tuple(r.to(torch.float32) for r in rope)
    dtype = next(model.parameters()).dtype
    y = model(hidden_states=h.to(dtype), encoder_hidden_states=text.to(dtype), timestep=t, ofs=ofs,
              image_rotary_emb=rope, return_dict=False)[0]
    return y.transpose(1, 2)


def inputs(config, case, b, f, h, w):
    c = config["out_channels"]
    return {"x": golden.draw("x " + case, (b, c, f, h, w)),
            "target": golden.draw("target " + case, (b, c, f, h, w)),
            "t": torch.tensor(TIMES[:b]),
            "text": golden.draw("text " + case, (b, config["max_text_seq_length"],
                                                 config["text_embed_dim"]))}


def case_inputs(config, case, *shape):
    cond = conditions(config, case, *shape)
    return {**inputs(config, case, *shape), **{"cond." + role: t for role, t in cond.items()}}


def predict_case(model, config, v):
    cond = {name[5:]: t for name, t in v.items() if name.startswith("cond.")}
    return predict(model, config, v["x"], v["t"], v["text"], cond)


def variant(out, name):
    golden.transformer(out / f"cogvideox-{name}.safetensors", CogVideoXTransformer3DModel,
                       {**TINY, **VARIANTS[name][0]}, VARIANTS[name][1], case_inputs, predict_case,
                       fields=FIELDS.get(name, {}))


# name: the base grid of latent rows and columns, [(f, h, w) of latents]
ROPES = {"5b": ((60, 90), [(13, 60, 90), (2, 64, 64), (1, 30, 120), (2, 96, 54), (3, 2, 4),
                           (1, 60, 88)]),
         "1.5": ((300, 300), [(4, 96, 170), (2, 30, 20), (2, 2, 4)])}


class Sizes:
    """A model with only those fields of its config that positions depend on."""
    def __init__(self, base, patch_t):
        self.config = type("config", (), dict(
            sample_height=base[0], sample_width=base[1], patch_size=2, patch_size_t=patch_t,
            attention_head_dim=64, use_rotary_positional_embeddings=True))


def ropes(out):
    """Writes rotations at several sizes: all 32 angles of the tokens whose numbers are in
    `pick`."""
    file = {}
    for name, (base, sizes) in ROPES.items():
        rope = Rope(Sizes(base, 2 if name == "1.5" else None))
        for f, h, w in sizes:
            cos, sin = rope(f, h, w)
            pick = picked(cos.shape[0], w // 2)
            file[f"{name}/{f}x{h}x{w}/pick"] = torch.tensor(pick)
            file[f"{name}/{f}x{h}x{w}/cos"] = cos[pick, ::2].contiguous()
            file[f"{name}/{f}x{h}x{w}/sin"] = sin[pick, ::2].contiguous()
    golden.save(out / "cogvideox-rope.safetensors", file)


def picked(tokens, columns):
    """Returns the numbers of the first row of tokens, the last token, and about 200 between."""
    step = max(tokens // 200, 1) | 1
    return sorted({*range(min(columns, tokens)), *range(0, tokens, step), tokens - 1})


# vtrain's defaults, but a larger rate, so that ten steps change the weights enough.
ADAM = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=1e-4)


def ten_steps(model, config, shape, inputs, predict):
    """Runs ten steps of AdamW with gradients clipped to norm 1; each step has new noise and
    times. inputs and predict are those of golden.transformer."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    opt = torch.optim.AdamW(trained.values(), **ADAM)
    file, losses, norms = {}, [], []
    for i in range(10):
        v = inputs(config, f"step {i}", *shape)
        v["t"] = torch.tensor([float((i * 397 + 55) % 1000)])
        with torch.enable_grad():
            opt.zero_grad()
            y = predict(model, config, v)
            loss = (y - v["target"]).pow(2).mean()
            loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)))
        opt.step()
        losses.append(float(loss))
        file.update({f"{i}/{k}": t for k, t in v.items()})
    file.update(losses=torch.tensor(losses), norms=torch.tensor(norms))
    return file, {n: p.detach() for n, p in trained.items()}


def steps(out):
    model, config, shapes = model_of("5b-i2v")
    file, final = ten_steps(model, config, (1, 3, 8, 12), case_inputs, predict_case)
    file.update({"final/" + n: p for n, p in final.items()})
    golden.save(out / "cogvideox-steps.safetensors", file, config=config, weights=shapes)


LORA = dict(r=3, lora_alpha=5, target_modules=["to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj",
                                               "ff.net.2",
                                                "patch_embed.proj"])


def with_lora(dtype):
    """Returns 5b with PEFT's factors, its config.json, and the shapes of its weights."""
    model, config, shapes = model_of("5b")
    return golden.with_lora(model, LORA).to(dtype), config, shapes


def lora(out):
    """Writes the gradients and ten steps of a LoRA on frozen weights."""
    model, config, shapes = with_lora(torch.float32)
    shape = VARIANTS["5b"][1]["base"]
    v, grads = run_lora(model, config, shape)
    file = {"base/" + k: t for k, t in v.items()}
    file.update({"grad/" + n: g for n, g in grads.items()})
    golden.report("cogvideox-lora", file, "base", "grad/",
                  *run_lora(*with_lora(torch.bfloat16)[:2], shape))
    more, final = ten_steps(model, config, (1, 2, 8, 12), case_inputs, predict_case)
    file.update(more)
    file.update({"final/" + golden.plain(n): p for n, p in final.items()})
    golden.save(out / "cogvideox-lora.safetensors", file, config=config, weights=shapes, lora=LORA)


def run_lora(model, config, shape):
    return golden.step(model, config, inputs(config, "base", *shape), predict_case)


def make(out):
    assert pipeline_cogvideox  # the module that computes the rotations
    for name in VARIANTS:
        variant(out, name)
    ropes(out)
    steps(out)
    lora(out)
