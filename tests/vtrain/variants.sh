#!/usr/bin/env bash
# Models that vtrain does not train: vprep refuses them too, in the same words, before it reads the
# list of media. A file here has only the tensor by which a variant is known.
. "$(dirname "$0")/../lib/check.sh"

need make_toy set.lmdb

# tensors FILE NAME...: a safetensors file of tensors of one number.
tensors() {
    local file=$1 header= at=0 name
    shift
    for name; do
        header+="${header:+,}\"$name\":{\"dtype\":\"F32\",\"shape\":[1],"
        header+="\"data_offsets\":[$at,$((at += 4))]}"
    done
    header="{$header}"
    printf "\\x$(printf %02x $((${#header} & 255)))\\x$(printf %02x $((${#header} >> 8)))" >"$file"
    printf '\0\0\0\0\0\0%s' "$header" >>"$file"
    head -c $at /dev/zero >>"$file"
}

said() { sed -n "/whose defaults differ/d; s/^$1: //p" "$stderr"; }

# both PATTERN FLAGS...: both programs end with the same line, which has PATTERN, and make nothing.
both() {
    local pattern=$1
    shift
    expect 2 "$pattern" vprep --meta no-such-list.json --out out.lmdb "$@"
    local line
    line=$(said vprep)
    expect "1 2" "$pattern" vtrain --latents set.lmdb --output_dir out "$@"
    [ "$(said vtrain)" = "$line" ] || wrong "vprep said: $line"
    absent out out.lmdb
}

