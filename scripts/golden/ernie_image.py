"""ERNIE-Image's transformer: outputs, losses and gradients, and those of a LoRA.

Cases `NAME/...` differ in the picture's size: x [B,C,1,h,w], t [B], text with the lengths of its
rows, noise's target, output, loss. The case `base` has `grad/<parameter>` too; the case `lora` is
of a LoRA on the same weights, frozen, and its gradients are `lora/grad/<factor>`. The file
"ernie-image-wide" has prompts that are as wide as the model, which lacks `text_proj` then.
"""
import golden
from diffusers import ErnieImageTransformer2DModel

TINY = dict(hidden_size=48, num_attention_heads=3, num_layers=2, ffn_hidden_size=40,
            in_channels=16, out_channels=16, patch_size=1, text_in_dim=32, rope_theta=256,
            rope_axes_dim=(4, 6, 6), eps=1e-6, qk_layernorm=True)
WIDE = dict(TINY, hidden_size=32, num_attention_heads=2)
CASES = {"base": (2, 4, 6), "odd": (1, 5, 3), "wide": (2, 2, 8), "equal": (2, 3, 3)}
TIMES, LENGTHS, EQUAL, ONE = [984.375, 437.5], [5, 9], [7, 7], [9]
LORA = dict(r=3, lora_alpha=1,
            target_modules=["to_q", "to_k", "to_v", "to_out.0", "gate_proj", "up_proj",
                            "linear_fc2", "x_embedder.proj", "text_proj", "final_linear",
                            "final_norm.linear", "time_embedding.linear_1",
                            "time_embedding.linear_2", "adaLN_modulation.1"])


def inputs(config, case, b, h, w):
    length = ONE if b == 1 else EQUAL if case == "equal" else LENGTHS
    return golden.noisy(case, (b, config["in_channels"], 1, h, w), TIMES[:b], max(length),
                        config["text_in_dim"], length)


def predict(model, config, v):
    dtype = model.final_linear.weight.dtype
    y = model(hidden_states=v["x"][:, :, 0].to(dtype), timestep=v["t"],
              text_bth=v["text"].to(dtype), text_lens=v["length"], return_dict=False)[0]
    return y[:, :, None]


def make(out):
    golden.transformer(out / "ernie-image.safetensors", ErnieImageTransformer2DModel, TINY, CASES,
                       inputs, predict, LORA)
    golden.transformer(out / "ernie-image-wide.safetensors", ErnieImageTransformer2DModel, WIDE,
                       {"base": (2, 2, 3)}, inputs, predict)
