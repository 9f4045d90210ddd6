/* npz.c - see npz.h */
#include "formats/tensors/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/tensors/pt_parts.h"

enum { MAGIC = 8, ALIGN = 64 };              /* bytes before the header's length; of the header */

static const struct {
    const char *descr;
    vc_dtype dtype;
} types[] = {
    { "<f4", VC_F32 }, { "<f2", VC_F16 }, { "<f8", VC_F64 }, { "<i8", VC_I64 }, { "<i4", VC_I32 },
    { "<i2", VC_I16 }, { "|i1", VC_I8 }, { "|u1", VC_U8 }, { "|b1", VC_BOOL },
};
enum { TYPES = sizeof types / sizeof *types };

/* ---- reading ---- */

/* Returns the text behind 'KEY': of a header, without blanks; NULL: the header has no such key. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

/* Parses "(16, 32, 64)", "(3,)" or "()". False: no such text, or too many dimensions or bytes. */
static bool parse_shape(vf_view *v, const char *s, size_t size, size_t room)
{
    size_t bytes = size;
    if (!s || *s++ != '(')
        return false;
    for (v->nd = 0; *(s += strspn(s, " ,")) != ')'; v->nd++) {
        char *end;
        if (*s < '0' || *s > '9' || v->nd == (int)(sizeof v->dim / sizeof *v->dim))
            return false;
        unsigned long long n = strtoull(s, &end, 10);
        if (n > (uint64_t)1 << 40 || (n && bytes > room / n))
            return false;
        v->dim[v->nd] = (int64_t)n;
        bytes *= (size_t)n;
        s = end;
    }
    v->bytes = bytes;
    return bytes <= room;
}

/* Makes the value of a member. The array's bytes are copied, since a member has any offset. */
static int read_array(vf_pt *p, const vf_pt_member *m, vf_pt_value *out, vc_err *err)
{
    const uint8_t *b = m->data;
    const int wide = m->size > MAGIC && b[6] > 1 ? 4 : 2;        /* bytes of the header's length */
    size_t n = 0, from = MAGIC + (size_t)wide;
    if (m->size < from || memcmp(b, "\x93NUMPY", 6) || b[6] > 3)
        return vc_fail(err, VC_EFORMAT, "%s: no array of numpy", m->name);
    for (int i = wide; i-- > 0;)
        n = n << 8 | b[MAGIC + i];
    if (n > m->size - from)
        return vc_fail(err, VC_EFORMAT, "%s: cut short", m->name);
    char *header = strndup((const char *)b + from, n);
    vf_view *v = vf_pt_alloc(p, sizeof *v);
    if (!header || !v) {
        free(header);
        return vc_no_memory(err);
    }
    const char *descr = value_of(header, "descr"), *order = value_of(header, "fortran_order");
    const char *shape = value_of(header, "shape");
    const size_t room = m->size - from - n;
    int rc = 0, t = 0;
    while (t < TYPES && !(descr && *descr == '\'' && !strncmp(descr + 1, types[t].descr, 3)))
        t++;
    *out = (vf_pt_value){ .kind = VF_PT_OPAQUE, .s = "" };
    if (t < TYPES && order && !strncmp(order, "False", 5)) {
        v->dtype = types[t].dtype;
        void *data = NULL;
        if (!parse_shape(v, shape, vc_dtype_size(v->dtype), room))
            rc = vc_fail(err, VC_EFORMAT, "%s: its shape does not fit its %zu bytes", m->name,
                         room);
        else if (!(data = vf_pt_alloc(p, v->bytes + 1)))
            rc = vc_no_memory(err);
        else
            memcpy(data, b + from + n, v->bytes);
        v->data = data;
        *out = (vf_pt_value){ .kind = VF_PT_TENSOR, .tensor = v };
    }
    free(header);
    return rc;
}

static int read_arrays(vf_pt *p, vc_err *err)
{
    size_t n = p->n_members;
    vf_pt_value *dict = vf_pt_alloc(p, sizeof *dict);
    vf_pt_value *value = vf_pt_alloc(p, (2 * n + 1) * sizeof *value);
    const vf_pt_value **item = vf_pt_alloc(p, (2 * n + 1) * sizeof *item);
    int rc = dict && value && item ? 0 : vc_no_memory(err);
    for (size_t i = 0; !rc && i < n; i++) {
        const vf_pt_member *m = &p->member[i];
        size_t k = strlen(m->name);
        k -= k > 4 && !strcmp(m->name + k - 4, ".npy") ? 4 : 0;
        value[2 * i] = (vf_pt_value){ .kind = VF_PT_STR, .s = m->name, .n = k };
        rc = read_array(p, m, &value[2 * i + 1], err);
        item[2 * i] = &value[2 * i];
        item[2 * i + 1] = &value[2 * i + 1];
    }
    if (rc)
        return rc;
    *dict = (vf_pt_value){ .kind = VF_PT_DICT, .item = item, .n = n };
    p->root = dict;
    return 0;
}

int vf_npz_open(vf_pt **out, const char *path, vc_err *err)
{
    *out = NULL;
    vf_pt *p = calloc(1, sizeof *p);
    int rc = p ? vc_map_open(&p->map, path, err) : vc_no_memory(err);
    if (!rc) {
        p->numpy = true;
        rc = vf_pt_zip(p, p->map.data, p->map.size, true, err);
        if (!rc)
            rc = read_arrays(p, err);
        rc = vc_context(err, rc, "%s", path);
    }
    if (rc)
        vf_pt_close(p);
    else
        *out = p;
    return rc;
}

/* ---- writing ---- */

static int put_array(vc_buf *b, const vf_view *v, vc_err *err)
{
    char header[512];
    int t = 0, n;
    while (t < TYPES && types[t].dtype != v->dtype)
        t++;
    if (t == TYPES)
        return vc_fail(err, VC_EINVAL, "numpy has no type %s", vc_dtype_name(v->dtype));
    n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                 types[t].descr);
    for (int i = 0; i < v->nd; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,%s", (long long)v->dim[i],
                      i + 1 < v->nd ? " " : "");
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    while ((MAGIC + 2 + n + 1) % ALIGN)
        header[n++] = ' ';
    header[n++] = '\n';
    vc_buf_add(b, "\x93NUMPY\1", 8);
    vc_buf_add(b, (const uint8_t[]){ (uint8_t)n, (uint8_t)(n >> 8) }, 2);
    vc_buf_add(b, header, (size_t)n);
    vc_buf_add(b, v->data, v->bytes);
    return b->failed ? vc_no_memory(err) : 0;
}

int vf_npz_pack(char **out, size_t *size, const vf_pt_value *d, vc_err *err)
{
    vf_pt_member *m = calloc(d->n + 1, sizeof *m);
    vc_buf *b = calloc(d->n + 1, sizeof *b);
    int rc = m && b ? 0 : vc_no_memory(err);
    *out = NULL;
    for (size_t i = 0; !rc && i < d->n; i++) {
        const vf_pt_value *key = d->item[2 * i];
        rc = put_array(&b[i], d->item[2 * i + 1]->tensor, err);
        m[i] = (vf_pt_member){ vc_format("%.*s.npy", (int)key->n, key->s),
                               (const uint8_t *)b[i].data, b[i].n };
        if (!rc && !m[i].name)
            rc = vc_no_memory(err);
    }
    if (!rc)
        rc = vf_pt_zip_pack(out, size, m, d->n, err);
    for (size_t i = 0; m && b && i < d->n; i++) {
        free(m[i].name);
        vc_buf_free(&b[i]);
    }
    free(m);
    free(b);
    return rc;
}
