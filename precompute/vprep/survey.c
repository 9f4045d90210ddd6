/* survey.c - opens and hashes every source; see sources.h */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "common/roles.h"
#include "precompute/encode/conditions.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/same_files.h"
#include "precompute/vprep/segments.h"

/* ---- hints of files ---- */

/* The facts of a row's file, or of one beside it, that hold as long as its size, time and inode
 * stay. */
typedef struct hint {
    struct hint_identity { int64_t size, mtime_s, mtime_ns; uint64_t inode; } is;
    vf_key hash;
    int64_t frames;
    double fps;
    int32_t w, h, rotation;
    uint8_t probed;                          /* a probing: how much of this is known */
    uint8_t is_video : 1, hdr : 1, reordered : 1;
    uint8_t alpha : 1;                       /* of a loss mask: media_alpha */
    uint8_t revised : 1;                     /* the facts take note of media_reading, media_alpha */
    uint8_t heard : 1, sound : 1;            /* whether `sound` is known, which older hints lack */
    uint8_t vfr;
    uint8_t as_stored;                       /* media_as_stored gave them */
} hint;

/* Hints of older datasets do not know whether a file is HDR, and whether a video is reordered. */
typedef enum probing {
    PROBED_NOT, PROBED_WITHOUT_HDR, PROBED_WITHOUT_ORDER, PROBED
} probing;

/* Frame times of longer clips are read anew each time, to keep hints small. */
enum { MAX_HINT_TIMES = 8192 };

static void hint_name(char name[32], const char *kind, const vf_row *row)
{
    snprintf(name, 32, "%s-%016llx", kind, (unsigned long long)row->id);
}

typedef struct row_file {
    const char *kind, *times;                /* of its hints: "file", "loss_mask", "control" */
    const char *path, *file;                 /* as the row has it; joined with the folder */
    vf_part part;                            /* where its bytes are */
    bool beside;                             /* it is not the row's own file */
} row_file;

static row_file source_of(const vf_row *row)
{
    return (row_file){ "file", "times", row->path, row->file, vf_row_part(row), false };
}

static row_file beside_of(const vf_row *row, vf_beside which)
{
    static const char *const kinds[VF_BESIDE][2] = {
        { "loss_mask", "mask_times" }, { "control", "control_times" },
        { "mask_file", "masked_times" }, { "filled", "filled_times" },
        { "reference1", "" }, { "reference2", "" }, { "reference3", "" }, { "reference4", "" },
    };
    static const vf_side none = { 0 };
    const vf_side *side = vf_row_side(row, which);
    const char *file = (side ? side : &none)->file;
    return (row_file){ kinds[which][0], kinds[which][1], (side ? side : &none)->path, file,
                       { .name = file, .file = file }, true };
}

static bool is_mask(row_file f)
{
    return !strcmp(f.kind, "loss_mask");
}

/* Whether a hint holds for this version. That of an older one has a hash without media_reading, and
 * the size of a still that was not turned; of a loss mask it lacks media_alpha. */
static bool is_current(const hint *h, row_file f)
{
    const char *reading;

    return h->revised ||
           (!is_mask(f) && !media_reading(&reading, &f.part, NULL) && !reading);
}

/* What this run has found in a medium, for further rows that have it. */
typedef struct finding {
    hint h;
    const vprep_source *source;              /* of the row that it was found for; NULL: none */
    vc_err why;                              /* the failure, or code 0 */
} finding;

/* *is: the identity of the file; *now: its facts as far as a hint, or `known` (which may be NULL),
 * has them; *place: the place of that hint. */
static int recall(const vprep *p, const vf_row *row, row_file f, const finding *known,
                  prep_identity *is, hint *now, prep_reuse_place *place, vc_err *err)
{
    char name[32];
    hint old;

    *place = REUSE_NONE;
    memset(now, 0, sizeof *now);                         /* the padding too, which is stored */
    int rc = prep_identity_of(is, f.file, f.path, err);
    if (rc)
        return rc;
    now->is = (struct hint_identity){ is->size, is->mtime_s, is->mtime_ns, is->inode };
    hint_name(name, f.kind, row);
    if (known && !memcmp(&known->h.is, &now->is, sizeof now->is))
        memcpy(now, &known->h, sizeof *now);             /* the padding too */
    prep_reuse_place found = p->c.rehash ? REUSE_NONE
                                         : prep_reuse_recall(p, name, &old, sizeof old);
    if (found != REUSE_NONE && !memcmp(&old.is, &now->is, sizeof old.is) && is_current(&old, f)) {
        *now = old;
        *place = old.revised ? found : REUSE_OTHER;      /* it is stored anew */
    }
    now->revised = 1;
    return 0;
}

