/* pt_write.c - writes .pt files; see pt.h */
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "formats/tensors/pt_parts.h"

enum { MAX_DEPTH = 32, MAX_TENSORS = 4096 };

typedef struct writer {
    vc_buf pickle;
    const vf_view *tensor[MAX_TENSORS];      /* tensors of the members data/0, data/1, ... */
    int n;
    vc_err *err;
} writer;

/* ---- the pickle, protocol 2 ---- */

static void put_op(writer *w, char op)
{
    vc_buf_add(&w->pickle, &op, 1);
}

static void put_le(writer *w, uint64_t v, int bytes)
{
    uint8_t b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    vc_buf_add(&w->pickle, b, (size_t)bytes);
}

static void put_int(writer *w, int64_t v)
{
    if (v == (int32_t)v) {
        put_op(w, 'J');
        put_le(w, (uint64_t)v, 4);
    } else {
        put_op(w, (char)0x8a);
        put_op(w, 8);
        put_le(w, (uint64_t)v, 8);
    }
}

static void put_text(writer *w, const char *s, size_t n)
{
    put_op(w, 'X');
    put_le(w, n, 4);
    vc_buf_add(&w->pickle, s, n);
}

static void put_float(writer *w, double f)
{
    uint64_t u;
    memcpy(&u, &f, 8);
    put_op(w, 'G');
    put_le(w, __builtin_bswap64(u), 8);
}

/* Writes bytes as a call of _codecs.encode, as protocol 2 has no bytes. */
static void put_bytes(writer *w, const char *s, size_t n)
{
    size_t high = 0;
    for (size_t i = 0; i < n; i++)
        high += (uint8_t)s[i] >= 0x80;
    vc_buf_str(&w->pickle, "c_codecs\nencode\n");
    put_op(w, 'X');
    put_le(w, n + high, 4);
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if (c >= 0x80)
            put_op(w, (char)(0xc0 | c >> 6));
        put_op(w, (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c));
    }
    put_text(w, "latin1", 6);
    put_op(w, (char)0x86);
    put_op(w, 'R');
}

static const vf_pt_type *type_of(vc_dtype t)
{
    const vf_pt_type *x = vf_pt_types;
    while (x->name && x->dtype != t)
        x++;
    return x->name ? x : NULL;
}

/* Writes the persistent id of a storage: ("storage", torch.FloatStorage, "0", "cpu", elements). */
static void put_storage(writer *w, const vf_view *v, const vf_pt_type *t)
{
    char key[16];
    put_op(w, '(');
    put_text(w, "storage", 7);
    if (t->storage)
        vc_buf_printf(&w->pickle, "ctorch\n%s\n", t->storage);
    else
        vc_buf_str(&w->pickle, "ctorch.storage\nUntypedStorage\n");
    put_text(w, key, (size_t)snprintf(key, sizeof key, "%d", w->n));
    put_text(w, "cpu", 3);
    put_int(w, (int64_t)(t->storage ? v->bytes / vc_dtype_size(v->dtype) : v->bytes));
    put_op(w, 't');
    put_op(w, 'Q');
}

static int put_tensor(writer *w, const vf_view *v)
{
    const vf_pt_type *t = type_of(v->dtype);
    if (!t || w->n == MAX_TENSORS)
        return vc_fail(w->err, VC_EINVAL, "no .pt file can hold this tensor, or over %d tensors",
                       MAX_TENSORS);
    vc_buf_printf(&w->pickle, "ctorch._utils\n_rebuild_tensor_v%d\n", t->storage ? 2 : 3);
    put_op(w, '(');
    put_storage(w, v, t);
    put_int(w, 0);
    put_op(w, '(');
    for (int i = 0; i < v->nd; i++)
        put_int(w, v->dim[i]);
    put_op(w, 't');
    put_op(w, '(');
    for (int i = 0; i < v->nd; i++) {
        int64_t stride = 1;
        for (int k = i + 1; k < v->nd; k++)
            stride *= v->dim[k];
        put_int(w, stride);
    }
    put_op(w, 't');
    put_op(w, (char)0x89);
    vc_buf_str(&w->pickle, "ccollections\nOrderedDict\n)R");
    if (!t->storage)
        vc_buf_printf(&w->pickle, "ctorch\n%s\nN", t->name);
    put_op(w, 't');
    put_op(w, 'R');
    w->tensor[w->n++] = v;
    return 0;
}

