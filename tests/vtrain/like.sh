#!/usr/bin/env bash
# The modules that a LoRA has: by default, with --target_name, and with --like TRAINER those that
# the trainer's own code chooses (docs/switching.md); and the hint where a command has a trainer's
# flags.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 4
sampling+=(--image_sample_size 64)
for m in "wan WanPipeline 4" "i2v WanImageToVideoPipeline wan-i2v" "flux FluxPipeline 16" \
    "qwen QwenImagePipeline 16" "zimage ZImagePipeline 4" "krea2 Krea2Pipeline 16" \
    "chroma ChromaPipeline 16" "sd3 StableDiffusion3Pipeline 4" "ernie ErnieImagePipeline 16" \
    "ideogram4 Ideogram4Pipeline 16" "cosmos2 Cosmos2TextToImagePipeline 4" \
    "flux2 Flux2KleinPipeline 16" "hunyuan HunyuanVideoPipeline 4" "hv15 HunyuanVideo15Pipeline 9" \
    "k5 Kandinsky5T2VPipeline 4" \
    "ltx LTXPipeline 8" \
    "cog CogVideoXFunControlPipeline cogvideox-control"; do
    read -ra words <<<"$m"
    mode=()
    [ "${words[0]}" != i2v ] || mode=(--train_mode i2v)
    need make_model "${words[@]}"
    [ "${words[0]}" != cog ] || continue
    expect '0 3' . vprep --meta media/metadata.json "${sampling[@]}" "${mode[@]}" \
        --model "${words[0]}" --out "${words[0]}.lmdb"
done
sed 's/"file_path": "\([^"]*\)"/&, "control_file_path": "\1"/' media/metadata.json \
    >media/control.json
expect '0 3' . vprep --meta media/control.json "${sampling[@]}" --model cog --train_mode control \
    --out cog.lmdb
plan() { vtrain --latents $1.lmdb --model $1 --output_dir dry --dry_run "${@:2}"; }

