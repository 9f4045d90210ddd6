"""CLIP's vision model (LLaVA, Wan's image-to-video): states before and after the last layer.

`pixels` [H,W,3] is a normalised picture. `states` [n,D] is hidden_states[-1], `before_last` [n,D]
is hidden_states[-2], `pooled` [D] is the class token after the last norm. `bf16` and `f16` are
before_last with weights rounded to this type. `clip-vision` has quick-GELU, like CLIP-L,
`clip-vision-gelu` has GELU, like CLIP-H. Everything is computed in f32.
"""
import torch
import transformers

import golden

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
             projection_dim=32)


def make(out):
    for name, act, size, patch in (("clip-vision", "quick_gelu", 56, 14),
                                   ("clip-vision-gelu", "gelu", 40, 8)):
        config = transformers.CLIPVisionConfig(**SIZES, hidden_act=act, image_size=size,
                                               patch_size=patch)
        model = transformers.CLIPVisionModel(config).eval().float()
        weights = golden.fill_module(model)
        pixels = golden.draw(name, (size, size, 3))

        def states():
            return model(pixels.permute(2, 0, 1)[None], output_hidden_states=True)

        result = states()
        t = dict(pixels=pixels, states=result.hidden_states[-1][0],
                 before_last=result.hidden_states[-2][0], pooled=result.pooler_output[0])
        for dtype, label in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
            restore = golden.rounded(model, dtype)
            t[label] = states().hidden_states[-2][0]
            restore()
        golden.save(out / f"{name}.safetensors", t, config=config.to_dict(), weights=weights)