# folder PIPELINE CONFIG TENSOR...: makes the model m in diffusers' layout.
folder() {
    rm -rf m && mkdir -p m/transformer
    echo "{\"_class_name\":\"$1\"}" >m/model_index.json
    echo "$2" >m/transformer/config.json
    [ $# -eq 2 ] || tensors m/transformer/diffusion_pytorch_model.safetensors "${@:3}"
}

# ---- names of a hub, and paths that are not there ----
both "^[a-z]*: --model THUDM/CogVideoX-2b: .*run .hf download THUDM/CogVideoX-2b --include .*, then this command again" \
    --model THUDM/CogVideoX-2b
both 'run .hf download Wan-AI/Wan2.1. or .modelscope' \
    --model https://huggingface.co/Wan-AI/Wan2.1/tree/main
both 'or .modelscope download --model Wan-AI/Wan2.1.' \
    --model https://modelscope.cn/models/Wan-AI/Wan2.1
for path in none ./Wan-AI/none /Wan-AI/none Wan-AI/none/x ../none; do
    both "^[a-z]*: --model $path: no such file or folder (nothing is downloaded" --model $path
done
expect 2 '--transformer a/b: .*run .hf download a/b. or' vtrain --latents set.lmdb \
    --output_dir out --transformer a/b

# ---- a tensor or a field of diffusers' folders ----
while IFS='|' read -r pipeline class fields tensor says; do
    folder "$pipeline" "{\"_class_name\":\"$class\"${fields:+,$fields}}" proj_out.weight $tensor
    both "^[a-z]*: --model: m/transformer: $says" --model m
done <<'ROWS'
Flux2KleinPipeline|Flux2Transformer2DModel|"patch_size":2||patch_size: 2
Flux2KleinPipeline|Flux2Transformer2DModel||control_img_in.weight|control_img_in.*a control picture (FLUX.2 Fun Controlnet), which vtrain does not train with: give FLUX.2 klein
ZImagePipeline|ZImageTransformer2DModel|"siglip_feat_dim":1152||siglip_feat_dim: it is set.*Z-Image-Omni
ZImagePipeline|ZImageTransformer2DModel||siglip_refiner.0.ffn_norm1.weight|siglip_refiner.*pictures by SigLIP (Z-Image-Omni), which vtrain does not train with: give Z-Image
ZImagePipeline|ZImageTransformer2DModel||control_layers.0.before_proj.weight|control_layers.*a control picture (Z-Image-Fun-Controlnet)
WanPipeline|WanTransformer3DModel||vace_blocks.0.proj_out.weight|vace_blocks.*a clip to edit (VACE, whose class is WanVACETransformer3DModel or VaceWanModel), which vtrain does not train with: give T2V
WanPipeline|WanTransformer3DModel||blocks.0.attn1.to_q_mot_ref.weight|.*a reference clip (Video-As-Prompt)
WanImageToVideoPipeline|WanTransformer3DModel|"in_channels":36|face_adapter.fuser_blocks.0.q.weight|.*poses and a face (Animate)
WanImageToVideoPipeline|WanTransformer3DModel|"in_channels":52||in_channels: 52 with out_channels 16: .*(Wan2.2-Fun-Control)
WanFunControlPipeline|WanTransformer3DModel|"in_channels":48|ref_conv.weight|ref_conv.weight: .*(Fun-Control 1.1 and 2.2)
WanPipeline|WanTransformer3DModel|"in_channels":20||in_channels: 20 with out_channels 16 is no known model
WanPipeline|WanTransformer3DModel|"qk_norm":"rms_norm"||qk_norm
WanPipeline|WanTransformer3DModel||blocks.0.new.weight|tensor blocks.0.new.weight: .*have no such tensor: give T2V
WanPipeline|WanTransformer3DModel||blocks.0.attn1.to_q.weight.absmax|tensor .*the weights are quantised
WanPipeline|WanTransformer3DModel||blocks.0.attn1.to_q.qweight|tensor .*the weights are quantised
WanPipeline|WanTransformer3DModel||blocks.0.attn1.to_q.weight_scale_2|tensor .*the weights are quantised in a way that is not read (nvfp4)
WanPipeline|WanTransformer3DModel||blocks.0.attn1.to_q.lora_A.weight|tensor .*the file is a LoRA.*--lora_checkpoint
WanPipeline|WanAnimateTransformer3DModel|||vtrain trains no transformer of the class WanAnimateTransformer3DModel; known: .*WanTransformer3DModel
WanPipeline|WanTransformer3DModel||fps_embedding.weight|fps_embedding.*frame rates (SkyReels V2 Diffusion Forcing: its config.json has inject_sample_info
SkyReelsV2Pipeline|SkyReelsV2Transformer3DModel|"in_channels":32||in_channels: 32 with out_channels 16 is no known model
SkyReelsV2Pipeline|SkyReelsV2Transformer3DModel||vace_blocks.0.proj_out.weight|vace_blocks.*a clip to edit, which vtrain does not train with: give SkyReels V2's T2V, I2V or Diffusion Forcing
WanVACEPipeline|WanVACETransformer3DModel|"in_channels":36||in_channels: 36 with out_channels 16 is no known model
WanVACEPipeline|WanVACETransformer3DModel||face_adapter.fuser_blocks.0.q.weight|.*poses and a face (Animate), which vtrain does not train with: give Wan VACE
QwenImagePipeline|QwenImageTransformer2DModel|"use_additional_t_cond":true||use_additional_t_cond: true: .*(Qwen-Image-Layered)
QwenImagePipeline|QwenImageTransformer2DModel|"use_layer3d_rope":true||use_layer3d_rope: true: .*(Qwen-Image-Layered)
QwenImagePipeline|QwenImageTransformer2DModel||time_text_embed.addition_t_embedding.weight|.*(Qwen-Image-Layered)
QwenImagePipeline|QwenImageTransformer2DModel|"guidance_embeds":true||guidance_embeds
FluxPipeline|FluxTransformer2DModel|"in_channels":384,"out_channels":32||in_channels: 384 with out_channels 32 is no known model
FluxPipeline|FluxTransformer2DModel|"in_channels":128,"out_channels":64||in_channels: 128 .*(FLUX.1 Canny, Depth)
FluxPipeline|FluxTransformer2DModel||distilled_guidance_layer.norms.0.weight|.*(Chroma)
HunyuanVideoPipeline|HunyuanVideoTransformer3DModel||context_embedder_2.linear_1.weight|.*(HunyuanVideo 1.5)
HunyuanVideoPipeline|HunyuanVideoTransformer3DModel||clean_x_embedder.proj.weight|.*(FramePack)
HunyuanVideo15Pipeline|HunyuanVideo15Transformer3DModel|"in_channels":66||in_channels: 66 with out_channels 32 is no known model
HunyuanVideoPipeline|HunyuanVideoImageTransformer2DModel|||vtrain trains no transformer of the class
LTXPipeline|LTXVideoTransformer3DModel||audio_proj_in.weight|.*sound (LTX-2)
LTX2Pipeline|LTX2VideoTransformer3DModel|"use_keyframes_abs_pos_embedding":true||use_keyframes_abs_pos_embedding: true: .*keyframes (LTX-2.5)
LTX2Pipeline|LTX2VideoTransformer3DModel|"ff_bias":false||ff_bias: false
LTXPipeline|LTXVideoTransformer3DModel|"in_channels":129||in_channels: 129 with out_channels 128
CogVideoXPipeline|CogVideoXTransformer3DModel||perceiver_cross_attention.0.to_q.weight|.*a face (ConsisID)
CogVideoXPipeline|CogVideoXTransformer3DModel|"in_channels":48||in_channels: 48 with out_channels 16 is no known model
ROWS

# ---- both transformers of a model are checked ----
folder WanPipeline '{"_class_name":"WanTransformer3DModel"}' proj_out.weight
sed -i 's/}$/,"boundary_ratio":0.875}/' m/model_index.json
cp -r m/transformer m/transformer_2
tensors m/transformer_2/diffusion_pytorch_model.safetensors ref_conv.weight
expect 2 'm/transformer_2: ref_conv.weight' vprep --meta no.json --out out.lmdb --model m
expect 1 'm/transformer_2: ref_conv.weight' vtrain --latents set.lmdb --output_dir out --model m \
    --boundary_type low

# ---- the last of several files, by their index ----
folder WanPipeline '{"_class_name":"WanTransformer3DModel"}'
weights=m/transformer/diffusion_pytorch_model
tensors $weights-00001-of-00002.safetensors proj_out.weight
tensors $weights-00002-of-00002.safetensors vace_patch_embedding.weight
echo '{"weight_map":{"proj_out.weight":"diffusion_pytorch_model-00001-of-00002.safetensors",
    "vace_patch_embedding.weight":"diffusion_pytorch_model-00002-of-00002.safetensors"}}' \
    >$weights.safetensors.index.json
