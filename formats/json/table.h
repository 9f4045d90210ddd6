/* table.h - a list of rows in a .json (array of objects), .jsonl, .csv or .tsv file, each row given
 * as a JSON object. CSV and JSONL are read in pieces, so that a long list is never in memory twice.
 *
 * TSV has tabs for commas and is CSV else.
 * CSV as Python's csv module reads it: commas, quotes doubled inside quotes, line ends inside
 * quotes, LF or CRLF, blanks kept; the first record names the columns; an empty field is "". A
 * byte order mark is skipped. Row numbers count from 1: records after the header, elements of the
 * array, lines of JSONL. */
#ifndef FORMATS_JSON_TABLE_H
#define FORMATS_JSON_TABLE_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"

typedef struct vf_table_sink {
    /* The CSV's columns, once, before the first row; NULL: not wanted. */
    int (*header)(void *arg, char *const *column, int n, vc_err *err);
    /* o is valid during the call. bad: NULL, or why the row cannot be read, and then o is NULL. */
    int (*row)(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err);
    void *arg;
} vf_table_sink;

/* A callback's failure ends the reading and is returned. VC_EFORMAT "PATH: row 7: ..." when the
 * file is no such list or its rest cannot be told apart into rows; VC_EINVAL: unknown file ending;
 * at most 2^31 - 1 rows, 16 MiB in a row, 4 GiB in a .json file. */
int vf_table_read(const char *path, const vf_table_sink *sink, vc_err *err);

#endif
