/* table.c - reads rows from JSON, JSONL, CSV and TSV files. See table.h */
#include "formats/json/table.h"

#include <csv.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/json/scan.h"

enum { PIECE = 1 << 18, MAX_ROW = 16 << 20, MAX_COLUMNS = 4096, MAX_FIELD = 256 << 20 };
static const size_t MAX_JSON = (size_t)4 << 30;

static int too_many(vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "more than 2^31 - 1 rows");
}

/* Parses text[0..n) as one row and passes it to the sink. Bad JSON makes the row bad; only running
 * out of memory, or a failure of the sink, is an error. */
static int parse_row(const vf_table_sink *sink, int64_t number, const char *text, size_t n,
                     vc_err *err)
{
    vc_err why = { 0 };
    cJSON *o = NULL;

    if (number > INT32_MAX)
        return too_many(err);
    int rc = vf_json_parse(&o, text, n, &why);
    if (rc == VC_ENOMEM)
        return vc_fail(err, rc, "row %" PRId64 ": %s", number, why.text);
    if (!rc && !cJSON_IsObject(o))
        rc = vc_fail(&why, VC_EFORMAT, "not an object");
    rc = rc ? sink->row(sink->arg, number, NULL, why.text, err)
            : sink->row(sink->arg, number, o, NULL, err);
    cJSON_Delete(o);
    return rc;
}

/* Skips a byte order mark. UTF-16 is refused here, as a parser would only complain about its first
 * byte. */
static int skip_bom(const char *text, size_t n, size_t *bom, vc_err *err)
{
    if (n >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
        return vc_fail(err, VC_EFORMAT, "UTF-16: save it as UTF-8");
    *bom = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    return 0;
}

/* ---- .json: the text is in memory as a whole, one row at a time as a tree ---- */

static int report_long(const vf_table_sink *sink, int64_t number, vc_err *err)
{
    vc_err why;
    vc_fail(&why, VC_EFORMAT, "more than %d bytes in a row", MAX_ROW);
    return sink->row(sink->arg, number, NULL, why.text, err);
}

/* Returns the end of a bad row: the byte after its closing bracket, if a comma or the end of the
 * list follows. NULL if the end is not certain: a line ends within a string, so that a quote may be
 * missing, or brackets do not match. */
static const char *end_of_bad(const char *p, const char *end)
{
    char close = *p == '{' ? '}' : ']';
    int64_t depth = 0;
    bool text = false;

    if (p == end || (*p != '{' && *p != '['))
        return NULL;
    for (; p < end; p++) {
        if (*p == '\\' && text) {
            p++;
        } else if (*p == '"') {
            text = !text;
        } else if (text) {
            if (*p == '\n' || *p == '\r')
                return NULL;
        } else if (*p == '{' || *p == '[') {
            depth++;
        } else if ((*p == '}' || *p == ']') && --depth == 0) {
            vf_scan rest = vf_scan_of(p + 1, (size_t)(end - p - 1));
            char next = vf_scan_peek(&rest);
            return *p == close && (next == ',' || next == ']') ? p + 1 : NULL;
        }
    }
    return NULL;
}

static int read_array(const char *text, size_t n, const vf_table_sink *sink, vc_err *err)
{
    vf_scan s = vf_scan_of(text, n);
    if (vf_scan_peek(&s) != '[')
        return vf_scan_fail(&s, err, "expected an array of objects, '['");

    int rc = vf_scan_expect(&s, '[', err);
    bool more = true;
    for (int64_t row = 1; !rc; row++) {
        rc = vf_scan_more(&s, ']', row == 1, &more, err);
        if (rc || !more)
            break;
        vf_scan_peek(&s);
        const char *from = s.at, *bad = NULL;
        vc_err why;
        if (vf_scan_skip(&s, &why) && !(bad = end_of_bad(from, s.end)))
            return vc_fail(err, why.code, "row %" PRId64 ": %s", row, why.text);
        if (bad)
            s.at = bad;
        if (bad)
            rc = sink->row(sink->arg, row, NULL, why.text, err);
        else if (s.at - from > MAX_ROW)
            rc = report_long(sink, row, err);
        else
            rc = parse_row(sink, row, from, (size_t)(s.at - from), err);
    }
    return rc ? rc : vf_scan_done(&s, err);
}

static int read_json(const char *path, const vf_table_sink *sink, vc_err *err)
{
    char *text;
    size_t n, bom = 0;

    int rc = vc_file_read(&text, &n, path, MAX_JSON, err);
    if (rc)
        return rc;
    rc = skip_bom(text, n, &bom, err);
    if (!rc)
        rc = read_array(text + bom, n - bom, sink, err);
    free(text);
    return vc_context(err, rc, "%s", path);
}

/* ---- pieces of a file ---- */

typedef struct pieces {
    int fd;
    char *buf;                   /* cap bytes, of which n are filled */
    size_t n, cap;
    bool skip;                   /* the next bytes are the rest of a row that is too long */
} pieces;

static int pieces_open(pieces *p, const char *path, vc_err *err)
{
    struct stat st;

    *p = (pieces){ .cap = PIECE };
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);    /* a FIFO must not block open() */
    if (p->fd < 0)
        return vc_fail_errno(err, "%s", path);
    if (fstat(p->fd, &st) || !S_ISREG(st.st_mode))
        return vc_fail(err, VC_EFORMAT, "%s: not a regular file", path);
    p->buf = malloc(p->cap);
    return p->buf ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
}

