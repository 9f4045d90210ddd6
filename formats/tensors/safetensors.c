/* safetensors.c - reads safetensors files; see safetensors.h
 *
 * A cursor reads the header, without a JSON tree: a hostile header can then cost no more than a
 * small multiple of its own size, and integers are exact. Checks come in this order: the header's
 * length, each tensor by itself while its entry is read, then all tensors sorted by their
 * offsets. */
#include "formats/tensors/safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/scan.h"
#include "formats/keys/keys.h"

enum { PREFIX = 8, MAX_HEADER = 100000000, SHOWN = 100 };

struct vf_safetensors {
    vc_map map;                  /* map of an opened file; empty after parse */
    const uint8_t *data;         /* bytes after the header */
    size_t size;                 /* length of data */
    vf_view *tensor;             /* in name order */
    size_t n, cap;
    vf_meta *meta;               /* in key order */
    size_t n_meta, cap_meta;
    char *names;                 /* all names, keys and values, each with its NUL */
    size_t used;                 /* bytes of names in use */
};

int64_t vf_view_count(const vf_view *v)
{
    int64_t n = 1;

    for (int i = 0; i < v->nd; i++)
        n *= v->dim[i];
    return n;
}

void vf_view_f32(float *dst, const vf_view *v, size_t first, size_t n)
{
    vc_to_f32(dst, (const uint8_t *)v->data + vc_dtype_bytes(v->dtype, first), v->dtype, n);
}

/* Copies a string into f->names, which is as long as the header: the string's quotes leave room for
 * its NUL. */
static const char *keep(vf_safetensors *f, vf_span s)
{
    char *at = f->names + f->used;
    size_t n = vf_scan_unescape(at, s);

    at[n] = 0;
    f->used += n + 1;
    return at;
}

