/* metadata.h - the list of clips and stills from which a dataset is made.
 *
 * A list is a .json (array), .jsonl, .csv or .tsv file (table.h) or a .parquet, .arrow or .feather
 * file (columnar.h) with the columns of VideoX-Fun, DiffSynth or Finetrainers, a tar, or a folder.
 * The media files of a folder are the rows, with captions in .txt or .caption files of the same
 * stem. A medium in a subfolder "N_name" has the weight N, as for kohya's sd-scripts
 * (plain_folders: 1). If no medium has a caption file, the first of these lists in the folder is
 * read:
 *   metadata.jsonl, .csv, .json or .tsv, then videos2caption.json (FastVideo), then captions.json
 *       if it is an array: each is read as if the user had given the file itself
 *   captions.json (diffusion-pipe)   an object, {"a.mp4": "caption" or ["caption", ...]}
 *   (prompt|prompts|caption|captions).txt with (video|videos|image|images).txt (Finetrainers)
 *       one caption and one medium a line; both files have the same number of lines
 *   tars (WebDataset)
 *       members with the same key (the path up to the first dot of the file's name) are a sample,
 *       wherever they lie in the tar: its media, and for each a caption in the .txt of its stem,
 *       else of the key, else in a .json, else in a .caption; of two members of one name the last
 *       counts, and links are followed; a still beside a video is ignored as its thumbnail, unless
 *       it has a caption of its own; the medium is a part of the tar
 *   labels/NAME.txt (SAT)            captions of the media in videos/
 *   state.json or dataset_dict.json (datasets' save_to_disk), else .parquet, .arrow and .feather
 *       files in the folder or below: all of one split, of several splits those of train
 * Columns of a list:
 *   medium    image_column, or the first column that is not empty of file_path, video, image,
 *             media_path, file_name, then those of file_keys, then, in any case, all of these,
 *             video_path, image_path, mp4, path; a relative path is also looked up in videos/
 *   captions  text, prompt, caption, captions, each also as text_2, text_3, ...: a string or a
 *             list of strings; all that are not empty count, in the order of the row. If a row has
 *             none of these columns, or null in them, the same names in upper or lower case,
 *             description, caption_text and cap are tried; a row with none of those has no caption.
 *             "" is a caption
 *   segments  text_chunks: a list of captions, one for each segment of three seconds of the clip,
 *             in order, in place of the captions above. Annotations of ttt-video have the captions
 *             in text_0, text_1, ... with the lists scene_start and scene_end, or one segment in
 *             text with these flags. A .json file may also be an object of such segments, {"id":
 *             {"mp4": the clip, "text": ..., "scene_start": true, "scene_end": false}, ...}, in
 *             which those with the same mp4 are the segments of that clip, in the file's order. A
 *             caption gets the token VF_SCENE_START in front where its segment begins a scene, and
 *             VF_SCENE_END behind where its segment ends one
 *   others    type (image|video), weight, width, height, frames, fps (numbers or strings of digits;
 *             of the last four a value that is none counts as not given, and fps may be a fraction:
 *             30000/1001), tags (list, or separated by commas), loss_mask_path, control_file_path
 *             (or DiffSynth's control_video and blockwise_controlnet_image), mask_file_path (or
 *             DiffSynth's flux_fill_mask), flux_fill_image (none where it is the medium),
 *             input_image
 * A path with backslashes is read as one with slashes where only that file exists.
 * In a Parquet or Arrow file, the medium may be bytes, or a struct {bytes, path}; if no column has
 * one of the names above, it is the only column that has bytes. The path of such a row is the
 * file's name, '/', and the last part of `path`, or else the row's number in the file. A shell's
 * pattern that ends in .parquet, .arrow or .feather names several files. A medium may be a folder:
 * the pictures in it are the frames of a video. The reason why a row is unusable is in its `bad`,
 * so that the reader can count and report the row; only a file that is no such list fails as a
 * whole. */
#ifndef FORMATS_METADATA_METADATA_H
#define FORMATS_METADATA_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "formats/keys/part.h"

