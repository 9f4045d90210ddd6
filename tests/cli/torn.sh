#!/usr/bin/env bash
# Files are cut short while programs have them mapped: each program names the file and the byte,
# ends with status 1, and keeps no result of the unreadable part. The file is cut at a counted call
# of the program, so that every run meets the cut at the same place.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

# torn NAME STATUS FILE SIZE CALL COMMAND...: FILE is cut to SIZE bytes at CALL, and COMMAND reports
# the cut.
torn()
{
    local name=$1 want=$2 file=$3 size=$4 call=$5
    [ "$(stat -c %s "$file")" -gt "$size" ] || wrong "$name: $file is too small to be cut"
    shift 5
    export VLT_FAULT_RUN="truncate -s $size $PWD/$file"
    check "$name" "$want" fault "$call:run" "$@"
    [ "$(stat -c %s "$file")" -eq "$size" ] || wrong "$name: the file was not cut at $call"
    grep -q "$(basename "$file"): byte [0-9]* could not be read: the file was cut short" "$log" ||
        grep -q "$(dirname "$file"): its weights changed while this ran" "$stderr" ||
        wrong "$name: no message about $file"
}
no_temporaries() { [ -z "$(find "$@" -name '*.tmp*')" ] ||
    wrong "temporary files were left: $(find "$@" -name '*.tmp*')"; }

small_set media 12
list=(--meta media/metadata.json "${sampling[@]}")
check "vprep" 0 vprep "${list[@]}" --out made
shard=data/shard-00000.lmdb
cut=16384                                    # inside the shard's trees and values

# ---- vlat verify reports unreadable values as damage, and verifies the others ----
fresh made data
torn verify 1 $shard $cut "close@shard-00000.lmdb:2" vlat verify data
grep -q '^shard-00000.lmdb: latent [0-9a-f]* .*byte' "$stdout" ||
    [ "$(grep -c byte "$stdout")" -gt 1 ] ||
    wrong "verify: no unreadable value was reported"
grep -q ' findings' "$stdout" || wrong "verify: it stopped before its end"

# ---- readers ----
for verb in list report info; do
    fresh made data
    torn "$verb" 1 $shard 8192 "close@shard-00000.lmdb:1" vlat $verb data
done
absent data/report.html

# ---- writers finish no output ----
fresh made other
for f in safetensors webdataset; do
    fresh made data
    torn "export $f" 1 $shard $cut "mkdir@$f.part:1" vlat export data --to $f --out $f
    absent $f $f.part
done
for verb in merge select; do
    fresh made data
    words=(data other)
    [ $verb = merge ] || words=(data 'sample>=1')
    torn "$verb" 1 $shard $cut "mkdir@out:1" vlat $verb "${words[@]}" --out out
    ! grep -qs '"complete": *true' out/manifest.json ||
        wrong "$verb: an incomplete output is marked complete"
    rm -rf out
done

# ---- repair drops no value that becomes unreadable during the run; the next run reports damage
# ----
fresh made data
dd if=/dev/zero of=$shard bs=1 seek=$((cut + 100)) count=8 conv=notrunc 2>/dev/null
size=$(stat -c %s $shard)
torn "verify --repair" 1 $shard $((size / 4096 / 2 * 4096)) "mkdir@data.repair:1" vlat verify data \
    --repair
absent data.damaged
check "verify --repair again" 0 vlat verify data --repair
grep -q ' samples saved, [1-9][0-9]* to be encoded again' "$stdout" || wrong "verify --repair"
check "verify --repair" 0 vlat verify data

# ---- vtrain: the dataset, and frozen weights that are read from their mapped file ----
train=(vtrain --max_train_steps 12 --checkpointing_steps 12 --learning_rate 1e-3 \
    --train_batch_size 1
    --seed 1)
last_is() { # last_is RUN N: the run's last checkpoint is that of step N
    local last
    last=$(find "$1" -maxdepth 1 -name 'checkpoint-*' | sed 's/.*-//' | sort -n | tail -1)
    [ "$last" = "$2" ] || wrong "$1: not checkpoint $2: $(ls "$1")"
}
check "vtrain full" 0 "${train[@]}" --dit_layers 1 --latents made --output_dir full \
    --training_type full-finetune
