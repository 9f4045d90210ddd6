"""Prompts through the two text encoders of Kandinsky 5 as diffusers' pipeline of clips runs them:
Qwen2.5-VL (cleaned, template, crop) and CLIP's pooled state.

`kandinsky5-text` and `kandinsky5-clip` are like the files of text_families.py: `prompts` with
`ids_i`, `mask_i` and `states_i` or `pooled_i`. The first has 100 `captions` with `caption_ids` and
`caption_sums`; the second has 40 of them among its prompts.

Where a prompt has too many tokens, the pipeline cuts letters off the text, then tokens. With these
tokenizers, whose tokens are letters, what is left are the first tokens, as vprep leaves them.
"""
import json
import re

import golden
import torch
from diffusers import Kandinsky5T2VPipeline
from diffusers.pipelines.kandinsky5.pipeline_kandinsky import prompt_clean
from diffusers.utils import logging

LENGTH, CLIP_LENGTH, CLIP_CAPTIONS = 512, 77, 40
MORE = ["a &amp;lt;corgi&gt;\n drives  along the coast. ", "caf&#x65;", "  two\u00a0blanks \t\n",
        "schÃ¶n â€œquotedâ€\u009d"]


# words of the template of which Qwen's tokenizer makes two tokens
SPLIT = {" dynamism": (" dynam", "ism"), " scren": (" scre", "n"),
         " postprocessing": (" post", "processing")}


def pieces(template):
    """Qwen's tokens of the template; a full stop and the line's end behind it are one."""
    for part in re.split(r"<\|\w+\|>|\{\}", template):
        for piece in re.findall(r" ?[A-Za-z]+|[^\s\w]\n?|\n| ", part):
            yield from SPLIT.get(piece, (piece,))


def pipeline(qwen=(None, None), clip=(None, None)):
    return Kandinsky5T2VPipeline(
        transformer=None, vae=None, scheduler=None, text_encoder=qwen[0], tokenizer=qwen[1],
        text_encoder_2=clip[0], tokenizer_2=clip[1])


def make(out):
    logging.set_verbosity_error()               # the pipeline prints what it cuts
    families = golden.part("text_families")
    template = pipeline().prompt_template
    qwen, text, tok = families.qwen(template, list(pieces(template)))
    clip, text_2, tok_2 = families.clip()
    weights = golden.fill_module(qwen.eval().float(),
                                 skip=[k for k in qwen.state_dict() if "visual" in k])
    weights_2 = golden.fill_module(clip.eval().float())
    pipe = pipeline((qwen, lambda images, videos, **kw: tok(**kw)), (clip, tok_2))
    # like Qwen's, which gives the letters themselves; this one's own puts blanks between them
    pipe.tokenizer.decode = lambda ids: "".join(
        "?" if x == "<unk>" else x for x in tok.convert_ids_to_tokens(ids))
    seen, forward, crop = {}, qwen.forward, pipe.prompt_template_encode_start_idx

    def record(*args, **kw):
        seen["ids"] = kw["input_ids"][0]
        return forward(*args, **kw)
    qwen.forward = record

    def encode(prompt):
        states, pooled, lengths = pipe.encode_prompt([prompt], device="cpu", dtype=torch.float32)
        ids, mask = families.ids_of(tok, template.format(prompt_clean(prompt)), LENGTH + crop)
        assert torch.equal(ids[mask.bool()], seen["ids"]), prompt
        assert lengths[1] == len(states[0]), (prompt, lengths, states.shape)
        return states[0], pooled[0], ids, mask

    prompts, found = families.PROMPTS + families.ODD + MORE, families.captions()
    rows = [encode(p) for p in prompts + found]
    many = rows[len(prompts):]
    row_weights = golden.draw("row_weights", (LENGTH,))
    t = {"row_weights": row_weights,
         "caption_ids": torch.stack([r[2] for r in many]).to(torch.int16),
         "caption_sums": torch.stack([row_weights[:len(r[0])] @ r[0] for r in many])}
    for i, (states, _, own, mask) in enumerate(rows[:len(prompts)]):
        t.update({f"ids_{i}": own, f"mask_{i}": mask, f"states_{i}": states})
    golden.save(out / "kandinsky5-text.safetensors", t, config=qwen.config.to_dict(),
                weights=weights, tokenizer=text, prompts=json.dumps(prompts),
                captions=json.dumps(found), template=template)
    t, few = {}, prompts + found[:CLIP_CAPTIONS]
    for i, prompt in enumerate(few):
        t[f"ids_{i}"], t[f"mask_{i}"] = families.ids_of(tok_2, prompt_clean(prompt), CLIP_LENGTH)
        t[f"pooled_{i}"] = rows[i][1]
    golden.save(out / "kandinsky5-clip.safetensors", t, config=clip.config.to_dict(),
                weights=weights_2, tokenizer=text_2, prompts=json.dumps(few))
