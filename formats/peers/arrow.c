/* arrow.c - writes Arrow IPC streams. See arrow.h
 *
 * A stream is a schema, batches and an end mark. Each message is ff ff ff ff, the size of its
 * metadata (a flatbuffer, padded so that the body begins at a multiple of 8), metadata and body:
 * https://arrow.apache.org/docs/format/Columnar.html (Schema.fbs, Message.fbs) and
 * https://flatbuffers.dev/internals/. Numbers are little-endian in memory and in the file. */
#include "formats/peers/arrow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

enum { BATCH_ROWS = 1000, BATCH_BYTES = 1 << 26 };
enum { VERSION_5 = 4, HEADER_SCHEMA = 1, HEADER_BATCH = 3 };     /* Message.fbs */
enum { TYPE_INT = 2, TYPE_UTF8 = 5, TYPE_BOOL = 6, TYPE_LIST = 12 };     /* Schema.fbs: Type */

typedef struct column {
    vf_arrow_field field;
    vc_buf list;                             /* LIST: int32 begin of each row's items, and the
                                              * end */
    vc_buf ends;                             /* UTF8, LIST: int32 begin of each text, and the end */
    vc_buf data;                             /* the texts, int64 values or bits */
    int64_t n;                               /* values, or items of lists, in the batch */
} column;

struct vf_arrow {
    FILE *file;
    char *path;
    column column[VF_ARROW_COLUMNS];
    int columns;
    int64_t rows;                            /* rows in the batch */
};

/* ---- flatbuffers, front to back ---- */

typedef struct slot {
    int size;                                /* bytes of the value: 1, 2, 4, 8; 0: absent */
    int64_t value;                           /* an offset is 0 here, and set later by point() */
} slot;

static void pad(vc_buf *b, size_t to)
{
    static const char zeros[8];
    vc_buf_add(b, zeros, (to - b->n % to) % to);
}

static void put(vc_buf *b, int64_t v, int size)
{
    vc_buf_add(b, &v, (size_t)size);
}

/* Sets the offset at `at` to lead to the end of b. */
static void point(vc_buf *b, size_t at)
{
    uint32_t d = (uint32_t)(b->n - at);
    if (!b->failed)
        memcpy(b->data + at, &d, sizeof d);
}

/* Writes a table after its vtable, sets the offset at `from` to it, and sets at[i] to the place of
 * slot i's value. The table begins at a multiple of 8 with the offset back to the vtable, followed
 * by the values, largest first. */
static void put_table(vc_buf *b, size_t from, const slot *s, int n, size_t *at)
{
    uint16_t place[8] = { 0 }, end = 4;
    for (int size = 8; size; size /= 2)
        for (int i = 0; i < n; i++)
            if (s[i].size == size) {
                end = (uint16_t)((end + size - 1) / size * size);
                place[i] = end;
                end = (uint16_t)(end + size);
            }
    uint16_t vtable = (uint16_t)(4 + 2 * n);
    while (!b->failed && (b->n + vtable) % 8)
        put(b, 0, 1);
    put(b, vtable, 2);
    put(b, end, 2);
    vc_buf_add(b, place, 2 * (size_t)n);
    point(b, from);
    size_t table = b->n;
    put(b, vtable, 4);
    while (!b->failed && b->n < table + end)
        put(b, 0, 1);
    for (int i = 0; i < n; i++) {
        if (at)
            at[i] = table + place[i];
        if (!b->failed && s[i].size)
            memcpy(b->data + table + place[i], &s[i].value, (size_t)s[i].size);
    }
}

/* Begins a vector of n elements, the first of them at a multiple of `align`. */
static void put_vector(vc_buf *b, size_t from, size_t n, size_t align)
{
    pad(b, 4);
    if ((b->n + 4) % align)
        put(b, 0, 4);
    point(b, from);
    put(b, (int64_t)n, 4);
}

static void put_string(vc_buf *b, size_t from, const char *s)
{
    put_vector(b, from, strlen(s), 4);
    vc_buf_add(b, s, strlen(s) + 1);
}

/* ---- metadata ---- */