/* Called after the file was read. *same: the file is unchanged. VC_EIO: it changed in each of
 * MAX_TRIES tries. */
static int settled(const prep_identity *is, row_file f, int tries, bool *same, vc_err *err)
{
    enum { MAX_TRIES = 3 };
    prep_identity now;
    int rc = prep_identity_of(&now, f.file, f.path, err);

    *same = !rc && prep_identity_same(is, &now);
    return rc || *same || tries < MAX_TRIES
               ? rc : vc_fail(err, VC_EIO, "%s: changes while it is read", f.path);
}

/* times: the times of h->frames frames, or NULL. */
static int remember(vprep *p, const vf_row *row, row_file f, const hint *h, const double *times,
                    vc_err *err)
{
    char name[32];
    int rc = 0;

    pthread_mutex_lock(&p->errors.lock);
    if (times && h->frames <= MAX_HINT_TIMES) {
        hint_name(name, f.times, row);
        rc = vprep_hint(p, name, times, (size_t)h->frames * sizeof *times, err);
    }
    hint_name(name, f.kind, row);
    if (!rc)
        rc = vprep_hint(p, name, h, sizeof *h, err);
    pthread_mutex_unlock(&p->errors.lock);
    return rc;
}

/* ---- one row ---- */

/* Whether the row has all facts that a choice needs: then *s has them. Such a video has a constant
 * rate, and is not known to be HDR, so that a tone mapping needs the file. */
static void trust(const vprep *p, const vf_row *row, vprep_source *s)
{
    const bool still = row->type == VF_TYPE_IMAGE;
    const int64_t sides = row->width > row->height ? row->width : row->height;

    if (!p->c.trust_metadata || p->c.tonemap || p->c.with_audio || row->type == VF_TYPE_UNKNOWN
            || row->width < 1 || row->height < 1 || sides > VB_MAX_RESIZED_SIDE)
        return;
    if (!still && (row->frames < 1 || !(row->fps > 0)))
        return;
    *s = (vprep_source){ .trusted = true, .is_video = !still, .w = (int)row->width,
                         .h = (int)row->height, .frames = still ? 1 : row->frames,
                         .fps = still ? 0 : row->fps };
}

static bool as_video(const vf_row *row, bool is_video)
{
    return row->type == VF_TYPE_UNKNOWN ? is_video : row->type == VF_TYPE_VIDEO;
}

static bool needs_times(const vf_row *row, row_file f, const hint *h)
{
    return h->vfr && (f.beside || as_video(row, h->is_video));
}

static int room_for_times(double **times, int64_t frames, vc_err *err)
{
    *times = malloc((size_t)frames * sizeof **times);
    return *times ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %lld frame times",
                                (long long)frames);
}

/* Opens the file. *times: those of a video of variable rate, else NULL. */
static int probe(const vprep *p, const vf_row *row, row_file f, hint *h, double **times,
                 vc_err *err)
{
    media *m;
    media_info info;
    int rc = media_open_part(&m, &f.part, &info, err);
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
    h->hdr = info.hdr;
    h->reordered = info.reordered;
    h->heard = true;
    h->sound = info.sound;
    h->vfr = info.vfr && media_times(m);
    h->as_stored = p->rules.peer;
    h->probed = PROBED;
    if (needs_times(row, f, h)) {
        rc = room_for_times(times, info.frames, err);
        if (!rc)
            memcpy(*times, media_times(m), (size_t)info.frames * sizeof **times);
    }
    media_close(m);
    return rc || info.frames > 0 ? rc : vc_fail(err, VC_EFORMAT, "no frame to be shown");
}

/* Whether the hint has the facts of the file: then *times has them too, and the file is not
 * opened. */
static bool is_probed(const vprep *p, const vf_row *row, row_file f, const finding *known,
                      const hint *h, double **times)
{
    const double *found = known && known->source->frames == h->frames ? known->source->times
                                                                      : NULL;
    const probing least = h->is_video ? PROBED : p->c.tonemap ? PROBED_WITHOUT_ORDER
                                                              : PROBED_WITHOUT_HDR;
    char name[32];

    if (h->probed < least || h->as_stored != p->rules.peer)
        return false;
    if (p->c.with_audio && h->is_video && !h->heard && !f.beside)
        return false;
    if (!needs_times(row, f, h))
        return true;
    if ((h->frames > MAX_HINT_TIMES && !found) || room_for_times(times, h->frames, NULL))
        return false;
    if (found) {
        memcpy(*times, found, (size_t)h->frames * sizeof *found);
        return true;
    }
    hint_name(name, f.times, row);
    if (prep_reuse_recall(p, name, *times, (size_t)h->frames * sizeof **times) != REUSE_NONE)
        return true;
    free(*times);
    *times = NULL;
    return false;
}

