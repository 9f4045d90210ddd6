/* metrics.c - see metrics.h */
#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/progress.h"
#include "formats/json.h"
#include "formats/tfevents.h"

#define FLUSH_AFTER 10.0                 /* seconds; how old TensorBoard's picture may be */

struct vtrain_metrics {
    char *path;
    int fd;
    int64_t size;                        /* of the file: whole lines */
    vf_tfevents *events;                 /* NULL: off */
    double flushed;                      /* when, by vc_seconds */
};

/* ---- cutting ---- */

/* The step of a line that is whole, else -1. */
static int64_t step_of(const char *line, size_t n)
{
    cJSON *o;
    int64_t step = -1;
    if (vf_json_parse(&o, line, n, NULL))
        return -1;
    if (vf_json_int(o, "step", &step, NULL) || step < 0)
        step = -1;
    cJSON_Delete(o);
    return step;
}

/* Bytes of the file up to its last whole line of at most `step`. Steps ascend, so looking from the
 * end costs no more than what is cut off. */
static size_t keep_until(const char *text, size_t n, int64_t step)
{
    while (n && text[n - 1] != '\n')
        n--;
    while (n) {
        const char *before = memrchr(text, '\n', n - 1);
        size_t from = before ? (size_t)(before - text) + 1 : 0;
        int64_t s = step_of(text + from, n - 1 - from);
        if (s >= 0 && s <= step)
            break;
        n = from;
    }
    return n;
}

/* Shortening a file is one step for whoever is killed meanwhile. */
static int cut(vtrain_metrics *m, int64_t step, vc_err *err)
{
    vc_map map;
    int rc = step > 0 ? vc_map_open(&map, m->path, err) : 0;
    if (rc)
        return rc;
    if (step > 0) {
        m->size = (int64_t)keep_until((const char *)map.data, map.size, step);
        vc_map_close(&map);
    }
    return ftruncate(m->fd, m->size) ? vc_fail_errno(err, "%s", m->path) : 0;
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
        return vc_fail(err, VC_ENOMEM, "out of memory");
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

void vtrain_metrics_close(vtrain_metrics *m)
{
    if (!m)
        return;
    vf_tfevents_close(m->events, NULL);
    if (m->fd >= 0)
        close(m->fd);
    free(m->path);
    free(m);
}

/* ---- a step ---- */

/* Nine digits bring every f32 back; what JSON has no number for is null. */
static int add_number(cJSON *o, const char *field, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    cJSON *n = isfinite(v) ? cJSON_AddRawToObject(o, field, text) : cJSON_AddNullToObject(o, field);
    return n ? 0 : -1;
}

static int add_samples(cJSON *o, const vtrain_record *r)
{
    cJSON *list = cJSON_CreateStringArray(r->sample, r->n_samples);
    return cJSON_AddItemToObject(o, "samples", list) ? 0 : -1;
}

/* The line with its end, malloc'ed. */
static char *make_line(const vtrain_record *r)
{
    cJSON *o = cJSON_CreateObject();
    bool bad = vf_json_add_int(o, "step", r->step) || add_number(o, "epoch", r->epoch) ||
               add_number(o, "loss", r->loss) || add_number(o, "lr", r->lr) ||
               add_number(o, "grad_norm", r->grad_norm) || add_samples(o, r) ||
               add_number(o, "tokens_per_s", r->tokens_per_s) ||
               add_number(o, "step_s", r->step_s) || add_number(o, "data_wait_s", r->data_wait_s) ||
               vf_json_add_int(o, "peak_bytes", r->peak_bytes) ||
               !cJSON_AddStringToObject(o, "bucket", r->bucket) ||
               add_number(o, "caption_dropout", r->caption_dropout) ||
               (!isnan(r->device_waits) && add_number(o, "device_waits", r->device_waits)) ||
               (!isnan(r->graph_replays) && add_number(o, "graph_replays", r->graph_replays)) ||
               (!isnan(r->eval_loss) && add_number(o, "eval_loss", r->eval_loss));
    char *text = bad ? NULL : vf_json_line(o), *line = text ? vc_format("%s\n", text) : NULL;
    free(text);
    cJSON_Delete(o);
    return line;
}

/* A line that did not fit is taken back, so that the file always ends with a whole one. */
static int append(vtrain_metrics *m, const char *line, vc_err *err)
{
    size_t n = strlen(line), done = 0;
    while (done < n) {
        ssize_t w = write(m->fd, line + done, n - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0) {
            int rc = vc_fail_errno(err, "%s", m->path);
            return ftruncate(m->fd, m->size)
                       ? vc_fail_errno(err, "%s: its last line is torn", m->path) : rc;
        }
        done += (size_t)w;
    }
    m->size += (int64_t)n;
    return 0;
}

static int write_events(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    const struct { const char *tag; double v; } scalar[] = {
        { "loss", r->loss }, { "lr", r->lr }, { "grad_norm", r->grad_norm },
        { "tokens_per_s", r->tokens_per_s }, { "step_s", r->step_s },
        { "data_wait_s", r->data_wait_s }, { "peak_bytes", (double)r->peak_bytes },
        { "caption_dropout", r->caption_dropout }, { "epoch", r->epoch },
        { "device_waits", r->device_waits }, { "graph_replays", r->graph_replays },
        { "eval_loss", r->eval_loss },
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof scalar / sizeof *scalar && !rc; i++)
        if (!isnan(scalar[i].v))         /* NaN: not there */
            rc = vf_tfevents_scalar(m->events, r->step, scalar[i].tag, (float)scalar[i].v, err);
    if (!rc && vc_seconds() - m->flushed > FLUSH_AFTER) {
        rc = vf_tfevents_flush(m->events, err);
        m->flushed = vc_seconds();
    }
    return rc;
}

int vtrain_metrics_step(vtrain_metrics *m, const vtrain_record *r, vc_err *err)
{
    char *line = make_line(r);
    int rc = line ? append(m, line, err) : vc_fail(err, VC_ENOMEM, "%s: out of memory", m->path);
    free(line);
    return rc || !m->events ? rc : write_events(m, r, err);
}

int vtrain_metrics_sync(vtrain_metrics *m, vc_err *err)
{
    int rc = m->events ? vf_tfevents_flush(m->events, err) : 0;
    if (!rc && fsync(m->fd))
        rc = vc_fail_errno(err, "%s", m->path);
    return rc;
}
