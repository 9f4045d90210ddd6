"""The sizes that scripts/random_model.py makes: the transformer's config of each, and the parts of
a family's folder."""

ROPE = dict(use_rotary_positional_embeddings=True)
SOUND_TOY = dict(audio_in_channels=4, audio_out_channels=4, audio_num_attention_heads=3,
                 audio_attention_head_dim=8, audio_cross_attention_dim=24)
LTX23 = dict(rope_type="split", gated_attn=True, cross_attn_mod=True, audio_gated_attn=True,
             audio_cross_attn_mod=True, use_prompt_embeddings=False, perturbed_attn=True)
TIMED = dict(patch_size_t=2, sample_height=300, sample_width=300, sample_frames=81)
KANDINSKY5 = dict(in_visual_dim=16, out_visual_dim=16, visual_cond=True, attention_type="flash")

# size: (family, config of the transformer)
COSMOS2 = dict(rope_scale=(1.0, 4.0, 4.0), extra_pos_embed_type=None)
COSMOS2_WORLD = dict(COSMOS2, in_channels=17, rope_scale=(1.0, 3.0, 3.0))
SIZES = {
    "2b": ("cogvideox", dict(num_attention_heads=30, num_layers=30)),
    "5b": ("cogvideox", dict(num_attention_heads=48, num_layers=42, **ROPE)),
    "5b-i2v": ("cogvideox", dict(num_attention_heads=48, num_layers=42, in_channels=32,
                                 use_learned_positional_embeddings=True, **ROPE)),
    "1.5": ("cogvideox", dict(num_attention_heads=48, num_layers=42, patch_bias=False, **TIMED,
                              **ROPE)),
    "1.5-i2v": ("cogvideox", dict(num_attention_heads=48, num_layers=42, in_channels=32,
                                  patch_bias=False, ofs_embed_dim=512, **TIMED, **ROPE)),
    "hunyuan": ("hunyuanvideo", dict(num_layers=20, num_single_layers=40)),
    "hunyuan-i2v": ("hunyuanvideo", dict(num_layers=20, num_single_layers=40,
                                         image_condition_type="token_replace")),
    "hunyuan-i2v-33": ("hunyuanvideo", dict(num_layers=20, num_single_layers=40, in_channels=33,
                                            guidance_embeds=False,
                                            image_condition_type="latent_concat")),
    "skyreels-i2v": ("hunyuanvideo", dict(num_layers=20, num_single_layers=40, in_channels=32)),
    "hunyuan15": ("hunyuanvideo1.5", dict(num_layers=54, task_type="t2v")),
    "hunyuanvideo1.5-toy": ("hunyuanvideo1.5-toy", dict(
        num_layers=2, num_refiner_layers=1, num_attention_heads=3, attention_head_dim=32,
        text_embed_dim=64, text_embed_2_dim=32, image_embed_dim=32, rope_axes_dim=(8, 12, 12),
        task_type="t2v")),
    "kandinsky5-lite": ("kandinsky5", dict(KANDINSKY5, model_dim=1792, ff_dim=7168)),
    "kandinsky5-pro": ("kandinsky5", dict(
        KANDINSKY5, model_dim=4096, ff_dim=16384, time_dim=1024, num_text_blocks=4,
        num_visual_blocks=60, axes_dims=(32, 48, 48))),
    "kandinsky5-toy": ("kandinsky5-toy", dict(
        KANDINSKY5, model_dim=96, ff_dim=192, time_dim=64, num_text_blocks=1, num_visual_blocks=2,
        axes_dims=(8, 12, 12), in_text_dim=64, in_text_dim2=32)),
    "wan-1.3b": ("wan2.1", dict(num_attention_heads=12, ffn_dim=8960, num_layers=30)),
    "wan-14b": ("wan2.1", dict(num_attention_heads=40, ffn_dim=13824, num_layers=40)),
    "wan-vace-1.3b": ("wan-vace", dict(num_attention_heads=12, ffn_dim=8960, num_layers=30,
                                       vace_layers=list(range(0, 30, 2)))),
    "wan-vace-14b": ("wan-vace", dict(num_attention_heads=40, ffn_dim=13824, num_layers=40,
                                      vace_layers=list(range(0, 40, 5)))),
    "wan-vace-toy": ("wan-vace-toy", dict(num_attention_heads=3, attention_head_dim=32, ffn_dim=192,
                                          num_layers=2, text_dim=64, vace_layers=[0, 1])),
    "skyreels-v2-df-1.3b": ("skyreels-v2-df", dict(num_attention_heads=12, ffn_dim=8960,
                                                   num_layers=30, inject_sample_info=True)),
    "skyreels-v2-df-14b": ("skyreels-v2-df", dict(num_attention_heads=40, ffn_dim=13824,
                                                  num_layers=40)),
    "skyreels-v2-14b": ("skyreels-v2", dict(num_attention_heads=40, ffn_dim=13824,
                                            num_layers=40)),
    "skyreels-v2-toy": ("skyreels-v2-toy", dict(num_attention_heads=3, attention_head_dim=32,
                                                ffn_dim=192, num_layers=2, text_dim=64,
                                                inject_sample_info=True)),
    "qwen": ("qwen-image", dict(num_layers=60)),
    "qwen-edit-toy": ("qwen-edit-toy", dict(num_layers=2, num_attention_heads=3,
                                            attention_head_dim=32, joint_attention_dim=64,
                                            axes_dims_rope=(8, 12, 12))),
    "ltx-2b": ("ltx-video", dict(num_layers=28)),
    "ltx-13b": ("ltx-video", dict(num_layers=48, attention_head_dim=128,
                                  cross_attention_dim=4096)),
    "ltx-2.0": ("ltx-2.0", dict(num_layers=48, rope_type="split")),
    "ltx-2.3": ("ltx-2.3", dict(num_layers=48, **LTX23)),
    "ltx-2-toy": ("ltx-2-toy", dict(num_layers=2, in_channels=16, out_channels=16,
                                    num_attention_heads=3, attention_head_dim=32,
                                    cross_attention_dim=96, caption_channels=64, **LTX23,
                                    **SOUND_TOY)),
    "flux-dev": ("flux", dict(num_layers=19, num_single_layers=38, guidance_embeds=True)),
    "flux-schnell": ("flux", dict(num_layers=19, num_single_layers=38)),
    "z-image": ("z-image", dict(n_layers=30)),
    "z-image-toy": ("z-image-toy", dict(n_layers=2, n_refiner_layers=1, dim=96, n_heads=3,
                                        n_kv_heads=3, cap_feat_dim=64, axes_dims=(8, 12, 12))),
    "chroma": ("chroma", dict(num_layers=19, num_single_layers=38)),
    "chroma-toy": ("chroma-toy", dict(
        num_layers=1, num_single_layers=2, num_attention_heads=3, attention_head_dim=32,
        joint_attention_dim=64, axes_dims_rope=(8, 12, 12), approximator_hidden_dim=64)),
    "sd3-medium": ("sd3", dict(num_layers=24, num_attention_heads=24, caption_projection_dim=1536,
                               pos_embed_max_size=192)),
    "sd3.5-medium": ("sd3", dict(num_layers=24, num_attention_heads=24,
                                 caption_projection_dim=1536, pos_embed_max_size=384,
                                 qk_norm="rms_norm", dual_attention_layers=list(range(13)))),
    "sd3.5-large": ("sd3", dict(num_layers=38, num_attention_heads=38, caption_projection_dim=2432,
                                pos_embed_max_size=192, qk_norm="rms_norm")),
    "sd3-toy": ("sd3-toy", dict(
        num_layers=3, num_attention_heads=3, attention_head_dim=32, caption_projection_dim=96,
        joint_attention_dim=64, pooled_projection_dim=56, pos_embed_max_size=32,
        qk_norm="rms_norm", dual_attention_layers=[0])),
    "krea2": ("krea2", dict(num_layers=28)),
    "krea2-toy": ("krea2-toy", dict(
        num_layers=2, num_attention_heads=4, num_key_value_heads=2, attention_head_dim=32,
        intermediate_size=256, text_hidden_dim=32, text_num_attention_heads=2,
        text_num_key_value_heads=2, text_intermediate_size=64, axes_dims_rope=(8, 12, 12))),
    "cosmos2-2b": ("cosmos2", dict(COSMOS2, num_attention_heads=16, num_layers=28)),
    "cosmos2-14b": ("cosmos2", dict(COSMOS2, num_attention_heads=40, num_layers=36)),
    "cosmos2-world-2b": ("cosmos2", dict(COSMOS2_WORLD, num_attention_heads=16, num_layers=28)),
    "cosmos2-world-14b": ("cosmos2", dict(COSMOS2_WORLD, num_attention_heads=40, num_layers=36)),
    "cosmos2-toy": ("cosmos2-toy", dict(
        COSMOS2, num_layers=2, num_attention_heads=3, attention_head_dim=32, mlp_ratio=2.0,
        text_embed_dim=64, adaln_lora_dim=16)),
    "ernie-image": ("ernie-image", dict(num_layers=36, hidden_size=4096, num_attention_heads=32,
                                        ffn_hidden_size=12288, text_in_dim=3072)),
    "ernie-image-toy": ("ernie-image-toy", dict(
        num_layers=2, hidden_size=96, num_attention_heads=3, ffn_hidden_size=256, text_in_dim=64,
        rope_axes_dim=(8, 12, 12))),
    "ideogram-4": ("ideogram-4", {}),
    "ideogram-4-toy": ("ideogram-4-toy", dict(
        num_layers=2, attention_head_dim=128, num_attention_heads=1, intermediate_size=256,
        adaln_dim=32, llm_features_dim=13 * 32)),
    "flux2-klein-4b": ("flux2", dict(num_layers=5, num_single_layers=20, num_attention_heads=24,
                                     joint_attention_dim=7680, guidance_embeds=False)),
    "flux2-klein-9b": ("flux2-9b", dict(num_layers=8, num_single_layers=24, num_attention_heads=32,
                                        joint_attention_dim=12288, guidance_embeds=False)),
    "flux2-dev": ("flux2-dev", dict(num_layers=8, num_single_layers=48)),
    "flux2-toy": ("flux2-toy", dict(num_layers=1, num_single_layers=2, num_attention_heads=3,
                                    attention_head_dim=32, joint_attention_dim=192,
                                    axes_dims_rope=(8, 8, 8, 8), guidance_embeds=False)),
    "flux2-dev-toy": ("flux2-dev-toy", dict(
        num_layers=1, num_single_layers=2, num_attention_heads=3, attention_head_dim=32,
        joint_attention_dim=192, axes_dims_rope=(8, 8, 8, 8))),
}

