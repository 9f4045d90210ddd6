"""Prompts through T5 v1.0, whose feed-forward layers are not gated, as diffusers'
Cosmos2TextToImagePipeline runs it: the states of a prompt's tokens, behind which are rows of zeros.

`cosmos2-t5` is like the files of text_families.py: `prompts` with `ids_i`, `mask_i` and `states_i`,
and 100 `captions` with `caption_ids` and `caption_sums`.
"""
import json

import golden
from diffusers.utils import logging

WIDTH, LENGTH = 32, 512


def make(out):
    logging.set_verbosity_error()               # the pipeline prints what it cuts
    families = golden.part("text_families")
    model, weights, text, tok = families.t5("T5", WIDTH, "relu")
    pipe = golden.part("cosmos2_samples").pipeline(text_encoder=model, tokenizer=tok,
                                                   transformer=None)

    def tokens(prompt):
        return families.ids_of(tok, prompt, LENGTH)

    def encode(prompt):
        states = pipe.encode_prompt(prompt, do_classifier_free_guidance=False, device="cpu")[0][0]
        n = int(tokens(prompt)[1].sum())
        assert len(states) == LENGTH and not states[n:].any()
        return states[:n]
    t, prompts = families.many(tokens, encode), families.PROMPTS + families.ODD
    for i, prompt in enumerate(prompts):
        t[f"ids_{i}"], t[f"mask_{i}"] = tokens(prompt)
        t[f"states_{i}"] = encode(prompt)
    golden.save(out / "cosmos2-t5.safetensors", t, config=model.config.to_dict(), weights=weights,
                tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(families.captions()))
