/* pt_read.c - opens .pt files, and gets values by their keys; see pt.h */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"

/* ---- the file ---- */

static int read_members(vf_pt *p, const void *data, size_t size, bool check, vc_err *err)
{
    int rc = vf_pt_zip(p, data, size, check, err);
    if (rc)
        return rc;
    const vf_pt_member *pickle = vf_pt_find(p, "data.pkl"), *order = vf_pt_find(p, "byteorder");
    if (!pickle)
        return vc_fail(err, VC_EFORMAT, "data.pkl: missing: not written by torch.save");
    if (order && (order->size != 6 || memcmp(order->data, "little", 6)))
        return vc_fail(err, VC_EFORMAT, "byteorder: only little-endian files are read");
    p->may_pack = 2 * size + ((size_t)16 << 20);
    return vc_context(err, vf_pt_unpickle(p, pickle->data, pickle->size, err), "data.pkl");
}

static int finish(vf_pt **out, vf_pt *p, int rc)
{
    *out = rc ? NULL : p;
    if (rc)
        vf_pt_close(p);
    return rc;
}

int vf_pt_parse(vf_pt **out, const void *data, size_t size, vc_err *err)
{
    *out = NULL;
    vf_pt *p = calloc(1, sizeof *p);
    void *copy = p ? vf_pt_alloc(p, size + 1) : NULL;
    if (copy && size)
        memcpy(copy, data, size);
    return finish(out, p, copy ? read_members(p, copy, size, true, err) : vc_no_memory(err));
}

static int open_mapped(vf_pt **out, const char *path, bool check, vc_err *err)
{
    *out = NULL;
    vf_pt *p = calloc(1, sizeof *p);
    int rc = p ? vc_map_open(&p->map, path, err) : vc_no_memory(err);
    if (!rc)
        rc = vc_context(err, read_members(p, p->map.data, p->map.size, check, err), "%s", path);
    return finish(out, p, rc);
}

int vf_pt_open(vf_pt **out, const char *path, vc_err *err)
{
    return open_mapped(out, path, true, err);
}

int vf_pt_open_weights(vf_pt **out, const char *path, vc_err *err)
{
    return open_mapped(out, path, false, err);
}

void vf_pt_release(const vf_pt *p)
{
    vc_map_release(&p->map);
}

/* ---- values ---- */

const vf_pt_value *vf_pt_root(const vf_pt *p)
{
    return p->root;
}

const vf_pt_value *vf_pt_get(const vf_pt_value *v, const char *key)
{
    size_t n = strlen(key);
    if (!v || v->kind != VF_PT_DICT)
        return NULL;
    for (size_t i = v->n; i-- > 0;) {
        const vf_pt_value *k = v->item[2 * i];
        if (k->kind == VF_PT_STR && k->n == n && !memcmp(k->s, key, n))
            return v->item[2 * i + 1];
    }
    return NULL;
}

int vf_pt_tensor(const vf_pt_value *v, const char *key, vf_view *t, vc_err *err)
{
    const vf_pt_value *x = vf_pt_get(v, key);
    if (!x || x->kind == VF_PT_NONE)
        return vc_fail(err, VC_ENOENT, "%s: missing", key);
    if (x->kind != VF_PT_TENSOR)
        return vc_fail(err, VC_EFORMAT, "%s: expected a tensor", key);
    *t = *x->tensor;
    return 0;
}