T5 = ("T5EncoderModel", dict(d_model=4096, d_ff=10240, d_kv=64, num_heads=64, vocab_size=32128,
                             feed_forward_proj="gated-gelu", tie_word_embeddings=False))
T5_V1 = ("T5EncoderModel", dict(d_model=1024, d_ff=65536, d_kv=128, num_heads=128,
                                vocab_size=32128, feed_forward_proj="relu"))
T5_V1_TOY = ("T5EncoderModel", dict(T5_V1[1], d_model=64, d_ff=256, d_kv=16, num_heads=4,
                                    num_layers=2, vocab_size=512))
T5_TOY = ("T5EncoderModel", dict(T5[1], d_model=64, d_ff=128, d_kv=16, num_heads=4, num_layers=2,
                                 vocab_size=512))
LLAMA = ("LlamaModel", dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                            num_key_value_heads=8, vocab_size=128320, rms_norm_eps=1e-5,
                            rope_parameters=dict(rope_type="default", rope_theta=5e5)))
UMT5 = ("UMT5EncoderModel", dict(d_model=4096, d_ff=10240, d_kv=64, num_heads=64,
                                 vocab_size=256384, feed_forward_proj="gated-gelu",
                                 tie_word_embeddings=False))
UMT5_TOY = ("UMT5EncoderModel", dict(UMT5[1], d_model=64, d_ff=128, d_kv=16, num_heads=4,
                                     num_layers=2, vocab_size=512))