# ---- rows of MODEL TRAINER MODULES OF_ALL PARAMETERS NAMES, at rank 2: names in any order ----
attn=attn.to_q,attn.to_k,attn.to_v,attn.to_out.0
both=$attn,attn.add_q_proj,attn.add_k_proj,attn.add_v_proj,attn.to_add_out
attn12=attn1.to_q,attn1.to_k,attn1.to_v,attn1.to_out.0
attn12+=,attn2.to_q,attn2.to_k,attn2.to_v,attn2.to_out.0
kreas=$attn,attn.to_gate,ff.gate,ff.up,ff.down
krea=$kreas,text_fusion.projector,txt_in.linear_1,txt_in.linear_2
dual=$both,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out
hv15=$both,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2
hv15+=,norm1.linear,norm1_context.linear
attn2=attn2.to_q,attn2.to_k,attn2.to_v,attn2.to_out.0
sd3=ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2
sd3+=,norm1.linear,norm1_context.linear
mods=norm1.linear,norm1_context.linear,norm.linear
qwen=$both,img_mlp.net.2,txt_mlp.net.2,img_mod.1,txt_mod.1
ffn=ffn.net.0.proj,ffn.net.2
zattn=attention.to_q,attention.to_k,attention.to_v,attention.to_out.0
eattn=self_attention.to_q,self_attention.to_k,self_attention.to_v,self_attention.to_out.0
klein=attn.to_qkv_mlp_proj,attn.to_out
kleins=$both,$klein,ff.linear_in,ff.linear_out,ff_context.linear_in,ff_context.linear_out
k5=self_attention.to_query,self_attention.to_key,self_attention.to_value,self_attention.out_layer
k5+=,cross_attention.to_query,cross_attention.to_key,cross_attention.to_value
k5+=,cross_attention.out_layer
zall=$zattn,feed_forward.w1,feed_forward.w2,feed_forward.w3
narrow=norm1.linear_1,norm1.linear_2,norm2.linear_1,norm2.linear_2,norm3.linear_1,norm3.linear_2
rows="
k5 none             16 43 3,072 $k5
k5 musubi           32 43 6,016 $k5,feed_forward.in_layer,feed_forward.out_layer
wan none            16 26 2,048 $attn12
wan finetrainers    16 26 2,048 $attn12
wan diffsynth       20 26 2,688 $attn12,$ffn
wan musubi          20 26 2,688 $attn12,$ffn
wan diffusion-pipe  20 26 2,688 $attn12,$ffn
wan ai-toolkit      20 26 2,688 $attn12,$ffn
wan videox-fun      26 26 3,744 -
i2v none             8 20 1,024 $attn12
i2v diffsynth       10 20 1,344 $attn12,$ffn
i2v musubi          12 20 1,600 $attn12,$ffn,attn2.add_k_proj,attn2.add_v_proj
i2v diffusion-pipe  12 20 1,600 $attn12,$ffn,attn2.add_k_proj,attn2.add_v_proj
flux none           22 50 2,816 $both
flux finetrainers   14 50 1,792 $attn
flux diffsynth      40 50 9,088 $dual,$mods
flux musubi         34 50 6,784 $dual
flux diffusion-pipe 40 50 9,088 $dual,$mods
flux ai-toolkit     40 50 9,088 $dual,$mods
flux videox-fun     50 50 11,232 -
qwen none           16 34 2,048 $both
qwen finetrainers    8 34 1,024 $attn
qwen diffsynth      24 34 5,120 $qwen
qwen musubi         28 34 6,400 $qwen,img_mlp.net.0.proj,txt_mlp.net.0.proj
qwen diffusion-pipe 28 34 6,400 $qwen,img_mlp.net.0.proj,txt_mlp.net.0.proj
qwen ai-toolkit     28 34 6,400 $qwen,img_mlp.net.0.proj,txt_mlp.net.0.proj
qwen videox-fun     34 34 7,616 -
zimage none           16 37 1,536 $zattn
zimage diffsynth      28 37 3,648 $zall
zimage musubi         14 37 1,824 $zall
zimage diffusion-pipe 31 37 4,368 $zall,adaLN_modulation.0
zimage ai-toolkit     16 37 2,304 $zall,adaLN_modulation.0
zimage videox-fun     37 37 9,392 -
chroma none           25 54 3,200 $both
chroma diffusion-pipe 39 54 7,872 $dual
chroma ai-toolkit     39 54 7,872 $dual
sd3 none           23 50 1,472 $both
sd3 diffusion-pipe 43 50 4,640 $both,$attn2,$sd3
sd3 ai-toolkit     43 50 4,640 $both,$attn2,$sd3
krea2 none           20 48 2,464 $attn
krea2 diffsynth      48 48 7,210 -
krea2 musubi         48 48 7,210 -
krea2 ai-toolkit     40 48 5,136 $kreas
krea2 diffusion-pipe 43 48 5,578 $krea
ernie none            8 20 1,536 $eattn
ernie diffsynth       8 20 1,536 $eattn
ernie diffusion-pipe 14 20 2,592 $eattn,mlp.gate_proj,mlp.up_proj,mlp.linear_fc2
ernie ai-toolkit     14 20 2,592 $eattn,mlp.gate_proj,mlp.up_proj,mlp.linear_fc2
cosmos2 none           16 38 3,840 $attn12
cosmos2 diffusion-pipe 32 38 8,640 $attn12,ff.net.0.proj,ff.net.2,$narrow
ideogram4 none           14 23 1,888 $zall
ideogram4 musubi         14 23 1,888 $zall
ideogram4 diffsynth      17 23 2,512 $zall,adaln_modulation,final_layer.adaln_modulation
ideogram4 diffusion-pipe 16 23 2,432 $zall,adaln_modulation
ideogram4 ai-toolkit     16 23 2,432 $zall,adaln_modulation
flux2 none            12 37 2,944 $attn,$klein
flux2 diffsynth       28 37 6,784 $kleins
flux2 musubi          28 37 6,784 $kleins
flux2 diffusion-pipe  28 37 6,784 $kleins
flux2 ai-toolkit      28 37 6,784 $kleins
flux2 videox-fun      37 37 9,184 -
hunyuan none           19 61 2,432 $both
hunyuan finetrainers   11 61 1,408 $attn
hunyuan musubi         29 61 5,696 $dual
hunyuan diffusion-pipe 34 61 7,744 $dual,$mods
hunyuan videox-fun     61 61 13,472 -
hv15 none           16 56 2,048 $both
hv15 musubi         28 56 6,400 $hv15
hv15 diffusion-pipe 28 56 6,400 $hv15
ltx none           16 27 4,096 $attn12
ltx finetrainers   16 27 4,096 $attn12
ltx diffusion-pipe 20 27 6,656 $attn12,ff.net.0.proj,ff.net.2
cog none            4 13 1,024 attn1.to_q,attn1.to_k,attn1.to_v,attn1.to_out.0
cog finetrainers    4 13 1,024 attn1.to_q,attn1.to_k,attn1.to_v,attn1.to_out.0
cog videox-fun     13 13 4,960 -
"
sorted() { tr ',' '\n' <<<"$1" | sort | paste -sd,; }
while read -r model trainer n all values names; do
    [ -n "$model" ] || continue
    need plan $model --like $trainer --rank 2 --network_alpha 2
    stdout_has \
        "^LoRA: rank 2, alpha 2, $n of the model's $all linears (.* %)[a-z0-9 ]*, $values parameters: "
    [ "$names" = - ] && continue
    listed=$(sed -n 's/^LoRA: .* parameters: //p' "$stdout")
    [ "$(sorted "$listed")" = "$(sorted "$names")" ] ||
        wrong "$model like $trainer: $listed, expected $names"
