/* metrics.c - writes metrics.jsonl and TensorBoard events; see metrics.h */
#include "train/output/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "formats/json/json.h"
#include "formats/report/tfevents.h"

#define FLUSH_AFTER 10.0                 /* seconds that TensorBoard's events may be behind */

struct vtrain_metrics {
    char *path;
    int fd;
    int64_t size;                        /* of the file: whole lines */
    vc_buf late;                         /* lines that are still to be written */
    bool torn;                           /* a failed write may have left bytes after size */
    vc_err lost;                         /* error by which lines were first lost for good */
    vf_tfevents *events;                 /* NULL: off */
    double flushed;                      /* time of the last flush, by vc_seconds */
};

/* ---- cutting off later steps ---- */

/* Finds the step of a whole line, -1 of another. VC_ENOMEM: not known. */
static int step_of(int64_t *step, const char *line, size_t n, vc_err *err)
{
    cJSON *o;
    *step = -1;
    int rc = vf_json_parse(&o, line, n, err);
    if (rc)
        return rc == VC_ENOMEM ? rc : 0;
    if (vf_json_int(o, "step", step, NULL) || *step < 0)
        *step = -1;
    cJSON_Delete(o);
    return 0;
}

/* Finds *keep, the bytes of the file up to its last whole line of at most `step`. Steps ascend, so
 * a search from the end reads little more than the lines to cut off. */
static int keep_until(size_t *keep, const char *text, size_t n, int64_t step, vc_err *err)
{
    while (n && text[n - 1] != '\n')
        n--;
    while (n) {
        const char *before = memrchr(text, '\n', n - 1);
        size_t from = before ? (size_t)(before - text) + 1 : 0;
        int64_t s;
        int rc = step_of(&s, text + from, n - 1 - from, err);
        if (rc)
            return rc;
        if (s >= 0 && s <= step)
            break;
        n = from;
    }
    *keep = n;
    return 0;
}

/* Cuts the file by one ftruncate, so that a killed run leaves whole lines. */
static int cut(vtrain_metrics *m, int64_t step, vc_err *err)
{
    vc_map map = { 0 };
    size_t keep = 0;
    int rc = step > 0 ? vc_map_open(&map, m->path, err) : 0;
    if (!rc)
        rc = vc_context(err, keep_until(&keep, (const char *)map.data, map.size, step, err), "%s",
                        m->path);
    vc_map_close(&map);
    if (rc)
        return rc;
    m->size = (int64_t)keep;
    return ftruncate(m->fd, m->size) ? vc_fail_errno(err, "%s", m->path) : 0;
}

/* Writes the lines of `path` after `step` to the file `to`, and sets *keep to the bytes before
 * them; *any is false if there are none. */
static int copy_lines(const char *path, int64_t step, const char *to, size_t *keep, bool *any,
                      vc_err *err)
{
    vc_map map = { 0 };
    int rc = vc_map_open(&map, path, err);
    if (!rc)
        rc = keep_until(keep, (const char *)map.data, map.size, step, err);
    *any = !rc && *keep < map.size;
    if (*any)
        rc = vc_file_write(to, map.data + *keep, map.size - *keep, err);
    vc_map_close(&map);
    return rc;
}

int vtrain_metrics_split(const char *dir, int64_t step, const char *to, vc_err *err)
{
    char *path = vc_path_join(dir, "metrics.jsonl");
    size_t keep = 0;
    bool any = false;
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(path))
        rc = vc_context(err, copy_lines(path, step, to, &keep, &any, err), "%s", path);
    if (!rc && any && truncate(path, (off_t)keep))
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

/* ---- open, close ---- */

static int open_events(vtrain_metrics *m, const char *dir, int64_t step, vc_err *err)
{
    char *path = vc_path_join(dir, "tensorboard");
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    int rc = vf_tfevents_open(&m->events, path, step + 1, err);
    free(path);
    return rc;
}

