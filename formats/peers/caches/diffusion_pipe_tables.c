/* diffusion_pipe_tables.c - see diffusion_pipe_tables.h */
#include "formats/peers/caches/diffusion_pipe_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/arrow.h"
#include "formats/peers/tensor_cache.h"

const char **dpipe_captions(const cJSON *record, int *n, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "captions"), *c;
    const char **text = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *text);
    *n = 0;
    if (!text) {
        vc_no_memory(err);
        return NULL;
    }
    cJSON_ArrayForEach(c, list)
        text[(*n)++] = vlat_str(c, "text");
    if (!*n)
        text[(*n)++] = "";
    return text;
}

enum { SPEC };                               /* the first column of both tables */
enum { CAPTIONS = 1, IS_VIDEO };
static const vf_arrow_field metadata_fields[] = {
    { "image_spec", VF_ARROW_LIST }, { "caption", VF_ARROW_LIST }, { "is_video", VF_ARROW_BOOL },
};
enum { LATENTS_IDX = 1, CAPTION, CAPTION_NUMBER };
static const vf_arrow_field order_fields[] = {
    { "image_spec", VF_ARROW_LIST }, { "latents_idx", VF_ARROW_INT64 },
    { "caption", VF_ARROW_UTF8 }, { "caption_number", VF_ARROW_INT64 },
};

/* A caption of a member. */
typedef struct trained_caption {
    uint64_t random;
    uint32_t member;
    int number;
} trained_caption;

/* Sorts first captions before second ones, each in a random order that is always the same. */
static int by_training_order(const void *a, const void *b)
{
    const trained_caption *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->random != y->random)
        return x->random < y->random ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

static int order_of(const dpipe_bucket *b, trained_caption **out, size_t *n, vc_err *err)
{
    *n = 0;
    for (size_t i = 0; i < b->n; i++)
        *n += (size_t)b->member[i].captions;
    trained_caption *t = *out = malloc((*n + 1) * sizeof *t);
    if (!t)
        return vc_no_memory(err);
    for (size_t i = 0; i < b->n; i++)
        for (int c = 0; c < b->member[i].captions; c++, t++) {
            *t = (trained_caption){ .member = (uint32_t)i, .number = c };
            vf_key k = vf_hash2(&b->member[i].sample, sizeof b->member[i].sample, &c, sizeof c);
            memcpy(&t->random, k.b, sizeof t->random);
        }
    qsort(*out, *n, sizeof **out, by_training_order);
    return 0;
}

static void put_spec(vf_arrow *a, const exchange *x, uint32_t sample, const cJSON *record)
{
    char key[24];
    const vf_entry *e = vf_dataset_entry(x->d, sample);
    vf_arrow_text(a, SPEC, vf_sample_key(key, e->number, e->variant));
    vf_arrow_text(a, SPEC, vlat_str(record, "path"));
}

/* Puts the row of caption t, or, if t is NULL, the row of member i with all its captions. */
static int put_row(vf_arrow *a, const exchange *x, const dpipe_bucket *b, size_t i,
                   const trained_caption *t, vc_err *err)
{
    cJSON *record = NULL;
    int n, rc = vf_dataset_sample(x->d, b->member[i].sample, &record, err);
    const char **caption = rc ? NULL : dpipe_captions(record, &n, err);
    if (!rc && !caption)
        rc = VC_ENOMEM;
    if (!rc) {
        put_spec(a, x, b->member[i].sample, record);
        if (t) {
            vf_arrow_int(a, LATENTS_IDX, (int64_t)i);
            vf_arrow_text(a, CAPTION, caption[t->number]);
            vf_arrow_int(a, CAPTION_NUMBER, t->number);
        } else {
            for (int c = 0; c < n; c++)
                vf_arrow_text(a, CAPTIONS, caption[c]);
            vf_arrow_int(a, IS_VIDEO, b->frames > 1);
        }
        rc = vf_arrow_row(a, err);
    }
    free(caption);
    cJSON_Delete(record);
    return rc ? rc : exchange_stopped(err);
}

/* Writes the files that `datasets` needs beside a table; the fingerprint identifies the table. */
static int write_state(const exchange *x, const char *dir, vc_err *err)
{
    char text[400], hex[VF_KEY_HEX];
    const char *root = vlat_str(x->manifest, "root"), *within = dir + strlen(x->dir);
    vf_key_hex(hex, vf_hash2(root, strlen(root), within, strlen(within)));
    int n = snprintf(text, sizeof text,
                     "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}], "
                     "\"_fingerprint\": \"%s\", \"_format_columns\": null, \"_format_kwargs\": {}, "
                     "\"_format_type\": null, \"_output_all_columns\": false, \"_split\": null}\n",
                     hex);
    int rc = exchange_write(dir, "state.json", text, (size_t)n, err);
    return rc ? rc : exchange_write(dir, "dataset_info.json", "{}\n", 3, err);
}

/* Writes a table of n rows: a row a caption, or, if t is NULL, a row a member. */
static int write_table(const exchange *x, const dpipe_bucket *b, const char *dir,
                       const trained_caption *t, size_t n, vc_err *err)
{
    char *path = vc_path_join(dir, "data-00000-of-00001.arrow");
    vf_arrow *a = NULL;
    int rc = path ? vc_mkdirs(dir, err) : vc_no_memory(err);
    if (!rc)
        rc = t ? vf_arrow_open(&a, path, order_fields, 4, err)
               : vf_arrow_open(&a, path, metadata_fields, 3, err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = put_row(a, x, b, t ? t[i].member : i, t ? &t[i] : NULL, err);
    if (!rc)
        rc = vf_arrow_finish(a, err);
    if (!rc)
        rc = write_state(x, dir, err);
    vf_arrow_close(a);
    free(path);
    return rc;
}

int dpipe_write_tables(const exchange *x, const dpipe_bucket *b, vc_err *err)
{
    double ar = (double)b->w / (double)b->h;
    char key[64];
    int n = snprintf(key, sizeof key, "[[%.17g, %" PRId64 "]]", ar, b->frames);
    char *latents = vc_path_join(b->cache, "latents");
    char *order = vc_path_join(b->cache, "iteration_order");
    char *metadata = vc_format("%s/metadata/grouped_metadata_%.3f_%" PRId64, b->dir, ar, b->frames);
    trained_caption *t = NULL;
    size_t captions;
    int rc = latents && order && metadata ? vf_tensor_cache_index(latents, b->size, b->n, err)
                                          : vc_no_memory(err);
    if (!rc)
        rc = write_table(x, b, metadata, NULL, b->n, err);
    if (!rc)
        rc = order_of(b, &t, &captions, err);
    if (!rc)
        rc = write_table(x, b, order, t, captions, err);
    if (!rc)
        rc = exchange_write(b->dir, "metadata/grouping_keys.json", key, (size_t)n, err);
    if (!rc)
        rc = exchange_write_note(x, b->dir, "metadata/" EXCHANGE_NOTE, (uint32_t)b->n, err);
    free(t);
    free(metadata);
    free(order);
    free(latents);
    return rc;
}
