# kills.sh - the cases of scripts/kills, and one trial of a case. Scripts source it after media.sh
# and fault.sh.
#
# A case is a name, the state that it begins from, and a command. `prepare` makes two folders for
# each case under $VLT_KILLS_DIR: before/NAME is the state at the beginning, and want/NAME is the
# result of an undisturbed command. A trial copies before/NAME, runs the command with a rule of
# fault.c, and compares its result with want/NAME.

set_flags="--video_sample_size 64 --video_sample_n_frames 9 --video_sample_stride 1"
set_flags+=" --image_sample_size 64 --workers 1 --quiet"
size_flags="--dit_width 16 --dit_layers 1 --dit_heads 1"
run_flags="--threads 1 --checkpointing_steps 2 --checkpointing_limit 2 --use_ema"
run_flags+=" --validation_steps 3 --resume_from_checkpoint latest"

# Each row is: name | commands that fill the folder before the case's command ($base holds the
# datasets of make_base) | the case's command.
cases()
{
    cat <<EOF
vprep | | vprep --meta $base/media/list.json --out d.lmdb $set_flags \
    --validation_prompts $base/media/prompts.json
vprep, many shards | | vprep --meta $base/media/list.json --out d.lmdb $set_flags \
    --shard_seconds 0.0001
vprep, resumed | half_made d.lmdb | vprep --meta $base/media/list.json --out d.lmdb $set_flags
vprep, other captions | cp -r $base/d.lmdb . | vprep --meta $base/media/other.json \
    --out d.lmdb $set_flags
vprep --append | cp -r $base/e.lmdb d.lmdb | vprep --meta $base/media/list.json \
    --out d.lmdb $set_flags --append
vprep --reuse, in place | cp -r $base/d.lmdb . | vprep --meta $base/media/list.json \
    --out d.lmdb $set_flags --reuse d.lmdb --video_sample_n_frames 5
vprep --reuse, of another | cp -r $base/d.lmdb . | vprep --meta $base/media/list.json \
    --out n.lmdb $set_flags --reuse d.lmdb --train_mode i2v
vlat gc | cp -r $base/d.lmdb . | vlat gc d.lmdb
vlat merge | cp -r $base/d.lmdb $base/e.lmdb . | vlat merge d.lmdb e.lmdb --out m.lmdb
vlat split | cp -r $base/d.lmdb . | vlat split d.lmdb --n 3 --out p
vlat select | cp -r $base/d.lmdb . | vlat select d.lmdb sample>=3 --out s.lmdb
vlat verify --repair | damaged d.lmdb | vlat verify d.lmdb --repair
vlat export, safetensors | cp -r $base/d.lmdb . | vlat export d.lmdb --to safetensors --out x
vlat export, webdataset | cp -r $base/d.lmdb . | vlat export d.lmdb --to webdataset --out x
vlat export, musubi | cp -r $base/w.lmdb . | vlat export w.lmdb --to musubi --out x
vlat export, diffsynth | cp -r $base/w.lmdb . | vlat export w.lmdb --to diffsynth --out x
vlat import, safetensors | cp -r $base/x . | vlat import x --from safetensors --out i.lmdb
vlat import, webdataset | cp -r $base/y . | vlat import y --from webdataset --out i.lmdb
vtrain | cp -r $base/d.lmdb . | vtrain --latents d.lmdb --output_dir run --max_train_steps 6 \
    $size_flags $run_flags
vtrain, resumed | cp -r $base/d.lmdb . && cp -r $base/run . | vtrain --latents d.lmdb \
    --output_dir run --max_train_steps 9 $size_flags $run_flags
vtrain, a LoRA | cp -r $base/d.lmdb . | vtrain --latents d.lmdb --output_dir run \
    --max_train_steps 4 $run_flags --training_type lora --model $base/run/checkpoint-6 --rank 2 \
    --export_kohya
vtrain --follow | cp -r $base/d.lmdb . | vtrain --latents d.lmdb --output_dir run \
    --max_train_steps 6 $size_flags $run_flags --follow
vdecode, a dataset | cp -r $base/d.lmdb . | vdecode d.lmdb --out pictures --sheet --quiet
vdecode, a run | cp -r $base/run . | vdecode run --quiet
EOF
}
case_names() { cases | sed 's/ *|.*//'; }
# case_part NAME 2|3: prints the second or the third column of the case's line.
case_part() { cases | awk -F ' *[|] *' -v name="$1" -v part="$2" '$1 == name { print $part }'; }

