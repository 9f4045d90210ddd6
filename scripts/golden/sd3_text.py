"""Prompts through the three text encoders of Stable Diffusion 3 as diffusers' pipeline runs them:
the states of both CLIP models in front of their last layers, their projected pooled states, and
T5's states, all with their padding.

`sd3-clip-l`, `sd3-clip-g` and `sd3-t5` are like the files of text_families.py: `prompts` with
`ids_i`, `mask_i`, `states_i` and, of CLIP, `pooled_i`, and 100 `captions` with `caption_ids`,
`caption_sums` and, of CLIP, `caption_pooled`. States and pooled states are cut out of what
encode_prompt joins, in which zeros fill CLIP's tokens up to T5's width. CLIP-G's padding is "!".
"""
import json

import golden
import torch
import transformers
from diffusers import StableDiffusion3Pipeline
from diffusers.utils import logging

CLIPS, T5_LENGTH, LAYERS = (("l", 16, 24, "quick_gelu"), ("g", 24, 20, "gelu")), 256, 3
WIDTH = 48                                      # of T5, more than both CLIP models together


def clip(width, projection, act, pad):
    families = golden.part("text_families")
    special = ["<|startoftext|>", "<|endoftext|>"]
    text = families.tokenizer_json(families.LETTERS, special, [special[0], None, special[1]])
    size = 1 + len(families.LETTERS) + len(special)
    config = transformers.CLIPTextConfig(
        hidden_size=width, intermediate_size=2 * width, num_attention_heads=width // 8,
        num_hidden_layers=LAYERS, vocab_size=size, max_position_embeddings=77, hidden_act=act,
        projection_dim=projection, bos_token_id=size - 2, eos_token_id=2, pad_token_id=size - 1)
    model = transformers.CLIPTextModelWithProjection(config).eval().float()
    tok = families.tokenizer(text, pad)
    tok.model_max_length = 77
    return model, golden.fill_module(model), text, tok


def make(out):
    logging.set_verbosity_error()               # the pipeline prints what it cuts
    families = golden.part("text_families")
    models = [clip(width, projection, act, pad) for (_, width, projection, act), pad
              in zip(CLIPS, ("<|endoftext|>", "!"))] + [families.t5("T5", WIDTH)]
    parts = {f"text_encoder{n}": m[0] for n, m in zip(("", "_2", "_3"), models)}
    parts.update({f"tokenizer{n}": m[3] for n, m in zip(("", "_2", "_3"), models)})
    pipe = StableDiffusion3Pipeline(transformer=None, scheduler=None, vae=None, **parts)
    widths, pooled_widths = [c[1] for c in CLIPS], [c[2] for c in CLIPS]

    def encode(prompt):
        """The states of each encoder, and the pooled states of CLIP's."""
        joined, _, pooled, _ = pipe.encode_prompt(prompt, None, None, device="cpu",
                                                  do_classifier_free_guidance=False)
        clips = joined[0, :77]
        assert joined.shape[1:] == (77 + T5_LENGTH, WIDTH) and not clips[:, sum(widths):].any()
        states = [*clips[:, :sum(widths)].split(widths, -1), joined[0, 77:]]
        return states, [*pooled[0].split(pooled_widths), None]

    prompts, found = families.PROMPTS + families.ODD, families.captions()
    weights = golden.draw("row_weights", (512,))
    results = [encode(p) for p in prompts + found]
    for i, (model, shapes, text, tok) in enumerate(models):
        length = T5_LENGTH if i == 2 else 77
        ids = [families.ids_of(tok, p, length) for p in prompts + found]
        t = {"row_weights": weights,
             "caption_ids": torch.stack([x[0] for x in ids[len(prompts):]]).to(torch.int16),
             "caption_sums": torch.stack([weights[:length] @ r[0][i]
                                          for r in results[len(prompts):]])}
        if i < 2:
            t["caption_pooled"] = torch.stack([r[1][i] for r in results[len(prompts):]])
        few = families.PROMPTS if i == 2 else prompts
        for k in range(len(few)):
            t[f"ids_{k}"], t[f"mask_{k}"] = ids[k]
            t[f"states_{k}"] = results[k][0][i]
            if i < 2:
                t[f"pooled_{k}"] = results[k][1][i]
        name = ["sd3-clip-l", "sd3-clip-g", "sd3-t5"][i]
        golden.save(out / f"{name}.safetensors", t, config=model.config.to_dict(), weights=shapes,
                    tokenizer=text, prompts=json.dumps(few), captions=json.dumps(found))
