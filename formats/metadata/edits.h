/* edits.h - changes of a list of clips that a reader of the dataset made: samples to leave out and
 * other captions, as the page of `vlat report --browse` saves them.
 *
 * The file has one JSON object a line: {"id": "...", "path": "...", "exclude": true}, or
 * {"id": ..., "captions": ["...", ...]}. `id` is that of a sample's record: a hash of the medium's
 * path in the list and of the number of earlier rows with it, so that it stays when the list
 * changes elsewhere. `path` is for people. Of several lines for one id the last counts. */
#ifndef FORMATS_METADATA_EDITS_H
#define FORMATS_METADATA_EDITS_H

#include "formats/metadata/metadata.h"

typedef struct vf_edits_done {
    int64_t excluded, captioned;       /* rows removed; rows with other captions */
    int64_t unused;                    /* lines for no row */
} vf_edits_done;

/* Applies the file to the list. Rows that are bad can be excluded and get no captions. VC_EFORMAT
 * names the line; then *m is as it was. VC_ENOENT, VC_ENOMEM. */
int vf_metadata_edit(vf_metadata *m, const char *path, vf_edits_done *done, vc_err *err);

#endif