static int put_value(writer *w, const vf_pt_value *v, int depth)
{
    static const char open[] = { [VF_PT_LIST] = ']', [VF_PT_TUPLE] = '(', [VF_PT_DICT] = '}' };
    static const char close[] = { [VF_PT_LIST] = 'e', [VF_PT_TUPLE] = 't', [VF_PT_DICT] = 'u' };
    int rc = 0;
    if (depth > MAX_DEPTH || v->kind == VF_PT_OPAQUE)
        return vc_fail(w->err, VC_EINVAL, "a value that no .pt file can hold");
    switch (v->kind) {
    case VF_PT_NONE: put_op(w, 'N'); return 0;
    case VF_PT_BOOL: put_op(w, (char)(v->i ? 0x88 : 0x89)); return 0;
    case VF_PT_INT: put_int(w, v->i); return 0;
    case VF_PT_FLOAT: put_float(w, v->f); return 0;
    case VF_PT_STR: case VF_PT_BYTES:
        if (v->n > UINT32_MAX / 2)
            return vc_fail(w->err, VC_EINVAL, "%zu bytes of text", v->n);
        v->kind == VF_PT_STR ? put_text(w, v->s, v->n) : put_bytes(w, v->s, v->n);
        return 0;
    case VF_PT_TENSOR: return put_tensor(w, v->tensor);
    default: break;
    }
    put_op(w, open[v->kind]);
    if (v->kind != VF_PT_TUPLE)
        put_op(w, '(');
    for (size_t i = 0; !rc && i < (v->kind == VF_PT_DICT ? 2 * v->n : v->n); i++)
        rc = put_value(w, v->item[i], depth + 1);
    put_op(w, close[v->kind]);
    return rc;
}

/* ---- the zip ---- */

static la_ssize_t take_zip(struct archive *a, void *arg, const void *data, size_t n)
{
    vc_buf *zip = arg;
    vc_buf_add(zip, data, n);
    if (!zip->failed)
        return (la_ssize_t)n;
    archive_set_error(a, ARCHIVE_FATAL, "out of memory");
    return -1;
}

static int put_member(struct archive *a, const vf_pt_member *m)
{
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return ARCHIVE_FATAL;
    archive_entry_set_pathname(e, m->name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)m->size);
    int bad = archive_write_header(a, e);
    archive_entry_free(e);
    if (!bad && m->size && archive_write_data(a, m->data, m->size) != (la_ssize_t)m->size)
        bad = ARCHIVE_FATAL;
    return bad ? bad : archive_write_finish_entry(a);
}

static int put_members(const vf_pt_member *m, size_t n, struct archive *a, vc_buf *zip)
{
    int bad = archive_write_set_format_zip(a);
    if (!bad)
        bad = archive_write_set_format_option(a, "zip", "compression", "store");
    if (!bad)
        bad = archive_write_set_bytes_in_last_block(a, 1);
    if (!bad)
        bad = archive_write_open2(a, zip, NULL, take_zip, NULL, NULL);
    for (size_t i = 0; !bad && i < n; i++)
        bad = put_member(a, &m[i]);
    return bad ? bad : archive_write_close(a);
}

int vf_pt_zip_pack(char **out, size_t *size, const vf_pt_member *m, size_t n, vc_err *err)
{
    vc_buf zip = { 0 };
    struct archive *a = archive_write_new();
    int rc = 0;
    *out = NULL;
    if (!a)
        rc = vc_no_memory(err);
    else if (put_members(m, n, a, &zip))
        rc = vc_fail(err, zip.failed ? VC_ENOMEM : VC_EFAIL, "%s",
                     archive_error_string(a) ? archive_error_string(a) : "no zip could be made");
    archive_write_free(a);
    *size = zip.n;
    if (!rc && !(*out = vc_buf_take(&zip)))
        rc = vc_no_memory(err);
    vc_buf_free(&zip);
    return rc;
}

/* Packs the pickle and the tensors, whose member data/N is tensor N. */
static int make_zip(const writer *w, char **out, size_t *size, vc_err *err)
{
    enum { NAME = 24 };
    size_t n = 0;
    vf_pt_member *m = calloc((size_t)w->n + 3, sizeof *m);
    char (*name)[NAME] = malloc(((size_t)w->n + 1) * sizeof *name);
    int rc = m && name && !w->pickle.failed ? 0 : vc_no_memory(err);
    if (!rc) {
        m[n++] = (vf_pt_member){ (char[]){ "archive/data.pkl" }, (const uint8_t *)w->pickle.data,
                                 w->pickle.n };
        m[n++] = (vf_pt_member){ (char[]){ "archive/byteorder" }, (const uint8_t *)"little", 6 };
        for (int i = 0; i < w->n; i++) {
            snprintf(name[i], NAME, "archive/data/%d", i);
            m[n++] = (vf_pt_member){ name[i], w->tensor[i]->data, w->tensor[i]->bytes };
        }
        m[n++] = (vf_pt_member){ (char[]){ "archive/version" }, (const uint8_t *)"3\n", 2 };
        rc = vf_pt_zip_pack(out, size, m, n, err);
    }
    free(name);
    free(m);
    return rc;
}

int vf_pt_pack(char **out, size_t *size, const vf_pt_value *v, vc_err *err)
{
    *out = NULL;
    *size = 0;
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return vc_no_memory(err);
    w->err = err;
    vc_buf_add(&w->pickle, "\x80\x02", 2);
    int rc = put_value(w, v, 0);
    put_op(w, '.');
    if (!rc)
        rc = make_zip(w, out, size, err);
    vc_buf_free(&w->pickle);
    free(w);
    return rc;
}
