/* fuzz_safetensors.c - any bytes as a safetensors file: an error, or views that stay inside. */
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "tests/mutate.h"

/* Reads every byte that a view claims, so that a sanitizer sees a wrong one. */
static void touch(const vf_view *v, volatile unsigned *sum)
{
    const uint8_t *p = v->data;

    if ((uint64_t)vf_view_count(v) * vc_dtype_size(v->dtype) != v->bytes)
        abort();
    for (size_t i = 0; i < v->bytes; i++)
        *sum += p[i];
    *sum += (unsigned)strlen(v->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vf_safetensors *f;
    vc_err err;
    volatile unsigned sum = 0;

    if (vf_safetensors_parse(&f, data, size, &err))
        return 0;
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        vf_view v;
        if (vf_safetensors_get(f, vf_safetensors_at(f, i)->name, &v, &err))
            abort();
        touch(&v, &sum);
    }
    vf_safetensors_meta(f, "xxh3");
    vf_safetensors_check(f, &err);
    vf_safetensors_close(f);
    return 0;
}
