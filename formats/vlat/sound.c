/* sound.c - which samples have sound, how long it is, and a picture of its latent. See vlat.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "formats/dataset/record.h"
#include "formats/vlat/vlat.h"

bool vlat_has_sound(const vf_dataset *d)
{
    return cJSON_HasObjectItem(vf_dataset_manifest(d), "audio_vae");
}

const char *vlat_sound(const cJSON *record)
{
    const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    for (int i = 0; i < VC_ROLES; i++)
        if (vc_roles[i].sound && *vlat_str(conditions, vc_roles[i].name))
            return vlat_str(conditions, vc_roles[i].name);
    return "";
}

double vlat_sound_seconds(const vf_entry *e)
{
    return e->fps > 0 ? e->frames / (double)e->fps : 0;
}

static bool names_sound(const vf_refs *conditions)
{
    for (int i = 0; i < conditions->n; i++)
        for (int k = 0; k < VC_ROLES; k++)
            if (vc_roles[k].sound && strlen(vc_roles[k].name) == conditions->item[i].role.n &&
                !memcmp(vc_roles[k].name, conditions->item[i].role.p, conditions->item[i].role.n))
                return true;
    return false;
}

int vlat_count_sounds(vlat_sounds *s, const vf_dataset *d, vc_err *err)
{
    vf_parsed p = { 0 };
    int rc = 0;
    *s = (vlat_sounds){ 0 };
    for (uint32_t i = 0; !rc && vlat_has_sound(d) && i < vf_dataset_count(d); i++) {
        rc = vf_dataset_parsed(d, i, &p, err);
        if (!rc && names_sound(&p.conditions)) {
            s->n++;
            s->seconds += vlat_sound_seconds(vf_dataset_entry(d, i));
        }
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    vf_parsed_free(&p);
    return rc;
}

/* ---- a picture of a latent ---- */

enum { COLUMNS = 250, ROWS = 1024 };         /* most of a picture */
#define WHITE 3.0                            /* deviations from the mean that are white, or black */

typedef struct scale {                       /* the manifest's, each [channels * bins] */
    const cJSON *mean, *std;
} scale;

static const cJSON *numbers_of(const cJSON *audio, const char *name, int64_t n)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(audio, name);
    return cJSON_GetArraySize(list) == n ? list->child : NULL;
}

/* Draws a row of a bin: x[k * step] of each frame k, of which several may make a column. */
static void draw_row(uint8_t *row, int columns, const float *x, int64_t frames, int64_t step,
                     scale is)
{
    const double mean = is.mean->valuedouble, std = is.std->valuedouble > 0 ? is.std->valuedouble
                                                                            : 1;
    for (int c = 0; c < columns; c++) {
        const int64_t from = c * frames / columns, to = (c + 1) * frames / columns;
        double sum = 0;
        for (int64_t k = from; k < to; k++)
            sum += x[k * step];
        const double v = (sum / (double)(to - from) - mean) / std / WHITE;
        row[c] = (uint8_t)(v >= 1 ? 255 : v > -1 ? lrint(127.5 + 127.5 * v) : 0);
    }
}

/* Draws x [channels,frames,1,bins] to p [channels * bins,columns]: the channels below each other,
 * and of each the lowest bin at the bottom. */
static void draw(uint8_t *p, int columns, const float *x, const int64_t dim[4], scale is)
{
    const int64_t frames = dim[1], bins = dim[3];
    for (int64_t c = 0; c < dim[0]; c++)
        for (int64_t b = 0; b < bins; b++) {
            draw_row(p + (c * bins + bins - 1 - b) * columns, columns, x + c * frames * bins + b,
                     frames, bins, is);
            is.mean = is.mean->next;
            is.std = is.std->next;
        }
}

static int put_latent(vc_buf *json, const cJSON *audio, const vf_view *v, vc_err *err)
{
    if (v->nd != 4 || v->dim[0] < 1 || v->dim[1] < 1 || v->dim[2] != 1 || v->dim[3] < 1 ||
        v->dim[0] > ROWS || v->dim[3] > ROWS / v->dim[0])
        return vc_fail(err, VC_EFORMAT, "%s: a latent of sound, [C,f,1,bins], expected", v->name);
    const int64_t rows = v->dim[0] * v->dim[3];
    const int columns = v->dim[1] < COLUMNS ? (int)v->dim[1] : COLUMNS;
    const size_t n = (size_t)vf_view_count(v), pixels = (size_t)rows * (size_t)columns;
    const scale is = { numbers_of(audio, "mean", rows), numbers_of(audio, "std", rows) };
    if (!is.mean || !is.std)
        return vc_fail(err, VC_EFORMAT, "the manifest's audio_vae has no mean and std of %" PRId64
                       " numbers", rows);
    float *x = malloc(n * sizeof *x);
    uint8_t *p = malloc(pixels);
    if (x && p) {
        vc_to_f32(x, v->data, v->dtype, n);
        draw(p, columns, x, v->dim, is);
        vc_buf_printf(json, "{\"channels\":%" PRId64 ",\"frames\":%" PRId64 ",\"bins\":%" PRId64
                      ",\"columns\":%d,\"pixels\":\"", v->dim[0], v->dim[1], v->dim[3], columns);
        vc_buf_base64(json, p, pixels);
        vc_buf_str(json, "\"}");
    }
    const int rc = x && p ? 0 : vc_no_memory(err);
    free(x);
    free(p);
    return rc;
}

int vlat_put_sound(vc_buf *json, const vf_dataset *d, uint32_t i, const cJSON *record, vc_err *err)
{
    const char *hex = vlat_sound(record);
    const cJSON *m = vf_dataset_manifest(d);
    vf_safetensors *st = NULL;
    vf_view v;
    vf_key key;
    if (!*hex) {
        vc_buf_str(json, "null");
        return 0;
    }
    int rc = vf_key_parse(&key, hex) ? 0 : vc_fail(err, VC_EFORMAT, "32 hex digits expected");
    if (!rc)
        rc = vf_dataset_latent_of(d, i, key, true, &st, err);
    if (!rc && vf_safetensors_get(st, "mean", &v, NULL))
        rc = vf_safetensors_get(st, "sample", &v, err);
    if (!rc)
        rc = put_latent(json, cJSON_GetObjectItemCaseSensitive(m, "audio_vae"), &v, err);
    vf_safetensors_close(st);
    return rc ? vf_dataset_remedy(vf_dataset_path(d), vc_context(err, rc, "sound %s", hex), err)
              : 0;
}
