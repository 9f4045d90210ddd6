/* tfevents.h - scalars in TensorBoard's event files.
 *
 * A file is a row of TFRecords (u64 length, masked CRC-32C of the length, bytes, masked CRC-32C of
 * the bytes; little-endian), each an Event in protocol buffers: the file's version, a session's
 * start, then one scalar each. Every open makes a new file that sorts after those already in the
 * folder; its session start makes TensorBoard drop the events of older files from first_step on,
 * so that a resumed run shows no step twice. One thread at a time. */
#ifndef FORMATS_REPORT_TFEVENTS_H
#define FORMATS_REPORT_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_tfevents vf_tfevents;

/* Makes dir if needed. first_step: the first step that will be written. */
int vf_tfevents_open(vf_tfevents **out, const char *dir, int64_t first_step, vc_err *err);
/* Adds a scalar, which is kept in memory until about 64 KiB are to be written. After a failed write
 * nothing is lost or doubled: the next write continues with the rest. */
int vf_tfevents_scalar(vf_tfevents *t, int64_t step, const char *tag, float value, vc_err *err);
/* Writes all scalars added so far, so that TensorBoard can read them. */
int vf_tfevents_flush(vf_tfevents *t, vc_err *err);
/* Flushes, and frees the handle in every case. It may be NULL. */
int vf_tfevents_close(vf_tfevents *t, vc_err *err);

/* CRC-32C (Castagnoli; RFC 3720, appendix B.4), unmasked. */
uint32_t vf_crc32c(const void *data, size_t n);

#endif