/* Copies a name. Names get into messages and file names, so control characters are refused. */
static int keep_name(vf_safetensors *f, vf_span s, const char **name, vc_err *err)
{
    *name = keep(f, s);
    for (const char *p = *name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return vc_fail(err, VC_EFORMAT, "control character in a name");
    return 0;
}

static int grow(void **p, size_t n, size_t *cap, size_t size, vc_err *err)
{
    if (n < *cap)
        return 0;
    size_t more = *cap ? *cap * 2 : 8;
    void *q = realloc(*p, more * size);
    if (!q)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu header entries", more);
    *p = q;
    *cap = more;
    return 0;
}

static bool span_is(vf_span s, const char *word)
{
    return s.n == strlen(word) && !memcmp(s.p, word, s.n);
}

static int read_metadata(vf_safetensors *f, vf_scan *s, vc_err *err)
{
    int rc = vf_scan_expect(s, '{', err);
    bool more = true;

    for (bool first = true; !rc; first = false) {
        vf_span key, value;
        rc = vf_scan_more(s, '}', first, &more, err);
        if (rc || !more)
            break;
        if ((rc = vf_scan_string(s, &key, err)) || (rc = vf_scan_expect(s, ':', err))
            || (rc = vf_scan_string(s, &value, err))
            || (rc = grow((void **)&f->meta, f->n_meta, &f->cap_meta, sizeof *f->meta, err)))
            break;
        vf_meta *m = &f->meta[f->n_meta++];
        rc = keep_name(f, key, &m->key, err);
        m->value = keep(f, value);
    }
    return vc_context(err, rc, "__metadata__");
}

/* A tensor's entry, from its "dtype", "shape" and "data_offsets"; offsets are relative to the
 * data. */
typedef struct entry {
    vf_view view;
    int64_t offset[2];
    bool has_dtype, has_shape, has_offsets;
} entry;

static int read_dtype(entry *e, vf_scan *s, vc_err *err)
{
    vf_span name;
    int rc = vf_scan_string(s, &name, err);
    if (rc)
        return rc;
    e->view.dtype = vc_dtype_from_st_name(name.p, name.n);
    e->has_dtype = true;
    if (e->view.dtype == VC_DTYPE_NONE)
        return vc_fail(err, VC_EFORMAT, "unknown dtype %.*s", (int)(name.n < 20 ? name.n : 20),
                       name.p);
    return 0;
}

/* Reads an array of at most max integers that are not negative, and sets *n to their number. */
static int read_ints(vf_scan *s, int64_t *v, int max, int *n, vc_err *err)
{
    int rc = vf_scan_expect(s, '[', err);

    *n = 0;
    while (!rc) {
        bool more;
        rc = vf_scan_more(s, ']', *n == 0, &more, err);
        if (rc || !more)
            break;
        if (*n == max)
            return vf_scan_fail(s, err, "more than %d numbers", max);
        rc = vf_scan_int(s, &v[*n], err);
        if (!rc && v[*n] < 0)
            rc = vf_scan_fail(s, err, "negative number");
        (*n)++;
    }
    return rc;
}

static int read_field(entry *e, vf_scan *s, vc_err *err)
{
    vf_span key;
    int rc = vf_scan_string(s, &key, err), n = 0;
    if (!rc)
        rc = vf_scan_expect(s, ':', err);
    if (rc)
        return rc;

    if ((span_is(key, "dtype") && e->has_dtype) || (span_is(key, "shape") && e->has_shape)
        || (span_is(key, "data_offsets") && e->has_offsets))
        return vc_fail(err, VC_EFORMAT, "%.*s occurs twice", (int)key.n, key.p);
    if (span_is(key, "dtype"))
        return read_dtype(e, s, err);
    if (span_is(key, "shape")) {
        e->has_shape = true;
        return vc_context(err, read_ints(s, e->view.dim, VF_MAX_DIMS, &e->view.nd, err), "shape");
    }
    if (!span_is(key, "data_offsets"))
        return vf_scan_skip(s, err);
    e->has_offsets = true;
    rc = read_ints(s, e->offset, 2, &n, err);
    if (!rc && n != 2)
        rc = vc_fail(err, VC_EFORMAT, "two numbers expected");
    return vc_context(err, rc, "data_offsets");
}

/* Computes the bytes of a shape; even with a dimension of 0 the others must fit into 63 bits. */
static bool shape_bytes(const vf_view *v, size_t *bytes)
{
    int64_t n = (int64_t)vc_dtype_size(v->dtype);
    bool empty = false;

    for (int i = 0; i < v->nd; i++) {
        empty |= v->dim[i] == 0;
        if (v->dim[i] && __builtin_mul_overflow(n, v->dim[i], &n))
            return false;
    }
    *bytes = empty ? 0 : (size_t)n;
    return true;
}

static int check_entry(const vf_safetensors *f, entry *e, vc_err *err)
{
    vf_view *v = &e->view;

    if (!e->has_dtype || !e->has_shape || !e->has_offsets)
        return vc_fail(err, VC_EFORMAT, "no %s", !e->has_dtype ? "dtype"
                       : !e->has_shape ? "shape" : "data_offsets");
    if (e->offset[0] > e->offset[1] || (uint64_t)e->offset[1] > f->size)
        return vc_fail(err, VC_EFORMAT, "offsets %lld..%lld in %zu bytes of data",
                       (long long)e->offset[0], (long long)e->offset[1], f->size);
    if (!shape_bytes(v, &v->bytes))
        return vc_fail(err, VC_EFORMAT, "shape too large");
    if (v->bytes != (size_t)(e->offset[1] - e->offset[0]))
        return vc_fail(err, VC_EFORMAT, "shape needs %zu bytes, offsets say %lld", v->bytes,
                       (long long)(e->offset[1] - e->offset[0]));
    v->data = f->data + e->offset[0];
    return 0;
}

static int read_tensor(vf_safetensors *f, vf_scan *s, vf_span name, vc_err *err)
{
    entry e = { 0 };
    int rc = vf_scan_expect(s, '{', err);

    for (bool first = true, more; !rc; first = false) {
        rc = vf_scan_more(s, '}', first, &more, err);
        if (rc || !more)
            break;
        rc = read_field(&e, s, err);
    }
    if (!rc)
        rc = check_entry(f, &e, err);
    if (!rc)
        rc = grow((void **)&f->tensor, f->n, &f->cap, sizeof *f->tensor, err);
    if (!rc)
        rc = keep_name(f, name, &e.view.name, err);
    /* The name is printed as the file spells it: escapes keep control characters out of the
     * message. */
    if (rc)
        return vc_context(err, rc, "tensor %.*s", (int)(name.n < SHOWN ? name.n : SHOWN), name.p);
    f->tensor[f->n++] = e.view;
    return 0;
}

static int read_header(vf_safetensors *f, vf_scan *s, vc_err *err)
{
    bool more = true, has_metadata = false;
    int rc = *s->text == '{' ? vf_scan_expect(s, '{', err)
                             : vc_fail(err, VC_EFORMAT, "does not begin with '{'");

    for (bool first = true; !rc; first = false) {
        vf_span name;
        rc = vf_scan_more(s, '}', first, &more, err);
        if (rc || !more)
            break;
        if ((rc = vf_scan_string(s, &name, err)) || (rc = vf_scan_expect(s, ':', err)))
            break;
        if (!span_is(name, "__metadata__")) {
            rc = read_tensor(f, s, name, err);
        } else if (has_metadata) {
            rc = vc_fail(err, VC_EFORMAT, "__metadata__ occurs twice");
        } else {
            has_metadata = true;
            rc = read_metadata(f, s, err);
        }
    }
    return rc ? rc : vf_scan_done(s, err);
}

static int by_data(const void *pa, const void *pb)
{
    const vf_view *a = pa, *b = pb;

    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int by_name(const void *pa, const void *pb)
{
    return strcmp(((const vf_view *)pa)->name, ((const vf_view *)pb)->name);
}

static int by_key(const void *pa, const void *pb)
{
    return strcmp(((const vf_meta *)pa)->key, ((const vf_meta *)pb)->key);
}

/* Checks that the tensors fill the data from its first to its last byte, without holes. */
static int check_layout(vf_safetensors *f, vc_err *err)
{
    const uint8_t *at = f->data;

    if (f->n)
        qsort(f->tensor, f->n, sizeof *f->tensor, by_data);
    for (size_t i = 0; i < f->n; i++) {
        const uint8_t *from = f->tensor[i].data;
        if (from != at)
            return vc_fail(err, VC_EFORMAT, "tensor %.*s %s", SHOWN, f->tensor[i].name,
                           from < at ? "overlaps another" : "comes after a hole");
        at = from + f->tensor[i].bytes;
    }
    if (at != f->data + f->size)
        return vc_fail(err, VC_EFORMAT, "%zu bytes after the last tensor",
                       f->size - (size_t)(at - f->data));
    return 0;
}

static int check_names(vf_safetensors *f, vc_err *err)
{
    if (f->n)
        qsort(f->tensor, f->n, sizeof *f->tensor, by_name);
    for (size_t i = 1; i < f->n; i++)
        if (!strcmp(f->tensor[i - 1].name, f->tensor[i].name))
            return vc_fail(err, VC_EFORMAT, "tensor %.*s occurs twice", SHOWN, f->tensor[i].name);
    if (f->n_meta)
        qsort(f->meta, f->n_meta, sizeof *f->meta, by_key);
    for (size_t i = 1; i < f->n_meta; i++)
        if (!strcmp(f->meta[i - 1].key, f->meta[i].key))
            return vc_fail(err, VC_EFORMAT, "__metadata__: key %.*s occurs twice", SHOWN,
                           f->meta[i].key);
    return 0;
}

/* Other formats that users often pass in place of a safetensors file, by their first bytes. */
static const struct { const char *begins, *text; } other_formats[] = {
    { "version https://git-lfs", "a pointer of Git LFS: fetch the file itself (git lfs pull)" },
    { "PK\003\004", "a zip file, as torch.save writes: convert it to safetensors" },
    { "\x80\002", "a pickle: convert it to safetensors" },
    { "GGUF", "a GGUF file: give the safetensors that it was made from" },
    { "<", "HTML or XML, as a failed download leaves" },
};

static int bad_length(const uint8_t *bytes, size_t size, uint64_t n, vc_err *err)
{
    for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++)
        if (!memcmp(bytes, other_formats[i].begins, strnlen(other_formats[i].begins, size)))
            return vc_fail(err, VC_EFORMAT, "no safetensors file, but %s", other_formats[i].text);
    return vc_fail(err, VC_EFORMAT, "header of %llu bytes in a file of %zu", (unsigned long long)n,
                   size);
}

static int parse(vf_safetensors *f, const uint8_t *bytes, size_t size, vc_err *err)
{
    uint64_t n = 0;

    if (size < PREFIX)
        return vc_fail(err, VC_EFORMAT, "%zu bytes are no safetensors file", size);
    for (int i = 0; i < PREFIX; i++)
        n |= (uint64_t)bytes[i] << 8 * i;
    if (n == 0 || n > MAX_HEADER || n > size - PREFIX)
        return bad_length(bytes, size, n, err);
    f->data = bytes + PREFIX + n;
    f->size = size - PREFIX - n;
    f->names = malloc(n);
    if (!f->names)
        return vc_fail(err, VC_ENOMEM, "out of memory for a header of %zu bytes", (size_t)n);

    vf_scan s = vf_scan_of((const char *)bytes + PREFIX, n);
    int rc = read_header(f, &s, err);
    if (!rc)
        rc = check_layout(f, err);
    if (!rc)
        rc = check_names(f, err);
    return vc_context(err, rc, "header");
}

int vf_safetensors_parse(vf_safetensors **out, const void *data, size_t size, vc_err *err)
{
    *out = NULL;
    vf_safetensors *f = calloc(1, sizeof *f);
    if (!f)
        return vc_no_memory(err);

    int rc = parse(f, data, size, err);
    if (rc) {
        vf_safetensors_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

int vf_safetensors_open(vf_safetensors **out, const char *path, vc_err *err)
{
    *out = NULL;
    vf_safetensors *f = calloc(1, sizeof *f);
    if (!f)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    int rc = vc_map_open(&f->map, path, err);
    if (!rc)
        rc = vc_context(err, parse(f, f->map.data, f->map.size, err), "%s", path);
    if (rc) {
        vf_safetensors_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void vf_safetensors_release(const vf_safetensors *f)
{
    vc_map_release(&f->map);
}

void vf_safetensors_close(vf_safetensors *f)
{
    if (!f)
        return;
    vc_map_close(&f->map);
    free(f->tensor);
    free(f->meta);
    free(f->names);
    free(f);
}

int vf_safetensors_get(const vf_safetensors *f, const char *name, vf_view *v, vc_err *err)
{
    vf_view key = { .name = name };
    const vf_view *hit = f->n ? bsearch(&key, f->tensor, f->n, sizeof key, by_name) : NULL;

    *v = hit ? *hit : (vf_view){ 0 };
    return hit ? 0 : vc_fail(err, VC_ENOENT, "no tensor %s", name);
}

int vf_safetensors_count(const vf_safetensors *f)
{
    return (int)f->n;
}

const vf_view *vf_safetensors_at(const vf_safetensors *f, int i)
{
    return &f->tensor[i];
}

int vf_safetensors_metas(const vf_safetensors *f)
{
    return (int)f->n_meta;
}

const vf_meta *vf_safetensors_meta_at(const vf_safetensors *f, int i)
{
    return &f->meta[i];
}

const char *vf_safetensors_meta(const vf_safetensors *f, const char *key)
{
    vf_meta want = { .key = key };
    const vf_meta *hit = f->n_meta ? bsearch(&want, f->meta, f->n_meta, sizeof want, by_key)
                                   : NULL;
    return hit ? hit->value : NULL;
}

int vf_safetensors_check(const vf_safetensors *f, vc_err *err)
{
    const char *want = vf_safetensors_meta(f, "xxh3");
    if (!want)
        return vc_fail(err, VC_ENOENT, "no xxh3 in __metadata__");

    char have[VF_KEY_HEX];
    if (strcmp(want, vf_key_hex(have, vf_hash(f->data, f->size))))
        return vc_fail(err, VC_EFORMAT, "damaged: xxh3 is %s, should be %.40s", have, want);
    return 0;
}

/* Returns the place of the seal's digits in the file, or NULL. */
static const char *seal_at(const vf_safetensors *f, const char *want)
{
    char text[64];
    if (!f->map.data || strlen(want) != 32)
        return NULL;
    snprintf(text, sizeof text, "\"" VF_SEAL "\":\"%s\"", want);
    const char *at = memmem(f->map.data, f->map.size - f->size, text, strlen(text));
    return at ? at + strlen(text) - 33 : NULL;
}

int vf_safetensors_check_seal(const vf_safetensors *f, vc_err *err)
{
    static const char zeros[] = "00000000000000000000000000000000";
    const char *want = vf_safetensors_meta(f, VF_SEAL);
    if (!want)
        return vc_fail(err, VC_ENOENT, "no " VF_SEAL " in __metadata__");

    const char *at = seal_at(f, want), *file = (const char *)f->map.data;
    char have[VF_KEY_HEX] = "";
    if (at) {
        vf_hasher h;
        vf_hasher_plain(&h);
        vf_hasher_add(&h, file, (size_t)(at - file));
        vf_hasher_add(&h, zeros, 32);
        vf_hasher_add(&h, at + 32, f->map.size - (size_t)(at - file) - 32);
        vf_key_hex(have, vf_hasher_end(&h));
    }
    if (!at || strcmp(want, have))
        return vc_fail(err, VC_EFORMAT, "damaged: its bytes differ from the checksum in its header "
                       "(" VF_SEAL ")");
    return 0;
}
