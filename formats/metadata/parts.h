/* parts.h - what the parts of the metadata reader tell each other; see metadata.h. */
#ifndef FORMATS_METADATA_PARTS_H
#define FORMATS_METADATA_PARTS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "formats/metadata/metadata.h"

#define METADATA_CAPTIONS \
    "text, prompt, caption, captions, description, caption_text, cap"
#define METADATA_MEDIA \
    "file_path, video, image, media_path, file_name, video_path, image_path, path"

typedef struct metadata_list {
    vf_metadata list;
    int64_t cap;
    const vf_metadata_opts *opts;
    const char *dir;                   /* what paths are relative to */
    const char *known;                 /* columns, or files, that a caption may come from */
    int64_t captioned, uncaptioned;    /* rows so far */
    char **seen;                       /* columns of the latter, or a folder's other files */
    int n_seen;
    bool listed;                       /* a folder's rows are from a list in it */
} metadata_list;

/* A new row with nothing in it but its number. */
int metadata_add(metadata_list *l, int64_t number, vf_row **row, vc_err *err);

/* Fills a new row from o, or from bad where there is no o. Fails only for want of memory. */
int metadata_read_row(vf_row *r, const cJSON *o, const char *bad, const vf_metadata_opts *opts,
                      const char *dir, vc_err *err);
/* Fills captions and caption_from. A row without any has none then. */
int metadata_read_captions(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, vc_err *why);
/* Counts the row, and makes it bad where it has no caption and needs one. */
int metadata_check_caption(metadata_list *l, vf_row *r, vc_err *err);
/* The same for all rows so far; one without captions gets the empty one. */
int metadata_check_rows(metadata_list *l, vc_err *err);
/* Says where the row's caption is from, other than its column. */
int metadata_say_from(vf_row *r, const char *from, vc_err *err);
/* Keeps a name that is told where no row has a caption; each one once, and not too many. */
int metadata_saw(metadata_list *l, const char *name, vc_err *err);
void metadata_forget_seen(metadata_list *l);
/* VC_EFORMAT: rows need captions and not one has one; the text says what was seen, and is known. */
int metadata_need_captions(const metadata_list *l, vc_err *err);
/* VC_EFORMAT: the folder has none; the text says what it has. */
int metadata_no_media(const metadata_list *l, const char *path, vc_err *err);
/* Whether a column may name the medium. */
bool metadata_is_medium(const vf_metadata_opts *opts, const char *column);

/* Takes a row of a table, o, or what is bad of it where there is no o. */
int metadata_take_row(void *list, int64_t number, const cJSON *o, const char *bad, vc_err *err);
int metadata_read_table(metadata_list *l, const char *path, vc_err *err);
int metadata_read_folder(metadata_list *l, const char *path, vc_err *err);
/* A tar's samples, as further rows; that captions are needed is the caller's to check. */
int metadata_read_tar(metadata_list *l, const char *path, vc_err *err);
/* As metadata_find_list: the tars in the folder. */
int metadata_find_tars(metadata_list *l, const char *folder, bool *found, vc_err *err);
/* Rows of a folder come from a list now: those of its files are forgotten. */
void metadata_begin_list(metadata_list *l);
/* Looks for a list in a folder in which no medium has a caption file of its own. *found: there is
 * one, and the rows have its captions, or are its own. */
int metadata_find_list(metadata_list *l, const char *folder, bool *found, vc_err *err);

/* The text of a file as the row's caption, without blanks around it; VC_ENOENT when there is no
 * such file. */
int metadata_read_text(vf_row *r, const char *path, const char *from, vc_err *why);
void metadata_trim(const char **s, size_t *n);

/* Appends s[0..n) to a list of strings, which doubles: it has room for the next power of two. */
int metadata_append(char ***list, int *count, const char *s, size_t n, vc_err *why);
/* Whether `name` is one of the comma-separated names of list (which may be NULL). */
bool metadata_listed(const char *list, const char *name);

#endif
