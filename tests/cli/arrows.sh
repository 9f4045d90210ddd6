#!/usr/bin/env bash
# Compares the includes of all sources with a table of allowed ones. Each row names a folder and
# other folders whose headers its sources may include; these folders have rows above, so that all
# arrows point the same way. The script prints each forbidden include.
set -euo pipefail
root=${VLT_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"

table='
common/base
common/kernels
common               common/base
buckets              common common/base
common/os            common/base
common/cli/peers
common/cli           common/base common/cli/peers common/os
common/tensor        common/base common/kernels common/os
common/tensor/base   common/tensor
common/adapters      common/os common/tensor
common/memory        common/tensor
common/nn            common/tensor
common/comm          common/base common/memory common/os
common/cpu/simd      common/base common/kernels common/tensor
common/cpu/gemm      common/cpu/simd
common/cpu           common/base common/cpu/gemm common/cpu/simd common/kernels common/os
common/cpu           common/tensor
common/cuda          common/base common/kernels common/tensor
formats/keys         common/base
formats/json         common/base common/os
formats/columnar     common/base common/os formats/keys
formats/metadata     common/base common/os formats/columnar formats/json formats/keys
formats/tensors      common common/base common/os common/tensor formats/json formats/keys
formats/models       common common/os formats/json formats/tensors
formats/lmdb         common/base common/os formats/keys
formats/dataset      common common/base common/os formats/json formats/keys formats/lmdb
formats/dataset      formats/tensors
formats/dataset/verify common common/os formats/dataset formats/keys
formats/libvlat      formats/dataset
formats/report       common/base common/os formats/json formats/keys formats/tensors
formats/vlat         common common/base common/cli common/os formats/dataset formats/keys
formats/vlat         formats/report formats/tensors
formats/peers        common common/base common/os formats/dataset formats/json formats/keys
formats/peers        formats/tensors formats/vlat
formats/peers/caches common/base common/os formats/dataset formats/lmdb formats/peers
formats/peers/caches formats/tensors
formats              common/base common/os formats/vlat
precompute           buckets common/tensor formats/dataset
precompute/media     common/base common/os formats/columnar formats/json formats/keys
precompute/media     formats/metadata
precompute/tokenizer common/base common/os formats/dataset formats/json
precompute/pictures  common/base common/os formats/json precompute
precompute/text      common/base common/nn common/os common/tensor formats/json formats/metadata
precompute/text      formats/tensors precompute precompute/pictures precompute/tokenizer
precompute/gemma     formats/tensors precompute/text
precompute/vae       common/base common/nn common/os formats/json formats/tensors precompute
precompute/sound     common/base common/nn formats/json formats/tensors
precompute/sound     precompute precompute/media
precompute/run       buckets common common/base common/cli common/comm common/os
precompute/run       formats/columnar formats/dataset formats/json formats/keys formats/metadata
precompute/run       formats/models formats/tensors
precompute/run       precompute precompute/media precompute/sound
precompute/encode    buckets common common/os formats/keys precompute/media precompute/run
precompute/encode    precompute/pictures precompute/text precompute/sound
precompute/vprep     common common/base common/cli common/os common/tensor formats/json formats/keys
precompute/vprep     formats/columnar formats/metadata formats/models formats/tensors
precompute/vprep     precompute/encode
precompute/vprep     precompute/run precompute/text
precompute/vdecode   common common/base common/cli common/os formats/dataset formats/report
precompute/vdecode   formats/tensors precompute/media precompute/run precompute/sound
precompute/vdecode   precompute/vae
train/diffusion      common common/base common/os common/tensor formats/json
train/lora           common/adapters common/base common/os common/tensor formats/json
train/lora           formats/tensors
train/models         common common/nn common/os common/tensor formats/json
train/models         formats/models formats/tensors train/diffusion train/lora
train/models/hunyuan common/nn common/tensor formats/json train/lora train/models
train/models/ltx     common/nn common/tensor formats/json formats/tensors train/models
train/models/wan     common/nn common/tensor formats/json train/models
train/families       common train/models
train/data           buckets common/base common/cli common/os formats/dataset formats/json
train/data           formats/keys formats/tensors train/models
train/output         common/adapters common/base common/os common/tensor formats/dataset
train/output         formats/json formats/report
train/output         formats/tensors train/lora train/models
train/parallel       common/base common/comm common/memory common/os common/tensor formats/tensors
train                common common/base common/cli common/comm common/os common/tensor train/data
train                train/diffusion train/models train/output
train/optim          common/base common/cli common/os common/tensor train train/output
train/samples        common/cli train train/families
train/settings       common/adapters common/cli common/os formats/json formats/tensors train
train/settings       train/diffusion train/families train/lora
train/settings       train/optim
train/setup          common/adapters common/base common/os formats/tensors train train/diffusion
train/setup          train/families train/lora
train/setup          train/models
train/setup          train/optim train/output train/samples
train/steps          common/base common/memory common/os train train/data train/diffusion
train/steps          train/parallel
train/plan           common/adapters common/os common/tensor train train/diffusion train/lora
train/plan           train/families train/models
train/plan           train/optim
train/plan           train/parallel train/samples train/steps
train/sampling       common/base common/os train train/parallel train/plan train/steps
train/vtrain         common/comm common/memory common/os formats/models formats/report
train/vtrain         formats/tensors train
train/vtrain         train/families train/lora train/models
train/vtrain         train/optim train/output train/parallel train/plan train/samples train/sampling
train/vtrain         train/settings train/setup train/steps
'
# libraries that only one folder may include: a pattern of their headers, then the folder
libraries='
libav[a-z]+/|libsw[a-z]+/|zimg[.]h|turbojpeg[.]h|tiffio[.]h|utf8proc[.]h precompute
lmdb[.]h|csv[.]h|sqlite3[.]h|curl/|arrow/|parquet/              formats
oneapi/|dnnl                                                  common
mpi[.]h                                                        common
'
enough=600      # with fewer includes than this the pattern of grep must be wrong

grep -rEH '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' common formats buckets precompute \
    train --include='*.[ch]' --include='*.cu' --include='*.cpp' |
awk -v table="$table" -v libraries="$libraries" -v enough="$enough" '
BEGIN {
    n = split(table, rows, "\n")
    for (i = 1; i <= n; i++) {
        m = split(rows[i], word, " ")
        if (!m) continue
        for (j = 2; j <= m; j++) {
            if (!(word[j] in known)) {
                print "the row of " word[1] " names " word[j] ", which has no row above"; bad = 1
            }
            may[word[1], word[j]] = 1
        }
        known[word[1]] = 1
    }
    n_lib = split(libraries, lib, "\n")
}
{
    file = $0; sub(/:.*/, "", file)
    folder = file; sub(/\/[^\/]*$/, "", folder)
    if (!(folder in known)) {
        print file ": its folder " folder " has no row"; bad = 1; known[folder] = 1
    }
    if (match($0, /"[^"]+"/)) {
        seen = substr($0, RSTART + 1, RLENGTH - 2)
        if (!sub(/\/[^\/]*$/, "", seen)) {
            print file " includes " seen " without its folder"; bad = 1; next
        }
        count++
        used[folder, seen] = 1
        if (seen != folder && !((folder, seen) in may)) {
            print file " includes from " seen ", which the rows of " folder " do not allow"; bad = 1
        }
    } else if (match($0, /<[^>]+>/)) {
        seen = substr($0, RSTART + 1, RLENGTH - 2)
        for (i = 1; i <= n_lib; i++) {
            if (split(lib[i], word, " ") != 2) continue
            if (seen ~ "^(" word[1] ")" && folder !~ "^" word[2] "(/|$)") {
                print file " includes <" seen ">, which only " word[2] " may include"; bad = 1
            }
        }
    }
}
END {
    for (k in may)
        if (!(k in used)) {
            split(k, word, SUBSEP)
            print word[1] " does not include from " word[2] ": remove this folder from its row"
            bad = 1
        }
    if (count < enough) { print "only " count + 0 " includes were read"; bad = 1 }
    exit bad
}'
