/* losses.c - names the inputs that are skipped, and refuses a run that has nothing to encode or
 * that would drop most of a dataset; see sources.h, errors.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "precompute/run/reuse.h"

/* ---- errors.jsonl ---- */

static int by_row(const void *a, const void *b)
{
    const vprep_error *x = a, *y = b;
    int d = (x->row > y->row) - (x->row < y->row);
    return d ? d : strcmp(x->reason, y->reason);
}

int vprep_note_drop(vprep *p, const vprep_item *it, const vprep_clip *clip, vc_err *err)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    vc_err why;
    vc_fail(&why, VC_EINVAL, "%s", clip->choice.reason);
    return vprep_note(p, row->row, row->path, "select", &why, err);
}

void vprep_sort_errors(vprep *p)
{
    if (p->errors.n)
        qsort(p->errors.list, p->errors.n, sizeof *p->errors.list, by_row);
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
    for (uint32_t i = 0; i < p->errors.n && !bad; i++) {
        const vprep_error *e = &p->errors.list[i];
        cJSON *o = cJSON_CreateObject();
        bad = !o || vf_json_add_int(o, "row", e->row) ||
              !cJSON_AddStringToObject(o, "path", e->path) ||
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

/* ---- the first reasons of each stage ---- */

static const char *const stages[VPREP_STAGES] = { "metadata", "probe", "select", "text", "decode",
                                                  "encode" };
enum { PLANNED = 3 };                        /* stages before the encoding */
enum { SHOWN = 3 };                          /* reasons of a stage */

/* Returns the reason without the path of the row's file in front, which ends as the path in the
 * row. */
static const char *bare_reason(const vprep_error *e)
{
    const size_t n = strlen(e->path);
    const char *at = n ? strstr(e->reason, e->path) : NULL, *colon = strstr(e->reason, ": ");
    return at && colon == at + n ? colon + 2 : e->reason;
}

/* Adds "row 1, a.mp4: no frame; row 2, ..." and returns the number of all errors of the stage. */
static uint32_t add_reasons(vc_buf *b, const vprep *p, const char *stage, int most)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->errors.n; i++) {
        const vprep_error *e = &p->errors.list[i];
        if (strcmp(e->stage, stage) || ++n > SHOWN)
            continue;
        vc_buf_printf(b, "%srow %lld%s%.100s: %.*s", n > 1 ? "; " : "", (long long)e->row,
                      *e->path ? ", " : "", e->path, most, bare_reason(e));
    }
    if (n > SHOWN)
        vc_buf_str(b, "; ...");
    return n;
}

static void say_stage(vprep *p, const char *stage)
{
    enum { LENGTH = 300 };
    char n[32];
    vc_buf b = { 0 };
    const uint32_t all = add_reasons(&b, p, stage, LENGTH);
    char *text = vc_buf_take(&b);

    if (all)                                     /* --quiet hides what is no warning */
        (p->c.quiet ? vc_warn : vc_say)(p->progress, "%s: %s skipped: %s", stage,
                                        vc_human_count(n, all), text ? text : "?");
    free(text);
}

void vprep_say_skipped(vprep *p, bool encoded)
{
    if (!p->errors.n)
        return;
    vprep_sort_errors(p);
    for (int i = encoded ? PLANNED : 0; i < (encoded ? VPREP_STAGES : PLANNED); i++)
        say_stage(p, stages[i]);
}

/* Returns "probe: 9 (row 1, ...); select: ..."; NULL: out of memory. */
static char *all_reasons(vprep *p)
{
    enum { LENGTH = 110 };
    vc_buf all = { 0 };

    if (p->errors.n)
        vprep_sort_errors(p);
    for (int i = 0; i < VPREP_STAGES; i++) {
        vc_buf b = { 0 };
        const uint32_t n = add_reasons(&b, p, stages[i], LENGTH);
        char *text = vc_buf_take(&b);
        if (n)
            vc_buf_printf(&all, "%s%s: %u (%s)", all.n ? "; " : "", stages[i], n,
                          text ? text : "?");
        free(text);
    }
    return vc_buf_take(&all);
}

