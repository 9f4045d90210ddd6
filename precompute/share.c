/* share.c - which of the work is this process's; see vprep.h */
#include <stdio.h>
#include <string.h>

#include "precompute/vprep.h"

enum { MAX_PARTS = 100000 };

int vprep_parse_shard(vprep *p, vc_err *err)
{
    const char *s = p->c.shard;
    unsigned i, n;
    int end = 0;

    p->part = 0;
    p->parts = 1;
    if (!s)
        return 0;
    if (strspn(s, "0123456789/") != strlen(s) || sscanf(s, "%6u/%6u%n", &i, &n, &end) != 2 || s[end])
        return vc_fail(err, VC_EUSAGE, "--shard %s: expected i/n, as in 1/4", s);
    if (i < 1 || i > n || n > MAX_PARTS)
        return vc_fail(err, VC_EUSAGE, "--shard %s: i/n with i from 1 to n, and n at most %d", s,
                       MAX_PARTS);
    p->part = i - 1;
    p->parts = n;
    return 0;
}

bool vprep_is_mine(const vprep *p, const vf_row *row)
{
    uint64_t h;
    vf_key k = vf_hash(row->path, strlen(row->path));

    memcpy(&h, k.b, sizeof h);
    return p->parts < 2 || h % p->parts == p->part;
}
