"""SigLIP's vision model and its processor, as HunyuanVideo 1.5's image to video has them.

`pixels` [H,W,3] is a normalised picture, whose side is no multiple of a patch's, and `states` [n,D]
its last states; `f16` are those with weights rounded to this type. `picture` u8 [h,w,3] is a
picture of another size, and `processed` [H,W,3] what the processor of Pillow's kind makes of it:
torchvision's, which transformers prefers, differs by up to two levels of a colour. The metadata
holds `image_processor`. Everything is computed in f32.
"""
import json

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import golden

SIDE = 30
SIZES = dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5,
             image_size=SIDE, patch_size=7)


def make(out):
    config = transformers.SiglipVisionConfig(**SIZES)
    model = transformers.SiglipVisionModel(config).eval().float()
    weights = golden.fill_module(model)
    processor = SiglipImageProcessorPil(size=dict(height=SIDE, width=SIDE))
    clip = golden.part("vae_cogvideox").clip
    pixels, picture = golden.draw("siglip", (SIDE, SIDE, 3)), clip("siglip", 1, 48, 80)[0]

    def states():
        return model(pixels.permute(2, 0, 1)[None]).last_hidden_state[0]

    t = dict(pixels=pixels, states=states(), picture=picture)
    seen = processor.preprocess(images=Image.fromarray(picture), do_resize=True,
                                return_tensors="np", do_convert_rgb=True)["pixel_values"][0]
    t["processed"] = np.ascontiguousarray(np.asarray(seen).transpose(1, 2, 0), dtype=np.float32)
    other = transformers.SiglipImageProcessor(size=dict(height=SIDE, width=SIDE)).preprocess(
        images=Image.fromarray(picture), do_resize=True, return_tensors="pt", do_convert_rgb=True)
    far = np.abs(other["pixel_values"][0].numpy().transpose(1, 2, 0) - t["processed"]).max() * 127.5
    print(f"siglip: torchvision's pixels differ by up to {far:.2f} levels")
    restore = golden.rounded(model, torch.float16)
    t["f16"] = states()
    restore()
    golden.save(out / "siglip-vision.safetensors", t, config=config.to_dict(), weights=weights,
                image_processor=json.dumps(processor.to_dict()))
