/* fuzz_npz.c - any bytes are read as a zip of numpy's arrays: an error, or a dictionary whose
 * tensors are all readable. Checksums of members are not compared, as no fuzzer makes them. */
#include <stdlib.h>

#include "formats/tensors/npz.h"
#include "formats/tensors/pt_parts.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

static void touch(const vf_pt_value *v)
{
    if (v->kind == VF_PT_TENSOR)
        mutate_touch(v->tensor->data, v->tensor->bytes);
    else if (v->kind == VF_PT_STR || v->kind == VF_PT_BYTES || v->kind == VF_PT_OPAQUE)
        mutate_touch(v->s, v->n);
    for (size_t i = 0; v->kind == VF_PT_DICT && i < 2 * v->n; i++)
        touch(v->item[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vc_err err = { 0 };
    vf_pt *p = NULL, *zip = calloc(1, sizeof *zip);
    if (!zip)
        return 0;
    if (!vf_pt_zip(zip, data, size, false, &err))
        for (size_t i = 0; i < zip->n_members; i++)
            mutate_touch(zip->member[i].data, zip->member[i].size);
    vf_pt_close(zip);
    int rc = vf_npz_open(&p, fuzz_file("a.npz", data, size), &err);
    if (rc && (!*err.text || p))
        abort();                             /* a failure without a message */
    if (!rc)
        touch(vf_pt_root(p));
    vf_pt_close(p);
    return 0;
}
