# exchange.sh - the common part of the tests of vlat export and import, which source this file. It
# copies the dataset made.lmdb into check.sh's folder.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" made.lmdb

make() { exchange_dataset make "$@"; }
same() { exchange_dataset same "$1" "$2" || wrong "$1 and $2 differ"; }
# alike A B: two exports are equal, apart from the root that their vlat-export.json names.
alike() { diff -r -x vlat-export.json "$1" "$2"; }
manifest() { holds "$1/manifest.json" "$2"; }

# round_trip NAME FAMILY STORE LATENT TEXT FORMAT FLAGS...: exports, imports and exports again; both
# exports have the same bytes.
round_trip()
{
    name=$1 format=$6
    make "$name.lmdb" "$2" "$3" "$4" "$5"
    shift 6
    expect 0 '5 samples' vlat export "$name.lmdb" --to $format --out "$name.1"
    expect 0 '5 samples' vlat import "$name.1" --from $format --out "$name.back" "$@"
    expect 0 'no damage' vlat verify "$name.back"
    expect 0 '5 samples' vlat export "$name.back" --to $format --out "$name.2"
    alike "$name.1" "$name.2" || wrong "$name: the second export differs from the first"
    manifest "$name.back" '"source_format"'
}
