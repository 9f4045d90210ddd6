/* list.c - vlat list prints a line per sample; vlat show prints one sample in full. */
#include "formats/vlat/vlat.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/expr.h"
#include "formats/dataset/refs.h"

enum { PATH = 60, CAPTION = 60 };            /* characters of a path and a caption in a line */

/* ---- list ---- */

/* sound: the dataset's lines say whether samples have sound. */
static void print_line(FILE *f, const vf_entry *e, const cJSON *record, bool sound)
{
    char key[24], size[64];
    fprintf(f, "%s  %-5s  %9s  %4" PRIu32 " frames  %6" PRIu32 " tokens  ",
            vf_sample_key(key, e->number, e->variant),
            e->flags & VF_ENTRY_VIDEO ? "video" : "image", vlat_size(size, record), e->frames,
            e->tokens);
    if (sound)
        fputs(*vlat_sound(record) ? "sound  " : "       ", f);
    vlat_print(f, vlat_str(record, "path"), PATH);
    fputs("  ", f);
    vlat_print(f, vlat_caption(record), CAPTION);
    fputc('\n', f);
}

static int print_sample(const vlat *v, const vf_dataset *d, uint32_t i, vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(d, i, &record, err);
    if (!rc && v->o->json)
        rc = vlat_print_json(v->out, record, err);
    else if (!rc)
        print_line(v->out, vf_dataset_entry(d, i), record, vlat_has_sound(d));
    cJSON_Delete(record);
    return rc;
}

int vlat_list(const vlat *v, vc_err *err)
{
    vf_dataset *d = NULL;
    vf_expr *e = NULL;
    int64_t left = v->o->limit ? v->o->limit : INT64_MAX;
    int rc = vlat_condition(v->o->where, &e, err);
    if (rc)
        vc_context(err, rc, "--where");
    else
        rc = vlat_open(v, &d, err);
    for (uint32_t i = 0, yes; !rc && left && i < vf_dataset_count(d) && !*vc_stop_flag(); i++) {
        rc = vlat_holds(d, e, i, &yes, err);
        if (!rc && yes)
            rc = print_sample(v, d, i, err);
        left -= !rc && yes;
    }
    if (!rc && *vc_stop_flag())
        rc = vc_fail(err, VC_ESTOP, "stopped");
    vf_dataset_close(d);
    vf_expr_close(e);
    return rc;
}

/* ---- show: tensors ---- */

typedef struct stats {
    double min, max, mean, std;
    int64_t nan;
} stats;

/* Statistics of the finite values, in two passes, as the mean of latents may be far from zero. */
static int measure(const vf_view *v, stats *s, vc_err *err)
{
    int64_t n = vf_view_count(v), good = 0;
    double sum = 0, squares = 0;
    float *x = malloc(n > 0 ? (size_t)n * sizeof *x : 1);
    if (!x)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", v->name);
    *s = (stats){ .min = INFINITY, .max = -INFINITY };
    vc_to_f32(x, v->data, v->dtype, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            s->nan++;
            continue;
        }
        good++;
        sum += x[i];
        s->min = x[i] < s->min ? x[i] : s->min;
        s->max = x[i] > s->max ? x[i] : s->max;
    }
    s->mean = good ? sum / (double)good : NAN;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            squares += (x[i] - s->mean) * (x[i] - s->mean);
    s->std = good ? sqrt(squares / (double)good) : NAN;
    free(x);
    return 0;
}

static int print_tensors(FILE *f, const vf_safetensors *st, vc_err *err)
{
    for (int i = 0; i < vf_safetensors_count(st); i++) {
        const vf_view *v = vf_safetensors_at(st, i);
        stats s = { 0 };
        int rc = measure(v, &s, err);
        if (rc)
            return rc;
        fputs("  ", f);
        vlat_print(f, v->name, 40);
        fprintf(f, " %s [", vc_dtype_name(v->dtype));
        for (int k = 0; k < v->nd; k++)
            fprintf(f, "%s%" PRId64, k ? "," : "", v->dim[k]);
        fprintf(f, "]  min %.4g  max %.4g  mean %.4g  std %.4g", s.min, s.max, s.mean, s.std);
        if (s.nan)
            fprintf(f, "  %" PRId64 " NaN or infinite", s.nan);
        fputc('\n', f);
    }
    return 0;
}

