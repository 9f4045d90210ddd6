/* samples.c - opens the samples that an export writes, with the conditions of image-to-video, as
 * caches of other trainers have them. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/roles.h"
#include "formats/peers/exchange.h"

/* ---- known frames ---- */

/* Opens the sample's value of a role; *st stays NULL if the sample has none. */
static int open_role(vf_safetensors **st, const exchange *x, const exchange_sample *s, vc_role role,
                     vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(s->record, "conditions");
    const char *name = vc_roles[role].name, *hex = vlat_str(list, name);
    vf_key k;
    if (!*hex)
        return 0;
    if (!vf_key_parse(&k, hex))
        return vc_fail(err, VC_EFORMAT, "conditions: %s: 32 hex digits expected", name);
    return vc_context(err, vf_dataset_latent(x->d, k, true, st, err), "conditions: %s", name);
}

/* Makes k->clip of the mask, if `masked`, and of the mean, both on the sample's latent grid. */
static int join(exchange_known *k, const exchange *x, const exchange_sample *s,
                const vf_view *mean, const vf_view *mask, bool masked, vc_err *err)
{
    const int64_t *grid = s->mean.dim + 1, c = mean->dim[0], m = masked ? mask->dim[0] : 0;
    const size_t plane = (size_t)(grid[0] * grid[1] * grid[2]);
    if (mean->nd != 4 || mask->nd != 4 || c != s->mean.dim[0] ||
        memcmp(mean->dim + 1, grid, 3 * sizeof *grid) ||
        memcmp(mask->dim + 1, grid, 3 * sizeof *grid))
        return vc_fail(err, VC_EFORMAT, "conditions: video and mask: the latents' shape expected");
    float *f = k->own = malloc((size_t)(m + c) * plane * sizeof *f);
    if (!f)
        return vc_no_memory(err);
    vc_to_f32(f, mask->data, mask->dtype, (size_t)m * plane);
    f += (size_t)m * plane;
    vc_to_f32(f, mean->data, mean->dtype, (size_t)c * plane);
    for (int i = 0; x->normalized && i < c; i++)
        exchange_normalize(&x->norm, i, f + (size_t)i * plane, plane);
    k->clip = (vf_view){ NULL, VC_F32, 4, { m + c, grid[0], grid[1], grid[2] }, k->own,
                         4 * (size_t)(m + c) * plane };
    return 0;
}

int exchange_known_open(exchange_known *k, exchange *x, const exchange_sample *s, bool masked,
                        vc_err *err)
{
    vf_view mean, mask;
    *k = (exchange_known){ .own = NULL };
    if (strcmp(vlat_str(x->manifest, "train_mode"), vc_mode_names[VC_MODE_I2V]))
        return 0;
    int rc = open_role(&k->st[0], x, s, VC_ROLE_VIDEO, err);
    if (!rc)
        rc = open_role(&k->st[1], x, s, VC_ROLE_MASK, err);
    if (rc || !k->st[0] || !k->st[1])
        return rc;
    if (vf_safetensors_get(k->st[0], "mean", &mean, NULL))
        rc = vf_safetensors_get(k->st[0], "sample", &mean, err);
    if (!rc)
        rc = vf_safetensors_get(k->st[1], "mask", &mask, err);
    if (!rc)
        rc = join(k, x, s, &mean, &mask, masked, err);
    if (!rc)
        rc = open_role(&k->st[2], x, s, VC_ROLE_VISION, err);
    if (!rc && k->st[2])
        rc = vf_safetensors_get(k->st[2], "image_embeds", &k->vision, err);
    if (!rc && k->st[2] && k->vision.nd != 2)
        rc = vc_fail(err, VC_EFORMAT, "conditions: vision: [n,D] expected");
    if (!rc)
        x->no_conditions -= k->st[2] ? 3 : 2;
    return rc;
}

void exchange_known_close(exchange_known *k)
{
    for (int i = 0; i < 3; i++)
        vf_safetensors_close(k->st[i]);
    free(k->own);
}

/* ---- reference pictures ---- */

bool exchange_edits(const exchange *x)
{
    return !strcmp(vlat_str(x->manifest, "train_mode"), vc_mode_names[VC_MODE_EDIT]);
}

/* Reads reference k of a sample that has the value st. */
static int read_reference(exchange_references *r, int k, const exchange *x,
                          const exchange_sample *s, const vf_safetensors *st, vc_err *err)
{
    exchange_sample as = *s;
    vf_view *v = &as.mean;
    int rc = vf_safetensors_get(st, "mean", v, NULL) ? vf_safetensors_get(st, "sample", v, err) : 0;
    if (!rc && (v->nd != 4 || v->dim[0] != x->norm.channels || v->dim[1] != 1))
        rc = vc_fail(err, VC_EFORMAT, "[%d,1,h,w] expected", x->norm.channels);
    if (!rc)
        rc = exchange_latent_f32(x, &as, &r->own[k], err);
    r->view[k] = (vf_view){ NULL, VC_F32, 4, { v->dim[0], 1, v->dim[2], v->dim[3] }, r->own[k],
                            4 * (rc ? 0 : (size_t)vf_view_count(v)) };
    return vc_context(err, rc, "conditions: %s", vc_roles[VC_ROLE_REFERENCE + k].name);
}

int exchange_references_open(exchange_references *r, exchange *x, const exchange_sample *s,
                             vc_err *err)
{
    int rc = 0;
    *r = (exchange_references){ .n = 0 };
    for (int k = 0; !rc && k < VC_REFERENCES && exchange_edits(x); k++) {
        vf_safetensors *st = NULL;
        rc = open_role(&st, x, s, VC_ROLE_REFERENCE + k, err);
        if (rc || !st)
            break;
        rc = read_reference(r, k, x, s, st, err);
        vf_safetensors_close(st);
        r->n = k + 1;
    }
    x->no_conditions -= rc ? 0 : (uint64_t)r->n;
    return rc;
}

