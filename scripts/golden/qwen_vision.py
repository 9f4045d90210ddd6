"""Qwen2.5-VL's vision tower and its image processor (Qwen-Image-Edit).

`qwen-vision` holds a tiny Qwen2_5_VLForConditionalGeneration, of which the tower alone has weights,
and its `image_processor`. Of every picture `picture_i` u8 [H,W,3]: `resized_i` u8 [h,w,3] and
`pixels_i` [h,w,3] after transformers' processor with Pillow, and `states_i` [n,D], the tower's
result. The processor with torchvision makes bytes that differ by at most 2 (and by more only where
Pillow's filter overshoots 0..255 between its two passes). `bf16` and `f16` are
states_0 with weights rounded to this type. Everything is computed in f32.
"""
import sys

import numpy as np
import PIL.Image
import torch
import transformers
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import golden

# Of merged patches: 5 x 3; 2 x 11, of windows 4, 4, 3; 8 x 9; 4 x 4; a small picture that grows.
# Pillow 13 resizes columns of all of them first, as its predecessors do; with some others it begins
# with rows, and makes bytes that differ by one level.
SHAPES = [(131, 90), (44, 320), (230, 256), (112, 112), (20, 33)]
SIZES = dict(depth=3, hidden_size=32, intermediate_size=44, num_heads=2, out_hidden_size=24,
             fullatt_block_indexes=[1], window_size=112, patch_size=14)
MOST = 64000                                     # pixels: the third picture shrinks


def picture(i, shapes=SHAPES):
    """Gradients with noise, as bytes."""
    h, w = shapes[i]
    y, x = np.mgrid[:h, :w]
    smooth = 50 + np.stack([x * 155 / w, y * 155 / h, (x + y) * 155 / (h + w)], -1)
    return (smooth + np.random.default_rng(i).integers(-20, 21, (h, w, 3))).astype(np.uint8)


def unpatched(x, grid, patch=14, merge=2):
    """[n, 3 * 2 * patch * patch], in the order of transformers, -> [h,w,3]"""
    _, h, w = (int(v) for v in grid)
    x = x.reshape(h // merge, w // merge, merge, merge, 3, 2, patch, patch)[:, :, :, :, :, 0]
    return x.permute(0, 2, 5, 1, 3, 6, 4).reshape(h * patch, w * patch, 3)


def make(out):
    text = dict(hidden_size=24, intermediate_size=8, num_hidden_layers=1, num_attention_heads=3,
                num_key_value_heads=3, vocab_size=8,
                rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 1, 1]))
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=SIZES)
    model = transformers.Qwen2_5_VLForConditionalGeneration(config).eval().float()
    weights = golden.fill_module(model, skip=[k for k in model.state_dict() if "visual" not in k])
    tower = model.model.visual
    size = dict(min_pixels=56 * 56, max_pixels=MOST)
    processor = Qwen2VLImageProcessorPil(**size)
    torchvision = transformers.Qwen2VLImageProcessor(**size)
    bytes_only = dict(do_rescale=False, do_normalize=False, return_tensors="pt")
    t = {}

    def states(i):
        got = processor([PIL.Image.fromarray(picture(i))], return_tensors="pt")
        return got, tower(got["pixel_values"], grid_thw=got["image_grid_thw"]).pooler_output

    for i in range(len(SHAPES)):
        got, t[f"states_{i}"] = states(i)
        grid = got["image_grid_thw"][0]
        t[f"picture_{i}"] = picture(i)
        t[f"pixels_{i}"] = unpatched(got["pixel_values"], grid)
        image = [PIL.Image.fromarray(picture(i))]
        made = [unpatched(p(image, **bytes_only)["pixel_values"].float(), grid)
                for p in (processor, torchvision)]
        t[f"resized_{i}"] = made[0].to(torch.uint8)
        far = (made[0] - made[1]).abs()
        print(i, tuple(t[f"pixels_{i}"].shape), tuple(t[f"states_{i}"].shape), "torchvision:",
              int(far.max()), file=sys.stderr)
        assert far.max() <= 2
        if i not in (0,):
            del t[f"pixels_{i}"]
    for dtype, label in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        restore = golden.rounded(model, dtype)
        t[label] = states(0)[1]
        restore()
    golden.save(out / "qwen-vision.safetensors", t, config=config.to_dict(), weights=weights,
                image_processor=processor.to_json_string())
