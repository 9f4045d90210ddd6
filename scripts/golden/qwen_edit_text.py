"""Qwen-Image-Edit's prompts with pictures, as QwenImageEditPipeline and QwenImageEditPlusPipeline
encode them.

`qwen-edit-text` holds a tiny Qwen2_5_VLForConditionalGeneration with its tower, its `tokenizer`
(tokenizer.json), which serves Qwen-Image's template too, and its `image_processor`. `picture_i` u8
[H,W,3] are pictures as a user gives them; the pipelines resize them by Lanczos' filter. `texts`
lists [kind, prompt, number of pictures]: of each `ids_i` as the encoder got them, and the
pipeline's `states_i` [n,D]. Kind 0 is the first
pipeline, kind 1 Plus. The prompt of a text without pictures is Plus's: the first pipeline has none.
The texts of the first pipeline have 1,400 states, of which every EVERY-th is stored.

The pipelines do not pass mm_token_type_ids, without which transformers 5 leaves the rotations of
pictures out; transformers 4, with which the models were published, finds them in the ids. They are
passed here.
"""
import json
import sys

import PIL.Image
import torch
import transformers
from diffusers import QwenImageEditPipeline, QwenImageEditPlusPipeline, QwenImagePipeline
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as first
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as plus
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import golden

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>",
           "<|image_pad|>", "<|video_pad|>"]
SHAPES = [(70, 90), (100, 75), (48, 160)]        # Pillow 13 resizes columns first, as before
TEXTS = [(0, "make the sky red.", 1), (0, " ", 1), (1, "make the sky red.", 1),
         (1, "a corgi of Picture 2 in Picture 1, 4k", 2), (1, "", 3), (1, "a corgi", 0)]
EVERY = 11


def model_of(size):
    rope = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 3, 3])
    text = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2,
                num_key_value_heads=1, vocab_size=size, rms_norm_eps=1e-6, rope_parameters=rope,
                tie_word_embeddings=False)
    vision = dict(depth=2, hidden_size=32, intermediate_size=44, num_heads=2, out_hidden_size=32,
                  fullatt_block_indexes=[1], window_size=112, patch_size=14)
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision,
                                           image_token_id=size - 2, video_token_id=size - 1,
                                           vision_start_token_id=size - 4)
    return transformers.Qwen2_5_VLForConditionalGeneration(config).eval().float()


def typed(model):
    """The model as a function that notes its ids in `seen` and gets the types of tokens."""
    forward, seen = model.forward, []

    def call(input_ids, **args):
        seen.append(input_ids[0])
        kinds = (input_ids == model.config.image_token_id).int()
        return forward(input_ids=input_ids, mm_token_type_ids=kinds, **args)
    model.forward = call
    return seen


def resized(pipe, image, area):
    w, h = plus.calculate_dimensions(area, image.width / image.height)
    return pipe.image_processor.resize(image, h, w)


def make(out):
    families, vision = golden.part("text_families"), golden.part("qwen_vision")
    pipes = [p(scheduler=None, vae=None, text_encoder=None, tokenizer=None, processor=None,
               transformer=None) for p in (QwenImageEditPipeline, QwenImageEditPlusPipeline)]
    template = pipes[1].prompt_template_encode
    plain = QwenImagePipeline(None, None, None, None, None).prompt_template_encode
    pieces = sorted(set(families.words(template + plain)) | set(families.LETTERS) | {"'s", "),"})
    text = families.tokenizer_json(pieces, SPECIAL, [None])
    tok = families.tokenizer(text, "<|endoftext|>")
    model = model_of(1 + len(pieces) + len(SPECIAL))
    assert tok.convert_tokens_to_ids("<|image_pad|>") == model.config.image_token_id
    weights = golden.fill_module(model)
    processor = Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=16384 * 784)
    whole = transformers.Qwen2VLProcessor(image_processor=processor, tokenizer=tok,
                                          video_processor=transformers.Qwen2VLVideoProcessor())
    seen = typed(model)
    for p in pipes:
        p.register_modules(text_encoder=model, tokenizer=tok, processor=whole)
    images = [PIL.Image.fromarray(vision.picture(i, SHAPES)) for i in range(len(SHAPES))]
    t = {f"picture_{i}": vision.picture(i, SHAPES) for i in range(len(SHAPES))}
    assert first.calculate_dimensions(2 ** 20, 1.5)[:2] == plus.calculate_dimensions(2 ** 20, 1.5)
    for i, (kind, prompt, n) in enumerate(TEXTS):
        area = plus.CONDITION_IMAGE_SIZE if kind else plus.VAE_IMAGE_SIZE
        image = [resized(pipes[kind], image, area) for image in images[:n]]
        image = (image if kind else image[0]) or None
        states, mask = pipes[kind].encode_prompt(prompt, image=image, device="cpu")
        assert mask is None
        t[f"ids_{i}"] = seen[-1]
        t[f"states_{i}"] = states[0] if kind else states[0][::EVERY]
        print(i, tuple(states.shape), len(seen[-1]), file=sys.stderr)
        assert states.shape[1] == len(seen[-1]) - 64
    golden.save(out / "qwen-edit-text.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, texts=json.dumps(TEXTS),
                template=template, image_processor=processor.to_json_string())
