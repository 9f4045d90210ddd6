/* parts.h - functions that the files of the metadata reader share; see metadata.h. */
#ifndef FORMATS_METADATA_PARTS_H
#define FORMATS_METADATA_PARTS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "formats/metadata/metadata.h"

#define METADATA_CAPTIONS \
    "text, prompt, caption, captions, description, caption_text, cap"
#define METADATA_MEDIA \
    "file_path, video, image, media_path, file_name, video_path, image_path, mp4, path"

/* Files that are no rows and have an ending and a reason in common. */
typedef struct metadata_ignored {
    char *what, *first;                /* the ending; the first path by name */
    const char *why;                   /* a constant, or NULL */
    int64_t n;
} metadata_ignored;

typedef struct metadata_list {
    vf_metadata list;
    int64_t cap;
    const vf_metadata_opts *opts;
    const char *dir;                   /* folder to which paths are relative */
    const char *known;                 /* columns, or files, from which a caption may come */
    int64_t captioned, uncaptioned;    /* rows so far with a caption, and without */
    char **seen;                       /* columns of rows without a caption, or names or endings of
                                          a folder's other files; error messages list them */
    int n_seen;
    bool listed;                       /* the rows come from a list in the folder */
    metadata_ignored *ignored;         /* files that are no rows, for the line that reports them */
    int n_ignored;
    int64_t more_ignored;              /* files of further kinds */
} metadata_list;

/* Adds a row that has nothing but its number. */
int metadata_add(metadata_list *l, int64_t number, vf_row **row, vc_err *err);

void metadata_free_row(vf_row *r);

/* Gives each row its id. */
int metadata_set_ids(vf_metadata *m, vc_err *err);
/* Fills a new row from o, or from the reason `bad` if o is NULL. The only failure is VC_ENOMEM. */
int metadata_read_row(vf_row *r, const cJSON *o, const char *bad, const vf_metadata_opts *opts,
                      const char *dir, vc_err *err);
/* Joins a path with its folder; of a path of Windows, backslashes become slashes where the file is
 * found so. */
int metadata_find_file(char **file, const char *dir, const char *path, vc_err *why);
/* Fills captions and caption_from; both stay empty if the row has no caption. */
int metadata_read_captions(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, vc_err *why);
/* Fills captions, segments and caption_from of a row that has captions of segments; of another row
 * segments stays 0. */
int metadata_read_segments(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, vc_err *why);
/* Sets *is to whether a list is ttt-video's annotations: a .json file with one object. */
int metadata_is_annotations(bool *is, const char *path, vc_err *err);
/* Adds a row for each clip of the annotations, whose segments are in the file's order. */
int metadata_read_annotations(metadata_list *l, const char *path, vc_err *err);
/* Counts the row, and makes it bad if it has no caption and needs one. */
int metadata_check_caption(metadata_list *l, vf_row *r, vc_err *err);
/* Checks all rows so far like metadata_check_caption; a row without a caption gets the empty
 * one. */
int metadata_check_rows(metadata_list *l, vc_err *err);
/* Sets caption_from to a copy of `from`, in place of the caption's column. */
int metadata_say_from(vf_row *r, const char *from, vc_err *err);
/* Adds a name to l->seen, each name once, and no more than 24. */
int metadata_saw(metadata_list *l, const char *name, vc_err *err);
void metadata_forget_seen(metadata_list *l);
/* Fails with VC_EFORMAT if rows need captions and no row has one; the error lists l->seen and
 * l->known. */
int metadata_need_captions(const metadata_list *l, vc_err *err);
/* Fails with VC_EFORMAT, "no media files"; the error lists l->seen. */
int metadata_no_media(const metadata_list *l, const char *path, vc_err *err);

/* Returns the reason why files of the ending of `name` are not read, a constant, or NULL: there is
 * none, or they are media. */
const char *metadata_why_ignored(const char *name);
bool metadata_is_packed(const char *name);       /* .tar.gz, .zip and the like, by its ending */
/* True for hidden files and folders, and for those that systems leave beside a user's own. */
bool metadata_is_system(const char *name);
/* Counts a file that is no row. what: its ending, or what it is; why: a constant, or NULL. */
int metadata_ignore(metadata_list *l, const char *what, const char *path, const char *why,
                    vc_err *err);
