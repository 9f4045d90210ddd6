/* arrow_read.c - see arrow_read.h. Compiled with ARROW_DUMP it is a program that prints a file. */
#include "tests/formats/arrow_read.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"

enum { MAX_COLUMNS = 8, MAX_BUFFERS = 5 * MAX_COLUMNS };
enum { INT = 2, UTF8 = 5, BOOL = 6, LIST = 12 };

typedef struct reading {
    const char *path;
    vc_map m;
    const uint8_t *meta;                     /* the message: the origin of alignment */
    unsigned type[MAX_COLUMNS];
    size_t columns;
    vc_buf out;
} reading;

/* Ends the program with the message `fault` unless `good`. */
static void need(const reading *r, bool good, const char *fault)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", r->path, fault);
    exit(1);
}

/* ---- flatbuffers ---- */

static uint64_t number(const reading *r, const uint8_t *p, size_t size)
{
    uint64_t v = 0;
    need(r, p >= r->m.data && size <= (size_t)(r->m.data + r->m.size - p),
         "a number lies outside the file");
    memcpy(&v, p, size);
    return v;
}

static const uint8_t *follow(const reading *r, const uint8_t *p)
{
    return p + number(r, p, 4);
}

/* Returns a table's field, or NULL. */
static const uint8_t *field(const reading *r, const uint8_t *table, size_t i, size_t size)
{
    const uint8_t *vtable = table - (int32_t)number(r, table, 4);
    need(r, (table - r->meta) % 4 == 0 && (vtable - r->meta) % 2 == 0, "a table is not aligned");
    size_t at = 4 + 2 * i < number(r, vtable, 2) ? number(r, vtable + 4 + 2 * i, 2) : 0;
    if (!at)
        return NULL;
    need(r, at + size <= number(r, vtable + 2, 2), "a field lies outside its table");
    need(r, (size_t)(table + at - r->meta) % size == 0, "a field is not aligned");
    return table + at;
}

static uint64_t scalar(const reading *r, const uint8_t *table, size_t i, size_t size)
{
    const uint8_t *p = field(r, table, i, size);
    return p ? number(r, p, size) : 0;
}

static const uint8_t *child(const reading *r, const uint8_t *table, size_t i)
{
    const uint8_t *p = field(r, table, i, 4);
    need(r, p, "a field is missing");
    return follow(r, p);
}

static const uint8_t *vector(const reading *r, const uint8_t *table, size_t i, size_t align,
                             size_t *n)
{
    const uint8_t *v = child(r, table, i);
    *n = number(r, v, 4);
    need(r, (size_t)(v + 4 - r->meta) % align == 0, "a vector is not aligned");
    return v + 4;
}

/* ---- messages ---- */

static unsigned read_field(reading *r, const uint8_t *f)
{
    size_t n;
    const uint8_t *s = vector(r, f, 0, 4, &n);
    unsigned type = (unsigned)scalar(r, f, 2, 1);
    need(r, !s[n], "a name has no end");
    vc_buf_add(&r->out, s, n);
    const uint8_t *t = child(r, f, 3), *children = vector(r, f, 5, 4, &n);
    need(r, n == (type == LIST), "a wrong number of children");
    need(r, type != INT || (scalar(r, t, 0, 4) == 64 && scalar(r, t, 1, 1) == 1),
         "an integer that is not an int64");
    if (n) {
        size_t mark = r->out.n;
        need(r, read_field(r, follow(r, children)) == UTF8, "a list of other values than texts");
        r->out.n = mark;
    }
    return type;
}

static void read_schema(reading *r, const uint8_t *schema)
{
    const uint8_t *list = vector(r, schema, 1, 4, &r->columns);
    need(r, !scalar(r, schema, 0, 2) && r->columns <= MAX_COLUMNS, "an unknown kind of schema");
    for (size_t i = 0; i < r->columns; i++) {
        unsigned t = r->type[i] = read_field(r, follow(r, list + 4 * i));
        need(r, t == INT || t == UTF8 || t == BOOL || t == LIST, "a column of an unknown type");
        vc_buf_str(&r->out, t == INT ? ":int64" : t == UTF8 ? ":utf8" : t == BOOL ? ":bool" :
                   ":list");
        vc_buf_str(&r->out, i + 1 < r->columns ? "\t" : "\n");
    }
}

/* Appends text i of the buffers b: offsets and bytes. */
static void put_text(reading *r, const uint8_t *const b[2], uint64_t i)
{
    uint64_t from = number(r, b[0] + 4 * i, 4), to = number(r, b[0] + 4 * i + 4, 4);
    need(r, from <= to && to <= (uint64_t)(r->m.data + r->m.size - b[1]),
         "a text lies outside the file");
    vc_buf_add(&r->out, b[1] + from, to - from);
}

