/* pt_read.c - reads the zip of a .pt file; see pt.h */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/pt_parts.h"

enum { MAX_MEMBERS = 1 << 20 };

const vf_pt_type vf_pt_types[] = {
    { VC_F32, "FloatStorage", "float32" },       { VC_F64, "DoubleStorage", "float64" },
    { VC_F16, "HalfStorage", "float16" },        { VC_BF16, "BFloat16Storage", "bfloat16" },
    { VC_I64, "LongStorage", "int64" },          { VC_I32, "IntStorage", "int32" },
    { VC_I16, "ShortStorage", "int16" },         { VC_I8, "CharStorage", "int8" },
    { VC_U8, "ByteStorage", "uint8" },           { VC_BOOL, "BoolStorage", "bool" },
    { VC_F8E4M3, NULL, "float8_e4m3fn" },        { VC_F8E5M2, NULL, "float8_e5m2" },
    { VC_DTYPE_NONE, NULL, NULL },
};

/* ---- memory ---- */

struct vf_pt_block {
    struct vf_pt_block *next;
    size_t used, room;
    _Alignas(64) uint8_t data[];
};

void *vf_pt_alloc(vf_pt *p, size_t n)
{
    enum { BLOCK = 64 << 10 };
    struct vf_pt_block *b = p->blocks;
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 15) & ~(size_t)15;
    if (!b || b->room - b->used < n) {
        size_t room = n > BLOCK ? n : BLOCK;
        if (!(b = calloc(1, sizeof *b + room)))
            return NULL;
        b->room = room;
        b->next = p->blocks;
        p->blocks = b;
    }
    b->used += n;
    return b->data + b->used - n;
}

void vf_pt_close(vf_pt *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_members; i++) {
        free(p->member[i].name);
        free(p->member[i].data);
    }
    free(p->member);
    while (p->blocks) {
        struct vf_pt_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
    free(p);
}

/* ---- the zip ---- */

const vf_pt_member *vf_pt_find(const vf_pt *p, const char *name)
{
    for (size_t i = 0; i < p->n_members; i++)
        if (!strcmp(p->member[i].name, name))
            return &p->member[i];
    return NULL;
}

/* Takes a member and removes its folder from the name: "archive/data/0" becomes "data/0". */
static int take_member(vf_pt *p, struct archive *a, struct archive_entry *e, size_t *left,
                       vc_err *err)
{
    const char *path = archive_entry_pathname(e), *slash = path ? strchr(path, '/') : NULL;
    int64_t size = archive_entry_size(e);
    if (!slash || !archive_entry_size_is_set(e) || archive_entry_filetype(e) != AE_IFREG)
        return 0;                            /* the entry is no member that PyTorch writes */
    if (size < 0 || (uint64_t)size > *left)
        return vc_fail(err, VC_EFORMAT, "%.100s: larger than the file: PyTorch compresses nothing",
                       path);
    if (p->n_members == MAX_MEMBERS)
        return vc_fail(err, VC_EFORMAT, "more than %d members", MAX_MEMBERS);
    if (!(p->n_members & (p->n_members - 1))) {
        size_t room = p->n_members ? 2 * p->n_members : 1;
        vf_pt_member *more = realloc(p->member, room * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        p->member = more;
    }
    vf_pt_member *m = &p->member[p->n_members];
    *m = (vf_pt_member){ strdup(slash + 1), malloc((size_t)size + 1), (size_t)size };
    p->n_members++;
    if (!m->name || !m->data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld bytes", (long long)size);
    *left -= m->size;
    size_t got = 0;
    la_ssize_t n = 0;
    do {                                     /* one byte more, as the end checks the checksum */
        n = archive_read_data(a, m->data + got, m->size + 1 - got);
        got += n > 0 ? (size_t)n : 0;
    } while (n > 0 && got <= m->size);
    if (n < 0 || got != m->size)
        return vc_fail(err, VC_EFORMAT, "%.100s: %s", path,
                       n < 0 && archive_error_string(a) ? archive_error_string(a) : "cut short");
    return 0;
}

/* Reads all members. libarchive does not check its allocations for an entry and for the callback's
 * data; both are therefore made, and checked, here. */
static int read_members(vf_pt *p, struct archive *a, const void *data, size_t size, vc_err *err)
{
    struct archive_entry *e = archive_entry_new2(a);
    size_t left = size;
    int rc = 0, got;
    if (!e || archive_read_support_format_zip(a) || archive_read_set_callback_data(a, NULL) ||
        archive_read_open_memory(a, data, size)) {
        archive_entry_free(e);
        return vc_fail(err, VC_ENOMEM, "out of memory for libarchive");
    }
    while (!rc && !(got = archive_read_next_header2(a, e)))
        rc = take_member(p, a, e, &left, err);
    archive_entry_free(e);
    if (!rc && got != ARCHIVE_EOF)
        rc = vc_fail(err, archive_errno(a) == ENOMEM ? VC_ENOMEM : VC_EFORMAT, "%s",
                     archive_error_string(a) ? archive_error_string(a) : "damaged zip");
    return rc;
}

static int parse(vf_pt *p, const void *data, size_t size, vc_err *err)
{
    if (size < 4 || memcmp(data, "PK\3\4", 4))
        return vc_fail(err, VC_EFORMAT, "no zip of torch.save: if PyTorch before 1.6 wrote the "
                       "file, load and save the file with a newer PyTorch");
    struct archive *a = archive_read_new();
    if (!a)
        return vc_no_memory(err);
    int rc = read_members(p, a, data, size, err);
    archive_read_free(a);
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

int vf_pt_parse(vf_pt **out, const void *data, size_t size, vc_err *err)
{
    *out = NULL;
    vf_pt *p = calloc(1, sizeof *p);
    if (!p)
        return vc_no_memory(err);
    int rc = parse(p, data, size, err);
    if (rc) {
        vf_pt_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

int vf_pt_open(vf_pt **out, const char *path, vc_err *err)
{
    *out = NULL;
    vc_map m;
    int rc = vc_map_open(&m, path, err);
    if (rc)
        return rc;
    rc = vc_context(err, vf_pt_parse(out, m.data, m.size, err), "%s", path);
    vc_map_close(&m);
    return rc;
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