static bool needs_control(const vprep *p)
{
    return vc_role_of_mode(VC_ROLE_CONTROL, p->encoders.family.is, p->c.train_mode);
}

/* Probes (unless it is trusted) and hashes a file, unless *h has the result. *read: the file was
 * read. */
static int read_file(const vprep *p, const vf_row *row, row_file f, const finding *known,
                     bool trusted, bool hash, hint *h, double **times, bool *read, vc_err *err)
{
    const vf_key none = { { 0 } };
    bool unknown = !trusted && !is_probed(p, row, f, known, h, times);
    bool unhashed = hash && !memcmp(&h->hash, &none, sizeof none);
    int rc = unknown ? probe(p, row, f, h, times, err) : 0;

    *read = unknown || unhashed;
    if (!rc && unhashed)
        rc = prep_hash(&h->hash, &f.part, err);
    if (!rc && unhashed && is_mask(f)) {
        bool alpha;
        rc = media_alpha(&f.part, &alpha, err);
        h->alpha = alpha;
    }
    return rc;
}

/* The facts of a file, whose identity is *is, in *h and *times. known: what another row has found
 * in the file, or NULL. */
static int survey_file(vprep *p, const vf_row *row, row_file f, const finding *known, bool trusted,
                       bool hash, prep_identity *is, hint *h, double **times, vc_err *err)
{
    prep_reuse_place place;
    bool same = false, read = false;
    int rc = 0;

    for (int tries = 1; !rc && !same; tries++) {
        free(*times);
        *times = NULL;
        rc = recall(p, row, f, known, is, h, &place, err);
        if (rc == VC_ENOENT && strchr(f.path, '\\'))
            vc_context(err, rc, "a path of Windows, where slashes are needed");
        if (!rc)
            rc = read_file(p, row, f, known, trusted, hash, h, times, &read, err);
        same = !read;
        if (!rc && read)
            rc = settled(is, f, tries, &same, err);
    }
    if (!rc && (read || place != REUSE_OUT) && !p->c.dry_run)
        rc = remember(p, row, f, h, *times, err);
    return rc;
}

/* Checks that a reference is a picture that has a size for the model. */
static int check_reference(const vprep *p, const vf_row *row, vf_beside which, prep_beside *b,
                           vc_err *err)
{
    const char *path = vf_row_side(row, which)->path, *column = vf_row_column(row, which);
    vb_choice c;

    if (b->frames != 1)
        return vc_fail(err, VC_EMISMATCH, "%s %s: %lld frames: a reference is a picture", column,
                       path, (long long)b->frames);
    vprep_reference_size(p, b, NULL, &c);
    return c.drop ? vc_fail(err, VC_EMISMATCH, "%s %s: %s", column, path, c.reason) : 0;
}

/* Surveys a file beside the row's own, if the row has one. */
static int survey_beside(vprep *p, const vf_row *row, vf_beside which, vprep_source *s, bool hash,
                         vc_err *err)
{
    const row_file f = beside_of(row, which);
    const bool reference = which >= VF_REFERENCE;
    prep_beside *b = reference ? &s->references[which - VF_REFERENCE] : &s->beside[which];
    hint h;

    if (!f.file)
        return 0;
    int rc = survey_file(p, row, f, NULL, false, hash, &b->is, &h, &b->times, err);
    if (rc)
        return vc_context(err, rc, "%s", vf_row_column(row, which));
    b->hash = h.hash;
    b->reordered = h.reordered;
    b->alpha = h.alpha;
    b->frames = h.frames;
    b->fps = h.fps;
    b->w = h.w;
    b->h = h.h;
    b->hdr = h.hdr;
    if ((which == VF_MASK || which == VF_FILLED) && b->frames != 1 &&
        p->c.train_mode != VC_MODE_VACE)
        return vc_fail(err, VC_EMISMATCH, "%s %s: %lld frames: a mask is a picture, which holds "
                       "for all frames of the sample, and so is what it covers",
                       vf_row_column(row, which),
                       vf_row_side(row, which)->path, (long long)b->frames);
    b->by_time = !reference && !p->rules.peer && prep_beside_by_time(s, b);
    return reference ? check_reference(p, row, which, b, err) : 0;
}

