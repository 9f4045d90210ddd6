/* walk.h - lists the files of a folder and of its subfolders, for folder.c.
 *
 * Links are followed. Each folder is read once, at its own place, or at the first link by name that
 * leads to it; a link to a folder that contains the link is not read. Hidden files and those that
 * systems leave (metadata_is_system) are skipped. */
#ifndef FORMATS_METADATA_WALK_H
#define FORMATS_METADATA_WALK_H

#include "formats/metadata/parts.h"

/* A file's path relative to the folder, and why == NULL; or the path of a subfolder that could not
 * be read, with a '/' at its end, and the reason. */
typedef struct walk_entry {
    char *path, *why;
} walk_entry;

typedef struct walk_list {
    walk_entry *v;
    int64_t n, cap;
} walk_list;

typedef struct walk_files {
    walk_list media;                   /* in bytewise order of the paths */
    walk_list captions;                /* .txt and .caption files, in any order */
    walk_list masks;                   /* labels of media (labels.c), which are no media */
    metadata_stems mask_stems;         /* the masks among them, by the stems of their media */
} walk_files;

/* Other files go to l->seen and l->ignored. Fails if root itself cannot be read; the caller frees f
 * after a failure too. */
int walk_folder(walk_files *f, metadata_list *l, const char *root, vc_err *err);
/* Moves the labels among the media, whose stems end in "-masklabel" or "-condlabel", to masks.
 * Those without a medium beside them are ignored. */
int walk_take_labels(walk_files *f, metadata_list *l, vc_err *err);
void walk_free(walk_files *f);

#endif
