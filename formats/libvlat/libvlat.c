/* libvlat.c - the public functions of libvlat on top of formats/dataset. See vlat.h
 *
 * Codes and types of the library have the numbers of those inside, so they are passed on as they
 * are. */
#include "formats/libvlat/vlat.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/dataset.h"

#define SAME(ours, inside) _Static_assert((int)(ours) == (int)(inside), #ours " is " #inside)
SAME(VLAT_EFAIL, VC_EFAIL);
SAME(VLAT_ENOMEM, VC_ENOMEM);
SAME(VLAT_EIO, VC_EIO);
SAME(VLAT_EFORMAT, VC_EFORMAT);
SAME(VLAT_ENOENT, VC_ENOENT);
SAME(VLAT_EINVAL, VC_EINVAL);
SAME(VLAT_ESTOP, VC_ESTOP);
SAME(VLAT_F32, VC_F32);
SAME(VLAT_F64, VC_F64);
SAME(VLAT_I64, VC_I64);
SAME(VLAT_BOOL, VC_BOOL);
SAME(VLAT_KEY, VF_KEY_HEX);
SAME(VLAT_DIMS, VF_MAX_DIMS);
SAME(sizeof ((vlat_error *)0)->text, sizeof ((vc_err *)0)->text);

struct vlat_dataset {
    vf_dataset *d;
    char *manifest;
};

struct vlat_record {
    cJSON *json;
    const char *text;                        /* the same as stored, in the map */
    size_t n;
};

struct vlat_value {
    vf_safetensors *st;
};

/* Copies a failure to the caller's error and returns its code. Codes without a name in vlat.h
 * become the nearest one that has a name. */
static int report(vlat_error *err, int rc, const vc_err *e)
{
    if (rc == VC_ETORN)
        rc = VLAT_EIO;
    else if (rc && rc < VC_EINVAL && rc != VC_ESTOP)
        rc = VLAT_EFAIL;
    if (err) {
        err->code = rc;
        err->text[0] = 0;
        if (rc)
            memcpy(err->text, e->text, sizeof err->text);
    }
    return rc;
}

static int no_memory(vlat_error *err)
{
    vc_err e = { 0 };
    return report(err, vc_no_memory(&e), &e);
}

/* Copies a struct of `have` bytes to the caller's struct of `size` bytes; bytes that this version
 * does not know become 0. */
static void hand_out(void *to, size_t size, const void *from, size_t have)
{
    memset(to, 0, size);
    memcpy(to, from, size < have ? size : have);
}

const char *vlat_version(void)
{
    return VLT_VERSION;
}

/* ---- datasets ---- */

int vlat_dataset_open(vlat_dataset **out, const char *path, vlat_error *err)
{
    vc_err e = { 0 };
    vlat_dataset *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return no_memory(err);
    int rc = vf_dataset_open(&d->d, path, false, &e);
    if (!rc && !(d->manifest = cJSON_PrintUnformatted(vf_dataset_manifest(d->d))))
        rc = vc_no_memory(&e);
    if (rc)
        vlat_dataset_close(&d);
    *out = d;
    return report(err, rc, &e);
}

void vlat_dataset_close(vlat_dataset **d)
{
    if (!d || !*d)
        return;
    vf_dataset_close((*d)->d);
    cJSON_free((*d)->manifest);
    free(*d);
    *d = NULL;
}

const char *vlat_dataset_manifest(const vlat_dataset *d)
{
    return d->manifest;
}

uint32_t vlat_dataset_count(const vlat_dataset *d)
{
    return vf_dataset_count(d->d);
}

static int check_index(const vlat_dataset *d, uint32_t i, vc_err *err)
{
    uint32_t n = vf_dataset_count(d->d);
    return i < n ? 0 : vc_fail(err, VC_EINVAL, "%s: sample %u of %u", vf_dataset_path(d->d),
                               (unsigned)i, (unsigned)n);
}

