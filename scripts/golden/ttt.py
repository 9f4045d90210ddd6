"""CogVideoX with TTT layers (Dalal et al. 2025): outputs, losses and gradients of the first
authors' own modules, ten optimiser steps, and the names that their converter gives to weights.

The modules are those of github.com/test-time-training/ttt-video-dit at the commit in TINY; the
variable TTT_VIDEO_DIT names their folder, and they import einops. They run without their GPU
kernels and without torch's compiler. Each variant has a file. A case holds x [B,C,f,h,w], t, text
[B,N*L,D] of N segments, target, output and loss. The gradients of the case `base` are
`grad/<parameter>`.

The first authors interleave the rows of matrices of step sizes whose columns hold them, so that in
more than one segment tokens take the step sizes of other tokens. Variants without ttt_eta_compat
give each token its own, by a replaced function; those with it have the rows that the authors'
kernels read.
"""
import contextlib
import functools
import os
import sys
import types

import golden
import torch

TINY = dict(made_from="test-time-training/ttt-video-dit 6c316a7",
            num_attention_heads=2, attention_head_dim=16, num_layers=2, time_embed_dim=16,
            text_embed_dim=12, in_channels=4, out_channels=4, patch_size=2, sample_height=4,
            sample_width=6, norm_eps=1e-6, use_rotary_positional_embeddings=True,
            mini_batch_size=8, scan_checkpoint_group_size=4, ttt_eta_compat=False)
SEGMENTS = 3
TEXT = {1: 2, 2: 6, SEGMENTS: 6} # tokens of a segment's text, by the number of segments
# Steps of the released sizes would hardly change the weights of so short a sequence.
MLP = dict(ssm_layer="ttt_mlp", ttt_base_lr=60.0)
LINEAR = dict(ssm_layer="ttt_linear", ttt_base_lr=60.0)
LONG, SHORT = (2, 12 * SEGMENTS + 1, 4, 6), (2, 13, 4, 6)
# name: config, {case: (B, f, h, w)}
VARIANTS = {
    "mlp": (MLP, {"base": LONG, "one": SHORT, "off": (1, 25, 2, 8)}),
    "mlp-one": (MLP, {"base": SHORT}),
    "linear": (LINEAR, {"base": LONG, "one": SHORT}),
    "linear-compat": (dict(ttt_eta_compat=True, **LINEAR), {"base": LONG}),
    "mlp-compat": (dict(ttt_eta_compat=True, **MLP), {"base": LONG, "one": SHORT}),
}
TIMES = [999.0, 437.0]


@functools.cache
def imported():
    """Imports the first authors' modules; the libraries that only their GPU code calls are empty
    here."""
    sys.path.insert(0, os.environ["TTT_VIDEO_DIT"])
    for name, attribute in (("wandb", None), ("ttt.models.ssm.linear_triton", "TritonLinear"),
                            ("ttt.models.ssm.mlp_tk", "TkMLP"),
                            ("ttt.infra.config_manager", "JobConfig")):
        module = sys.modules[name] = types.ModuleType(name)
        if attribute:
            setattr(module, attribute, object)
    torch.compile = lambda f=None, **_: f if f else lambda g: g
    from ttt.models.cogvideo import dit
    from ttt.models.configs import ModelConfig
    from ttt.models.ssm import ttt_layer
    del sys.modules["wandb"]                     # diffusers looks for it
    return dit, ModelConfig, ttt_layer


def interleaving(theirs, compat):
    """Returns an interleave() whose matrices of step sizes have equal rows: the last row of each,
    which alone the first authors' kernels read, or the own step sizes of the matrix's tokens."""
    def interleave(self, x, metadata):
        if x.shape[-1] != self.mini_batch_size:      # no matrix of step sizes
            return theirs(self, x, metadata)
        if compat:
            return theirs(self, x, metadata)[..., -1:, :].expand_as(x)
        own = theirs(self, x[..., :1, :].transpose(-2, -1), metadata)
        return own.transpose(-2, -1).expand_as(x)
    return interleave


