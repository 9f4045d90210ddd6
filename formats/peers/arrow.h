/* arrow.h - writes a table as an Arrow IPC stream (Columnar Format 1.x, metadata version V5), as
 * the Python package `datasets` stores its tables. Rows are written batch by batch, so that memory
 * stays small and no offset exceeds 32 bits. No value is null. One thread may use a handle. */
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

/* Makes a new file; the n fields are borrowed. VC_EIO: path exists, or cannot be written. */
int vf_arrow_open(vf_arrow **out, const char *path, const vf_arrow_field *fields, int n,
                  vc_err *err);
/* Set the value of a column (BOOL, INT64; UTF8) in the current row, or add an item to a LIST. Text
 * is UTF-8. vf_arrow_row reports errors. */
void vf_arrow_int(vf_arrow *a, int column, int64_t v);
void vf_arrow_text(vf_arrow *a, int column, const char *s);
/* Ends a row in which every column but the lists has one value. VC_EINVAL names a column whose
 * texts in one row exceed 2 GiB. */
int vf_arrow_row(vf_arrow *a, vc_err *err);
/* Writes the end of the stream, without which the file is incomplete. */
int vf_arrow_finish(vf_arrow *a, vc_err *err);
void vf_arrow_close(vf_arrow *a);                            /* a may be NULL */

#endif
