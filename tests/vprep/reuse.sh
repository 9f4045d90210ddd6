#!/usr/bin/env bash
# vprep reuses the values of existing datasets: the plan that it prints, --reuse, changed flags in
# place, --rehash.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"


small_set "$dir/media" 7                     # 6 clips, 1 still; 7 captions
list=$dir/media/metadata.json
at64=(--meta "$list" "${sampling[@]}") at48=(--meta "$list" "${sampling[@]}" --video_sample_size 48)

# ---- the plan of reuse: of a dry run and of a run, with and without an existing dataset ----
check "first run" 0 vprep "${at64[@]}" --out "$dir/a" && stdout_lacks reuse
check again 0 vprep "${at64[@]}" --out "$dir/a"
stdout_has "^reuse 7, encode 0, drop 0\$" && stdout_has "^texts: reuse 8, encode 0\$" &&
    stdout_lacks "of latents to encode"
sed 's/picture 2/another picture/' "$list" >"$dir/media/caption.json"
check "a caption, dry" 0 vprep "${at64[@]}" --meta "$dir/media/caption.json" --out "$dir/a" \
    --dry_run
stdout_has "^reuse 7, encode 0, drop 0\$" && stdout_has "^texts: reuse 7, encode 1\$"
cp -r "$dir/a" "$dir/b"
check "a caption" 0 vprep "${at64[@]}" --meta "$dir/media/caption.json" --out "$dir/b"
stdout_has "^texts: reuse 7, encode 1\$" && stderr_has "0 encoded, 7 reused" &&
    stderr_has "1 of 8 prompts encoded"
cp -r "$dir/media" "$dir/media2"
cp "$dir/media/clip-4.mp4" "$dir/media2/clip-0.mp4"
check "a file" 0 vprep "${at64[@]}" --meta "$dir/media2/metadata.json" --out "$dir/b"
stdout_has "^reuse 6, encode 1, drop 0\$" && stdout_has "^texts: reuse 8, encode 0\$" &&
    stdout_has "^about .* of latents to encode; about .*\$"
stderr_has "1 encoded, 6 reused"

# ---- vlat info prints the hash of a dataset's plan ----
plan_of() { vlat info "$1" | sed -n 's/^plan  *\([0-9a-f]\{32\}\)$/\1/p'; }
check "a plan again" 0 vprep "${at64[@]}" --out "$dir/p" --plan "$dir/a/plan.jsonl"
check "a caption less" 0 vprep "${at64[@]}" --meta "$dir/media/caption.json" --out "$dir/q"
[ -n "$(plan_of "$dir/a")" ] && [ "$(plan_of "$dir/a")" = "$(plan_of "$dir/p")" ] ||
    wrong "one plan, two hashes"
[ "$(plan_of "$dir/a")" != "$(plan_of "$dir/q")" ] || wrong "two plans, one hash"

# ---- another size of videos: texts and the still are copied from the first dataset; the result
# equals a run without --reuse ----
check "another size" 1 vprep "${at48[@]}" --out "$dir/a"
stderr_has "sampling.video_sample_size: 64 there, 48 now" && stderr_has "--reuse $dir/a" &&
    stderr_has "--overwrite"
check "another size, dry" 0 vprep "${at48[@]}" --out "$dir/a" --dry_run
stderr_has "will be refused: .*video_sample_size: 64 there, 48 now" &&
    stdout_has "^reuse 1, encode 6, drop 0\$"
check "the same, dry" 0 vprep "${at64[@]}" --out "$dir/a" --dry_run && stderr_lacks refused
check "dry reuse" 0 vprep "${at48[@]}" --out "$dir/c" --reuse "$dir/a" --dry_run
stdout_has "^reuse 1 (1 copied), encode 6, drop 0\$" &&
    stdout_has "^texts: reuse 8 (8 copied), encode 0\$"
absent "$dir/c/manifest.json"
check reuse 0 vprep "${at48[@]}" --out "$dir/c" --reuse "$dir/a"
stdout_has "^texts: reuse 8 (8 copied), encode 0\$" && stderr_has "6 encoded, 1 reused" &&
    stderr_has "; 0 of 8 prompts encoded" && stderr_has "1 latents and 8 texts were copied"
check fresh 0 vprep "${at48[@]}" --out "$dir/d" && same_files "$dir/c" "$dir/d"
check "fresh i2v" 0 vprep "${at64[@]}" --out "$dir/i" --train_mode i2v

# ---- the same settings with two datasets: nothing is encoded, no thumbnail and no condition ----
check "all of it" 0 vprep "${at64[@]}" --out "$dir/e" --train_mode i2v --reuse "$dir/c" \
    --reuse "$dir/i"
stdout_has "^reuse 7 (7 copied), encode 0, drop 0\$" &&
    stdout_has "^conditions: reuse 14 (14 copied), encode 0\$"
stderr_has "0 encoded, 7 reused" && stderr_has " 0 conditions encoded; 0 of 8 prompts" &&
    same_files "$dir/e" "$dir/i"
stderr_lacks "clips:"
check verify 0 vlat verify "$dir/e"
check "once more" 0 vprep "${at64[@]}" --out "$dir/e" --train_mode i2v &&
    stdout_has "^reuse 7, encode 0, drop 0\$"

