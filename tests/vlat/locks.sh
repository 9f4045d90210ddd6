#!/usr/bin/env bash
# Two writers of one folder: the second is refused with the name of the first, even if the lock's
# file is replaced meanwhile, and a writer that read the folder before it had the lock reads it
# again. Each race happens at a counted call.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
command -v flock >/dev/null || { echo "skipped: no flock program"; exit 77; }
# racing COMMAND RULE OTHER...: runs OTHER, and COMMAND right before the call of OTHER in RULE.
racing() { export VLT_FAULT_RUN=$1; rules=$2; shift 2; fault "$rules:run" "$@"; }

small_set media 7
head -n -3 media/metadata.json | sed '$ s/,$//' >media/some.json && echo ']' >>media/some.json
prep=(vprep "${sampling[@]}" --quiet)
need "${prep[@]}" --meta media/some.json --out some
need "${prep[@]}" --meta media/metadata.json --out all
some=$(count some)
need test "$some" -lt 7 -a "$some" -gt 2
busy='another process is writing here'

# ---- gc keeps samples that were written before it had the lock ----
cp -r some d
expect 0 ' freed' racing "${prep[*]} --meta media/metadata.json --out d >log 2>&1" \
    flock@d/state.lmdb:1 vlat gc d
same_root d all

# ---- a second writer is refused; the error names the first one ----
broken() { fresh all "$1" && hurt_value "$1"; }
broken d
expect 1 "$busy: flock d/state.lmdb .*(process [0-9]*)" flock d/state.lmdb vlat verify d --repair
[ ! -e d.damaged ] && [ ! -e d.repair ] || wrong 'repaired while another process wrote'
expect 1 "$busy: flock" flock d/state.lmdb vlat gc d
expect 1 "$busy: flock .*stop it" flock d/state.lmdb "${prep[@]}" --meta media/metadata.json --out d
cp d/plan.jsonl plan && echo mine >d/errors.jsonl
expect 1 "$busy: flock" flock d/state.lmdb "${prep[@]}" --meta media/some.json --out d --dry_run
expect 1 "$busy: flock" flock d/state.lmdb "${prep[@]}" --meta media/some.json --out d
cmp d/plan.jsonl plan && [ "$(cat d/errors.jsonl)" = mine ] ||
    wrong 'a refused vprep wrote into the dataset'
expect 0 '^samples *7' flock d/state.lmdb vlat info d

# ---- the lock on a removed file has no effect ----
fresh all d
cat >second <<'S'
if [ ! -e began ]; then
    touch began
    rm d/state.lmdb                          # as if the lock's holder had removed the file
else
    "$1" gc d >errors 2>&1
    echo "status $?" >>errors
fi
S
expect 0 ' freed' racing "sh second vlat" 'flock@d/state.lmdb:1:run;rename@d.gc/:1' vlat gc d
grep -q "$busy: .*vlat gc d (process" errors && grep -q 'status 1' errors ||
    wrong "a second gc: $(cat errors)"
same_root d all

# ---- nor has the lock in a replaced folder: the new folder is locked before it gets the name ----
rm -rf errors d && cp -r all d
expect 0 ' freed' racing "vlat gc d >errors 2>&1" unlink@d.gc:1 vlat gc d
grep -q "$busy: .*vlat gc d (process" errors || wrong "a gc beside one that ends: $(cat errors)"
broken d
rm errors
expect 0 '1 to be encoded again' racing "vlat gc d >errors 2>&1" rename@d.damaged:1 vlat verify d \
    --repair
grep -q "$busy: .*vlat verify d --repair (process" errors ||
    wrong "a gc beside a repair that ends: $(cat errors)"

# ---- an output that another process has finished meanwhile is not changed ----
rm -rf d d.*
check export 0 vlat export all --to safetensors --out files
for verb in 'merge all some --out d' 'split all --n 1 --out d' \
    'import files --from safetensors --family builtin --out d' \
    "select all sample>=1 --out d"; do
    out=d
    [ "${verb%% *}" != split ] || out=d-00
    rm -rf d d-00 errors
    expect 1 "$out is a finished dataset already" racing \
        "vlat select all 'sample < 2' --out $out >errors 2>&1" \
        flock@$out/state.lmdb:1 vlat $verb
    grep -q '2 samples' errors && [ "$(count $out)" -eq 2 ] ||
        wrong "$verb: replaced another process's output"
done

# ---- a dataset that vprep has not finished is not repaired: its manifest lacks the last samples
# ----
broken d
sed -i 's/"complete": *true/"complete": false/' d/manifest.json
expect 1 'run vprep again with the same command' vlat verify d --repair
[ ! -e d.damaged ] && [ ! -e d.repair ] || wrong 'an unfinished dataset was repaired'

# ---- a second repair fails before it copies if the folder of the damaged dataset exists ----
broken d
mkdir d.damaged
expect 1 'd.damaged exists already, from an earlier repair: .*remove it' racing \
    'echo copied >copied' mkdir:1 vlat verify d --repair
[ ! -e copied ] && [ ! -e d.repair ] || wrong 'copied first'
rmdir d.damaged

# ---- vtrain reads its folder again once it has the lock ----
train=(vtrain --latents some --dit_width 32 --dit_layers 1 --dit_heads 2 --mixed_precision no \
    --report_to none
    --max_train_steps 1 --output_dir run)
expect 2 'holds a run already (checkpoint-1)' racing "${train[*]} >log 2>&1" flock@run/.lock:1 \
    "${train[@]}"
[ -e run/checkpoint-1 ] || wrong "no run: $(cat log)"
train+=(--max_train_steps 2 --resume_from_checkpoint latest)
expect 1 'another run wrote checkpoint-2 while this one began' racing "${train[*]} >log 2>&1" \
    flock@run/.lock:1 "${train[@]}"
expect 1 "$busy: flock" flock run/.lock "${train[@]}"

# ---- symbolic links and "." stand for the dataset itself ----
ln -s d link
expect 0 '1 to be encoded again' vlat verify link --repair
[ -L link ] && [ -e d.damaged/manifest.json ] && [ ! -e link.damaged ] ||
    wrong 'repair: the link became a dataset'
expect 0 ' freed' vlat gc link
(cd d && expect 0 ' freed' vlat gc .)
[ -L link ] && [ ! -e link.gc ] && [ ! -e d.gc ] || wrong 'gc: the link became a dataset'

# ---- every program that meets damage names the remedy ----
broken d
remedy='vlat verify d --repair keeps what is good'
expect 1 "$remedy" vlat gc d
expect 1 "$remedy" vlat merge d some --out e
expect 1 "$remedy" vdecode d --out pictures --samples 10
truncate -s 20000 d/shard-00000.lmdb
expect 1 "$remedy" vtrain --latents d --output_dir other --max_train_steps 1
