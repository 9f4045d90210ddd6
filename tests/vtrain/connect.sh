#!/usr/bin/env bash
# MPI_Init returns on no rank before all are in it. Ranks that wait there for one that is stopped,
# or that has not started the program, say so after a while, and end after --comm_timeout; a rank
# that comes late is waited for.
. "$(dirname "$0")/../lib/check.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }
. "$lib/vtrain.sh"
export OMP_NUM_THREADS=1
echo '[]' >list.json
vtrain=(vtrain "${small[@]}" "${model[@]}" --output_dir out --max_train_steps 2
    --train_batch_size 1 --global_batch_size 6)
vprep=(vprep --meta list.json --out none.lmdb)

# begin WHO HOW COMMAND...: starts three ranks, of which WHO is stopped before the program starts
# ("start"), or by its own open() of a file of MPI ("init").
begin()
{
    rm -rf pid.* out
    WHO=$1 HOW=$2 "$lib/ranks.sh" 3 bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK
        [ $OMPI_COMM_WORLD_RANK = $WHO ] || exec "$@"
        [ $HOW = start ] && kill -STOP $$
        [ $HOW = init ] && export LD_PRELOAD=$VLT_FAULT_LIB${LD_PRELOAD:+:$LD_PRELOAD} \
            VLT_FAULT=open@mca-params:1:stop
        exec "$@"' - "${@:3}" >"$log" 2>&1 &
    job=$!
}
# ends STATUS: the run ends by itself, soon after the time-out.
ends()
{
    local from=$SECONDS status=0
    while kill -0 $job 2>/dev/null && ((SECONDS - from < 300 + 2 * limit)); do sleep 0.1; done
    ! kill -0 $job 2>/dev/null || { wrong "still runs"; kill -9 $(cat pid.*) $job; }
    wait $job || status=$?
    [ $status -eq "$1" ] || wrong "status $status, expected $1"
}

# ---- a text that only rank 0 prints; what three ranks take to start is a part of the limits ----
from=$SECONDS
for program in vtrain vprep; do
    check "$program" 0 "$lib/ranks.sh" 3 $program --version
    [ "$(grep -c "^$program " "$log")" = 1 ] || wrong "$program --version is printed several times"
done
limit=${VLT_LIMIT:-$((6 + 2 * (SECONDS - from)))}     # a warning comes after half of it

# ---- ranks that do not come ----
for row in '1 init vtrain' '0 start vtrain' '0 init vprep' '2 start vprep'; do
    read -r who how program <<<"$row"
    declare -n command=$program
    begin "$who" "$how" "${command[@]}" --comm_timeout "$limit"
    ends 1
    case $who in 0) rest=1-2 ;; 1) rest='0, 2' ;; 2) rest=0-1 ;; esac
    [ $how = init ] && name=$program || name=bash
    waits="waiting on .*: rank $rest; rank $who ($name, process $(cat pid.$who)) is stopped"
    output_has "^$program: warning: the 3 ranks are not connected after .*$waits; the run ends \
after $limit[.0]* s (--comm_timeout)"
    output_has "^$program: the 3 ranks were not connected within .*--comm_timeout.*$waits"
    [ "$(grep -c 'not connected' "$log")" = 2 ] || wrong "$row: several ranks print"
    gone "$row" pid.*
done

# ---- a rank that comes late ----
begin 1 start "${vtrain[@]}" --comm_timeout 600
until pgrep -r T -F pid.1 >"$stdout" 2>&1; do
    sleep 0.1
    kill -0 $job 2>/dev/null || { wrong "rank 1 does not stop"; break; }
done
sleep 1                                        # the others come to where they wait
kill -CONT "$(cat pid.1)"
ends 0
output_lacks 'not connected'
[ -d out/checkpoint-2 ] || wrong "no end"
