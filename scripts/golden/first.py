"""Names of the tensors in single files: those of the first authors of Wan, FLUX.1 and UMT5, which
other trainers and ComfyUI read as well.

A golden has no tensors. Its metadata has `config` and `weights` of a tiny model in the layout of
diffusers or transformers, as other goldens have, and `theirs`: for each tensor of the single file
its shape, and the tensors of ours that are its rows. All fields that no tensor shows have the
values of the released files. diffusers' own conversion of Wan 2.1's and FLUX.1's files has to find
every name.
"""
import json
import re

import transformers
from diffusers import (AutoencoderKL, AutoencoderKLFlux2, AutoencoderKLHunyuanVideo,
                       AutoencoderKLWan, SkyReelsV2Transformer3DModel, WanTransformer3DModel,
                       WanVACETransformer3DModel)
from diffusers.loaders import single_file_utils

import golden

MEAN_22 = [
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813,
    0.0891, 0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108,
    -0.2158, 0.2502, -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230, -0.0313,
    -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944,
    0.3573, -0.0548, -0.1681, -0.0667]
STD_22 = [
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
    0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
    0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744]


def wan_vae(name, nested=False):
    """The name in Wan2.1_VAE.pth, or nested in Wan2.2_VAE.pth, of a tensor of AutoencoderKLWan."""
    m = re.match(r"decoder\.up_blocks\.(\d)\.(resnets|upsamplers)\.(\d)\.", name)
    if m:
        at = 4 * int(m[1]) + (int(m[3]) if m[2] == "resnets" else 3)
        new = f"{m[1]}.upsamples.{m[3]}" if nested else at
        name = f"decoder.upsamples.{new}." + name[m.end():]
    name = re.sub(r"up_blocks\.(\d)\.upsampler\.", r"upsamples.\1.upsamples.3.", name)
    name = re.sub(r"down_blocks\.(\d)\.downsampler\.", r"downsamples.\1.downsamples.2.", name)
    name = re.sub(r"down_blocks\.(\d)\.resnets\.(\d)\.", r"downsamples.\1.downsamples.\2.", name)
    for ours, theirs in (("down_blocks", "downsamples"), ("post_quant_conv", "conv2"),
                         ("quant_conv", "conv1"), ("norm1", "residual.0"),
                         (r"(?<=\.)conv1", "residual.2"), ("norm2", "residual.3"),
                         (r"(?<=\.)conv2", "residual.6"), ("conv_shortcut", "shortcut"),
                         ("conv_in", "conv1"), ("norm_out", "head.0"), ("conv_out", "head.2"),
                         ("mid_block.resnets.0", "middle.0"), ("mid_block.resnets.1", "middle.2"),
                         ("mid_block.attentions.0", "middle.1")):
        name = re.sub(ours, theirs, name)
    return name


def flux_vae(name):
    """The name in ae.safetensors of a tensor of AutoencoderKL, whose decoder counts its levels the
    other way."""
    name = re.sub(r"up_blocks\.(\d)", lambda m: f"up.{3 - int(m[1])}", name)
    for ours, theirs in (("down_blocks", "down"), ("resnets", "block"),
                         ("downsamplers.0", "downsample"), ("upsamplers.0", "upsample"),
                         ("mid_block.block.0", "mid.block_1"),
                         ("mid_block.block.1", "mid.block_2"), ("conv_shortcut", "nin_shortcut"),
                         ("mid_block.attentions.0.group_norm", "mid.attn_1.norm"),
                         ("mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"),
                         ("mid_block.attentions.0.to_", "mid.attn_1."),
                         ("conv_norm_out", "norm_out")):
        name = name.replace(ours, theirs)
    return name


def flux2_vae(name):
    """The name in FLUX.2's ae.safetensors, which has the latent's convolutions in the coders."""
    half = {"quant_conv": "encoder.", "post_quant_conv": "decoder."}
    return half.get(name.split(".")[0], "") + flux_vae(name)


def convert_flux2(file, config):
    """diffusers' conversion, which keeps no statistics of a batch norm."""
    names = {k: k.removeprefix("encoder.").removeprefix("decoder.") if "quant_conv" in k else k
             for k in file}
    made = single_file_utils.convert_ldm_vae_checkpoint({names[k]: v for k, v in file.items()},
                                                        config)
    return made | {k: v for k, v in file.items() if k.startswith("bn.")}


