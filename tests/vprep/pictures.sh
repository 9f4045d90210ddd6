#!/usr/bin/env bash
# vprep and vdecode with folders of families of pictures, Qwen-Image, FLUX.1, FLUX.2, Krea 2,
# Stable Diffusion 3, ERNIE-Image, Cosmos-Predict2, Ideogram 4 and Z-Image, whose models are tiny,
# made of the goldens' weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

has() { grep -q -- "$1" "$2/manifest.json" || wrong "expected $1 in:"; }

mkdir media
i=0
echo "[" >media/metadata.json
for size in 96x64 64x96 64x64; do
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1" -frames:v 1 "media/$i.png"
    printf '{"file_path": "%s.png", "type": "image", "text": "picture %s"},' $i $i
    i=$((i + 1))
done >>media/metadata.json
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=10:d=1" -c:v mpeg4 media/clip.mp4
echo '{"file_path": "clip.mp4", "type": "video", "text": "a clip"}]' >>media/metadata.json

# A clip is dropped; three pictures go to latents and back.
# pictures FOLDER PIPELINE CHANNELS [CHANNELS-OF-LATENTS]
pictures() {
    need make_model "$1" "$2" "$3"
    check "$2" 3 vprep --meta media/metadata.json --image_sample_size 64 --video_sample_size 64 \
        --model "$1" --out "$1.lmdb"
    stderr_has "3 encoded" && stderr_lacks warning
    check "verify $2" 0 vlat verify "$1.lmdb"
    check "show $2" 0 vlat show "$1.lmdb" 000000000000/000
    stdout_has "mean.*\[${4:-4},1," && stdout_has "logvar.*\[${4:-4},1,"
    check "decode $2" 0 vdecode "$1.lmdb" --model "$1" --out "$1.png" --format png
    stderr_has "3 decoded"
    [ -e "$1.png/000000000002-000.png" ] || wrong "$2: a picture is missing"
}

pictures qwen QwenImagePipeline 64
has '"family": "qwen-image"' qwen.lmdb
has '"class":"AutoencoderKLQwenImage"' qwen.lmdb
has '"mean":\[-0.75,0.5,0.25,-1.5\]' qwen.lmdb
has '"class":"Qwen2_5_VLForConditionalGeneration"' qwen.lmdb
has '"max_length":1024,"width":32' qwen.lmdb
check "show qwen" 0 vlat show qwen.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},32\]'            # the template in front is cropped

pictures flux FluxPipeline 64
has '"family": "flux"' flux.lmdb
has '"class":"AutoencoderKL"' flux.lmdb && has '"channels":4,"ratio":\[1,8,8\]' flux.lmdb
has '"scaling_factor":0.3611,"shift_factor":0.1159' flux.lmdb
has '"class":"CLIPTextModel"' flux.lmdb && has '"max_length":77,"width":32' flux.lmdb
has '"class":"T5EncoderModel"' flux.lmdb && has '"max_length":512,"width":16' flux.lmdb
check "show flux" 0 vlat show flux.lmdb 000000000000/000
stdout_has 'pooled f16 \[32\]' && stdout_has 'prompt_embeds f16 \[512,16\]'

pictures chroma ChromaPipeline 16
has '"family": "chroma"' chroma.lmdb
has '"class":"AutoencoderKL"' chroma.lmdb
has '"class":"T5EncoderModel"' chroma.lmdb && has '"max_length":512,"width":16' chroma.lmdb
check "show chroma" 0 vlat show chroma.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},16\]'

pictures sd3 StableDiffusion3Pipeline 4
has '"family": "sd3"' sd3.lmdb
has '"class":"AutoencoderKL"' sd3.lmdb
has '"scaling_factor":1.5305,"shift_factor":0.0609' sd3.lmdb
has '"class":"CLIPTextModelWithProjection"' sd3.lmdb && has '"max_length":77,"width":24' sd3.lmdb
has '"class":"T5EncoderModel"' sd3.lmdb && has '"max_length":256,"width":48' sd3.lmdb
check "show sd3" 0 vlat show sd3.lmdb 000000000000/000
stdout_has 'pooled f16 \[24\]' && stdout_has 'pooled f16 \[20\]'
stdout_has 'prompt_embeds f16 \[77,16\]' && stdout_has 'prompt_embeds f16 \[256,48\]'

pictures krea2 Krea2Pipeline 16
has '"family": "krea2"' krea2.lmdb
has '"class":"AutoencoderKLQwenImage"' krea2.lmdb
has '"class":"Qwen3VLModel"' krea2.lmdb && has '"max_length":512,"width":192' krea2.lmdb
check "show krea2" 0 vlat show krea2.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},192\]'          # 12 states of a token

cp krea2/model_index.json krea2.json
sed -i 's/}$/, "text_encoder_select_layers": [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35]}/' \
    krea2/model_index.json
check "its own layers" '0 3' vprep --meta media/metadata.json --image_sample_size 64 --model krea2 \
    --out krea2.lmdb
