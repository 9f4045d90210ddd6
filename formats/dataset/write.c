/* write.c - writes a dataset: puts, commits, hints. See dataset.h and writer.h */
#include "formats/dataset/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/progress.h"

/* ---- open, close ---- */

int vf_writer_open(vf_writer **out, const char *path, const vf_writer_opts *o, vc_err *err)
{
    *out = NULL;
    if (o->shard_size <= 0)
        return vc_fail(err, VC_EINVAL, "shard size %" PRId64 ": must be positive", o->shard_size);
    vf_writer *w = calloc(1, sizeof *w);
    if (!w)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    w->lock = -1;
    w->shard_size = (uint64_t)o->shard_size;
    w->shard_seconds = o->shard_seconds;
    w->commit_seconds = o->commit_seconds;
    w->commit_since = vc_seconds();
    w->append = o->append;
    w->copies = o->copies;
    w->rank = o->rank;
    w->ranks = o->ranks > 1 ? o->ranks : 1;
    w->patience = o->patience;
    w->dir = vc_format("%s", path);
    w->head = cJSON_Duplicate(o->head, true);
    char *state = vc_path_join(path, VF_STATE);

    int rc = w->dir && w->head && state ? vc_mkdirs(path, err)
                                        : vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    if (!rc)
        rc = vf_writer_lock(w, state, err);
    if (!rc && o->check)
        rc = o->check(path, err);
    if (!rc)
        rc = vf_writer_resume(w, o, err);
    w->held = !rc;
    if (!rc && !o->hold)
        rc = vf_writer_begin(w, err);
    free(state);
    if (rc) {
        vf_writer_close(w);
        return rc;
    }
    *out = w;
    return 0;
}

int vf_writer_begin(vf_writer *w, vc_err *err)
{
    int rc = w->held ? vf_writer_start(w, err) : 0;
    w->held = w->held && rc;
    return rc;
}

int vf_writer_describe(vf_writer *w, const char *field, const char *text, vc_err *err)
{
    cJSON_DeleteItemFromObjectCaseSensitive(w->head, field);
    return cJSON_AddStringToObject(w->head, field, text)
               ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", field);
}

void vf_writer_close(vf_writer *w)
{
    if (!w)
        return;
    vf_env_close(w->shard.env);
    vf_env_close(w->text.env);
    vf_env_close(w->state);
    vf_manifest_free(&w->manifest);
    vf_keymap_free(&w->latents);
    vf_keymap_free(&w->texts);
    vf_indexmap_free(&w->slot_at);
    vf_indexmap_free(&w->id_at);
    vf_keymap_free(&w->bucket_at);
    for (uint32_t i = 0; i < w->buckets; i++)
        free(w->bucket[i].key);
    free(w->bucket);
    free(w->slot);
    free(w->prompt);
    vf_lmdb_close(w->old);
    free(w->text_of);
    vf_parsed_free(&w->parsed);
    vc_buf_free(&w->renumbered);
    cJSON_Delete(w->head);
    free(w->dir);
    if (w->lock >= 0)
        close(w->lock);
    free(w);
}

/* Keeps the first failure of a write: later writes fail with it instead of leaving a gap. */
static int stick(vf_writer *w, int rc, vc_err *err)
{
    vc_context(err, rc, "%s", w->dir);
    if (rc && rc != VC_EINVAL && err && !w->failure.code) {
        w->failure = *err;
        w->failure.code = rc;
    }
    return rc;
}

/* Whether hints may be put, which may be before vf_writer_begin. */
static int usable(const vf_writer *w, vc_err *err)
{
    if (w->finished)
        return vc_fail(err, VC_EINVAL, "%s: the dataset is finished", w->dir);
    return w->failure.code ? vc_fail(err, w->failure.code, "%s", w->failure.text) : 0;
}

static int writable(const vf_writer *w, vc_err *err)
{
    return w->held ? vc_fail(err, VC_EINVAL, "%s: the writer has not begun", w->dir)
                   : usable(w, err);
}

/* ---- puts ---- */

/* Commits texts first: a record on disk must find the values to which it refers. */
static int commit(vf_writer *w, vc_err *err)
{
    int rc = w->text.env ? vf_env_commit(w->text.env, err) : 0;
    if (!rc && w->shard.env)
        rc = vf_env_commit(w->shard.env, err);
    if (!rc && w->state)
        rc = vf_env_commit(w->state, err);
    w->commit_since = vc_seconds();
    return rc;
}