void exchange_references_close(exchange_references *r)
{
    for (int k = 0; k < VC_REFERENCES; k++)
        free(r->own[k]);
}

/* ---- samples ---- */

static int open_text(exchange_sample *s, const vf_dataset *d, int i, const cJSON *hex, vc_err *err)
{
    vf_key k;
    if (i >= EXCHANGE_TEXTS || !cJSON_IsString(hex) || !vf_key_parse(&k, hex->valuestring))
        return vf_dataset_remedy(vf_dataset_path(d),
                                 vc_fail(err, VC_EFORMAT, "text key %d: 32 hex digits expected",
                                         i), err);
    int rc = vf_dataset_text(d, k, true, &s->st[1 + i], err);
    if (rc)
        return rc;
    vf_safetensors_get(s->st[1 + i], "prompt_embeds", &s->text[i].embeds, NULL);
    vf_safetensors_get(s->st[1 + i], "pooled", &s->text[i].pooled, NULL);
    if (s->text[i].embeds.data && s->text[i].embeds.nd != 2)
        return vc_fail(err, VC_EFORMAT, "prompt_embeds: [n,D] expected");
    s->n_text = i + 1;
    return 0;
}

static int open_latent(exchange_sample *s, const vf_dataset *d, int channels, vc_err *err)
{
    int rc = vf_dataset_latent_of(d, s->i, s->e->latent, true, &s->st[0], err);
    if (rc)
        return rc;
    s->drawn = vf_safetensors_get(s->st[0], "mean", &s->mean, NULL) != 0;
    if (s->drawn && (rc = vf_safetensors_get(s->st[0], "sample", &s->mean, err)))
        return rc;
    vf_safetensors_get(s->st[0], "logvar", &s->logvar, NULL);
    if (s->mean.nd != 4 || s->mean.dim[0] != channels ||
        (s->logvar.data && (s->logvar.nd != 4 ||
                            (s->logvar.dim[0] != 1 && s->logvar.dim[0] != s->mean.dim[0]) ||
                            memcmp(s->logvar.dim + 1, s->mean.dim + 1, 3 * sizeof *s->mean.dim))))
        return vc_fail(err, VC_EFORMAT, "latents: [%d,f,h,w] expected", channels);
    return 0;
}

static void close_sample(exchange_sample *s)
{
    for (int i = 0; i < 1 + EXCHANGE_TEXTS; i++)
        vf_safetensors_close(s->st[i]);
}

static int open_sample(exchange *x, exchange_sample *s, const cJSON *record, vc_err *err)
{
    const cJSON *captions = cJSON_GetObjectItemCaseSensitive(record, "captions");
    const cJSON *first = cJSON_IsArray(captions) ? captions->child : NULL, *hex;
    int i = 0, rc = open_latent(s, x->d, x->norm.channels, err);
    s->record = record;
    s->caption = vlat_str(first, "text");
    cJSON_ArrayForEach(hex, cJSON_GetObjectItemCaseSensitive(first, "keys"))
        rc = rc ? rc : open_text(s, x->d, i++, hex, err);
    if (first && first->next)
        x->no_captions += (uint64_t)cJSON_GetArraySize(captions) - 1;
    x->no_conditions +=
        (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(record, "conditions"));
    return rc;
}

int exchange_of_sample(const exchange *x, uint32_t i, int rc, vc_err *err)
{
    const vf_entry *e = vf_dataset_entry(x->d, i);
    char key[24];
    return vc_context(err, rc, "sample %s", vf_sample_key(key, e->number, e->variant));
}

int exchange_each(exchange *x,
                  int (*fn)(exchange *x, const exchange_sample *s, void *arg, vc_err *err),
                  void *arg, vc_err *err)
{
    uint32_t n = vf_dataset_count(x->d);
    int rc = 0;
    vc_progress_begin(x->v->progress, "exporting", "samples", n);
    for (uint32_t i = 0; !rc && i < n; i++) {
        exchange_sample s = { .i = i, .e = vf_dataset_entry(x->d, i) };
        cJSON *record;
        rc = vf_dataset_sample(x->d, i, &record, err);
        if (!rc)
            rc = open_sample(x, &s, record, err);
        if (!rc)
            rc = fn(x, &s, arg, err);
        rc = exchange_of_sample(x, i, rc, err);
        close_sample(&s);
        cJSON_Delete(record);
        if (!rc)
            rc = exchange_stopped(err);
        vc_progress_at(x->v->progress, i + 1u, NULL);
    }
    vc_progress_end(x->v->progress);
    return rc;
}

char *exchange_name(vf_keymap *names, const exchange_sample *s, vc_err *err)
{
    const char *base = vc_path_base(vlat_str(s->record, "path")), *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    char *name = n && n < 200 ? vc_format("%.*s", n, base) : vc_format("sample");
    for (int tries = 0; name && vf_keymap_get(names, vf_hash(name, strlen(name)), NULL); tries++) {
        char *next = tries ? vc_format("%s-", name)
                           : vc_format("%.*s-%06" PRIu32 "-%03u", n && n < 200 ? n : 6,
                                       n && n < 200 ? base : "sample", s->e->number,
                                       (unsigned)s->e->variant);
        free(name);
        name = next;
    }
    if (!name || vf_keymap_put(names, vf_hash(name, strlen(name)), 0, err)) {
        free(name);
        vc_no_memory(err);
        return NULL;
    }
    return name;
}
