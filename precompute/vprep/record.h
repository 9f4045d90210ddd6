/* record.h - a sample's plan line and its stored record as JSON text, without blanks or a newline;
 * fields as docs/interface.md and docs/format.md have them. Out of memory sticks to the buffer. */
#ifndef PRECOMPUTE_VPREP_RECORD_H
#define PRECOMPUTE_VPREP_RECORD_H

#include "common/base/buf.h"
#include "precompute/encode/encode.h"

void vprep_plan_line(vc_buf *b, const vprep *p, const vprep_item *it, const vprep_clip *clip);
/* The plan line of a row that cannot be used. */
void vprep_lost_line(vc_buf *b, const vprep *p, uint32_t row);
/* The record of a job, after prep_job_settle. */
void vprep_record(vc_buf *b, const vprep *p, const prep_job *j);

#endif
