#!/usr/bin/env bash
# Every flag that a page names is one of the programs', as docs/flags.md lists them (the test
# flags_doc compares that page with --help), or one of another program, which is named here.
. "$(dirname "$0")/../lib/check.sh"
cd "$(cd "$lib/../.." && pwd)" || exit 1

others=$dir/others
tr -s ' \n' '\n' >"$others" <<'END'
--build --install --test-dir --output-on-failure
--bind-to --map-by --mca --mpi
--array --cpus-per-task --dependency --kill-on-bad-exit --nodes --ntasks-per-node --open-mode
--parsable --pty --requeue --signal
--addr --checksum --dir-cache-time --immutable --include --read-only
--grep --enable-nvdec
--all --faults --kills --rule --only --fuzz --slurm --grid --layers --rounds --runs --text --ttt --media
--apply_t5_attn_mask --cache_latents_to_disk --cache_text_encoder_outputs_to_disk
--regenerate_cache --save_latents_and_embeddings --trust_cache
--no-build-isolation --lerning_rate --rnak --steps --video_size --flag --name --training
END

# names PAGE...: the flags on pages, without `no_`, with `_` for `-`.
names() { cat "$@" | { grep -oE -- '--(\[no_\]|no_)?[a-z][a-z0-9_-]*' || true; } |
    sed -E 's/^--(\[no_\]|no_)?//; s/[-_]+$//; s/-/_/g' | LC_ALL=C sort -u; }
names docs/flags.md "$others" >"$dir/known"
[ "$(wc -l <"$dir/known")" -gt 300 ] || wrong "docs/flags.md has few flags"
for page in README.md CONTRIBUTING.md docs/*.md; do
    case $page in
    docs/flags.md | docs/switching.md | docs/others.md) continue ;;  # their flags are others', too
    esac
    unknown=$(names "$page" | LC_ALL=C comm -23 - "$dir/known")
    [ -z "$unknown" ] || wrong "$page: no program has the flags" $unknown
done
