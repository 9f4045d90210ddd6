"""Reference pictures as the autoencoders of pipelines that edit get them.

`references` holds pictures `picture_i` u8 [H,W,3] and what the pipelines' own image processors make
of them, `pixels_i` u8 [h,w,3]: of Kontext and Qwen-Image-Edit (kind 0) VaeImageProcessor's, with
the size that the pipeline asks for; of FLUX.2 (kind 1) Flux2ImageProcessor's, with SIDE x SIDE as
the area to which larger pictures shrink. `kinds` lists [kind, H, W, h, w].
"""
import json

import numpy as np
import PIL.Image
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor

import golden

SIDE = 48
# Sizes that --reference_size 48 gives Qwen-Image-Edit: both axes shrink or grow, one is kept, both.
# Rows shrink no more than columns, so that Pillow 13 resizes columns first, as all versions before.
CASES = [(0, 70, 100, 48, 64), (0, 33, 21, 64, 32), (0, 48, 52, 48, 48), (0, 48, 48, 48, 48),
         (1, 58, 75, None, None), (1, 66, 50, None, None), (1, 40, 50, None, None)]


def picture(i, h, w):
    bits = golden.splitmix(np.arange(h * w * 3, dtype=np.uint64) + np.uint64(1000000 * i))
    noise = (bits >> np.uint64(56)).astype(np.uint8).reshape(h, w, 3)
    y, x = np.mgrid[:h, :w]
    smooth = np.stack([255 * y // h, 255 * x // w, 255 * (x > y)], -1).astype(np.uint8)
    return np.where((x // 16 + y // 16)[..., None] % 2, noise, smooth)


def pixels(kind, image, h, w):
    if kind == 0:
        p = VaeImageProcessor(vae_scale_factor=16)
        x = p.preprocess(p.resize(image, h, w), h, w)
    else:
        p = Flux2ImageProcessor(vae_scale_factor=16)
        image = p._resize_if_exceeds_area(image, SIDE * SIDE)
        w, h = image.size
        x = p.preprocess(image, height=h // 16 * 16, width=w // 16 * 16, resize_mode="crop")
    return ((x[0].permute(1, 2, 0) + 1) * 127.5).round().byte().numpy()


def make(out):
    tensors, kinds = {}, []
    for i, (kind, h, w, to_h, to_w) in enumerate(CASES):
        rgb = picture(i, h, w)
        made = pixels(kind, PIL.Image.fromarray(rgb), to_h, to_w)
        tensors[f"picture_{i}"], tensors[f"pixels_{i}"] = rgb, made
        kinds.append([kind, h, w, *made.shape[:2]])
    golden.save(out / "references.safetensors", tensors, kinds=json.dumps(kinds))
