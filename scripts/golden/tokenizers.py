"""tests/golden/tokenizers.json: small tokenizers, and the ids of `tokenizers`, sentencepiece and
transformers. Each case is a tokenizer.json (or a spiece.model in base64) with rows of texts (in
hex, because some are not UTF-8) and ids; the models are trained here on the fixed text below.

The matrix of normalisers and pre-tokenizers uses a model without words: every byte is a token, and
characters inside a word have a prefix, so that the ids show the text and the borders of words."""
import base64
import io
import json
import pathlib
import tempfile

TEXT = """\
A wooden toy ship glides over a plush blue carpet. The cat's running, they'll say it's late!
Prices: $1,299.99 (20% off) on 03/07/2025. naive cafe facade. one two three four five six seven
the quick brown fox jumps over the lazy dog; the dog sleeps. She sells sea shells by the sea shore.
1 22 333 4444 a b c d e f g h i j k l m n o p q r s t u v w x y z hello hello hello \
world world""" * 4

TEXTS = [
    "", " ", "   ", "a", " a", "a ", "the cat's late", "The  CAT \t sat\non\r\nthe mat ",
    "hello world",
    "caf\u00e9 cafe\u0301 \u00c5 A\u030a \u212b",
    "q\u0307\u0323 \u1e9b\u0323 \uac00 \u1100\u1161\u11a8",
    "\ufb01n \u2167 \u00bd \u334e \uff46\uff55\uff4c\uff4c \ufdfa",
    "\u0130stanbul STRASSE \u1e9e \u03a3\u03a3",
    "1 22 333 4444 3.14 1,000 \u0663\u0664 \u2167\u00bd", "foo_bar fooBar -- ---- ... !?",
    "$1+2=3 <b>&amp;</b> `x` ~|^",
    "\u4e00\u8f86\u767d\u8272 \u96e8\u306e\u591c\u3001 \uacc4\uc6b8",
    "\U0001f600 \U0001f469\u200d\U0001f4bb \U0001f1ef\U0001f1f5 \u2764\ufe0f",
    "a\u00a0b\u3000c\u2003d\u2028e\u200bf\u180eg\u0085h\u1680i\x0bj\x1fk\x00l\x7fm",
    "\u0301\u0301 x\u0301\u0316\u0327",
    "<s>a</s>", "x <mark> y<mark>z  <mark>", "<word>a <word> b<word>", "<UP> <up> <\uff35\uff30>",
    "a<pad>b<extra_id_3> c",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "----------", "\u2581a \u2581\u2581b",
    "zzz \u0416\u0416\u0416 zzz", "don't I'M it'd \u017ft'\u017f",
    "\uff46\u0300 \uff30\u0300\u0300",
    b"ok \xff\xfe bad", b"\xe2\x82", b"\xf0\x9f\x98 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80",
    b"\xe2\x28\xa1 \xf0\x90\x80",
]


def raw(text):
    return text if isinstance(text, bytes) else text.encode()


def rows(encode, texts):
    return [[raw(t).hex(), encode(raw(t).decode("utf-8", "replace"))] for t in texts]


def case(name, tok, texts=TEXTS, **more):
    return dict(name=name, json=json.loads(tok.to_str()),
                rows=rows(lambda s: tok.encode(s, add_special_tokens=False).ids, texts), **more)


def bytes_model():
    from tokenizers import Tokenizer, models
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    return Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True,
                                continuing_subword_prefix="#"))