/* ---- the list ---- */

int vprep_check_list(const vprep *p, vc_err *err)
{
    enum { LENGTH = 500 };
    const vf_metadata *m = &p->list.meta;
    vc_buf b = { 0 };
    int64_t bad = 0;

    if (!m->n)
        return vc_fail(err, VC_EFORMAT, "%s: no row: is it cut short, or another file? Nothing was "
                       "removed or encoded", p->c.meta);
    while (bad < m->n && m->rows[bad].bad && !m->rows[bad].unread)
        bad++;
    if (bad < m->n)
        return 0;
    for (int64_t i = 0; i < m->n && i < SHOWN; i++)
        vc_buf_printf(&b, "%srow %lld%s%.100s: %.*s", i ? "; " : "", (long long)m->rows[i].row,
                      *m->rows[i].path ? ", " : "", m->rows[i].path, i ? LENGTH / 5 : LENGTH,
                      m->rows[i].bad);
    char *text = vc_buf_take(&b);
    int rc = vc_fail(err, VC_EFORMAT, "%s: none of its rows can be used: %s%s. Nothing was removed "
                     "or encoded", p->c.meta, text ? text : "?", m->n > SHOWN ? "; ..." : "");
    free(text);
    return rc;
}

/* ---- the plan ---- */

typedef struct tally {
    uint64_t rows, usable;               /* this job's rows of the list; those with a clip */
    uint64_t there, listed, stay;        /* the dataset's rows; those in the list; that stay */
} tally;

static bool most_of(uint64_t part, uint64_t whole)
{
    return 2 * part > whole;
}

static bool loses(const tally *t)
{
    return t->stay < t->there && most_of(t->there - t->stay, t->there);
}

static void count(const vprep *p, tally *t)
{
    uint32_t last = UINT32_MAX;

    *t = (tally){ .there = p->c.append ? 0 : prep_reuse_rows(p), .stay = p->plan.n_kept };
    for (int64_t i = 0; i < p->list.meta.n; i++)
        if (vprep_is_mine(p, &p->list.meta.rows[i])) {
            t->rows++;
            t->listed += vprep_samples_of(p, p->list.sources[i].number) > 0;
        }
    for (uint32_t i = 0; i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        if (it->drop || it->row == last)
            continue;
        last = it->row;
        t->usable++;
        t->stay += vprep_samples_of(p, it->number) > 0;
    }
}

/* Adds to t->stay the rows that are new under their names and whose clips the dataset has: files
 * were moved, and nothing of them is lost. */
static int count_moved(const vprep *p, tally *t, vc_err *err)
{
    uint32_t last = UINT32_MAX;
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        vprep_clip clip;
        if (it->drop || it->row == last || vprep_samples_of(p, it->number))
            continue;
        last = it->row;
        rc = vprep_clip_of(p, it, &clip, err);
        if (!rc)
            t->stay += prep_reuse_find(p, false, vprep_latent_key(p, it, &clip)) == REUSE_OUT;
        vprep_clip_free(&clip);
    }
    return rc;
}

/* Notes the reasons of samples that the choice drops, which else the report of the plan does. */
static int note_drops(vprep *p, vc_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        vprep_clip clip;
        if (!p->plan.items[i].drop)
            continue;
        rc = vprep_clip_of(p, &p->plan.items[i], &clip, err);
        if (!rc)
            rc = vprep_note_drop(p, &p->plan.items[i], &clip, err);
        vprep_clip_free(&clip);
    }
    return rc;
}

static int refuse_empty(vprep *p, vc_err *err)
{
    char *why = all_reasons(p);
    int rc = vc_fail(err, VC_EFAIL, "no row of %s can be used: %s. Nothing was removed or encoded; "
                     "%s/errors.jsonl has all reasons; --allow_missing continues", p->c.meta,
                     why ? why : "?", p->c.out);
    free(why);
    return rc;
}

