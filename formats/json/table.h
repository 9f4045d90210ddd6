/* table.h - reads a list of rows from a .json (array of objects), .jsonl, .csv or .tsv file and
 * passes each row to a callback as a JSON object. CSV and JSONL are read in pieces, so that a long
 * list is never in memory twice.
 *
 * CSV is read as Python's csv module reads it: commas, quotes doubled inside quotes, line ends
 * inside quotes, LF or CRLF, blanks kept; the first record names the columns; an empty field is "".
 * TSV is the same with tabs for commas. An array in a .jsonl file is read as one, and so are lines
 * of objects in a .json file. A byte order mark is skipped. Row numbers count from 1:
 * records after the header, elements of the array, lines of JSONL. */
#ifndef FORMATS_JSON_TABLE_H
#define FORMATS_JSON_TABLE_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"

typedef struct vf_table_sink {
    /* Gets the columns of a CSV or TSV, once, before the first row; may be NULL. */
    int (*header)(void *arg, char *const *column, int n, vc_err *err);
    /* Gets a row; o is valid during the call. If the row cannot be read, o is NULL and bad is the
     * reason, else bad is NULL. */
    int (*row)(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err);
    void *arg;
} vf_table_sink;

/* The form of a text: an array, one object, objects a line each, or another (CSV, or no text). */
typedef enum vf_table_form {
    VF_TABLE_OTHER, VF_TABLE_ARRAY, VF_TABLE_OBJECT, VF_TABLE_LINES
} vf_table_form;

/* Finds the form by the first 256 KiB of the file. VC_EFORMAT: no regular file, UTF-16, or a file
 * that begins with zero bytes. */
int vf_table_look(vf_table_form *form, const char *path, vc_err *err);

/* Reads the file at path; a callback's failure ends the reading and is returned. VC_EFORMAT "PATH:
 * row 7: ...": the file is no such list, or the end of a bad row is not certain. VC_EINVAL: the
 * file's ending is unknown. VC_ESTOP: the program is to stop. A list has at most 2^31 - 1 rows, a
 * row 16 MiB, a .json file 4 GiB. */
int vf_table_read(const char *path, const vf_table_sink *sink, vc_err *err);

#endif
