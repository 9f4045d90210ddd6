/* texts.c - vlat import --texts: gets text embeddings by caption from a dataset, for caches that
 * have no embeddings or those of other encoders. See exchange_parts.h */
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/parts.h"
#include "formats/peers/exchange_parts.h"

struct exchange_texts {
    vf_dataset *d;
    vf_keymap captions;                      /* text -> sample << 16 | number of the caption */
};

static const cJSON *captions_of(const cJSON *record)
{
    return cJSON_GetObjectItemCaseSensitive(record, "captions");
}

static int index_captions(exchange_texts *t, vc_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(t->d); i++) {
        cJSON *record;
        uint64_t at = 0;
        rc = vf_dataset_sample(t->d, i, &record, err);
        const cJSON *list = captions_of(record), *c;     /* NULL if record is NULL */
        cJSON_ArrayForEach(c, list) {
            const char *text = vlat_str(c, "text");
            vf_key k = vf_hash(text, strlen(text));
            if (!rc && at < 1 << 16 && !vf_keymap_get(&t->captions, k, NULL))
                rc = vf_keymap_put(&t->captions, k, (uint64_t)i << 16 | at, err);
            at++;
        }
        cJSON_Delete(record);
        if (!rc)
            rc = exchange_stopped(err);
    }
    return rc;
}

int exchange_texts_open(exchange_texts **out, const char *path, const vc_family *family,
                        vc_err *err)
{
    *out = NULL;
    exchange_texts *t = calloc(1, sizeof *t);
    int rc = t ? vf_dataset_open(&t->d, path, false, err)
               : vc_no_memory(err);
    const char *has = rc ? "" : vlat_str(vf_dataset_manifest(t->d), "family");
    if (!rc && !exchange_family_same_texts(has, family))
        rc = vc_fail(err, VC_EMISMATCH,
                     "--texts %s: of family %.60s, what is imported is of %s, which "
                     "has other text encoders", path, has, family->name);
    if (!rc)
        rc = index_captions(t, err);
    if (rc)
        exchange_texts_close(t);
    else
        *out = t;
    return rc;
}

static int copy_text(const exchange_texts *t, vf_writer *w, const vf_ref *ref, vc_err *err)
{
    const vf_key k = ref->key;
    const void *data;
    size_t n;
    char hex[VF_KEY_HEX];
    if (!ref->valid)
        return vf_dataset_remedy(
            vf_dataset_path(t->d),
            vc_fail(err, VC_EFORMAT, "--texts: a text's key: 32 hex digits expected"), err);
    if (vf_writer_has_text(w, k))
        return 0;
    vf_safetensors *st = NULL;
    int rc = vf_dataset_bytes(t->d, true, k, &data, &n, err);
    if (!rc)
        rc = vf_safetensors_parse(&st, data, n, err);
    if (!rc)
        rc = vc_context(err, exchange_check_value(true, st, err), "--texts %s: text %s",
                        vf_dataset_path(t->d), vf_key_hex(hex, k));
    vf_safetensors_close(st);
    return rc ? rc : vf_writer_put_text(w, k, data, n, err);
}

/* Copies the texts of a list, which it frees; rc is the error of its making. */
static int copy_texts(const exchange_texts *t, vf_writer *w, vf_refs *refs, int rc, vc_err *err)
{
    for (int i = 0; !rc && i < refs->n; i++)
        rc = copy_text(t, w, &refs->item[i], err);
    free(refs->item);
    return rc;
}

const cJSON *exchange_texts_encoders(const exchange_texts *t)
{
    return cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(t->d), "text_encoders");
}

const char *exchange_texts_root(const exchange_texts *t)
{
    return vlat_str(vf_dataset_manifest(t->d), "root");
}

int exchange_texts_empty(const exchange_texts *t, vf_writer *w, vc_err *err)
{
    vf_refs refs = { .n = 0 };
    int rc = vf_manifest_refs(&refs, vf_dataset_manifest(t->d), err);
    return copy_texts(t, w, &refs, rc, err);
}

int exchange_texts_put(const exchange_texts *t, vf_writer *w, const char *caption, cJSON **keys,
                       vc_err *err)
{
    uint64_t at;
    cJSON *record;
    vf_refs refs = { .n = 0 };
    *keys = NULL;
    if (!vf_keymap_get(&t->captions, vf_hash(caption, strlen(caption)), &at))
        return vc_fail(err, VC_ENOENT, "no sample of --texts has the caption \"%.200s\"", caption);
    int rc = vf_dataset_sample(t->d, (uint32_t)(at >> 16), &record, err);
    if (rc)
        return rc;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetArrayItem(captions_of(record), (int)(at & 0xffff)), "keys");
    rc = copy_texts(t, w, &refs, vf_refs_of(&refs, list, true, err), err);
    if (!rc && !(*keys = cJSON_Duplicate(list, true)))
        rc = vc_no_memory(err);
    cJSON_Delete(record);
    return rc;
}

void exchange_texts_close(exchange_texts *t)
{
    if (!t)
        return;
    vf_dataset_close(t->d);
    vf_keymap_free(&t->captions);
    free(t);
}
