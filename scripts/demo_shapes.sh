# demo_shapes.sh - coloured shapes that move, by ffmpeg alone, for scripts/demo --family and --ttt.

# shape COLOUR-R G B  BACK-R G B  X-expression Y-expression KIND -> geq filter
shape() {
    local inside
    case $9 in
    disc) inside="lte(hypot(X-($7),Y-($8)),H*0.24)" ;;
    square) inside="lte(max(abs(X-($7)),abs(Y-($8))),H*0.22)" ;;
    ring) inside="between(hypot(X-($7),Y-($8)),H*0.15,H*0.28)" ;;
    bar) inside="lte(abs(Y-($8)),H*0.13)" ;;
    esac
    echo "geq=r='if($inside,$1,$4)':g='if($inside,$2,$5)':b='if($inside,$3,$6)'"
}

# clip FILE SIZE RATE SECONDS FILTER encoder arguments...
clip() {
    local file=$1 size=$2 rate=$3 seconds=$4 filter=$5
    shift 5
    ffmpeg -v error -y -f lavfi -i "color=black:s=$size:r=$rate:d=$seconds,format=gbrp,$filter" \
        "$@" "$file"
}

still() {
    ffmpeg -v error -y -f lavfi -i "color=black:s=$2:r=1:d=1,format=gbrp,$3" -frames:v 1 "${@:4}" \
        "$1"
}