both 'vace_patch_embedding.weight: .*(VACE, ' --model m

# ---- pipelines that no family has ----
while IFS='|' read -r pipeline says; do
    folder $pipeline '{"_class_name":"FluxTransformer2DModel"}' proj_out.weight
    both "m/model_index.json: $says" --model m
done <<'ROWS'
QwenImageLayeredPipeline|no family here has a pipeline QwenImageLayeredPipeline, of Qwen-Image-Layered, which reads layers of a picture: `vprep --help families` lists
WanAnimatePipeline|no family here has a pipeline WanAnimatePipeline, of Wan 2.2 Animate, which reads poses and a face:
Kandinsky6SRPipeline|no family here has a pipeline Kandinsky6SRPipeline, of Kandinsky 6: `vprep --help families`
Cosmos2_5_PredictBasePipeline|no family here has a pipeline Cosmos2_5_PredictBasePipeline, of Cosmos-Predict2.5, which reads states of all layers of Qwen2.5-VL:
SanaPipeline|no family here has a pipeline SanaPipeline, of Sana:
StableDiffusionXLPipeline|no family here has a pipeline StableDiffusionXLPipeline, of Stable Diffusion XL, whose network is a U-Net and no transformer:
FluxImg2ImgPipeline|FluxImg2ImgPipeline runs the weights of FluxPipeline: write that class in its place
FluxControlNetPipeline|FluxControlNetPipeline runs the weights of FluxPipeline beside a ControlNet, which vtrain.s --controlnet names:
SomebodysPipeline|no family here has a pipeline SomebodysPipeline: .*known: CogVideoXPipeline
ROWS
folder SomebodysControlPipeline '{"_class_name":"FluxTransformer2DModel"}' proj_out.weight
both "of Control models, .* VideoX-Fun's of CogVideoX and Wan are trained here" --model m