done <<<"$rows"

# ---- the list can be typed; an own list comes before a trainer's; a full finetune has none ----
need plan flux --like musubi --rank 2
stdout_has '^LoRA: rank 2, alpha 1, '
need plan flux --rank 2 --target_name "$(sed -n 's/^LoRA: .* parameters: //p' "$stdout")"
# proj_out of the model too
stdout_has "^LoRA: rank 2, alpha 2, 35 of the model's 50 linears (70 %)"
need plan wan --like musubi --target_name to_q
stdout_has \
    "^LoRA: rank 4, alpha 1, 4 of the model's 26 linears (15 %), .* parameters: attn1.to_q,attn2.to_q$"
need plan wan --target_name 'patch_embedding|.*to_k'
stdout_has "4 of the model's 26 linears (15 %) and 1 of 1 convolutions, "
need plan wan --rank 2 --target_name 'blocks\.1\..*to_[qk]'
stdout_has \
    "^LoRA: rank 2, alpha 2, 4 of the model's 26 linears (15 %) in 1 of 2 blocks, 512 parameters: attn1.to_q,attn1.to_k,attn2"
need plan wan --target_name all-linear
stdout_has 'parameters: .*attn2.to_out.0,ffn.net.0.proj,ffn.net.2$'
need plan flux --target_name all-linear
stdout_has ' and [0-9]* more names$'
need plan wan --training_type full-finetune --like musubi
output_lacks '^LoRA:'
output_lacks target_name

# ---- the other values of a family ----
need plan flux --like videox-fun
stdout_has 'guidance: an input, 3.5 in training'
need plan wan --like videox-fun
stdout_has 'shift 5, a table of 1000 levels, errors above 50 left out'
need plan flux --like ai-toolkit
stdout_has '^LoRA: rank 4, alpha 4, '
stdout_has 'weighting logit_normal (mean 0, deviation 1), shift 1$'
need plan ernie --like diffsynth
stdout_has 'weighting bell.*shift 3'
need plan qwen --like videox-fun
stdout_has 'a table of 1000 levels, stretched to 0.02, errors'

