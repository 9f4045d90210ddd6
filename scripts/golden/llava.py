"""HunyuanVideo's image-to-video prompts as diffusers' pipeline encodes them: through a LLaVA, with
the picture's states in front.

`hunyuanvideo-llava` holds a tiny LlavaForConditionalGeneration, its `tokenizer` (tokenizer.json)
and its `image_processor` (preprocessor_config.json). `picture_i` u8 [H,W,3] and `pixels_i`
[S,S,3], the same after the processor, are of every picture. `features` [n,D] is picture 0 after the
tower and the projector. Of every prompt `prompts` [i], with picture 0: `ids_i` and `mask_i` as the
encoder got them, expanded and padded, and the pipeline's result, the rows that its mask leaves:
`states_i` [n,D] with every 4th state of the picture, `dense_i` [n,D] with every 2nd. `black` is
prompt 0 with a black picture. `template` is the pipeline's own; its numbers of picture states are
those of the tiny tower.
"""
import json
import sys

import PIL.Image
import numpy as np
import torch
import transformers
from diffusers import HunyuanVideoImageToVideoPipeline
from diffusers.pipelines.hunyuan_video import pipeline_hunyuan_video_image2video as source

import golden

PATCHES = 16
TEMPLATE = dict(source.DEFAULT_PROMPT_TEMPLATE, image_emb_len=PATCHES, image_emb_end=5 + PATCHES)
SPECIAL = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<image>", "<pad>"]
# Letters are tokens. Four prompts reach the limit of 256: all fits, the text behind the assistant
# header is cut, the header itself is cut in two, and the prompt is. The pipeline searches the
# assistant's header by its last token, which the last two prompts hold: behind it the text is
# complete, and is cut.
PROMPTS = ["", "a corgi drives along the coast.", "\n1. the video, by camera\n",
           "b" * 251, "b" * 252, "b" * 254, "b" * 300, "a <|end_header_id|> corgi",
           "a corgi<|end_header_id|>" + "b" * 300]
SHAPES = [(40, 72), (131, 90), (61, 300), (56, 56)]


def model_of(size):
    text = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
                num_key_value_heads=2, vocab_size=size, rms_norm_eps=1e-5, model_type="llama",
                rope_parameters=dict(rope_type="default", rope_theta=500000.0))
    vision = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
                  image_size=56, patch_size=14, model_type="clip_vision_model", projection_dim=16)
    config = transformers.LlavaConfig(
        text_config=text, vision_config=vision, image_token_index=size - 2, pad_token_id=size - 1,
        vision_feature_layer=-2, architectures=["LlavaForConditionalGeneration"])
    return transformers.LlavaForConditionalGeneration(config).eval().float()


def picture(i):
    """Gradients with noise, as bytes."""
    h, w = SHAPES[i]
    y, x = np.mgrid[:h, :w]
    smooth = np.stack([x * 255 / w, y * 255 / h, (x + y) * 255 / (h + w)], -1)
    noise = np.random.default_rng(i).integers(-60, 61, (h, w, 3))
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def expanded(tok, model, text):
    """What the text encoder is called with."""
    length = 256 + TEMPLATE["crop_start"]
    got = tok([text], max_length=length, padding="max_length", truncation=True, return_tensors="pt")
    out = source._expand_input_ids_with_image_tokens(
        got.input_ids, got.attention_mask, length, model.config.image_token_index, PATCHES,
        TEMPLATE["image_emb_start"], TEMPLATE["image_emb_end"], model.config.pad_token_id)
    return out["input_ids"][0], out["attention_mask"][0]


def make(out):
    families = golden.part("text_families")
    pieces = sorted(set(families.words(TEMPLATE["template"].replace("<image>", "{}"))) |
                    set(families.LETTERS))
    text = families.tokenizer_json(pieces, SPECIAL, [SPECIAL[0], None])
    tok = families.tokenizer(text, "<pad>")
    model = model_of(1 + len(pieces) + len(SPECIAL))
    weights = golden.fill_module(model)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 56},
                                                crop_size={"height": 56, "width": 56})
    pipe = HunyuanVideoImageToVideoPipeline(
        text_encoder=model, tokenizer=tok, transformer=None, vae=None, scheduler=None,
        text_encoder_2=None, tokenizer_2=None, image_processor=processor)
    t = {}
    for i in range(len(SHAPES)):
        t[f"picture_{i}"] = picture(i)
        pixels = processor(PIL.Image.fromarray(picture(i)), return_tensors="pt").pixel_values[0]
        t[f"pixels_{i}"] = pixels.permute(1, 2, 0)
    t["features"] = model.get_image_features(
        pixel_values=t["pixels_0"].permute(2, 0, 1)[None],
        vision_feature_layer=-2, vision_feature_select_strategy="default").pooler_output[0]

    def encode(image, prompt, every):
        states, mask = pipe._get_llama_prompt_embeds(
            image, prompt, TEMPLATE, device="cpu", dtype=torch.float32,
            image_embed_interleave=every)
        return states[0][mask[0].bool()]

    image = PIL.Image.fromarray(picture(0))
    for i, prompt in enumerate(PROMPTS):
        t[f"ids_{i}"], t[f"mask_{i}"] = expanded(tok, model, TEMPLATE["template"].format(prompt))
        t[f"states_{i}"] = encode(image, prompt, 4)
        t[f"dense_{i}"] = encode(image, prompt, 2)
        print(i, int(t[f"mask_{i}"].sum()), tuple(t[f"states_{i}"].shape), file=sys.stderr)
    t["black"] = encode(PIL.Image.new("RGB", (96, 64), 0), PROMPTS[0], 4)
    same = (t["ids_0"] == t["ids_1"]).int().tolist()
    assert same.index(0) == TEMPLATE["crop_start"] + PATCHES - 1, same.index(0)
    golden.save(out / "hunyuanvideo-llava.safetensors", t, config=model.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(PROMPTS),
                template=TEMPLATE["template"], image_processor=processor.to_json_string())
