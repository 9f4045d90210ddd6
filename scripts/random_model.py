#!/usr/bin/env python3
"""Writes a model folder of a real size with random weights, for benchmarks and runs at full size.

    python3 scripts/random_model.py OUT [--size SIZE] [--layers N [M]] [--text_layers N]
                                    [--parts transformer,vae,text_encoder,tokenizer,processor,..]
                                    [--tokenizer FILE] [--dtype bf16] [--sparse]

OUT has all parts, as vprep and vtrain read them, unless --parts names fewer. SIZE is of CogVideoX
2b (the default), 5b, 5b-i2v, 1.5, 1.5-i2v; of HunyuanVideo hunyuan, hunyuan-i2v, hunyuan-i2v-33
(latent_concat), skyreels-i2v; of HunyuanVideo 1.5 hunyuan15; of Kandinsky 5 kandinsky5-lite,
kandinsky5-pro; of LTX-Video ltx-2b, ltx-13b; of LTX-2 ltx-2.0, ltx-2.3 (without the autoencoder of
sound and the vocoder); of Wan 2.1 wan-1.3b, wan-14b and of its VACE wan-vace-1.3b, wan-vace-14b; of
SkyReels V2 skyreels-v2-df-1.3b, skyreels-v2-df-14b, skyreels-v2-14b (T2V); of FLUX.1 flux-dev,
flux-schnell; of FLUX.2 flux2-klein-4b, flux2-klein-9b, flux2-dev; of Stable Diffusion 3 sd3-medium,
sd3.5-medium, sd3.5-large; qwen is Qwen-Image, z-image is Z-Image, krea2 is Krea 2, ideogram-4 is
Ideogram 4, chroma is Chroma, ernie-image is ERNIE-Image; cosmos2-2b, cosmos2-14b, cosmos2-world-2b
and cosmos2-world-14b are Cosmos-Predict2's Text2Image and Video2World; qwen-edit-toy is
Qwen-Image-Edit's (Plus) with its processor; hunyuanvideo1.5-toy, kandinsky5-toy, wan-vace-toy,
skyreels-v2-toy, ltx-2-toy, z-image-toy, chroma-toy, sd3-toy, krea2-toy, ideogram-4-toy,
ernie-image-toy, cosmos2-toy, flux2-toy, flux2-dev-toy and qwen-edit-toy are as small as a
demonstration needs. Names and shapes are those of diffusers and transformers (instantiated without
memory), values are uniform with a spread that keeps activations near 1. Large parts are sharded at
5 GB as the hub has them, and a piece of a tensor is in memory at a time. T5-XXL in bf16 takes 9.5
GB, LLaMA-3-8B 15 GB, the transformers of FLUX.2 klein 7.8 and 18.2 GB, Z-Image 12.3 GB, Chroma 17.8
GB, each of Ideogram 4's two 18.6 GB, of FLUX.1 23.8 GB, HunyuanVideo and Krea 2 25.6 GB each, Wan
14B 28.6 GB, LTX-2 38 GB (its Gemma 3 another 23.5 GB), Qwen-Image 40.9 GB and FLUX.2-dev 64.4 GB
and 47 GB for its text: delete OUT afterwards. With --sparse all values are zeros that take no space
on the disk, for vtrain --dry_run. The tokenizer is --tokenizer (spiece.model, or LLaMA's
tokenizer.json), else a tiny one.
"""
import argparse
import copy
import json
import pathlib
import shutil
import struct

import numpy as np
import torch

from random_sizes import FAMILIES, SIZES

SHARD = 5 * 10**9
PIECE = 1 << 24
TYPES = {"bf16": "BF16", "f16": "F16", "f32": "F32"}