typedef enum { VF_TYPE_UNKNOWN, VF_TYPE_IMAGE, VF_TYPE_VIDEO } vf_type;

/* Tokens in captions of segments, and the most segments of a clip. */
#define VF_SCENE_START "<start_scene>"
#define VF_SCENE_END "<end_scene>"
enum { VF_MAX_SEGMENTS = 256 };

/* Files beside a row's medium: those of `columns`, and VF_REFERENCE + k for reference picture k. */
typedef enum vf_beside { VF_LOSS_MASK, VF_CONTROL, VF_MASK, VF_FILLED, VF_COLUMNS,
                         VF_REFERENCE = VF_COLUMNS,
                         VF_BESIDE = VF_REFERENCE + 4 } vf_beside;
extern const char *const vf_beside_columns[VF_BESIDE];

typedef struct vf_side {
    char *path, *file;                 /* as written in the row, and joined to the data folder; or
                                        * NULL */
    const char *column;                /* that the row has it in, if it is not the usual one */
} vf_side;

/* What a row is for: it is learned, it is a regularisation picture, or the model's own prediction
 * of it is kept. */
typedef enum vf_held { VF_HELD_NONE, VF_HELD_REG, VF_HELD_PRIOR } vf_held;

typedef struct vf_extra {
    char *column, *value;              /* strings as written, other values as JSON */
} vf_extra;

typedef struct vf_row {
    int64_t row;                       /* number from 1, as in errors.jsonl */
    char *path;                        /* medium as written in the row; "" if the row has none */
    char *file;                        /* path joined to the data folder; "" if the row has none */
    int64_t at, size;                  /* offset and length of the medium in file, such as a tar;
                                          size and column 0: the medium is the whole file */
    int column;                        /* not 0: the medium is a value in file, as vf_part has it */
    struct vf_columnar *values;        /* of the list; NULL for other files */
    vf_type type;                      /* from the column `type`, else from a column video or image,
                                          else (except with file_path) from the file's ending;
                                          unknown: the content of the file decides */
    char **captions;                   /* at least one; "" stands for a missing caption */
    int n_captions;
    char **preserved;                  /* [n_captions] the captions with another word in place of a
                                          trigger word (wording.h); NULL: none are */
    int segments;                      /* number of the clip's segments, each with one of the
                                          captions; 0: captions are alternatives */
    char *caption_from;                /* source of the captions, or of an empty one: their columns
                                          ("text and prompt"), the ending of their file, or a list
                                          in the folder; NULL: the row has no caption */
    int64_t width, height, frames;     /* 0: not given */
    double fps, weight;                /* fps 0: not given; weight: default 1, never negative */
    vf_held held;
    char **tags;
    int n_tags;
    vf_side beside[VF_COLUMNS];
    vf_side *references;               /* [n_references]: the pictures of the column edit_image, or
                                        * of another one of references.c */
    int n_references;                  /* -1: the column has neither a path nor a list of paths */
    char *references_from;             /* their column, the first of several, or the flag of their
                                          folder; NULL: there are none */
    vf_extra *extra;
    int n_extra;
    uint64_t id;                       /* XXH3-64 of path, seeded with the number of earlier rows
                                          that have the same path */
    char *bad;                         /* reason why the row cannot be used, or NULL; with a reason
                                          the fields after `type` up to `extra` may be missing */
    bool unread;                       /* the row is bad because the system refused to read its
                                          caption or (path ends in '/') its folder */
} vf_row;

typedef struct vf_metadata {
    vf_row *rows;
    int64_t n;
    bool folder;                       /* the list is a folder's media; the folder has no list */
    char *lists;                       /* of a folder of Parquet or Arrow files, what was read and
                                          what not; NULL: all was */
    struct vf_columnar *values;        /* reads media in the rows of Parquet files */
    bool repeats;                      /* media of a folder lie in subfolders "N_name": N, from 1
                                          to 1000, is the weight of their rows */
    int64_t n_once, once;              /* repeats: number of the other rows, and the first one */
    char *ignored;                     /* files of a folder or tar that are no rows, as ".md 2
                                          (a.md, ...: reason), ..."; NULL: none, or the rows come
                                          from a list */
} vf_metadata;

