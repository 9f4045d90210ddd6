# fault.sh - runs programs with lib/fault.c preloaded. Scripts source this file. VLT_FAULT_MEMORY is
# 0 in a build with a sanitizer, which allocates the memory itself: rules about memory never apply
# there. With VLT_FAULT_LIMIT=SECONDS a program that hangs ends with status 124.
#
#   fault 'write@shard:3:ENOSPC' PROGRAM ARGUMENTS...     the rules are explained in fault.c
#   calls_of KIND PROGRAM ARGUMENTS...                    prints the number of calls of one kind
#   all_calls_of PROGRAM ARGUMENTS...                     prints a line KIND NUMBER for each kind
fault()
{
    local rules=$1
    shift
    ${VLT_FAULT_LIMIT:+timeout -s ABRT "$VLT_FAULT_LIMIT"} env \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$VLT_FAULT_LIB" \
        VLT_FAULT="$rules" "$@"
}

calls_of()
{
    local kind=$1
    shift
    all_calls_of "$@" | awk -v kind="$kind" '$1 == kind { n = $2 } END { print n + 0 }'
}

all_calls_of()
{
    local file
    file=$(mktemp)
    VLT_FAULT_COUNT=$file fault '' "$@" >/dev/null 2>&1
    awk '{ n[$1] += $2 } END { for (kind in n) print kind, n[kind] }' "$file"
    rm -f "$file"
}
