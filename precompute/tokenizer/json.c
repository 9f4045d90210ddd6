/* json.c - tokenizer.json: the vocabulary, the model, added tokens, the template. See
 * parts.h
 *
 * The vocabulary and the merges, most of the file, are read by a cursor; the rest becomes small
 * trees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/scan.h"
#include "precompute/tokenizer/parts.h"

enum { MEMBERS_MAX = 100 };              /* of the file, or of its model */

static bool span_is(vf_span v, const char *word)
{
    return v.n == strlen(word) && !memcmp(v.p, word, v.n);
}

/* The next key of an object and its value's text, which is not checked. */
static int next_member(vf_scan *s, bool first, bool *more, vf_span *key, vf_span *value,
                       vc_err *err)
{
    int rc = vf_scan_more(s, '}', first, more, err);
    if (rc || !*more)
        return rc;
    if ((rc = vf_scan_string(s, key, err)) || (rc = vf_scan_expect(s, ':', err)))
        return rc;
    vf_scan_peek(s);
    value->p = s->at;
    rc = vf_scan_skip(s, err);
    value->n = (size_t)(s->at - value->p);
    return rc;
}

/* Appends a string, unescaped, to b. */
static int take_string(vf_scan *s, vc_buf *b, vc_err *err)
{
    vf_span v;
    int rc = vf_scan_string(s, &v, err);
    if (rc)
        return rc;
    char *to = vc_buf_room(b, v.n + 1);
    if (!to)
        return vc_no_memory(err);
    b->n += vf_scan_unescape(to, v);
    return 0;
}

/* ---- vocabulary and merges ---- */

/* {"piece": id, ...} */
static int read_pieces(tokenizer *t, vf_span text, vc_err *err)
{
    vf_scan s = vf_scan_of(text.p, text.n);
    vc_buf b = { 0 };
    int rc = vf_scan_expect(&s, '{', err);

    for (bool first = true, more = true; !rc; first = false) {
        int64_t id = 0;
        b.n = 0;
        if ((rc = vf_scan_more(&s, '}', first, &more, err)) || !more)
            break;
        if (!(rc = take_string(&s, &b, err)) && !(rc = vf_scan_expect(&s, ':', err)))
            rc = vf_scan_int(&s, &id, err);
        if (!rc && (id < 0 || id >= TOK_ID_MAX))
            rc = vf_scan_fail(&s, err, "id %lld is out of range", (long long)id);
        if (!rc && tok_vocab_add(&t->vocab, b.data, b.n, (int32_t)id))
            rc = vc_no_memory(err);
    }
    vc_buf_free(&b);
    return rc;
}

static int take_number(vf_scan *s, double *v, vc_err *err)
{
    char text[VF_JSON_NUMBER + 1] = { 0 };

    vf_scan_peek(s);
    const char *from = s->at;
    int rc = vf_scan_skip(s, err);
    size_t n = (size_t)(s->at - from);
    if (rc)
        return rc;
    if (n >= sizeof text || (*from != '-' && (*from < '0' || *from > '9'))) {
        s->at = from;
        return vf_scan_fail(s, err, "expected a number");
    }
    memcpy(text, from, n);
    *v = strtod(text, NULL);
    return 0;
}

/* [["piece", score], ...] in the order of the ids */
static int read_scored(tokenizer *t, vf_span text, vc_err *err)
{
    vf_scan s = vf_scan_of(text.p, text.n);
    vc_buf b = { 0 };
    int rc = vf_scan_expect(&s, '[', err);

    for (bool first = true, more = true; !rc; first = false) {
        double score = 0;
        b.n = 0;
        if ((rc = vf_scan_more(&s, ']', first, &more, err)) || !more)
            break;
        if (!(rc = vf_scan_expect(&s, '[', err)) && !(rc = take_string(&s, &b, err))
            && !(rc = vf_scan_expect(&s, ',', err)) && !(rc = take_number(&s, &score, err)))
            rc = vf_scan_expect(&s, ']', err);
        if (!rc)
            rc = tok_unigram_add(t, b.data, b.n, score, err);
    }
    vc_buf_free(&b);
    return rc;
}

