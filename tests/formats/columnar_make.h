/* columnar_make.h - writes Parquet and Arrow files for tests, with Arrow's own writers. */
#ifndef TESTS_FORMATS_COLUMNAR_MAKE_H
#define TESTS_FORMATS_COLUMNAR_MAKE_H

#include <stddef.h>

typedef struct columnar_row {
    const char *text;                  /* caption; NULL: null */
    const char *path;                  /* NULL: null */
    const void *bytes;                 /* NULL: null */
    size_t n;
} columnar_row;

/* Writes the rows to path. The form is one or more words:
 *   parquet, stream, file              the kind of file
 *   snappy, zstd, lz4                  its compression
 *   direct                             the column "clip" has the bytes, and there are no paths;
 *                                      else the column "video" has structs {bytes, path}
 *   alone                              there is no other column
 *   large, view, dictionary            types of strings and bytes
 *   groups                             two rows a row group or batch
 *   old                                Parquet without statistics, in pages of version 1
 * Beside the caption in "text" a row has fps (NaN in the first), when (a time), tags (a list),
 * count (over 2^53), hash (two bytes, null in the first) and more (a struct with a list). Returns
 * 0, or prints the error and returns -1. */
int columnar_make(const char *path, const char *form, const columnar_row *rows, int n);

#endif
