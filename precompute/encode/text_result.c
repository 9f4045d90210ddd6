/* text_result.c - an encoded text as a value of the dataset, and as a trace; see vprep.h */
#include <stdio.h>
#include <stdlib.h>

#include "precompute/run/vprep.h"

bool vprep_fits(vc_dtype dtype, const float *v, size_t n)
{
    for (size_t i = 0; dtype == VC_F16 && i < n; i++)
        if (!(v[i] >= -65504.0f && v[i] <= 65504.0f))
            return false;
    return true;
}

int vprep_pack_dtype(vc_dtype *dtype, void **data, const float *v, size_t n, vc_dtype want,
                     vc_err *err)
{
    if (!vprep_fits(want, v, n))
        want = VC_F32;
    *dtype = want;
    *data = malloc(n * vc_dtype_size(want) + 1);
    if (!*data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_from_f32(*data, want, v, n);
    return 0;
}

int vprep_put_text(vprep *p, vf_key key, const text_result *r, vc_err *err)
{
    const vf_view all[2] = {
        { .name = "prompt_embeds", .nd = 2, .dim = { r->n, r->width }, .data = r->embeds },
        { .name = "pooled", .nd = 1, .dim = { r->pooled_width }, .data = r->pooled },
    };
    vf_view t[2];
    int n = 0, rc = 0;
    void *data[2] = { 0 };
    uint8_t *packed = NULL;
    size_t size = 0;

    for (int i = 0; !rc && i < 2; i++) {
        size_t count = (size_t)vf_view_count(&all[i]);
        if (!count)
            continue;
        t[n] = all[i];
        rc = vprep_pack_dtype(&t[n].dtype, &data[n], all[i].data, count, p->c.dtype, err);
        t[n].data = data[n];
        t[n].bytes = count * vc_dtype_size(t[n].dtype);
        n++;
    }
    if (!rc)
        rc = vf_safetensors_pack(&packed, &size, t, n, NULL, 0, 1, err);
    if (!rc)
        rc = vf_writer_put_text(p->writer, key, packed, size, err);
    free(packed);
    free(data[0]);
    free(data[1]);
    return rc;
}

int vprep_trace_text(const vprep *p, int encoder, vf_key key, const text_result *r, vc_err *err)
{
    char hex[VF_KEY_HEX], names[4][32];
    snprintf(names[0], sizeof names[0], "input_ids_%d", encoder + 1);
    snprintf(names[1], sizeof names[1], "attention_mask_%d", encoder + 1);
    snprintf(names[2], sizeof names[2], "prompt_embeds_%d", encoder + 1);
    snprintf(names[3], sizeof names[3], "pooled_%d", encoder + 1);
    vf_view t[VPREP_TEXT_TRACES] = {
        { names[0], VC_I64, 1, { r->length }, r->ids, (size_t)r->length * 8 },
        { names[1], VC_I64, 1, { r->length }, r->mask, (size_t)r->length * 8 },
    };
    int n = 2;
    if (r->n)
        t[n++] = (vf_view){ names[2], VC_F32, 2, { r->n, r->width }, r->embeds,
                            (size_t)r->n * (size_t)r->width * 4 };
    if (r->pooled_width)
        t[n++] = (vf_view){ names[3], VC_F32, 1, { r->pooled_width }, r->pooled,
                            (size_t)r->pooled_width * 4 };
    if (r->pixels) {
        t[n++] = (vf_view){ "cond.vision.pixels", VC_F32, 4, { 1, r->side, r->side, 3 }, r->pixels,
                            (size_t)r->side * (size_t)r->side * 12 };
        t[n++] = (vf_view){ "cond.vision.image_embeds", VC_F32, 2, { r->features, r->width },
                            r->image_embeds, (size_t)r->features * (size_t)r->width * 4 };
    }
    char *path = vc_format("%s/.text-%s.safetensors", p->c.trace_dir, vf_key_hex(hex, key));
    int rc = path ? vf_safetensors_write(path, t, n, NULL, 0, err) : vc_no_memory(err);
    free(path);
    return rc;
}