static void pieces_close(pieces *p)
{
    if (p->fd >= 0)
        close(p->fd);
    free(p->buf);
}

/* Reads bytes of the file into the free part of the buffer; *end is true at the end of the file. */
static int pieces_read(pieces *p, bool *end, vc_err *err)
{
    ssize_t r;

    do
        r = read(p->fd, p->buf + p->n, p->cap - p->n);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return vc_fail_errno(err, "cannot read");
    *end = r == 0;
    p->n += (size_t)r;
    return 0;
}

/* Doubles the buffer for a row that does not fit; a row longer than MAX_ROW is skipped. */
static int pieces_grow(pieces *p, vc_err *err)
{
    if (p->cap >= MAX_ROW) {
        p->skip = true;
        p->n = 0;
        return 0;
    }
    char *more = realloc(p->buf, p->cap * 2);
    if (!more)
        return vc_no_memory(err);
    p->buf = more;
    p->cap *= 2;
    return 0;
}

/* ---- .jsonl ---- */

static bool blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", s[i]) || !s[i])
            return false;
    return true;
}

static int parse_line(const vf_table_sink *sink, int64_t number, const char *s, size_t n,
                      vc_err *err)
{
    return blank(s, n) ? 0 : parse_row(sink, number, s, n, err);
}

/* Skips the rest of a row that is too long, and reports the row at its end. */
static int skip_line(pieces *p, bool end, int64_t *number, const vf_table_sink *sink, vc_err *err)
{
    const char *nl = memchr(p->buf, '\n', p->n);
    size_t n = nl ? (size_t)(nl - p->buf) + 1 : p->n;

    memmove(p->buf, p->buf + n, p->n - n);
    p->n -= n;
    p->skip = !nl && !end;
    return p->skip ? 0 : report_long(sink, (*number)++, err);
}

/* Parses the complete lines in the buffer and moves the rest to its front; at the end of the file
 * the rest is a line too. */
static int parse_lines(pieces *p, bool end, int64_t *number, const vf_table_sink *sink,
                       vc_err *err)
{
    size_t from = 0, bom = 0;
    int rc = *number == 1 ? skip_bom(p->buf, p->n, &bom, err) : 0;

    from = bom;
    while (!rc && from < p->n) {
        const char *nl = memchr(p->buf + from, '\n', p->n - from);
        if (!nl && !end)
            break;
        size_t n = nl ? (size_t)(nl - p->buf) - from : p->n - from;
        rc = parse_line(sink, (*number)++, p->buf + from, n, err);
        from += n + (nl != NULL);
    }
    if (from > bom || *number > 1) {
        memmove(p->buf, p->buf + from, p->n - from);
        p->n -= from;
    }
    return rc;
}