class TTTCogVideoXTransformer3DModel(torch.nn.Module):
    """Has the parameters' names of the first authors' checkpoints, which begin with `dit`."""

    def __init__(self, **config):
        super().__init__()
        dit, ModelConfig, ttt_layer = imported()
        heads, head = config["num_attention_heads"], config["attention_head_dim"]
        self.config = ModelConfig(
            model_dim=heads * head, num_heads=heads, num_layers=config["num_layers"],
            ssm_layer=config["ssm_layer"], mini_batch_size=config["mini_batch_size"],
            ttt_base_lr=config["ttt_base_lr"], adapter_method="sft",
            scan_checkpoint_group_size=config["scan_checkpoint_group_size"],
            time_embed_dim=config["time_embed_dim"], text_dim=config["text_embed_dim"],
            in_channels=config["in_channels"], out_channels=config["out_channels"],
            patch_size=config["patch_size"])
        layer = ttt_layer.TTTBase
        if not hasattr(layer, "released"):
            layer.released = layer.interleave
        layer.interleave = interleaving(layer.released, config["ttt_eta_compat"])
        self.dit = dit.DiffusionTransformer(self.config)
        self.sequences = [b.seq_modeling_block for b in self.dit.layers]
        for block in self.sequences:
            block.ssm.ttt.use_kernel = False

    def place(self, frames, rows, columns):
        """Makes the tables of rotations, whose grid is a constant in the first authors' code."""
        for block in self.sequences:
            rotary, ssm = block.rotary, block.ssm
            rotary.height, rotary.width, rotary.compressed_num_frames = rows, columns, 13
            sin, cos = rotary._precompute_freqs_cis()
            dtype = block.q.weight.dtype
            rotary.freqs_sin, rotary.freqs_cos = sin.to(dtype), cos.to(dtype)
            ssm.latent_height, ssm.latent_width = rows, columns
            ssm.compressed_num_frames = frames
            ssm.freqs_cis = ssm._precompute_freqs_cis_3d()


def segments(frames):
    return (frames - 1) // 12


def inputs(config, case, b, f, h, w):
    c, n = config["out_channels"], segments(f)
    return {"x": golden.draw("x " + case, (b, c, f, h, w)),
            "target": golden.draw("target " + case, (b, c, f, h, w)),
            "t": torch.tensor(TIMES[:b]),
            "text": golden.draw("text " + case, (b, n * TEXT[n], config["text_embed_dim"]))}


def predict(model, config, v):
    """[B,C,f,h,w] -> [B,C,f,h,w]"""
    x, text, dtype = v["x"].transpose(1, 2), v["text"], next(model.parameters()).dtype
    patch = config["patch_size"]
    model.place(x.shape[1], x.shape[3] // patch, x.shape[4] // patch)
    text = text.reshape(text.shape[0], segments(x.shape[1]), -1, text.shape[-1])
    return model.dit(x.to(dtype), text.to(dtype), v["t"]).transpose(1, 2)


def variant(out, name):
    own, cases = VARIANTS[name]
    golden.transformer(out / f"ttt-{name}.safetensors", TTTCogVideoXTransformer3DModel,
                       {**TINY, **own}, cases, inputs, predict)


def steps(out):
    model, config, shapes = golden.tiny(TTTCogVideoXTransformer3DModel, {**TINY, **MLP})
    ten_steps = golden.part("cogvideox").ten_steps
    file, final = ten_steps(model, config, (1, 25, 2, 8), inputs, predict)
    file.update({"final/" + n: p for n, p in final.items()})
    golden.save(out / "ttt-steps.safetensors", file, config=config, weights=shapes)


def names(out):
    """Writes the shapes of a CogVideoX transformer's weights, and in the metadata `names` the names
    that the first authors' converter gives them."""
    from diffusers import CogVideoXTransformer3DModel
    config = {k: v for k, v in TINY.items() if not k.startswith(("ttt", "mini", "scan", "made"))}
    model, config, shapes = golden.tiny(CogVideoXTransformer3DModel, {**config, "norm_eps": 1e-5})
    tensors = {name: torch.tensor(float(i)) for i, name in enumerate(shapes)}
    imported()
    from ttt.models.cogvideo.weight_conversion import from_hf

    class Done(Exception):
        pass

    class Model:
        def to(self, dtype):
            return self

        def load_state_dict(self, weights, strict):
            raise Done({list(shapes)[int(x)]: name for name, x in weights.items()})

    class File:
        get_tensor = staticmethod(tensors.__getitem__)
        keys = staticmethod(lambda: tensors)

    from_hf.CogVideoX = lambda *_: Model()
    from_hf.safe_open = lambda *_, **__: contextlib.nullcontext(File)
    try:
        from_hf.main("", "ttt_mlp", "")
    except Done as done:
        golden.save(out / "ttt-names.safetensors", {"none": torch.zeros(1)}, config=config,
                    weights=shapes, names=done.args[0])


def make(out):
    if "TTT_VIDEO_DIT" not in os.environ:
        print("ttt: skipped: TTT_VIDEO_DIT names no folder of test-time-training/ttt-video-dit")
        return
    for name in VARIANTS:
        variant(out, name)
    steps(out)
    names(out)
