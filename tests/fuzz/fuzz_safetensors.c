/* fuzz_safetensors.c - any bytes are read as a safetensors file: an error, or views inside. */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/safetensors.h"
#include "tests/lib/mutate.h"

static void touch(const vf_view *v)
{
    if ((uint64_t)vf_view_count(v) * vc_dtype_size(v->dtype) != v->bytes)
        abort();
    mutate_touch(v->data, v->bytes);
    mutate_touch(v->name, strlen(v->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vf_safetensors *f;
    vc_err err;

    if (vf_safetensors_parse(&f, data, size, &err))
        return 0;
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        vf_view v;
        if (vf_safetensors_get(f, vf_safetensors_at(f, i)->name, &v, &err))
            abort();
        touch(&v);
    }
    vf_safetensors_meta(f, "xxh3");
    vf_safetensors_check(f, &err);
    vf_safetensors_close(f);
    return 0;
}