/* "a b" or ["a", "b"]: b holds both, one after the other; *left: bytes of the first. */
static int take_merge(vf_scan *s, vc_buf *b, size_t *left, vc_err *err)
{
    if (vf_scan_take(s, '[')) {
        int rc = take_string(s, b, err);
        *left = b->n;
        if (!rc && !(rc = vf_scan_expect(s, ',', err)) && !(rc = take_string(s, b, err)))
            rc = vf_scan_expect(s, ']', err);
        return rc;
    }
    int rc = take_string(s, b, err);
    if (rc)
        return rc;
    char *blank = memchr(b->data, ' ', b->n);
    if (!blank || memchr(blank + 1, ' ', b->n - (size_t)(blank + 1 - b->data)))
        return vf_scan_fail(s, err, "a merge is two parts with a blank between");
    *left = (size_t)(blank - b->data);
    memmove(blank, blank + 1, --b->n - *left);
    return 0;
}

static int read_merges(tokenizer *t, vf_span text, vc_err *err)
{
    vf_scan s = vf_scan_of(text.p, text.n);
    vc_buf b = { 0 };
    int rc = vf_scan_expect(&s, '[', err);
    uint32_t rank = 0;

    for (bool more = true; !rc; rank++) {
        size_t left = 0;
        b.n = 0;
        if ((rc = vf_scan_more(&s, ']', !rank, &more, err)) || !more)
            break;
        if (!(rc = take_merge(&s, &b, &left, err)))
            rc = tok_bpe_merge(t, rank, b.data, left, b.data + left, b.n - left, err);
    }
    vc_buf_free(&b);
    return rc;
}

/* ---- model ---- */

static int copy_affix(char **to, const cJSON *o, const char *field, vc_err *err)
{
    const char *s = "";
    int rc = vf_json_str_opt(o, field, &s, err);
    if (rc || !*s)
        return rc;
    if (strlen(s) > TOK_AFFIX_MAX)
        return vc_fail(err, VC_EFORMAT, "%s: longer than %d bytes", field, TOK_AFFIX_MAX);
    *to = strdup(s);
    return *to ? 0 : vc_no_memory(err);
}

static int read_bpe(tokenizer *t, const cJSON *o, vf_span vocab, vf_span merges, vc_err *err)
{
    const char *unk = NULL;
    tok_bpe *b = &t->bpe;

    t->model = TOK_BPE;
    int rc = read_pieces(t, vocab, err);
    if (rc)
        return vc_context(err, rc, "vocab");
    if (!t->vocab.n)
        return vc_fail(err, VC_EFORMAT, "vocab: it has no pieces");
    if ((rc = copy_affix(&b->prefix, o, "continuing_subword_prefix", err))
        || (rc = copy_affix(&b->suffix, o, "end_of_word_suffix", err))
        || (rc = vf_json_bool_opt(o, "fuse_unk", &b->fuse_unk, err))
        || (rc = vf_json_bool_opt(o, "byte_fallback", &b->byte_fallback, err))
        || (rc = vf_json_bool_opt(o, "ignore_merges", &b->ignore_merges, err))
        || (rc = vf_json_str_opt(o, "unk_token", &unk, err)))
        return rc;
    if (unk && (b->unk = tok_vocab_id(&t->vocab, unk, strlen(unk))) < 0)
        return vc_fail(err, VC_EFORMAT, "unk_token: \"%s\" is not in the vocabulary", unk);
    return merges.p ? vc_context(err, read_merges(t, merges, err), "merges") : 0;
}

static int read_unigram(tokenizer *t, const cJSON *o, vf_span vocab, vc_err *err)
{
    int64_t unk = -1;

    t->model = TOK_UNIGRAM;
    int rc = read_scored(t, vocab, err);
    if (rc)
        return vc_context(err, rc, "vocab");
    if ((rc = vf_json_int_opt(o, "unk_id", &unk, err))
        || (rc = vf_json_bool_opt(o, "byte_fallback", &t->unigram.byte_fallback, err)))
        return rc;
    t->unigram.unk = unk < 0 || unk >= TOK_ID_MAX ? -1 : (int32_t)unk;
    return tok_unigram_done(t, err);
}

