/* same_files.c - see same_files.h */
#include "precompute/vprep/same_files.h"

#include <stdlib.h>

#include "formats/keys/keymap.h"

static vf_key medium_of(const vf_row *row)
{
    vf_hasher h;

    vf_hasher_begin(&h, "medium");
    vf_hasher_str(&h, "file", row->file);
    vf_hasher_int(&h, "at", row->at);
    vf_hasher_int(&h, "size", row->size);
    vf_hasher_int(&h, "column", row->column);
    vf_hasher_int(&h, "type", row->type);
    return vf_hasher_end(&h);
}

int prep_same_files(uint32_t **first, const vprep *p, vc_err *err)
{
    const int64_t n = p->list.meta.n;
    vf_keymap seen = { 0 };
    uint32_t *f = *first = malloc(((size_t)n + 1) * sizeof *f);
    int rc = f ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)n);

    for (int64_t i = 0; !rc && i < n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        uint64_t at;
        f[i] = (uint32_t)i;
        if (row->bad || !vprep_surveys(p, i))
            continue;
        const vf_key k = medium_of(row);
        if (vf_keymap_get(&seen, k, &at))
            f[i] = (uint32_t)at;
        else
            rc = vf_keymap_put(&seen, k, (uint64_t)i, err);
    }
    vf_keymap_free(&seen);
    return rc;
}