static int open_file(vtrain_metrics *m, const char *dir, int64_t step, vc_err *err)
{
    m->path = vc_path_join(dir, "metrics.jsonl");
    if (!m->path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    int rc = vc_mkdirs(dir, err);
    if (rc)
        return rc;
    m->fd = open(m->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (m->fd < 0)
        return vc_fail_errno(err, "%s", m->path);
    return cut(m, step, err);
}

int vtrain_metrics_open(vtrain_metrics **out, const char *dir, int64_t step, bool tensorboard,
                        vc_err *err)
{
    *out = NULL;
    vtrain_metrics *m = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    m->fd = -1;
    m->flushed = vc_seconds();

    int rc = open_file(m, dir, step, err);
    if (!rc && tensorboard)
        rc = open_events(m, dir, step, err);
    if (rc) {
        vtrain_metrics_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* ---- a record ---- */

/* Adds a number with nine digits, which read back as the same f32; a value that is not finite is
 * null. */
static int add_number(cJSON *o, const char *field, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    cJSON *n = isfinite(v) ? cJSON_AddRawToObject(o, field, text) : cJSON_AddNullToObject(o, field);
    return n ? 0 : -1;
}

/* The same at the end of a list. */
static int append_number(cJSON *list, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    return cJSON_AddItemToArray(list, isfinite(v) ? cJSON_CreateRaw(text) : cJSON_CreateNull())
               ? 0 : -1;
}

static int add_groups(cJSON *o, const vtrain_record *r)
{
    cJSON *all = r->n_groups ? cJSON_AddObjectToObject(o, "lr_groups") : NULL;
    int rc = r->n_groups && !all ? -1 : 0;
    for (int i = 0; i < r->n_groups && !rc; i++)
        rc = add_number(all, r->group[i].pattern, r->group[i].lr);
    return rc;
}

static double mean_of(const vtrain_part_loss *p)
{
    return p->n ? p->sum / (double)p->n : NAN;
}

static const char *const kind_names[VTRAIN_KINDS_OF_LOSS] = { "loss_own", "loss_prior",
                                                              "loss_video", "loss_audio" };

static bool has_kind(const vtrain_record *r, int i)
{
    return r->kind[i].n && (r->kinds || i > VTRAIN_LOSS_PRIOR);
}

/* The losses of rows that are learned and of the others, and of the streams of a model with sound,
 * without those that the step has not. */
static int add_kinds(cJSON *o, const vtrain_record *r)
{
    int rc = 0;
    for (int i = 0; i < VTRAIN_KINDS_OF_LOSS && !rc; i++)
        rc = has_kind(r, i) ? add_number(o, kind_names[i], mean_of(&r->kind[i])) : 0;
    return rc;
}

static int add_samples(cJSON *o, const vtrain_record *r)
{
    cJSON *list = cJSON_CreateStringArray(r->sample, r->n_samples);
    return cJSON_AddItemToObject(o, "samples", list) ? 0 : -1;
}

/* The losses of two transformers that are trained, without that of one that no micro-batch of the
 * step went to. */
static int add_halves(cJSON *o, const vtrain_record *r)
{
    if (!r->halves)
        return 0;
    return (r->of[0].n && add_number(o, "loss_high", r->of[0].loss)) ||
           (r->of[1].n && add_number(o, "loss_low", r->of[1].loss)) ? -1 : 0;
}


/* The loss of each quarter of the noise levels; null where the step has no row in it. */
static int add_levels(cJSON *o, const vtrain_record *r)
{
    int64_t rows = 0;
    for (int i = 0; i < VTRAIN_NOISE_LEVELS; i++)
        rows += r->level[i].n;
    cJSON *list = rows ? cJSON_AddArrayToObject(o, "loss_levels") : NULL;
    int rc = rows && !list ? -1 : 0;
    for (int i = 0; i < VTRAIN_NOISE_LEVELS && rows && !rc; i++)
        rc = append_number(list, mean_of(&r->level[i]));
    return rc;
}

static int add_buckets(cJSON *o, const vtrain_record *r)
{
    if (r->n_buckets < 2)
        return 0;
    cJSON *all = cJSON_AddObjectToObject(o, "loss_buckets");
    int rc = all ? 0 : -1;
    for (int i = 0; i < r->n_buckets && !rc; i++)
        rc = add_number(all, r->of_bucket[i].name, mean_of(&r->of_bucket[i].loss));
    return rc;
}

/* The held-out loss, and that of each level. */
static int add_held_out(cJSON *o, const vtrain_record *r)
{
    if (isnan(r->eval_loss))
        return 0;
    cJSON *list = cJSON_CreateDoubleArray(r->eval_level, VTRAIN_NOISE_LEVELS);
    int rc = add_number(o, "eval_loss", r->eval_loss);
    return cJSON_AddItemToObject(o, "eval_levels", list) ? rc : -1;
}

/* Makes the record's line with its newline, malloc'ed. */
static char *make_line(const vtrain_record *r)
{
    cJSON *o = cJSON_CreateObject();
    bool bad = vf_json_add_int(o, "step", r->step) || add_number(o, "epoch", r->epoch) ||
               add_number(o, "loss", r->loss) || add_levels(o, r) || add_buckets(o, r) ||
               add_number(o, "lr", r->lr) ||
               (r->number_name && add_number(o, r->number_name, r->number)) ||
               add_groups(o, r) || add_halves(o, r) || add_kinds(o, r) ||
               add_number(o, "grad_norm", r->grad_norm) || add_samples(o, r) ||
               add_number(o, "tokens_per_s", r->tokens_per_s) ||
               add_number(o, "step_s", r->step_s) || add_number(o, "data_wait_s", r->data_wait_s) ||
               vf_json_add_int(o, "peak_bytes", r->peak_bytes) ||
               !cJSON_AddStringToObject(o, "bucket", r->bucket) ||
               add_number(o, "caption_dropout", r->caption_dropout) ||
               (!isnan(r->device_waits) && add_number(o, "device_waits", r->device_waits)) ||
               (!isnan(r->graph_replays) && add_number(o, "graph_replays", r->graph_replays)) ||
               add_held_out(o, r);
    char *text = bad ? NULL : vf_json_line(o), *line = text ? vc_format("%s\n", text) : NULL;
    free(text);
    cJSON_Delete(o);
    return line;
}

/* Cuts off the bytes that a failed write left. */
static int mend(vtrain_metrics *m, vc_err *err)
{
    if (m->torn && ftruncate(m->fd, m->size))
        return vc_fail_errno(err, "%s: its last line is torn", m->path);
    m->torn = false;
    return 0;
}

/* Writes the lines of m->late. Lines that do not fit are cut off again and stay in m->late, so that
 * the file always ends with a whole line. */
static int write_late(vtrain_metrics *m, vc_err *err)
{
    int rc = mend(m, err);
    for (size_t done = 0; !rc && done < m->late.n;) {
        ssize_t w = write(m->fd, m->late.data + done, m->late.n - done);
        m->torn |= w > 0;
        if (w > 0)
            done += (size_t)w;
        else if (w < 0 && errno != EINTR)
            rc = vc_fail_errno(err, "%s", m->path);
    }
    if (rc) {
        vc_err torn;
        return mend(m, &torn) ? vc_fail(err, torn.code, "%s", torn.text) : rc;
    }
    m->size += (int64_t)m->late.n;
    m->late.n = 0;
    m->torn = false;
    return 0;
}

static int add_line(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    char *line = make_line(r);
    if (line)
        vc_buf_str(&m->late, line);
    bool failed = !line || m->late.failed;
    m->late.failed = false;
    free(line);
    return failed ? vc_fail(err, VC_ENOMEM, "%s: step %" PRId64 ": out of memory", m->path, r->step)
                  : 0;
}

static int write_group(vtrain_metrics *m, int64_t step, const vtrain_group_note *x, vc_err *err)
{
    char *tag = vc_format("lr/%s", x->pattern);
    int rc = tag ? vf_tfevents_scalar(m->events, step, tag, (float)x->lr, err) : vc_no_memory(err);
    free(tag);
    return rc;
}

/* Writes one value of a tag of which each step may have other parts; NaN is left out. */
static int write_part(vtrain_metrics *m, int64_t step, const char *of, const char *part, double v,
                      vc_err *err)
{
    if (isnan(v))
        return 0;
    char *tag = vc_format("%s%s", of, part);
    int rc = tag ? vf_tfevents_scalar(m->events, step, tag, (float)v, err) : vc_no_memory(err);
    free(tag);
    return rc;
}

/* Writes the losses of the noise levels, trained and held out, and of the buckets. */
static int write_parts(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < VTRAIN_NOISE_LEVELS && !rc; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i + 1);
        rc = write_part(m, r->step, "loss/noise_", number, mean_of(&r->level[i]), err);
        if (!rc)
            rc = write_part(m, r->step, "eval_loss/noise_", number,
                            isnan(r->eval_loss) ? NAN : r->eval_level[i], err);
    }
    for (int i = 0; i < r->n_buckets && !rc; i++)
        rc = write_part(m, r->step, "loss/bucket_", r->of_bucket[i].name,
                        mean_of(&r->of_bucket[i].loss), err);
    return rc;
}

static int write_events(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    const struct { const char *tag; double v; } scalar[] = {
        { "loss", r->loss }, { "lr", r->lr }, { "grad_norm", r->grad_norm },
        { "loss_high", r->halves ? r->of[0].loss : NAN },
        { "loss_low", r->halves ? r->of[1].loss : NAN },
        { "tokens_per_s", r->tokens_per_s }, { "step_s", r->step_s },
        { "data_wait_s", r->data_wait_s }, { "peak_bytes", (double)r->peak_bytes },
        { "caption_dropout", r->caption_dropout }, { "epoch", r->epoch },
        { "device_waits", r->device_waits }, { "graph_replays", r->graph_replays },
        { "eval_loss", r->eval_loss },
        { r->number_name, r->number_name ? r->number : NAN },
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof scalar / sizeof *scalar && rc != VC_ENOMEM; i++)
        if (!isnan(scalar[i].v)) {       /* NaN: left out */
            int one = vf_tfevents_scalar(m->events, r->step, scalar[i].tag, (float)scalar[i].v,
                                         err);
            rc = one ? one : rc;
        }
    for (int i = 0; i < VTRAIN_KINDS_OF_LOSS && !rc; i++)
        rc = write_part(m, r->step, kind_names[i], "", has_kind(r, i) ? mean_of(&r->kind[i]) : NAN,
                        err);
    for (int i = 0; i < r->n_groups && !rc; i++)
        rc = write_group(m, r->step, &r->group[i], err);
    if (!rc)
        rc = write_parts(m, r, err);
    if (!rc && vc_seconds() - m->flushed > FLUSH_AFTER) {
        rc = vf_tfevents_flush(m->events, err);
        m->flushed = rc ? m->flushed : vc_seconds();
    }
    return rc;
}

/* Returns the first of the errors, and remembers one by which lines are lost for good. */
static int first_of(vtrain_metrics *m, int rc, const vc_err *why, bool lost, vc_err *first)
{
    if (rc && lost && !m->lost.code)
        m->lost = *why;
    if (rc && !first->code)
        *first = *why;
    return first->code;
}

static int end_with(const vtrain_metrics *m, const vc_err *first, vc_err *err)
{
    const vc_err *e = first->code ? first : &m->lost;
    if (e->code && err)
        *err = *e;
    return e->code;
}

int vtrain_metrics_step(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    vc_err first = { 0 }, why = { 0 };
    first_of(m, add_line(m, r, &why), &why, true, &first);
    first_of(m, write_late(m, &why), &why, false, &first);
    if (m->events) {
        int rc = write_events(m, r, &why);
        first_of(m, rc, &why, rc == VC_ENOMEM, &first);
    }
    return end_with(m, &first, err);
}

int vtrain_metrics_sync(vtrain_metrics *m, vc_err *err)
{
    vc_err first = { 0 }, why = { 0 };
    first_of(m, write_late(m, &why), &why, false, &first);
    if (m->events)
        first_of(m, vf_tfevents_flush(m->events, &why), &why, false, &first);
    if (fsync(m->fd))
        first_of(m, vc_fail_errno(&why, "%s", m->path), &why, true, &first);
    return end_with(m, &first, err);
}

void vtrain_metrics_close(vtrain_metrics *m)
{
    if (!m)
        return;
    if (m->fd >= 0)
        write_late(m, NULL);
    vf_tfevents_close(m->events, NULL);
    vc_buf_free(&m->late);
    if (m->fd >= 0)
        close(m->fd);
    free(m->path);
    free(m);
}