int vlat_dataset_sample(const vlat_dataset *d, uint32_t i, vlat_sample *s, size_t size,
                        vlat_error *err)
{
    vc_err e = { 0 };
    int rc = check_index(d, i, &e);
    if (!rc) {
        const vf_entry *x = vf_dataset_entry(d->d, i);
        vlat_sample known = {
            .number = x->number, .variant = x->variant, .video = x->flags & VF_ENTRY_VIDEO,
            .f = x->f, .h = x->h, .w = x->w, .tokens = x->tokens, .frames = x->frames,
            .captions = x->captions, .weight = x->weight, .fps = x->fps,
        };
        vf_key_hex(known.latent, x->latent);
        hand_out(s, size, &known, sizeof known);
    }
    return report(err, rc, &e);
}

int vlat_dataset_find(const vlat_dataset *d, uint32_t number, uint32_t variant, uint32_t *i,
                      vlat_error *err)
{
    vc_err e = { 0 };
    char key[64];
    snprintf(key, sizeof key, "%u/%u", (unsigned)number, (unsigned)variant);
    return report(err, vf_dataset_find(d->d, key, i, &e), &e);
}

int vlat_dataset_thumb(const vlat_dataset *d, uint32_t i, const void **jpeg, size_t *n,
                       vlat_error *err)
{
    vc_err e = { 0 };
    *jpeg = NULL;
    *n = 0;
    int rc = check_index(d, i, &e);
    if (!rc)
        rc = vf_dataset_thumb(d->d, i, jpeg, n, &e);
    return report(err, rc, &e);
}

/* ---- verification ---- */

typedef struct listener {
    int (*found)(void *arg, const char *where, const char *fault);
    void *arg;
    atomic_int stop;
} listener;

static void pass_on(void *arg, const char *where, const char *fault)
{
    listener *l = arg;
    if (!atomic_load(&l->stop) && l->found(l->arg, where, fault))
        atomic_store(&l->stop, 1);
}

int vlat_dataset_verify(const char *path,
                        int (*found)(void *arg, const char *where, const char *fault), void *arg,
                        vlat_error *err)
{
    vc_err e = { 0 };
    vf_verify_report counts = { 0 };
    listener l = { .found = found, .arg = arg };
    int rc = vf_verify(path, pass_on, &l, &l.stop, &counts, &e);
    if (!rc && atomic_load(&l.stop))         /* the last finding stopped the check */
        rc = vc_fail(&e, VC_ESTOP, "%s: stopped", path);
    return report(err, rc, &e);
}

/* ---- records ---- */

int vlat_record_open(vlat_record **out, const vlat_dataset *d, uint32_t i, vlat_error *err)
{
    vc_err e = { 0 };
    const void *text = NULL;
    vlat_record *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return no_memory(err);
    int rc = check_index(d, i, &e);
    if (!rc)
        rc = vf_dataset_sample(d->d, i, &r->json, &e);
    if (!rc)
        rc = vf_dataset_record(d->d, i, &text, &r->n, &e);
    r->text = text;
    if (rc)
        vlat_record_close(&r);
    *out = r;
    return report(err, rc, &e);
}

void vlat_record_close(vlat_record **r)
{
    if (!r || !*r)
        return;
    cJSON_Delete((*r)->json);
    free(*r);
    *r = NULL;
}

const char *vlat_record_json(const vlat_record *r, size_t *n)
{
    *n = r->n;
    return r->text;
}

/* Returns element i of the array `field` of o, or NULL. */
static const cJSON *element(const cJSON *o, const char *field, uint32_t i)
{
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(o, field);
    return cJSON_IsArray(a) && i <= INT32_MAX ? cJSON_GetArrayItem(a, (int)i) : NULL;
}

static const char *key_text(const cJSON *o)
{
    vf_key k;
    const char *s = cJSON_GetStringValue(o);
    return s && vf_key_parse(&k, s) ? s : NULL;
}

