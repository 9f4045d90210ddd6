"""Prompts of LTX-2 as its pipeline encodes them: stripped, with padding in front, through a tiny
Gemma 3 and the first layer of the connectors of ltx2_connectors.py.

The file holds the encoder, its `tokenizer` (tokenizer.json), and of every prompt `prompts` [i]:
`ids_i`, without padding, and the features of 2.0 and 2.3, `features_20_i` and `features_23_i`. The
tokenizer is of Gemma's kind: byte pairs in which blanks are letters, and bytes for what is not in
the table."""
import json
import tempfile
import types

import torch
import transformers
from diffusers import LTX2Pipeline
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import golden

PROMPTS = ["", "  a red ball rolls over the green grass. \n", "caf\u00e9 \u732b a  cat",
           "the coast, " * 150]
WORDS = "a red ball rolls over the green grass cat dog blue sky".split()
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]


def tokenizer():
    vocab = {t: i for i, t in enumerate(SPECIAL + [f"<0x{b:02X}>" for b in range(256)] +
                                        list("\u2581abcdefghijklmnopqrstuvwxyz,."))}
    merges = []
    for word in WORDS:
        for n in range(1, len(word)):
            pair = word[:n], word[n]
            vocab.setdefault(word[:n + 1], len(vocab))
            merges += [pair] if pair not in merges else []
        vocab.setdefault("\u2581" + word, len(vocab))
        merges.append(("\u2581", word))
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True,
                               byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 2)])
    tok.add_special_tokens(SPECIAL)
    return tok.to_str(), len(vocab)


def encoder(size):
    gemma = golden.part("gemma")
    text = dict(gemma.TEXT, vocab_size=size + 4, sliding_window=1024)
    model = transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
        text_config=text, vision_config=gemma.VISION, mm_tokens_per_image=4, image_token_index=size,
        boi_token_index=size + 1, eoi_token_index=size + 2)).eval().float()
    other = ("vision", "multi_modal", "lm_head")
    weights = golden.fill_module(model, skip=[k for k in model.state_dict()
                                              if any(o in k for o in other)])
    return model, weights


def connectors():
    """Returns the two versions' connectors, and the list that gets their features."""
    part, seen, made = golden.part("ltx2_connectors"), [], {}
    for name, more in ("20", {}), ("23", part.V23):
        made[name] = golden.tiny(LTX2TextConnectors, {**part.TINY, **more})[0]
        made[name].video_connector.register_forward_pre_hook(
            lambda m, args: seen.append(args[0]))
    return made, seen


def make(out):
    text, size = tokenizer()
    model, weights = encoder(size)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        tok = transformers.PreTrainedTokenizerFast(tokenizer_file=f.name, pad_token="<pad>")
    pipe = types.SimpleNamespace(tokenizer=tok, text_encoder=model, _execution_device="cpu")
    made, seen = connectors()
    t = {}
    for i, prompt in enumerate(PROMPTS):
        states, mask = LTX2Pipeline._get_gemma_prompt_embeds(pipe, prompt)
        n = int(mask.sum())
        t[f"ids_{i}"] = torch.tensor(tok(prompt.strip()).input_ids[:n])
        for name, model_ in made.items():
            model_(states, mask)
            t[f"features_{name}_{i}"] = seen.pop()[0, -n:]
    golden.save(out / "ltx2-text.safetensors", t, config=model.config.to_dict(), weights=weights,
                tokenizer=text, prompts=json.dumps(PROMPTS))
