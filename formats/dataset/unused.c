/* unused.c - values to which no sample and no prompt refers: what vlat gc would leave out. */
#include <stdlib.h>

#include "common/os/progress.h"
#include "formats/dataset/read.h"
#include "formats/dataset/record.h"
#include "formats/keys/keymap.h"

enum { PAGE = 4096, PAIR = 16, APART = 1024 };   /* bytes; a longer value has pages of its own */
enum { WANTED, SEEN };            /* a later copy of a value that was seen is unused */

static int want(vf_keymap *m, const vf_ref *ref, vc_err *err)
{
    return ref->valid ? vf_keymap_put(m, ref->key, WANTED, err) : 0;
}

static int want_all(vf_keymap *m, const vf_refs *refs, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < refs->n; i++)
        rc = want(m, &refs->item[i], err);
    return rc;
}

static int want_prompts(vf_keymap *m, const vf_dataset *d, vc_err *err)
{
    vf_refs refs = { .n = 0 };
    int rc = vf_manifest_refs(&refs, vf_dataset_manifest(d), err);
    rc = rc ? rc : want_all(m, &refs, err);
    for (uint32_t i = 0; !rc && i < vf_dataset_validations(d); i++) {
        cJSON *o;
        rc = vf_dataset_validation(d, i, &o, err);
        rc = rc ? rc : vf_prompt_refs(&refs, o, err);
        rc = rc ? rc : want_all(m, &refs, err);
        cJSON_Delete(o);
    }
    free(refs.item);
    return rc;
}

static int want_samples(vf_keymap *m, const vf_dataset *d, vc_err *err)
{
    vf_parsed p = { 0 };
    int rc = 0;
    for (uint32_t i = 0; !rc && i < d->n; i++) {
        rc = vf_dataset_parsed(d, i, &p, err);
        rc = rc ? rc : want(m, &p.latent, err);
        rc = rc ? rc : want_all(m, &p.conditions, err);
        rc = rc ? rc : want_all(m, &p.texts, err);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    vf_parsed_free(&p);
    return rc;
}

/* Counts the unused values of a shard. */
static int walk(const shard *s, vf_keymap *m, vf_unused *u, vc_err *err)
{
    uint64_t *n = s->info->text ? &u->texts : &u->latents, state;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    vf_key k;
    int rc;
    vf_lmdb_start(&c, s->m, &s->values);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        bool valid = vf_key_parse_n(&k, (const char *)key.data, key.size);
        if (valid && vf_keymap_get(m, k, &state) && state == WANTED) {
            if ((rc = vf_keymap_put(m, k, SEEN, err)))
                break;
            continue;
        }
        ++*n;
        u->bytes += value.size > APART ? (value.size + 2 * PAIR + PAGE - 1) / PAGE * PAGE
                                       : value.size + key.size + PAIR;
    }
    return vc_context(err, rc, "%s", s->info->file);
}

int vf_dataset_unused(const vf_dataset *d, vf_unused *u, vc_err *err)
{
    vf_keymap wanted = { 0 };
    *u = (vf_unused){ 0 };
    int rc = want_prompts(&wanted, d, err);
    rc = rc ? rc : want_samples(&wanted, d, err);
    for (int i = 0; !rc && i < d->n_shards; i++) {
        rc = walk(&d->shard[i], &wanted, u, err);
        u->records += d->shard[i].index.n;
    }
    u->records -= d->n;
    vf_keymap_free(&wanted);
    return vf_mendable(d, rc, err);
}