base=${VLT_KILLS_DIR:+$VLT_KILLS_DIR/base}

# make_base: makes the media, datasets, exports and the run that cases begin from.
make_base()
{
    base=$VLT_KILLS_DIR/base
    local media=$base/media
    small_set "$media" 6
    mv "$media/metadata.json" "$media/list.json"
    sed -e 's/picture 1/another picture/' "$media/list.json" >"$media/other.json"
    { sed '5q' "$media/list.json" | sed '$s/,$//'; echo ']'; } >"$media/few.json"
    echo '[{"prompt": "a cat", "height": 64, "width": 64, "num_frames": 5,' \
        '"num_inference_steps": 2}]' >"$media/prompts.json"
    (
        cd "$base"
        vprep --meta media/list.json --out d.lmdb $set_flags --validation_prompts media/prompts.json
        vprep --meta media/few.json --out e.lmdb $set_flags
        "$VLT_BUILD/tests/exchange_dataset" make w.lmdb wan2.1 mode f32 bf16
        vlat export d.lmdb --to safetensors --out x
        vlat export d.lmdb --to webdataset --out y
        vtrain --latents d.lmdb --output_dir run --max_train_steps 6 $size_flags $run_flags
    ) >"$VLT_KILLS_DIR/log" 2>&1 || { cat "$VLT_KILLS_DIR/log"; return 1; }
}

# half_made OUT: makes the dataset that a vprep leaves behind if it is killed at half of its
# changes.
half_made()
{
    local command="vprep --meta $base/media/list.json --out $1 $set_flags" half
    half=$(($(calls_of change $command) / 2))
    rm -rf "$1"
    fault "change:$half:kill" $command 2>/dev/null || true
}

# damaged OUT: makes a dataset with a truncated shard and a file of the user's own.
damaged()
{
    cp -r "$base/d.lmdb" "$1"
    echo mine >"$1/notes"
    truncate -s 20000 "$1"/shard-00000.lmdb
}

# prepare NAME: makes before/NAME and want/NAME, counts the calls of the case's command, and lists
# its steady files: their bytes are the same in every run.
prepare()
{
    local at=$VLT_KILLS_DIR name=$1 command
    mkdir -p "$at"/{before,want,again,calls,steady}
    mkdir "$at/before/$name"
    (cd "$at/before/$name" && eval "$(case_part "$name" 2)") >"$at/log" 2>&1 ||
        { echo "$name: cannot be prepared"; cat "$at/log"; return 1; } >&2
    command=$(case_part "$name" 3)
    cp -r "$at/before/$name" "$at/want/$name"
    (cd "$at/want/$name" && $command) >"$at/log" 2>&1 ||
        { echo "$name: failed undisturbed"; cat "$at/log"; return 1; } >&2
    cp -r "$at/before/$name" "$at/again/$name"
    (cd "$at/again/$name" && all_calls_of $command) >"$at/calls/$name"
    comm -12 <(sums "$at/want/$name") <(sums "$at/again/$name") | cut -c 35- >"$at/steady/$name"
    rm -rf "$at/again/$name"
    state_of "$name" "$at/want/$name" >"$at/want/$name.state"
}

# sums DIR: prints the checksum of each file that depends on the inputs alone. LMDB's pages and
# files with times or speeds are not among them.
sums()
{
    (cd "$1" && find . -type f ! -name '*.lmdb' ! -name '*.jsonl' ! -name report.html ! -path \
        '*.lmdb/manifest.json' ! -path '*/p-0?/manifest.json' -print0 |
        xargs -0 -r md5sum | LC_ALL=C sort)
}
dataset_root() { sed -n 's/^ "root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
is_complete() { grep -q '^ "complete": true' "$1/manifest.json"; }
datasets_of() { (cd "$1" && grep -lr --include=manifest.json '^{"format": ' . |
    xargs -r -n 1 dirname); }

# same_shards NAME: whether the shards that a case makes are equal at the end, byte for byte
# (docs/format.md, "The same files"); a dataset that is changed depends on what a kill has left.
same_shards()
{
    case $1 in vprep | 'vprep, resumed' | 'vlat '[gms]*) ;; *) return 1 ;; esac
}

