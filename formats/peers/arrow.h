/* arrow.h - a table as an Arrow IPC stream (Columnar Format 1.x, metadata version V5), as the Python
 * package `datasets` keeps its tables. Written batch by batch, so that memory stays small and no
 * offset exceeds 32 bits. No value is null. One thread. */
#ifndef FORMATS_PEERS_ARROW_H
#define FORMATS_PEERS_ARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

typedef enum vf_arrow_type {
    VF_ARROW_BOOL, VF_ARROW_INT64, VF_ARROW_UTF8, VF_ARROW_LIST              /* of UTF8 */
} vf_arrow_type;

typedef struct vf_arrow_field {
    const char *name;
    vf_arrow_type type;
} vf_arrow_field;

enum { VF_ARROW_COLUMNS = 8 };
typedef struct vf_arrow vf_arrow;

/* A new file; the n fields are borrowed. VC_EIO: path is there already, or cannot be written. */
int vf_arrow_open(vf_arrow **out, const char *path, const vf_arrow_field *fields, int n, vc_err *err);
/* The value of a column (BOOL, INT64; UTF8) in the row being filled; of a LIST, one more item. Text
 * is UTF-8. What goes wrong is told by vf_arrow_row. */
void vf_arrow_int(vf_arrow *a, int column, int64_t v);
void vf_arrow_text(vf_arrow *a, int column, const char *s);
/* Ends a row in which every column but the lists has one value. VC_EINVAL names a column whose texts
 * in one row exceed 2 GiB. */
int vf_arrow_row(vf_arrow *a, vc_err *err);
/* Ends the stream; without it the file is no whole one. */
int vf_arrow_finish(vf_arrow *a, vc_err *err);
void vf_arrow_close(vf_arrow *a);                            /* NULL is fine */

#endif