/* Forgets the files counted so far as `what`, or all of them. */
void metadata_unignore(metadata_list *l, const char *what);
void metadata_forget_ignored(metadata_list *l);
/* Makes list.ignored, a line without an end. */
int metadata_say_ignored(metadata_list *l, vc_err *err);

/* Files that are looked up by their stems. path is borrowed. */
typedef struct metadata_stem {
    const char *path;
    size_t stem;                       /* path[0..stem) is the stem */
    int rank;                          /* of files with one stem the least counts */
    int64_t of;                        /* the caller's number for the file */
    bool used;
} metadata_stem;

typedef struct metadata_stems {
    metadata_stem *v;                  /* freed by the caller */
    int64_t n, cap;
} metadata_stems;

int metadata_stems_add(metadata_stems *s, metadata_stem file, vc_err *err);
/* Sorts by stem, then rank, then ending. */
void metadata_stems_sort(metadata_stems *s);
/* Returns the first file, in this order, with the stem path[0..stem) and at least this rank, or
 * NULL. s is sorted. */
metadata_stem *metadata_stems_find(const metadata_stems *s, const char *path, size_t stem,
                                   int rank);

/* True if a column of this name has reference pictures. */
bool metadata_is_reference(const char *column);
/* True if a column may name the medium. */
bool metadata_is_medium(const vf_metadata_opts *opts, const char *column);

/* Adds a row of a table from o, or a bad row with the reason `bad` if o is NULL. */
int metadata_take_row(void *list, int64_t number, const cJSON *o, const char *bad, vc_err *err);
int metadata_read_table(metadata_list *l, const char *path, vc_err *err);
/* The callback for the columns of a table: fails if none of them names the media. */
int metadata_check_header(void *list, char *const *column, int n, vc_err *err);
/* Reads the rows of columnar files, one after the other, and checks that they have captions. `list`
 * is the file or folder that was given. */
int metadata_read_columnar(metadata_list *l, char *const *path, int n, const char *list,
                           vc_err *err);
/* Whether a path is a shell's pattern for columnar files; then metadata_read_pattern reads them. */
bool metadata_is_pattern(const char *path);
int metadata_read_pattern(metadata_list *l, const char *pattern, vc_err *err);
/* Reads the columnar files of a folder, as metadata_find_list does for all lists. */
int metadata_find_hub(metadata_list *l, const char *folder, bool *found, vc_err *err);
int metadata_read_folder(metadata_list *l, const char *path, vc_err *err);
/* Adds a tar's samples as rows; the caller checks that they have captions. */
int metadata_read_tar(metadata_list *l, const char *path, vc_err *err);
/* Reads the tars of a folder, as metadata_find_list does for all lists. */
int metadata_find_tars(metadata_list *l, const char *folder, bool *found, vc_err *err);
/* Removes the rows made from a folder's files, before rows are added from a list in the folder. */
void metadata_begin_list(metadata_list *l);
/* Looks for a list in a folder in which no medium has a caption file. If there is one, *found
 * becomes true, and the list gives the rows, or the captions of the rows. */
int metadata_find_list(metadata_list *l, const char *folder, bool *found, vc_err *err);

/* Adds a text, without blanks around it, as the row's caption; lines: each of its lines that is not
 * blank is a caption. */
int metadata_add_text(vf_row *r, const char *s, size_t n, bool lines, vc_err *why);
/* Adds the text of a file so. VC_ENOENT: the file does not exist. */
int metadata_read_text(vf_row *r, const char *path, const char *from, bool lines, vc_err *why);
void metadata_trim(const char **s, size_t *n);

/* Sets *to to a copy of s[0..n). */
int metadata_copy(char **to, const char *s, size_t n, vc_err *why);
/* Appends a copy of s[0..n) to a list of strings; the list has room for the next power of two. */
int metadata_append(char ***list, int *count, const char *s, size_t n, vc_err *why);
/* True if `name` is one of the comma-separated names of list (which may be NULL). */
bool metadata_listed(const char *list, const char *name);

#endif