QWEN = ("Qwen2_5_VLForConditionalGeneration", dict(
    text_config=dict(hidden_size=3584, intermediate_size=18944, num_attention_heads=28,
                     num_key_value_heads=4, num_hidden_layers=28, vocab_size=152064,
                     rms_norm_eps=1e-6, tie_word_embeddings=False,
                     rope_parameters=dict(rope_type="default", rope_theta=1e6,
                                          mrope_section=[16, 24, 24])),
    vision_config=dict(depth=1, hidden_size=128, num_heads=2, out_hidden_size=3584)))
QWEN_TOY = ("Qwen2_5_VLForConditionalGeneration", dict(
    text_config=dict(QWEN[1]["text_config"], hidden_size=64, intermediate_size=128,
                     num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
                     vocab_size=512, rope_parameters=dict(rope_type="default", rope_theta=1e6,
                                                          mrope_section=[2, 3, 3])),
    vision_config=dict(depth=2, hidden_size=32, intermediate_size=44, num_heads=2,
                       out_hidden_size=64, fullatt_block_indexes=[1])))
QWEN_TEXT = ("Qwen2_5_VLTextModel", QWEN[1]["text_config"])
QWEN_TEXT_TOY = ("Qwen2_5_VLTextModel", QWEN_TOY[1]["text_config"])
BYT5 = ("T5EncoderModel", dict(T5[1], d_model=1472, d_ff=3584, num_heads=6, vocab_size=1510))
BYT5_TOY = ("T5EncoderModel", dict(BYT5[1], d_model=32, d_ff=64, d_kv=16, num_heads=2))
QWEN3 = ("Qwen3Model", dict(
    hidden_size=2560, intermediate_size=9728, num_attention_heads=32, num_key_value_heads=8,
    num_hidden_layers=36, head_dim=128, vocab_size=151936, rms_norm_eps=1e-6,
    tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6)))
