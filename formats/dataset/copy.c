/* copy.c - copies samples of datasets into a new one. See copy.h */
#include "formats/dataset/copy.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/record.h"
#include "formats/keys/keymap.h"

#define DEFAULT_SHARD ((int64_t)4 << 30)

/* Bytes that are copied before the source's pages are released. */
#define RELEASE_EVERY ((uint64_t)64 << 20)

struct vf_copy {
    vf_writer *w;
    vf_keymap prompts;                       /* hashes of the prompts that the copy has */
    uint32_t n_prompts;
    vf_parsed record;                        /* the sample that is being copied */
    vf_refs listed;
    uint64_t copied;                         /* bytes since the last release */
    bool damage;                             /* the last failure came from a damaged source */
};

static const char *const alike[] = {
    "vae", "audio_vae", "text_encoders", "latent_store", "dtype", NULL
};

/* The colour of masked pixels that a manifest says, which is not the family's; "": it is. */
static const char *masked_of(const vf_dataset *d)
{
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d), "conditions");
    const char *masked = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "masked"));
    return masked ? masked : "";
}

int vf_copy_compare(const vf_dataset *a, const vf_dataset *b, vc_err *err)
{
    char differences[VF_HEAD_TEXT];
    if (strcmp(masked_of(a), masked_of(b)))
        return vc_fail(err, VC_EMISMATCH, "%s and %s: one has black masked pixels, for a "
                       "ControlNet of FLUX.1, and the other has not: keep them apart",
                       vf_dataset_path(a), vf_dataset_path(b));
    if (!vf_head_compare(vf_dataset_manifest(a), vf_dataset_manifest(b), alike, differences))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s and %s were made by different encoders (%s): encode one "
                   "of the datasets again", vf_dataset_path(a), vf_dataset_path(b), differences);
}

static int room_beside(const char *path, DIR *d, vc_err *err)
{
    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, path, &rc, err));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !vf_is_writers(e->d_name))
            return vc_fail(err, VC_EINVAL, "%s is there and holds \"%.200s\", which no unfinished "
                           "copy has: give another name, or move that file away", path,
                           e->d_name);
    return rc;
}

/* Refuses a manifest that cannot be read, as the dataset may be finished. */
int vf_copy_room(const char *path, vc_err *err)
{
    DIR *d = opendir(path);
    int shards;
    bool complete;
    if (!d)
        return errno == ENOENT ? 0 : vc_fail_errno(err, "%s", path);
    int rc = vf_dataset_progress(path, &shards, &complete, err);
    if (!rc && complete)
        rc = vc_fail(err, VC_EINVAL, "%s is a finished dataset already: remove it or give "
                     "another name", path);
    else if (!rc || rc == VC_ENOENT)
        rc = room_beside(path, d, err);
    closedir(d);
    return rc;
}

/* Adds the encoders' weights to the head. An older dataset does not record them; another one may,
 * and equal encoders have equal weights. */
static int take_weights(cJSON *head, const cJSON *other, vc_err *err)
{
    const cJSON *theirs = cJSON_GetObjectItemCaseSensitive(other, "weights");
    if (!theirs || cJSON_HasObjectItem(head, "weights"))
        return 0;
    cJSON *copy = cJSON_Duplicate(theirs, true);
    return copy && cJSON_AddItemToObject(head, "weights", copy)
               ? 0 : vc_no_memory(err);
}

static int make_head(cJSON **out, vf_dataset *const *from, int n, vc_err *err)
{
    cJSON *head = *out = cJSON_Duplicate(vf_dataset_manifest(from[0]), true);
    int rc = head ? 0 : vc_no_memory(err);
    vf_head_clear(head);
    if (n > 1)
        cJSON_DeleteItemFromObjectCaseSensitive(head, "part");
    for (int i = 1; !rc && i < n; i++) {
        rc = vc_context(err, vf_head_families(head, vf_dataset_manifest(from[i]), err), "%s",
                        vf_dataset_path(from[i]));
        if (!rc)
            rc = take_weights(head, vf_dataset_manifest(from[i]), err);
    }
    return rc;
}

