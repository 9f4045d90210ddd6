/* keymap.h - a hash table from 128-bit keys to a u64, for the values a dataset holds and for their
 * places in a batch. Keys are hashes already; a key cannot be deleted. A map is not thread-safe. An
 * all-zero map is empty. */
#ifndef FORMATS_KEYS_KEYMAP_H
#define FORMATS_KEYS_KEYMAP_H

#include "formats/keys/keys.h"

typedef struct vf_keymap_slot {
    vf_key key;
    uint64_t value;              /* the value plus one; 0: the slot is free */
} vf_keymap_slot;

typedef struct vf_keymap {
    vf_keymap_slot *slot;
    size_t room, n;              /* room: slots, a power of two or 0 */
} vf_keymap;

/* Adds k or replaces its value, which is below 2^64 - 1. The only error is VC_ENOMEM. */
int vf_keymap_put(vf_keymap *m, vf_key k, uint64_t value, vc_err *err);
/* Returns true and sets *value if the map has k; value may be NULL. */
bool vf_keymap_get(const vf_keymap *m, vf_key k, uint64_t *value);
/* Forgets all keys but keeps the memory. */
void vf_keymap_clear(vf_keymap *m);
void vf_keymap_free(vf_keymap *m);

#endif
