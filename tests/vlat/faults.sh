#!/usr/bin/env bash
# faults.sh kill|error: verbs that write, and a vprep that continues a dataset, are killed before
# one counted call, or this call fails. Their inputs stay unchanged, a replaced file is the old or
# the new one at every moment, no whole file is lost, readers and a vprep that runs next succeed,
# and the same command again gives the undisturbed result. By default a sample of the calls is
# disturbed; with VLT_KILLS=all every call is. With VLT_RULES="CALL:ERROR..." these calls alone
# fail.
mode=${1:?}
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
# Files in memory are faster; the test needs no disk.
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
points=0

small_set media 7
prep=(vprep --meta media/metadata.json "${sampling[@]}" --out)
need "${prep[@]}" base
vlat select base 'sample >= 2' --out less >log 2>&1
mkdir base/mine
echo mine | tee base/notes >base/mine/notes
others() { [ "$(cat "$1/notes" "$1/mine/notes" 2>/dev/null)" = $'mine\nmine' ]; }
base=$(root base)
cp -r base broken
byte=$(grep -abo '"xxh3"' broken/shard-00000.lmdb | head -1 | cut -d: -f1)
printf '\xff\xff\xff' | dd of=broken/shard-00000.lmdb bs=1 seek=$((byte + 200)) conv=notrunc \
    2>/dev/null

# ---- verbs ----
# start_VERB makes the state at the beginning; run_VERB COMMAND... runs the verb, with `vlat` as
# COMMAND's last word; always_VERB holds at every moment, and end_VERB after an undisturbed end.

start_gc() { cp -r base d; }
run_gc() { "$@" gc d; }
always_gc() { whole d && [ "$(root d)" = "$base" ]; }
end_gc() { always_gc && others d && [ ! -e d.gc ]; }

start_repair() { cp -r broken d; }
run_repair() { "$@" verify d --repair; }
always_repair() { cmp -s d/shard-00000.lmdb broken/shard-00000.lmdb || whole d; }
end_repair() {
    whole d && others d && [ ! -e d.repair ] && [ ! -e d/repair.pending ] &&
        [ -s d/repair.jsonl ] &&
        cmp d.damaged/shard-00000.lmdb broken/shard-00000.lmdb &&
        { [ "$(root d)" = "$repaired" ] || { [ $between = prep ] && [ "$(root d)" = "$base" ]; }; }
}

start_nothing() { cp -r base d; }            # a dataset without damage is repaired
run_nothing() { "$@" verify d --repair; }
always_nothing() { whole d && [ "$(root d)" = "$base" ] && others d && [ ! -e d.damaged ]; }
end_nothing() { always_nothing && [ ! -e d.repair ]; }

start_prep() { cp -r base d; }               # vprep has nothing to encode
run_prep() { "${@:1:$#-1}" "${prep[@]}" d; }
always_prep() { cmp -s d/shard-00000.lmdb base/shard-00000.lmdb &&
    grep -q ' 0 encoded\|vprep: ' log; }
end_prep() { always_gc && always_prep; }

made() { [ "$(root base)" = "$base" ] && { ! whole "$1" || [ "$(root "$1")" = "$2" ]; }; }
start_merge() { :; }
run_merge() { "$@" merge base less --out d; }
always_merge() { made d "$merged"; }
end_merge() { whole d && made d "$merged"; }
start_select() { :; }
run_select() { "$@" select base 'sample >= 3' --out d; }
always_select() { made d "$selected"; }
end_select() { whole d && made d "$selected"; }
start_split() { :; }
run_split() { "$@" split base --n 2 --out d; }
always_split() { made d-00 "$split0" && made d-01 "$split1"; }
end_split() { whole d-00 && whole d-01 && always_split; }
done_already() { case $1 in merge | select) whole d ;; *) false ;; esac; }