# state_of NAME DIR: prints the parts of a result that must be equal at the end: the names of files,
# the roots of datasets, the checksums of steady files and of shards, and the run's metrics without
# times.
state_of()
{
    local name=$1 dir=$2 d
    (
        cd "$dir"
        find . -mindepth 1 | sed -E 's/-[0-9]{5}\.lmdb$/-N.lmdb/; s/tfevents.*/tfevents/' |
            LC_ALL=C sort -u
        for d in $(datasets_of .); do
            echo "$d $(dataset_root "$d") $(is_complete "$d" && echo complete)"
        done | LC_ALL=C sort
        find . -name metrics.jsonl -exec cat {} + |
            sed -E 's/"(tokens_per_s|step_s|data_wait_s|peak_bytes)":[^,}]*//g'
        ! same_shards "$name" || find . \( -name 'shard-*' -o -name 'text-*' \) -exec md5sum {} + |
            LC_ALL=C sort
        [ ! -s "$VLT_KILLS_DIR/steady/$name" ] ||
            tr '\n' '\0' <"$VLT_KILLS_DIR/steady/$name" | xargs -0 md5sum 2>&1 || true
    )
}

# breaches NAME: prints each breach of the rule for files under final names: datasets are undamaged,
# a finished dataset is the old or the new one, and a steady file is the old or the new one, whole.
breaches()
{
    local name=$1 before=$VLT_KILLS_DIR/before/$1 want=$VLT_KILLS_DIR/want/$1 d f r verified
    for d in $(datasets_of .); do
        [ -d "$before/$d" ] || [ -d "$want/$d" ] || continue
        verified=$(vlat verify "$d" 2>&1) || [ "$name" = 'vlat verify --repair' ] ||
            echo "$d is damaged: ${verified##*$'\n'}"
        r=$(dataset_root "$d")
        if is_complete "$d"; then
            [ "$r" = "$(dataset_root "$before/$d" 2>/dev/null)" ] ||
                [ "$r" = "$(dataset_root "$want/$d" 2>/dev/null)" ] ||
                echo "$d is complete, but neither the old nor the new dataset"
        fi
    done
    for d in $(datasets_of "$before"); do
        [ -f "$d/manifest.json" ] || echo "$d was removed"
    done
    while read -r f; do
        [ ! -f "$f" ] || cmp -s "$f" "$want/$f" || cmp -s "$f" "$before/$f" ||
            echo "$f is neither the old nor the new file"
    done <"$VLT_KILLS_DIR/steady/$name"
}