# ---- the first authors' folders, and single files ----
while IFS='|' read -r fields tensor says; do
    rm -rf m && mkdir m
    echo '{"_class_name":"WanModel","dim":8,"ffn_dim":8,"num_heads":1,"num_layers":1,'"$fields}" \
        >m/config.json
    tensors m/diffusion_pytorch_model.safetensors patch_embedding.weight $tensor
    both "^[a-z]*: --model: m: $says" --model m
done <<'ROWS'
"model_type":"i2v","in_dim":36|pose_patch_embedding.weight|.*(Animate)
"model_type":"i2v","in_dim":36|motion_encoder.enc.fc.0.weight|.*(Animate)
"model_type":"s2v"||model_type: no model of the type "s2v" is supported
"model_type":"t2v"|casual_audio_encoder.weights|.*speech (S2V)
"model_type":"t2v"|vace_patch_embedding.weight|.*(VACE, 
"model_type":"i2v","in_dim":48|ref_conv.weight|.*(Fun-Control 1.1 and 2.2)
"model_type":"i2v","in_dim":48,"add_ref_conv":true||add_ref_conv: true: .*(Fun-Control 1.1 and 2.2)
"model_type":"i2v","in_dim":32|control_adapter.conv.weight|.*camera poses (Fun-Control-Camera)
"model_type":"i2v","in_dim":52||in_dim: 52 with out_dim 16: .*(Wan2.2-Fun-Control)
"model_type":"i2v","in_dim":36|music_projection.weight|.*music (Wan-Dancer)
"model_type":"t2v","text_len":256||text_len
ROWS
tensors fill.safetensors double_blocks.0.img_attn.norm.key_norm.scale img_in.new.weight
both 'fill.safetensors: tensor img_in.new.weight: .*of the class Flux' --model fill.safetensors
tensors layered.safetensors transformer_blocks.0.img_mod.1.weight \
    time_text_embed.addition_t_embedding.weight
both 'layered.safetensors: time_text_embed.addition_t.*(Qwen-Image-Layered)' \
    --model layered.safetensors

# ComfyUI's mark of Qwen-Image-Edit-2511 is no tensor of another model
tensors marked.safetensors transformer_blocks.0.img_mod.1.weight __index_timestep_zero__
check marked '1 2' vprep --meta no.json --out out.lmdb --model_paths '["marked.safetensors"]'
output_lacks __index_timestep_zero__

both '^[a-z]*: --transformer: layered.safetensors: time_text_embed' \
    --model_paths '["layered.safetensors"]'

# ---- a model without its transformer, which nothing was downloaded of: one line ----
folder WanPipeline '{"_class_name":"WanTransformer3DModel"}'
check absent 2 vprep --meta no.json --out out.lmdb --model m
stderr_has 'the transformer of --model is not checked (m/transformer: .*): vtrain checks it'
expect 2 '--text_encoder google/t5: .*run .hf download google/t5. or' vprep --meta no.json \
    --out out.lmdb --model m --text_encoder google/t5
rm -r m/transformer
check absent 2 vprep --meta no.json --out out.lmdb --model m
stderr_has 'the transformer of --model is not checked (m: no folder transformer): vtrain checks it'