QWEN3_TOY = ("Qwen3Model", dict(QWEN3[1], hidden_size=64, intermediate_size=128,
                                num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
                                head_dim=16, vocab_size=512))
QWEN3_VL_TEXT = dict(
    hidden_size=2560, intermediate_size=9728, num_attention_heads=32, num_key_value_heads=8,
    num_hidden_layers=36, head_dim=128, vocab_size=151936, rms_norm_eps=1e-6,
    tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=5e6,
                                                   mrope_section=[24, 20, 20],
                                                   mrope_interleaved=True))
QWEN3_VL = ("Qwen3VLModel", dict(
    text_config=QWEN3_VL_TEXT, vision_config=dict(
        depth=1, hidden_size=128, intermediate_size=128, num_heads=2, out_hidden_size=2560,
        num_position_embeddings=16, deepstack_visual_indexes=[0])))
QWEN3_VL_TOY = ("Qwen3VLModel", dict(QWEN3_VL[1], text_config=dict(
    QWEN3_VL_TEXT, hidden_size=32, intermediate_size=64, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, vocab_size=512)))
QWEN3_VL_8B = ("Qwen3VLModel", dict(QWEN3_VL[1], text_config=dict(
    QWEN3_VL_TEXT, hidden_size=4096, intermediate_size=12288)))
QWEN3_8B = ("Qwen3ForCausalLM", dict(QWEN3[1], hidden_size=4096, intermediate_size=12288,
                                     tie_word_embeddings=False))
MISTRAL3 = ("Mistral3ForConditionalGeneration", dict(
    text_config=dict(hidden_size=5120, intermediate_size=32768, num_attention_heads=32,
                     num_key_value_heads=8, num_hidden_layers=40, head_dim=128, vocab_size=131072,
                     rms_norm_eps=1e-5, sliding_window=None, model_type="mistral",
                     rope_parameters=dict(rope_type="default", rope_theta=1e9)),
    vision_config=dict(model_type="pixtral", hidden_size=128, intermediate_size=128,
                       num_hidden_layers=1, num_attention_heads=2, head_dim=64),
    tie_word_embeddings=False))
MISTRAL3_TOY = ("Mistral3ForConditionalGeneration", dict(MISTRAL3[1], text_config=dict(
    MISTRAL3[1]["text_config"], hidden_size=64, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=2, num_hidden_layers=30, head_dim=16, vocab_size=512)))
MINISTRAL3 = ("Mistral3Model", dict(
    text_config=dict(hidden_size=3072, intermediate_size=9216, num_attention_heads=32,
                     num_key_value_heads=8, num_hidden_layers=26, head_dim=128, vocab_size=131072,
                     rms_norm_eps=1e-5, sliding_window=None, model_type="ministral3",
                     max_position_embeddings=262144,
                     rope_parameters=dict(
                         rope_type="yarn", rope_theta=1e6, factor=16.0, beta_fast=32.0,
                         beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                         original_max_position_embeddings=16384, llama_4_scaling_beta=0.1)),
    vision_config=MISTRAL3[1]["vision_config"], tie_word_embeddings=True))
MINISTRAL3_TOY = ("Mistral3Model", dict(MINISTRAL3[1], text_config=dict(
    MINISTRAL3[1]["text_config"], hidden_size=64, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=2, num_hidden_layers=3, head_dim=16, vocab_size=512)))
GEMMA3 = ("Gemma3ForConditionalGeneration", dict(
    text_config=dict(hidden_size=3840, intermediate_size=15360, num_attention_heads=16,
                     num_key_value_heads=8, num_hidden_layers=48, head_dim=256, vocab_size=262208,
                     query_pre_attn_scalar=256, sliding_window=1024, rope_parameters=dict(
                         sliding_attention=dict(rope_type="default", rope_theta=1e4),
                         full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6))),
    vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                       num_attention_heads=2, image_size=28, patch_size=14),
    mm_tokens_per_image=4))
