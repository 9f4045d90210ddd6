/* part.h - the place of a medium's bytes: a whole file, a part of a file such as a tar, or a value
 * in a Parquet file. */
#ifndef FORMATS_KEYS_PART_H
#define FORMATS_KEYS_PART_H

#include <stdbool.h>
#include <stdint.h>

struct vf_columnar;

typedef struct vf_part {
    const char *name, *file;           /* name in errors; path that is opened */
    int64_t at, size;                  /* offset and length in the file; size 0: the whole file */
    int column;                        /* not 0: the bytes are a value of the file, in row `at` and
                                          leaf column - 1, which `values` reads (columnar.h) */
    struct vf_columnar *values;
} vf_part;

static inline bool vf_part_is_file(const vf_part *p)
{
    return !p->size && !p->column;
}

#endif