/* Runs after each put: closes a full shard, commits a full batch. */
static int close_or_commit(vf_writer *w, vc_err *err)
{
    int rc = vf_writer_close_full(w, err);
    uint64_t waiting = (w->shard.env ? vf_env_waiting(w->shard.env) : 0) +
                       (w->text.env ? vf_env_waiting(w->text.env) : 0);
    if (!rc && waiting >= VF_BATCH)
        rc = commit(w, err);
    return rc;
}

/* True if `most` seconds have passed since then; 0: never. */
static bool overdue(double since, double most)
{
    return most > 0 && vc_seconds() - since >= most;
}

static int put(vf_writer *w, vf_half *h, int db, const char *key, const void *value, size_t n,
               vc_err *err)
{
    int rc = vf_writer_env(w, h, err);
    if (!rc)
        rc = vf_env_put(h->env, db, key, strlen(key), value, n, err);
    h->held += rc ? 0 : vf_pair_bytes(strlen(key), n);
    return rc;
}

static int put_value(vf_writer *w, vf_half *h, int db, vf_keymap *have, vf_key k, const void *st,
                     size_t n, vc_err *err)
{
    char hex[VF_KEY_HEX];
    int rc = writable(w, err);
    if (rc || vf_keymap_get(have, k, NULL))
        return rc;
    rc = put(w, h, db, vf_key_hex(hex, k), st, n, err);
    if (!rc)
        rc = vf_keymap_put(have, k, 0, err);
    if (!rc)
        rc = close_or_commit(w, err);
    return stick(w, rc, err);
}

int vf_writer_put_latent(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err)
{
    return put_value(w, &w->shard, VF_DB_LATENT, &w->latents, k, st, n, err);
}

int vf_writer_put_text(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err)
{
    return put_value(w, &w->text, VF_DB_TEXT, &w->texts, k, st, n, err);
}

static int known(const vf_keymap *have, const vf_ref *ref, vf_span what, vc_err *err)
{
    char hex[VF_KEY_HEX];
    if (!ref->valid)
        return vc_fail(err, VC_EINVAL, "%.*s: 32 hex digits expected", (int)what.n, what.p);
    if (!vf_keymap_get(have, ref->key, NULL))
        return vc_fail(err, VC_EINVAL, "%.*s %s: never put", (int)what.n, what.p,
                       vf_key_hex(hex, ref->key));
    return 0;
}

/* Checks that all values to which a record refers were put before. */
static int check_references(const vf_writer *w, const vf_parsed *p, vc_err *err)
{
    int rc = known(&w->latents, &p->latent, (vf_span){ "latent_key", 10 }, err);
    for (int i = 0; i < p->conditions.n && !rc; i++) {
        const vf_ref *ref = &p->conditions.item[i];
        rc = known(&w->latents, ref, ref->role.p ? ref->role : (vf_span){ "condition", 9 }, err);
    }
    for (int i = 0; i < p->texts.n && !rc; i++)
        rc = known(&w->texts, &p->texts.item[i], (vf_span){ "text key", 8 }, err);
    return rc;
}

/* Writes a record's text (or VF_DROPPED) and records it in the writer's tables. */
static int put_record(vf_writer *w, vf_index_item *item, const char *key, vf_bytes text,
                      const void *thumb, size_t thumb_n, vc_err *err)
{
    int rc = put(w, &w->shard, VF_DB_SAMPLE, key, text.data, text.size, err);
    if (!rc && thumb_n)
        rc = put(w, &w->shard, VF_DB_THUMB, key, thumb, thumb_n, err);
    if (!rc)
        rc = vf_writer_note(w, item, w->shard.number, true, err);
    if (rc)
        return rc;
    rc = close_or_commit(w, err);
    if (!rc && w->shard.env && overdue(w->shard_since, w->shard_seconds))
        return vf_writer_close_shard(w, err);
    return rc || !overdue(w->commit_since, w->commit_seconds) ? rc : commit(w, err);
}

/* True if the sample's newest record has this hash; the sample is then seen. */
static bool keep_hash(vf_writer *w, uint32_t number, uint32_t variant, const vf_key *hash)
{
    vf_slot *s = vf_writer_slot(w, number, variant);
    bool same = vf_slot_live(s) && !memcmp(&s->item.hash, hash, sizeof *hash);
    if (same)
        s->seen = true;
    return same;
}

bool vf_writer_keep_record(vf_writer *w, uint32_t number, uint32_t variant, const char *text,
                           size_t n)
{
    char key[VF_SAMPLE_KEY];
    vf_sample_key(key, number, variant);
    vf_key k = vf_hash2(key, VF_SAMPLE_KEY_LEN, text, n);
    return keep_hash(w, number, variant, &k);
}