def matrix():
    from tokenizers import AddedToken, Regex, normalizers as n, pre_tokenizers as p
    steps = [
        ("nfc", n.NFC(), None), ("nfd", n.NFD(), None), ("nfkc", n.NFKC(), None),
        ("nfkd", n.NFKD(), None),
        ("lower", n.Lowercase(), None), ("accents", n.Sequence([n.NFD(), n.StripAccents()]), None),
        ("strip", n.Strip(), None), ("strip left", n.Strip(left=True, right=False), None),
        ("replace", n.Sequence([n.Replace("a", "bb"), n.Replace(Regex(r"\s{2,}|\d"), "_")]), None),
        ("prepend", n.Prepend("\u2581"), None),
        ("byte level", None, p.ByteLevel()), ("byte level, no prefix", None,
                                              p.ByteLevel(add_prefix_space=False)),
        ("whitespace", None, p.Whitespace()), ("whitespace split", None, p.WhitespaceSplit()),
        ("digits", None, p.Digits()), ("single digits", None, p.Digits(individual_digits=True)),
        ("punctuation", None, p.Punctuation()), ("punctuation removed", None,
                                                 p.Punctuation("removed")),
        ("words then digits", n.NFKC(), p.Sequence([p.WhitespaceSplit(), p.Digits(),
                                                    p.Punctuation("contiguous")])),
        ("empty matches", None, p.Split(Regex(r"x*"), "isolated")),
        ("classes", None, p.Split(Regex(r"[\s\d]+|\w\W"), "isolated")),
    ]
    for scheme in ("always", "first", "never"):
        steps.append((f"metaspace {scheme}", None, p.Metaspace(prepend_scheme=scheme)))
        steps.append((f"metaspace {scheme}, whole", None,
                      p.Metaspace(prepend_scheme=scheme, split=False)))
    for behavior in ("removed", "isolated", "contiguous", "merged_with_previous",
                     "merged_with_next"):
        steps.append((f"split {behavior}", None, p.Split(Regex(r"[aeiou]|\p{N}"), behavior)))
        steps.append((f"split {behavior}, inverted", None,
                      p.Split(Regex(r"\p{L}+"), behavior, invert=True)))
        steps.append((f"split at text, {behavior}", None, p.Split("e", behavior)))
    for name, normalizer, splits in steps:
        tok = bytes_model()
        if normalizer:
            tok.normalizer = normalizer
        if splits:
            tok.pre_tokenizer = splits
        yield case(name, tok)
    tok = bytes_model()
    tok.normalizer = n.Lowercase()
    tok.pre_tokenizer = p.Metaspace(prepend_scheme="first")
    tok.add_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False),
                    AddedToken("<mark>", lstrip=True, rstrip=True, normalized=False),
                    AddedToken("<word>", single_word=True, normalized=False),
                    AddedToken("<UP>", normalized=True),
                    AddedToken("aaa", normalized=False), AddedToken("aaaaa", normalized=False)])
    yield case("added tokens", tok)


def prompts(tok, lengths, pad):
    """Returns rows [text, max_length, ids, n]."""
    out = []
    for text in ("", "the cat's late", "hello world hello world hello"):
        for length in lengths:
            tok.enable_truncation(length)
            ids = tok.encode(text).ids
            out.append([raw(text).hex(), length, ids + [pad] * (length - len(ids)), len(ids)])
    tok.no_truncation()
    return out


