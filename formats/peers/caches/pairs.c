/* pairs.c - reads the pairs of lines of videos.txt and prompts.txt, as CogVideo and
 * CogVideoX-Factory do. See exchange_parts.h */
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/peers/exchange_parts.h"

enum { MAX_LINE = 4 << 20 };

int exchange_trimmed(char **line, const char *text, size_t n, vc_err *err)
{
    while (n && (unsigned char)text[n - 1] <= ' ')
        n--;
    while (n && (unsigned char)*text <= ' ') {
        text++;
        n--;
    }
    if (!(*line = strndup(n ? text : "", n)))
        return vc_no_memory(err);
    for (char *p = *line; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    return 0;
}

/* A text file that is read line by line. */
typedef struct text_file {
    const char *name;
    vc_map m;
    vc_lines lines;
    int line;                                /* number of the last line, from 1 */
    vc_err bad;                              /* why it is no text */
} text_file;

static int open_lines(text_file *f, const char *root, const char *name, vc_err *err)
{
    char *path = vc_path_join(root, name);
    int rc = path ? vc_map_open(&f->m, path, err) : vc_no_memory(err);
    free(path);
    f->name = name;
    f->lines = vc_lines_of(f->m.data, f->m.size, MAX_LINE);
    return rc;
}

/* Gets the next line that is not blank; the caller frees *line, which is NULL at the end. */
static int next_line(text_file *f, char **line, vc_err *err)
{
    const char *text;
    size_t n;
    int rc;
    *line = NULL;
    while (!(rc = vc_lines_next(&f->lines, &text, &n, err)) && text) {
        f->line++;
        f->bad = (vc_err){ 0 };
        vc_utf8_check(text, n, &f->bad);
        rc = exchange_trimmed(line, text, n, err);
        if (rc || **line)
            return rc;
        free(*line);
        *line = NULL;
    }
    return rc;
}

/* Fails if the last line of a file is no text. */
static int check_text(const text_file *f, const char *root, vc_err *err)
{
    return f->bad.code ? vc_fail(err, f->bad.code, "%s/%s: line %d: %s", root, f->name, f->line,
                                 f->bad.text) : 0;
}

/* Gets and passes on the next pair; *more: there was one. */
static int read_pair(exchange *x, const char *root, text_file f[2], exchange_pair_fn fn, bool *more,
                     vc_err *err)
{
    char *line[2] = { NULL };
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = next_line(&f[i], &line[i], err);
    *more = line[0] && line[1];
    if (!rc && *more) {
        for (int i = 0; !rc && i < 2; i++)
            rc = check_text(&f[i], root, err);
        rc = exchange_skip(x, rc ? rc : fn(x, root, line[0], line[1], err), err);
    } else if (!rc && (line[0] || line[1])) {
        rc = exchange_lack(x, err, "%s: another number of prompts than of videos", root);
    }
    free(line[0]);
    free(line[1]);
    return rc;
}

int exchange_pairs(exchange *x, const char *root, exchange_pair_fn fn, vc_err *err)
{
    text_file f[2] = { 0 };
    char *one = vc_path_join(root, "prompts.txt");
    bool plural = one && vc_file_exists(one);
    free(one);
    int rc = open_lines(&f[0], root, EXCHANGE_VIDEOS, err);
    if (!rc)
        rc = open_lines(&f[1], root, plural ? "prompts.txt" : "prompt.txt", err);
    for (bool more = true; !rc && more;)
        rc = read_pair(x, root, f, fn, &more, err);
    vc_map_close(&f[0].m);
    vc_map_close(&f[1].m);
    return rc;
}
