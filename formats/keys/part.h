/* part.h - where a medium's bytes are: a file, or a part of one, as of a tar. */
#ifndef FORMATS_KEYS_PART_H
#define FORMATS_KEYS_PART_H

#include <stdint.h>

typedef struct vf_part {
    const char *name, *file;           /* as errors call it; as it is opened */
    int64_t at, size;                  /* size 0: all of the file */
} vf_part;

#endif
