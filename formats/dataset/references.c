/* references.c - see references.h */
#include "formats/dataset/references.h"

#include "formats/json/json.h"

/* Reads `latent`, [1,h,w], of a reference. */
static int read_size(uint16_t size[2], const cJSON *o, vc_err *err)
{
    const cJSON *list;
    int rc = vf_json_arr(o, "latent", &list, err);

    for (int i = 0; !rc && i < 3; i++) {
        const cJSON *x = cJSON_GetArrayItem(list, i);
        const double v = cJSON_IsNumber(x) ? x->valuedouble : 0;
        if (v < 1 || v > (i ? UINT16_MAX : 1) || v != (uint16_t)v || cJSON_GetArraySize(list) != 3)
            return vc_fail(err, VC_EFORMAT, "latent: [1,h,w] of 1..%d expected", UINT16_MAX);
        if (i)
            size[i - 1] = (uint16_t)v;
    }
    return rc;
}

int vf_references_read(vf_references *r, const cJSON *list, vc_err *err)
{
    const cJSON *o;

    *r = (vf_references){ 0 };
    if (list && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return vc_fail(err, VC_EFORMAT, "references: a list expected");
    cJSON_ArrayForEach(o, list) {
        if (r->n == VC_REFERENCES)
            return vc_fail(err, VC_EFORMAT, "references: at most %d expected", VC_REFERENCES);
        int rc = read_size(r->size[r->n], o, err);
        if (rc)
            return vc_context(err, rc, "references[%d]", r->n);
        r->n++;
    }
    return 0;
}