def trained():
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as n
    from tokenizers import pre_tokenizers as p, processors, trainers
    quiet = dict(show_progress=False)
    letters = p.ByteLevel.alphabet()

    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = p.Sequence([
        p.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                      r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        p.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=420, initial_alphabet=letters,
                            special_tokens=["<pad>", "<s>"], **quiet))
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                              processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tok.token_to_id("<s>"))])])
    yield case("byte-level BPE", tok, prompts=prompts(tok, (1, 3, 12), 0))

    tok = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>",
                               fuse_unk=False))
    tok.normalizer = n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()])
    tok.pre_tokenizer = p.Sequence([
        p.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed",
                invert=True),
        p.ByteLevel(add_prefix_space=False)])
    tok.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=420, initial_alphabet=letters,
                                                        end_of_word_suffix="</w>",
                            special_tokens=["<|startoftext|>", "<|endoftext|>"], **quiet))
    tok.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0),
                                                      False, False)
    yield case("BPE with word ends", tok, prompts=prompts(tok, (2, 4, 12), 1))

    for fuse in (False, True):
        tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=False))
        tok.pre_tokenizer = p.Metaspace(prepend_scheme="first")
        tok.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=200,
                                                            special_tokens=["<unk>"], **quiet))
        yield case(f"BPE with unknowns, fused: {fuse}", tok)

    for fallback in (False, True):
        tok = Tokenizer(models.Unigram())
        tok.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), p.Metaspace()])
        tok.train_from_iterator([TEXT], trainers.UnigramTrainer(vocab_size=150, unk_token="<unk>",
                                special_tokens=["<pad>", "</s>", "<unk>"], **quiet))
        o = json.loads(tok.to_str())
        # Every parser reads these scores exactly.
        o["model"]["vocab"] = [[w, round(s * 64) / 64] for w, s in o["model"]["vocab"]]
        if fallback:
            o["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
            o["model"]["byte_fallback"] = True
        tok = Tokenizer.from_str(json.dumps(o))
        tok.post_processor = processors.TemplateProcessing(single="$A </s>",
                                                           special_tokens=[("</s>", 1)])
        yield case(f"unigram, bytes: {fallback}", tok, prompts=prompts(tok, (1, 3, 12), 0))


# Tekken's words: a change from small to capital letters begins one, slashes and line breaks belong
# to the marks before them, and a digit stands alone.
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN_TEXTS = [
    "", "The CAT's HelloWorld helloWORLD iPhone XMLHttpRequest McDonald", "HELLO hello Hello hELLO",
    "path/to//a.png https://a.b/c?d=1&e=2 // /// !!!/\n\n/ ---/---",
    "12345 3.14 \u0663\u2167 a1B2c3",
    "  two  spaces\t\ttabs \n \n\n line \r\n end   ", "\u01c5\u01c5a \u02b0A\u02b0a \u2160\u2170",
    "e\u0301E\u0301e\u0301 \u0301x \u0e01\u0e34\u0e19 \u0915\u093f \u4e00\u8f86ABC\u8f86abc",
    "\U0001f600\U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "a\u00a0b\u3000c\u2003d\u200be",
    "<s>[INST]hello[/INST]</s> [ INST ] [IMG][SPECIAL_12]<SPECIAL_12>", "</s",
    b"ok \xff\xfe bad \xe2\x82",
]
TEKKEN_SPECIALS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "<pad>",
                   "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]


def tekken():
    """A tokenizer.json as transformers makes it of Mistral's tekken.json."""
    from tokenizers import Tokenizer, models, pre_tokenizers as p, trainers
    from tokenizers import Regex
    from transformers.integrations.mistral.tokenizer import MistralConverter
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = p.Sequence([p.Split(Regex(TEKKEN), "isolated"),
                                    p.ByteLevel(add_prefix_space=False, use_regex=False)])
    letters = p.ByteLevel.alphabet()
    tok.train_from_iterator([TEXT + " HELLO Hello iPhone https:// HelloWorld" * 4],
                            trainers.BpeTrainer(vocab_size=440, initial_alphabet=letters,
                                                show_progress=False))
    letter = {c: b for b, c in byte_letters().items()}
    pieces = [bytes(letter[c] for c in k) for k, _ in sorted(tok.get_vocab().items(),
                                                            key=lambda kv: kv[1])]
    ranked = [bytes([b]) for b in range(256)] + [x for x in pieces if len(x) > 1]
    made = dict(config=dict(pattern=TEKKEN, num_vocab_tokens=len(ranked),
                            default_vocab_size=len(ranked) + 16 - 8,   # the last 8 are left out
                            default_num_special_tokens=16, version="v11"),
                vocab=[dict(rank=i, token_bytes=base64.b64encode(x).decode(), token_str=None)
                       for i, x in enumerate(ranked)],
                special_tokens=[dict(rank=i, token_str=x, is_control=True)
                                for i, x in enumerate(TEKKEN_SPECIALS)])
    with tempfile.TemporaryDirectory() as d:
        file = pathlib.Path(d) / "tekken.json"
        file.write_text(json.dumps(made))
        tok = MistralConverter(str(file)).converted()
    return case("Tekken", tok, TEKKEN_TEXTS + TEXTS, prompts=prompts(tok, (1, 3, 12), 6))


def byte_letters():
    """GPT-2's letters of bytes: printable bytes are themselves, others come from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def spiece():
    import sentencepiece
    import transformers
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        rules = [("\uff46", "f"), ("\ufb01", "fi"), ("\u2167", "VIII"), ("\u00e9", "e"),
                 ("e\u0301", "E"), ("\u0301", ""),
                 ("\t", " "), ("\n", " "), ("\r", " "), ("\u3000", " "), ("\u00a0", " "),
                 ("\uff35", "U"), ("\uff30", "P")]
        (d / "rules.tsv").write_text("".join(
            " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}"
                for c in b) + "\n" for a, b in rules))
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT.split("\n")), model_writer=out, vocab_size=90,
            model_type="unigram",
            normalization_rule_tsv=str(d / "rules.tsv"), pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            pad_piece="<pad>", user_defined_symbols=["<mark>"], minloglevel=2)
        (d / "spiece.model").write_bytes(out.getvalue())
        t5 = transformers.T5Tokenizer.from_pretrained(d)
        tok = t5._tokenizer
        return dict(name="spiece.model", spiece=base64.b64encode(out.getvalue()).decode(),
                    rows=rows(lambda s: tok.encode(s, add_special_tokens=False).ids, TEXTS),
                    prompts=prompts(tok, (1, 3, 12), 0))


def make(out):
    import sentencepiece
    import tokenizers
    import transformers
    made_by = (f"tokenizers {tokenizers.__version__}, transformers {transformers.__version__}, "
               f"sentencepiece {sentencepiece.__version__}")
    cases = [*matrix(), *trained(), tekken(), spiece()]
    text = ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases)
    file = pathlib.Path(out) / "tokenizers.json"
    file.write_text(f'{{"made_by":"{made_by}","cases":[\n{text}\n]}}\n')
