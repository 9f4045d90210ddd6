/* record.c - reads a sample record from its text. See record.h and references.h
 *
 * yyjson is no package of Debian 12, so the fast path has functions of its own: they take JSON
 * without blanks only, give no messages, and refuse a key that occurs twice. For escapes, odd
 * numbers and words they call json/scan.c, which takes blanks and makes messages for users. */
#include "formats/dataset/record.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEEPEST = 8,                             /* levels of JSON that are read without a tree */
    MOST_KEYS = 24                           /* keys of an object inside the record */
};

/* ---- lists ---- */

static int add_caption(vf_parsed *s, int keys, vc_err *err)
{
    if (s->captions == s->room) {
        const int room = s->room ? 2 * s->room : 8;
        int *p = realloc(s->caption, (size_t)room * sizeof *p);
        if (!p)
            return vc_no_memory(err);
        s->caption = p;
        s->room = room;
    }
    s->caption[s->captions++] = keys;
    return 0;
}

/* ---- without a tree: every function returns false where a tree is needed ---- */

/* The first of eight bytes that is a quote, a backslash, a control character or no ASCII; 8: none.
 * A borrow can only mark bytes after one that is rightly marked. */
static unsigned first_special(const char *p)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t w;
    memcpy(&w, p, sizeof w);
    const uint64_t quote = w ^ '"' * ones, slash = w ^ '\\' * ones;
    const uint64_t hit = (w | (w - ' ' * ones) | ((quote - ones) & ~quote) |
                          ((slash - ones) & ~slash)) & high;
    return hit ? (unsigned)__builtin_ctzll(hit) / 8 : 8;
}