/* Writes the text of a record, of which p has the fields and the references. */
static int put_text(vf_writer *w, const char *key, const vf_parsed *p, const vf_index_item *read,
                    vf_bytes text, const void *thumb, size_t thumb_n, vc_err *err)
{
    vf_index_item item = *read;
    int rc = vc_context(err, check_references(w, p, err), "record %s", key);
    if (rc)
        return rc;
    if (!keep_hash(w, item.entry.number, item.entry.variant, &item.hash)) {
        rc = vf_writer_bucket(w, p->r.bucket, &item.entry, &item.bucket, err);
        if (!rc)
            rc = put_record(w, &item, key, text, thumb, thumb_n, err);
    }
    return stick(w, rc, err);
}

int vf_writer_put_record(vf_writer *w, uint32_t number, uint32_t variant, const char *text,
                         size_t n, const void *thumb, size_t thumb_n, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    const vf_bytes value = { (const uint8_t *)text, n };
    int rc = writable(w, err);
    if (rc || vf_writer_keep_record(w, number, variant, text, n))
        return rc;
    vf_sample_key(key, number, variant);
    rc = vf_parsed_read(&w->parsed, (vf_bytes){ (const uint8_t *)key, VF_SAMPLE_KEY_LEN }, value,
                        err);
    const vf_record *r = &w->parsed.r;
    const vf_index_item item = { .entry = r->entry, .id = r->id, .hash = r->hash };
    return rc ? rc : put_text(w, key, &w->parsed, &item, value, thumb, thumb_n, err);
}

int vf_writer_put_sample(vf_writer *w, uint32_t number, uint32_t variant, const cJSON *record,
                         const void *thumb, size_t thumb_n, vc_err *err)
{
    char *line = vf_json_line(record);
    int rc = line ? vf_writer_put_record(w, number, variant, line, strlen(line), thumb, thumb_n,
                                         err)
                  : vc_no_memory(err);
    free(line);
    return rc;
}

/* Makes the text of a record with another number. */
static int renumber(vc_buf *b, const vf_parsed *p, uint32_t number, vc_err *err)
{
    const char *text = (const char *)p->text.data;
    const size_t at = p->number.p ? (size_t)(p->number.p - text) : 0, end = at + p->number.n;
    char member[32];
    b->n = 0;
    if (p->json) {
        cJSON_SetNumberHelper(cJSON_GetObjectItemCaseSensitive(p->json, "sample"), number);
        char *line = vf_json_line(p->json);
        vc_buf_str(b, line ? line : "");
        free(line);
        return b->failed || !line ? vc_no_memory(err) : 0;
    }
    snprintf(member, sizeof member, at == 1 ? "\"sample\":%" PRIu32 "," : ",\"sample\":%" PRIu32,
             number);
    vc_buf_add(b, text, at);
    vc_buf_str(b, member);
    vc_buf_add(b, text + end, p->text.size - end);
    return b->failed ? vc_no_memory(err) : 0;
}

int vf_writer_put_parsed(vf_writer *w, uint32_t number, const vf_parsed *p, const void *thumb,
                         size_t thumb_n, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    vf_index_item item = { .entry = p->r.entry, .id = p->r.id, .hash = p->r.hash };
    vf_bytes text = p->text;
    int rc = writable(w, err);
    if (rc)
        return rc;
    vf_sample_key(key, number, item.entry.variant);
    if (number != item.entry.number) {
        if ((rc = renumber(&w->renumbered, p, number, err)))
            return rc;
        item.entry.number = number;
        text = (vf_bytes){ (const uint8_t *)w->renumbered.data, w->renumbered.n };
        item.hash = vf_hash2(key, VF_SAMPLE_KEY_LEN, text.data, text.size);
    }
    return put_text(w, key, p, &item, text, thumb, thumb_n, err);
}

int vf_writer_keep_sample(vf_writer *w, uint32_t number, uint32_t variant)
{
    vf_slot *s = vf_writer_slot(w, number, variant);
    if (!vf_slot_live(s))
        return VC_ENOENT;
    s->seen = true;
    return 0;
}

static int put_prompt(vf_writer *w, uint32_t i, vf_prompt *p, const char *text, vc_err *err)
{
    char key[16];
    snprintf(key, sizeof key, "%06" PRIu32, i);
    p->live = strcmp(text, VF_DROPPED) != 0;
    p->seen = true;
    p->hash = vf_hash(text, strlen(text));
    int rc = put(w, &w->text, VF_DB_VALIDATION, key, text, strlen(text), err);
    return rc ? rc : close_or_commit(w, err);
}