GEMMA3_TOY = ("Gemma3ForConditionalGeneration", dict(GEMMA3[1], text_config=dict(
    GEMMA3[1]["text_config"], hidden_size=64, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=2, num_hidden_layers=6, head_dim=16, query_pre_attn_scalar=16,
    vocab_size=512), image_token_index=509, boi_token_index=510, eoi_token_index=511))
CLIP = ("CLIPTextModel", dict(hidden_size=768, intermediate_size=3072, num_attention_heads=12,
                              num_hidden_layers=12, vocab_size=49408, projection_dim=768))
CLIP_L = ("CLIPTextModelWithProjection", dict(CLIP[1], eos_token_id=2))
CLIP_G = ("CLIPTextModelWithProjection", dict(
    hidden_size=1280, intermediate_size=5120, num_attention_heads=20, num_hidden_layers=32,
    vocab_size=49408, projection_dim=1280, hidden_act="gelu", eos_token_id=2))


def toy_clip(of, width):
    return (of[0], dict(of[1], hidden_size=width, intermediate_size=2 * width, projection_dim=width,
                        num_attention_heads=width // 8, num_hidden_layers=3, vocab_size=512))


def cogvideox_vae(size):
    return dict(block_out_channels=(128, 256, 256, 512), layers_per_block=3,
                down_block_types=("CogVideoXDownBlock3D",) * 4,
                up_block_types=("CogVideoXUpBlock3D",) * 4, latent_channels=16,
                scaling_factor=1.15258426 if size == "2b" else 0.7,
                invert_scale_latents=size.startswith("1.5"))


def cogvideox_scheduler(size):
    return dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
                prediction_type="v_prediction", rescale_betas_zero_snr=True,
                snr_shift_scale=3.0 if size == "2b" else 1.0, timestep_spacing="trailing",
                set_alpha_to_one=True, clip_sample=False)


def flux_vae(size):
    del size
    return dict(block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=16,
                down_block_types=("DownEncoderBlock2D",) * 4,
                up_block_types=("UpDecoderBlock2D",) * 4, sample_size=1024, use_quant_conv=False,
                use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159)


def toy_vae(size):
    return dict(flux_vae(size), block_out_channels=(32, 32, 32, 32), layers_per_block=1)


# family: the classes of its components, and functions of the size to their configs
FAMILIES = {
    "cogvideox": dict(
        pipeline=lambda size: "CogVideoXImageToVideoPipeline" if size.endswith("i2v")
        else "CogVideoXPipeline",
        transformer="CogVideoXTransformer3DModel", layers=["num_layers"],
        vae="AutoencoderKLCogVideoX", vae_config=cogvideox_vae,
        scheduler=lambda size: "CogVideoXDDIMScheduler" if size == "2b"
        else "CogVideoXDPMScheduler",
        scheduler_config=cogvideox_scheduler,
        text={"text_encoder": T5}, tokenizer={"tokenizer": "T5Tokenizer"}),
    "hunyuanvideo": dict(
        pipeline=lambda size: "HunyuanVideoImageToVideoPipeline" if "hunyuan-i2v" in size
        else "HunyuanVideoPipeline",
        transformer="HunyuanVideoTransformer3DModel", layers=["num_layers", "num_single_layers"],
        vae="AutoencoderKLHunyuanVideo", vae_config=lambda size: {},
        scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
        scheduler_config=lambda size: dict(shift=7.0),
        text={"text_encoder": LLAMA, "text_encoder_2": CLIP},
        tokenizer={"tokenizer": "LlamaTokenizerFast", "tokenizer_2": "CLIPTokenizer"}),
    "wan2.1": dict(
        pipeline=lambda size: "WanPipeline",
        transformer="WanTransformer3DModel", layers=["num_layers"],
        vae="AutoencoderKLWan", vae_config=lambda size: {},
        scheduler=lambda size: "UniPCMultistepScheduler",
        scheduler_config=lambda size: dict(flow_shift=3.0, use_flow_sigmas=True,
                                           prediction_type="flow_prediction"),
        text={"text_encoder": UMT5}, tokenizer={"tokenizer": "T5Tokenizer"}),
    "qwen-image": dict(
        pipeline=lambda size: "QwenImagePipeline",
        transformer="QwenImageTransformer2DModel", layers=["num_layers"],
        vae="AutoencoderKLQwenImage", vae_config=lambda size: {},
        scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
        scheduler_config=lambda size: dict(use_dynamic_shifting=True, base_shift=0.5,
                                           max_shift=0.9, base_image_seq_len=256,
                                           max_image_seq_len=8192, shift_terminal=0.02),
        text={"text_encoder": QWEN}, tokenizer={"tokenizer": "Qwen2Tokenizer"}),
    "ltx-video": dict(
        pipeline=lambda size: "LTXPipeline",
        transformer="LTXVideoTransformer3DModel", layers=["num_layers"],
        vae="AutoencoderKLLTXVideo", vae_config=lambda size: {},
        scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
        scheduler_config=lambda size: dict(use_dynamic_shifting=True, base_shift=0.95,
                                           max_shift=2.05, base_image_seq_len=1024,
                                           max_image_seq_len=4096, shift_terminal=0.1),
        text={"text_encoder": T5}, tokenizer={"tokenizer": "T5Tokenizer"}),
    "flux": dict(
        pipeline=lambda size: "FluxPipeline",
        transformer="FluxTransformer2DModel", layers=["num_layers", "num_single_layers"],
        vae="AutoencoderKL", vae_config=flux_vae,
        scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
        scheduler_config=lambda size: dict(shift=3.0, use_dynamic_shifting=True)
        if size == "flux-dev" else dict(shift=1.0),
        text={"text_encoder": CLIP, "text_encoder_2": T5},
        tokenizer={"tokenizer": "CLIPTokenizer", "tokenizer_2": "T5Tokenizer"}),
    "z-image": dict(
        pipeline=lambda size: "ZImagePipeline",
        transformer="ZImageTransformer2DModel", layers=["n_layers", "n_refiner_layers"],
        vae="AutoencoderKL", vae_config=flux_vae,
        scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
        scheduler_config=lambda size: dict(shift=3.0),
        text={"text_encoder": QWEN3}, tokenizer={"tokenizer": "Qwen2Tokenizer"},
        tokenizer_golden="z-image-text"),
}
FAMILIES["wan-vace"] = dict(FAMILIES["wan2.1"], pipeline=lambda size: "WanVACEPipeline",
                            transformer="WanVACETransformer3DModel")
FAMILIES["skyreels-v2"] = dict(
    FAMILIES["wan2.1"], pipeline=lambda size: "SkyReelsV2Pipeline",
    transformer="SkyReelsV2Transformer3DModel",
    scheduler_config=lambda size: dict(flow_shift=8.0, use_flow_sigmas=True,
                                       prediction_type="flow_prediction"))
FAMILIES["skyreels-v2-df"] = dict(FAMILIES["skyreels-v2"],
                                  pipeline=lambda size: "SkyReelsV2DiffusionForcingPipeline")
FAMILIES["hunyuanvideo1.5"] = dict(
    FAMILIES["hunyuanvideo"], pipeline=lambda size: "HunyuanVideo15Pipeline",
    transformer="HunyuanVideo15Transformer3DModel", layers=["num_layers"],
    vae="AutoencoderKLHunyuanVideo15", scheduler_config=lambda size: dict(shift=5.0),
    text={"text_encoder": QWEN_TEXT, "text_encoder_2": BYT5},
    tokenizer={"tokenizer": "Qwen2Tokenizer", "tokenizer_2": "ByT5Tokenizer"},
    tokenizer_golden="hunyuan15-text")
FAMILIES["hunyuanvideo1.5-toy"] = dict(
    FAMILIES["hunyuanvideo1.5"],
    vae_config=lambda size: dict(block_out_channels=(8, 16, 32, 64, 64), layers_per_block=1),
    text={"text_encoder": QWEN_TEXT_TOY, "text_encoder_2": BYT5_TOY})
FAMILIES["kandinsky5"] = dict(
    FAMILIES["hunyuanvideo"], pipeline=lambda size: "Kandinsky5T2VPipeline",
    transformer="Kandinsky5Transformer3DModel", layers=["num_text_blocks", "num_visual_blocks"],
    scheduler_config=lambda size: dict(shift=5.0),
    text={"text_encoder": QWEN, "text_encoder_2": CLIP},
    tokenizer={"tokenizer": "Qwen2Tokenizer", "tokenizer_2": "CLIPTokenizer"},
    tokenizer_golden="kandinsky5-text")
FAMILIES["kandinsky5-toy"] = dict(
    FAMILIES["kandinsky5"],
    vae_config=lambda size: dict(block_out_channels=(32, 32, 32, 32), layers_per_block=1),
    text={"text_encoder": QWEN_TOY,
          "text_encoder_2": toy_clip((CLIP[0], dict(CLIP[1], eos_token_id=2)), 32)})
FAMILIES["qwen-edit-toy"] = dict(
    FAMILIES["qwen-image"], pipeline=lambda size: "QwenImageEditPlusPipeline",
    vae_config=lambda size: dict(base_dim=8, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
    text={"text_encoder": QWEN_TOY}, tokenizer_golden="qwen-edit-text",
    processor="Qwen2VLProcessor")
LTX2_VAE = dict(decoder_causal=False, spatial_compression_ratio=32, temporal_compression_ratio=8)
LTX23_VAE = dict(
    LTX2_VAE, block_out_channels=(256, 512, 1024, 1024), layers_per_block=(4, 6, 4, 2, 2),
    decoder_block_out_channels=(256, 512, 512, 1024), decoder_layers_per_block=(4, 6, 4, 2, 2),
    decoder_spatio_temporal_scaling=(True,) * 4, decoder_inject_noise=(False,) * 5,
    upsample_type=("spatiotemporal", "spatiotemporal", "temporal", "spatial"),
    upsample_residual=(False,) * 4, upsample_factor=(2, 2, 1, 2),
    decoder_spatial_padding_mode="zeros")
CONNECTORS23 = dict(
    rope_type="split", per_modality_projections=True, proj_bias=True, video_gated_attn=True,
    audio_gated_attn=True, video_connector_num_attention_heads=32, video_connector_num_layers=8,
    audio_connector_num_attention_heads=32, audio_connector_attention_head_dim=64,
    audio_connector_num_layers=8)
FAMILIES["ltx-2.0"] = dict(
    FAMILIES["ltx-video"], pipeline=lambda size: "LTX2Pipeline",
    transformer="LTX2VideoTransformer3DModel", vae="AutoencoderKLLTX2Video",
    vae_config=lambda size: LTX2_VAE, text={"text_encoder": GEMMA3},
    tokenizer={"tokenizer": "GemmaTokenizerFast"}, tokenizer_golden="ltx2-text",
    connectors=dict(rope_type="split"))
FAMILIES["ltx-2.3"] = dict(FAMILIES["ltx-2.0"], vae_config=lambda size: LTX23_VAE,
                           connectors=CONNECTORS23)
FAMILIES["ltx-2-toy"] = dict(
    FAMILIES["ltx-2.3"], text={"text_encoder": GEMMA3_TOY},
    vae_config=lambda size: dict(
        LTX23_VAE, block_out_channels=(8, 16, 32, 32), layers_per_block=(1,) * 5,
        decoder_block_out_channels=(8, 16, 16, 32), decoder_layers_per_block=(1,) * 5,
        latent_channels=16),
    connectors=dict(
        CONNECTORS23, caption_channels=64, video_hidden_dim=96, audio_hidden_dim=24,
        video_connector_num_attention_heads=3, video_connector_attention_head_dim=32,
        video_connector_num_layers=2, audio_connector_num_attention_heads=3,
        audio_connector_attention_head_dim=8, audio_connector_num_layers=1))
FAMILIES["flux2"] = dict(
    pipeline=lambda size: "Flux2KleinPipeline",
    transformer="Flux2Transformer2DModel", layers=["num_layers", "num_single_layers"],
    vae="AutoencoderKLFlux2", vae_config=lambda size: {},
    scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
    scheduler_config=lambda size: dict(shift=3.0, use_dynamic_shifting=True),
    text={"text_encoder": ("Qwen3ForCausalLM", QWEN3[1])},
    tokenizer={"tokenizer": "Qwen2Tokenizer"}, tokenizer_golden="flux2-text")
FAMILIES["flux2-9b"] = dict(FAMILIES["flux2"], text={"text_encoder": QWEN3_8B})
FAMILIES["flux2-dev"] = dict(
    FAMILIES["flux2"], pipeline=lambda size: "Flux2Pipeline", text={"text_encoder": MISTRAL3},
    tokenizer={"tokenizer": "PixtralProcessor"}, tokenizer_golden="flux2-dev-text")
FAMILIES["flux2-toy"] = dict(
    FAMILIES["flux2"],
    vae_config=lambda size: dict(block_out_channels=(32, 32, 32, 32), layers_per_block=1),
    text={"text_encoder": ("Qwen3ForCausalLM", dict(QWEN3_TOY[1], num_hidden_layers=28))})
FAMILIES["flux2-dev-toy"] = dict(FAMILIES["flux2-dev"],
                                 vae_config=FAMILIES["flux2-toy"]["vae_config"],
                                 text={"text_encoder": MISTRAL3_TOY})
FAMILIES["ernie-image"] = dict(
    FAMILIES["flux2"], pipeline=lambda size: "ErnieImagePipeline", layers=["num_layers"],
    transformer="ErnieImageTransformer2DModel", text={"text_encoder": MINISTRAL3},
    scheduler_config=lambda size: dict(shift=4.0),
    tokenizer={"tokenizer": "TokenizersBackend"}, tokenizer_golden="ernie-image-text")
FAMILIES["ernie-image-toy"] = dict(FAMILIES["ernie-image"], text={"text_encoder": MINISTRAL3_TOY},
                                   vae_config=FAMILIES["flux2-toy"]["vae_config"])
FAMILIES["chroma"] = dict(
    FAMILIES["flux"], pipeline=lambda size: "ChromaPipeline",
    transformer="ChromaTransformer2DModel",
    scheduler_config=lambda size: dict(shift=3.0, use_dynamic_shifting=True),
    text={"text_encoder": T5}, tokenizer={"tokenizer": "T5Tokenizer"},
    tokenizer_golden="chroma-t5")
FAMILIES["chroma-toy"] = dict(FAMILIES["chroma"], vae_config=toy_vae,
                              text={"text_encoder": T5_TOY})
SD3_VAE = dict(scaling_factor=1.5305, shift_factor=0.0609)
FAMILIES["sd3"] = dict(
    FAMILIES["flux"], pipeline=lambda size: "StableDiffusion3Pipeline",
    transformer="SD3Transformer2DModel", layers=["num_layers"],
    vae_config=lambda size: dict(flux_vae(size), **SD3_VAE),
    scheduler_config=lambda size: dict(shift=3.0),
    text={"text_encoder": CLIP_L, "text_encoder_2": CLIP_G, "text_encoder_3": T5},
    tokenizer={"tokenizer": "CLIPTokenizer", "tokenizer_2": "CLIPTokenizer",
               "tokenizer_3": "T5Tokenizer"})
FAMILIES["sd3-toy"] = dict(
    FAMILIES["sd3"], vae_config=lambda size: dict(toy_vae(size), **SD3_VAE),
    text={"text_encoder": toy_clip(CLIP_L, 24), "text_encoder_2": toy_clip(CLIP_G, 32),
          "text_encoder_3": T5_TOY})
FAMILIES["krea2"] = dict(
    FAMILIES["qwen-image"], pipeline=lambda size: "Krea2Pipeline",
    transformer="Krea2Transformer2DModel", text={"text_encoder": QWEN3_VL},
    scheduler_config=lambda size: dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15,
                                       base_image_seq_len=256, max_image_seq_len=6400),
    tokenizer_golden="krea2-text")
FAMILIES["krea2-toy"] = dict(
    FAMILIES["krea2"], text={"text_encoder": QWEN3_VL_TOY},
    vae_config=lambda size: dict(base_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1))
FAMILIES["cosmos2"] = dict(
    FAMILIES["wan2.1"], pipeline=lambda size: "Cosmos2VideoToWorldPipeline" if "world" in size
    else "Cosmos2TextToImagePipeline",
    transformer="CosmosTransformer3DModel",
    scheduler=lambda size: "FlowMatchEulerDiscreteScheduler",
    scheduler_config=lambda size: dict(use_karras_sigmas=True),
    text={"text_encoder": T5_V1}, tokenizer_golden="cosmos2-t5")
FAMILIES["cosmos2-toy"] = dict(FAMILIES["cosmos2"], text={"text_encoder": T5_V1_TOY},
                               vae_config=FAMILIES["krea2-toy"]["vae_config"])
FAMILIES["ideogram-4"] = dict(
    FAMILIES["flux2"], pipeline=lambda size: "Ideogram4Pipeline",
    transformer="Ideogram4Transformer2DModel", layers=["num_layers"],
    unconditional="Ideogram4Transformer2DModel", scheduler_config=lambda size: {},
    text={"text_encoder": QWEN3_VL_8B}, tokenizer_golden="ideogram4-text")
FAMILIES["ideogram-4-toy"] = dict(FAMILIES["ideogram-4"], text={"text_encoder": QWEN3_VL_TOY},
                                  vae_config=FAMILIES["flux2-toy"]["vae_config"])
FAMILIES["wan-vace-toy"] = dict(FAMILIES["wan-vace"], text={"text_encoder": UMT5_TOY},
                                vae_config=FAMILIES["krea2-toy"]["vae_config"])
FAMILIES["skyreels-v2-toy"] = dict(FAMILIES["skyreels-v2-df"], text={"text_encoder": UMT5_TOY},
                                   vae_config=FAMILIES["krea2-toy"]["vae_config"])
FAMILIES["z-image-toy"] = dict(FAMILIES["z-image"], vae_config=toy_vae,
                               text={"text_encoder": QWEN3_TOY})