int vf_copy_open(vf_copy **out, const char *path, vf_dataset *const *from, int n,
                 int64_t shard_size, vc_err *err)
{
    *out = NULL;
    cJSON *head = NULL;
    int rc = vf_copy_room(path, err);
    vf_copy *c = rc ? NULL : calloc(1, sizeof *c);
    if (!rc)
        rc = c ? make_head(&head, from, n, err) : vc_no_memory(err);
    const vf_writer_opts o = { .head = head, .check = vf_copy_room, .copies = true,
                               .shard_size = shard_size > 0 ? shard_size : DEFAULT_SHARD };
    if (!rc)
        rc = vf_writer_open(&c->w, path, &o, err);
    cJSON_Delete(head);
    if (rc) {
        vf_copy_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void vf_copy_close(vf_copy *c)
{
    if (!c)
        return;
    vf_writer_close(c->w);
    vf_keymap_free(&c->prompts);
    vf_parsed_free(&c->record);
    free(c->listed.item);
    free(c);
}

/* Records whether rc, from reading a source, means damage; an error of the system does not. */
static int of_source(vf_copy *c, int rc)
{
    c->damage = rc == VC_EFORMAT || rc == VC_ENOENT;
    return rc;
}

bool vf_copy_met_damage(const vf_copy *c)
{
    return c->damage;
}

/* Copies a value, unless the copy has it. */
static int copy_ref(vf_copy *c, const vf_dataset *d, const vf_ref *ref, vc_err *err)
{
    const vf_key k = ref->key;
    const bool text = ref->text;
    const void *data;
    size_t n;
    if (!ref->valid)
        return of_source(c, vc_fail(err, VC_EFORMAT, "a key of 32 hex digits expected"));
    if (text ? vf_writer_has_text(c->w, k) : vf_writer_has_latent(c->w, k))
        return 0;
    int rc = of_source(c, vf_dataset_bytes(d, text, k, &data, &n, err));
    if (rc)
        return rc;
    c->copied += n;
    return text ? vf_writer_put_text(c->w, k, data, n, err)
                : vf_writer_put_latent(c->w, k, data, n, err);
}

static int copy_refs(vf_copy *c, const vf_dataset *d, const vf_refs *refs, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < refs->n && !rc; i++)
        rc = copy_ref(c, d, &refs->item[i], err);
    return rc;
}

static int add_context(const vf_dataset *d, uint32_t i, int rc, vc_err *err)
{
    const vf_entry *e = vf_dataset_entry(d, i);
    char key[24];
    return vc_context(err, rc, "%s: sample %s", vf_dataset_path(d),
                      vf_sample_key(key, e->number, e->variant));
}

int vf_copy_read(vf_copy *c, const vf_dataset *d, uint32_t i, const vf_parsed **record, vc_err *err)
{
    *record = &c->record;
    return of_source(c, vf_dataset_parsed(d, i, &c->record, err));
}

int vf_copy_sample(vf_copy *c, const vf_dataset *d, uint32_t i, uint32_t number, vc_err *err)
{
    const vf_parsed *record;
    int rc = vf_copy_read(c, d, i, &record, err);
    return rc ? add_context(d, i, rc, err) : vf_copy_put(c, d, i, number, err);
}

int vf_copy_put(vf_copy *c, const vf_dataset *d, uint32_t i, uint32_t number, vc_err *err)
{
    const void *thumb = NULL;
    size_t thumb_n = 0;
    int rc = copy_ref(c, d, &c->record.latent, err);
    if (!rc)
        rc = copy_refs(c, d, &c->record.conditions, err);
    if (!rc)
        rc = copy_refs(c, d, &c->record.texts, err);
    if (!rc) {
        int found = vf_dataset_thumb(d, i, &thumb, &thumb_n, err);
        rc = of_source(c, found == VC_ENOENT ? 0 : found);
    }
    if (!rc) {
        rc = vf_writer_put_parsed(c->w, number, &c->record, thumb, thumb_n, err);
        c->damage = rc == VC_EINVAL;         /* a writer refuses a damaged record */
    }
    c->copied += c->record.text.size + thumb_n;
    if (c->copied >= RELEASE_EVERY) {
        vf_dataset_release(d);
        c->copied = 0;
    }
    return rc ? add_context(d, i, rc, err) : 0;
}

static int copy_prompt(vf_copy *c, const vf_dataset *d, const cJSON *record, vc_err *err)
{
    char *text = vf_json_line(record);
    if (!text)
        return vc_no_memory(err);
    vf_key k = vf_hash(text, strlen(text));
    free(text);
    if (vf_keymap_get(&c->prompts, k, NULL))
        return 0;
    int rc = vf_prompt_refs(&c->listed, record, err);
    rc = rc ? rc : copy_refs(c, d, &c->listed, err);
    if (!rc)
        rc = vf_writer_put_validation(c->w, c->n_prompts, record, err);
    c->n_prompts += !rc;
    return rc ? rc : vf_keymap_put(&c->prompts, k, 0, err);
}

int vf_copy_prompts(vf_copy *c, const vf_dataset *d, vc_err *err)
{
    int rc = vf_manifest_refs(&c->listed, vf_dataset_manifest(d), err);
    rc = rc ? rc : copy_refs(c, d, &c->listed, err);
    for (uint32_t i = 0; !rc && i < vf_dataset_validations(d); i++) {
        cJSON *record;
        rc = of_source(c, vf_dataset_validation(d, i, &record, err));
        if (!rc)
            rc = copy_prompt(c, d, record, err);
        cJSON_Delete(record);
    }
    return vc_context(err, rc, "%s", vf_dataset_path(d));
}

/* Drops samples of an earlier, interrupted copy that this copy does not have, and finishes. */
int vf_copy_finish(vf_copy *c, vc_err *err)
{
    uint32_t dropped;
    int rc = vf_writer_drop_unseen(c->w, &dropped, err);
    return rc ? rc : vf_writer_finish(c->w, err);
}
