/* metadata.h - the list of clips and stills a dataset is made from.
 *
 * .json (array), .jsonl, .csv or .tsv (table.h) with the columns of VideoX-Fun, DiffSynth or
 * Finetrainers, or a folder. Its media files are the rows, with captions in .txt or .caption files
 * of the same stem. Where no medium has such a file, the first of these in the folder is read:
 *   metadata.jsonl, .csv, .json or .tsv, then videos2caption.json (FastVideo), then captions.json
 *       that is an array: as if given itself
 *   captions.json (diffusion-pipe)   an object, {"a.mp4": "caption" or ["caption", ...]}
 *   (prompt|prompts|caption|captions).txt with (video|videos|image|images).txt (Finetrainers)
 *       one caption and one medium a line, as many of each
 *   tars (WebDataset), or one itself
 *       members of one stem, up to its first dot, are a sample: media, of which a still beside a
 *       video is none, and .txt or else .json with a caption; the medium is a part of the tar
 *   labels/NAME.txt (SAT)            of media in videos/
 * Columns of a list:
 *   medium    file_path, video, image, media_path, file_name, then those of file_keys, then (in
 *             any case) all of those, video_path, image_path, path: the first that is not empty;
 *             path is looked for in videos/ as well
 *   captions  text, prompt, caption, captions, each also as text_2, text_3, ...: a string or a
 *             list of strings; all that are not empty, in the order of the row. A row that has none
 *             of them, or null, takes (in any case) those, description, caption_text or cap; else
 *             it has no caption; "" is one
 *   others    type (image|video), width, height, frames, fps, weight (numbers or strings of
 *             digits), tags (list, or separated by commas), loss_mask_path, control_file_path,
 *             input_image
 * A medium may be a folder: the pictures in it are the frames of a video.
 * What makes a single row unusable is told in its `bad`, so that the reader can count and report
 * it; only a file that is no such list fails as a whole. */
#ifndef FORMATS_METADATA_METADATA_H
#define FORMATS_METADATA_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/keys/part.h"

typedef enum { VF_TYPE_UNKNOWN, VF_TYPE_IMAGE, VF_TYPE_VIDEO } vf_type;

typedef struct vf_extra {
    char *column, *value;              /* strings as written, other values as JSON */
} vf_extra;

typedef struct vf_row {
    int64_t row;                       /* from 1, as errors.jsonl counts */
    char *path;                        /* as written in the row; "" when there is none */
    char *file;                        /* joined to the data folder; "" when there is none */
    int64_t at, size;                  /* the medium is that part of the file, a tar; size 0: all
                                          of it */
    vf_type type;                      /* by `type`, else: by the column for video and image, by the
                                          file's ending for the others but file_path; unknown: what
                                          the file holds decides */
    char **captions;                   /* at least one; "" when there is none */
    int n_captions;
    char *caption_from;                /* the first one's column, or ending of its file, or what list
                                          of a folder has it; also where it is ""; NULL: the row has
                                          none */
    int64_t width, height, frames;     /* 0: not given */
    double fps, weight;                /* fps 0: not given; weight 1 by default, never negative */
    char **tags;
    int n_tags;
    char *loss_mask_path;              /* as written; NULL: none */
    char *loss_mask_file;              /* joined to the data folder */
    vf_extra *extra;
    int n_extra;
    uint64_t id;                       /* XXH3-64 of path, seeded with how many earlier rows have
                                          the same path */
    char *bad;                         /* NULL, or why the row cannot be used; then what follows
                                          `type` up to `extra` may be missing */
    bool unread;                       /* bad, because the system refused to read its caption, or
                                          (path ends in '/') a folder with who knows what in it */
} vf_row;

typedef struct vf_metadata {
    vf_row *rows;
    int64_t n;
    bool folder;                       /* a folder was the list, and no list lay in it */
} vf_metadata;

typedef struct vf_metadata_opts {
    const char *data_dir;              /* NULL: the folder of the metadata file; a folder's own files
                                          are always in it */
    const char *file_keys;             /* --data_file_keys: further media columns, comma separated,
                                          kept as extra where not the row's medium; or NULL */
    const char *caption_columns;       /* --caption_column: in place of those above, comma
                                          separated, or in place of prompts.txt; or NULL. VC_EUSAGE
                                          where the folder has no such list */
    bool allow_empty_captions;         /* a row without a caption has the empty one; else it is bad,
                                          and a list of such rows alone fails */
    const char *extra_inputs;          /* --extra_inputs: columns to keep, comma separated; or
                                          NULL */
} vf_metadata_opts;

/* Reads path. The caller frees. VC_EFORMAT, with line or row, for a file that is no such list.
 * Folders are read with their subfolders, in bytewise order of the paths, hidden files and
 * linked folders left out; a subfolder that cannot be read is a bad row. */
int vf_metadata_read(vf_metadata *m, const char *path, const vf_metadata_opts *o, vc_err *err);
void vf_metadata_free(vf_metadata *m);           /* an all-zero one is fine */

/* Where the medium's bytes are; borrowed from the row. */
vf_part vf_row_part(const vf_row *r);
/* By the ending of a file's name. */
vf_type vf_type_of_name(const char *name);

#endif