static void put_field(vc_buf *b, size_t from, const char *name, vf_arrow_type type)
{
    static const int types[] = { TYPE_BOOL, TYPE_INT, TYPE_UTF8, TYPE_LIST };
    const slot field[] = { { 4, 0 }, { 1, 1 }, { 1, types[type] }, { 4, 0 }, { 0, 0 }, { 4, 0 } };
    const slot integer[] = { { 4, 64 }, { 1, 1 } };          /* bits, signed */
    size_t at[6];                            /* name, nullable, kind, type, (none), children */
    put_table(b, from, field, 6, at);
    put_string(b, at[0], name);
    put_table(b, at[3], integer, type == VF_ARROW_INT64 ? 2 : 0, NULL);
    put_vector(b, at[5], type == VF_ARROW_LIST, 4);
    if (type == VF_ARROW_LIST) {
        size_t child = b->n;
        put(b, 0, 4);
        put_field(b, child, "item", VF_ARROW_UTF8);
    }
}

static void put_schema(vc_buf *b, size_t from, const vf_arrow *a)
{
    const slot schema[] = { { 2, 0 }, { 4, 0 } };            /* little-endian, fields */
    size_t at[2];
    put_table(b, from, schema, 2, at);
    put_vector(b, at[1], (size_t)a->columns, 4);
    size_t first = b->n;
    for (int i = 0; i < a->columns; i++)
        put(b, 0, 4);
    for (int i = 0; i < a->columns; i++)
        put_field(b, first + 4 * (size_t)i, a->column[i].field.name, a->column[i].field.type);
}

/* Lists a column's buffers in the order of the format: for the column and its child a bitmap of
 * values that are not null (empty, as no value is null), offsets, values. */
static int buffers_of(const column *c, const vc_buf *out[5])
{
    static const vc_buf none;
    int n = 0;
    out[n++] = &none;
    if (c->field.type == VF_ARROW_LIST) {
        out[n++] = &c->list;
        out[n++] = &none;
    }
    if (c->field.type >= VF_ARROW_UTF8)
        out[n++] = &c->ends;
    out[n++] = &c->data;
    return n;
}

static void put_batch(vc_buf *b, size_t from, const vf_arrow *a, int64_t *body)
{
    const slot batch[] = { { 8, a->rows }, { 4, 0 }, { 4, 0 } };     /* rows, nodes, buffers */
    const vc_buf *part[5];
    size_t at[3], nodes = 0, buffers = 0;
    for (int i = 0; i < a->columns; i++) {
        nodes += a->column[i].field.type == VF_ARROW_LIST ? 2 : 1;
        buffers += (size_t)buffers_of(&a->column[i], part);
    }
    put_table(b, from, batch, 3, at);
    put_vector(b, at[1], nodes, 8);
    for (int i = 0; i < a->columns; i++) {
        put(b, a->rows, 8);
        put(b, 0, 8);                        /* nulls */
        if (a->column[i].field.type == VF_ARROW_LIST) {
            put(b, a->column[i].n, 8);
            put(b, 0, 8);
        }
    }
    put_vector(b, at[2], buffers, 8);
    *body = 0;
    for (int i = 0; i < a->columns; i++) {
        int n = buffers_of(&a->column[i], part);
        for (int k = 0; k < n; k++) {
            put(b, *body, 8);
            put(b, (int64_t)part[k]->n, 8);
            *body += ((int64_t)part[k]->n + 7) / 8 * 8;
        }
    }
}

/* ---- messages ---- */

static int write_buf(vf_arrow *a, const vc_buf *b, vc_err *err)
{
    static const char zeros[8];
    size_t more = (8 - b->n % 8) % 8;
    if (b->failed)
        return vc_no_memory(err);
    if ((b->n && fwrite(b->data, 1, b->n, a->file) != b->n) ||
        fwrite(zeros, 1, more, a->file) != more)
        return vc_fail_errno(err, "%s", a->path);
    return 0;
}

static int write_message(vf_arrow *a, int header, vc_err *err)
{
    const slot message[] = { { 2, VERSION_5 }, { 1, header }, { 4, 0 }, { 8, 0 } };
    size_t at[4];                            /* version, kind of header, header, length of body */
    vc_buf b = { 0 };
    int64_t body = 0;
    put(&b, 0, 4);
    put_table(&b, 0, message, 4, at);
    if (header == HEADER_SCHEMA)
        put_schema(&b, at[2], a);
    else
        put_batch(&b, at[2], a, &body);
    if (!b.failed)
        memcpy(b.data + at[3], &body, sizeof body);
    const uint32_t prefix[2] = { UINT32_MAX, (uint32_t)((b.n + 7) / 8 * 8) };
    int rc = fwrite(prefix, sizeof prefix, 1, a->file) == 1 ? 0 : vc_fail_errno(err, "%s", a->path);
    if (!rc)
        rc = write_buf(a, &b, err);
    vc_buf_free(&b);
    return rc;
}