static void put_value(reading *r, unsigned type, const uint8_t *const *b, uint64_t i)
{
    if (type == BOOL)
        vc_buf_int(&r->out, number(r, b[1] + i / 8, 1) >> i % 8 & 1);
    else if (type == INT)
        vc_buf_int(&r->out, (int64_t)number(r, b[1] + 8 * i, 8));
    else if (type == UTF8)
        put_text(r, b + 1, i);
    if (type != LIST)
        return;
    uint64_t from = number(r, b[1] + 4 * i, 4), to = number(r, b[1] + 4 * i + 4, 4);
    vc_buf_str(&r->out, "[");
    for (uint64_t k = from; k < to; k++) {
        vc_buf_str(&r->out, k > from ? "|" : "");
        put_text(r, b + 3, k);
    }
    vc_buf_str(&r->out, "]");
}

static void read_batch(reading *r, const uint8_t *batch, const uint8_t *body, uint64_t size)
{
    static const uint8_t of[] = { [INT] = 2, [UTF8] = 3, [BOOL] = 2, [LIST] = 5 };
    const uint8_t *b[MAX_BUFFERS], *list;
    size_t n, nodes = 0, buffers = 0;
    uint64_t rows = scalar(r, batch, 0, 8);
    for (size_t i = 0; i < r->columns; i++) {
        nodes += r->type[i] == LIST ? 2 : 1;
        buffers += of[r->type[i]];
    }
    list = vector(r, batch, 1, 8, &n);
    need(r, n == nodes, "a wrong number of nodes");
    for (size_t i = 0, k = 0; i < r->columns; k += r->type[i++] == LIST ? 2 : 1)
        need(r, number(r, list + 16 * k, 8) == rows && !number(r, list + 16 * k + 8, 8), "a node");
    list = vector(r, batch, 2, 8, &n);
    need(r, n == buffers, "a wrong number of buffers");
    for (size_t k = 0; k < n; k++) {
        uint64_t at = number(r, list + 16 * k, 8), bytes = number(r, list + 16 * k + 8, 8);
        need(r, at % 8 == 0 && at <= size && bytes <= size - at, "a buffer lies outside the body");
        b[k] = body + at;
    }
    for (uint64_t row = 0; row < rows; row++)
        for (size_t i = 0, k = 0; i < r->columns; k += of[r->type[i++]]) {
            put_value(r, r->type[i], b + k, row);
            vc_buf_str(&r->out, i + 1 < r->columns ? "\t" : "\n");
        }
}

char *arrow_read(const char *path, int *batches)
{
    enum { SCHEMA = 1, BATCH = 3, VERSION_5 = 4 };
    reading r = { .path = path };
    need(&r, !vc_map_open(&r.m, path, NULL), "the file cannot be read");
    const uint8_t *p = r.m.data;
    *batches = -1;
    for (size_t size; (size = number(&r, p + 4, 4)); ++*batches) {
        r.meta = p + 8;
        need(&r, number(&r, p, 4) == UINT32_MAX, "a message is missing");
        need(&r, (size_t)(r.meta - r.m.data) % 8 == 0 && size % 8 == 0, "a message is not aligned");
        const uint8_t *message = follow(&r, r.meta), *header = child(&r, message, 2);
        const uint8_t *body = r.meta + size;
        uint64_t bytes = scalar(&r, message, 3, 8);
        need(&r, scalar(&r, message, 0, 2) == VERSION_5, "an unknown version");
        need(&r, scalar(&r, message, 1, 1) == (*batches < 0 ? SCHEMA : BATCH),
             "a message of another kind");
        need(&r, bytes % 8 == 0 && bytes <= (size_t)(r.m.data + r.m.size - body),
             "a body is cut short");
        if (*batches < 0)
            read_schema(&r, header);
        else
            read_batch(&r, header, body, bytes);
        p = body + bytes;
    }
    need(&r, number(&r, p, 4) == UINT32_MAX && p + 8 == r.m.data + r.m.size, "more after the end");
    vc_map_close(&r.m);
    return vc_buf_take(&r.out);
}

#ifdef ARROW_DUMP
int main(int argc, char **argv)
{
    int batches;
    char *text = argc == 2 ? arrow_read(argv[1], &batches) : NULL;
    if (text)
        fputs(text, stdout);
    free(text);
    return text ? 0 : 2;
}
#endif
