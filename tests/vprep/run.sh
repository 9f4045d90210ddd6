#!/usr/bin/env bash
# vprep for users: flags and exit status, dry run, skipped inputs, repeated runs.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
. "$lib/media.sh"


# ---- flags ----
check help 0 vprep --help && stdout_has --video_sample_size
check version 0 vprep --version
check "no arguments" 2 vprep && stderr_has meta
check "unknown flag" 2 vprep --video_sample_sise 3 && stderr_has video_sample_size
check "out of range" 2 vprep --meta x --out y --thumbnails -1 && stderr_has thumbnails
check "contradiction" 2 vprep --meta x --out "$dir/y" --append --overwrite && stderr_has contradict
check "other program's flag" 1 vprep --meta "$dir/none.json" --out "$dir/y" \
    --learning_rate 1e-4 && stderr_has vtrain
check "launcher" 2 vprep --meta x --out "$dir/y" --main_process_ip a && stderr_has mpirun
check "no hub ids" 2 vprep --meta x --out "$dir/y" --model THUDM/CogVideoX-2b &&
    stderr_has 'hf download THUDM/CogVideoX-2b --include'
absent "$dir/y"

# ---- a dry run, a run, the same run again ----
small_set "$dir/media" 7
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}")
check "dry run" 0 vprep "${meta[@]}" --out "$dir/a" --dry_run && stdout_has "7 samples"
[ "$(wc -l <"$dir/a/plan.jsonl")" -eq 7 ] || wrong "plan.jsonl does not have one line per sample"
absent "$dir/a/manifest.json"
check run 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "7 encoded"
# In one file, as of a batch job, the plan stands before the work.
vprep "${meta[@]}" --out "$dir/one-file" >"$dir/file" 2>&1 || wrong "one file: failed"
awk '/^7 samples/ { plan = NR } /^vprep: text: / { work = NR }
    END { exit !(plan && plan < work) }' "$dir/file" ||
    wrong "the plan is not before the work: $(cat "$dir/file")"

# ---- a stop skips nothing, and the same command goes on ----
check stopped 143 fault "open@media/clip-4.mp4:4:term" vprep "${meta[@]}" --out "$dir/stopped" \
    --workers 1 --log_format json
stderr_has '"extra":"[0-9] encoded, 0 reused, 0 skipped"'
stderr_lacks ', [1-9] skipped'
check "goes on" 0 vprep "${meta[@]}" --out "$dir/stopped" && stderr_has ", 0 skipped"
for signal in 138:USR1 140:USR2 131:QUIT; do
    expect "${signal%:*}" "^vprep: SIG${signal#*:}: stopped; the same command continues from here" \
        fault "open@media/clip-1.mp4:1:run" env VLT_FAULT_RUN="kill -${signal#*:} \$PPID" vprep \
        "${meta[@]}" --out "$dir/${signal#*:}" --workers 1
    expect 0 ', 0 skipped' vprep "${meta[@]}" --out "$dir/${signal#*:}"
done

# ---- a wrong list of validation prompts ends the run before media are opened ----
echo '[{"text": "a"}, {"height": 64}]' >"$dir/prompts.json"
check "wrong prompts" 1 vprep "${meta[@]}" --out "$dir/none" \
    --validation_prompts "$dir/prompts.json"
stderr_has 'prompts.json: row 2: no prompt' && stderr_lacks probing && absent "$dir/none"
cp "$dir/a/plan.jsonl" "$dir/plan-a"
check verify 0 vlat verify "$dir/a"
check again 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "0 encoded, 7 reused"
cmp "$dir/a/plan.jsonl" "$dir/plan-a"
check "one worker" 0 vprep "${meta[@]}" --out "$dir/b" --workers 1
cmp "$dir/a/plan.jsonl" "$dir/b/plan.jsonl"
same_values "$dir/a" "$dir/b"

# ---- other flags are refused without --overwrite, and the dataset is unchanged ----
check "other flags" 1 vprep --meta "$dir/media/metadata.json" --video_sample_size 48 --out "$dir/a"
stderr_has overwrite
check "still whole" 0 vlat verify "$dir/a"

# ---- a replayed plan, and one edited by hand ----
check replay 0 vprep "${meta[@]}" --out "$dir/c" --plan "$dir/plan-a"
same_values "$dir/a" "$dir/c"
sed 's/"crop":\[[0-9]*,[0-9]*\]/"crop":[999,0]/' "$dir/plan-a" >"$dir/plan-bad"
check "impossible plan" 1 vprep "${meta[@]}" --out "$dir/d" --plan "$dir/plan-bad" &&
    stderr_has crop

# ---- unusable rows are skipped with row and reason, exit 3; with --on_error stop, exit 1 ----
mkdir "$dir/odd"
cp "$dir/media/clip-0.mp4" "$dir/odd/"
head -c 300 "$dir/media/clip-1.mp4" >"$dir/odd/cut.mp4"
mkfifo "$dir/odd/pipe.mp4"
cat >"$dir/odd/list.csv" <<'CSV'
file_path,text,type
clip-0.mp4,"one, with a comma",video
missing.mp4,two,video
cut.mp4,three,video
,four,video
pipe.mp4,five,video
CSV
check "odd rows" 3 timeout 300 vprep --meta "$dir/odd/list.csv" "${sampling[@]}" --out "$dir/e"
for row in 2 3 4 5; do
    grep -q "\"row\":$row," "$dir/e/errors.jsonl" || wrong "row $row is not in errors.jsonl"
done
[ "$(wc -l <"$dir/e/errors.jsonl")" -eq 4 ]
check "stop at an error" 1 timeout 300 vprep --meta "$dir/odd/list.csv" "${sampling[@]}" \
    --out "$dir/f" --on_error stop
check "no such list" 1 vprep --meta "$dir/none.json" --out "$dir/g" && stderr_has none.json

# ---- the metadata declares the samples: a removed row is dropped, a new row is numbered last ----
python_free_edit() { sed -e '/clip-2.mp4/d' "$1"; }
python_free_edit "$dir/media/metadata.json" | sed 'N;P;D' | tr -d '\n' | sed 's/,,/,/g' \
    >"$dir/media/less.json"
check "a row less" 0 vprep --meta "$dir/media/less.json" "${sampling[@]}" --out "$dir/a" &&
    stderr_has "0 encoded, 6 reused"
check "verify after" 0 vlat verify "$dir/a"
[ "$(vlat list "$dir/a" --json | wc -l)" -eq 6 ]

# ---- traces, variants, a config file, JSON logs ----
check trace 0 vprep "${meta[@]}" --out "$dir/h" --trace_dir "$dir/trace" --variants 2 \
    --random_hw_adapt
[ "$(ls "$dir/trace" | wc -l)" -eq 14 ] || wrong "not one trace per sample and variant"
check config 0 vprep --config "$dir/b/vprep.yaml" --out "$dir/i"
same_values "$dir/b" "$dir/i"
check "json log" 0 vprep "${meta[@]}" --out "$dir/j" --log_format json
grep -v '^{.*}$' "$stderr" && wrong "a line is not a JSON object"

# ---- a full disk: a clear error, and the same command continues afterwards ----
if ! (ulimit -f 16 && vprep "${meta[@]}" --out "$dir/k" >"$stdout" 2>"$stderr"); then
    stderr_has "large\|space"
    check "after the full disk" 0 vprep "${meta[@]}" --out "$dir/k"
    same_values "$dir/b" "$dir/k"
else
    wrong "a file limit of 16 blocks had no effect"
fi