# ---- families with the same encoders share values: copied, continued, added to ----
other() { sed -i 's/"family": *"builtin"/"family":"other"/' "$1/manifest.json"; }
cp -r "$dir/a" "$dir/o" && other "$dir/o"
check "of another family" 0 vprep "${at64[@]}" --out "$dir/g" --reuse "$dir/o"
stderr_has "0 encoded, 7 reused" && stderr_has "; 0 of 8 prompts encoded" &&
    same_values "$dir/g" "$dir/a"
sed 's/clip-0.mp4/.\/clip-0.mp4/' "$list" >"$dir/media/more.json"
cp -r "$dir/o" "$dir/append"
check "added to" 0 vprep "${at64[@]}" --meta "$dir/media/more.json" --out "$dir/append" --append
stderr_has "0 encoded, 7 reused" && grep -q '"families": *\["builtin","other"\]' \
    "$dir/append/manifest.json"
check "continued" 0 vprep "${at64[@]}" --out "$dir/o" && stderr_has "0 encoded, 7 reused"
grep -q '"family": *"builtin"' "$dir/o/manifest.json" && ! grep -q families "$dir/o/manifest.json"

# ---- a damaged value of the other dataset is reported, and encoded again ----
cp -r "$dir/a" "$dir/bad"
hurt_value "$dir/bad"
check damaged 0 vprep "${at64[@]}" --out "$dir/f" --reuse "$dir/bad"
stderr_has "warning: --reuse $dir/bad: made anew: shard-00000.lmdb.*--repair" &&
    stderr_has "1 encoded, 6 reused" && same_values "$dir/f" "$dir/a"

# ---- repaired: lost values are encoded again by the list, and the plan has all samples ----
check damaged 1 vlat verify "$dir/bad"
check repair 0 vlat verify "$dir/bad" --repair &&
    stdout_has "^.*6 samples saved, 1 to be encoded again.*\$"
check "by its list" 0 vprep "${at64[@]}" --out "$dir/bad" --plan "$dir/bad/repair.jsonl" --append
stderr_has "1 encoded" && same_values "$dir/bad" "$dir/a" && check verify 0 vlat verify "$dir/bad"
cmp <(sort "$dir/a/plan.jsonl") <(sort "$dir/bad/plan.jsonl") || wrong "the plan lost lines"

# ---- in place: old values stay until gc, so that the old flags encode nothing again ----
check "in place" 0 vprep "${at48[@]}" --out "$dir/f" --reuse "$dir/f"
stdout_has "^reuse 1, encode 6, drop 0\$" && stdout_has "^texts: reuse 8, encode 0\$" &&
    stderr_has "0 of 8 prompts encoded"
holds "$dir/f/manifest.json" '"video_sample_size":48'
check verify 0 vlat verify "$dir/f"
check back 0 vprep "${at64[@]}" --out "$dir/f" --reuse "$dir/f" && stderr_has "0 encoded, 7 reused"
expect 0 '^[1-9].* would be freed: of 6 latents and 0 texts' vlat gc "$dir/f" --dry_run
check gc 0 vlat gc "$dir/f" && same_values "$dir/f" "$dir/a"
check "gone with gc" 0 vprep "${at48[@]}" --out "$dir/f" --reuse "$dir/f" &&
    stderr_has "6 encoded, 1 reused"

# ---- refused ----
check "removes it" 2 vprep "${at64[@]}" --out "$dir/a" --reuse "$dir/a" --overwrite &&
    stderr_has "without --overwrite"
check "keeps it" 2 vprep "${at64[@]}" --out "$dir/a" --reuse "$dir/a/." --append &&
    stderr_has "without --append"
check "no dataset" 1 vprep "${at64[@]}" --out "$dir/z" --reuse "$dir/media" &&
    stderr_has "--reuse: $dir/media"
absent "$dir/z"

# ---- a file changed under the same size, time and inode is noticed with --rehash alone ----
touch -r "$dir/media/clip-2.mp4" "$dir/time"
size=$(stat -c %s "$dir/media/clip-2.mp4")
cp "$dir/media/clip-2.mp4" "$dir/clip"
printf 'other' | dd of="$dir/media/clip-2.mp4" bs=1 seek=$((size - 40)) conv=notrunc 2>/dev/null
touch -r "$dir/time" "$dir/media/clip-2.mp4"
check "believed" 0 vprep "${at64[@]}" --out "$dir/a" && stdout_has "^reuse 7, encode 0, drop 0\$"
cp -r "$dir/a" "$dir/gc"
check gc 0 vlat gc "$dir/gc"
check "believed after gc" 0 vprep "${at64[@]}" --out "$dir/gc" &&
    stdout_has "^reuse 7, encode 0, drop 0\$"
check "rehash, dry" 0 vprep "${at64[@]}" --out "$dir/a" --rehash --dry_run &&
    stdout_has "^reuse 6, encode 1, drop 0\$"
cat "$dir/clip" >"$dir/media/clip-2.mp4" && touch -r "$dir/time" "$dir/media/clip-2.mp4"
check "rehash, the same" 0 vprep "${at64[@]}" --out "$dir/a" --rehash &&
    stdout_has "^reuse 7, encode 0, drop 0\$"
head -c "$size" /dev/zero >"$dir/media/clip-2.mp4" && touch -r "$dir/time" "$dir/media/clip-2.mp4"
check "not opened" 0 vprep "${at64[@]}" --out "$dir/a" && stderr_has "0 encoded, 7 reused"
check "opened" 3 vprep "${at64[@]}" --out "$dir/a" --rehash && stderr_has "0 encoded, 6 reused"