static void begin_batch(vf_arrow *a)
{
    a->rows = 0;
    for (int i = 0; i < a->columns; i++) {
        column *c = &a->column[i];
        c->n = 0;
        c->list.n = c->ends.n = c->data.n = 0;
        put(&c->list, 0, 4);
        put(&c->ends, 0, 4);
    }
}

static int flush(vf_arrow *a, vc_err *err)
{
    const vc_buf *part[5];
    int rc = a->rows ? write_message(a, HEADER_BATCH, err) : 0;
    for (int i = 0; !rc && a->rows && i < a->columns; i++) {
        int n = buffers_of(&a->column[i], part);
        for (int k = 0; !rc && k < n; k++)
            rc = write_buf(a, part[k], err);
    }
    if (!rc)
        begin_batch(a);
    return rc;
}

/* ---- a table ---- */

int vf_arrow_open(vf_arrow **out, const char *path, const vf_arrow_field *fields, int n,
                  vc_err *err)
{
    vf_arrow *a = calloc(1, sizeof *a);
    int rc = a && (a->path = strdup(path)) ? 0 : vc_no_memory(err);
    if (!rc && !(a->file = fopen(path, "wbxe")))
        rc = vc_fail_errno(err, "%s", path);
    for (int i = 0; !rc && i < n; i++)
        a->column[a->columns++].field = fields[i];
    if (!rc) {
        begin_batch(a);
        rc = write_message(a, HEADER_SCHEMA, err);
    }
    if (rc) {
        vf_arrow_close(a);
        a = NULL;
    }
    *out = a;
    return rc;
}

void vf_arrow_int(vf_arrow *a, int i, int64_t v)
{
    column *c = &a->column[i];
    if (c->field.type == VF_ARROW_INT64) {
        put(&c->data, v, 8);
    } else {
        if (c->n % 8 == 0)
            put(&c->data, 0, 1);
        if (!c->data.failed && v)
            c->data.data[c->n / 8] = (char)(c->data.data[c->n / 8] | 1 << c->n % 8);
    }
    c->n++;
}

void vf_arrow_text(vf_arrow *a, int i, const char *s)
{
    column *c = &a->column[i];
    vc_buf_str(&c->data, s);
    put(&c->ends, (int64_t)c->data.n, 4);
    c->n++;
}

int vf_arrow_row(vf_arrow *a, vc_err *err)
{
    size_t bytes = 0;
    for (int i = 0; i < a->columns; i++) {
        column *c = &a->column[i];
        if (c->field.type == VF_ARROW_LIST)
            put(&c->list, c->n, 4);
        if (c->list.failed || c->ends.failed || c->data.failed)
            return vc_no_memory(err);
        if (c->data.n > INT32_MAX || c->n >= INT32_MAX)
            return vc_fail(err, VC_EINVAL, "%s: more than 2 GiB of text in one row", c->field.name);
        bytes += c->data.n + c->ends.n;
    }
    a->rows++;
    return a->rows == BATCH_ROWS || bytes >= BATCH_BYTES ? flush(a, err) : 0;
}

int vf_arrow_finish(vf_arrow *a, vc_err *err)
{
    static const uint32_t end[2] = { UINT32_MAX, 0 };
    FILE *f = a->file;
    int rc = flush(a, err);
    if (!rc && fwrite(end, sizeof end, 1, f) != 1)
        rc = vc_fail_errno(err, "%s", a->path);
    a->file = NULL;
    if (fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", a->path);
    return rc;
}

void vf_arrow_close(vf_arrow *a)
{
    if (!a)
        return;
    if (a->file)
        fclose(a->file);
    for (int i = 0; i < a->columns; i++) {
        vc_buf_free(&a->column[i].list);
        vc_buf_free(&a->column[i].ends);
        vc_buf_free(&a->column[i].data);
    }
    free(a->path);
    free(a);
}