clear_all() { rm -rf d d.* d-*; }
quietly() { "$@" >log 2>&1; }
merged='' selected='' split0='' split1='' repaired=''
for verb in repair merge select split; do
    clear_all
    start_$verb
    quietly run_$verb vlat || wrong "$verb: failed undisturbed"
    case $verb in
        repair) repaired=$(root d) ;;
        merge) merged=$(root d) ;;
        select) selected=$(root d) ;;
        split) split0=$(root d-00) split1=$(root d-01) ;;
    esac
done

# in_between VERB: runs the command of $between after the disturbed VERB.
in_between()
{
    case $between in
        info) quietly vlat info base || wrong "info: $(cat log)"
              [ ! -e d ] || case $1 in gc | repair) quietly vlat info d ||
                  wrong "info: $(cat log)" ;; esac ;;
        prep) case $1 in gc | repair) quietly "${prep[@]}" d || wrong "vprep: $(cat log)" ;; esac ;;
    esac
}

# point VERB CALL ACTION: disturbs one call of VERB; returns 1 if VERB has no such call.
point()
{
    local verb=$1 status=0
    at="$verb, $2:$3, then $between"
    clear_all
    start_$verb
    VLT_FAULT_COUNT=$dir/count quietly run_$verb fault "$2:$3" vlat || status=$?
    [ -s log ] || [ $status -eq 137 ] || wrong "status $status without a message"
    case $3:$status in
        kill:137) ;;
        kill:0) return 1 ;;
        kill:* | *:[!01]*) wrong "$at: status $status: $(cat log)"; return 1 ;;
        *:1) ;;                              # a program without memory may not count its calls
        *) [ "$(awk -v call="${2%%[@:]*}" '$1 == call { n += $2 }
                END { print n }' count)" -ge "${2##*:}" ] || { rm -f count; return 1; } ;;
    esac
    rm -f count
    points=$((points + 1))
    always_$verb || wrong "$at: status $status, neither the old nor the new state: $(cat log)"
    in_between $verb
    [ $status -eq 0 ] || done_already $verb || quietly run_$verb vlat ||
        wrong "$at: run again: $(cat log)"
    end_$verb || wrong "$at: the result differs: $(ls -d d* d/*)"
}

# next_between: chooses the next command for in_between; after failed calls there is none.
round=0
next_between()
{
    local all=(nothing info prep)
    between=nothing
    [ "$mode" = error ] || between=${all[round = (round + 1) % 3]}
}

# walk VERB CALL ACTION PARTS: disturbs about PARTS calls of VERB, or with VLT_KILLS=all every call.
walk()
{
    local verb=$1 call=$2 action=$3 step=1 n i
    clear_all
    start_$verb
    between=
    VLT_FAULT_COUNT=$dir/count run_$verb fault '' vlat >/dev/null 2>&1
    n=$(awk -v call="${call%@*}" '$1 == call { n += $2 }
            END { print n + 0 }' count)
    rm -f count
    [ "${VLT_KILLS:-}" = all ] || step=$((n / $4 + 1))
    for ((i = step; i <= n; i += step)); do
        next_between
        point "$verb" "$call:$i" "$action" || break
    done
}

case $mode in
    kill)
        for verb in gc repair merge select split; do
            [ "${VLT_KILLS:-}" = all ] || { walk $verb rename kill 20; walk $verb unlink kill 20; }
            walk $verb any kill 12
            echo "$verb: $points kills so far"
        done ;;
    error)
        for verb in gc repair nothing merge select split prep; do
            for rule in open@shard:EMFILE:5 open@shard:EACCES:3 read@shard:EIO:3 \
                mmap@shard:ENOMEM:4 any:EIO:8 memory:ENOMEM:8; do
                IFS=: read -r call action parts <<<"$rule"
                [[ " ${VLT_RULES:-$call:$action} " == *" $call:$action "* ]] || continue
                case $verb:$call:$VLT_FAULT_MEMORY in
                prep:any:* | prep:memory:* | *:memory:0) ;;
                *) walk $verb $call $action $parts ;;
                esac
            done
            echo "$verb: $points failed calls so far"
        done ;;
esac
