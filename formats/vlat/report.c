/* report.c - vlat report: one HTML file about a dataset. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/report/html.h"
#include "formats/report/runs.h"
#include "formats/vlat/vlat.h"

enum { MAX_ERROR_ROWS = 1000 };              /* rows of errors.jsonl that are shown */

/* ---- summary ---- */

/* Adds the lines about captions of which an encoder did not read the ends. */
static void add_cuts(vf_html *h, const char *lines)
{
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        n = strcspn(lines, "\n");
        vf_html_fact(h, "captions cut", "%.*s", (int)n, lines);
    }
}

static int add_facts(vf_html *h, const vlat *v, const vf_dataset *d, vc_err *err)
{
    char a[32], b[32], families[VLAT_FAMILIES];
    vlat_sounds sounds;
    const cJSON *m = vf_dataset_manifest(d), *s;
    double bytes = 0;
    int n = 0, rc = vlat_count_sounds(&sounds, d, err);
    if (rc)
        return rc;
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(m, "shards")) {
        bytes += vlat_num(s, "bytes");
        n++;
    }
    char *text = cJSON_Print(m);
    vf_html_section(h, "Dataset");
    vf_html_fact(h, "folder", "%s", vc_path_base(v->path));
    vf_html_fact(h, "family", "%s, train mode %s", vlat_families(families, m),
                 vlat_str(m, "train_mode"));
    vf_html_fact(h, "samples", "%s%s", vc_human_count(a, vf_dataset_count(d)),
                 cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(m, "complete")) ? ""
                                                                               : " (not finished)");
    vf_html_fact(h, "clips last", "%s", vc_human_time(a, vlat_seconds(d)));
    if (vlat_has_sound(d))
        vf_html_fact(h, "with sound", "%s sample%s, %s", vc_human_count(a, sounds.n),
                     vc_s(sounds.n), vc_human_time(b, sounds.seconds));
    vf_html_fact(h, "size", "%s in %d shards", vc_human_bytes(b, bytes), n);
    vf_html_fact(h, "stored", "%s, %s", vlat_str(m, "latent_store"), vlat_str(m, "dtype"));
    add_cuts(h, vlat_str(m, "cut"));
    vf_html_fact(h, "root", "%s", vlat_str(m, "root"));
    if (text)
        vf_html_fold(h, "manifest.json", text);
    cJSON_free(text);
    return 0;
}

/* ---- buckets and histograms ---- */

static int add_buckets(vf_html *h, const vf_dataset *d, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d), "buckets"), *o;
    int n = cJSON_GetArraySize(list), i = 0;
    char (*label)[128] = calloc((size_t)n + 1, sizeof *label);
    const char **labels = calloc((size_t)n + 1, sizeof *labels);
    double *values = calloc((size_t)n + 1, sizeof *values);
    int rc = label && labels && values ? 0
                                       : vc_fail(err, VC_ENOMEM, "out of memory for %d buckets", n);
    cJSON_ArrayForEach(o, list) {
        char dims[64];
        if (rc)
            break;
        snprintf(label[i], sizeof label[i], "%.40s  %s", vlat_str(o, "key"),
                 vlat_dims(dims, cJSON_GetObjectItemCaseSensitive(o, "latent")));
        labels[i] = label[i];
        values[i++] = vlat_num(o, "samples");
    }
    if (!rc)
        vf_html_bars(h, "Samples per bucket (key, latent frames x height x width)", labels, values,
                     n);
    free(label);
    free(labels);
    free(values);
    return rc;
}

typedef double entry_value(const vf_entry *e);

static double tokens_of(const vf_entry *e)
{
    return e->tokens;
}

static double frames_of(const vf_entry *e)
{
    return e->frames;
}

static int add_histogram(vf_html *h, const vf_dataset *d, const char *title, const char *label,
                         entry_value *of, vc_err *err)
{
    uint32_t n = vf_dataset_count(d);
    double *values = malloc(((size_t)n + 1) * sizeof *values);
    if (!values)
        return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " samples", n);
    for (uint32_t i = 0; i < n; i++)
        values[i] = of(vf_dataset_entry(d, i));
    vf_html_histogram(h, title, label, values, n);
    free(values);
    return 0;
}

/* ---- skipped inputs ---- */

/* The reason without the path that it may begin with, as the path is a cell of its own. */
static void add_error_row(vf_html *h, const cJSON *o)
{
    char row[32];
    const char *path = vlat_str(o, "path"), *reason = vlat_str(o, "reason");
    size_t n = strlen(path);
    snprintf(row, sizeof row, "%.0f", vlat_num(o, "row"));
    if (n && !strncmp(reason, path, n) && !strncmp(reason + n, ": ", 2))
        reason += n + 2;
    const char *cells[] = { row, path, vlat_str(o, "stage"), reason };
    vf_html_row(h, cells);
}