def as_type(x, dtype):
    """f32 array -> bytes of the stored type."""
    if dtype == "f32":
        return x.tobytes()
    if dtype == "f16":
        return x.astype(np.float16).tobytes()
    u = x.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def values(rng, name, shape, dtype, drawn=[]):
    """The tensor's bytes, in pieces of 16 M values. All pieces are scaled copies of one that is
    drawn once: drawing billions of values would take most of the time."""
    if not drawn:
        drawn.append(rng.random(PIECE, dtype=np.float32) * np.float32(2) - np.float32(1))
    n = int(np.prod(shape, dtype=np.int64))
    norm = len(shape) == 1 and name.endswith("weight")
    spread = np.sqrt(3.0 * shape[0] / n) if len(shape) > 1 else 0.02
    if "shared" in name or "embed_tokens" in name:
        spread = 1.0
    if name in ("latents_std", "bn.running_var"):
        norm = True
    start = int(rng.integers(PIECE // 2)) if n <= PIECE // 2 else 0
    for at in range(0, n, PIECE):
        u = drawn[0][start:start + min(PIECE, n - at)]
        yield as_type((1 + np.float32(0.1) * u) if norm else (u * np.float32(spread)), dtype)


def write_file(path, tensors, dtype, rng):
    """Writes tensors {name: shape}; with rng None the values are a hole in the file."""
    header, at = {}, 0
    size = {"bf16": 2, "f16": 2, "f32": 4}[dtype]
    for name, shape in tensors:
        n = int(np.prod(shape, dtype=np.int64)) * size
        header[name] = {"dtype": TYPES[dtype], "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        if rng is None:
            f.truncate(8 + len(text) + at)
            return at
        for name, shape in tensors:
            for piece in values(rng, name, shape, dtype):
                f.write(piece)
    return at


def write_weights(folder, stem, module, dtype, rng):
    """A module's tensors in one file, or in shards with an index."""
    tensors = [(k, tuple(v.shape)) for k, v in sorted(module.state_dict().items())
               if v.is_floating_point()]
    if any(k == "shared.weight" for k, _ in tensors):
        tensors = [t for t in tensors if t[0] != "encoder.embed_tokens.weight"]
    if getattr(module.config, "tie_word_embeddings", False):
        tensors = [t for t in tensors if t[0] != "lm_head.weight"]
    size = {"bf16": 2, "f16": 2, "f32": 4}[dtype]
    shards, room = [[]], SHARD
    for name, shape in tensors:
        n = int(np.prod(shape, dtype=np.int64)) * size
        if n > room and shards[-1]:
            shards.append([])
            room = SHARD
        shards[-1].append((name, shape))
        room -= n
    if len(shards) == 1:
        return write_file(folder / f"{stem}.safetensors", tensors, dtype, rng)
    total, weight_map = 0, {}
    for i, part in enumerate(shards):
        name = f"{stem}-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        total += write_file(folder / name, part, dtype, rng)
        weight_map.update({k: name for k, _ in part})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return total


def transformer(out, a, rng):
    import diffusers
    f, config = FAMILIES[SIZES[a.size][0]], dict(SIZES[a.size][1])
    config.update(zip(f["layers"], a.layers or []))
    if "dual_attention_layers" in config:
        config["dual_attention_layers"] = config["dual_attention_layers"][:config["num_layers"] - 1]
    if "vace_layers" in config:
        config["vace_layers"] = [i for i in config["vace_layers"] if i < config["num_layers"]]
    with torch.device("meta"):
        m = getattr(diffusers, f["transformer"])(**config)
    m.save_config(out)
    return write_weights(out, "diffusion_pytorch_model", m, a.dtype, rng)


def unconditional_transformer(out, a, rng):
    """Ideogram 4's, which guides samples."""
    return transformer(out, a, rng)


def vae(out, a, rng):
    import diffusers
    f = FAMILIES[SIZES[a.size][0]]
    with torch.device("meta"):
        m = getattr(diffusers, f["vae"])(**f["vae_config"](a.size))
    m.save_config(out)
    return write_weights(out, "diffusion_pytorch_model", m, a.dtype, rng)


def text_encoder(out, a, rng):
    """The text encoder whose slot the folder's name says."""
    import transformers
    name, config = FAMILIES[SIZES[a.size][0]]["text"][out.name]
    cls, config = getattr(transformers, name), copy.deepcopy(config)
    text = config.get("text_config", config)
    if "processor" in FAMILIES[SIZES[a.size][0]]:            # the ids of its tiny tokenizer
        ids = json.loads(golden_meta("qwen-edit-text")["config"])
        config.update({k: ids[k] for k in ("image_token_id", "video_token_id",
                                           "vision_start_token_id")})
    if a.text_layers and not name.startswith("CLIPTextModel"):
        text["num_hidden_layers"] = a.text_layers
    elif name in ("T5EncoderModel", "UMT5EncoderModel"):
        text["num_hidden_layers"] = 24
    config = cls.config_class(**config, architectures=[name])
    with torch.device("meta"):
        m = cls(config)
    config.save_pretrained(out)
    return write_weights(out, "model", m, a.dtype, rng)


def connectors(out, a, rng):
    """LTX-2's, which read the states of all layers of the text encoder."""
    from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
    f = FAMILIES[SIZES[a.size][0]]
    layers = a.text_layers or f["text"]["text_encoder"][1]["text_config"]["num_hidden_layers"]
    with torch.device("meta"):
        m = LTX2TextConnectors(**f["connectors"], text_proj_in_factor=layers + 1)
    m.save_config(out)
    return write_weights(out, "diffusion_pytorch_model", m, a.dtype, rng)


def golden_meta(name):
    """The metadata of a golden."""
    from safetensors import safe_open
    goldens = pathlib.Path(__file__).parent.parent / "tests/golden"
    with safe_open(goldens / f"{name}.safetensors", "np") as f:
        return f.metadata()


def processor(out, a, rng):
    """The processor's file, of models whose texts have pictures."""
    del a, rng
    text = golden_meta("qwen-edit-text")["image_processor"]
    (out / "preprocessor_config.json").write_text(text)
    return 0


def tokenizer(out, a, rng):
    """A given file; or for T5 a few hundred pieces learnt from this file's own text, for the others
    the tokenizer of a golden."""
    del rng
    family = FAMILIES[SIZES[a.size][0]]
    kind, config = family["tokenizer"][out.name], {}
    if a.tokenizer and kind != "CLIPTokenizer":
        shutil.copyfile(a.tokenizer, out / pathlib.Path(a.tokenizer).name)
    elif kind == "ByT5Tokenizer":
        config = dict(extra_ids=125)
    elif kind == "T5Tokenizer":
        import sentencepiece
        sentencepiece.SentencePieceTrainer.train(
            input=__file__, model_prefix=str(out / "spiece"), vocab_size=250, model_type="unigram",
            pad_id=0, eos_id=1,
            unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2)
        (out / "spiece.vocab").unlink()
    else:
        name = {"Qwen2Tokenizer": "qwen-image-text", "CLIPTokenizer": "hunyuanvideo-clip",
                "LlamaTokenizerFast": "hunyuanvideo-llama"}.get(kind)
        if kind != "CLIPTokenizer":
            name = family.get("tokenizer_golden", name)
        meta = golden_meta(name)
        (out / "tokenizer.json").write_text(meta["tokenizer"])
        config = {k: v for k, v in meta.items() if k == "chat_template"}
        if kind == "CLIPTokenizer":
            config["pad_token"] = "<|endoftext|>"
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, **config}))
    return 0


