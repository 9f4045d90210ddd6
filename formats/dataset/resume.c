/* resume.c - opens a dataset for writing, and adopts the shards in its folder. See writer.h */
#include "formats/dataset/writer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"

/* ---- the same dataset? ---- */

/* Fields whose change makes the stored values useless or misleading. The rest of the head may
 * change: a family is the model for which values were made, and did not make them; normalization is
 * applied when latents are read; train_mode and conditions name the values to which records refer
 * besides their clips, and records are written again. */
static const char *const compared[] = {
    "train_mode", "image_encoder", "audio_vae",      /* only under append, as old records keep
                                                      * their conditions */
    "part", "vae", "text_encoders", "latent_store", "dtype", "sampling", NULL
};

enum { CONDITIONS = 3 };                    /* fields of `compared` about conditions */
enum { MAX_DEPTH = 64 };                     /* levels of JSON */

typedef struct difference {
    char text[VF_HEAD_TEXT];
    int n;
} difference;

static void add_difference(difference *d, const char *path, const cJSON *there, const cJSON *now)
{
    char *a = there ? vf_json_line(there) : NULL, *b = now ? vf_json_line(now) : NULL;
    size_t at = strlen(d->text);
    d->n++;
    snprintf(d->text + at, sizeof d->text - at, "%s%s: %.60s there, %.60s now", at ? "; " : "",
             path, a ? a : "nothing", b ? b : "nothing");
    free(a);
    free(b);
}

/* Compares JSON texts: an integer may be raw digits in a head, and is a number in a manifest. */
static bool same_text(const cJSON *a, const cJSON *b)
{
    char *x = vf_json_line(a), *y = vf_json_line(b);
    bool same = x && y && !strcmp(x, y);
    free(x);
    free(y);
    return same;
}

static bool same_leaf(const cJSON *a, const cJSON *b)
{
    if (cJSON_IsRaw(a) || cJSON_IsRaw(b))
        return same_text(a, b);
    if (cJSON_IsNumber(a) && cJSON_IsNumber(b))
        return a->valuedouble == b->valuedouble;
    if (cJSON_IsString(a) && cJSON_IsString(b))
        return !strcmp(a->valuestring, b->valuestring);
    return (a->type & 0xff) == (b->type & 0xff);
}

/* Compares objects by field and arrays by index. The depth is bounded: the parser did so, or the
 * head is our own. */
static void compare(difference *d, const char *path, const cJSON *there, const cJSON *now,
                    int depth)
{
    char below[200];
    const cJSON *o, *p;
    bool objects = cJSON_IsObject(there) && cJSON_IsObject(now);
    bool arrays = cJSON_IsArray(there) && cJSON_IsArray(now) &&
                  cJSON_GetArraySize(there) == cJSON_GetArraySize(now);
    if (!there || !now || depth > MAX_DEPTH || (!objects && !arrays && !same_leaf(there, now)) ||
        (!arrays && cJSON_IsArray(there))) {
        if (there || now)
            add_difference(d, path, there, now);
        return;
    }
    o = cJSON_GetObjectItemCaseSensitive(there, "class");
    p = cJSON_GetObjectItemCaseSensitive(now, "class");
    if (objects && o && p && !same_leaf(o, p)) {             /* the other fields follow from it */
        snprintf(below, sizeof below, "%s.class", path);
        add_difference(d, below, o, p);
    } else if (objects) {
        cJSON_ArrayForEach(o, there) {
            snprintf(below, sizeof below, "%s.%s", path, o->string);
            compare(d, below, o, cJSON_GetObjectItemCaseSensitive(now, o->string), depth + 1);
        }
        cJSON_ArrayForEach(o, now)
            if (!cJSON_GetObjectItemCaseSensitive(there, o->string)) {
                snprintf(below, sizeof below, "%s.%s", path, o->string);
                add_difference(d, below, NULL, o);
            }
    } else if (arrays) {
        int i = 0;
        for (o = there->child, p = now->child; o && p; o = o->next, p = p->next) {
            snprintf(below, sizeof below, "%s[%d]", path, i++);
            compare(d, below, o, p, depth + 1);
        }
    }
}

