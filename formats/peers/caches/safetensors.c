/* safetensors.c - exports and imports a whole dataset as a folder of safetensors files, one file a
 * value.
 *
 *     manifest.json  samples.jsonl  validation.jsonl
 *     latents/KEY.safetensors  texts/KEY.safetensors  thumbs/000000000042-000.jpg
 *
 * See exchange.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"

typedef struct writing {
    exchange *x;
    FILE *samples;
} writing;

static int write_value(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    (void)role;
    return exchange_write_value(((writing *)arg)->x, ref, err);
}

static int write_thumb(const writing *w, uint32_t i, const cJSON *record, vc_err *err)
{
    const void *jpeg;
    size_t n;
    char stem[24], name[48];
    int rc = vf_dataset_thumb(w->x->d, i, &jpeg, &n, err);
    if (rc)
        return rc == VC_ENOENT ? 0 : rc;
    rc = exchange_stem(stem, record, err);
    snprintf(name, sizeof name, "thumbs/%s.jpg", stem);
    return rc ? rc : exchange_write(w->x->dir, name, jpeg, n, err);
}

static int write_sample(writing *w, uint32_t i, vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(w->x->d, i, &record, err);
    if (!rc)
        rc = exchange_refs(record, write_value, w, err);
    if (!rc)
        rc = write_thumb(w, i, record, err);
    char *line = rc ? NULL : vf_json_line(record);
    if (!rc && (!line || fprintf(w->samples, "%s\n", line) < 0))
        rc = vc_fail_errno(err, "samples.jsonl");
    free(line);
    cJSON_Delete(record);
    return rc;
}

static int export_folder(exchange *x, vc_err *err)
{
    writing w = { .x = x };
    uint32_t n = vf_dataset_count(x->d);
    char *path = vc_path_join(x->dir, "samples.jsonl");
    int rc = exchange_write_frame(x, err);
    if (!rc && (!path || !(w.samples = fopen(path, "wbe"))))
        rc = vc_fail_errno(err, "%s/samples.jsonl", x->dir);
    vc_progress_begin(x->v->progress, "exporting", "samples", n);
    for (uint32_t i = 0; !rc && i < n; i++) {
        rc = exchange_of_sample(x, i, write_sample(&w, i, err), err);
        if (!rc)
            rc = exchange_stopped(err);
        vc_progress_at(x->v->progress, i + 1u, NULL);
    }
    vc_progress_end(x->v->progress);
    if (w.samples && fclose(w.samples) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

/* ---- import ---- */

static int put_value(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    (void)role;
    return exchange_put_file(arg, ref, err);
}

static int put_one(exchange *x, const cJSON *record, vc_err *err)
{
    char stem[24];
    vc_map thumb = { 0 };
    int rc = exchange_refs(record, put_value, x, err);
    if (!rc)
        rc = exchange_stem(stem, record, err);
    char *path = rc ? NULL : vc_format("%s/thumbs/%s.jpg", x->dir, stem);
    if (!rc && path && vc_file_exists(path))
        rc = vc_map_open(&thumb, path, err);
    if (!rc)
        rc = exchange_put_record(x, record, thumb.data, thumb.size, err);
    vc_map_close(&thumb);
    free(path);
    return rc;
}

static int put_sample(void *arg, const cJSON *record, vc_err *err)
{
    return exchange_skip(arg, put_one(arg, record, err), err);
}

static int import_folder(exchange *x, vc_err *err)
{
    char *path = vc_path_join(x->dir, "samples.jsonl");
    int rc = path ? exchange_read_frame(x, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_lines(path, put_sample, x, err);
    free(path);
    return rc;
}

const exchange_format exchange_safetensors = {
    "safetensors", "a safetensors folder", "the whole dataset, a file for each value",
    NULL, 0, NULL, false, true,
    export_folder, import_folder, NULL
};
