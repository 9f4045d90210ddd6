/* fuzz_peers_names.c - the doubles of the searches for a flag by its name, for fuzz_peers.c: they
 * take most of the time, so what they found for a name is kept, as the tables stay the same. */
#define vc_flags_find search_own
#define vc_flags_find_foreign search_foreign
#include "common/cli/flags_names.c"
#undef vc_flags_find
#undef vc_flags_find_foreign
bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found);
const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated);

typedef struct known {
    char name[48];
    size_t len;
    bool has_own, has_foreign, negated;
    vc_found own;
    const vc_foreign *foreign;
} known;

/* The place of what was found for a name, which it may share; NULL: the name is too long. */
static known *known_of(const char *name, size_t len)
{
    static known all[1 << 13];
    uint32_t h = 2166136261;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)name[i]) * 16777619;
    known *k = &all[(h ^ h >> 16) % (sizeof all / sizeof *all)];
    if (len > sizeof k->name)
        return NULL;
    if (k->len != len || memcmp(k->name, name, len)) {
        *k = (known){ .len = len };
        memcpy(k->name, name, len);
    }
    return k;
}

bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found)
{
    known *k = known_of(name, len);

    if (!k)
        return search_own(prog, name, len, found);
    if (!k->has_own)
        search_own(prog, name, len, &k->own);
    k->has_own = true;
    *found = k->own;
    return found->flag;
}

const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated)
{
    known *k = known_of(name, len);

    if (!k)
        return search_foreign(prog, name, len, negated);
    if (!k->has_foreign)
        k->foreign = search_foreign(prog, name, len, &k->negated);
    k->has_foreign = true;
    *negated = k->negated;
    return k->foreign;
}
