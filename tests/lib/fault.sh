# fault.sh - runs programs with lib/fault.c preloaded. Sourced. VLT_FAULT_MEMORY is 0 where a sanitizer
# owns the memory, and rules about it never apply.
#
#   fault 'write@shard:3:ENOSPC' PROGRAM ARGUMENTS...     the rules are explained in fault.c
#   calls_of KIND PROGRAM ARGUMENTS...                    prints how many calls of a kind it makes
fault()
{
    local rules=$1
    shift
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD=$VLT_FAULT_LIB \
        VLT_FAULT=$rules "$@"
}

calls_of()
{
    local kind=$1 file n
    shift
    file=$(mktemp)
    VLT_FAULT_COUNT=$file fault '' "$@" >/dev/null 2>&1
    n=$(awk -v kind="$kind" '$1 == kind { n += $2 } END { print n + 0 }' "$file")
    rm -f "$file"
    echo "$n"
}
