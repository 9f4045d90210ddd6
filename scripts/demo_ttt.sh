# demo_ttt.sh - TTT layers at toy size, from clips to a sampled clip of 18 s. scripts/demo sources
# this file for --ttt; the variables $here, $build, $out and $media are its own.
#
# Six scenes of 3 s become six clips of one segment, two of three segments (9 s) and one of six
# (18 s), each segment with a caption of its own. A CogVideoX transformer of random weights, for
# latents and texts of the built-in encoders, gets TTT layers and is trained on the three sets in
# turn, by scripts/ttt-curriculum with the settings in configs/ttt/toy. The last stage is killed
# once and continues.

SCENES=6 WIDTH=64 HEIGHT=64 RATE=16

# scene N FILE: writes the 49 frames of a real clip, which is repeated where it is shorter.
# False: FILE has no picture that ffmpeg decodes.
scene() {
    ffmpeg -v quiet -nostdin -y -stream_loop -1 -i "$2" -an -frames:v 49 -c:v ffv1 -vf \
        "fps=$RATE,scale=$WIDTH:$HEIGHT:force_original_aspect_ratio=increase,crop=$WIDTH:$HEIGHT" \
        "$clips/scene-$1.mkv" && [ "$(frames "$clips/scene-$1.mkv")" = 49 ]
}

frames() {
    ffprobe -v error -select_streams v:0 -count_packets -show_entries stream=nb_read_packets \
        -of csv=p=0 "$1"
}

# Prints the caption of a real clip in one line: from the list metadata.json of the folder, else
# from the text beside the clip, else the words of its name.
caption_of() {
    local text=${1%.*}.txt list=$media/metadata.json found=
    if [ -f "$list" ]; then
        found=$(tr '\n{' ' \n' <"$list" | grep -F "/${1##*/}\"" | head -n 1 |
            sed -n 's/.*"text": *"\(\(\\.\|[^"\\]\)*\)".*/\1/p' | sed 's/\\"/"/g') || true
    fi
    if [ -n "$found" ]; then
        echo "$found"
    elif [ -f "$text" ]; then
        tr -s '[:space:]' ' ' <"$text"
    else
        basename "${1%.*}" | tr -s '_.-' ' '
    fi
}

# Takes scenes from the clips in the folder $media, or in its folder videos; where there are fewer
# clips than scenes, the scenes repeat.
real_scenes() {
    local file n=0 i folder=$media
    [ ! -d "$media/videos" ] || folder=$media/videos
    while IFS= read -r file; do
        if scene $n "$file"; then
            caption[n]=$(caption_of "$file")
            n=$((n + 1))
        fi
        [ $n -lt $SCENES ] || break
    done < <(find -L "$folder" -type f \( -iname '*.mp4' -o -iname '*.webm' -o -iname '*.mov' \
        -o -iname '*.mkv' -o -iname '*.avi' \) | sort)
    [ $n -gt 0 ] || { echo "demo: $media: no clip that ffmpeg decodes" >&2; exit 1; }
    for ((i = n; i < SCENES; i++)); do
        cp "$clips/scene-$((i % n)).mkv" "$clips/scene-$i.mkv"
        caption[i]=${caption[i % n]}
    done
}

# drawn N CAPTION COLOURS KIND X Y: a scene of one moving shape.
drawn() {
    caption[$1]=$2
    # shellcheck disable=SC2086
    clip "$clips/scene-$1.mkv" ${WIDTH}x$HEIGHT $RATE 3.0625 "$(shape $3 "$5" "$6" "$4")" -c:v ffv1
}

drawn_scenes() {
    local right="W*(0.2+0.2*T)" left="W*(0.8-0.2*T)" down="H*(0.2+0.2*T)" up="H*(0.8-0.2*T)"
    drawn 0 "A red disc moves to the right over a dark blue ground." "230 40 30 20 40 90" disc \
        "$right" H/2
    drawn 1 "A white bar moves down over a dark red ground." "245 245 245 150 30 30" bar W/2 "$down"
    drawn 2 "A green square moves to the left over a plum ground." "40 200 60 60 20 60" square \
        "$left" H/2
    drawn 3 "A yellow disc moves up over a dark green ground." "240 220 40 20 90 50" disc W/2 "$up"
    drawn 4 "A blue ring moves down over a cream ground." "50 90 240 230 225 200" ring W/2 "$down"
    drawn 5 "A black square moves to the right over an amber ground." "10 10 10 240 160 40" square \
        "$right" H/2
}

# story LENGTH N...: joins scenes, of which each but the first begins with its second frame, to one
# clip, and adds the clip and its captions to the list of its length.
story() {
    local length=$1 name i k=0 join= inputs=() texts=
    shift
    name=$length-$1.mkv
    for i; do
        inputs+=(-i "$clips/scene-$i.mkv")
        join+="[$k:v]trim=start_frame=$((k > 0)),setpts=PTS-STARTPTS[v$k];"
        texts+=", \"$(sed 's/[\\"]/\\&/g' <<<"${caption[i]}")\""
        k=$((k + 1))
    done
    for ((i = 0; i < k; i++)); do
        join+="[v$i]"
    done
    ffmpeg -v error -y "${inputs[@]}" -filter_complex "${join}concat=n=$k" -c:v ffv1 "$clips/$name"
    echo "{\"file_path\": \"$name\", \"text_chunks\": [${texts:2}]}" >>"$clips/$length.jsonl"
    echo "{\"text_chunks\": [${texts:2}], \"height\": $HEIGHT, \"width\": $WIDTH, \"fps\": $RATE," \
        "\"seed\": 1}" >"$clips/$length-prompt.jsonl"
}