/* Adds a member's value as a small tree below o. */
static int add_member(cJSON *o, vf_span key, vf_span value, vc_err *err)
{
    char name[64];
    cJSON *v;

    if (key.n >= sizeof name)
        return 0;
    memcpy(name, key.p, key.n);
    name[key.n] = 0;
    if (value.n > TOK_TREE_MAX || cJSON_GetArraySize(o) >= MEMBERS_MAX)
        return vc_fail(err, VC_EFORMAT, "%s: %zu bytes, after %d members; at most %d and %d are "
                       "expected",
                       name, value.n, cJSON_GetArraySize(o), TOK_TREE_MAX, MEMBERS_MAX);
    if (cJSON_HasObjectItem(o, name))
        return vc_fail(err, VC_EFORMAT, "%s: it is there twice", name);
    int rc = vf_json_parse(&v, value.p, value.n, err);
    if (rc)
        return vc_context(err, rc, "%s", name);
    if (!cJSON_AddItemToObject(o, name, v)) {
        cJSON_Delete(v);
        return vc_no_memory(err);
    }
    return 0;
}

static int read_model_parts(tokenizer *t, vf_span text, cJSON *o, vc_err *err)
{
    vf_scan s = vf_scan_of(text.p, text.n);
    vf_span key, value, vocab = { 0 }, merges = { 0 };
    int rc = vf_scan_expect(&s, '{', err);

    for (bool first = true, more = true; !rc; first = false) {
        if ((rc = next_member(&s, first, &more, &key, &value, err)) || !more)
            break;
        if (span_is(key, "vocab"))
            vocab = value;
        else if (span_is(key, "merges"))
            merges = value;
        else
            rc = add_member(o, key, value, err);
    }
    if (rc)
        return rc;
    if (!vocab.p)
        return vc_fail(err, VC_ENOENT, "vocab: missing");
    const char *type = *vocab.p == '[' ? "Unigram" : "BPE";      /* older files lack the type */
    if ((rc = vf_json_str_opt(o, "type", &type, err)))
        return rc;
    if (!strcmp(type, "Unigram"))
        return read_unigram(t, o, vocab, err);
    if (!strcmp(type, "BPE"))
        return read_bpe(t, o, vocab, merges, err);
    return vc_fail(err, VC_EFORMAT, "type: %s is not known here (Unigram and BPE are)", type);
}

static int read_model(tokenizer *t, vf_span text, vc_err *err)
{
    cJSON *o = cJSON_CreateObject();
    int rc = o ? read_model_parts(t, text, o, err) : vc_no_memory(err);

    cJSON_Delete(o);
    return vc_context(err, rc, "model");
}

/* ---- added tokens ---- */

static int read_added(tokenizer *t, const cJSON *list, vc_err *err)
{
    int i = 0, rc = 0;

    if (!list || cJSON_IsNull(list))
        return 0;
    if (!cJSON_IsArray(list))
        return vc_fail(err, VC_EFORMAT, "added_tokens: expected an array");
    for (const cJSON *o = list->child; o && !rc; o = o->next, i++) {
        tok_added a = { .normalized = true };
        const char *text;
        int64_t id;
        if (!(rc = vf_json_str(o, "content", &text, err)) && !(rc = vf_json_int(o, "id", &id, err))
            && !(rc = vf_json_bool_opt(o, "single_word", &a.single_word, err))
            && !(rc = vf_json_bool_opt(o, "lstrip", &a.lstrip, err))
            && !(rc = vf_json_bool_opt(o, "rstrip", &a.rstrip, err))
            && !(rc = vf_json_bool_opt(o, "normalized", &a.normalized, err))) {
            a.text = (char *)(uintptr_t)text;
            if (id < 0 || id >= TOK_ID_MAX)
                rc = vc_fail(err, VC_EFORMAT, "id %lld is out of range", (long long)id);
            a.id = (int32_t)id;
        }
        if (!rc)
            rc = tok_add_token(t, &a, err);
        vc_context(err, rc, "added_tokens[%d]", i);
    }
    return rc;
}