int vf_head_compare(const cJSON *there, const cJSON *now, const char *const *fields,
                    char differences[VF_HEAD_TEXT])
{
    difference d = { 0 };
    for (; *fields; fields++)
        compare(&d, *fields, cJSON_GetObjectItemCaseSensitive(there, *fields),
                cJSON_GetObjectItemCaseSensitive(now, *fields), 0);
    memcpy(differences, d.text, sizeof d.text);
    return d.n;
}

int vf_head_accept(const char *path, const cJSON *there, const vf_writer_opts *o, vc_err *err)
{
    char differences[VF_HEAD_TEXT];
    const char *const *fields = o->append ? compared : compared + CONDITIONS;
    if ((o->change && !o->append) || !vf_head_compare(there, o->head, fields, differences))
        return 0;
    return vc_fail(err, VC_EMISMATCH,
                   "%s was made with other settings (%s): give another --out with --reuse %s, "
                   "which encodes only values that these settings change, or --overwrite to make "
                   "the dataset anew", path, differences, path);
}

enum { MAX_FAMILIES = 64 };

/* Appends a family's name to the list, unless the list has this name. */
static int list_family(cJSON *list, const cJSON *name, vc_err *err)
{
    const cJSON *f;
    if (!cJSON_IsString(name))
        return 0;
    cJSON_ArrayForEach(f, list)
        if (!strcmp(f->valuestring, name->valuestring))
            return 0;
    if (cJSON_GetArraySize(list) == MAX_FAMILIES)
        return vc_fail(err, VC_EFORMAT, "families: more than %d", MAX_FAMILIES);
    return cJSON_AddItemToArray(list, cJSON_CreateString(name->valuestring))
               ? 0 : vc_no_memory(err);
}

int vf_head_families(cJSON *head, const cJSON *other, vc_err *err)
{
    const cJSON *of[2] = { head, other }, *f;
    cJSON *list = cJSON_CreateArray();
    int rc = list ? 0 : vc_no_memory(err);
    for (int i = 0; i < 2; i++) {
        rc = rc ? rc : list_family(list, cJSON_GetObjectItemCaseSensitive(of[i], "family"), err);
        cJSON_ArrayForEach(f, cJSON_GetObjectItemCaseSensitive(of[i], "families"))
            rc = rc ? rc : list_family(list, f, err);
    }
    if (!rc && cJSON_GetArraySize(list) > 1) {
        cJSON_DeleteItemFromObjectCaseSensitive(head, "families");
        cJSON_AddItemToObject(head, "families", list);
        return 0;
    }
    cJSON_Delete(list);
    return rc;
}

/* Checks that w, with options o, may continue the dataset of w->manifest; with append the head
 * keeps the families of the dataset. */
static int accept_manifest(vf_writer *w, const vf_writer_opts *o, vc_err *err)
{
    int rc = vf_head_accept(w->dir, w->manifest.json, o, err);
    return rc || !o->append ? rc : vf_head_families(w->head, w->manifest.json, err);
}

/* ---- files of the folder ---- */

/* Calls fn for each of the dataset's own files; the folder may hold others. */
static int each_file(vf_writer *w, int (*fn)(vf_writer *w, const char *name, vc_err *err),
                     vc_err *err)
{
    DIR *d = opendir(w->dir);
    if (!d)
        return vc_fail_errno(err, "%s", w->dir);
    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, w->dir, &rc, err));)
        if (vf_is_shard(e->d_name) || vf_is_temporary(e->d_name))
            rc = fn(w, e->d_name, err);
    closedir(d);
    return rc;
}