static void take_facts(const vf_row *row, const hint *h, vprep_source *s)
{
    s->hash = h->hash;
    if (s->trusted)
        return;
    s->is_video = as_video(row, h->is_video);
    s->hdr = h->hdr;
    s->sound = s->is_video && h->sound;
    s->reordered = h->reordered;
    s->w = h->w;
    s->h = h->h;
    s->rotation = h->rotation;
    s->frames = h->frames;
    s->fps = h->fps;
}

static int survey_files(vprep *p, const vf_row *row, vprep_source *s, bool hash, vc_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < VF_COLUMNS; i++)
        if ((i != VF_CONTROL || needs_control(p) || p->c.train_mode == VC_MODE_VACE) &&
            ((i != VF_MASK && i != VF_FILLED) || vprep_takes_masks(p)))
            rc = survey_beside(p, row, (vf_beside)i, s, hash, err);
    if (!rc && vprep_takes_references(p) && row->n_references > 0) {
        s->references = calloc((size_t)row->n_references, sizeof *s->references);
        s->n_references = s->references ? row->n_references : 0;
        rc = s->references ? 0 : vc_no_memory(err);
    }
    for (int i = 0; !rc && i < s->n_references; i++)
        rc = survey_beside(p, row, (vf_beside)(VF_REFERENCE + i), s, hash, err);
    s->ok = !rc;
    return rc;
}

void vprep_source_free(vprep_source *s)
{
    free(s->times);
    for (int i = 0; i < VF_COLUMNS; i++)
        free(s->beside[i].times);
    free(s->references);
}

/* Checks that the row has the files that the mode needs. */
static int check_beside(const vprep *p, const vf_row *row, vc_err *err)
{
    if (vprep_takes_references(p))
        return vprep_check_references(p, row, err);
    if (row->beside[VF_CONTROL].path || !needs_control(p))
        return 0;
    return vc_fail(err, VC_EFORMAT, "no %s: --train_mode %s needs the control clip or picture of "
                   "each row", vf_beside_columns[VF_CONTROL], vc_mode_names[p->c.train_mode]);
}

/* Checks that the row's text fits into a record, with room for the fields that vprep adds. */
static int check_text(const vprep *p, const vf_row *row, vc_err *err)
{
    enum { OWN = 1 << 20, KEY = 40 };                    /* frames, draws; a key and its quotes */
    vc_buf b = { 0 };
    const int texts = row->preserved ? 2 * row->n_captions : row->n_captions;
    size_t keys = (size_t)texts * ((size_t)p->encoders.n_text * KEY + KEY);

    vc_buf_json(&b, row->path, strlen(row->path));
    for (int i = 0; i < row->n_captions; i++)
        for (int copies = row->segments ? 2 : 1; copies; copies--)
            vc_buf_json(&b, row->captions[i], strlen(row->captions[i]));
    for (int i = 0; i < row->n_captions && row->preserved; i++)
        vc_buf_json(&b, row->preserved[i], strlen(row->preserved[i]));
    for (int i = 0; i < row->n_tags; i++)
        vc_buf_json(&b, row->tags[i], strlen(row->tags[i]));
    for (int i = 0; i < row->n_extra; i++) {
        vc_buf_json(&b, row->extra[i].column, strlen(row->extra[i].column));
        vc_buf_json(&b, row->extra[i].value, strlen(row->extra[i].value));
    }
    size_t n = b.n + keys + 2 * (size_t)(row->n_tags + row->n_extra);
    bool failed = b.failed;
    vc_buf_free(&b);
    if (failed)
        return vc_fail(err, VC_ENOMEM, "out of memory for the row's text");
    return n <= VF_MAX_RECORD - OWN ? 0
         : vc_fail(err, VC_EINVAL, "its path, captions, tags and further columns take %zu bytes; a "
                   "record has room for %d", n, VF_MAX_RECORD - OWN);
}

typedef struct survey {
    vprep *p;
    bool hash;
    uint32_t *first;                                     /* [rows] same_files.h */
    finding **found;                                     /* [rows] of rows that others follow */
    int64_t done;                                        /* rows whose files were opened */
    int rc;                                              /* first error that ends the run */
    vc_err *err;
} survey;

