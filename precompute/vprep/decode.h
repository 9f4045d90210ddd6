/* decode.h - the first frame of a clip, and clips that fail: inside precompute/vprep only. */
#ifndef PRECOMPUTE_VPREP_DECODE_H
#define PRECOMPUTE_VPREP_DECODE_H

#include "precompute/encode/encode.h"

/* *rgb: the clip's first frame, malloc'ed bytes [h,w,3]. Thread-safe. */
int vprep_first_frame(const vprep *p, const vprep_item *it, uint8_t **rgb, int *h, int *w,
                      vc_err *err);
/* The same of the item's reference k as its texts get it; fills the sizes of *t too. */
int vprep_look_read(const vprep *p, const vprep_item *it, int k, uint8_t **rgb, text_picture *t,
                    vc_err *err);
/* Notes an item that could not be decoded or encoded in that stage. Returns an error where
 * --on_error ends the run, or where a change in place would lose the sample. Thread-safe. */
int vprep_item_failed(vprep *p, const vprep_item *item, const char *stage, const vc_err *why,
                      vc_err *err);

#endif
