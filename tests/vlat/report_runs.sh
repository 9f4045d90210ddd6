#!/usr/bin/env bash
# vlat report lays the curves, pictures and settings of training runs over each other.
. "$(dirname "$0")/../lib/check.sh"

png='\x89PNG\r\n\x1a\n'

# run DIR STEPS RATE SECRET: an output folder as vtrain leaves it
run()
{
    mkdir -p "$1/validation/step-10" "$1/validation/step-9"
    for ((step = 1; step <= $2; step++)); do
        echo "{\"step\":$step,\"epoch\":$step.5,\"loss\":0.$((90 - step)),\"lr\":$3," \
            "\"grad_norm\":1,\"tokens_per_s\":1000,\"step_s\":2,\"data_wait_s\":0," \
            "\"peak_bytes\":1073741824,\"bucket\":\"5x8x8\",\"caption_dropout\":0.1}"
    done >"$1/metrics.jsonl"
    printf '%s\n' '# settings' '' '# Data' 'latents: [a.lmdb]' 'seed: 42' "learning_rate: $3" \
        "output_dir: $1" >"$1/config.yaml"
    printf "$png newest" >"$1/validation/step-10/000-000.png"
    printf "$png oldest $4" >"$1/validation/step-9/000.png"
}
run first 20 1e-4 x
run second 12 3e-4 y
echo 'only_here: "<b>bold</b>"' >>second/config.yaml

expect 0 '^compare.html$' vlat report first second/
for text in '>first<' '>second<' '20, 20.50 epochs' '12, 12.50 epochs' '0.70000' '0.78000' \
    '1.0 GiB' 'first, step 10' 'second, step 10' '1e-4' '3e-4' 'only_here' '&lt;b&gt;bold' \
    'Gradient norm'; do
    grep -qF -e "$text" compare.html || wrong "the page lacks $text"
done
for text in 'step 9' 'output_dir' '42' '<b>bold' 'a.lmdb'; do
    ! grep -F -e ">$text" compare.html || wrong "the page has $text"
done

# folders of one name are named by their paths
mkdir -p other
cp -r first other/first
expect 0 '^same.html$' vlat report first other/first --out same.html
holds same.html '>other/first<'

# one run, which has no picture and no settings
rm -r other/first/validation other/first/config.yaml
touch other/first/trainer.json
expect 0 '^one.html$' vlat report other/first --out one.html
holds one.html 'No validation samples'
lacks one.html 'Settings that differ'

cp -r "$VLT_BUILD/tests/made.lmdb" a.lmdb
expect 1 'a.lmdb is not the output folder of a training run' vlat report first a.lmdb
expect 2 'takes one dataset, or the folders of runs' vlat report a.lmdb first
many=(); for i in {1..65}; do many+=(first); done
expect 2 'shows 64 runs at most, not 65' vlat report "${many[@]}"
echo '{ torn' >>first/metrics.jsonl
expect 0 '' vlat report first second

# vlat compare: runs with a held-out loss come first, by the least; then the others, by the mean of
# the newest tenth of their losses, or of all where these are few
run third 50 1e-5 z
for name in first second third; do mkdir -p all && cp -r $name all/; done
printf '{"step":51,"loss":9,"eval_loss":0.9}\n{"step":52,"loss":9,"eval_loss":0.95}\n' \
    >>all/second/metrics.jsonl
mkdir all/notes && echo x >all/notes/x
expect 0 '' vlat compare all --out all.html
stdout_has '^1  second  0.90000  least held-out loss, step 51$'
stdout_has '^2  third  0.49500  training loss, step 50$'
stdout_has '^3  first  0.795.*  training loss, step 20$'
[ "$(wc -l <"$stdout")" -eq 4 ] || wrong "$(cat "$stdout")"
for text in '>least held-out loss<' '>second<' 'Settings that differ' '>Order by loss<'; do
    grep -qF -e "$text" all.html || wrong "all.html lacks $text"
done
lacks all.html 'These runs differ in'
echo 'eval_split: 0.1' >>all/first/config.yaml
expect 0 '' vlat report all --out all.html
holds all.html 'These runs differ in: eval_split\.'
lacks all.html 'src="http'
expect 1 'not the output folder of a training run' vlat compare first a.lmdb