mkdir model
base=model/transformer/diffusion_pytorch_model.safetensors
cp -r full/checkpoint-12/transformer model
cp -r model model.whole
lora=("${train[@]}" --latents data --model model --rank 4)
fresh made data
check "vtrain lora" 0 "${lora[@]}" --output_dir undisturbed
same_weights() {
    cmp -s "$1/checkpoint-12/pytorch_lora_weights.safetensors" \
        "undisturbed/checkpoint-12/pytorch_lora_weights.safetensors" || wrong "$1: the LoRA differs"
}
# continues RUN STEP: the run's last checkpoint is that of STEP, and with whole files the run
# continues to the undisturbed result.
continues() {
    last_is "$1" "$2"
    no_temporaries "$1"
    fresh made data
    fresh model.whole model
    check "$1: continued" 0 "${lora[@]}" --output_dir "$1" --resume_from_checkpoint latest
    same_weights "$1"
}
fresh made data
torn "vtrain, data" 1 $shard $cut "write@metrics.jsonl:2" "${lora[@]}" --output_dir run
[ -e run/checkpoint-* ] || wrong "vtrain, data: no checkpoint"
continues run "$(ls run | sed -n 's/^checkpoint-//p')"
for i in 1 3 6; do
    fresh model.whole model
    torn "vtrain, weights at step $i" 1 $base 65536 "write@metrics.jsonl:$i" "${lora[@]}" \
        --output_dir run-$i
    stderr_has "step $i is saved"
    continues run-$i $i
done
torn "vtrain, weights at the start" 1 $base 65536 "close@$base:1" "${lora[@]}" --output_dir run-0
[ -z "$(find run-0 -name 'checkpoint*')" ] ||
    wrong "vtrain, weights at the start: a checkpoint exists"

# ---- ranks: if one rank cannot read a file, all ranks end ----
if have_ranks; then
    for parallel in ddp fsdp; do
        fresh model.whole model
        torn "vtrain, 2 ranks, $parallel" 1 $base 65536 "write@metrics.jsonl:3" \
            "$lib/ranks.sh" 2 "${lora[@]}" --parallel $parallel --output_dir ranks-$parallel
        stderr_has 'step 3 is saved'
        last_is ranks-$parallel 3
    done
    fresh model.whole model
fi

# ---- vprep: a reused dataset, a continued dataset, and encoders' weights; vdecode ----
fresh made data
torn "vprep --reuse" 1 $shard $cut "close@data/shard-00000.lmdb:1" vprep "${list[@]}" --out new \
    --reuse data
not_done new
vprep "${list[@]}" --out new >"$stdout" 2>"$stderr" && same_values new made ||
    wrong "vprep after --reuse: the values differ"
sed 's/picture 2/another picture/' media/metadata.json >media/other.json
for part in "shard-00000 close@data/shard-00000.lmdb" "state open@plan.jsonl.tmp"; do
    call=${part#* } part=${part% *}
    fresh made data
    torn "vprep, $part" 1 data/$part.lmdb 8192 "$call:1" vprep \
        --meta media/other.json "${sampling[@]}" \
        --out data
    [ $part != state ] || not_done data
done
fresh made data
rm -rf frames
torn "vdecode" 1 $shard $cut "close@shard-00000.lmdb:1" vdecode data --out frames
no_temporaries .
if [ -x "$VLT_BUILD/tests/make_model" ]; then
    check "make_model" 0 make_model cog.whole CogVideoXPipeline 32
    model=("${list[@]}" --image_sample_size 64 --model cog)
    fresh cog.whole cog
    check "vprep --model" 0 vprep "${model[@]}" --out cog.lmdb
    for part in vae text_encoder; do
        weights=cog/$part/diffusion_pytorch_model.safetensors
        for i in 1 3; do                 # the first and the last time that the file is opened
            call="close@$weights:$i"
            fresh cog.whole cog
            rm -rf out
            torn "vprep, $part at $call" 1 "$weights" 45056 "$call" vprep "${model[@]}" --out out
            not_done out
        done
    done
    fresh cog.whole cog
    vprep "${model[@]}" --out out >"$stdout" 2>"$stderr" && same_values out cog.lmdb ||
        wrong "vprep --model with whole files: the values differ"
    torn "vdecode, weights" 1 cog/vae/diffusion_pytorch_model.safetensors 45056 \
        "open@shard-00000.lmdb:1" \
        vdecode cog.lmdb --model cog --out pictures
    [ -z "$(find pictures -type f 2>/dev/null)" ] ||
        wrong "vdecode, weights: $(find pictures -type f)"
fi

# ---- imports ----
for f in safetensors diffsynth; do
    source=made
    if [ $f = diffsynth ]; then
        check "exchange_dataset" 0 exchange_dataset make wan.lmdb wan2.1 mode f32 bf16
        source=wan.lmdb
    fi
    rm -rf cache.whole
    check "export $f" 0 vlat export "$source" --to $f --out cache.whole
    fresh cache.whole cache
    file=$(find cache -name '*.safetensors' -o -name '*.pth' | sort | tail -1)
    for size in 0 $(($(stat -c %s "$file") - 5)); do
        fresh cache.whole cache
        torn "import $f, $size" 1 "$file" "$size" "close@$(basename "$file"):1" vlat import cache \
            --from $f \
            --out imported
        not_done imported
        rm -rf imported
    done
done
