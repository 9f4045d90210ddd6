/* table.c - reads rows from JSON, JSONL, CSV and TSV files. See table.h */
#include "formats/json/table.h"

#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "formats/json/json.h"
#include "formats/json/scan.h"

enum { PIECE = 1 << 16, MAX_ROW = 16 << 20, MAX_COLUMNS = 4096, MAX_FIELD = 256 << 20 };
static const size_t MAX_JSON = (size_t)4 << 30;

static int too_many(vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "more than 2^31 - 1 rows");
}

static int stopped(vc_err *err)
{
    return *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : 0;
}

/* Parses text[0..n), which `before` lines of the file precede, as one row and passes it to the
 * sink. Bad JSON makes the row bad; only running out of memory, a stop, or a failure of the sink is
 * an error. */
static int parse_row(const vf_table_sink *sink, int64_t number, const char *text, size_t n,
                     size_t before, vc_err *err)
{
    vc_err why = { 0 };
    cJSON *o = NULL;

    if (number > INT32_MAX)
        return too_many(err);
    int rc = stopped(err);
    if (rc)
        return rc;
    rc = vf_json_parse_after(&o, text, n, before, &why);
    if (rc == VC_ENOMEM)
        return vc_fail(err, rc, "row %" PRId64 ": %s", number, why.text);
    if (!rc && !cJSON_IsObject(o))
        rc = vc_fail(&why, VC_EFORMAT, "not an object");
    rc = rc ? sink->row(sink->arg, number, NULL, why.text, err)
            : sink->row(sink->arg, number, o, NULL, err);
    cJSON_Delete(o);
    return rc;
}

/* Returns the length of a byte order mark. */
static size_t bom_of(const char *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
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
        return vf_scan_fail(&s, err, "%sexpected an array of objects, '['%s", n ? "" : "empty: ",
                            vf_scan_peek(&s) == '{' ? "; one object a line is a .jsonl file" : "");

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
            rc = parse_row(sink, row, from, (size_t)(s.at - from), 0, err);
    }
    return rc ? rc : vf_scan_done(&s, err);
}

static int read_json(const char *path, const vf_table_sink *sink, vc_err *err)
{
    char *text;
    size_t n;

    int rc = vc_file_read(&text, &n, path, MAX_JSON, err);
    if (rc)
        return rc;
    const size_t bom = bom_of(text, n);
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
    int rc = vc_file_open(&p->fd, &st, path, err);
    if (rc)
        return rc;
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
    int rc = stopped(err);

    if (rc)
        return rc;
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
    return blank(s, n) ? 0 : parse_row(sink, number, s, n, (size_t)number - 1, err);
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
    const size_t bom = *number == 1 ? bom_of(p->buf, p->n) : 0;
    size_t from = bom;
    int rc = 0;

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
        c->rc = vc_context(c->err, vc_utf8_check(name, n, c->err), "header");
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
    if (vc_utf8_check(text, n, &c->bad))
        vc_context(&c->bad, VC_EFORMAT, "%s", c->column[i]);
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
    const size_t bom = !c->has_header && !c->n_columns && !csv->entry_pos ? bom_of(p->buf, p->n)
                                                                          : 0;
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

/* ---- the form of a list ---- */

/* Whether the first line of text[0..n) is an object and more follows: rows as lines. */
static bool is_lines(const char *text, size_t n)
{
    const char *nl = memchr(text, '\n', n);
    if (!nl)
        return false;
    const size_t first = (size_t)(nl - text);
    vf_scan s = vf_scan_of(text, first), rest = vf_scan_of(nl, n - first);
    return !vf_scan_skip(&s, NULL) && !vf_scan_done(&s, NULL) && vf_scan_peek(&rest) == '{';
}

/* Finds the form by the first bytes of a file. They are refused where a parser would only complain
 * about the first of them: in UTF-16, and in a file that a crash has left as zeroes. */
static int look(vf_table_form *form, const char *text, size_t n, vc_err *err)
{
    const size_t bom = bom_of(text, n);
    vf_scan s = vf_scan_of(text + bom, n - bom);

    *form = VF_TABLE_OTHER;
    if (n >= 4 && !memcmp(text, "\0\0\0", 4))
        return vc_fail(err, VC_EFORMAT, "begins with zero bytes: a crash or a full disk has "
                       "damaged the list; restore it");
    int rc = vc_utf16_check(text, n < 4 ? n : 4, err);
    if (rc)
        return rc;
    const char first = vf_scan_peek(&s);
    if (first == '[')
        *form = VF_TABLE_ARRAY;
    else if (first == '{')
        *form = is_lines(s.at, (size_t)(s.end - s.at)) ? VF_TABLE_LINES : VF_TABLE_OBJECT;
    return 0;
}

int vf_table_look(vf_table_form *form, const char *path, vc_err *err)
{
    pieces p;
    bool end = false;
    int rc = pieces_open(&p, path, err);

    *form = VF_TABLE_OTHER;
    if (!rc) {
        while (!rc && !end && p.n < p.cap)
            rc = pieces_read(&p, &end, err);
        if (!rc)
            rc = look(form, p.buf, p.n, err);
        rc = vc_context(err, rc, "%s", path);
    }
    pieces_close(&p);
    return rc;
}

static int read_json_form(const char *path, vf_table_form form, const vf_table_sink *sink,
                          vc_err *err)
{
    return form == VF_TABLE_LINES ? read_jsonl(path, sink, err) : read_json(path, sink, err);
}

static int read_lines_form(const char *path, vf_table_form form, const vf_table_sink *sink,
                           vc_err *err)
{
    return form == VF_TABLE_ARRAY ? read_json(path, sink, err) : read_jsonl(path, sink, err);
}

static int refuse_json(const char *path, vf_table_form form, vc_err *err)
{
    const char *const ending = form == VF_TABLE_ARRAY ? ".json" : ".jsonl";
    return form == VF_TABLE_OTHER ? 0
         : vc_fail(err, VC_EFORMAT, "%s: the text is JSON: name the file %s", path, ending);
}

static int read_csv(const char *path, vf_table_form form, const vf_table_sink *sink, vc_err *err)
{
    int rc = refuse_json(path, form, err);
    return rc ? rc : read_fields(path, ',', sink, err);
}

static int read_tsv(const char *path, vf_table_form form, const vf_table_sink *sink, vc_err *err)
{
    int rc = refuse_json(path, form, err);
    return rc ? rc : read_fields(path, '\t', sink, err);
}

int vf_table_read(const char *path, const vf_table_sink *sink, vc_err *err)
{
    static const struct {
        const char *ext;
        int (*read)(const char *path, vf_table_form form, const vf_table_sink *sink, vc_err *err);
    } formats[] = {
        { ".json", read_json_form }, { ".jsonl", read_lines_form }, { ".ndjson", read_lines_form },
        { ".csv", read_csv }, { ".tsv", read_tsv },
    };
    vf_table_form form;

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcasecmp(vc_path_ext(path), formats[i].ext)) {
            int rc = vf_table_look(&form, path, err);
            return rc ? rc : formats[i].read(path, form, sink, err);
        }
    return vc_fail(err, VC_EINVAL, "%s: expected a .json, .jsonl, .csv, .tsv or .parquet file",
                   path);
}
