/* layout.c - the final layout of a shard that is closed. See writer.h and lmdb_pack.h
 *
 * Latents lie in the order of the samples, those of one sample side by side, as readers want them;
 * everything else lies in key order. So a shard's bytes follow from its pairs. */
#include "formats/dataset/writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/lmdb/lmdb_pack.h"

typedef struct latents {             /* the latents of a shard */
    vf_keymap place;                 /* key -> place in key order, or TAKEN */
    uint32_t *at;                    /* places, in the order of the samples */
    uint64_t n, taken;
} latents;

#define TAKEN ((uint64_t)UINT32_MAX)

static int list_latents(latents *l, const vf_lmdb *m, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    vf_key k;
    int rc = vf_shard_tree(m, "latent", &t, err);
    if (rc)
        return rc;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        if (!vf_key_parse_n(&k, (const char *)key.data, key.size) || l->n == TAKEN)
            return vc_fail(err, VC_EFORMAT, "latent: a key of %zu bytes: 32 hex digits expected",
                           key.size);
        if ((rc = vf_keymap_put(&l->place, k, l->n++, err)))
            return rc;
    }
    l->at = rc ? NULL : malloc((l->n + 1) * sizeof *l->at);
    return rc || l->at ? rc : vc_no_memory(err);
}

static int take(latents *l, const vf_ref *ref, vc_err *err)
{
    uint64_t place;
    if (!ref->valid || !vf_keymap_get(&l->place, ref->key, &place) || place == TAKEN)
        return 0;
    l->at[l->taken++] = (uint32_t)place;
    return vf_keymap_put(&l->place, ref->key, TAKEN, err);
}

/* Takes the latents of all samples in key order. Another shard may have some of them. */
static int take_of_samples(latents *l, const vf_lmdb *m, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    vf_parsed p = { 0 };
    int rc = vf_shard_tree(m, "sample", &t, err);
    vf_lmdb_start(&c, m, &t);
    while (!rc && (rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        rc = 0;
        if (vf_is_dropped(value))
            continue;
        rc = vf_parsed_read(&p, key, value, err);
        if (!rc)
            rc = take(l, &p.latent, err);
        for (int i = 0; i < p.conditions.n && !rc; i++)
            rc = take(l, &p.conditions.item[i], err);
    }
    vf_parsed_free(&p);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Takes those to which no sample of the shard refers. */
static void take_rest(latents *l)
{
    const uint64_t from = l->taken;
    for (size_t i = 0; i < l->place.room; i++) {
        const vf_keymap_slot *s = &l->place.slot[i];
        if (s->value && s->value - 1 != TAKEN)
            l->at[l->taken++] = (uint32_t)(s->value - 1);
    }
    qsort(l->at + from, l->taken - from, sizeof *l->at, by_place);
}

static int order_latents(latents *l, const vf_lmdb *m, vc_err *err)
{
    int rc = list_latents(l, m, err);
    if (!rc)
        rc = take_of_samples(l, m, err);
    if (!rc)
        take_rest(l);
    return rc;
}

int vf_writer_lay_out(const char *path, bool text, uint64_t *bytes, vf_key *hash, vc_err *err)
{
    latents l = { 0 };
    vf_lmdb *m;
    int rc = vf_lmdb_open(&m, path, err);
    if (!rc && !text)
        rc = vc_context(err, order_latents(&l, m, err), "%s", vc_path_base(path));
    const vf_pack_order order = { "latent", l.at, l.n };
    if (!rc)
        rc = vf_lmdb_pack(m, text ? vf_text_dbs : vf_shard_dbs, text ? NULL : &order, path, bytes,
                          hash, err);
    vf_lmdb_close(m);
    vf_keymap_free(&l.place);
    free(l.at);
    return rc;
}
