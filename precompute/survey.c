/* survey.c - opens and hashes every source; keeps the list of what failed. See vprep.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "precompute/stock.h"

int vprep_note(vprep *p, int64_t row, const char *path, const char *stage, const vc_err *why,
               vc_err *err)
{
    int rc = vc_maps_check(0, err);
    if (rc)
        return rc;
    if (why->code == VC_ESTOP || why->code == VC_ENOMEM || why->code == VC_EFULL) {
        *err = *why;
        return why->code;
    }

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

/* ---- hints of files ---- */

/* What is remembered of a row's file, as long as its size, time and inode stay; of a loss mask's
 * only the hash. */
typedef struct hint {
    struct identity { int64_t size, mtime_s, mtime_ns; uint64_t inode; } is;
    vf_key hash;
    int64_t frames;
    double fps;
    int32_t w, h, rotation;
    uint8_t probed, is_video, vfr;           /* probed: the fields above are known */
    uint8_t as_stored;                       /* they are media_as_stored's */
} hint;

/* Frame times of longer clips are found anew each time: hints are to be small. */
enum { MAX_HINT_TIMES = 8192 };

static void hint_name(char name[32], const char *what, const vf_row *row)
{
    snprintf(name, 32, "%s-%016llx", what, (unsigned long long)row->id);
}

typedef struct row_file { const char *what, *path, *file; } row_file;  /* as written; as joined */

static row_file source_of(const vf_row *row)
{
    return (row_file){ "file", row->path, row->file };
}

/* *now: what is known of the file as it is. *place: where that was remembered. */
static int recall(const vprep *p, const vf_row *row, row_file f, hint *now, prep_stock_place *place,
                  vc_err *err)
{
    char name[32];
    struct stat st;
    hint old;

    *place = STOCK_NONE;
    memset(now, 0, sizeof *now);                         /* its padding too: it is stored */
    if (stat(f.file, &st))
        return vc_fail_errno(err, "%s", f.path);
    now->is = (struct identity){ st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_ino };
    hint_name(name, f.what, row);
    if (p->c.rehash)
        return 0;
    prep_stock_place found = prep_stock_recall(p, name, &old, sizeof old);
    if (found != STOCK_NONE && !memcmp(&old.is, &now->is, sizeof old.is)) {
        *now = old;
        *place = found;
    }
    return 0;
}

/* times: of h->frames frames, or NULL. */
static int remember(vprep *p, const vf_row *row, row_file f, const hint *h, const double *times,
                    vc_err *err)
{
    char name[32];
    int rc = 0;

    pthread_mutex_lock(&p->lock);
    if (times && h->frames <= MAX_HINT_TIMES) {
        hint_name(name, "times", row);
        rc = vprep_hint(p, name, times, (size_t)h->frames * sizeof *times, err);
    }
    hint_name(name, f.what, row);
    if (!rc) rc = vprep_hint(p, name, h, sizeof *h, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* ---- one row ---- */

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

static bool as_video(const vf_row *row, bool is_video)
{
    return row->type == VF_TYPE_UNKNOWN ? is_video : row->type == VF_TYPE_VIDEO;
}

static int room_for_times(vprep_source *s, int64_t frames, vc_err *err)
{
    s->times = malloc((size_t)frames * sizeof *s->times);
    return s->times ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %lld frame times",
                                  (long long)frames);
}

/* Opens the file. */
static int probe(const vprep *p, const vf_row *row, hint *h, vprep_source *s, vc_err *err)
{
    media *m;
    media_info info;
    int rc = media_open(&m, row->file, &info, err);
    if (rc)
        return rc;
    if (p->rules.peer)
        media_as_stored(m, &info);
    h->frames = info.frames;
    h->fps = info.fps;
    h->w = info.w;
    h->h = info.h;
    h->rotation = info.rotation;
    h->is_video = info.is_video;
    h->vfr = info.vfr && media_times(m);
    h->as_stored = p->rules.peer;
    h->probed = true;
    if (as_video(row, info.is_video) && h->vfr) {
        rc = room_for_times(s, info.frames, err);
        if (!rc)
            memcpy(s->times, media_times(m), (size_t)info.frames * sizeof *s->times);
    }
    media_close(m);
    return rc || info.frames > 0 ? rc : vc_fail(err, VC_EFORMAT, "no frame to be shown");
}

/* Whether h says what the file has, without opening it. */
static bool is_probed(const vprep *p, const vf_row *row, const hint *h, vprep_source *s)
{
    char name[32];

    if (!h->probed || h->as_stored != p->rules.peer)
        return false;
    if (!h->vfr || !as_video(row, h->is_video))
        return true;
    if (h->frames > MAX_HINT_TIMES || room_for_times(s, h->frames, NULL))
        return false;
    hint_name(name, "times", row);
    if (prep_stock_recall(p, name, s->times, (size_t)h->frames * sizeof *s->times) != STOCK_NONE)
        return true;
    free(s->times);
    s->times = NULL;
    return false;
}

/* The row's loss mask, where it has one, is there; hash: and hashed. */
static int survey_mask(vprep *p, const vf_row *row, vf_key *key, bool hash, vc_err *err)
{
    const row_file f = { "loss_mask", row->loss_mask_path, row->loss_mask_file };
    prep_stock_place place;
    hint h;
    int rc = f.file ? recall(p, row, f, &h, &place, err) : 0;

    if (rc || !f.file || !hash)
        return rc;
    if (place == STOCK_NONE)
        rc = vf_hash_file(&h.hash, f.file, vc_stop_flag(), err);
    if (!rc && place != STOCK_OUT && p->writer)
        rc = remember(p, row, f, &h, NULL, err);
    *key = h.hash;
    return rc;
}

static int survey_row(vprep *p, const vf_row *row, vprep_source *s, bool hash, vc_err *err)
{
    const bool trusted = trusts(p, row, s);
    const vf_key none = { { 0 } };
    prep_stock_place place;
    hint h;
    int rc = recall(p, row, source_of(row), &h, &place, err);
    bool keep = place != STOCK_OUT;

    if (!rc && !trusted && !is_probed(p, row, &h, s)) {
        rc = probe(p, row, &h, s, err);
        keep = true;
    }
    if (!rc && hash && !memcmp(&h.hash, &none, sizeof none)) {
        rc = vf_hash_file(&h.hash, row->file, vc_stop_flag(), err);
        keep = true;
    }
    if (!rc && keep && p->writer)
        rc = remember(p, row, source_of(row), &h, s->times, err);
    if (!rc)
        rc = survey_mask(p, row, &s->loss_mask, hash, err);
    if (rc)
        return rc;
    s->hash = h.hash;
    s->ok = true;
    if (trusted)
        return 0;
    s->is_video = as_video(row, h.is_video);
    s->w = h.w;
    s->h = h.h;
    s->rotation = h.rotation;
    s->frames = h.frames;
    s->fps = h.fps;
    return 0;
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
        if (!vprep_surveys(p, i))
            continue;
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
