# media.sh - small real media files for the tests of programs. Scripts source this file; it needs
# ffmpeg on the PATH.
command -v ffmpeg >/dev/null || { echo "skipped: no ffmpeg program"; exit 77; }

# small_set DIR N: makes N clips and stills of a few shapes and lengths, and their list,
# metadata.json. ffmpeg makes each file once for all tests of a build, in a folder whose name
# changes with this file; a test gets a copy.
small_set() {
    local dir=$1 n=$2 i size type name made
    made=$VLT_BUILD/tests/media-$(cksum <"${BASH_SOURCE[0]}" | cut -d' ' -f1)
    mkdir -p "$dir" "$made"
    echo "[" >"$dir/metadata.json"
    for ((i = 0; i < n; i++)); do
        case $((i % 3)) in 0) size=96x64 ;; 1) size=64x96 ;; 2) size=64x64 ;; esac
        type=video name=clip-$i.mp4
        ((i % 4 < 3)) || type=image name=still-$i.png
        if [ ! -e "$made/$name" ]; then
            if [ $type = image ]; then
                ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 37))" \
                    -frames:v 1 "$dir/$name"
            else
                ffmpeg -v error -y -f lavfi -i \
                    "testsrc2=s=$size:r=10:d=$((1 + i % 2)),hue=h=$((i * 37))" \
                    -c:v mpeg4 -q:v 4 "$dir/$name"
            fi && cp "$dir/$name" "$made/$BASHPID-$name" && mv "$made/$BASHPID-$name" "$made/$name"
        fi
        cp "$made/$name" "$dir/$name"
        ((i == 0)) || echo "," >>"$dir/metadata.json"
        printf '{"file_path": "%s", "type": "%s", "text": "picture %d, %s"}' \
            "$name" $type $((i % 5)) $size >>"$dir/metadata.json"
    done
    echo "]" >>"$dir/metadata.json"
}

# heard_clip SECONDS NAME SOUND FLAG...: makes media/NAME, 96x64 at 10 frames a second, with SOUND,
# an expression of ffmpeg's aevalsrc, or without; media/list.json lists it with those before it.
heard_clip() {
    local sound=()
    [ -z "$3" ] || sound=(-f lavfi -i "aevalsrc=$3:d=$1")
    mkdir -p media
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=10:d=$1" "${sound[@]}" -c:v mpeg4 -q:v 4 \
        "${@:4}" "media/$2"
    heard+="${heard:+,}{\"file_path\": \"$2\", \"text\": \"$2\"}"
    echo "[$heard]" >media/list.json
}
heard=

# edged_pictures COLUMN: media/ with three pictures and their list, whose COLUMN has negatives
edged_pictures()
{
    local i
    mkdir -p media
    picture() { ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=1:d=1,$1" -frames:v 1 media/$2; }
    printf 'image,prompt,%s\n' "$1" >media/metadata.csv
    for i in "0 red" "1 blue" "2 flat"; do
        picture "hue=h=$((${i% *} * 60))" ${i% *}.png
        picture "hue=h=$((${i% *} * 60)),negate,hflip" edges-${i% *}.png
        echo "${i% *}.png,a ${i#* } thing,edges-${i% *}.png" >>media/metadata.csv
    done
}

sampling=(--video_sample_size 64 --video_sample_n_frames 9 --video_sample_stride 1)

# same_values A B: two datasets hold the same keys and value bytes; their shards may differ.
same_values() {
    local dump=$VLT_BUILD/tests/dump_dataset a b
    a=$("$dump" "$1" | sort -u) && b=$("$dump" "$2" | sort -u) || return 1
    [ -n "$a" ] && [ "$a" = "$b" ] && return 0
    echo "$1 and $2 differ:"
    diff <(echo "$a") <(echo "$b") | head -10
    return 1
}