def scheduler(out, a, rng):
    del rng
    import diffusers
    f = FAMILIES[SIZES[a.size][0]]
    getattr(diffusers, f["scheduler"](a.size))(**f["scheduler_config"](a.size)).save_config(out)
    return 0


PARTS = {f.__name__: f for f in (transformer, unconditional_transformer, vae, text_encoder,
                                 connectors, tokenizer, processor, scheduler)}


def folders(f, part):
    """The folders of a part: one, none, or one for each text encoder."""
    if part == "unconditional_transformer":
        return [part] if "unconditional" in f else []
    if part in ("connectors", "processor"):
        return [part] if part in f else []
    return list(f[{"text_encoder": "text"}.get(part, part)]
                if part in ("text_encoder", "tokenizer") else [part])


def index_of(size):
    f = FAMILIES[SIZES[size][0]]
    return {"_class_name": f["pipeline"](size),
            "transformer": ["diffusers", f["transformer"]], "vae": ["diffusers", f["vae"]],
            "scheduler": ["diffusers", f["scheduler"](size)],
            **{slot: ["transformers", text[0]] for slot, text in f["text"].items()},
            **{slot: ["transformers", kind] for slot, kind in f["tokenizer"].items()},
            **({"unconditional_transformer": ["diffusers", f["unconditional"]]}
               if "unconditional" in f else {}),
            **({"connectors": ["ltx2", "LTX2TextConnectors"]} if "connectors" in f else {}),
            **({"processor": ["transformers", f["processor"]]} if "processor" in f else {})}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("out", type=pathlib.Path)
    a.add_argument("--size", choices=SIZES, default="2b")
    a.add_argument("--layers", type=int, nargs="+",
                   help="blocks; of HunyuanVideo, FLUX.1 and FLUX.2 those of two streams and "
                   "single ones, of Z-Image those of both streams and those of a refiner")
    a.add_argument("--text_layers", type=int)
    a.add_argument("--parts", default=",".join(PARTS),
                   help="parts to write; by default all that vprep and vtrain read")
    a.add_argument("--tokenizer")
    a.add_argument("--dtype", choices=TYPES, default="bf16")
    a.add_argument("--sparse", action="store_true")
    args = a.parse_args()
    rng = None if args.sparse else np.random.default_rng(0)
    args.out.mkdir(parents=True, exist_ok=True)
    for part in args.parts.split(","):
        for folder in folders(FAMILIES[SIZES[args.size][0]], part):
            (args.out / folder).mkdir(exist_ok=True)
            n = PARTS[part](args.out / folder, args, rng)
            print(f"{folder}: {n / 1e9:.2f} GB" if n else folder, flush=True)
    (args.out / "model_index.json").write_text(json.dumps(index_of(args.size), indent=2))


if __name__ == "__main__":
    main()
