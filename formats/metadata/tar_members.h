/* tar_members.h - the members of a tar by their names and keys, for tar.c.
 *
 * The tar is mapped, so that libarchive's pointers to a member's data lie in the map, and a member
 * has the byte of the tar at which its data begin. Only plain tars allow this. */
#ifndef FORMATS_METADATA_TAR_MEMBERS_H
#define FORMATS_METADATA_TAR_MEMBERS_H

#include "common/os/map.h"
#include "formats/metadata/parts.h"

typedef enum tar_kind { TAR_TEXT, TAR_JSON, TAR_CAPTION, TAR_VIDEO, TAR_STILL, TAR_OTHER } tar_kind;

typedef struct tar_member {
    char *name, *link;                 /* link: name of the member that has the data, or NULL */
    const char *clean;                 /* the name without "./" in front */
    size_t key, stem;                  /* bytes of clean up to the first, and up to the last, dot of
                                          the file's name; a key is WebDataset's */
    int64_t at, size;                  /* size -1: the data cannot be read, for the reason `why` */
    const char *why;
    int64_t order;
    tar_kind kind;
    bool hard;                         /* a hard link, not a symbolic one */
    bool replaced;                     /* a later member has the same name: unpacking the tar would
                                          leave that one */
} tar_member;

typedef struct tar_members {
    tar_member *v;                     /* in the tar's order */
    int64_t n, cap;
    tar_member **by_name, **by_key;    /* sorted by name and order, and by key and order */
    char *damage;                      /* reason why the rest of the tar cannot be read, or NULL */
} tar_members;

/* Lists the files and links of the tar, but for those of systems; a link has the data of the member
 * that it leads to. Fails only if memory runs out; the caller frees t then too. */
int tar_members_read(tar_members *t, const vc_map *map, vc_err *err);
void tar_members_free(tar_members *t);

#endif
