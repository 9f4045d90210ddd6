/* texts.c - vlat import --texts: gets text embeddings by caption from a dataset, for caches that
 * have no embeddings or those of other encoders. See exchange_parts.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/parts.h"
#include "formats/peers/exchange_parts.h"

/* Captions are found by hash(caption), and by hash(stem of the path, caption). Captions of one key
 * whose texts differ, as those of models whose texts depend on pictures do, are ambiguous. */
struct exchange_texts {
    vf_dataset *d;
    vf_keymap captions;                      /* key -> sample << 16 | number of the caption */
    vf_keymap texts;                         /* key -> a hash of the first one's texts, below
                                              * 2^63 */
    vf_keymap ambiguous;
};

static const cJSON *captions_of(const cJSON *record)
{
    return cJSON_GetObjectItemCaseSensitive(record, "captions");
}

/* The key of a caption of a medium; false: the path, of a file that holds a sample, names none. */
static bool placed_key(vf_key *k, const char *path, const char *caption)
{
    const char *base = vc_path_base(path), *dot = strrchr(base, '.');
    if (dot && (!strcmp(dot, ".pth") || !strcmp(dot, ".pt")))
        return false;
    const vf_key stem = vf_hash(base, dot ? (size_t)(dot - base) : strlen(base));
    *k = vf_hash2(&stem, sizeof stem, caption, strlen(caption));
    return true;
}

static int note_caption(exchange_texts *t, vf_key k, uint64_t at, uint64_t texts, vc_err *err)
{
    uint64_t first;
    if (vf_keymap_get(&t->texts, k, &first))
        return first == texts ? 0 : vf_keymap_put(&t->ambiguous, k, 0, err);
    int rc = vf_keymap_put(&t->captions, k, at, err);
    return rc ? rc : vf_keymap_put(&t->texts, k, texts, err);
}

/* A hash of the keys of a caption's texts. */
static int hash_texts(uint64_t *out, const cJSON *caption, vc_err *err)
{
    char *line = vf_json_line(cJSON_GetObjectItemCaseSensitive(caption, "keys"));
    if (!line)
        return vc_no_memory(err);
    const vf_key k = vf_hash(line, strlen(line));
    memcpy(out, k.b, sizeof *out);
    *out >>= 1;
    free(line);
    return 0;
}

static int index_record(exchange_texts *t, uint32_t i, const cJSON *record, vc_err *err)
{
    const cJSON *list = captions_of(record), *c;
    uint64_t at = 0, texts = 0;
    int rc = 0;
    cJSON_ArrayForEach(c, list) {
        const char *text = vlat_str(c, "text");
        vf_key placed;
        if (rc || at >= 1 << 16)
            break;
        rc = hash_texts(&texts, c, err);
        if (!rc)
            rc = note_caption(t, vf_hash(text, strlen(text)), (uint64_t)i << 16 | at, texts, err);
        if (!rc && placed_key(&placed, vlat_str(record, "path"), text))
            rc = note_caption(t, placed, (uint64_t)i << 16 | at, texts, err);
        at++;
    }
    return rc;
}

static int index_captions(exchange_texts *t, vc_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(t->d); i++) {
        cJSON *record;
        rc = vf_dataset_sample(t->d, i, &record, err);
        if (!rc)
            rc = index_record(t, i, record, err);
        cJSON_Delete(record);
        if (!rc)
            rc = exchange_stopped(err);
    }
    return rc;
}

/* Finds the caption of a medium, else the only one of this text. */
static int find_caption(const exchange_texts *t, const char *path, const char *caption,
                        uint64_t *at, vc_err *err)
{
    vf_key k;
    if (placed_key(&k, path, caption) && !vf_keymap_get(&t->ambiguous, k, NULL) &&
        vf_keymap_get(&t->captions, k, at))
        return 0;
    k = vf_hash(caption, strlen(caption));
    if (!vf_keymap_get(&t->captions, k, at))
        return vc_fail(err, VC_ENOENT, "no sample of --texts has the caption \"%.200s\"", caption);
    if (vf_keymap_get(&t->ambiguous, k, NULL))
        return vc_fail(err, VC_EMISMATCH, "several samples of --texts have the caption \"%.200s\" "
                       "with texts of other pictures, and none of them has this sample's name: "
                       "give a dataset of media with these names, or leave --texts out", caption);
    return 0;
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

/* Copies the texts of a list of keys; *keys: a copy of the list, NULL where there is none. */
static int put_list(const exchange_texts *t, vf_writer *w, const cJSON *list, cJSON **keys,
                    vc_err *err)
{
    vf_refs refs = { .n = 0 };
    *keys = NULL;
    if (!list || cJSON_IsNull(list))
        return 0;
    int rc = copy_texts(t, w, &refs, vf_refs_of(&refs, list, true, err), err);
    if (!rc && !(*keys = cJSON_Duplicate(list, true)))
        rc = vc_no_memory(err);
    return rc;
}

int exchange_texts_put(const exchange_texts *t, vf_writer *w, const char *path,
                       const char *caption, cJSON **keys, cJSON **empty, vc_err *err)
{
    uint64_t at;
    cJSON *record;
    *keys = *empty = NULL;
    int rc = find_caption(t, path, caption, &at, err);
    if (!rc)
        rc = vf_dataset_sample(t->d, (uint32_t)(at >> 16), &record, err);
    if (rc)
        return rc;
    const cJSON *of = cJSON_GetArrayItem(captions_of(record), (int)(at & 0xffff));
    rc = put_list(t, w, cJSON_GetObjectItemCaseSensitive(of, "keys"), keys, err);
    if (!rc)
        rc = put_list(t, w, cJSON_GetObjectItemCaseSensitive(record, "empty"), empty, err);
    cJSON_Delete(record);
    return rc;
}

void exchange_texts_close(exchange_texts *t)
{
    if (!t)
        return;
    vf_dataset_close(t->d);
    vf_keymap_free(&t->captions);
    vf_keymap_free(&t->texts);
    vf_keymap_free(&t->ambiguous);
    free(t);
}
