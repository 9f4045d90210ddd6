/* fuzz_pt.c - any bytes are read as a .pt file or, without the first bytes of a zip, as the pickle
 * of a .pt file with a storage of 96 bytes: an error, or a value whose bytes are all readable. */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"
#include "tests/lib/mutate.h"

/* Reads every byte of a value down to a limited depth, because a value may contain itself. */
static unsigned touch(const vf_pt_value *v, int depth)
{
    unsigned sum = 0;
    size_t n = v->kind == VF_PT_DICT ? 2 * v->n : v->n;
    if (v->kind == VF_PT_TENSOR)
        for (size_t i = 0; i < v->tensor->bytes; i++)
            sum += ((const uint8_t *)v->tensor->data)[i];
    else if (v->kind == VF_PT_STR || v->kind == VF_PT_BYTES || v->kind == VF_PT_OPAQUE)
        for (size_t i = 0; i < v->n; i++)
            sum += (uint8_t)v->s[i];
    else if (v->kind == VF_PT_LIST || v->kind == VF_PT_TUPLE || v->kind == VF_PT_DICT)
        for (size_t i = 0; depth < 4 && i < n && i < 100; i++)
            sum += touch(v->item[i], depth + 1);
    return sum;
}

static int parse_pickle(vf_pt **out, const uint8_t *data, size_t size, vc_err *err)
{
    static const uint8_t storage[96];
    vf_pt *p = calloc(1, sizeof *p);
    p->member = calloc(1, sizeof *p->member);
    p->n_members = 1;
    *p->member = (vf_pt_member){ strdup("data/0"), storage, 96 };
    p->may_pack = 1 << 20;
    int rc = vf_pt_unpickle(p, data, size, err);
    if (rc)
        vf_pt_close(p);
    *out = rc ? NULL : p;
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vc_err err = { 0 };
    vf_pt *p;
    volatile unsigned sum = 0;
    int rc = size > 1 && !memcmp(data, "PK", 2) ? vf_pt_parse(&p, data, size, &err)
                                                : parse_pickle(&p, data, size, &err);
    if (rc && (!*err.text || err.code != rc || p))
        abort();                             /* a failure without a message */
    if (!rc)
        sum = touch(vf_pt_root(p), 0);
    (void)sum;
    vf_pt_close(p);
    return 0;
}
