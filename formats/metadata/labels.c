/* labels.c - masks that lie beside the media of a folder, as OneTrainer has them; see walk.h
 *
 * cat-masklabel.png is the mask of cat.*, and cat-condlabel.png a masked picture that is not
 * used. Neither is a medium. */
#include "formats/metadata/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

static const char *const endings[] = { "-masklabel", "-condlabel" };
enum { MASK, MASKED, KINDS };

/* The length of a picture's stem without the ending of a label; *kind: the place of the ending.
 * 0: the file is no label. */
static size_t base_of(const char *path, int *kind)
{
    const size_t stem = (size_t)(vc_path_ext(path) - path);

    for (*kind = 0; *kind < KINDS && vf_type_of_name(path) == VF_TYPE_IMAGE; ++*kind) {
        const size_t n = strlen(endings[*kind]);
        if (stem > n && path[stem - n - 1] != '/' && !memcmp(path + stem - n, endings[*kind], n))
            return stem - n;
    }
    return 0;
}

/* Whether a medium has this stem. The media are in bytewise order of their paths, and those that
 * begin with the stem lie together. */
static bool has_medium(const walk_list *media, const char *path, size_t stem)
{
    int64_t from = 0, to = media->n;
    int kind;

    while (from < to) {
        const int64_t at = from + (to - from) / 2;
        if (strncmp(media->v[at].path, path, stem) < 0)
            from = at + 1;
        else
            to = at;
    }
    for (; from < media->n && !strncmp(media->v[from].path, path, stem); from++) {
        const char *name = media->v[from].path;
        if ((size_t)(vc_path_ext(name) - name) == stem && !base_of(name, &kind))
            return true;
    }
    return false;
}

/* Counts a label that is no mask of a medium. */
static int ignore(metadata_list *l, const char *path, int kind, bool alone, vc_err *err)
{
    char what[32];

    snprintf(what, sizeof what, "%s.png", endings[kind]);
    return metadata_ignore(l, what, path, alone ? "no medium of this name lies beside it"
                           : "a masked picture is made of the picture and its mask", err);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const walk_entry *)a)->path, ((const walk_entry *)b)->path);
}

int walk_take_labels(walk_files *f, metadata_list *l, vc_err *err)
{
    walk_list *media = &f->media;
    int64_t kept = 0, labels = 0;
    int rc = 0, kind;

    for (int64_t i = 0; i < media->n; i++)
        labels += base_of(media->v[i].path, &kind) > 0;
    if (!labels)
        return 0;
    walk_entry *v = malloc((size_t)labels * sizeof *v);
    if (!v)
        return vc_no_memory(err);
    f->masks = (walk_list){ .v = v, .cap = labels };
    for (int64_t i = 0; i < media->n; i++)
        if (base_of(media->v[i].path, &kind))
            v[f->masks.n++] = media->v[i];
        else
            media->v[kept++] = media->v[i];
    media->n = kept;
    qsort(v, (size_t)f->masks.n, sizeof *v, by_bytes);
    for (int64_t i = 0; i < f->masks.n && !rc; i++) {
        const size_t stem = base_of(v[i].path, &kind);
        const bool alone = !has_medium(media, v[i].path, stem);
        if (alone || kind != MASK)
            rc = ignore(l, v[i].path, kind, alone, err);
        if (alone || kind != MASK)
            continue;
        if (!rc)
            rc = metadata_stems_add(&f->mask_stems, (metadata_stem){ .path = v[i].path,
                                                                     .stem = stem }, err);
    }
    metadata_stems_sort(&f->mask_stems);
    return rc;
}
