/* survey.c - opens and hashes every source; keeps the list of what failed. See vprep.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "precompute/vprep.h"

int vprep_note(vprep *p, int64_t row, const char *path, const char *stage, const vc_err *why,
               vc_err *err)
{
    if (why->code == VC_ESTOP || why->code == VC_ENOMEM || why->code == VC_EFULL) {
        *err = *why;
        return why->code;
    }

    int rc = 0;
    pthread_mutex_lock(&p->lock);
    if ((p->n_errors & (p->n_errors - 1)) == 0) {        /* room for the next power of two */
        size_t room = p->n_errors ? 2 * (size_t)p->n_errors : 1;
        vprep_error *grown = realloc(p->errors, room * sizeof *grown);
        if (grown)
            p->errors = grown;
        else
            rc = vc_fail(err, VC_ENOMEM, "out of memory for the list of errors");
    }
    char *path_copy = vc_format("%s", path ? path : ""), *reason = vc_format("%s", why->text);
    if (!rc && (!path_copy || !reason))
        rc = vc_fail(err, VC_ENOMEM, "out of memory for the list of errors");
    if (!rc) {
        p->errors[p->n_errors++] = (vprep_error){ row, path_copy, reason, stage };
    } else {
        free(path_copy);
        free(reason);
    }
    pthread_mutex_unlock(&p->lock);
    if (rc)
        return rc;
    if (p->c.on_error)                                   /* stop */
        return vc_fail(err, VC_EFAIL, "row %lld: %s: %s", (long long)row, path ? path : "",
                       why->text);
    return 0;
}

static int by_row(const void *a, const void *b)
{
    const vprep_error *x = a, *y = b;
    int d = (x->row > y->row) - (x->row < y->row);
    return d ? d : strcmp(x->reason, y->reason);
}

void vprep_sort_errors(vprep *p)
{
    if (p->n_errors)
        qsort(p->errors, p->n_errors, sizeof *p->errors, by_row);
}

int vprep_write_errors(vprep *p, vc_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return vc_fail(err, VC_ENOMEM, "errors.jsonl: out of memory");

    vprep_sort_errors(p);
    int bad = 0;
    for (uint32_t i = 0; i < p->n_errors && !bad; i++) {
        const vprep_error *e = &p->errors[i];
        cJSON *o = cJSON_CreateObject();
        bad = !o || vf_json_add_int(o, "row", e->row) || !cJSON_AddStringToObject(o, "path", e->path) ||
              !cJSON_AddStringToObject(o, "stage", e->stage) ||
              !cJSON_AddStringToObject(o, "reason", e->reason);
        char *line = bad ? NULL : vf_json_line(o);
        bad = !line || fprintf(f, "%s\n", line) < 0;
        free(line);
        cJSON_Delete(o);
    }
    bad |= fclose(f) != 0;

    int rc = 0;
    char *path = vc_path_join(p->c.out, "errors.jsonl");
    if (bad || !path)
        rc = vc_fail(err, VC_ENOMEM, "errors.jsonl: out of memory");
    else
        rc = vc_file_write(path, text, size, err);
    free(path);
    free(text);
    return rc;
}

/* The hash of a file, remembered in state.lmdb by size, time and inode. */
typedef struct hint {
    int64_t size, mtime_s, mtime_ns;
    uint64_t inode;
    vf_key hash;
} hint;

typedef struct row_file {
    const char *of, *path, *file;    /* kind; as written; joined, or NULL */
    vf_key *key;
} row_file;

