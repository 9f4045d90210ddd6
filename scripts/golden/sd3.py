"""Stable Diffusion 3's transformer: outputs, losses and gradients, a LoRA's too.

One file a variant: `3` without norms of queries and keys, `3.5` with. Its cases `NAME/...` differ
in the size of the picture: x [B,C,1,h,w], t, text, pooled, noise's target, output, loss. The
gradients of the case `base` are `grad/<parameter>`; the case `lora` is of a LoRA on the same
weights, frozen, and its gradients are `lora/grad/<factor>`.
"""
import golden
import torch
from diffusers import SD3Transformer2DModel
from peft import LoraConfig, inject_adapter_in_model

TINY = dict(num_layers=2, num_attention_heads=2, attention_head_dim=8, in_channels=4,
            out_channels=4, patch_size=2, joint_attention_dim=12, caption_projection_dim=16,
            pooled_projection_dim=10, sample_size=16, pos_embed_max_size=8,
            dual_attention_layers=[])
# name: config; {case: (B, h, w)}. Of the table of 8 x 8 positions `base` takes 4 x 6 in the middle,
# `odd` 7 x 3.
VARIANTS = {
    "3": (dict(qk_norm=None), {"base": (2, 8, 12), "odd": (1, 14, 6)}),
    "3.5": (dict(qk_norm="rms_norm"), {"base": (2, 8, 12), "whole": (1, 16, 16)}),
}
TIMES = [999.0, 437.0]
TOKENS = 5
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                            "add_v_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2",
                            "pos_embed.proj"])


def model_of(name):
    config = {**TINY, **VARIANTS[name][0]}
    torch.manual_seed(0)
    model = SD3Transformer2DModel(**config).eval()
    shapes = golden.fill_module(model)
    for p in model.state_dict().values():           # the file is bf16: so only activations round
        p.copy_(p.to(torch.bfloat16))
    return model, {"_class_name": "SD3Transformer2DModel", **config}, shapes


def with_lora(name):
    """The model with factors of PEFT's, A and B filled by their names as files have them."""
    model = model_of(name)[0]
    model = inject_adapter_in_model(LoraConfig(init_lora_weights=False, **LORA), model)
    for n, p in model.named_parameters():
        p.requires_grad_(".lora_" in n)
        if p.requires_grad:
            p.copy_(torch.from_numpy(golden.fill(plain(n), tuple(p.shape))))
    return model


def plain(name):
    return name.replace(".default.", ".")


def inputs(config, case, b, h, w):
    c = config["in_channels"]
    return {"x": golden.draw("x " + case, (b, c, 1, h, w)),
            "target": golden.draw("target " + case, (b, c, 1, h, w)),
            "t": torch.tensor(TIMES[:b]),
            "text": golden.draw("text " + case, (b, TOKENS, config["joint_attention_dim"])),
            "pooled": golden.draw("pooled " + case, (b, config["pooled_projection_dim"]))}


def run_case(model, config, case, shape):
    """A case's inputs and results; the gradients of all trained parameters."""
    v = inputs(config, case, *shape)
    dtype = model.proj_out.weight.dtype
    with torch.enable_grad():
        model.zero_grad()
        y = model(hidden_states=v["x"][:, :, 0].to(dtype), timestep=v["t"],
                  encoder_hidden_states=v["text"].to(dtype),
                  pooled_projections=v["pooled"].to(dtype), return_dict=False)[0][:, :, None]
        loss = (y.float() - v["target"]).pow(2).mean()
        loss.backward()
    v.update(output=y.detach(), loss=loss.detach())
    trained = ((n, p) for n, p in model.named_parameters() if p.requires_grad)
    return v, {plain(n): p.grad.float().clone() for n, p in trained}


def variant(out, name):
    model, config, shapes = model_of(name)
    file = {}
    for case, shape in VARIANTS[name][1].items():
        v, grads = run_case(model, config, case, shape)
        file.update({f"{case}/{k}": t for k, t in v.items()})
        if case == "base":
            file.update({"grad/" + n: g for n, g in grads.items()})
    shape = VARIANTS[name][1]["base"]
    v, grads = run_case(with_lora(name), config, "lora", shape)
    file.update({f"lora/{k}": t for k, t in v.items()})
    file.update({"lora/grad/" + n: g for n, g in grads.items()})
    golden.save(out / f"sd{name}.safetensors", file, config=config, weights=shapes, lora=LORA)

    half, half_lora = model.to(torch.bfloat16), with_lora(name).to(torch.bfloat16)
    golden.report("sd" + name, file, "base", "grad/", *run_case(half, config, "base", shape))
    golden.report("sd" + name, file, "lora", "lora/grad/",
                  *run_case(half_lora, config, "lora", shape))


def make(out):
    for name in VARIANTS:
        variant(out, name)