/* ---- post-processors ---- */

static int add_special(tok_ids *to, const cJSON *specials, const cJSON *piece, vc_err *err)
{
    const cJSON *one, *ids;
    const char *name;

    int rc = vf_json_str(piece, "id", &name, err);
    if (!rc)
        rc = vf_json_obj(specials, name, &one, err);
    if (!rc)
        rc = vf_json_arr(one, "ids", &ids, err);
    for (const cJSON *v = rc ? NULL : ids->child; v && !rc; v = v->next) {
        double id = cJSON_IsNumber(v) ? v->valuedouble : -1;
        if (!(id >= 0 && id < TOK_ID_MAX) || id != floor(id))
            rc = vc_fail(err, VC_EFORMAT, "special token \"%s\": an id out of range", name);
        else if (to->n >= TOK_TEMPLATE_MAX)
            rc = vc_fail(err, VC_EFORMAT, "single: more than %d special tokens", TOK_TEMPLATE_MAX);
        else if (tok_add_id(to, (int64_t)id))
            rc = vc_no_memory(err);
    }
    return rc;
}

/* {"single": [{"SpecialToken": {"id": ..}}, {"Sequence": {"id": "A"}}, ..],
 *  "special_tokens": {"</s>": {"ids": [1]}, ..}} */
static int read_template(tokenizer *t, const cJSON *o, vc_err *err)
{
    const cJSON *single, *specials, *v;
    tok_ids *to = &t->front;
    int texts = 0;

    int rc = vf_json_arr(o, "single", &single, err);
    if (!rc)
        rc = vf_json_obj(o, "special_tokens", &specials, err);
    for (const cJSON *p = rc ? NULL : single->child; p && !rc; p = p->next) {
        if ((v = cJSON_GetObjectItemCaseSensitive(p, "SpecialToken"))) {
            rc = add_special(to, specials, v, err);
        } else if (cJSON_GetObjectItemCaseSensitive(p, "Sequence")) {
            texts++;
            to = &t->back;
        }
    }
    if (!rc && texts != 1)
        rc = vc_fail(err, VC_EFORMAT, "single: expected the text once, found it %d times", texts);
    return rc;
}

/* {"sep": ["</s>", 2], "cls": ["<s>", 0]} */
static int read_pair(const cJSON *o, const char *field, int64_t *id, vc_err *err)
{
    const cJSON *pair;
    int rc = vf_json_arr(o, field, &pair, err);
    if (rc)
        return rc;
    const cJSON *v = cJSON_GetArrayItem(pair, 1);
    double d = cJSON_IsNumber(v) ? v->valuedouble : -1;
    if (!(d >= 0 && d < TOK_ID_MAX) || d != floor(d))
        return vc_fail(err, VC_EFORMAT, "%s: expected a token and its id", field);
    *id = (int64_t)d;
    return 0;
}

static int read_post(tokenizer *t, const cJSON *o, int depth, vc_err *err)
{
    const char *type;
    const cJSON *list;
    int64_t sep, cls;

    if (!o || cJSON_IsNull(o))
        return 0;
    int rc = vf_json_str(o, "type", &type, err);
    if (rc)
        return rc;
    if (!strcmp(type, "Sequence") && depth < 4) {
        rc = vf_json_arr(o, "processors", &list, err);
        for (const cJSON *p = rc ? NULL : list->child; p && !rc; p = p->next)
            rc = read_post(t, p, depth + 1, err);
        return rc;
    }
    if (!strcmp(type, "ByteLevel"))
        return 0;
    bool template = !strcmp(type, "TemplateProcessing");
    if (!template && strcmp(type, "RobertaProcessing") && strcmp(type, "BertProcessing"))
        return vc_fail(err, VC_EFORMAT, "%s is not known here", type);
    if (t->front.n || t->back.n)
        return vc_fail(err, VC_EFORMAT, "more than one template");
    if (template)
        return read_template(t, o, err);
    if ((rc = read_pair(o, "sep", &sep, err)) || (rc = read_pair(o, "cls", &cls, err)))
        return rc;
    return tok_set_template(t, cls, sep) ? vc_no_memory(err) : 0;
}

