#!/usr/bin/env bash
# Files that are cut short while programs have them mapped: each program says which file and byte, ends
# with status 1, and leaves nothing that was made of what it could not read. The cuts are made by the
# program's own calls, so that they come at the same place each time.
set -euo pipefail
. "$(dirname "$0")/media.sh"
. "$(dirname "$0")/lib/fault.sh"
vprep=$VLT_BUILD/vprep vlat=$VLT_BUILD/vlat vtrain=$VLT_BUILD/vtrain vdecode=$VLT_BUILD/vdecode
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
bad=0
bad() { echo "$*"; cat stdout stderr 2>/dev/null; bad=1; }

# torn NAME STATUS FILE SIZE CALL COMMAND...: FILE is cut to SIZE bytes at CALL, and the command says so
torn()
{
    local name=$1 want=$2 file=$3 size=$4 call=$5 got=0
    [ -e "$file" ] || bad "$name: no $file"
    shift 5
    VLT_FAULT_RUN="truncate -s $size $PWD/$file" fault "$call:run" "$@" >stdout 2>stderr || got=$?
    [ "$got" -eq "$want" ] || bad "$name: status $got, not $want"
    [ "$name" = "verify --repair" ] || [ "$(stat -c %s "$file")" -eq "$size" ] || bad "$name: the file was not cut at $call"
    grep -q "$(basename "$file"): byte [0-9]* could not be read: the file was cut short" stdout stderr ||
        bad "$name: no word of $file"
}
fresh() { rm -rf "$2" && cp -r "$1" "$2"; }
whole() { "$vlat" verify "$1" >stdout 2>stderr || bad "$2: damaged"; }
gone() { for f; do [ ! -e "$f" ] || bad "$f was left"; done; }
no_temporaries() { [ -z "$(find "$@" -name '*.tmp*')" ] || bad "left: $(find "$@" -name '*.tmp*')"; }

small_set media 12
list=(--meta media/metadata.json "${sampling[@]}")
"$vprep" "${list[@]}" --out made >stdout 2>stderr || bad "vprep"
shard=data/shard-00000.lmdb
cut=16384                                    # inside the shard's trees and values

# ---- vlat verify: what cannot be read is damage of its own, and the rest is looked at ----
fresh made data
torn verify 1 $shard $cut "close@shard-00000.lmdb:2" "$vlat" verify data
grep -q '^shard-00000.lmdb: latent [0-9a-f]* .*byte' stdout || [ "$(grep -c byte stdout)" -gt 1 ] ||
    bad "verify: one finding"
grep -q ' findings$' stdout || bad "verify: it did not come to its end"

# ---- readers ----
for verb in list report info; do
    fresh made data
    torn "$verb" 1 $shard 8192 "close@shard-00000.lmdb:1" "$vlat" $verb data
done
gone data/report.html

# ---- writers: nothing passes for whole, and a run on whole files gives what it always gave ----
fresh made other
for f in safetensors webdataset; do
    fresh made data
    torn "export $f" 1 $shard $cut "mkdir@$f.part:1" "$vlat" export data --to $f --out $f
    gone $f $f.part
done
for verb in "merge data other" "select data 'sample>=1'"; do
    fresh made data
    # shellcheck disable=SC2086
    torn "$verb" 1 $shard $cut "mkdir@out:1" eval "\"$vlat\"" $verb --out out
    ! grep -qs '"complete": *true' out/manifest.json || bad "$verb: half made, and complete"
    rm -rf out
done

# ---- repair keeps what can be read and lists the rest, though it becomes unreadable meanwhile ----
fresh made data
dd if=/dev/zero of=$shard bs=1 seek=$((cut + 100)) count=8 conv=notrunc 2>/dev/null
size=$(stat -c %s $shard)
torn "verify --repair" 0 $shard $((size / 4096 / 2 * 4096)) "mkdir@data.repair:1" "$vlat" verify data --repair
grep -q ' samples saved, [1-9][0-9]* to be encoded again' stdout || bad "verify --repair"
whole data "verify --repair"

# ---- vtrain: the dataset, and weights that stay in their file ----
train=("$vtrain" --max_train_steps 12 --checkpointing_steps 12 --learning_rate 1e-3 --train_batch_size 1
    --seed 1)
last_is() { # last_is RUN N: the run's last checkpoint
    [ "$(find "$1" -maxdepth 1 -name 'checkpoint-*' | sed 's/.*-//' | sort -n | tail -1)" = "$2" ] ||
        bad "$1: not checkpoint $2: $(ls "$1")"
}
"${train[@]}" --dit_layers 1 --latents made --output_dir full --training_type full-finetune >stdout 2>stderr || bad "vtrain full"
mkdir model
base=model/transformer/diffusion_pytorch_model.safetensors
cp -r full/checkpoint-12/transformer model
cp -r model model.whole
lora=("${train[@]}" --latents data --model model --rank 4)
fresh made data
"${lora[@]}" --output_dir undisturbed >stdout 2>stderr || bad "vtrain lora"
same_weights() {
    cmp -s "$1/checkpoint-12/pytorch_lora_weights.safetensors" \
        "undisturbed/checkpoint-12/pytorch_lora_weights.safetensors" || bad "$1: another result"
}
goes_on() { # goes_on RUN STEP: its last checkpoint is of that step, and with whole files it ends as it should
    last_is "$1" "$2"
    no_temporaries "$1"
    fresh made data
    fresh model.whole model
    "${lora[@]}" --output_dir "$1" --resume_from_checkpoint latest >stdout 2>stderr || bad "$1: does not go on"
    same_weights "$1"
}
fresh made data
torn "vtrain, data" 1 $shard $cut "write@metrics.jsonl:2" "${lora[@]}" --output_dir run
[ -e run/checkpoint-* ] || bad "vtrain, data: no checkpoint"
goes_on run "$(ls run | sed -n 's/^checkpoint-//p')"
for i in 1 3 6; do
    fresh model.whole model
    torn "vtrain, weights at step $i" 1 $base 65536 "write@metrics.jsonl:$i" "${lora[@]}" --output_dir run-$i
    grep -q "step $i is saved" stderr || bad "vtrain, weights: step $i is not saved"
    goes_on run-$i $i
done
torn "vtrain, weights at the start" 1 $base 65536 "close@$base:1" "${lora[@]}" --output_dir run-0
[ -z "$(find run-0 -name 'checkpoint*')" ] || bad "vtrain, weights at the start: a checkpoint"
exit $bad