/* more: a further part of the sentence. */
static int refuse_losses(vprep *p, uint64_t lost, uint64_t there, const char *more, vc_err *err)
{
    char *why = all_reasons(p);
    int rc = vc_fail(err, VC_EFAIL, "this run would drop %llu of the %llu samples in %s: %s%s. "
                     "Nothing was removed: restore the list and its files, or give "
                     "--allow_missing to drop them, or --append to keep them",
                     (unsigned long long)lost, (unsigned long long)there, p->c.out, more,
                     why ? why : "");
    free(why);
    return rc;
}

static int refuse_plan(vprep *p, const tally *t, vc_err *err)
{
    const uint64_t unlisted = t->there - t->listed;
    char more[400] = "";

    if (unlisted)
        snprintf(more, sizeof more, "%llu have no row in %.300s%s", (unsigned long long)unlisted,
                 p->c.meta, p->errors.n ? "; " : "");
    return refuse_losses(p, t->there - t->stay, t->there, more, err);
}

int vprep_losses(vprep *p, vc_err *err)
{
    tally t;
    vc_err why = { 0 };

    if (p->c.allow_missing)
        return 0;
    count(p, &t);
    int rc = loses(&t) ? count_moved(p, &t, err) : 0;
    const bool empty = t.rows && !t.usable && !p->plan.n_kept, losses = loses(&t);
    p->plan.lost = t.stay < t.there ? t.there - t.stay : 0;
    if (rc || (!empty && !losses))
        return rc;
    rc = p->c.dry_run ? 0 : note_drops(p, err);          /* a dry run's report does */
    if (rc)
        return rc;
    const bool part = empty && !losses && p->list.parts > 1;     /* other parts have more */
    rc = empty && !part ? refuse_empty(p, &why)
         : losses ? refuse_plan(p, &t, &why) : 0;
    p->plan.refused |= rc != 0;
    if (p->c.dry_run && rc)
        vc_warn(p->progress, "a run will be refused: %s", why.text);
    if (p->c.dry_run || !rc)
        return 0;
    *err = why;
    return rc;
}

/* ---- after the encoding ---- */

static bool is_late(const vprep_error *e)
{
    for (int i = 0; i < PLANNED; i++)
        if (!strcmp(e->stage, stages[i]))
            return false;
    return true;
}

/* Counts the stored rows whose text or clip has failed, which are to be dropped. Items and errors
 * are in the order of the rows. */
static uint64_t count_late(vprep *p)
{
    uint64_t n = 0;
    uint32_t e = 0, last = UINT32_MAX;

    vprep_sort_errors(p);
    for (uint32_t i = 0; i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        const int64_t row = p->list.meta.rows[it->row].row;
        bool late = false;
        if (it->absent || it->row == last)
            continue;
        while (e < p->errors.n && p->errors.list[e].row < row)
            e++;
        for (uint32_t k = e; k < p->errors.n && p->errors.list[k].row == row; k++)
            late |= is_late(&p->errors.list[k]);
        if (late && vprep_samples_of(p, it->number)) {
            last = it->row;
            n++;
        }
    }
    return n;
}

int vprep_late_losses(vprep *p, vc_err *err)
{
    const bool dropping = !p->c.append && !prep_reuse_in_place(p);

    if (p->c.allow_missing || !p->errors.n)
        return 0;
    const uint64_t late = count_late(p), lost = p->plan.lost + late;
    if (dropping && late && most_of(lost, p->count.stored))
        return refuse_losses(p, lost, p->count.stored, "", err);
    const bool none = vf_writer_count(p->writer) == vf_writer_unseen(p->writer);
    return p->plan.n_items && none && p->list.parts < 2 ? refuse_empty(p, err) : 0;
}