typedef struct rows {
    vf_html *h;
    int n;
} rows;

static int add_error(void *arg, const cJSON *o, vc_err *err)
{
    static const char *const columns[] = { "row", "path", "stage", "reason" };
    rows *r = arg;
    (void)err;
    if (!r->n)
        vf_html_table(r->h, columns, 4);
    if (r->n++ < MAX_ERROR_ROWS)
        add_error_row(r->h, o);
    return 0;
}

static int add_errors(vf_html *h, const vlat *v, vc_err *err)
{
    vlat_skipped s;
    const char *labels[VLAT_STAGES];
    double values[VLAT_STAGES];
    vf_html_section(h, "Skipped");
    int rc = vlat_read_skipped(v->path, &s, add_error, &(rows){ .h = h }, err);
    for (int i = 0; i < s.stages; i++) {
        labels[i] = s.stage[i].name;
        values[i] = s.stage[i].n;
    }
    if (s.n > MAX_ERROR_ROWS)
        vf_html_text(h, "The first %d of %" PRIu64 ".", MAX_ERROR_ROWS, s.n);
    if (s.stages)
        vf_html_bars(h, "Skipped per stage", labels, values, s.stages);
    else
        vf_html_text(h, "Nothing was skipped.");
    return rc;
}

/* ---- the samples ---- */

static int add_card(vf_html *h, const vf_dataset *d, uint32_t i, vc_err *err)
{
    char key[24], title[160], size[64];
    const vf_entry *e = vf_dataset_entry(d, i);
    const void *jpeg;
    size_t n;
    cJSON *record;
    int rc = vf_dataset_sample(d, i, &record, err);
    if (rc)
        return rc;
    rc = vf_dataset_thumb(d, i, &jpeg, &n, err);
    if (rc && rc != VC_ENOENT) {
        cJSON_Delete(record);
        return rc;
    }
    snprintf(title, sizeof title, "%s  %s, %" PRIu32 " frame%s",
             vf_sample_key(key, e->number, e->variant), vlat_size(size, record), e->frames,
             e->frames == 1 ? "" : "s");
    vf_html_card(h, jpeg, n, "image/jpeg", title, vlat_caption(record));
    cJSON_Delete(record);
    return 0;
}

static int add_samples(vf_html *h, const vlat *v, const vf_dataset *d, vc_err *err)
{
    char a[32], b[32];
    uint32_t n = vf_dataset_count(d);
    uint64_t shown = v->o->limit && v->o->limit < n ? (uint64_t)v->o->limit : n;
    int rc = 0;
    vf_html_section(h, "Samples");
    if (shown < n)
        vf_html_text(h, "%s of %s, spread evenly.", vc_human_count(a, shown), vc_human_count(b, n));
    vf_html_grid(h, true);
    for (uint64_t i = 0; i < shown && !rc; i++) {
        rc = add_card(h, d, (uint32_t)(i * n / shown), err);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    return rc;
}

int vlat_report(const vlat *v, vc_err *err)
{
    vf_dataset *d;
    vf_html *h = NULL;
    if (v->o->browse)
        return vlat_browse(v, err);
    if (v->o->serve)
        return vlat_serve(v, err);
    if (vlat_is_run(v->path) || vf_has_runs(v->path))
        return vlat_report_runs(v, err);
    if (v->words->n > 1)
        return vc_fail(err, VC_EUSAGE, "%s is not the output folder of a training run: vlat report "
                       "takes one dataset, or the folders of runs; with --browse two datasets",
                       v->path);
    char *path = v->o->out ? vc_format("%s", v->o->out) : vc_path_join(v->path, "report.html");
    int rc = path ? vlat_open(v, &d, err) : vc_no_memory(err);
    if (rc) {
        free(path);
        return rc;
    }
    rc = vf_html_open(&h, vc_path_base(v->path), err);
    if (!rc)
        rc = add_facts(h, v, d, err);
    if (!rc)
        rc = add_buckets(h, d, err);
    if (!rc)
        rc = add_histogram(h, d, "Tokens per sample", "tokens", tokens_of, err);
    if (!rc)
        rc = add_histogram(h, d, "Frames per sample", "frames", frames_of, err);
    if (!rc)
        rc = add_errors(h, v, err);
    if (!rc)
        rc = add_samples(h, v, d, err);
    if (!rc)
        rc = vf_html_write(h, path, err);
    if (!rc)
        fprintf(v->out, "%s\n", path);
    vf_html_close(h);
    vf_dataset_close(d);
    free(path);
    return rc;
}
