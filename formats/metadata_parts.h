/* metadata_parts.h - what the parts of the metadata reader tell each other; see metadata.h. */
#ifndef VF_METADATA_PARTS_H
#define VF_METADATA_PARTS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "formats/metadata.h"

#define METADATA_MEDIA "file_path, video, image, media_path, file_name"

typedef struct metadata_list {
    vf_metadata list;
    int64_t cap;
    const vf_metadata_opts *opts;
    const char *dir;                   /* what paths are relative to */
} metadata_list;

/* A new row with nothing in it but its number. */
int metadata_add(metadata_list *l, int64_t number, vf_row **row, vc_err *err);

/* Fills a new row from o, or from bad where there is no o. Fails only for want of memory. */
int metadata_read_row(vf_row *r, const cJSON *o, const char *bad, const vf_metadata_opts *opts,
                      const char *dir, vc_err *err);
/* Whether a column may name the medium. */
bool metadata_is_medium(const vf_metadata_opts *opts, const char *column);

int metadata_read_folder(metadata_list *l, const char *path, vc_err *err);

#endif