def wan_t5(name):
    layer = {"0.layer_norm": "norm1", "0.SelfAttention.relative_attention_bias":
             "pos_embedding.embedding", "0.SelfAttention": "attn", "1.layer_norm": "norm2",
             "1.DenseReluDense.wi_0": "ffn.gate.0", "1.DenseReluDense.wi_1": "ffn.fc1",
             "1.DenseReluDense.wo": "ffn.fc2"}
    m = re.match(r"encoder\.block\.(\d+)\.layer\.(.*)", name)
    if not m:
        return {"shared.weight": "token_embedding.weight",
                "encoder.final_layer_norm.weight": "norm.weight"}[name]
    ours = next(k for k in layer if m[2].startswith(k))
    return f"blocks.{m[1]}.{layer[ours]}{m[2][len(ours):]}"


def wan_clip(name):
    name = re.sub(r"^vision_model\.", "", name)
    for ours, theirs in (("embeddings.class_embedding", "cls_embedding"),
                         ("embeddings.position_embedding.weight", "pos_embedding"),
                         ("embeddings.", ""), ("pre_layrnorm", "pre_norm"),
                         ("post_layernorm", "post_norm"), ("encoder.layers", "transformer"),
                         ("self_attn.out_proj", "attn.proj"), ("layer_norm", "norm"),
                         ("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.2")):
        name = name.replace(ours, theirs)
    return "visual." + re.sub(r"self_attn\.[qkv]_proj", "attn.to_qkv", name)


def their_shape(theirs, shapes):
    """The shape in the single file of tensors with these shapes."""
    shape = list(shapes[0])
    shape[0] *= len(shapes)
    if theirs.endswith(("cls_embedding", "pos_embedding")):
        shape = [1] * (3 - len(shape)) + shape
    if re.search(r"mid\.attn_1\.(q|k|v|proj_out)\.weight", theirs):
        shape += [1, 1]
    return shape


def save(out, name, config, weights, rename, extra=None):
    theirs = {}
    for ours in sorted(weights):
        theirs.setdefault(rename(ours), []).append(ours)
    for parts in theirs.values():
        parts.sort(key=lambda k: "qkv".find(k.split("_proj")[0][-1]))
    theirs = {k: {"ours": v, "shape": their_shape(k, [weights[o] for o in v])}
              for k, v in theirs.items()}
    for k, shape in (extra or {}).items():
        theirs[k] = {"ours": [], "shape": shape}
    golden.save(out / f"{name}.safetensors", {}, config=config, weights=weights,
                theirs=json.dumps(theirs))
    return theirs


BATCHES = "bn.num_batches_tracked"                    # an integer, which nothing reads


def vae(cls, **config):
    model = cls(**config).eval()
    shapes = golden.fill_module(model, skip=(BATCHES,))
    config = {k: v for k, v in model.config.items() if not k.startswith("_")}
    return model, dict(config, _class_name=cls.__name__), shapes


def check(model, theirs, convert):
    """Converts a file of their names by diffusers, and compares names and values."""
    ours = {k: v for k, v in model.state_dict().items() if k != BATCHES}
    file = {k: ours[v["ours"][0]].reshape(v["shape"]) for k, v in theirs.items()}
    made = convert(file)
    assert sorted(made) == sorted(ours), set(made) ^ set(ours)
    assert all((made[k].reshape(ours[k].shape) == ours[k]).all() for k in ours)


def transformer(out, name, cls, names, more, **fields):
    """A transformer for the latents of first-vae-wan and the texts of first-umt5; `first` is the
    first authors' config.json, with the fields of `more`."""
    model = cls(num_attention_heads=1, attention_head_dim=128, in_channels=16, out_channels=16,
                text_dim=32, freq_dim=32, ffn_dim=48, num_layers=2, **fields)
    shapes = golden.fill_module(model)
    config = {k: v for k, v in model.config.items() if not k.startswith("_")}
    first = dict(dim=128, eps=1e-6, ffn_dim=48, freq_dim=32, in_dim=16, num_heads=1, num_layers=2,
                 out_dim=16, text_len=512, **more)
    theirs = {}
    for ours, shape in shapes.items():
        block = re.match(r"((?:vace_)?blocks\.)(\d)\.", ours)
        known = re.sub(r"blocks\.\d", "blocks.0", ours) if block else ours
        theirs[re.sub(r"blocks\.\d", f"blocks.{block[2]}", names[known]) if block
               else names[known]] = {"ours": [ours], "shape": shape}
    golden.save(out / f"{name}.safetensors", {}, weights=shapes, theirs=theirs, first=first,
                config=dict(config, _class_name=cls.__name__))


