/* indexmap.c - a hash table with open addressing and linear probing, at most 3/4 full. See
 * indexmap.h */
#include "formats/keys/indexmap.h"

#include <stdlib.h>
#include <xxhash.h>

/* Returns the slot of an item with this key, or the free slot in which the key belongs. The table's
 * own address seeds the hash, so that no dataset has keys that are meant to collide. */
static uint32_t *find(const vf_indexmap *m, const void *items, vf_item_key *key_of, uint64_t key)
{
    size_t at = (size_t)XXH3_64bits_withSeed(&key, sizeof key, (uintptr_t)m->slot);
    for (;; at++) {
        uint32_t *s = &m->slot[at & (m->room - 1)];
        if (!*s || key_of(items, *s - 1) == key)
            return s;
    }
}

static int grow(vf_indexmap *m, const void *items, vf_item_key *key_of, vc_err *err)
{
    vf_indexmap bigger = { .room = m->room ? 2 * m->room : 64 };
    bigger.slot = calloc(bigger.room, sizeof *bigger.slot);
    if (!bigger.slot)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu keys", bigger.room);
    for (size_t i = 0; i < m->room; i++) {
        if (!m->slot[i])
            continue;
        uint32_t *s = find(&bigger, items, key_of, key_of(items, m->slot[i] - 1));
        bigger.n += !*s;
        *s = m->slot[i];
    }
    free(m->slot);
    *m = bigger;
    return 0;
}

int vf_indexmap_put(vf_indexmap *m, const void *items, vf_item_key *key_of, uint32_t i,
                    vc_err *err)
{
    if (4 * (m->n + 1) > 3 * m->room) {
        int rc = grow(m, items, key_of, err);
        if (rc)
            return rc;
    }
    uint32_t *s = find(m, items, key_of, key_of(items, i));
    m->n += !*s;
    *s = i + 1;
    return 0;
}

bool vf_indexmap_get(const vf_indexmap *m, const void *items, vf_item_key *key_of, uint64_t key,
                     uint32_t *i)
{
    const uint32_t *s = m->n ? find(m, items, key_of, key) : NULL;
    if (!s || !*s)
        return false;
    *i = *s - 1;
    return true;
}

void vf_indexmap_free(vf_indexmap *m)
{
    free(m->slot);
    *m = (vf_indexmap){ 0 };
}
