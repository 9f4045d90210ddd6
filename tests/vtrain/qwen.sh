#!/usr/bin/env bash
# Qwen-Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set QwenImagePipeline 16 1 1

# ---- the schedule is the folder's; those of other trainers ----
expect 0 'flow matching, weighting logit_normal.*by tokens (exponential, 0.5 at 256, 0.9 at 8192)' \
    train dry "${lora[@]}" --dry_run
expect 0 'weighting uniform.*a table of 1000 levels, stretched to 0.02' train dry "${lora[@]}" \
    --dry_run --weighting_scheme none --flow_levels 1000 --flow_terminal 0.02
expect 0 'weighting bell, shift 2.22554, a table of 1000 levels, stretched to 0.02' train dry \
    "${lora[@]}" --dry_run --like diffsynth
expect 0 'weighting bell, shift 2.2255, a table of 1000 levels' train dry "${lora[@]}" --dry_run \
    --like diffsynth --flow_shift 2.2255
expect 0 'logit_normal.*shift 2.2$' train dry "${lora[@]}" --dry_run --timestep_sampling shift \
    --discrete_flow_shift 2.2
absent dry

# ---- the targets of other trainers, as their users type them ----
modules=to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out
modules+=,img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1
expect 0 . train diffsynth --lora_base_model dit --lora_target_modules "$modules" --lora_rank 2 \
    --max_train_steps 1
for module in ${modules//,/ }; do
    grep -aq "transformer_blocks.0.[a-z.]*$module.lora_A" \
        diffsynth/checkpoint-1/pytorch_lora_weights.safetensors || wrong "no LoRA of $module"
done
spare=img_mlp.0,img_mlp.2,txt_mlp.0,txt_mlp.2
expect 0 "warning: --target_name: these entries match no .*: ${spare//,/, }" train videox-fun \
    "${lora[@]}" --dry_run --target_name="to_q,to_k,to_v,img_mod.1,txt_mod.1,$spare"
output_has "diffusers' names are img_mlp.net.0.proj, img_mlp.net.2, txt_mlp.net.0.proj"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 6

# ---- samples: guided at 4 by the negative prompt, unless the prompt has a number; pictures ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3
guided_at 1 4 1
grep -aq '"sampler":"euler"' shown/validation/step-1/000.safetensors || wrong "another sampler"
decoded 1