def skyreels2_names():
    """Wan's, and those of the first authors' fps_embedding and fps_projection."""
    return {**golden.part("wan").weights(), "fps_embedding.weight": "fps_embedding.weight",
            **{f"fps_projection.net.{ours}.{part}": f"fps_projection.{theirs}.{part}"
               for ours, theirs in (("0.proj", 0), ("2", 2)) for part in ("weight", "bias")}}


def make(out):
    transformer(out, "first-wan", WanTransformer3DModel, golden.part("wan").weights(),
                dict(_class_name="WanModel", model_type="t2v"))
    transformer(out, "first-skyreels2", SkyReelsV2Transformer3DModel, skyreels2_names(),
                dict(_class_name="WanModel", model_type="t2v", inject_sample_info=True),
                inject_sample_info=True)
    transformer(out, "first-wan-vace", WanVACETransformer3DModel, golden.part("wan_vace").weights(),
                dict(_class_name="VaceWanModel", model_type="vace", vace_layers=[0, 1],
                     vace_in_dim=96), vace_layers=[0, 1])
    model, config, shapes = vae(AutoencoderKLWan, base_dim=8)
    check(model, save(out, "first-vae-wan", config, shapes, wan_vae),
          single_file_utils.convert_wan_vae_to_diffusers)
    model, config, shapes = vae(AutoencoderKLWan, base_dim=8, decoder_base_dim=16, z_dim=48,
                                is_residual=True, in_channels=12, out_channels=12, patch_size=2,
                                scale_factor_spatial=16, latents_mean=MEAN_22, latents_std=STD_22)
    save(out, "first-vae-wan-2.2", config, shapes, lambda name: wan_vae(name, nested=True))
    model, config, shapes = vae(AutoencoderKL, block_out_channels=[32, 32, 64, 64],
                                down_block_types=["DownEncoderBlock2D"] * 4,
                                up_block_types=["UpDecoderBlock2D"] * 4, layers_per_block=2,
                                latent_channels=16, sample_size=1024, scaling_factor=0.3611,
                                shift_factor=0.1159, use_quant_conv=False,
                                use_post_quant_conv=False)
    check(model, save(out, "first-vae-flux", config, shapes, flux_vae),
          lambda file: single_file_utils.convert_ldm_vae_checkpoint(file, model.config))
    for name, rename, config in (("first-vae-flux2", flux2_vae,
                                  dict(decoder_block_out_channels=[32, 64, 64, 96])),
                                 ("first-vae-flux2-comfy", flux_vae, {})):
        model, config, shapes = vae(AutoencoderKLFlux2, block_out_channels=[32, 32, 64, 64],
                                    layers_per_block=1, latent_channels=8, **config)
        check(model, save(out, name, config, shapes, rename),
              lambda file: convert_flux2(file, model.config))
    _, config, shapes = vae(AutoencoderKLHunyuanVideo, block_out_channels=[32, 32, 64, 64],
                            layers_per_block=1)
    save(out, "first-vae-hunyuan", config, shapes, str)
    t5 = dict(d_model=32, d_kv=8, num_heads=4, d_ff=64, num_layers=2, vocab_size=64,
              feed_forward_proj="gated-gelu", dropout_rate=0.0)
    for kind, name in (("UMT5", "first-umt5"), ("T5", "first-t5")):
        config = getattr(transformers, kind + "Config")(**t5)
        model = getattr(transformers, kind + "EncoderModel")(config).eval().float()
        shapes = golden.fill_module(model, skip=("encoder.embed_tokens.weight",))
        save(out, name, config.to_dict(), shapes, wan_t5 if kind == "UMT5" else str)
    sizes = dict(intermediate_size=64, num_hidden_layers=2, layer_norm_eps=1e-5)
    config = transformers.CLIPVisionConfig(hidden_size=80, num_attention_heads=1, image_size=224,
                                           patch_size=56, hidden_act="gelu", **sizes)
    shapes = golden.fill_module(transformers.CLIPVisionModel(config).eval().float())
    save(out, "first-clip-vision", config.to_dict(), shapes, wan_clip,
         {"log_scale": [], "visual.head": [80, 32], "textual.norm.weight": [16]})
    config = transformers.CLIPTextConfig(hidden_size=64, num_attention_heads=1, eos_token_id=2,
                                         vocab_size=50, projection_dim=64, **sizes)
    shapes = golden.fill_module(transformers.CLIPTextModel(config).eval().float())
    prefix = "" if next(iter(shapes)).startswith("text_model.") else "text_model."
    save(out, "first-clip", config.to_dict(), shapes, lambda name: prefix + name)
