#!/usr/bin/env bash
# One command line serves vprep and vtrain: each accepts every flag of the other program. The
# remedies for other trainers' flags name flags that exist.
. "$(dirname "$0")/../lib/check.sh"
# flags PROGRAM: prints all names of flags in its --help.
flags() {
    "$1" --help all | grep -E '^ +(also )?--' | grep -oE -- '--(\[no_\])?[a-z0-9_.]+' |
        sed 's/^--\(\[no_\]\)\?//' | sort -u
}
for pair in "vprep vtrain" "vtrain vprep"; do
    read -r one other <<<"$pair"
    comm -23 <(flags "$one") <(flags "$other") >names
    [ "$(wc -l <names)" -gt 50 ] || wrong "only $(wc -l <names) flags of $one were found"
    sed 's/$/: x/' names >names.yaml
    expect 2 "required" "$other" --config names.yaml
    stderr_lacks "unknown flag\|not available\|$other: names.yaml"
done
# several words after a flag of the other program are the flag's values
expect 2 required vprep --latents a b --fp8_models c d --guidance_scale 1
stderr_lacks unexpected
expect 2 required vtrain --reuse a b --fix_sample_size 384 672 --height 3 --width 4 \
    --no_enable_bucket --train_data_meta m.json
stderr_lacks unexpected

flags vprep >known
flags vtrain >>known
for flag in $(cat "${VLT_SOURCE:?}"/common/cli/foreign_*.[ch] | grep -oE -- '--[a-z0-9_]+' |
        sort -u); do
    grep -qx -e "${flag#--}" known || wrong \
        "common/cli/foreign_*.c: $flag is a flag of neither program"
done
