/* beside.h - frames of a file beside the row's own, a loss mask or a control clip: those that the
 * clip has of its source, in the same size, crop and flip. A still stands for all frames. */
#ifndef PRECOMPUTE_ENCODE_BESIDE_H
#define PRECOMPUTE_ENCODE_BESIDE_H

#include "precompute/run/vprep.h"

/* *rgb: malloc'ed bytes [*frames,h,w,3]; *frames is 1 of a still, else the clip's. VC_EMISMATCH:
 * the file has another shape than the source, or fewer frames. Errors begin with the row's
 * column. */
int vprep_read_beside(const vprep *p, const vprep_item *it, const vprep_clip *clip, vf_beside which,
                      uint8_t **rgb, int *frames, vc_err *err);

#endif
