#!/usr/bin/env bash
# What many samples, shards and ranks cost, by counts: a rank opens each file of a dataset once, and
# the ranks of a job visit each sample as often as an epoch demands. The tables of docs/scale.md are
# those of scripts/scale_model.py, which can measure its constants.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
PYTHON=${PYTHON:-python3}

need random_dataset set 12000 1 2 2 2 16 builtin 768 500 1
shards=$(ls set | grep -c '^shard-')
[ "$shards" -ge 3 ] || wrong "only $shards shards"
train=(vtrain --latents set --report_to none --max_train_steps 8 --dit_width 16 --dit_layers 1
       --dit_heads 1 --quiet --output_dir)

# A second open of a file would fail the run.
for file in manifest.json shard-00000 shard-00001 text-00000; do
    rm -rf run
    check "$file is opened once" 0 fault "open@set/$file:2+:EIO" "${train[@]}" run
    rm -rf run
    check "$file is opened at all" 1 fault "open@set/$file:1:EIO" "${train[@]}" run
done

# 64 ranks of a job, each with a handle of its own, visit each sample as often as an epoch demands;
# no rank opens or maps a file twice, for planning or for the values, or reads a shard otherwise.
ranks=64
opens=$((ranks * $(ls set/manifest.json set/*-0*.lmdb | wc -l)))
need make_toy varied varied
for what in plan load; do
    for set in set varied; do
        check "64 ranks $what $set" 0 fault "read@$set/shard:1+:EIO;read@$set/text:1+:EIO" \
            plan_ranks $ranks $ranks 3 $what $set
        stdout_has '^64 ranks visited .* each sample as often as the epoch demands'
    done
    check "64 ranks $what: opens" 0 fault \
        "open@set/:$((opens + 1)):EIO;mmap@set/:$((opens - ranks + 1)):EIO" \
        plan_ranks $ranks $ranks 3 $what set
done
check "64 ranks: the last open" 1 fault "open@set/:$opens:EIO" plan_ranks $ranks $ranks 3 plan set

# vlat verify hashes the files in one thread, and without threads by itself.
[ "$(calls_of thread vlat verify set)" -eq 1 ] || wrong "not one thread for all files"
check "verify without threads" 0 fault 'thread:1+:EAGAIN' vlat verify set
stdout_has '12,000 samples.*no damage'
for rules in 'read@shard-00001:1:EIO' 'thread:1+:EAGAIN;read@shard-00001:1:EIO'; do
    check "$rules" 1 fault "$rules" vlat verify set
    output_has 'shard-00001.lmdb.*could not be read'
    output_lacks 'shard-0000[02]'
done

command -v "$PYTHON" >/dev/null || { echo "python3 is missing: the model is not tested"; exit; }
model=("$PYTHON" "$VLT_SOURCE/scripts/scale_model.py")
check "the model measures" 0 "${model[@]}" measure "$VLT_BUILD" "$dir" 4000 "$dir/set"
stdout_has '"shard_line": [1-9]'
stdout_has '"large": 12000'
check "docs/scale.md has the model's tables" 0 "${model[@]}" check "$VLT_SOURCE/docs/scale.md"
sed 's/^| 10 M | [0-9.]* TB/| 10 M | 1 TB/' "$VLT_SOURCE/docs/scale.md" >other.md
check "another table is found" 1 "${model[@]}" check other.md
stderr_has 'table `dataset` is not that of'
