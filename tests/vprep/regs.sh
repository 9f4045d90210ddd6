#!/usr/bin/env bash
# vprep --reg_data_dir and --sample_kind: pictures of a class beside those that are learned, as
# kohya's sd-scripts has them, marked in the dataset, and trained as :reg= and :prior= say.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set media 5
mkdir -p reg/1_man reg/2_tall\ man
ffmpeg -v error -y -i media/still-3.png -vf hflip reg/1_man/a.png || wrong "no picture"
ffmpeg -v error -y -i media/still-3.png -vf vflip "reg/2_tall man/b.png" || wrong "no picture"
ffmpeg -v error -y -i media/still-3.png -vf hflip,vflip reg/1_man/c.png || wrong "no picture"
echo 'a man, by hand' >reg/1_man/c.txt
prep() { vprep "${sampling[@]}" --image_sample_size 64 "$@"; }
weights()
{
    vlat list "$1" --json | sed -n 's/.*"path":"\([^"]*\)".*"weight":\([0-9.]*\).*/\1 \2/p' |
        LC_ALL=C sort
}

# ---- five learned samples: the class's 1, 1 and 2 grow by one after the other ----
need prep --meta media/metadata.json --reg_data_dir reg --out both
of_class=$'reg/1_man/a.png 2\nreg/1_man/c.png 1\nreg/2_tall man/b.png 2'
[ "$(weights both | grep ^reg/)" = "$of_class" ] ||
    wrong "weights: $(weights both)"
vlat list both --json >records
[ "$(grep -c '"held":"reg"' records)" = 3 ] || wrong "not three regularisation pictures"
holds records '"text":"tall man"'
holds records '"text":"man"'
holds records '"text":"a man, by hand"'
expect 0 . vlat verify both
mkdir more && cp reg/1_man/[ac].* more
for n in 1 2 3 4 5 6; do cp reg/1_man/a.png more/a$n.png && echo man >more/a$n.txt; done
echo man >more/a.txt
need prep --meta media/metadata.json --reg_data_dir more --out fewer
[ "$(weights fewer | awk '/^more/ { n += $2 } END { print n }')" = 5 ] || wrong "more count than 5"
expect '1 2' '--reg_data_dir: none: No such file' prep --meta media/metadata.json \
    --reg_data_dir none --out none.lmdb
head -c 10240 /dev/zero >zeros.tar
: >cut.jsonl
for reg in zeros.tar cut.jsonl; do
    expect 1 "$reg: no row: is it cut short, or another file?" prep \
        --meta media/metadata.json --reg_data_dir $reg --out none.lmdb
done
absent none.lmdb

# ---- the same training as by an option of --latents ----
need prep --meta media/metadata.json --out own
need prep --meta reg --allow_empty_captions --out class
need prep --meta reg --allow_empty_captions --sample_kind reg --out marked
need prep --meta reg --allow_empty_captions --sample_kind prior --out kept
toy=(--dit_width 32 --dit_layers 1 --dit_heads 2 --threads 1)
need vtrain --latents own "${toy[@]}" --output_dir base --max_train_steps 1
train() { vtrain --model base/checkpoint-1 --training_type lora --rank 2 --train_batch_size 1 \
    --learning_rate 1e-2 --threads 1 --max_train_steps 8 "$@"; }
losses() { grep -o '"loss[a-z_]*":[0-9.e-]*' "$1/metrics.jsonl"; }
for kind in reg:marked prior:kept; do
    set=${kind#*:} kind=${kind%:*}
    expect 0 . train --latents own --latents class:$kind=0.5 --output_dir by-$kind
    expect 0 "$set has samples that vprep marked as $kind: .* counts 0.5 times" train \
        --latents own --latents $set --prior_loss_weight 0.5 --output_dir of-$kind
    [ "$(losses by-$kind)" = "$(losses of-$kind)" ] || wrong "$kind: the losses differ"
    holds of-$kind/metrics.jsonl '"loss_prior":'
done
expect 0 . train --latents both --output_dir together
holds together/metrics.jsonl '"loss_prior":'
expect '1 2' 'vprep --sample_kind prior, train towards the base' vtrain --latents own \
    --latents kept "${toy[@]}" --training_type full-finetune --output_dir full --max_train_steps 1

# ---- marks are kept by copies ----
expect 0 . vlat merge own marked --out merged
expect 0 . vlat verify merged
[ "$(vlat list merged --json | grep -c '"held":"reg"')" = 3 ] || wrong "marks are lost"