/* ---- the file ---- */

static int read_rest(tokenizer *t, const cJSON *o, vc_err *err)
{
    const cJSON *padding = cJSON_GetObjectItemCaseSensitive(o, "padding");
    int64_t pad = -1;

    int rc = read_added(t, cJSON_GetObjectItemCaseSensitive(o, "added_tokens"), err);
    if (rc)
        return rc;
    rc = tok_json_normalizer(&t->normalizer, cJSON_GetObjectItemCaseSensitive(o, "normalizer"),
                             err);
    if (rc)
        return vc_context(err, rc, "normalizer");
    rc = tok_json_splits(&t->splits, cJSON_GetObjectItemCaseSensitive(o, "pre_tokenizer"), err);
    if (rc)
        return vc_context(err, rc, "pre_tokenizer");
    rc = read_post(t, cJSON_GetObjectItemCaseSensitive(o, "post_processor"), 0, err);
    if (rc)
        return vc_context(err, rc, "post_processor");
    if (cJSON_IsObject(padding) && (rc = vf_json_int_opt(padding, "pad_id", &pad, err)))
        return vc_context(err, rc, "padding");
    t->pad = pad >= 0 && pad < TOK_ID_MAX ? pad : -1;
    return 0;
}

static int read_file(tokenizer *t, const char *text, size_t n, cJSON *o, vc_err *err)
{
    vf_scan s = vf_scan_of(text, n);
    vf_span key, value, model = { 0 };
    int rc = vf_scan_expect(&s, '{', err);

    for (bool first = true, more = true; !rc; first = false) {
        if ((rc = next_member(&s, first, &more, &key, &value, err)) || !more)
            break;
        if (span_is(key, "model"))
            model = value;
        else if (!span_is(key, "decoder"))
            rc = add_member(o, key, value, err);
    }
    if (!rc)
        rc = vf_scan_done(&s, err);
    if (rc)
        return rc;
    if (!model.p)
        return vc_fail(err, VC_ENOENT, "model: missing");
    rc = read_model(t, model, err);
    return rc ? rc : read_rest(t, o, err);
}

int tok_read_json(tokenizer *t, const char *text, size_t n, vc_err *err)
{
    cJSON *o = cJSON_CreateObject();
    int rc = o ? read_file(t, text, n, o, err) : vc_no_memory(err);

    cJSON_Delete(o);
    return rc;
}

/* ---- vocab.json and merges.txt ---- */

static int read_merge_lines(tokenizer *t, const char *text, size_t n, vc_err *err)
{
    uint32_t rank = 0;
    int line = 1;

    for (const char *p = text, *end = text + n, *eol; p < end; p = eol + 1, line++) {
        if (!(eol = memchr(p, '\n', (size_t)(end - p))))
            eol = end;
        size_t len = (size_t)(eol - p);
        len -= len && p[len - 1] == '\r';
        if (!len || (len >= 8 && !memcmp(p, "#version", 8)))
            continue;
        const char *blank = memchr(p, ' ', len);
        if (!blank || memchr(blank + 1, ' ', len - (size_t)(blank + 1 - p)))
            return vc_fail(err, VC_EFORMAT, "line %d: a merge is two parts with a blank between",
                           line);
        int rc = tok_bpe_merge(t, rank++, p, (size_t)(blank - p), blank + 1,
                               len - (size_t)(blank + 1 - p), err);
        if (rc)
            return vc_context(err, rc, "line %d", line);
    }
    return 0;
}

int tok_read_vocab(tokenizer *t, const char *vocab, size_t n_vocab, const char *merges,
                   size_t n_merges, vc_err *err)
{
    t->model = TOK_BPE;
    int rc = read_pieces(t, (vf_span){ vocab, n_vocab }, err);
    if (rc)
        return vc_context(err, rc, "vocab.json");
    return vc_context(err, read_merge_lines(t, merges, n_merges, err), "merges.txt");
}