sed -i 's/ 35]/ 36]/' krea2/model_index.json
check "other layers" 2 vprep --meta media/metadata.json --image_sample_size 64 --model krea2 \
    --out no.lmdb
stderr_has "krea2/model_index.json: text_encoder_select_layers has other layers"
cp krea2.json krea2/model_index.json

need make_model cosmos2 Cosmos2TextToImagePipeline 4
check Cosmos2TextToImagePipeline 0 vprep --meta media/metadata.json --image_sample_size 64 \
    --video_sample_size 64 --model cosmos2 --out cosmos2.lmdb
stderr_has "4 encoded"                                       # the clip too
has '"family": "cosmos2"' cosmos2.lmdb
has '"class":"AutoencoderKLWan"' cosmos2.lmdb && has '"ratio":\[4,8,8\]' cosmos2.lmdb
has '"class":"T5EncoderModel"' cosmos2.lmdb && has '"max_length":512,"width":32' cosmos2.lmdb
check "show cosmos2" 0 vlat show cosmos2.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[10,32\]'                     # nine letters and </s>

pictures ernie ErnieImagePipeline 16 16
has '"family": "ernie-image"' ernie.lmdb
has '"class":"AutoencoderKLFlux2"' ernie.lmdb && has '"ratio":\[1,16,16\]' ernie.lmdb
has '"class":"Mistral3Model"' ernie.lmdb && has '"max_length":2048,"width":32' ernie.lmdb
check "show ernie" 0 vlat show ernie.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[10,32\]'                     # <s> and nine letters
pictures ideogram4 Ideogram4Pipeline 16 16
has '"family": "ideogram4"' ideogram4.lmdb
has '"class":"AutoencoderKLFlux2"' ideogram4.lmdb
has '"class":"Qwen3VLModel"' ideogram4.lmdb && has '"max_length":2048,"width":208' ideogram4.lmdb
check "show ideogram4" 0 vlat show ideogram4.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},208\]'          # 13 states of a token

pictures z-image ZImagePipeline 4
has '"family": "z-image"' z-image.lmdb
has '"class":"AutoencoderKL"' z-image.lmdb && has '"channels":4,"ratio":\[1,8,8\]' z-image.lmdb
has '"scaling_factor":0.3611,"shift_factor":0.1159' z-image.lmdb
has '"class":"Qwen3Model"' z-image.lmdb && has '"max_length":512,"width":32' z-image.lmdb
check "show z-image" 0 vlat show z-image.lmdb 000000000000/000
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},32\]'      # the template's rows, and none of padding
sed -i 's/"siglip_feat_dim": *null/"siglip_feat_dim": 1152/' z-image/transformer/config.json
check omni 2 vprep --meta media/metadata.json --image_sample_size 64 --model z-image --out no.lmdb
stderr_has "siglip_feat_dim: it is set.*Z-Image-Omni"
pictures flux2 Flux2KleinPipeline 16 16
has '"family": "flux2"' flux2.lmdb
has '"class":"AutoencoderKLFlux2"' flux2.lmdb && has '"channels":16,"ratio":\[1,16,16\]' flux2.lmdb
has '"class":"Qwen3ForCausalLM"' flux2.lmdb && has '"max_length":512,"width":48' flux2.lmdb
# Ideogram 4's statistics in the same file have the channel of a place last.
means() {
    tr -d ' \n' <"$1/manifest.json" | sed 's/.*"normalization":{[^}]*"mean":\[\([^]]*\)\].*/\1/'
}
means flux2.lmdb | tr , '\n' | awk '{ v[NR - 1] = $0 }
    END { for (i = 0; i < 16; i++) printf "%s%s", v[i % 4 * 4 + int(i / 4)], i < 15 ? "," : "" }' \
    >turned.txt
[ "$(cat turned.txt)" = "$(means ideogram4.lmdb)" ] &&
    [ "$(means flux2.lmdb)" != "$(cat turned.txt)" ] ||
    wrong "ideogram4: means $(means ideogram4.lmdb), expected $(cat turned.txt)"
check "show flux2" 0 vlat show flux2.lmdb 000000000000/000
stdout_has 'mean f16 \[16,1,3,4\]' && stdout_has 'prompt_embeds f16 \[512,48\]'  # all rows
refused() {
    check "$1" "$2" vprep --meta media/metadata.json --image_sample_size 64 --model flux2 \
        --out no.lmdb "${@:4}"
    stderr_has "$3"
}
refused "another text encoder" 1 'num_hidden_layers: 3, .*states of layer 9' \
    --text_encoder z-image/text_encoder
refused "the VAE of FLUX.1" 2 'AutoencoderKL' --vae z-image/vae
sed -i 's/enable_thinking/thinking/g' flux2/tokenizer/tokenizer_config.json
refused "another chat template" 1 'the chat template lacks enable_thinking'
rm z-image/tokenizer/tokenizer_config.json
rm -r z-image/transformer
check "no chat template" 1 vprep --meta media/metadata.json --image_sample_size 64 \
    --model z-image --out no.lmdb
stderr_has "z-image/tokenizer: there is no chat template"