const char *vlat_record_caption(const vlat_record *r, uint32_t c)
{
    const cJSON *caption = element(r->json, "captions", c);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(caption, "text"));
}

const char *vlat_record_text(const vlat_record *r, uint32_t c, uint32_t encoder)
{
    return key_text(element(element(r->json, "captions", c), "keys", encoder));
}

const char *vlat_record_condition(const vlat_record *r, const char *role)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(r->json, "conditions");
    return key_text(cJSON_GetObjectItemCaseSensitive(all, role));
}

/* ---- values ---- */

int vlat_value_open(vlat_value **out, const vlat_dataset *d, int kind, const char *key, int flags,
                    vlat_error *err)
{
    vc_err e = { 0 };
    vf_key k;
    int rc = 0;
    *out = NULL;
    if (!key || !vf_key_parse(&k, key))
        rc = vc_fail(&e, VC_EINVAL, "\"%s\": a key has 32 lower-case hex digits", key ? key : "");
    else if ((kind != VLAT_LATENT && kind != VLAT_TEXT) || flags & ~VLAT_CHECK)
        rc = vc_fail(&e, VC_EINVAL, "kind %d, flags %d: unknown", kind, flags);
    if (rc)
        return report(err, rc, &e);
    vlat_value *v = calloc(1, sizeof *v);
    if (!v)
        return no_memory(err);
    rc = (kind == VLAT_TEXT ? vf_dataset_text : vf_dataset_latent)(d->d, k, flags & VLAT_CHECK,
                                                                   &v->st, &e);
    if (rc)
        vlat_value_close(&v);
    *out = v;
    return report(err, rc, &e);
}

void vlat_value_close(vlat_value **v)
{
    if (!v || !*v)
        return;
    vf_safetensors_close((*v)->st);
    free(*v);
    *v = NULL;
}

int vlat_value_count(const vlat_value *v)
{
    return vf_safetensors_count(v->st);
}

static void fill_tensor(vlat_tensor *t, size_t size, const vf_view *v)
{
    vlat_tensor known = { .name = v->name, .data = v->data, .bytes = v->bytes,
                          .dtype = (int32_t)v->dtype, .nd = v->nd };
    memcpy(known.dim, v->dim, (size_t)v->nd * sizeof *v->dim);
    hand_out(t, size, &known, sizeof known);
}

int vlat_value_at(const vlat_value *v, int i, vlat_tensor *t, size_t size, vlat_error *err)
{
    vc_err e = { 0 };
    int n = vf_safetensors_count(v->st), rc = 0;
    if (i < 0 || i >= n)
        rc = vc_fail(&e, VC_EINVAL, "tensor %d of %d", i, n);
    else
        fill_tensor(t, size, vf_safetensors_at(v->st, i));
    return report(err, rc, &e);
}

int vlat_value_get(const vlat_value *v, const char *name, vlat_tensor *t, size_t size,
                   vlat_error *err)
{
    vc_err e = { 0 };
    vf_view view;
    int rc = vf_safetensors_get(v->st, name, &view, &e);
    if (!rc)
        fill_tensor(t, size, &view);
    return report(err, rc, &e);
}

int vlat_tensor_f32(const vlat_tensor *t, uint64_t first, uint64_t n, float *to, vlat_error *err)
{
    vc_err e = { 0 };
    int rc = 0;
    const bool known = t->dtype >= 0 && t->dtype < (int)VC_FILE_DTYPES;
    size_t size = known ? vc_dtype_size((vc_dtype)t->dtype) : 0;
    uint64_t count = size ? t->bytes / size : 0;
    vf_view view = { .dtype = (vc_dtype)t->dtype, .data = t->data };
    if (first > count || n > count - first)
        rc = vc_fail(&e, VC_EINVAL, "%s: elements from %llu on, %llu of them, of %llu", t->name,
                     (unsigned long long)first, (unsigned long long)n, (unsigned long long)count);
    else
        vf_view_f32(to, &view, first, n);
    return report(err, rc, &e);
}
