#!/usr/bin/env bash
# vprep --preserve: captions with a class in place of the trigger word, and a LoRA that learns the
# one and keeps the base's prediction for the other.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set media 5
sed -i 's/"text": "picture/"text": "ohwx man, picture/' media/metadata.json
sed 's/ohwx man/man/' media/metadata.json >media/class.json
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 "$@"; }
need prep --out plain
need vprep --meta media/class.json "${sampling[@]}" --image_sample_size 64 --out class
expect 0 '11 of 11 prompts encoded' prep --preserve 'ohwx man=man' --out both
vlat list both --json | head -1 >record
holds record \
    '"captions":\[{"text":"ohwx man, picture 0, 96x64","keys":.*"preserved":\[{"text":"man, picture 0, 96x64","keys":\["[0-9a-f]*"\]}\]'
key=$(vlat list class --json | head -1 | grep -o '"captions":[^]]*\]' | grep -o '"[0-9a-f]\{32\}"')
holds record "\"preserved\":[^]]*$key"
expect 0 . vlat verify both

# ---- it can be added to a dataset: texts alone are encoded ----
cp -r plain grown
expect 0 '0 encoded, 5 reused' prep --preserve 'ohwx man=man' --out grown
output_has '5 of 11 prompts encoded'
same_root both grown
expect 0 '0 encoded, 5 reused' prep --preserve 'ohwx man=man' --out grown
output_has '0 of 11 prompts encoded'
expect 0 . prep --out grown
same_root plain grown

# ---- copies have the texts ----
expect 0 . vlat select both 'sample > 1' --out part
expect 0 . vlat verify part
expect 0 . vlat merge both part --out merged
same_root both merged
expect 0 . vlat verify merged
cp -r both kept
expect 0 . vlat gc kept
expect 0 . vlat verify kept
same_root both kept

# ---- a LoRA that is held to the base's prediction for the class ----
toy=(--dit_width 32 --dit_layers 1 --dit_heads 2 --threads 1)
need vtrain --latents plain "${toy[@]}" --output_dir base --max_train_steps 1
train() { vtrain --model base/checkpoint-1 --training_type lora --rank 2 --train_batch_size 1 \
    --learning_rate 1e-2 --threads 1 --max_train_steps 8 "$@"; }
expect 0 "both: the target is the base's prediction for the class" train --latents both \
    --latents both:preserve=0.5 --output_dir held
expect 0 . train --latents plain --latents class:prior=0.5 --output_dir same
cmp -s {held,same}/checkpoint-8/pytorch_lora_weights.safetensors ||
    [ "$(grep -o '"loss[a-z_]*":[0-9.e-]*' held/metrics.jsonl)" \
        = "$(grep -o '"loss[a-z_]*":[0-9.e-]*' same/metrics.jsonl)" ] ||
    wrong "the runs differ"
holds held/metrics.jsonl '"loss_prior":'
expect 0 'warning: --latents has other priors.*preserve=1.*it was .*preserve=0.5' train \
    --latents both --latents both:preserve=1 --output_dir held --max_train_steps 9 \
    --resume_from_checkpoint latest
expect 0 . train --latents both --latents both:preserve=1 --output_dir held --max_train_steps 10 \
    --resume_from_checkpoint latest
output_lacks 'other priors'
expect "1 2" 'plain: sample .*no class stands beside its captions: .*vprep --preserve' train \
    --latents both --latents plain:preserve=1 --output_dir none
absent none

# ---- what is refused ----
refused() { expect 2 "$1" prep --out no "${@:2}"; absent no; }
refused 'preserve "ohwx": expected "TRIGGER=CLASS"' --preserve ohwx
refused 'preserve "=man": expected' --preserve =man
refused 'row 1, clip-0.mp4: the caption "ohwx man, .*" has no "sks"' --preserve sks=man
expect 0 . prep --trigger_word sks --preserve sks=dog --out other
vlat list other --json | head -1 >record
holds record '"preserved":\[{"text":"dog ohwx man, picture 0'