/* A medium that has failed for one row fails for all. */
static int survey_row(survey *v, int64_t i, vc_err *why)
{
    const vf_row *row = &v->p->list.meta.rows[i];
    vprep_source *s = &v->p->list.sources[i];
    finding *of = v->found[v->first[i]], *known = v->first[i] < i && of && of->source ? of : NULL;
    hint h = { 0 };

    if (known && known->why.code) {
        *why = known->why;
        return why->code;
    }
    trust(v->p, row, s);
    int rc = survey_file(v->p, row, source_of(row), known, s->trusted, v->hash, &s->is, &h,
                         &s->times, why);
    if (!rc)
        take_facts(row, &h, s);
    if (v->first[i] == i && of) {
        memcpy(&of->h, &h, sizeof h);
        of->source = s;
        of->why = *why;
    }
    return rc ? rc : survey_files(v->p, row, s, v->hash, why);
}

static int survey_one(survey *v, int64_t i, vc_err *err)
{
    vprep *p = v->p;
    const vf_row *row = &p->list.meta.rows[i];
    vc_err why = { 0 };
    int rc = 0;

    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    if (row->bad && vc_fail(&why, row->unread ? VC_EIO : VC_EFORMAT, "%s", row->bad))
        rc = vprep_note(p, row->row, row->path, "metadata", &why, err);
    else if (check_text(p, row, &why) || check_beside(p, row, &why) ||
             vprep_check_segments(p, row, &why))
        rc = vprep_note(p, row->row, row->path, "metadata", &why, err);
    else if (survey_row(v, i, &why))
        rc = vprep_note(p, row->row, row->path, "probe", &why, err);
    p->list.sources[i].absent = vprep_is_absent(why.code);
    return rc;
}

/* Whether files are opened for a row: its medium is another one than that of the rows before, or it
 * has files beside it. */
static bool opens_files(const survey *v, int64_t i)
{
    const vf_row *row = &v->p->list.meta.rows[i];
    bool beside = false;
    for (int k = 0; k < VF_COLUMNS; k++)
        beside |= row->beside[k].path != NULL;
    beside |= row->n_references > 0 && vprep_takes_references(v->p);
    return v->first[i] == i || beside;
}

static uint64_t count_openings(const survey *v)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < v->p->list.meta.n; i++)
        n += vprep_surveys(v->p, i) && opens_files(v, i);
    return n;
}

/* Surveys the first row of each medium, or the rows that follow one. */
static void survey_rows(survey *v, bool follow)
{
    vprep *p = v->p;

#pragma omp parallel for schedule(dynamic) num_threads((int)p->c.workers)
    for (int64_t i = 0; i < p->list.meta.n; i++) {
        int stop;
#pragma omp atomic read
        stop = v->rc;
        if (stop || !vprep_surveys(p, i) || (v->first[i] < i) != follow)
            continue;
        vc_err e = { 0 };
        int rc = survey_one(v, i, &e);
#pragma omp critical(vprep_survey_error)
        {
            v->done += opens_files(v, i);
            if (rc && !v->rc) {
                v->rc = rc;
                *v->err = e;
            }
            vc_progress_at(p->progress, (uint64_t)v->done, NULL);
        }
    }
}

static int survey_open(survey *v, vc_err *err)
{
    vprep *p = v->p;
    const int64_t n = p->list.meta.n;

    p->list.sources = calloc(n ? (size_t)n : 1, sizeof *p->list.sources);
    v->found = calloc(n ? (size_t)n : 1, sizeof *v->found);
    if (!p->list.sources || !v->found)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)n);
    int rc = prep_same_files(&v->first, p, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        finding **f = &v->found[v->first[i]];
        if (v->first[i] < i && !*f && !(*f = calloc(1, sizeof **f)))
            rc = vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)n);
    }
    return rc;
}

static void survey_close(survey *v)
{
    for (int64_t i = 0; v->found && i < v->p->list.meta.n; i++)
        free(v->found[i]);
    free(v->found);
    free(v->first);
}

int vprep_survey(vprep *p, bool hash, vc_err *err)
{
    survey v = { .p = p, .hash = hash, .err = err };
    int rc = survey_open(&v, err);

    if (!rc) {
        vc_progress_begin(p->progress, "probing", "files", count_openings(&v));
        survey_rows(&v, false);
        survey_rows(&v, true);
        vc_progress_end(p->progress);
    }
    survey_close(&v);
    return rc ? rc : v.rc;
}
