/* keymap.c - a hash table with open addressing and linear probing, at most 3/4 full. See
 * keymap.h */
#include "formats/keys/keymap.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Returns the slot that holds k, or the free slot in which k belongs. A hostile dataset may have
 * keys that are meant to collide: the table's own address, which nobody can know, seeds the
 * hash. */
static vf_keymap_slot *find(const vf_keymap *m, vf_key k)
{
    size_t i = (size_t)XXH3_64bits_withSeed(k.b, sizeof k.b, (uintptr_t)m->slot);
    for (;; i++) {
        vf_keymap_slot *s = &m->slot[i & (m->room - 1)];
        if (!s->value || !memcmp(&s->key, &k, sizeof k))
            return s;
    }
}

static int grow(vf_keymap *m, vc_err *err)
{
    vf_keymap bigger = { .room = m->room ? 2 * m->room : 64, .n = m->n };
    bigger.slot = calloc(bigger.room, sizeof *bigger.slot);
    if (!bigger.slot)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu keys", bigger.room);
    for (size_t i = 0; i < m->room; i++)
        if (m->slot[i].value)
            *find(&bigger, m->slot[i].key) = m->slot[i];
    free(m->slot);
    *m = bigger;
    return 0;
}

int vf_keymap_put(vf_keymap *m, vf_key k, uint64_t value, vc_err *err)
{
    if (4 * (m->n + 1) > 3 * m->room) {
        int rc = grow(m, err);
        if (rc)
            return rc;
    }
    vf_keymap_slot *s = find(m, k);
    m->n += !s->value;
    *s = (vf_keymap_slot){ k, value + 1 };
    return 0;
}

bool vf_keymap_get(const vf_keymap *m, vf_key k, uint64_t *value)
{
    const vf_keymap_slot *s = m->n ? find(m, k) : NULL;
    if (!s || !s->value)
        return false;
    if (value)
        *value = s->value - 1;
    return true;
}

void vf_keymap_clear(vf_keymap *m)
{
    if (m->n)
        memset(m->slot, 0, m->room * sizeof *m->slot);
    m->n = 0;
}

void vf_keymap_free(vf_keymap *m)
{
    free(m->slot);
    *m = (vf_keymap){ 0 };
}
