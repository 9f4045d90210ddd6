/* part.h - the place of a medium's bytes: a whole file, or a part of a file such as a tar. */
#ifndef FORMATS_KEYS_PART_H
#define FORMATS_KEYS_PART_H

#include <stdint.h>

typedef struct vf_part {
    const char *name, *file;           /* name in errors; path that is opened */
    int64_t at, size;                  /* offset and length in the file; size 0: the whole file */
} vf_part;

#endif
