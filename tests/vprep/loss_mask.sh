#!/usr/bin/env bash
# The column loss_mask_path of the list changes the losses of training steps.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"


small_set "$dir/media" 4
ffmpeg -v error -f lavfi -i "color=white:s=48x32,drawbox=w=24:h=32:c=black:t=fill" -frames:v 1 \
    "$dir/media/half.png"
ffmpeg -v error -f lavfi -i "color=white:s=50x30" -frames:v 1 "$dir/media/other.png"
with() { # with ROW MASK: writes the list with a mask in this row
    sed "$(($1 + 1))s/\"text\"/\"loss_mask_path\": \"$2\", \"text\"/" "$dir/media/metadata.json" |
        tee "$dir/media/now.json" >/dev/null
}
grep -c '"file_path"' "$dir/media/metadata.json" | grep -qx 4
tr -d '\n' <"$dir/media/metadata.json" | sed 's/},/},\n/g; s/\[/[\n/' >"$dir/media/lines" &&
    mv "$dir/media/lines" "$dir/media/metadata.json"
args=("${sampling[@]}" --out "$dir/a")

check plain 0 vprep --meta "$dir/media/metadata.json" "${args[@]}" && stderr_has "4 encoded"
cp -r "$dir/a" "$dir/plain"
with 1 half.png
check "dry run" 0 vprep --meta "$dir/media/now.json" "${args[@]}" --dry_run
stdout_has "reuse 4, encode 0, drop 0" && stdout_has "conditions: reuse 0, encode 1"
check masked 0 vprep --meta "$dir/media/now.json" "${args[@]}" &&
    stderr_has "0 encoded, 4 reused" &&
    stderr_has " 1 conditions encoded"
check verify 0 vlat verify "$dir/a"
check show 0 vlat show "$dir/a" 0 && stdout_has '"loss_mask"'
stdout_has 'thumbnail [0-9]*x[0-9]*'
check again 0 vprep --meta "$dir/media/now.json" "${args[@]}" && stderr_has "0 encoded, 4 reused"

# ---- the mask changes the loss of batches with this sample, and no other loss ----
train=(--dit_width 32 --dit_layers 1 --dit_heads 2 --train_batch_size 1 --max_train_steps 4 \
    --mixed_precision no --report_to none --quiet)
check "train plain" 0 vtrain --latents "$dir/plain" --output_dir "$dir/p" "${train[@]}"
check "train masked" 0 vtrain --latents "$dir/a" --output_dir "$dir/m" "${train[@]}"
loss() { grep -o '"loss":[0-9.e-]*' "$1/metrics.jsonl" | head -4; }
first=$(grep -n '"samples":\["000000000000/000"\]' "$dir/m/metrics.jsonl" | head -1 | cut -d: -f1)
differ=$(diff <(loss "$dir/p") <(loss "$dir/m") | grep -m1 -o '^[0-9]*' || true)
[ "$differ" = "$first" ] || wrong "losses differ from step ${differ:-none} on, expected $first"

# ---- the error of a wrong mask names its row, and the other rows are encoded ----
with 2 other.png
check "other shape" 3 vprep --meta "$dir/media/now.json" "${args[@]}"
holds "$dir/a/errors.jsonl" '"row":2.*loss_mask_path other.png: 50x30, but the source is 64x96'
with 2 gone.png
check gone 3 vprep --meta "$dir/media/now.json" "${args[@]}"
holds "$dir/a/errors.jsonl" '"row":2.*"stage":"probe".*gone.png: No such file'
check "verify at the end" 0 vlat verify "$dir/a"