static int print_value(const vlat *v, const vf_dataset *d, bool text, const char *what,
                       const char *hex, vc_err *err)
{
    vf_key k;
    vf_safetensors *st;
    if (!vf_key_parse(&k, hex))
        return vf_dataset_remedy(v->path, vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected",
                                                  what), err);
    int rc = text ? vf_dataset_text(d, k, true, &st, err) : vf_dataset_latent(d, k, true, &st, err);
    if (rc)
        return rc;
    fputs(what, v->out);
    fprintf(v->out, " %s\n", hex);
    rc = print_tensors(v->out, st, err);
    vf_safetensors_close(st);
    return rc;
}

/* ---- show: a sample ---- */

/* Prints the record, without characters that could control a terminal. */
static int print_record(FILE *f, const cJSON *record, vc_err *err)
{
    char *text = cJSON_Print(record), *save = NULL;
    if (!text)
        return vc_no_memory(err);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        for (; *line == '\t'; line++)
            fputs("  ", f);
        vlat_print(f, line, 0);
        fputc('\n', f);
    }
    cJSON_free(text);
    return 0;
}

/* Prints the values of a sample: latents, conditions by their roles, texts. */
static int print_values(const vlat *v, const vf_dataset *d, const cJSON *record, vc_err *err)
{
    vf_refs refs = { .n = 0 };
    int rc = vf_record_refs(&refs, record, err);
    for (int i = 0; !rc && i < refs.n; i++) {
        const vf_ref *ref = &refs.item[i];
        const bool condition = i && !ref->text;
        char hex[VF_KEY_HEX] = "";
        if (condition)
            vlat_print(v->out, ref->role.p, 40);
        rc = print_value(v, d, ref->text, condition ? ":" : ref->text ? "text" : "latent",
                         ref->valid ? vf_key_hex(hex, ref->key) : hex, err);
    }
    free(refs.item);
    return rc;
}

/* Reads width and height from a JPEG's frame header; false if it has none. */
static bool jpeg_size(const uint8_t *p, size_t n, int *w, int *h)
{
    for (size_t i = 2; i + 9 < n && p[i] == 0xff;) {
        unsigned marker = p[i + 1], length = (unsigned)p[i + 2] << 8 | p[i + 3];
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
            marker != 0xcc) {
            *h = p[i + 5] << 8 | p[i + 6];
            *w = p[i + 7] << 8 | p[i + 8];
            return true;
        }
        i += 2 + length;
    }
    return false;
}

static int print_thumb(const vlat *v, const vf_dataset *d, uint32_t i, vc_err *err)
{
    const void *jpeg;
    size_t n;
    int w, h, rc = vf_dataset_thumb(d, i, &jpeg, &n, err);
    if (rc == VC_ENOENT)
        fputs("no thumbnail\n", v->out);
    if (rc)
        return rc == VC_ENOENT ? 0 : rc;
    if (jpeg_size(jpeg, n, &w, &h))
        fprintf(v->out, "thumbnail %dx%d, %zu bytes\n", w, h, n);
    else
        fprintf(v->out, "thumbnail of %zu bytes, no JPEG\n", n);
    return 0;
}

static void print_sound(FILE *f, const vf_entry *e, const cJSON *record)
{
    if (*vlat_sound(record))
        fprintf(f, "sound of %.2f s\n", vlat_sound_seconds(e));
    else
        fputs("no sound\n", f);
}

static int show_sample(const vlat *v, const vf_dataset *d, uint32_t i, vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(d, i, &record, err);
    if (!rc)
        rc = print_record(v->out, record, err);
    if (!rc)
        rc = print_values(v, d, record, err);
    if (!rc && vlat_has_sound(d))
        print_sound(v->out, vf_dataset_entry(d, i), record);
    if (!rc)
        rc = print_thumb(v, d, i, err);
    cJSON_Delete(record);
    return rc;
}

int vlat_show(const vlat *v, vc_err *err)
{
    vf_dataset *d;
    vf_key k;
    uint32_t i;
    const char *key = v->words->item[1];
    int rc = vlat_open(v, &d, err);
    if (!rc && vf_key_parse(&k, key)) {
        rc = print_value(v, d, false, "latent", key, err);
        if (rc == VC_ENOENT)
            rc = print_value(v, d, true, "text", key, err);
        if (rc == VC_ENOENT)
            rc = vc_fail(err, rc, "%s: no latent or text %s", v->path, key);
    } else if (!rc) {
        rc = vf_dataset_find(d, key, &i, err);
        if (!rc)
            rc = show_sample(v, d, i, err);
        else if (rc == VC_EINVAL)
            rc = VC_EUSAGE;
    }
    vf_dataset_close(d);
    return rc;
}
