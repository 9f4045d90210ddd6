#!/usr/bin/env bash
# cmake --install into an empty folder: the programs run there, manual pages render without a
# warning and have every flag, completions offer every flag and the values of choices, and a program
# links libvlat by pkg-config, shared and static.
. "$(dirname "$0")/../lib/check.sh"
DESTDIR=$dir/dest need cmake --install "$VLT_BUILD" --prefix /usr
usr=$dir/dest/usr
PATH=$usr/bin:$PATH
set=$VLT_BUILD/tests/made.lmdb

for program in vprep vtrain vdecode vlat; do
    [ "$(command -v "$program")" = "$usr/bin/$program" ] || wrong "$program is not installed"
    expect 0 "^$program [0-9]" "$program" --version
done
expect 0 '^samples  *60' vlat info "$set"

for file in copyright README.md docs/interface.md; do
    [ -s "$usr/share/doc/vlt/$file" ] || wrong "share/doc/vlt has no $file"
done
absent "$usr/share/doc/vlt/bench" "$usr/share/doc/vlt/docs/bench"
holds "$usr/share/doc/vlt/README.md" '^# vlt: '
for page in "$usr"/share/doc/vlt/*.md "$usr"/share/doc/vlt/docs/*.md; do
    while read -r target; do
        [ -e "$(dirname "$page")/$target" ] || wrong "${page#"$usr"/}: $target: no such file"
    done < <(sed 's/`[^`]*`//g' "$page" | { grep -oE '\]\([a-zA-Z0-9_./-]+' || true; } |
             sed 's/^](//; /^http/d')
done

# ---- manual pages ----
# flags PROGRAM: all names of its flags, from the help of the program and of its verbs.
flags()
{
    local verb verbs=('')
    [ "$1" != vlat ] || mapfile -t verbs < <(vlat --help | sed -n 's/^  vlat \([a-z]*\) .*/\1/p')
    for verb in "${verbs[@]}"; do "$1" $verb --help=all; done | grep -E '^ +(also )?--' | names
}
names() { grep -oE -- '--(\[no_\])?[a-z0-9_]+' | sed 's/\[no_\]//' | LC_ALL=C sort -u; }
# has_all PROGRAM TEXT: each flag of the program is among the names on stdin.
has_all()
{
    LC_ALL=C sort -u | LC_ALL=C comm -23 "$1.flags" - >missing
    [ ! -s missing ] || wrong "$2 lacks $(tr '\n' ' ' <missing)"
}
for program in vprep vtrain vdecode vlat; do
    flags "$program" >"$program.flags"
    [ "$(wc -l <"$program.flags")" -gt 9 ] || wrong "only $(wc -l <"$program.flags") flags"
done
if command -v groff >/dev/null; then
    for page in vlt vprep vtrain vdecode vlat; do
        check "groff $page" 0 groff -man -Tascii -ww -P-cbou "$usr/share/man/man1/$page.1"
        [ ! -s "$stderr" ] || wrong "$page.1: $(cat "$stderr")"
        stdout_has '^NAME'
        [ "$page" != vlt ] || continue
        names <"$stdout" | has_all "$page" "$page.1"
    done
    groff -man -Tascii -P-cbou "$usr/share/man/man1/vlt.1" | tr -s ' \n' ' ' >vlt
    holds vlt 'begin with vprep(1)'
fi

# ---- completions ----
# complete_words WORDS...: the words that bash offers for the last one.
complete_words()
{
    bash -c 'set -u; . "$1/share/bash-completion/completions/$2"; shift
             COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
             "_$1"; [ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' - "$usr" "$@"
}
offers() { complete_words "${@:2}" >words; grep -qxF -e "$1" words || wrong "${*:2}: no $1"; }
for program in vprep vtrain vdecode; do
    complete_words "$program" -- | has_all "$program" bash
    sed -n 's/.*\*\(--[a-z0-9_]*\)\[.*/\1/p' "$usr/share/zsh/vendor-completions/_$program" |
        has_all "$program" zsh
    sed -n 's/.* -l \([^ ]*\) .*/--\1/p' "$usr/share/fish/vendor_completions.d/$program.fish" |
        has_all "$program" fish
done
offers verify vlat ve
offers --repair vlat verify --
offers --no_repair vlat verify --no
offers sample vtrain --posterior ''
offers --posterior vtrain --post
! command -v zsh >/dev/null || for file in "$usr"/share/zsh/vendor-completions/*; do
    check "zsh $file" 0 zsh -n "$file"
done
! command -v fish >/dev/null || for file in "$usr"/share/fish/vendor_completions.d/*; do
    check "fish $file" 0 env HOME="$dir" fish -n "$file"
done

# ---- libvlat ----
if command -v pkg-config >/dev/null; then
    PKG_CONFIG_PATH=$(dirname "$(find "$usr" -name vlat.pc)")
    export PKG_CONFIG_PATH
    cp "$VLT_SOURCE/examples/read.c" .
    need gcc read.c -o read-shared $(pkg-config --cflags --libs vlat)
    lib_dir=$(pkg-config --variable=libdir vlat)
    expect 0 '^42/0' env LD_LIBRARY_PATH="$lib_dir" ./read-shared "$set"
    need gcc read.c -o read-static $(pkg-config --cflags vlat) "$lib_dir/libvlat.a" \
        $(pkg-config --libs-only-l --static vlat | sed 's/-lvlat//')
    expect 0 '^42/0' ./read-static "$set"
fi