int vf_writer_put_validation(vf_writer *w, uint32_t i, const cJSON *record, vc_err *err)
{
    vf_prompt *p;
    int rc = writable(w, err);
    if (!rc)
        rc = vf_writer_prompt(w, i, &p, err);
    if (rc)
        return rc;
    char *text = vf_json_line(record);
    if (!text)
        return vc_fail(err, VC_ENOMEM, "validation prompt %" PRIu32 ": out of memory", i);
    vf_key hash = vf_hash(text, strlen(text));
    if (p->live && !memcmp(&p->hash, &hash, sizeof hash))
        p->seen = true;
    else
        rc = put_prompt(w, i, p, text, err);
    free(text);
    return stick(w, rc, err);
}

uint32_t vf_writer_unseen(const vf_writer *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->slots; i++)
        n += !w->slot[i].seen && vf_slot_live(&w->slot[i]);
    return n;
}

int vf_writer_drop_unseen(vf_writer *w, uint32_t *dropped, vc_err *err)
{
    const vf_bytes dropped_text = { (const uint8_t *)VF_DROPPED, strlen(VF_DROPPED) };
    *dropped = 0;
    int rc = writable(w, err);
    if (rc || w->append)
        return rc;
    for (uint32_t i = 0; i < w->slots && !rc; i++) {
        char key[VF_SAMPLE_KEY];
        const vf_entry *e = &w->slot[i].item.entry;
        if (w->slot[i].seen || !vf_slot_live(&w->slot[i]))
            continue;
        vf_sample_key(key, e->number, e->variant);
        vf_index_item gone = {
            .entry = { .number = e->number, .variant = e->variant, .flags = VF_ENTRY_DROPPED },
            .hash = vf_hash2(key, VF_SAMPLE_KEY_LEN, VF_DROPPED, strlen(VF_DROPPED))
        };
        rc = put_record(w, &gone, key, dropped_text, NULL, 0, err);
        *dropped += !rc;
    }
    for (uint32_t i = 0; i < w->prompts && !rc; i++)
        if (w->prompt[i].live && !w->prompt[i].seen)
            rc = put_prompt(w, i, &w->prompt[i], VF_DROPPED, err);
    return stick(w, rc, err);
}

int vf_writer_commit(vf_writer *w, vc_err *err)
{
    int rc = usable(w, err);
    return rc ? rc : stick(w, commit(w, err), err);
}

static int close_open(vf_writer *w, vc_err *err)
{
    int rc = vf_writer_publish_sealed(w, err);
    if (!rc)
        rc = vf_writer_close_shard(w, err);
    return rc ? rc : vf_writer_close_text(w, err);
}

int vf_writer_seal(vf_writer *w, vc_err *err)
{
    int rc = writable(w, err);
    if (rc || w->ranks == 1)
        return rc;
    w->sealing = true;
    rc = vf_writer_close_shard(w, err);
    if (!rc)
        rc = vf_writer_close_text(w, err);
    w->sealing = false;
    return stick(w, rc, err);
}

int vf_writer_flush(vf_writer *w, vc_err *err)
{
    int rc = writable(w, err);
    return rc ? rc : stick(w, close_open(w, err), err);
}

int vf_writer_finish(vf_writer *w, vc_err *err)
{
    int rc = writable(w, err);
    if (rc)
        return rc;
    rc = close_open(w, err);
    vf_env *state = w->state;
    uint64_t bytes;
    w->state = NULL;
    if (!rc && state)
        rc = vf_env_finish(state, &bytes, err);
    else
        vf_env_close(state);
    if (!rc && w->rank == 0)
        rc = vf_writer_complete(w, err);
    w->finished = !rc;
    return stick(w, rc, err);
}

/* ---- hints ---- */

int vf_writer_hint_put(vf_writer *w, const char *name, const void *value, size_t n, vc_err *err)
{
    vf_key k = vf_hash(name, strlen(name)), sum = vf_hint_sum(k, value, n);
    int rc = usable(w, err);
    if (rc || !w->state)
        return rc;
    char *v = malloc(n + sizeof sum.b);
    if (!v)
        return vc_fail(err, VC_ENOMEM, "hint %s: out of memory", name);
    if (n)
        memcpy(v, value, n);
    memcpy(v + n, sum.b, sizeof sum.b);
    rc = vf_env_put(w->state, 0, k.b, sizeof k.b, v, n + sizeof sum.b, err);
    free(v);
    return stick(w, rc, err);
}