static bool take(vf_scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool string(vf_scan *s, vf_span *v)
{
    const char *p = s->at + 1;
    if (s->at == s->end || *s->at != '"')
        return false;
    for (unsigned n = 8; n == 8 && s->end - p >= 8; p += n)
        n = first_special(p);
    if (p == s->end || *p != '"')
        return !vf_scan_string(s, v, NULL);
    *v = (vf_span){ s->at + 1, (size_t)(p - s->at - 1) };
    s->at = p + 1;
    return true;
}

/* A string whose bytes are those between its quotes. */
static bool plain(vf_scan *s, vf_span *v)
{
    return string(s, v) && !memchr(v->p, '\\', v->n);
}

static bool same(vf_span a, vf_span b)
{
    return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

/* Takes the comma before a member or value, or the bracket after the last one. */
static bool more(vf_scan *s, char close, bool first, bool *another)
{
    *another = !take(s, close);
    return !*another || first || take(s, ',');
}

/* Takes the key of a member, which the object must not have yet. */
static bool member(vf_scan *s, vf_span *seen, int *n)
{
    vf_span key;
    if (*n == MOST_KEYS || !plain(s, &key) || !take(s, ':'))
        return false;
    for (int i = 0; i < *n; i++)
        if (same(seen[i], key))
            return false;
    seen[(*n)++] = key;
    return true;
}

static bool number(vf_scan *s, double *v)
{
    const char *from = s->at;
    char text[VF_JSON_NUMBER + 1], *end;
    size_t n = 0;
    while (s->at < s->end && n < VF_JSON_NUMBER &&
           ((*s->at >= '0' && *s->at <= '9') || (n && strchr("+-.eE", *s->at))))
        text[n++] = *s->at++;
    text[n] = 0;
    vf_scan check = vf_scan_of(from, n);
    if (!n || vf_scan_skip(&check, NULL) || check.at != check.end)
        return false;
    *v = strtod(text, &end);
    return !*end;
}

/* An integer of at most max, which needs no sign and no fraction. */
static bool count(vf_scan *s, uint64_t max, uint64_t *v)
{
    const char *from = s->at;
    uint64_t x = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && x <= max)
        x = 10 * x + (uint64_t)(*s->at++ - '0');
    *v = x;
    return s->at > from && x <= max && (*from != '0' || s->at == from + 1) &&
           (s->at == s->end || !memchr(".eE", *s->at, 3));
}

static bool skip(vf_scan *s, int depth);

static bool skip_inside(vf_scan *s, char close, int depth)
{
    vf_span seen[MOST_KEYS];
    int n = 0;
    bool another = true;
    s->at++;
    for (bool first = true; depth < DEEPEST && another; first = false)
        if (!more(s, close, first, &another) ||
            (another && close == '}' && !member(s, seen, &n)) || (another && !skip(s, depth + 1)))
            return false;
    return !another;
}

static bool skip(vf_scan *s, int depth)
{
    vf_span v;
    uint64_t n;
    const char *from = s->at;
    if (s->at == s->end)
        return false;
    switch (*s->at) {
    case '"': return string(s, &v);
    case '{': return skip_inside(s, '}', depth);
    case '[': return skip_inside(s, ']', depth);
    case ' ': case '\n': case '\r': case '\t': return false;
    default:
        if (count(s, UINT32_MAX, &n))
            return true;
        s->at = from;
        return !vf_scan_skip(s, NULL);
    }
}

static bool ref_at(vf_scan *s, vf_ref *ref)
{
    vf_span hex;
    ref->valid = plain(s, &hex) && vf_key_parse_n(&ref->key, hex.p, hex.n);
    return ref->valid;
}

/* "keys" of a caption. */
static bool keys_at(vf_scan *s, vf_parsed *o, int *n)
{
    bool another = true;
    if (!take(s, '['))
        return false;
    for (*n = 0; another; *n += another) {
        vf_ref ref = { .text = true };
        if (!more(s, ']', !*n, &another) ||
            (another && (!ref_at(s, &ref) || vf_refs_add(&o->texts, ref, NULL))))
            return false;
    }
    return true;
}

static bool caption_at(vf_scan *s, vf_parsed *o)
{
    vf_span seen[MOST_KEYS];
    int n = 0, keys = -1;
    bool another = true;
    if (!take(s, '{'))
        return false;
    for (bool first = true; another; first = false) {
        if (!more(s, '}', first, &another) || (another && !member(s, seen, &n)))
            return false;
        if (another && !(same(seen[n - 1], (vf_span){ "keys", 4 }) ? keys_at(s, o, &keys)
                                                                   : skip(s, 1)))
            return false;
    }
    return !add_caption(o, keys, NULL);
}

static bool captions_at(vf_scan *s, vf_parsed *o)
{
    bool another = true;
    if (!take(s, '['))
        return false;
    for (bool first = true; another; first = false)
        if (!more(s, ']', first, &another) || (another && !caption_at(s, o)))
            return false;
    o->r.entry.captions = (uint8_t)(o->captions < 255 ? o->captions : 255);
    return true;
}

/* The keys of the sample's own empty prompt, behind those of all captions. */
static bool empty_at(vf_scan *s, vf_parsed *o)
{
    int n;
    return o->captions && keys_at(s, o, &n) && !add_caption(o, n, NULL);
}

/* The texts of the captions with another word, behind the captions. */
static bool preserved_at(vf_scan *s, vf_parsed *o)
{
    const uint8_t captions = o->r.entry.captions;
    const bool ok = o->captions && captions_at(s, o);
    o->r.entry.captions = captions;
    return ok;
}

static bool conditions_at(vf_scan *s, vf_parsed *o)
{
    vf_span seen[MOST_KEYS];
    int n = 0;
    bool another = true;
    if (!take(s, '{'))
        return false;
    for (bool first = true; another; first = false) {
        vf_ref ref = { 0 };
        if (!more(s, '}', first, &another) ||
            (another && (!member(s, seen, &n) || !ref_at(s, &ref))))
            return false;
        ref.role = another ? seen[n - 1] : ref.role;
        if (another && vf_refs_add(&o->conditions, ref, NULL))
            return false;
    }
    return true;
}

static bool grid_at(vf_scan *s, vf_entry *e)
{
    uint64_t v[3];
    for (int i = 0; i < 3; i++)
        if (!take(s, i ? ',' : '[') || !count(s, UINT16_MAX, &v[i]) || !v[i])
            return false;
    e->f = (uint16_t)v[0];
    e->h = (uint16_t)v[1];
    e->w = (uint16_t)v[2];
    return take(s, ']');
}

static bool frames_at(vf_scan *s, vf_entry *e)
{
    bool another = true;
    uint32_t n = 0;
    if (!take(s, '['))
        return false;
    for (; another; n += another)
        if (!more(s, ']', !n, &another) || (another && !skip(s, 1)))
            return false;
    e->frames = n;
    return true;
}

static bool id_at(vf_scan *s, uint64_t *id)
{
    vf_span v;
    if (!plain(s, &v) || v.n != 16)
        return false;
    *id = 0;
    for (size_t i = 0; i < 16; i++) {
        const char c = v.p[i];
        const bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f'))
            return false;
        *id = *id << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static bool bucket_at(vf_scan *s, vf_parsed *o)
{
    vf_span v;
    if (!plain(s, &v) || v.n >= sizeof o->bucket)
        return false;
    memcpy(o->bucket, v.p, v.n);
    o->bucket[v.n] = 0;
    return true;
}

static bool real_at(vf_scan *s, double max, float *v)
{
    double x;
    if (!number(s, &x) || !(x >= 0) || x > max)
        return false;
    *v = (float)x;
    return true;
}

enum field {
    SAMPLE, ID, VARIANT, TYPE, CAPTIONS, KEY, FRAMES, FPS, LATENT, TOKENS, LATENT_KEY, CONDITIONS,
    WEIGHT, EMPTY, REFERENCES, PRESERVED, HELD, OTHER
};
enum { NEEDED = 1 << SAMPLE | 1 << ID | 1 << VARIANT | 1 << CAPTIONS | 1 << LATENT |
                1 << LATENT_KEY };

/* The fields of a record in the order in which a writer most likely has them. */
static const struct { const char *name; enum field is; } fields[] = {
    { "sample", SAMPLE }, { "id", ID }, { "variant", VARIANT }, { "path", OTHER },
    { "type", TYPE }, { "captions", CAPTIONS }, { "empty", EMPTY },
    { "preserved", PRESERVED }, { "text_chunks", OTHER },
    { "source", OTHER },
    { "draws", OTHER }, { "key", KEY }, { "load", OTHER }, { "target", OTHER },
    { "resize", OTHER }, { "crop", OTHER }, { "flip", OTHER }, { "tonemap", OTHER },
    { "frames", FRAMES }, { "fps", FPS }, { "upscale", OTHER }, { "latent", LATENT },
    { "tokens", TOKENS }, { "source_hash", OTHER }, { "latent_key", LATENT_KEY },
    { "conditions", CONDITIONS }, { "mask_all", OTHER }, { "references", REFERENCES },
    { "tags", OTHER }, { "weight", WEIGHT }, { "held", HELD }, { "extra", OTHER },
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* The members of a record that were read. */
typedef struct members {
    uint32_t seen;                           /* a bit for each of `fields` */
    unsigned last;                           /* of them, where the search for the next begins */
    vf_span other[MOST_KEYS];                /* keys that are not in `fields` */
    int n;
} members;

/* Takes a key that is not in `fields`, as a later program may write. A tree finds whether a record
 * is dropped. */
static bool other_member(vf_scan *s, members *m)
{
    return member(s, m->other, &m->n) && !same(m->other[m->n - 1], (vf_span){ "dropped", 7 });
}

/* Takes the key of a member, which the record must not have yet. It most likely comes behind the
 * last one. */
static bool field_at(vf_scan *s, members *m, enum field *is)
{
    const char *from = s->at;
    unsigned at = m->last;
    vf_span key;
    if (!plain(s, &key) || !take(s, ':'))
        return false;
    for (unsigned i = 0; i < FIELDS; i++) {
        at = at + 1 < FIELDS ? at + 1 : 0;
        if (strlen(fields[at].name) != key.n || memcmp(fields[at].name, key.p, key.n))
            continue;
        const bool again = m->seen & 1u << at;
        m->seen |= 1u << at;
        m->last = at;
        *is = fields[at].is;
        return !again;
    }
    *is = OTHER;
    s->at = from;
    return other_member(s, m);
}

static bool value_at(vf_scan *s, vf_parsed *o, enum field is)
{
    vf_entry *e = &o->r.entry;
    vf_span v;
    uint64_t n = 0;
    bool ok;
    switch (is) {
    case SAMPLE:
        ok = count(s, UINT32_MAX, &n);
        e->number = (uint32_t)n;
        return ok;
    case VARIANT:
        ok = count(s, VF_MAX_VARIANT, &n);
        e->variant = (uint16_t)n;
        return ok;
    case TOKENS:
        ok = count(s, UINT32_MAX, &n);
        e->tokens = (uint32_t)n;
        return ok;
    case TYPE:
        ok = plain(s, &v);
        e->flags |= ok && same(v, (vf_span){ "video", 5 }) ? VF_ENTRY_VIDEO : 0;
        return ok;
    case HELD:
        ok = plain(s, &v);
        e->flags |= ok && same(v, (vf_span){ "reg", 3 })     ? VF_ENTRY_REG
                    : ok && same(v, (vf_span){ "prior", 5 }) ? VF_ENTRY_PRIOR : 0;
        return ok;
    case LATENT_KEY:
        ok = ref_at(s, &o->latent);
        e->latent = o->latent.key;
        return ok;
    case ID: return id_at(s, &o->r.id);
    case CAPTIONS: return captions_at(s, o);
    case KEY: return bucket_at(s, o);
    case FRAMES: return frames_at(s, e);
    case FPS: return real_at(s, 1e6, &e->fps);
    case WEIGHT: return real_at(s, 1e9, &e->weight);
    case LATENT: return grid_at(s, e);
    case CONDITIONS: return conditions_at(s, o);
    case EMPTY: return empty_at(s, o);
    case REFERENCES:
        v.p = s->at;
        ok = skip(s, 1);
        o->references = (vf_span){ v.p, (size_t)(s->at - v.p) };
        return ok;
    case PRESERVED: return preserved_at(s, o);
    default: return skip(s, 1);
    }
}

static void clear(vf_parsed *s, vf_bytes text)
{
    cJSON_Delete(s->json);
    s->json = NULL;
    s->text = text;
    s->number = s->references = (vf_span){ 0 };
    s->conditions.n = s->texts.n = s->captions = 0;
    s->bucket[0] = 0;
    s->r = (vf_record){ .entry = { .weight = 1, .frames = 1 }, .bucket = s->bucket };
}

static bool scan_record(vf_parsed *o, vf_bytes text)
{
    vf_scan s = vf_scan_of((const char *)text.data, text.size);
    members m = { .last = FIELDS - 1 };
    enum field is;
    bool another = true;
    if (text.size > VF_MAX_RECORD || !take(&s, '{'))
        return false;
    for (bool first = true; another; first = false) {
        const char *from = s.at;
        if (!more(&s, '}', first, &another))
            return false;
        if (!another)
            break;
        if (!field_at(&s, &m, &is) || !value_at(&s, o, is))
            return false;
        if (is == SAMPLE)
            o->number = (vf_span){ from, (size_t)(s.at - from) + first };
    }
    uint32_t has = 0;
    for (unsigned i = 0; i < FIELDS; i++)
        has |= m.seen & 1u << i ? 1u << fields[i].is : 0;
    return (has & NEEDED) == NEEDED && s.at == s.end;
}

_Static_assert(FIELDS <= 32, "a bit for each field");

/* ---- with a tree ---- */

/* Lists the texts of an array of captions. */
static int list_captions(vf_parsed *s, const char *field, vc_err *err)
{
    const cJSON *o, *keys;
    int rc = 0;
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(s->json, field)) {
        const int before = s->texts.n;
        keys = cJSON_GetObjectItemCaseSensitive(o, "keys");
        rc = rc ? rc : vf_refs_of(&s->texts, keys, true, err);
        rc = rc ? rc : add_caption(s, cJSON_IsArray(keys) ? s->texts.n - before : -1, err);
    }
    return rc;
}

static int list_values(vf_parsed *s, vc_err *err)
{
    const cJSON *empty = cJSON_GetObjectItemCaseSensitive(s->json, "empty");
    s->latent = vf_ref_of(cJSON_GetObjectItemCaseSensitive(s->json, "latent_key"));
    int rc = vf_refs_of(&s->conditions, cJSON_GetObjectItemCaseSensitive(s->json, "conditions"),
                        false, err);
    rc = rc ? rc : list_captions(s, "captions", err);
    if (!rc && empty && !cJSON_IsNull(empty)) {
        const int before = s->texts.n;
        rc = vf_refs_of(&s->texts, empty, true, err);
        rc = rc ? rc : add_caption(s, cJSON_IsArray(empty) ? s->texts.n - before : -1, err);
    }
    return rc ? rc : list_captions(s, "preserved", err);
}

/* ---- reference pictures ---- */

/* Reads `latent`, [1,h,w], of a reference. */
static int read_size(uint16_t size[2], const cJSON *o, vc_err *err)
{
    const cJSON *list;
    int rc = vf_json_arr(o, "latent", &list, err);

    for (int i = 0; !rc && i < 3; i++) {
        const cJSON *x = cJSON_GetArrayItem(list, i);
        const double v = cJSON_IsNumber(x) ? x->valuedouble : 0;
        if (v < 1 || v > (i ? UINT16_MAX : 1) || v != (uint16_t)v || cJSON_GetArraySize(list) != 3)
            return vc_fail(err, VC_EFORMAT, "latent: [1,h,w] of 1..%d expected", UINT16_MAX);
        if (i)
            size[i - 1] = (uint16_t)v;
    }
    return rc;
}

int vf_references_read(vf_references *r, const cJSON *list, vc_err *err)
{
    const cJSON *o;

    *r = (vf_references){ 0 };
    if (list && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return vc_fail(err, VC_EFORMAT, "references: a list expected");
    cJSON_ArrayForEach(o, list) {
        if (r->n == VC_REFERENCES)
            return vc_fail(err, VC_EFORMAT, "references: at most %d expected", VC_REFERENCES);
        int rc = read_size(r->size[r->n], o, err);
        if (rc)
            return vc_context(err, rc, "references[%d]", r->n);
        r->n++;
    }
    return 0;
}

/* ---- both ---- */

int vf_parsed_read(vf_parsed *s, vf_bytes key, vf_bytes value, vc_err *err)
{
    uint32_t number, variant;
    clear(s, value);
    if (vf_sample_key_parse((const char *)key.data, key.size, &number, &variant) &&
        scan_record(s, value) && s->r.entry.number == number && s->r.entry.variant == variant) {
        s->r.hash = vf_hash2(key.data, key.size, value.data, value.size);
        return 0;
    }
    clear(s, value);
    int rc = vf_record_read(&s->r, &s->json, key, value, err);
    return rc ? rc : list_values(s, err);
}

int vf_parsed_references(const vf_parsed *s, vf_references *r, vc_err *err)
{
    if (s->json)
        return vf_references_read(r, cJSON_GetObjectItemCaseSensitive(s->json, "references"), err);
    cJSON *list = NULL;
    int rc = s->references.n ? vf_json_parse(&list, s->references.p, s->references.n, err) : 0;
    if (!rc)
        rc = vf_references_read(r, list, err);
    cJSON_Delete(list);
    return rc;
}

int vf_parsed_content(const vf_parsed *s, vf_key *k, vc_err *err)
{
    if (s->number.p) {
        const uint8_t *begin = (const uint8_t *)s->number.p, *end = begin + s->number.n;
        *k = vf_hash2(s->text.data, (size_t)(begin - s->text.data), end,
                      (size_t)(s->text.data + s->text.size - end));
        return 0;
    }
    cJSON *rest = cJSON_Duplicate(s->json, true);
    cJSON_DeleteItemFromObjectCaseSensitive(rest, "sample");
    char *line = rest ? vf_json_line(rest) : NULL;
    const bool made = line;
    if (made)
        *k = vf_hash(line, strlen(line));
    free(line);
    cJSON_Delete(rest);
    return made ? 0 : vc_no_memory(err);
}

void vf_parsed_free(vf_parsed *s)
{
    clear(s, (vf_bytes){ 0 });
    free(s->conditions.item);
    free(s->texts.item);
    free(s->caption);
    *s = (vf_parsed){ 0 };
}
