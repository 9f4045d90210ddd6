/* map.c - see map.h */
#include "precompute/tokenizer/map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/err.h"

int tok_grow(void **array, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return 0;
    size_t want = *cap < 16 ? 16 : *cap * 2;
    if (want < *cap || want > SIZE_MAX / 2 / size)
        return VC_ENOMEM;
    void *p = realloc(*array, want * size);
    if (!p)
        return VC_ENOMEM;
    *array = p;
    *cap = want;
    return 0;
}

/* A sum of hashes does not depend on the order of its terms. */
static void add_key(vf_key *sum, const void *data, size_t n)
{
    vf_key k = vf_hash(data, n);
    uint64_t a[2], b[2];

    memcpy(a, sum->b, sizeof a);
    memcpy(b, k.b, sizeof b);
    a[0] += b[0];
    a[1] += b[1];
    memcpy(sum->b, a, sizeof a);
}

/* ---- numbers by number ---- */

/* The place of a key, or the free place where the key belongs. */
static size_t map_place(const tok_map *m, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 32) & (m->cap - 1);

    while (m->key[i] && m->key[i] != key + 1)
        i = (i + 1) & (m->cap - 1);
    return i;
}

static int map_widen(tok_map *m)
{
    tok_map w = { .cap = m->cap ? m->cap * 2 : 64, .n = m->n };

    w.key = calloc(w.cap, sizeof *w.key);
    w.value = malloc(w.cap * sizeof *w.value);
    if (!w.key || !w.value) {
        tok_map_free(&w);
        return VC_ENOMEM;
    }
    for (size_t i = 0; i < m->cap; i++)
        if (m->key[i]) {
            size_t to = map_place(&w, m->key[i] - 1);
            w.key[to] = m->key[i];
            w.value[to] = m->value[i];
        }
    tok_map_free(m);
    *m = w;
    return 0;
}

int tok_map_put(tok_map *m, uint64_t key, uint64_t value)
{
    if (m->n >= m->cap / 2 && map_widen(m))
        return VC_ENOMEM;

    size_t i = map_place(m, key);
    m->n += !m->key[i];
    m->key[i] = key + 1;
    m->value[i] = value;
    return 0;
}

bool tok_map_get(const tok_map *m, uint64_t key, uint64_t *value)
{
    if (!m->cap)
        return false;
    size_t i = map_place(m, key);
    if (!m->key[i])
        return false;
    *value = m->value[i];
    return true;
}

void tok_map_free(tok_map *m)
{
    free(m->key);
    free(m->value);
    *m = (tok_map){ 0 };
}

vf_key tok_map_hash(const tok_map *m)
{
    vf_key sum = { { 0 } };

    for (size_t i = 0; i < m->cap; i++)
        if (m->key[i])
            add_key(&sum, (uint64_t[2]){ m->key[i], m->value[i] }, 2 * sizeof(uint64_t));
    return sum;
}

/* ---- ids by string ---- */

const char *tok_vocab_str(const tok_vocab *v, size_t i, size_t *n)
{
    size_t from = i ? v->end[i - 1] : 0;
    *n = v->end[i] - from;
    return *n ? v->text.data + from : "";
}

/* The slot of a string, or the free slot where the string belongs. */
static size_t vocab_slot(const tok_vocab *v, const char *s, size_t n)
{
    size_t i = (size_t)XXH3_64bits(s, n) & (v->slots - 1), len;

    for (; v->slot[i]; i = (i + 1) & (v->slots - 1)) {
        const char *have = tok_vocab_str(v, v->slot[i] - 1, &len);
        if (len == n && !memcmp(have, s, n))
            break;
    }
    return i;
}

static int vocab_widen(tok_vocab *v)
{
    size_t slots = v->slots ? v->slots * 2 : 64, n;
    uint32_t *slot = calloc(slots, sizeof *slot);

    if (!slot)
        return VC_ENOMEM;
    free(v->slot);
    v->slot = slot;
    v->slots = slots;
    for (size_t i = 0; i < v->n; i++) {
        const char *s = tok_vocab_str(v, i, &n);
        v->slot[vocab_slot(v, s, n)] = (uint32_t)i + 1;
    }
    return 0;
}

int tok_vocab_add(tok_vocab *v, const char *s, size_t n, int32_t id)
{
    if (v->n >= v->slots / 2 && vocab_widen(v))
        return VC_ENOMEM;
    size_t slot = vocab_slot(v, s, n);
    if (v->slot[slot]) {
        v->id[v->slot[slot] - 1] = id;
        return 0;
    }

    size_t cap = v->cap;
    vc_buf_add(&v->text, s, n);
    if (v->text.failed || v->n >= UINT32_MAX - 1
        || tok_grow((void **)&v->id, &cap, v->n, sizeof *v->id)
        || tok_grow((void **)&v->end, &v->cap, v->n, sizeof *v->end))
        return VC_ENOMEM;
    v->id[v->n] = id;
    v->end[v->n] = v->text.n;
    v->slot[slot] = (uint32_t)++v->n;
    return 0;
}

int32_t tok_vocab_id(const tok_vocab *v, const char *s, size_t n)
{
    if (!v->slots)
        return -1;
    uint32_t place = v->slot[vocab_slot(v, s, n)];
    return place ? v->id[place - 1] : -1;
}

void tok_vocab_free(tok_vocab *v)
{
    vc_buf_free(&v->text);
    free(v->end);
    free(v->id);
    free(v->slot);
    *v = (tok_vocab){ 0 };
}

vf_key tok_vocab_hash(const tok_vocab *v)
{
    vf_key sum = { { 0 } };

    for (size_t i = 0; i < v->n; i++) {
        size_t n;
        const char *s = tok_vocab_str(v, i, &n);
        vf_key k = vf_hash2(s, n, &v->id[i], sizeof v->id[i]);
        add_key(&sum, k.b, sizeof k.b);
    }
    return sum;
}

/* ---- trie ---- */

static int new_node(tok_trie *t)
{
    int rc = tok_grow((void **)&t->value, &t->cap, t->n, sizeof *t->value);
    if (!rc)
        t->value[t->n++] = -1;
    return rc;
}

int tok_trie_add(tok_trie *t, const char *s, size_t n, int32_t value)
{
    size_t node = 0;

    if (!t->n && new_node(t))
        return VC_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t to = tok_trie_step(t, node, s[i]);
        if (!to) {
            to = t->n;
            if (new_node(t) || tok_map_put(&t->edge, (uint64_t)node << 8 | (uint8_t)s[i], to))
                return VC_ENOMEM;
        }
        node = to;
    }
    t->value[node] = value;
    return 0;
}

int32_t tok_trie_longest(const tok_trie *t, const char *s, size_t n, size_t *len)
{
    int32_t found = -1;
    size_t node = 0;

    *len = 0;
    for (size_t i = 0; i < n && (node = tok_trie_step(t, node, s[i])); i++)
        if (t->value[node] >= 0) {
            found = t->value[node];
            *len = i + 1;
        }
    return found;
}

void tok_trie_free(tok_trie *t)
{
    tok_map_free(&t->edge);
    free(t->value);
    *t = (tok_trie){ 0 };
}