static int hash_file(vprep *p, const vf_row *row, const row_file *f, const struct stat *st,
                     vc_err *err)
{
    hint now = { st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_ino, { { 0 } } }, old;
    char name[32];
    snprintf(name, sizeof name, "%s-%016llx", f->of, (unsigned long long)row->id);
    if (p->writer) {
        pthread_mutex_lock(&p->lock);
        int missing = vf_writer_hint_get(p->writer, name, &old, sizeof old);
        pthread_mutex_unlock(&p->lock);
        if (!missing && !memcmp(&old, &now, offsetof(hint, hash))) {
            *f->key = old.hash;
            return 0;
        }
    }
    int rc = vf_hash_file(f->key, f->file, vc_stop_flag(), err);
    if (rc || !p->writer)
        return rc;
    now.hash = *f->key;
    pthread_mutex_lock(&p->lock);
    rc = vf_writer_hint_put(p->writer, name, &now, sizeof now, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* Whether the row tells all that choosing needs; *s from it. A video has constant rate then. */
static bool trusts(const vprep *p, const vf_row *row, vprep_source *s)
{
    const bool still = row->type == VF_TYPE_IMAGE;
    const int64_t sides = row->width > row->height ? row->width : row->height;

    if (!p->c.trust_metadata || row->type == VF_TYPE_UNKNOWN || row->width < 1 || row->height < 1
            || sides > VB_MAX_RESIZED_SIDE)
        return false;
    if (!still && (row->frames < 1 || !(row->fps > 0)))
        return false;
    *s = (vprep_source){ .trusted = true, .is_video = !still, .w = (int)row->width,
                         .h = (int)row->height, .frames = still ? 1 : row->frames,
                         .fps = still ? 0 : row->fps };
    return true;
}

/* The row's files are there; hash: and hashed. */
static int take_row(vprep *p, const vf_row *row, vprep_source *s, bool hash, vc_err *err)
{
    const row_file files[] = {
        { "source", row->path, row->file, &s->hash },
        { "loss_mask", row->loss_mask_path, row->loss_mask_file, &s->loss_mask },
    };
    struct stat st;
    int rc = 0;

    for (size_t i = 0; !rc && i < sizeof files / sizeof *files; i++)
        if (files[i].file && stat(files[i].file, &st))
            rc = vc_fail_errno(err, "%s", files[i].path);
        else if (files[i].file && hash)
            rc = hash_file(p, row, &files[i], &st, err);
    s->ok = !rc;
    return rc;
}

static int survey_row(vprep *p, const vf_row *row, vprep_source *s, bool hash, vc_err *err)
{
    if (trusts(p, row, s))
        return take_row(p, row, s, hash, err);

    media *m;
    media_info info;
    int rc = media_open(&m, row->file, &info, err);
    if (rc)
        return rc;
    if (p->rules.peer)
        media_as_stored(m, &info);

    *s = (vprep_source){ .is_video = row->type == VF_TYPE_VIDEO, .w = info.w, .h = info.h,
                         .rotation = info.rotation, .frames = info.frames, .fps = info.fps };
    if (row->type == VF_TYPE_UNKNOWN)
        s->is_video = info.is_video;
    if (s->is_video && info.vfr && media_times(m)) {
        s->times = malloc((size_t)info.frames * sizeof *s->times);
        if (s->times)
            memcpy(s->times, media_times(m), (size_t)info.frames * sizeof *s->times);
        else
            rc = vc_fail(err, VC_ENOMEM, "out of memory for %lld frame times",
                         (long long)info.frames);
    }
    media_close(m);
    if (!rc && info.frames < 1)
        rc = vc_fail(err, VC_EFORMAT, "no frame to be shown");
    return rc ? rc : take_row(p, row, s, hash, err);
}

int vprep_survey(vprep *p, bool hash, vc_err *err)
{
    int64_t n = p->meta.n, done = 0;
    int first = 0;                                       /* first error that ends the run */

    p->sources = calloc(n ? (size_t)n : 1, sizeof *p->sources);
    if (!p->sources)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)n);

    vc_progress_begin(p->progress, "probing", "files", (uint64_t)n);
#pragma omp parallel for schedule(dynamic) num_threads((int)p->c.workers)
    for (int64_t i = 0; i < n; i++) {
        int stop, rc = 0;
#pragma omp atomic read
        stop = first;
        if (stop)
            continue;

        const vf_row *row = &p->meta.rows[i];
        vc_err why = { 0 }, e = { 0 };
        if (*vc_stop_flag())
            rc = vc_fail(&e, VC_ESTOP, "stopped");
        else if (row->bad && vc_fail(&why, VC_EFORMAT, "%s", row->bad))
            rc = vprep_note(p, row->row, row->path, "metadata", &why, &e);
        else if (survey_row(p, row, &p->sources[i], hash, &why))
            rc = vprep_note(p, row->row, row->path, "probe", &why, &e);
#pragma omp critical(vprep_survey_error)
        {
            done++;
            if (rc && !first) {
                first = rc;
                *err = e;
            }
            vc_progress_at(p->progress, (uint64_t)done, NULL);
        }
    }
    vc_progress_end(p->progress);
    return first;
}