static int read_jsonl(const char *path, const vf_table_sink *sink, vc_err *err)
{
    pieces p;
    bool end = false;
    int64_t number = 1;

    int rc = pieces_open(&p, path, err);
    if (rc) {
        pieces_close(&p);
        return rc;
    }
    while (!rc && !end) {
        if (p.n == p.cap)
            rc = vc_context(err, pieces_grow(&p, err), "row %" PRId64, number);
        if (!rc)
            rc = pieces_read(&p, &end, err);
        if (!rc && p.skip)
            rc = skip_line(&p, end, &number, sink, err);
        if (!rc && !p.skip && (end || p.n == p.cap || memchr(p.buf, '\n', p.n)))
            rc = parse_lines(&p, end, &number, sink, err);
    }
    pieces_close(&p);
    return vc_context(err, rc, "%s", path);
}

/* ---- .csv ---- */

/* State of the callbacks that libcsv makes for each field and each end of a record; a failure in a
 * callback is kept in rc. */
typedef struct csv_state {
    const vf_table_sink *sink;
    vc_err *err;
    int rc;
    char **column;               /* the header */
    int n_columns;
    bool has_header;
    int64_t number;              /* number of the row being read */
    int64_t field;               /* fields of the row read so far */
    size_t bytes;                /* bytes of these fields */
    cJSON *row;
    vc_err bad;                  /* first fault of the row; code 0: none so far */
} csv_state;

static void csv_column(csv_state *c, const char *s, size_t n)
{
    while (n && (*s == ' ' || *s == '\t'))
        s++, n--;
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    char **more = realloc(c->column, ((size_t)c->n_columns + 1) * sizeof *more);
    char *name = more ? malloc(n + 1) : NULL;
    if (more)
        c->column = more;
    if (!name) {
        c->rc = vc_no_memory(c->err);
        return;
    }
    memcpy(name, s, n);
    name[n] = 0;
    c->column[c->n_columns++] = name;
    if (memchr(name, 0, n) || vc_utf8_prefix(name, n) < n)
        c->rc = vc_fail(c->err, VC_EFORMAT, "the header is not UTF-8 text");
    for (int i = 0; i + 1 < c->n_columns && !c->rc; i++)
        if (*name && !strcmp(c->column[i], name))
            c->rc = vc_fail(c->err, VC_EFORMAT, "column \"%.60s\" occurs twice", name);
    if (!c->rc && c->n_columns > MAX_COLUMNS)
        c->rc = vc_fail(c->err, VC_EFORMAT, "more than %d columns", MAX_COLUMNS);
}

/* s has a NUL after its n bytes. */
static void csv_field(void *s, size_t n, void *arg)
{
    csv_state *c = arg;
    const char *text = s ? s : "";

    if (c->rc)
        return;
    if (!c->has_header) {
        csv_column(c, text, n);
        return;
    }
    int64_t i = c->field++;
    if (i >= c->n_columns || c->bad.code)
        return;
    c->bytes += n;
    size_t good = vc_utf8_prefix(text, n);
    if (good < n)
        vc_fail(&c->bad, VC_EFORMAT, "%s: byte %zu is not UTF-8", c->column[i], good + 1);
    else if (memchr(text, 0, n))
        vc_fail(&c->bad, VC_EFORMAT, "%s: holds a NUL", c->column[i]);
    else if (c->bytes > MAX_ROW)
        vc_fail(&c->bad, VC_EFORMAT, "more than %d bytes in a row", MAX_ROW);
    else if (!c->row && !(c->row = cJSON_CreateObject()))
        c->rc = vc_no_memory(c->err);
    else if (!cJSON_AddStringToObject(c->row, c->column[i], text))
        c->rc = vc_no_memory(c->err);
}