typedef struct vf_metadata_opts {
    const char *data_dir;              /* folder of the media; NULL: the folder of the list. Files
                                        * of
                                          a folder given as the list lie in that folder */
    const char *image_column;          /* --image_column, or NULL: the one column of the media */
    const char *reference_column;      /* --reference_column, or NULL: the columns of references,
                                          comma separated, in place of the known ones */
    const char *file_keys;             /* --data_file_keys, or NULL: further media columns, comma
                                          separated, kept in `extra` unless they are the medium */
    const char *caption_columns;       /* --caption_column, or NULL: caption columns, comma
                                          separated, or the file that replaces prompts.txt.
                                          VC_EUSAGE if no list in the folder uses them */
    bool allow_empty_captions;         /* true: a row without a caption gets the empty one; false:
                                          such a row is bad, and a list of only such rows fails */
    const char *default_caption;       /* --default_caption, or NULL: that of a row without one */
    bool caption_lines;                /* --caption_lines: each line of a .txt or .caption file that
                                          is not blank is a caption */
    bool plain_folders;                /* --no_folder_repeats: subfolders named "N_name" are like
                                          others */
    const char *extra_inputs;          /* --extra_inputs, or NULL: columns to keep in `extra`,
                                          comma separated */
} vf_metadata_opts;

/* Reads the list at path; the caller frees *m. VC_EFORMAT, with line or row: the file is no such
 * list. A folder is read with its subfolders, linked ones too, in bytewise order of the paths,
 * without hidden files and those that systems leave (Thumbs.db, __MACOSX). Each folder is read
 * once, so that links cannot form a cycle; a subfolder that cannot be read, or a link that leads
 * nowhere, is a bad row. */
int vf_metadata_read(vf_metadata *m, const char *path, const vf_metadata_opts *o, vc_err *err);
/* Adds the regularisation pictures of a folder or a list, which is read like the first, and whose
 * rows without a caption get the class of their folder "N_class". Their weights are changed so that
 * they count as often as the rows before them, as sd-scripts does. */
int vf_metadata_add_regs(vf_metadata *m, const char *path, const vf_metadata_opts *o, vc_err *err);
/* Gives rows without reference pictures those of the folders, in their order: the picture with the
 * medium's stem, or all with the stem and "_0", "_1" .. behind it. The pictures of a medium in a
 * subfolder may lie in a subfolder of the same name. A row without any of a folder, or with two
 * pictures of one stem, becomes bad. Fails if a folder cannot be read. */
int vf_metadata_pair(vf_metadata *m, char *const *dirs, int n, vc_err *err);
/* Gives rows without a mask that of the folder, the picture with the medium's stem, as above. */
int vf_metadata_pair_masks(vf_metadata *m, const char *dir, vc_err *err);
void vf_metadata_free(vf_metadata *m);           /* m may be all-zero */

/* The file beside the row's medium; NULL: the row has none of that kind. */
const vf_side *vf_row_side(const vf_row *r, vf_beside which);
/* The column of such a file, for messages: of references the row's own one. */
const char *vf_row_column(const vf_row *r, vf_beside which);
/* Fills `references` of a row from its columns, or from those that `column` names (NULL: none are
 * named), whose paths are relative to dir. VC_ENOMEM alone ends the reading: a column of another
 * form makes n_references -1, which a mode that needs references refuses. Lists' rows are read so;
 * of a row elsewhere the caller frees them. */
int vf_row_read_references(vf_row *r, const cJSON *o, const char *column, const char *dir,
                           vc_err *why);
void vf_row_free_references(vf_row *r);
/* Returns the place of the medium's bytes; its strings are borrowed from the row. */
vf_part vf_row_part(const vf_row *r);
/* Returns the type for the ending of a file's name. */
vf_type vf_type_of_name(const char *name);

#endif
