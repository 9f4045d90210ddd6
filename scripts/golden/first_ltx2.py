"""LTX-2's single files as its authors have them: the transformer, the video's autoencoder and the
connectors of the goldens vae_ltx2_*, ltx2-* and ltx2-connectors-* in one file, whose metadata have
the authors' configuration (`their_config`). The rest is as in first.py. diffusers' own conversions
have to find every name of the transformer and the autoencoder; those of the connectors are the
names of its scripts/convert_ltx2_to_diffusers.py.
"""
import json
import re

from diffusers import AutoencoderKLLTX2Video, LTX2VideoTransformer3DModel
from diffusers.loaders import lora_conversion_utils, single_file_utils
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors

import golden

TRANSFORMER = {
    "audio_proj_in": "audio_patchify_proj", "proj_in": "patchify_proj",
    "audio_time_embed": "audio_adaln_single", "time_embed": "adaln_single",
    "audio_prompt_adaln": "audio_prompt_adaln_single", "prompt_adaln": "prompt_adaln_single",
    "av_cross_attn_video_scale_shift": "av_ca_video_scale_shift_adaln_single",
    "av_cross_attn_audio_scale_shift": "av_ca_audio_scale_shift_adaln_single",
    "av_cross_attn_video_a2v_gate": "av_ca_a2v_gate_adaln_single",
    "av_cross_attn_audio_v2a_gate": "av_ca_v2a_gate_adaln_single",
    "video_a2v_cross_attn_scale_shift_table": "scale_shift_table_a2v_ca_video",
    "audio_a2v_cross_attn_scale_shift_table": "scale_shift_table_a2v_ca_audio",
    "norm_q": "q_norm", "norm_k": "k_norm"}
CONNECTORS = {
    "video_connector": "model.diffusion_model.video_embeddings_connector",
    "audio_connector": "model.diffusion_model.audio_embeddings_connector",
    "transformer_blocks": "transformer_1d_blocks",
    "text_proj_in": "text_embedding_projection.aggregate_embed",
    "video_text_proj_in": "text_embedding_projection.video_aggregate_embed",
    "audio_text_proj_in": "text_embedding_projection.audio_aggregate_embed",
    "norm_q": "q_norm", "norm_k": "k_norm"}


def words(name, table):
    return ".".join(table.get(w, w) for w in name.split("."))


def transformer(name):
    return "model.diffusion_model." + words(name, TRANSFORMER)


def connectors(name):
    return words(name, CONNECTORS)


def vae(name):
    """The authors count blocks and the steps between them together."""
    def down(m):
        return f"encoder.down_blocks.{2 * int(m[1]) + ('samplers' in m[2])}."

    def up(m):
        return f"decoder.up_blocks.{2 * int(m[1]) + 1 + ('samplers' not in m[2])}."
    name = re.sub(r"^encoder\.down_blocks\.(\d)\.(downsamplers\.0\.|)", down, name)
    name = re.sub(r"^decoder\.up_blocks\.(\d)\.(upsamplers\.0\.|)", up, name)
    for ours, theirs in (("encoder.mid_block", "encoder.down_blocks.8"),
                         ("decoder.mid_block", "decoder.up_blocks.0"), ("resnets", "res_blocks"),
                         ("latents_mean", "per_channel_statistics.mean-of-means"),
                         ("latents_std", "per_channel_statistics.std-of-means")):
        name = name.replace(ours, theirs)
    return "vae." + name


def check(shapes, rename, convert):
    """diffusers' conversion finds the name of every tensor."""
    made = convert({rename(n): n for n in shapes})
    assert made == {n: n for n in shapes}, {k: v for k, v in made.items() if k != v}


def convert_vae(file):
    """diffusers' table lacks the fourth level of the decoder of 2.3."""
    more = {"up_blocks.7": "up_blocks.3.upsamplers.0", "up_blocks.8": "up_blocks.3"}
    names = {k: k for k in file}
    for theirs, ours in more.items():
        names = {k: n.replace(f"decoder.{theirs}.", f"decoder.{ours}.") for k, n in names.items()}
    fourth = {n.removeprefix("vae.").replace("res_blocks", "resnets"): file[k]
              for k, n in names.items() if n != k}
    rest = {k: v for k, v in file.items() if names[k] == k}
    return single_file_utils.convert_ltx2_vae_to_diffusers(rest) | fourth


def convert_transformer(file):
    """diffusers' table of LoRAs has the names of 2.3, which that of files lacks."""
    made = lora_conversion_utils._convert_non_diffusers_ltx2_lora_to_diffusers(
        {k.removeprefix("model."): v for k, v in file.items()})
    return {k.removeprefix("transformer."): v for k, v in made.items()}


def their_config(model, config):
    """What the authors' file says of what no tensor shows."""
    heads = config["num_attention_heads"]
    first = dict(num_attention_heads=heads, attention_head_dim=config["attention_head_dim"],
                 audio_num_attention_heads=heads,
                 audio_attention_head_dim=config["audio_attention_head_dim"], norm_eps=1e-6,
                 rope_type=config["rope_type"], frequencies_precision="float64",
                 positional_embedding_theta=10000.0, timestep_scale_multiplier=1000,
                 positional_embedding_max_pos=[20, 2048, 2048],
                 connector_num_attention_heads=2, connector_attention_head_dim=16,
                 connector_positional_embedding_max_pos=[64], caption_channels=32)
    residual = model.config.upsample_residual
    blocks = [x for r in residual for x in (["res_x", {"num_layers": 1}],
                                            ["compress_all", {"multiplier": 2, "residual": r}])]
    return dict(transformer=first, vae=dict(
        _class_name="CausalVideoAutoencoder", decoder_blocks=blocks, causal_decoder=False,
        spatial_padding_mode=model.config.decoder_spatial_padding_mode, encoder_blocks=[]))


def one(out, version, of_vae, of_transformer, of_connectors):
    first, ltx2 = golden.part("first"), golden.part("ltx2")
    more = golden.part("ltx2_connectors")
    config = {**ltx2.TINY, **of_transformer}
    autoencoder = AutoencoderKLLTX2Video(**of_vae)
    parts = [(golden.fill_module(autoencoder), vae, convert_vae),
             (golden.tiny(LTX2VideoTransformer3DModel, config)[2], transformer,
              convert_transformer),
             (golden.tiny(LTX2TextConnectors, {**more.TINY, **of_connectors})[2], connectors,
              None)]
    theirs, weights = {}, {}
    for shapes, rename, convert in parts:
        if convert:
            check(shapes, rename, convert)
        assert not set(weights) & set(shapes), set(weights) & set(shapes)
        weights.update(shapes)
        theirs.update({rename(n): {"ours": [n], "shape": list(s)} for n, s in shapes.items()})
    theirs["vae.per_channel_statistics.channel"] = {"ours": [], "shape": [8]}
    theirs["vae.per_channel_statistics.mean-of-stds"] = {"ours": [], "shape": [8]}
    theirs["vocoder.conv_pre.weight"] = {"ours": [], "shape": [4, 2, 3]}
    golden.save(out / f"first-ltx2-{version}.safetensors", {}, config={}, weights=weights,
                theirs=json.dumps(theirs),
                their_config=json.dumps(their_config(autoencoder, config)))


def make(out):
    video = golden.part("vae_ltx2")
    one(out, "20", video.V20, {}, {})
    one(out, "23", video.V23, golden.part("ltx2").V23, golden.part("ltx2_connectors").V23)