# losses JOB: prints the mean loss of the first and of the last 20 steps; false: it did not fall.
losses() {
    sed -n 's/.*"loss":\([0-9.e-]*\).*/\1/p' "$out/run/$1/metrics.jsonl" | awk -v job="$1" '
        { loss[NR] = $1 }
        END {
            for (i = 1; i <= 20; i++) { first += loss[i] / 20; last += loss[NR + 1 - i] / 20 }
            printf "  %-8s %4d steps: loss %.3f in the first 20, %.3f in the last\n",
                   job, NR, first, last
            exit !(NR >= 40 && last < first)
        }'
}

curriculum() {
    VLT_TTT_CONFIGS=$here/configs/ttt/toy VLT_BUILD=$build "$here/scripts/ttt-curriculum" mlp \
        "$out/model" "$out/run" 3s="$out/3s.lmdb" 9s="$out/9s.lmdb" 18s="$out/18s.lmdb" \
        "${extra[@]}"
}

# Runs the curriculum until the last stage has a checkpoint, and kills it and all its processes.
killed_curriculum() {
    local pid
    set -m
    curriculum &
    pid=$!
    set +m
    # A signal to the demo does not reach the curriculum, which has a process group of its own.
    # shellcheck disable=SC2064
    trap "kill -KILL -- -$pid 2>/dev/null" EXIT
    trap 'exit 130' INT TERM
    until compgen -G "$out/run/toy-18s/checkpoint-*" >/dev/null; do
        kill -0 $pid 2>/dev/null || { trap - EXIT INT TERM; wait $pid; return; }
        sleep 0.1
    done
    kill -KILL -- -$pid
    trap - EXIT INT TERM
    wait $pid 2>/dev/null || echo "demo: the last stage is killed after its first checkpoint"
}

out=$out/ttt
clips=$out/media caption=()
rm -rf "$clips" "$out"/*.lmdb "$out/run" "$out/model"
mkdir -p "$clips"
echo "demo: making clips of 3, 9 and 18 s in $clips${media:+ from $media}"
if [ -n "$media" ]; then
    real_scenes
else
    drawn_scenes
fi
for ((i = 0; i < SCENES; i++)); do
    story 3s $i
done
story 9s 0 1 2
story 9s 3 4 5
story 18s 0 1 2 3 4 5

echo "demo: phase 1, vprep: one latent dataset for each length"
for length in 3s 9s 18s; do
    "$build/vprep" --meta "$clips/$length.jsonl" --out "$out/$length.lmdb" --quiet \
        --video_sample_size 64 --validation_prompts "$clips/$length-prompt.jsonl"
done

echo "demo: phase 2, vtrain: three stages"
"$build/tests/random_transformer" "$out/model/transformer" '{
    "_class_name": "CogVideoXTransformer3DModel", "num_attention_heads": 4,
    "attention_head_dim": 32, "num_layers": 3, "time_embed_dim": 128, "text_embed_dim": 256,
    "in_channels": 16, "out_channels": 16, "use_rotary_positional_embeddings": true}'
mkdir -p "$out/model/scheduler"
cat >"$out/model/scheduler/scheduler_config.json" <<'JSON'
{"_class_name": "CogVideoXDDIMScheduler", "beta_schedule": "scaled_linear",
 "prediction_type": "v_prediction", "rescale_betas_zero_snr": true, "snr_shift_scale": 1.0,
 "timestep_spacing": "trailing"}
JSON
killed_curriculum
curriculum
echo "demo: losses"
for job in toy-3s toy-9s toy-18s; do
    losses $job || { echo "demo: $job: the loss did not fall" >&2; exit 1; }
done

echo "demo: pictures, vdecode"
"$build/vdecode" "$out/run/toy-18s" --quiet
last=$(find "$out/run/toy-18s/validation" -maxdepth 1 -name 'step-*' | sort -V | tail -n 1)
# A column for each segment: above the clip of the training set, below the sampled one.
ffmpeg -v error -y -i "$clips/18s-0.mkv" -i "$last/000.mp4" -filter_complex "
    [0:v]select='eq(mod(n,48),24)',scale=iw*2:-1:flags=neighbor,tile=${SCENES}x1[a];
    [1:v]select='eq(mod(n,48),24)',scale=iw*2:-1:flags=neighbor,tile=${SCENES}x1[b];
    [a][b]vstack" -frames:v 1 -update 1 "$out/sheet.png"
ffmpeg -v info -nostats -i "$last/000.mp4" -i "$clips/18s-0.mkv" -lavfi psnr -f null - 2>&1 |
    sed -n 's/.*average:\([0-9.]*\).*/demo: PSNR of the sampled clip to the training clip: \1 dB/p'

cat <<DONE

Done. Open these:
  $out/run/toy-18s/report.html     the last stage: loss, speed, the sampled clip
  $last/000.mp4    a sampled clip of 18 s
  $out/sheet.png                   its six segments, below those of the training clip
DONE