static void csv_record(int end, void *arg)
{
    csv_state *c = arg;
    (void)end;

    if (c->rc)
        return;
    if (!c->has_header) {
        c->has_header = true;
        if (c->sink->header)
            c->rc = c->sink->header(c->sink->arg, c->column, c->n_columns, c->err);
        return;
    }
    c->number++;
    if (!c->bad.code && c->field != c->n_columns)
        vc_fail(&c->bad, VC_EFORMAT, "%" PRId64 " fields under %d columns", c->field,
                c->n_columns);
    if (c->number > INT32_MAX)
        c->rc = too_many(c->err);
    else if (c->bad.code)
        c->rc = c->sink->row(c->sink->arg, c->number, NULL, c->bad.text, c->err);
    else
        c->rc = c->sink->row(c->sink->arg, c->number, c->row, NULL, c->err);
    cJSON_Delete(c->row);
    c->row = NULL;
    c->field = 0;
    c->bytes = 0;
    c->bad = (vc_err){ 0 };
}

static int no_space(unsigned char c)
{
    (void)c;
    return 0;
}

static int csv_feed(csv_state *c, struct csv_parser *csv, pieces *p, bool end, vc_err *err)
{
    size_t bom = 0;
    int rc = !c->has_header && !c->n_columns && !csv->entry_pos
                 ? skip_bom(p->buf, p->n, &bom, err) : 0;
    if (rc)
        return rc;
    /* A long field doubles libcsv's buffer. */
    csv_set_blk_size(csv, csv->entry_pos > PIECE ? csv->entry_pos : PIECE);
    if (csv_parse(csv, p->buf + bom, p->n - bom, csv_field, csv_record, c) != p->n - bom)
        return vc_fail(err, VC_ENOMEM, "row %" PRId64 ": %s", c->number + 1,
                       csv_strerror(csv_error(csv)));
    p->n = 0;
    if (!c->rc && csv->entry_pos > MAX_FIELD)
        return vc_fail(err, VC_EFORMAT, "row %" PRId64 ": more than %d bytes in a field; "
                       "is a quote missing?", c->number + 1, MAX_FIELD);
    /* Strict mode is set only for the end: before, quotes within an unquoted field are plain
     * characters. */
    csv_set_opts(csv, CSV_APPEND_NULL | (end ? CSV_STRICT | CSV_STRICT_FINI : 0));
    if (!c->rc && end && csv_fini(csv, csv_field, csv_record, c))
        return vc_fail(err, VC_EFORMAT, "row %" PRId64 ": ends within quotes", c->number + 1);
    return c->rc;
}

static int read_fields(const char *path, unsigned char between, const vf_table_sink *sink,
                       vc_err *err)
{
    struct csv_parser csv;
    csv_state c = { .sink = sink, .err = err };
    pieces p;
    bool end = false;

    if (csv_init(&csv, CSV_APPEND_NULL))
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    csv_set_space_func(&csv, no_space);
    csv_set_delim(&csv, between);
    int rc = pieces_open(&p, path, err);
    if (!rc) {
        while (!rc && !end) {
            rc = pieces_read(&p, &end, err);
            if (!rc)
                rc = csv_feed(&c, &csv, &p, end, err);
        }
        if (!rc && !c.has_header)
            rc = vc_fail(err, VC_EFORMAT, "empty: no header");
        rc = vc_context(err, rc, "%s", path);
    }
    pieces_close(&p);
    csv_free(&csv);
    cJSON_Delete(c.row);
    for (int i = 0; i < c.n_columns; i++)
        free(c.column[i]);
    free(c.column);
    return rc;
}

static int read_csv(const char *path, const vf_table_sink *sink, vc_err *err)
{
    return read_fields(path, ',', sink, err);
}

static int read_tsv(const char *path, const vf_table_sink *sink, vc_err *err)
{
    return read_fields(path, '\t', sink, err);
}

int vf_table_read(const char *path, const vf_table_sink *sink, vc_err *err)
{
    static const struct {
        const char *ext;
        int (*read)(const char *path, const vf_table_sink *sink, vc_err *err);
    } formats[] = {
        { ".json", read_json }, { ".jsonl", read_jsonl }, { ".ndjson", read_jsonl },
        { ".csv", read_csv }, { ".tsv", read_tsv },
    };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcasecmp(vc_path_ext(path), formats[i].ext))
            return formats[i].read(path, sink, err);
    return vc_fail(err, VC_EINVAL, "%s: expected a .json, .jsonl, .csv, .tsv or .parquet file", path);
}