# trial NAME RULE: prints "NAME<TAB>RULE<TAB>ok|missed|FAIL why"; "missed" means that the run had
# too few calls for the rule. VLT_KILLS_KEEP shows the program's messages and keeps the trial's
# folder.
trial()
{
    local name=$1 rule=$2 dir command status why='' result=ok again
    dir=$(mktemp -d "$VLT_KILLS_DIR/trial-XXXXXX")
    command=$(case_part "$name" 3)
    cp -r "$VLT_KILLS_DIR/before/$name" "$dir/at"
    cd "$dir/at"
    VLT_FAULT_LIMIT=300 fault "$rule" $command >"$dir/out" 2>"$dir/err"
    status=$?
    [ -z "${VLT_KILLS_KEEP:-}" ] || { echo "$dir: status $status"; cat "$dir/err"; }
    why=$(breaches "$name")
    state_of "$name" . >"$dir/state"
    case $status in
    137) [[ $rule == *:kill ]] || why+='; killed' ;;
    0)
        [[ $rule != *:kill ]] || result=missed
        cmp -s "$dir/state" "$VLT_KILLS_DIR/want/$name.state" ||
            why+='; status 0, but the result differs' ;;
    1 | 2 | 3)
        # Where libarchive cannot allocate a string of its own, it prints this line and ends the
        # program (docs/tests.md).
        grep -q "^${command%% *}: " "$dir/err" || [[ $rule == write:*+* ]] ||
            { [[ $rule == memory:* ]] && grep -qx '.*libarchive: \(Out of\|No\) memory' \
            "$dir/err"; } ||
            why+="; status $status without a message" ;;
    124) why+='; it hung' ;;
    # libavcodec asserts that it could allocate an encoder's options.
    134)
        [[ $rule == memory:* ]] && grep -q '^Assertion .* at .*libavcodec/options.c' "$dir/err" ||
            why+='; aborted' ;;
    # libarchive's writer of zips does not check the allocation of its list of members.
    139)
        [[ $rule == memory:* && $name == 'vlat export, diffsynth' ]] || why+='; crashed' ;;
    *) why+="; status $status" ;;
    esac
    # The command runs again, undisturbed, and must reach the same result. If the first run was
    # killed after its last change, the second finds its work done and may end with any status.
    timeout -s ABRT 300 $command >"$dir/out2" 2>"$dir/err2"
    again=$?
    state_of "$name" . >"$dir/state"
    cmp -s "$dir/state" "$VLT_KILLS_DIR/want/$name.state" ||
        why+="; run again: status $again, $(tail -1 "$dir/err2"), $(
            diff "$VLT_KILLS_DIR/want/$name.state" "$dir/state" | sed -n 2,4p | tr '\n' ' ')"
    why=${why//$'\n'/; }
    [ -z "$why" ] || result="FAIL ${why#; }"
    printf '%s\t%s\t%s\n' "$name" "$rule" "$result"
    [ -n "${VLT_KILLS_KEEP:-}" ] || rm -rf "$dir"
}

# places TOTAL KIND:ACTION...: chooses the calls to disturb, spread evenly over all cases and their
# calls, and prints two lines for each: NAME and RULE. If a case has fewer calls than its share, the
# rest of its share goes to the other cases.
places()
{
    local total=$1 name pair
    shift
    [ "$total" != all ] || total=1000000000
    for name in "${names[@]}"; do
        for pair; do
            awk -v kind="${pair%:*}" -v action="${pair#*:}" -v name="$name" '
                $1 == kind { print $2 "\t" kind "\t" action "\t" name }' \
                "$VLT_KILLS_DIR/calls/$name"
        done
    done | sort -n | awk -F '\t' -v total="$total" '
        { calls[NR] = $1; kind[NR] = $2; action[NR] = $3; name[NR] = $4 }
        END {
            for (i = 1; i <= NR; i++) {
                each = action[i] == "kill" ? 1 : 2      # a call fails once, or from then on
                n = int(total / each / (NR - i + 1))
                n = n < calls[i] ? n : calls[i]
                total -= n * each
                for (k = 0; k < n; k++) {
                    at = int((k + 0.5) * calls[i] / n) + 1
                    print name[i] "\n" kind[i] ":" at ":" action[i]
                    if (each == 2)
                        print name[i] "\n" kind[i] ":" at "+:" action[i]
                }
            }
        }'
}

# progress TOTAL: reads the results of trials from stdin, and prints each failure and, after every
# hundred trials, their number.
progress()
{
    awk -F '\t' -v total="$1" '
        $3 ~ /^FAIL/ { failed++; print "  " $1 ": --rule " $2 ": " substr($3, 6) }
        NR % 100 == 0 { print "  " NR " of " total ", " failed + 0 " failed" }
        { fflush() }'
}

# summary RESULTS: prints the table of all cases.
summary()
{
    awk -F '\t' '
        FILENAME != ARGV[1] {
            split(FILENAME, part, "calls/")
            if (sub(/^change /, "")) points[part[2]] = $0
            next
        }
        {
            split($2, rule, ":"); tried[$1, rule[3] == "kill"]++
            failed[$1] += $3 ~ /^FAIL/; seen[$1] = 1
            missed[$1] += $3 == "missed"
        }
        END {
            printf "%-28s %8s %8s %8s %8s %8s\n",
                "case", "changes", "kills", "missed", "faults", "failed"
            for (name in seen)
                printf "%-28s %8d %8d %8d %8d %8d\n",
                    name, points[name], tried[name, 1], missed[name],
                    tried[name, 0], failed[name] | "sort"
        }' "$1" calls/*
}