# ---- the table of --like: what differs from our defaults for this model ----
need plan wan --like diffsynth
stderr_has 'lr_step_rules  *none  *0.333333:5,1$'
stderr_has 'weighting_scheme  *logit_normal  *bell (a flow.s)$'
stderr_has 'flow_shift  *3  *5 (wan2.1)$'
stderr_lacks '--like diffsynth: \(learning_rate\|caption_dropout_p\|adam_beta1\|network_alpha\)'
need plan wan --like diffsynth --training_type full-finetune
stderr_has 'learning_rate  *1e-05  *1e-4$'
stderr_has 'caption_dropout_p  *0.1  *0$'
stderr_lacks '--like diffsynth: \(rank\|target_name\)'
need plan cog --like videox-fun
stderr_lacks '--like videox-fun: \(weighting_scheme\|flow_levels\|loss_cutoff\)'

# ---- the hint: what differs from what the run does, each once ----
hint='is a flag of diffsynth, whose defaults differ: '
diffsynth=(--lora_base_model dit --lora_target_modules q,k,v,o,ffn.0,ffn.2 --lora_rank 32)
need plan wan "${diffsynth[@]}" --learning_rate 1e-4
stderr_has \
    "${hint}lr_scheduler piecewise_constant (here constant), lr_step_rules 0.333333:5,1 (here none), adam_beta2 0.999 (here 0.95), adam_weight_decay 0.01 (here 0.0001), max_grad_norm 0 (here 1), weighting_scheme bell (here logit_normal), flow_levels 1000 (here 0), flow_shift 5 (here 3); --like diffsynth uses them$"
need plan wan "${diffsynth[@]}" --weight_decay 0.01 --shift 5 --adam_beta2 0.999 --max_grad_norm 0 \
    --lr_scheduler piecewise_constant --lr_step_rules 0.333333:5,1 --weighting_scheme bell \
    --flow_levels 1000
stderr_lacks 'whose defaults differ'                     # 1e-4 is the family's rate too
need plan wan "${diffsynth[@]}" --like diffsynth
stderr_lacks 'whose defaults differ'
need plan wan --sdpa --timestep_sampling shift --discrete_flow_shift 3 --learning_rate 2e-4
stderr_has \
    'is a flag of musubi.*rank 4 (here 64), network_alpha 1 (here the rank), target_name blocks.*ffn.* (here blocks.*); --like'
stderr_lacks \
    'whose defaults differ.*\(weighting_scheme\|flow_levels\|flow_shift\|learning_rate\|lr_warmup\)'
need plan cog --train_data_meta x.json
stderr_has 'is a flag of videox-fun.*rank 128 (here 64), network_alpha 64 (here the rank)'
stderr_lacks \
    'whose defaults differ.*\(weighting_scheme\|flow_levels\|loss_cutoff\|guidance\|logit\)'
need plan wan --sdpa --training_type full-finetune
stderr_lacks 'whose defaults differ.*\(rank\|network_alpha\|target_name\)'
need plan wan --network_module networks.lora_wan
stderr_has 'network_module is a flag of musubi.*--like musubi'
stderr_lacks "the family's"

need plan flux --flow_weighting_scheme none
stderr_has 'is a flag of finetrainers'
stderr_lacks 'whose defaults differ.*\(rank\|network_alpha\)'          # both 64

# ---- a run that continues does not repeat it ----
run() { vtrain --latents wan.lmdb --model wan --output_dir run --sdpa --rank 2 --threads 1 "$@"; }
need run --max_train_steps 1
stderr_has 'whose defaults differ'
stderr_has 'LoRA: rank 2, alpha 2, 16 of'
holds run/report.html "<th>Adapter</th><td>LoRA: rank 2, alpha 2, 16 of the model"
need run --max_train_steps 2 --resume_from_checkpoint latest
stderr_lacks 'whose defaults differ'

# ---- Wan 2.2's A14B ----
cp -r wan a14b && cp -r a14b/transformer a14b/transformer_2
sed 's/^{/{"boundary_ratio": 0.875, /' wan/model_index.json >a14b/model_index.json
divided() { vtrain --latents wan.lmdb --model a14b --boundary_type high --output_dir dry \
    --dry_run "$@"; }
need divided --like videox-fun
stdout_has 'shift 12, '
stderr_lacks 'flow_shift .* 5 '
need divided --like diffsynth
stdout_has 'shift 5, '