static int remove_file(vf_writer *w, const char *name, vc_err *err)
{
    char *path = vc_path_join(w->dir, name);
    int rc = path ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", name);
    if (!rc && unlink(path) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

/* Refuses shards in a folder without a manifest. A temporary manifest is allowed: a first run was
 * killed before it had any samples. */
static int refuse_file(vf_writer *w, const char *name, vc_err *err)
{
    if (vf_is_temporary(name))
        return remove_file(w, name, err);
    return vc_fail(err, VC_EFORMAT,
                   "%s holds %s but no %s: give --overwrite to begin again, or another --out",
                   w->dir, name, VF_MANIFEST);
}

/* Adopts a file that the manifest does not name: an open shard of a lone writer, one of each kind.
 * Open shards of ranks are adopted later; a temporary file is removed, and an open shard of copies,
 * as it may be damaged. A writer leaves no other files. */
static int adopt_file(vf_writer *w, const char *name, vc_err *err)
{
    bool text;
    unsigned number;
    if (vf_is_temporary(name))
        return remove_file(w, name, err);
    if (vf_open_name_parse(name, &text))
        return 0;
    vf_shard_name_parse(name, &text, &number);
    vf_half *h = text ? &w->text : &w->shard;
    for (int i = 0; i < w->manifest.n_shards; i++)
        if (!strcmp(w->manifest.shard[i].file, name))
            return 0;
    if (number != h->number)
        return vc_fail(err, VC_EFORMAT,
                       "%s/%s is not in the manifest: remove it, or give --overwrite or "
                       "another --out",
                       w->dir, name);
    return w->copies ? remove_file(w, name, err) : vf_writer_env(w, h, err);
}

/* ---- open shards of a killed run ---- */

/* Finds an open shard of this kind, of any rank: *left is its path, or NULL. */
static int find_left(const vf_writer *w, bool text, char **left, vc_err *err)
{
    DIR *d = opendir(w->dir);
    int rc = d ? 0 : vc_fail_errno(err, "%s", w->dir);
    *left = NULL;
    for (struct dirent *e; !*left && (e = vc_dir_next(d, w->dir, &rc, err));) {
        bool is_text;
        if (vf_open_name_parse(e->d_name, &is_text) && is_text == text &&
            !(*left = vc_path_join(w->dir, e->d_name)))
            rc = vc_no_memory(err);
    }
    if (d)
        closedir(d);
    return rc;
}

/* Renames the shard to the next number, under which a lone writer would have left it open. */
static int adopt(vf_writer *w, vf_half *h, const char *left, vc_err *err)
{
    char file[VF_SHARD_NAME];
    bool text = h == &w->text;
    int rc = text ? vf_writer_close_text(w, err) : vf_writer_close_shard(w, err);
    char *path = vc_path_join(w->dir, vf_shard_name(file, text, h->number));
    if (!rc && h->number > VF_MAX_SHARD)
        rc = vf_writer_too_many(w, err);
    if (!rc && !path)
        rc = vc_no_memory(err);
    if (!rc && rename(left, path))
        rc = vc_fail_errno(err, "%s", left);
    if (!rc)
        rc = vf_writer_env(w, h, err);
    if (!rc)
        rc = vf_writer_load(w, file, text, h->number, -1, err);
    free(path);
    return rc;
}

static int adopt_next(vf_writer *w, vf_half *h, bool *more, vc_err *err)
{
    char *left;
    int rc = find_left(w, h == &w->text, &left, err);
    *more = left != NULL;
    if (!rc && left)
        rc = adopt(w, h, left, err);
    free(left);
    return rc;
}

/* Closes the open shards that the ranks of a killed run left; a lone writer keeps the last one
 * open. */
static int adopt_left(vf_writer *w, vc_err *err)
{
    vf_half *half[2] = { &w->text, &w->shard };          /* texts are closed before their samples */
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        for (bool more = true; more && !rc;)
            rc = adopt_next(w, half[i], &more, err);
    if (rc || w->ranks == 1)
        return rc;
    rc = vf_writer_close_shard(w, err);                  /* for the other ranks to read */
    if (!rc)
        rc = vf_writer_close_text(w, err);
    w->shard.number = w->text.number = VF_NO_NUMBER;
    return rc;
}

/* ---- loading shards ---- */

/* Removes shards whose file is missing from the manifest: users remove damaged files. */
static int forget_lost(vf_writer *w, vc_err *err)
{
    vf_manifest *m = &w->manifest;
    vf_shard_info *all = m->shard;
    int n = m->n_shards, rc = 0;
    m->shard = NULL;
    m->n_shards = m->last[0] = m->last[1] = 0;
    for (int i = 0; i < n && !rc; i++) {
        struct stat st;
        char *path = vc_path_join(w->dir, all[i].file);
        bool gone = path && lstat(path, &st) && errno == ENOENT;
        w->lost += gone;
        if (!path)
            rc = vc_no_memory(err);
        else if (!gone)
            rc = vf_manifest_add(m, &all[i], err);
        free(path);
    }
    free(all);
    return rc;
}

static int load_listed(vf_writer *w, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < w->manifest.n_shards && !rc; i++) {
        const vf_shard_info *s = &w->manifest.shard[i];
        vf_half *h = s->text ? &w->text : &w->shard;
        h->number = s->number + 1;
        rc = vf_writer_load(w, s->file, s->text, s->number, s->bytes, err);
    }
    if (rc == VC_EFORMAT)
        return vc_context(err, rc,
                          "a shard is damaged; remove that file and start again, which encodes its "
                          "samples again");
    return rc;
}

static int load_unlisted(vf_writer *w, vc_err *err)
{
    int rc = each_file(w, adopt_file, err);
    vf_half *half[2] = { &w->text, &w->shard };
    for (int i = 0; i < 2 && !rc; i++) {
        char file[VF_SHARD_NAME];
        if (half[i]->env)
            rc = vf_writer_load(w, vf_shard_name(file, half[i] == &w->text, half[i]->number),
                            half[i] == &w->text, half[i]->number, -1, err);
    }
    if (!rc)
        rc = adopt_left(w, err);
    if (rc == VC_EFORMAT)
        return vc_context(err, rc,
                          "an unfinished shard is damaged; remove that file and start again, which "
                          "encodes its samples again");
    return rc;
}

/* ---- opening ---- */

static int open_state(vf_writer *w, vc_err *err)
{
    static const char *const dbs[] = { "hint", NULL };
    int rc = vf_env_open(&w->state, w->dir, VF_STATE, dbs, err);
    if (rc != VC_EFORMAT)
        return rc;
    /* Only hints are lost. The file is truncated, not removed, as the lock is on this file. */
    if (ftruncate(w->lock, 0))
        return vc_fail_errno(err, "%s/%s", w->dir, VF_STATE);
    return vf_env_open(&w->state, w->dir, VF_STATE, dbs, err);
}

/* Loads the dataset for a rank other than 0; rank 0 has checked and adopted the files. */
static int join(vf_writer *w, const vf_writer_opts *o, vc_err *err)
{
    int rc = vf_manifest_read(&w->manifest, w->dir, err);
    if (!rc)
        rc = accept_manifest(w, o, err);
    if (!rc)
        rc = load_listed(w, err);
    w->shard.number = w->text.number = VF_NO_NUMBER;
    return rc;
}

int vf_writer_resume(vf_writer *w, const vf_writer_opts *o, vc_err *err)
{
    if (w->rank)
        return join(w, o, err);
    w->replace = o->overwrite;
    if (w->replace)                          /* nothing there is of use */
        return open_state(w, err);
    int rc = vf_manifest_read(&w->manifest, w->dir, err);
    if (rc == VC_ENOENT)
        rc = each_file(w, refuse_file, err);
    else if (!rc)
        rc = accept_manifest(w, o, err);
    if (!rc)
        rc = forget_lost(w, err);
    if (!rc)
        rc = load_listed(w, err);
    if (!rc)
        rc = load_unlisted(w, err);
    return rc ? rc : open_state(w, err);
}

int vf_writer_start(vf_writer *w, vc_err *err)
{
    int rc = 0;
    if (w->rank)
        return 0;
    if (w->replace) {
        rc = remove_file(w, VF_MANIFEST, err); /* first, as shards alone are no dataset */
        if (!rc)
            rc = each_file(w, remove_file, err);
    }
    if (!rc)
        rc = vf_writer_close_full(w, err);       /* the run was killed before it did so */
    return rc ? rc : vf_writer_manifest(w, false, err);
}
