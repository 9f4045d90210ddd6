/* folder.c - reads a folder of media files as a list; see metadata.h */
#include "formats/metadata/walk.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"

#define OWN "a .txt or .caption file of the medium's name"

enum { MAX_REPEATS = 1000 };

/* ---- captions beside media ---- */

/* A .txt is read before a .caption, and an ending in lower case before others. */
static int rank_of(const char *path)
{
    const char *ending = vc_path_ext(path);
    return strcasecmp(ending, ".txt") ? 2 + !!strcmp(ending, ".caption") : !!strcmp(ending, ".txt");
}

static int list_captions(metadata_list *l, metadata_stems *s, const walk_files *f, vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < f->captions.n && !rc; i++) {
        const char *path = f->captions.v[i].path, *ending = vc_path_ext(path);
        rc = metadata_stems_add(s, (metadata_stem){ .path = path, .stem = (size_t)(ending - path),
                                                    .rank = rank_of(path) }, err);
        if (!rc)
            rc = metadata_saw(l, ending, err);
    }
    metadata_stems_sort(s);
    return rc;
}

/* The caption files of a folder, by the stems of media. */
typedef struct beside {
    metadata_stems files;
    const metadata_stems *masks;
    bool lines;                        /* each line is a caption */
    bool own;                          /* a medium has a caption file */
} beside;

/* Reads the caption file of a medium. */
static int read_caption(vf_row *r, const char *root, beside *b, vc_err *why)
{
    const metadata_stems *captions = &b->files;
    size_t stem = (size_t)(vc_path_ext(r->path) - r->path);
    metadata_stem *first = metadata_stems_find(captions, r->path, stem, 0);

    if (!first)
        return 0;
    b->own = true;
    for (metadata_stem *c = first; c < captions->v + captions->n && c->stem == stem
                                   && !memcmp(c->path, r->path, stem); c++)
        c->used = true;
    char *file = vc_path_join(root, first->path);
    const char *ending = first->rank < 2 ? ".txt" : ".caption";
    int rc = file ? metadata_read_text(r, file, ending, b->lines, why) : vc_no_memory(why);
    free(file);
    return rc;
}

/* Gives a medium the mask that lies beside it. */
static int take_mask(vf_row *r, const char *root, const metadata_stems *masks, vc_err *why)
{
    const size_t stem = (size_t)(vc_path_ext(r->path) - r->path);
    const metadata_stem *mask = metadata_stems_find(masks, r->path, stem, 0);
    vf_side *side = &r->beside[VF_MASK];

    if (!mask)
        return 0;
    side->path = strdup(mask->path);
    side->file = vc_path_join(root, mask->path);
    return side->path && side->file ? 0 : vc_no_memory(why);
}

static int fill_row(vf_row *r, const char *root, const walk_entry *of, beside *b, vc_err *why)
{
    const char *path = of->path;
    r->path = strdup(path);
    r->file = vc_path_join(root, path);
    r->type = vf_type_of_name(path);
    if (!r->path || !r->file)
        return vc_no_memory(why);

    int rc = of->why ? vc_fail(why, VC_EIO, "%s", of->why)
                     : read_caption(r, root, b, why);
    if (!rc)
        rc = take_mask(r, root, b->masks, why);
    r->unread = rc == VC_EIO || rc == VC_ENOENT;
    if (!rc && vc_utf8_prefix(path, strlen(path)) < strlen(path))
        rc = vc_fail(why, VC_EFORMAT, "the file's name is not UTF-8: rename it");
    if (!rc || rc == VC_ENOMEM)
        return rc;
    r->bad = strdup(why->text);
    return r->bad ? 0 : VC_ENOMEM;
}

static int fill_rows(metadata_list *l, const char *root, const walk_list *media, beside *b,
                     vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < media->n && !rc; i++) {
        vc_err why = { 0 };
        vf_row *r;
        rc = metadata_add(l, i + 1, &r, err);
        if (!rc && fill_row(r, root, &media->v[i], b, &why))
            rc = vc_fail(err, VC_ENOMEM, "%s: %s", media->v[i].path, why.text);
    }
    return rc;
}

/* Reports caption files that belong to no medium. */
static int ignore_captions(metadata_list *l, const metadata_stems *captions, vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < captions->n && !rc; i++) {
        const metadata_stem *c = &captions->v[i];
        if (!c->used)
            rc = metadata_ignore(l, c->path + c->stem, c->path,
                                 "no medium of this name lies beside it", err);
    }
    return rc;
}

/* ---- repeats ---- */

/* The number N of a path "N_name/..", or 0. */
static int repeats_of(const char *path)
{
    char *end;
    long n = strspn(path, "0123456789") ? strtol(path, &end, 10) : 0;
    return n > 0 && n <= MAX_REPEATS && *end == '_' && strchr(end, '/') ? (int)n : 0;
}

/* Weighs rows like kohya's sd-scripts, where a medium in a subfolder "N_name" counts N times. Media
 * elsewhere count once. */
static void take_repeats(metadata_list *l)
{
    vf_metadata *m = &l->list;

    for (int64_t i = 0; i < m->n && !l->opts->plain_folders; i++) {
        int n = repeats_of(m->rows[i].path);
        m->repeats |= n > 0;
        m->rows[i].weight = n ? n : 1;
        if (n || m->rows[i].unread)
            continue;
        m->once = m->n_once++ ? m->once : i;
    }
}

/* Checks the rows of a folder in which no list was found. */
static int check_unlisted(metadata_list *l, const char *path, vc_err *err)
{
    const char *own = l->opts->caption_columns;

    if (own)
        return vc_fail(err, VC_EUSAGE, "%s: --caption_column %s: this folder has no list with "
                       "columns: leave the flag out if captions are in files of the media's names, "
                       "or give the list itself", path, own);
    if (!l->list.n)
        return metadata_no_media(l, path, err);
    take_repeats(l);
    int rc = metadata_check_rows(l, err);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", path);
}

/* ---- the folder ---- */

static int read_files(metadata_list *l, const char *path, const walk_files *f, vc_err *err)
{
    beside captions = { .masks = &f->mask_stems, .lines = l->opts->caption_lines };
    bool listed = false;

    int rc = list_captions(l, &captions.files, f, err);
    if (!rc)
        rc = fill_rows(l, path, &f->media, &captions, err);
    l->known = captions.own ? OWN " (where any medium has one, lists in the folder are not read)"
                   : OWN ", labels/NAME.txt beside videos/, metadata.jsonl or .csv, captions.json, "
                     "videos2caption.json, prompts.txt with videos.txt, WebDataset's tars";
    if (!rc && !captions.own)
        rc = metadata_find_list(l, path, &listed, err);
    if (listed && !l->listed)
        metadata_unignore(l, ".json");           /* captions.json; labels/ need no list */
    if (!rc && !listed)
        rc = ignore_captions(l, &captions.files, err);
    if (!rc && !listed)
        rc = check_unlisted(l, path, err);
    free(captions.files.v);
    return rc;
}

int metadata_read_folder(metadata_list *l, const char *path, vc_err *err)
{
    walk_files f = { 0 };

    int rc = walk_folder(&f, l, path, err);
    if (!rc)
        rc = walk_take_labels(&f, l, err);
    if (!rc)
        rc = read_files(l, path, &f, err);
    walk_free(&f);
    return rc;
}
