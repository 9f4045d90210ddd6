/* indexmap.h - a hash table that finds the place of an item in an array by a 64-bit key of the
 * item. The keys stay in the items, so that the table takes 4 bytes a slot, 5 to 11 an item. Items
 * are not removed. If an item's key changes, the caller puts the item again; of several items with
 * one key any may be found, most likely the one that was put last. A map is not thread-safe. An
 * all-zero map is empty. */
#ifndef FORMATS_KEYS_INDEXMAP_H
#define FORMATS_KEYS_INDEXMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_indexmap {
    uint32_t *slot;              /* the item's place plus one; 0: the slot is free */
    size_t room, n;              /* room: slots, a power of two or 0 */
} vf_indexmap;

/* Returns the key of item i of the array. */
typedef uint64_t vf_item_key(const void *items, uint32_t i);

/* Adds item i < 2^32 - 1. The only error is VC_ENOMEM. */
int vf_indexmap_put(vf_indexmap *m, const void *items, vf_item_key *key_of, uint32_t i,
                    vc_err *err);
/* Returns true and sets *i if the map has an item of this key. */
bool vf_indexmap_get(const vf_indexmap *m, const void *items, vf_item_key *key_of, uint64_t key,
                     uint32_t *i);
void vf_indexmap_free(vf_indexmap *m);

#endif
