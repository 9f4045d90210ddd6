/* keymap.h - a hash table from 128-bit keys to a u64: which values a dataset holds, where a batch
 * has them. Keys are already well mixed; no deletion. Not thread-safe; an all-zero map is empty. */
#ifndef FORMATS_KEYS_KEYMAP_H
#define FORMATS_KEYS_KEYMAP_H

#include "formats/keys/keys.h"

typedef struct vf_keymap_slot {
    vf_key key;
    uint64_t value;              /* 0: free slot; so values are stored plus one */
} vf_keymap_slot;

typedef struct vf_keymap {
    vf_keymap_slot *slot;
    size_t room, n;              /* room: slots, a power of two or 0 */
} vf_keymap;

/* Adds or replaces; value < 2^64 - 1. Only VC_ENOMEM can happen. */
int vf_keymap_put(vf_keymap *m, vf_key k, uint64_t value, vc_err *err);
/* value may be NULL. */
bool vf_keymap_get(const vf_keymap *m, vf_key k, uint64_t *value);
/* Forgets all keys but keeps the memory. */
void vf_keymap_clear(vf_keymap *m);
void vf_keymap_free(vf_keymap *m);

#endif
