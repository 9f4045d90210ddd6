#!/usr/bin/env bash
# Datasets and runs on file systems that lack something: locks (Lustre as it is often mounted, NFS
# without its daemon), or shared maps (some of FUSE and 9P).
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

small_set media 5
prep=(vprep --meta media/metadata.json "${sampling[@]}")
train=(vtrain --dit_width 32 --dit_layers 1 --dit_heads 2 --threads 1)
need "${prep[@]}" --out with

# ---- without locks all goes on, and each program warns once ----
none='its file system has no locks (flock: .*): nothing keeps a second process from writing there'
check prepare 0 fault 'flock:1+:ENOSYS' "${prep[@]}" --out set
[ "$(grep -c "$none" "$stderr")" = 1 ] || wrong "not one warning"
stderr_has 'set/state.lmdb: its file system'
same=$(vlat info with --json | grep -o '"root":"[0-9a-f]*"')
[ "$(vlat info set --json | grep -o '"root":"[0-9a-f]*"')" = "$same" ] || wrong "another root"
expect 0 "$none" fault 'flock:1+:ENOLCK' "${prep[@]}" --out set
expect 0 "$none" fault 'flock:1+:ENOSYS' "${train[@]}" --latents set --output_dir run \
    --max_train_steps 2
expect 0 "$none" fault 'flock:1+:ENOSYS' "${train[@]}" --latents set --output_dir run \
    --max_train_steps 3 --resume_from_checkpoint latest
expect 0 "$none" fault 'flock:1+:ENOSYS' vlat gc set
expect 0 "$none" fault 'flock:1+:ENOSYS' vlat merge set with --out merged
expect 0 "$none" fault 'flock:1+:ENOSYS' vlat pull set --out pulled
check verify 0 vlat verify pulled
stderr_lacks 'has no locks'
expect 1 'flock: Input/output error' fault 'flock:1+:EIO' "${prep[@]}" --out other

# a lock that cannot be asked for does not say that vprep has died
mkdir begun && cp set/state.lmdb begun
expect 1 . "${train[@]}" --latents begun --output_dir followed --follow --max_train_steps 2
export VLT_FAULT_LIMIT=3
expect 124 . fault 'flock:1+:ENOSYS' "${train[@]}" --latents begun --output_dir followed --follow \
    --max_train_steps 2
unset VLT_FAULT_LIMIT

# ---- without shared maps datasets are read, and none is written ----
expect 0 . fault 'share@with/:1+:ENODEV' "${train[@]}" --latents with --output_dir mapped \
    --max_train_steps 2
expect 0 . fault 'share@with/:1+:ENODEV' vlat verify with
expect 1 'its file system has no shared maps, by which LMDB writes: make the dataset on another' \
    fault 'share@new/:1+:ENODEV' "${prep[@]}" --out new

# ---- without links a checkpoint lacks the model's other components, and is there ----
export VLT_SOURCE
need make_model m HunyuanVideoPipeline 4
echo '{"_class_name":"HunyuanVideoPipeline","vae":["diffusers","AutoencoderKLHunyuanVideo"]}' \
    >m/model_index.json
need "${prep[@]}" --model m --out coded
full=(vtrain --model m --latents coded --training_type full-finetune --threads 1)
expect 0 '--export_pipeline: the file system of plain has no links' \
    fault 'link:1+:EPERM' "${full[@]}" --output_dir plain --max_train_steps 1
absent plain/checkpoint-1/vae
expect 1 'checkpoint-1.*/vae: Input/output error' fault 'link:1+:EIO' "${full[@]}" \
    --output_dir other_run --max_train_steps 1
expect 0 . "${full[@]}" --output_dir linked --max_train_steps 1
[ -L linked/checkpoint-1/vae ] || wrong "no link"
[ -e plain/checkpoint-1/transformer/config.json ] || wrong "no checkpoint"
