"""LTX-2's text connectors, 2.0, 2.3 and a wider 2.3: the states of all layers of a text encoder,
the features that they are projected to, and the prompts of video (`prompt`) and sound
(`sound_prompt`) after their connectors. `states` [B,n,C,L] and `features` [B,n,D] begin with the
valid tokens, `length` of them; the reference has its padding in front. `sound_features` are those
of the sound's connector, and `both` of 2.3 has them behind the video's, of 2.0, where they are
equal, only once."""
import golden
import torch
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors

TINY = dict(caption_channels=32, text_proj_in_factor=7, rope_type="split",
            video_connector_num_attention_heads=2, video_connector_attention_head_dim=16,
            video_connector_num_layers=2, video_connector_num_learnable_registers=4,
            audio_connector_num_attention_heads=2, audio_connector_attention_head_dim=16,
            audio_connector_num_layers=1, audio_connector_num_learnable_registers=4,
            connector_rope_base_seq_len=64)
V23 = dict(per_modality_projections=True, proj_bias=True, video_gated_attn=True,
           audio_gated_attn=True, video_hidden_dim=32, audio_hidden_dim=16,
           audio_connector_attention_head_dim=8)
WIDE = dict(V23, video_hidden_dim=48, video_connector_num_attention_heads=3)
N, LENGTHS = 12, [5, 12]


def front(x, lengths):
    """Moves the valid tokens, at the end of each row, to its begin; zeros follow."""
    y = torch.zeros_like(x)
    for i, n in enumerate(lengths):
        y[i, :n] = x[i, x.shape[1] - n:]
    return y


def one(out, name, config):
    model, whole, shapes = golden.tiny(LTX2TextConnectors, config)
    states = 3 * golden.draw("states", (2, N, config["caption_channels"],
                                        config["text_proj_in_factor"]))
    mask = (torch.arange(N)[None] >= N - torch.tensor(LENGTHS)[:, None]).long()
    seen = []
    model.video_connector.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    model.audio_connector.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    prompt, sound, attended = model(states, mask)
    assert attended.all()
    video, audio = (front(x, LENGTHS) for x in seen)
    both = torch.cat([video, audio], 2) if config.get("per_modality_projections") else video
    golden.save(out / f"{name}.safetensors",
                {"states": front(states, LENGTHS), "features": video,
                 "sound_features": audio, "both": both,
                 "length": torch.tensor(LENGTHS, dtype=torch.int32), "prompt": prompt,
                 "sound_prompt": sound},
                config=whole, weights=shapes)


def make(out):
    one(out, "ltx2-connectors-20", TINY)
    one(out, "ltx2-connectors-23", {**TINY, **V23})
    one(out, "ltx2-connectors-wide", {**TINY, **WIDE})
