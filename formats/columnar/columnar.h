/* columnar.h - reads lists from Parquet files (.parquet) and Arrow's files (.arrow, .feather).
 * Their columns may hold the bytes of media, as those of Hugging Face's datasets do.
 *
 * The readers need Arrow's C++ library (VLT_ARROW). In a build without it the functions fail with
 * VC_EUSAGE, and the error has the command that unpacks the list.
 *
 * A row is a JSON object of the file's columns, in their order. Text must be UTF-8 without NULs;
 * lists, structs and dictionaries become what they hold; numbers that are not finite become null;
 * integers above 2^53, times and values of other types become text. Bytes become a cell, which has
 * the place of the bytes in the file and not the bytes themselves. So a list of any size needs the
 * memory of one batch of its rows without their media. A struct {bytes, path} becomes an object of
 * these two. */
#ifndef FORMATS_COLUMNAR_COLUMNAR_H
#define FORMATS_COLUMNAR_COLUMNAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "formats/keys/part.h"

/* True for the endings .parquet, .arrow and .feather. */
bool vf_columnar_named(const char *path);
/* Returns 0 if this build can read the file at path, or if its ending is another; else VC_EUSAGE.
 * `list` is the file or folder that the user gave. */
int vf_columnar_check(const char *path, const char *list, vc_err *err);
/* Ends the error for bytes that are not read where they are. */
#define VF_COLUMNAR_UNPACK "scripts/unpack_parquet.py LIST FOLDER writes them to files"

/* The place of bytes in a file. column 0: `size` bytes from byte `at`. column > 0: the value of the
 * leaf column - 1 of a Parquet file, in row `at` from 0; size is 0. column -1: the bytes cannot be
 * read from this file, whose record batches are compressed. */
typedef struct vf_cell {
    int64_t at, size;
    int column;
} vf_cell;

/* Whether v stands for bytes. A cell is an item of cJSON's type Raw, which no parser makes. */
bool vf_columnar_cell(const cJSON *v, vf_cell *cell);
/* Whether v is a cell, or one is anywhere in it. */
bool vf_columnar_has_cell(const cJSON *v);
/* Returns the item for a cell; NULL: out of memory. */
cJSON *vf_columnar_cell_item(const vf_cell *cell);

typedef struct vf_column {
    const char *name;
    bool bytes;                        /* its values are bytes, or structs with a member `bytes` */
} vf_column;

typedef struct vf_columnar_sink {
    /* Gets the columns, once, before the first row; may be NULL. */
    int (*header)(void *arg, const vf_column *column, int n, vc_err *err);
    /* Gets a row, as the callback of table.h does. */
    int (*row)(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err);
    void *arg;
} vf_columnar_sink;

/* Reads the file at path; a callback's failure ends the reading and is returned. Rows count from 1.
 * VC_EFORMAT "PATH: after row 7: ...": the file is damaged or of another kind. */
int vf_columnar_read(const char *path, const vf_columnar_sink *sink, vc_err *err);

/* Reads the values of Parquet cells. A page of values is read and unpacked as a whole, after those
 * before it in its row group. The pages used last stay open: 256 MiB of them, and one more. So the
 * values are read fast in the order of the rows, whatever the size of the row groups. All threads
 * may share one. */
typedef struct vf_columnar vf_columnar;

int vf_columnar_open(vf_columnar **out, vc_err *err);
/* Reads the value of part, whose `column` is not 0; the caller frees *bytes. VC_EFORMAT: the file
 * is damaged or has changed. Errors do not name the file. */
int vf_columnar_value(vf_columnar *c, const vf_part *part, uint8_t **bytes, size_t *n, vc_err *err);
void vf_columnar_close(vf_columnar *c);          /* NULL is fine */

#endif
