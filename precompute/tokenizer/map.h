/* map.h - the tables of both tokenizer models: numbers by number, ids by string, and a trie of byte
 * strings. An all-zero table is empty; a filled one is immutable and serves many threads. Functions
 * that add return 0 or VC_ENOMEM. */
#ifndef PRECOMPUTE_TOKENIZER_MAP_H
#define PRECOMPUTE_TOKENIZER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "formats/dataset/dataset.h"

/* Open addressing with linear probing, at most half full. */
typedef struct tok_map {
    uint64_t *key, *value;               /* key + 1; 0: free */
    size_t cap, n;                       /* cap: 0 or a power of two */
} tok_map;
/* Adds a key below UINT64_MAX, or replaces its value. */
int tok_map_put(tok_map *m, uint64_t key, uint64_t value);
bool tok_map_get(const tok_map *m, uint64_t key, uint64_t *value);
void tok_map_free(tok_map *m);
/* Returns the hash of the pairs, which does not depend on their order. */
vf_key tok_map_hash(const tok_map *m);

/* Strings and their ids. */
typedef struct tok_vocab {
    vc_buf text;                         /* the strings, one after the other */
    size_t *end;                         /* [n] where each ends in text */
    int32_t *id;                         /* [n] */
    size_t n, cap;
    uint32_t *slot;                      /* place + 1 by hash; 0: free */
    size_t slots;
} tok_vocab;
/* Adds a string; a string that the table has gets the new id. */
int tok_vocab_add(tok_vocab *v, const char *s, size_t n, int32_t id);
/* Returns a string's id, or -1. */
int32_t tok_vocab_id(const tok_vocab *v, const char *s, size_t n);
/* Returns string i, which does not end in NUL, with its length in *n. */
const char *tok_vocab_str(const tok_vocab *v, size_t i, size_t *n);
void tok_vocab_free(tok_vocab *v);
/* Returns the hash of the pairs, which does not depend on their order. */
vf_key tok_vocab_hash(const tok_vocab *v);

/* A trie whose edges are one map: (node << 8 | byte) -> node. */
typedef struct tok_trie {
    tok_map edge;
    int32_t *value;                      /* [n] of the string that ends at a node; -1: none */
    size_t n, cap;                       /* nodes; 0 is the root */
} tok_trie;
/* Adds a string with a value >= 0, or replaces its value. */
int tok_trie_add(tok_trie *t, const char *s, size_t n, int32_t value);
/* Returns the child of a node by a byte, or 0. */
static inline size_t tok_trie_step(const tok_trie *t, size_t node, char byte)
{
    uint64_t to;
    return tok_map_get(&t->edge, (uint64_t)node << 8 | (uint8_t)byte, &to) ? (size_t)to : 0;
}
/* Returns the value of the longest string of the trie that s[0..n) begins with, and its length in
 * *len; -1: there is none. */
int32_t tok_trie_longest(const tok_trie *t, const char *s, size_t n, size_t *len);
void tok_trie_free(tok_trie *t);

/* Grows an array to hold one more element than n. */
int tok_grow(void **array, size_t *cap, size_t n, size_t size);

#endif
