/* files.c - opens a tokenizer: finds its files, reads the files beside the vocabulary, and
 * builds the derived tables. See parts.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "precompute/tokenizer/parts.h"

enum { CONFIG_MAX = TOK_TREE_MAX, EXTRA_IDS_MAX = 10000 };

/* ---- files beside the vocabulary ---- */

/* The text of a token, a string or {"content": ..}; NULL: none. */
static const char *token_text(const cJSON *o, const char *field)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, field);
    if (cJSON_IsObject(v))
        v = cJSON_GetObjectItemCaseSensitive(v, "content");
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* {"32099": {"content": "<extra_id_0>", "lstrip": true, ...}, ...} */
static int read_decoder(tokenizer *t, const cJSON *list, vc_err *err)
{
    int rc = 0;

    for (const cJSON *o = cJSON_IsObject(list) ? list->child : NULL; o && !rc; o = o->next) {
        const char *text = NULL;
        char *end;
        tok_added a = { .normalized = true };
        long id = strtol(o->string, &end, 10);
        if (*end || end == o->string || id < 0 || id >= TOK_ID_MAX)
            rc = vc_fail(err, VC_EFORMAT, "no id");
        if (!rc && !(rc = vf_json_str(o, "content", &text, err))
            && !(rc = vf_json_bool_opt(o, "single_word", &a.single_word, err))
            && !(rc = vf_json_bool_opt(o, "lstrip", &a.lstrip, err))
            && !(rc = vf_json_bool_opt(o, "rstrip", &a.rstrip, err))
            && !(rc = vf_json_bool_opt(o, "normalized", &a.normalized, err))) {
            a.text = (char *)(uintptr_t)text;
            a.id = (int32_t)id;
            rc = tok_add_token(t, &a, err);
        }
        vc_context(err, rc, "added_tokens_decoder: \"%.40s\"", o->string);
    }
    return rc;
}

/* {"<|im_start|>": 151644, ...} */
static int read_added_file(tokenizer *t, const cJSON *list, vc_err *err)
{
    int rc = 0;

    for (const cJSON *o = cJSON_IsObject(list) ? list->child : NULL; o && !rc; o = o->next) {
        double id = cJSON_IsNumber(o) ? o->valuedouble : -1;
        if (!(id >= 0 && id < TOK_ID_MAX) || id != floor(id))
            return vc_fail(err, VC_EFORMAT, "added_tokens.json: \"%.100s\": id out of range",
                           o->string);
        if (!tok_find_added(t, o->string))
            rc = tok_add_token(t, &(tok_added){ .text = o->string, .id = (int32_t)id }, err);
    }
    return rc;
}

/* add_bos_token and add_eos_token, where a file has one of them, replace its template. */
static int read_template_flags(tokenizer *t, const cJSON *config, vc_err *err)
{
    const char *bos = token_text(config, "bos_token"), *eos = token_text(config, "eos_token");
    bool front = false, back = false;

    if (!cJSON_HasObjectItem(config, "add_bos_token")
        && !cJSON_HasObjectItem(config, "add_eos_token"))
        return 0;
    int rc = vf_json_bool_opt(config, "add_bos_token", &front, err);
    if (rc || (rc = vf_json_bool_opt(config, "add_eos_token", &back, err)))
        return rc;
    int32_t first = front && bos ? tok_id_of(t, bos) : -1;
    int32_t last = back && eos ? tok_id_of(t, eos) : -1;
    if (front && bos && first < 0)
        return vc_fail(err, VC_EFORMAT, "bos_token \"%.100s\" is no token", bos);
    if (back && eos && last < 0)
        return vc_fail(err, VC_EFORMAT, "eos_token \"%.100s\" is no token", eos);
    return tok_set_template(t, first, last) ? vc_no_memory(err) : 0;
}

/* The pad token by name; if no file names one, the pad token of a known class. */
static int find_pad(tokenizer *t, const cJSON *config, const cJSON *map, vc_err *err)
{
    static const char *const usual[] = { "<pad>", "<|endoftext|>", NULL };
    const char *pad = token_text(config, "pad_token");

    if (!pad)
        pad = token_text(map, "pad_token");
    if (pad && (t->pad = tok_id_of(t, pad)) < 0)
        return vc_fail(err, VC_EFORMAT, "pad_token \"%.100s\" is no token", pad);
    for (int i = 0; t->pad < 0 && usual[i]; i++)
        t->pad = tok_id_of(t, usual[i]);
    return 0;
}

static int find_side(tokenizer *t, const cJSON *config, vc_err *err)
{
    const char *side = NULL;
    int rc = vf_json_str_opt(config, "padding_side", &side, err);

    if (rc || !side)
        return rc;
    if (strcmp(side, "left") && strcmp(side, "right"))
        return vc_fail(err, VC_EFORMAT, "padding_side: \"%.40s\" is neither left nor right", side);
    t->side = *side == 'l' ? TOKENIZER_LEFT : TOKENIZER_RIGHT;
    return 0;
}

int tok_read_config(tokenizer *t, const cJSON *config, const cJSON *map, const cJSON *added,
                    vc_err *err)
{
    int rc = read_added_file(t, added, err);

    if (!rc)
        rc = read_decoder(t, cJSON_GetObjectItemCaseSensitive(config, "added_tokens_decoder"),
                          err);
    if (!rc)
        rc = read_template_flags(t, config, err);
    if (!rc)
        rc = find_side(t, config, err);
    return rc ? rc : find_pad(t, config, map, err);
}

/* ---- classes whose steps are in no file ---- */

typedef struct class_steps {
    const char *class, *normalizer, *splits;
    const char *suffix, *unk;
    const char *front, *back;            /* template */
    const char *tokens[3];
} class_steps;

static const class_steps classes[] = {
    { "CLIPTokenizer",
      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\""
      ":{\"Regex\":\"\\\\s+\"},\"content\":\" \"},{\"type\":\"Lowercase\"}]}",
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
      "\"<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+"
      "|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+\"},\"behavior\":\"Removed\",\"invert\":true},"
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
      "</w>", "<|endoftext|>", "<|startoftext|>", "<|endoftext|>",
      { "<|startoftext|>", "<|endoftext|>" } },
    { "Qwen2Tokenizer", "{\"type\":\"NFC\"}",
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
      "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"
      " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
      "\"behavior\":\"Isolated\"},"
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
      NULL, NULL, NULL, NULL, { "<|endoftext|>" } },
};

static bool same_class(const char *given, const char *class)
{
    size_t n = strlen(class);
    return !strncmp(given, class, n) && (!given[n] || !strcmp(given + n, "Fast"));
}

static int steps_of(tok_steps *s, const char *json,
                    int (*read)(tok_steps *, const cJSON *, vc_err *), vc_err *err)
{
    cJSON *o;
    int rc = vf_json_parse(&o, json, strlen(json), err);
    if (!rc)
        rc = read(s, o, err);
    cJSON_Delete(o);
    return rc;
}

static int apply_class(tokenizer *t, const class_steps *c, vc_err *err)
{
    int rc = steps_of(&t->normalizer, c->normalizer, tok_json_normalizer, err);
    if (!rc)
        rc = steps_of(&t->splits, c->splits, tok_json_splits, err);
    for (int i = 0; !rc && c->tokens[i]; i++) {
        int32_t id = tok_id_of(t, c->tokens[i]);
        if (id >= 0)                     /* else added_tokens.json or the config has the id */
            rc = tok_add_token(t, &(tok_added){ .text = (char *)(uintptr_t)c->tokens[i],
                                                .id = id }, err);
    }
    if (rc)
        return rc;
    if (c->suffix && !(t->bpe.suffix = strdup(c->suffix)))
        return vc_no_memory(err);
    if (c->unk)
        t->bpe.unk = tok_id_of(t, c->unk);
    int32_t front = c->front ? tok_id_of(t, c->front) : -1;
    int32_t back = c->back ? tok_id_of(t, c->back) : -1;
    if ((c->front && front < 0) || (c->back && back < 0))
        return vc_fail(err, VC_EFORMAT, "vocab.json has no %s", front < 0 ? c->front : c->back);
    return tok_set_template(t, front, back) ? vc_no_memory(err) : 0;
}

int tok_class_steps(tokenizer *t, const char *class, vc_err *err)
{
    if (!class && tok_id_of(t, "<|startoftext|>") >= 0 && tok_id_of(t, "!</w>") >= 0)
        class = "CLIPTokenizer";         /* the form of OpenAI's files */
    for (size_t i = 0; class && i < sizeof classes / sizeof *classes; i++)
        if (same_class(class, classes[i].class))
            return apply_class(t, &classes[i], err);
    return vc_fail(err, VC_EFORMAT, "vocab.json and merges.txt of %.60s: only CLIPTokenizer and "
                   "Qwen2Tokenizer are known here (tokenizer_class in tokenizer_config.json); "
                   "others need a tokenizer.json", class ? class : "no class");
}

/* ---- derived tables ---- */

static int by_id(const void *a, const void *b)
{
    const tok_added *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : strcmp(x->text, y->text);
}

/* Tokens that are searched in normalised text are searched in their normalised spelling. */
static int add_normalized(tokenizer *t, tok_run *r, int32_t place, vc_err *err)
{
    const char *text = t->added[place].text;

    r->text.n = 0;
    vc_buf_str(&r->text, text);
    int rc = r->text.failed ? vc_no_memory(err)
                            : tok_run_normalizer(&t->normalizer, r, err);
    if (rc)
        return vc_context(err, rc, "added token \"%.100s\"", text);
    if (r->text.n > TOK_ADDED_MAX)
        return vc_fail(err, VC_EFORMAT, "added token \"%.100s\": its normalised spelling has %zu "
                       "bytes, "
                       "more than %d", text, r->text.n, TOK_ADDED_MAX);
    if (r->text.n && tok_trie_add(&t->after_normal, r->text.data, r->text.n, place))
        return vc_no_memory(err);
    return 0;
}

/* Added tokens that the vocabulary lacks have the ids after the vocabulary, without gaps: the
 * reference ignores other ids in files. */
static int sort_added(tokenizer *t, vc_err *err)
{
    size_t next = t->vocab.n;

    if (t->n_added)
        qsort(t->added, t->n_added, sizeof *t->added, by_id);
    for (size_t i = 0; i < t->n_added; i++) {
        const tok_added *a = &t->added[i];
        if (tok_vocab_add(&t->places, a->text, strlen(a->text), (int32_t)i))
            return vc_no_memory(err);
        if (tok_vocab_id(&t->vocab, a->text, strlen(a->text)) >= 0)
            continue;
        if ((size_t)a->id != next)
            return vc_fail(err, VC_EFORMAT, "added token \"%.100s\" has id %d where %zu comes "
                           "next: tokens in front of it are missing", a->text, a->id, next);
        next++;
    }
    return 0;
}

static int build_tries(tokenizer *t, vc_err *err)
{
    tok_run r = { 0 };
    size_t bytes = 0;
    int rc = sort_added(t, err);

    for (size_t i = 0; i < t->n_added; i++)
        bytes += strlen(t->added[i].text);
    if (!rc)
        rc = tok_run_begin(&r, t->normalizer.n, bytes, err);
    for (size_t i = 0; i < t->n_added && !rc; i++) {
        const tok_added *a = &t->added[i];
        if (a->normalized)
            rc = add_normalized(t, &r, (int32_t)i, err);
        else if (tok_trie_add(&t->before_normal, a->text, strlen(a->text), (int32_t)i))
            rc = vc_no_memory(err);
    }
    tok_run_free(&r);
    return rc;
}

static void hash_model(const tokenizer *t, vf_hasher *h)
{
    vf_key vocab = tok_vocab_hash(&t->vocab);

    vf_hasher_bytes(h, "vocab", vocab.b, sizeof vocab.b);
    if (t->model == TOK_UNIGRAM) {
        vf_hasher_bytes(h, "scores", t->unigram.score, t->unigram.n * sizeof(double));
        vf_hasher_int(h, "unk", t->unigram.unk);
        vf_hasher_int(h, "bytes", t->unigram.byte_fallback);
        return;
    }
    const tok_bpe *b = &t->bpe;
    vf_key merges = tok_map_hash(&b->merges);
    vf_hasher_bytes(h, "merges", merges.b, sizeof merges.b);
    vf_hasher_str(h, "prefix", b->prefix ? b->prefix : "");
    vf_hasher_str(h, "suffix", b->suffix ? b->suffix : "");
    vf_hasher_int(h, "unk", b->unk);
    vf_hasher_int(h, "flags", b->fuse_unk | b->byte_fallback << 1 | b->ignore_merges << 2);
}

static vf_key hash_all(const tokenizer *t)
{
    vf_hasher h;

    vf_hasher_begin(&h, "tokenizer");
    vf_hasher_int(&h, "model", t->model);
    hash_model(t, &h);
    tok_steps_hash(&t->normalizer, &h);
    vf_hasher_int(&h, "splits", (int64_t)t->splits.n);
    tok_steps_hash(&t->splits, &h);
    for (size_t i = 0; i < t->n_added; i++) {
        const tok_added *a = &t->added[i];
        vf_hasher_str(&h, "added", a->text);
        vf_hasher_int(&h, "id", a->id);
        vf_hasher_int(&h, "flags", a->single_word | a->lstrip << 1 | a->rstrip << 2
                                   | a->normalized << 3);
    }
    vf_hasher_bytes(&h, "front", t->front.n ? t->front.v : (int64_t[1]){ 0 },
                    t->front.n * sizeof(int64_t));
    vf_hasher_bytes(&h, "back", t->back.n ? t->back.v : (int64_t[1]){ 0 },
                    t->back.n * sizeof(int64_t));
    vf_hasher_int(&h, "pad", t->pad);
    return vf_hasher_end(&h);
}

int tok_finish(tokenizer *t, vc_err *err)
{
    const bool by_bytes = t->bpe.byte_fallback || t->unigram.byte_fallback;
    char name[8];

    for (int i = 0; by_bytes && i < 256; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->byte_id[i] = tok_vocab_id(&t->vocab, name, 6);
    }
    int rc = build_tries(t, err);
    if (!rc)
        t->key = hash_all(t);
    return rc;
}

/* ---- files ---- */

typedef struct sources {
    char *json, *spiece, *vocab, *merges, *tekken;   /* paths, or NULL */
    cJSON *config, *map, *added;
} sources;

static void sources_free(sources *s)
{
    free(s->json);
    free(s->spiece);
    free(s->vocab);
    free(s->merges);
    free(s->tekken);
    cJSON_Delete(s->config);
    cJSON_Delete(s->map);
    cJSON_Delete(s->added);
}

/* *path: folder/name if the file exists, else NULL. */
static int path_if(char **path, const char *folder, const char *name, vc_err *err)
{
    *path = vc_path_join(folder, name);
    if (!*path)
        return vc_no_memory(err);
    if (!vc_file_exists(*path)) {
        free(*path);
        *path = NULL;
    }
    return 0;
}

static int json_if(cJSON **o, const char *folder, const char *name, vc_err *err)
{
    int rc = vf_json_read_in_opt(o, folder, name, CONFIG_MAX, err);
    if (!rc && *o && !cJSON_IsObject(*o))
        rc = vc_fail(err, VC_EFORMAT, "%s/%s: expected an object", folder, name);
    return rc;
}

/* Finds the files of a folder; `only`, a file's name, leaves out the other vocabularies. */
static int find_sources(sources *s, const char *folder, const char *only, vc_err *err)
{
    const char *ext = only ? vc_path_ext(only) : "";
    bool vocab = only && (!strcmp(only, "vocab.json") || !strcmp(only, "merges.txt"));
    bool tekken = only && !strcmp(only, "tekken.json");
    int rc = !only || tekken ? path_if(&s->tekken, folder, "tekken.json", err) : 0;

    if (!rc && (!only || (!vocab && !tekken && !strcmp(ext, ".json"))))
        rc = path_if(&s->json, folder, only ? only : "tokenizer.json", err);
    if (!rc && (!only || !strcmp(ext, ".model")))
        rc = path_if(&s->spiece, folder, only ? only : "spiece.model", err);
    if (!rc && (!only || vocab) && !(rc = path_if(&s->vocab, folder, "vocab.json", err)))
        rc = path_if(&s->merges, folder, "merges.txt", err);
    if (!rc && !(rc = json_if(&s->config, folder, "tokenizer_config.json", err))
        && !(rc = json_if(&s->map, folder, "special_tokens_map.json", err)))
        rc = json_if(&s->added, folder, "added_tokens.json", err);
    return rc;
}

static int locate(sources *s, const char *path, vc_err *err)
{
    struct stat st;

    if (stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    if (S_ISDIR(st.st_mode))
        return find_sources(s, path, NULL, err);
    const char *base = vc_path_base(path);
    char *folder = base == path ? strdup(".") : strndup(path, (size_t)(base - path));
    int rc = folder ? find_sources(s, folder, base, err) : vc_no_memory(err);
    free(folder);
    return rc;
}

static int read_json_file(tokenizer *t, const sources *s, vc_err *err)
{
    char *text;
    size_t n;
    int rc = vc_file_read(&text, &n, s->json, TOK_FILE_MAX, err);
    if (rc)
        return rc;
    rc = tok_read_json(t, text, n, err);
    free(text);
    return vc_context(err, rc, "%s", s->json);
}

static int read_spiece_file(tokenizer *t, const sources *s, vc_err *err)
{
    const char *class = "T5Tokenizer";
    int64_t extra = 100;
    char *data;
    size_t n;

    int rc = vf_json_int_opt(s->config, "extra_ids", &extra, err);
    if (rc || (rc = vf_json_str_opt(s->config, "tokenizer_class", &class, err)))
        return vc_context(err, rc, "tokenizer_config.json");
    if (!same_class(class, "T5Tokenizer"))
        return vc_fail(err, VC_EFORMAT, "%s of %.60s: only T5Tokenizer is known here; others need "
                       "a tokenizer.json", s->spiece, class);
    if (extra < 0 || extra > EXTRA_IDS_MAX)
        return vc_fail(err, VC_EFORMAT, "tokenizer_config.json: extra_ids %lld is not in 0..%d",
                       (long long)extra, EXTRA_IDS_MAX);
    if ((rc = vc_file_read(&data, &n, s->spiece, TOK_FILE_MAX, err)))
        return rc;
    rc = tok_read_spiece(t, data, n, (int)extra, err);
    free(data);
    return vc_context(err, rc, "%s", s->spiece);
}

static int read_vocab_files(tokenizer *t, const sources *s, vc_err *err)
{
    char *vocab = NULL, *merges = NULL;
    const char *class = NULL;
    size_t n, m;

    int rc = vc_file_read(&vocab, &n, s->vocab, TOK_FILE_MAX, err);
    if (!rc)
        rc = vc_file_read(&merges, &m, s->merges, TOK_FILE_MAX, err);
    if (!rc)
        rc = tok_read_vocab(t, vocab, n, merges, m, err);
    if (!rc)
        rc = vf_json_str_opt(s->config, "tokenizer_class", &class, err);
    if (!rc)
        rc = tok_class_steps(t, class, err);
    free(vocab);
    free(merges);
    return rc;
}

/* Whether the folder is that of a tokenizer of bytes. */
static bool is_bytes(const sources *s)
{
    const char *class = NULL;
    return !vf_json_str_opt(s->config, "tokenizer_class", &class, NULL) && class
           && !strcmp(class, "ByT5Tokenizer");
}

/* The id after the largest. */
static int32_t next_id(const tokenizer *t)
{
    int32_t next = t->model == TOK_UNIGRAM ? (int32_t)t->unigram.n : (int32_t)t->vocab.n;

    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id >= next)
            next = t->added[i].id + 1;
    return next;
}

static int add_tokens(tokenizer *t, const char *const *added, vc_err *err)
{
    int rc = 0;

    for (; !rc && added && *added; added++)
        rc = tok_add_token(t, &(tok_added){ .text = (char *)(uintptr_t)*added,
                                            .id = next_id(t) }, err);
    return rc;
}

static int read_sources(tokenizer *t, const sources *s, const char *const *added, vc_err *err)
{
    int rc = s->json ? read_json_file(t, s, err)
           : s->spiece ? read_spiece_file(t, s, err)
           : s->vocab && s->merges ? read_vocab_files(t, s, err)
           : is_bytes(s) ? tok_read_bytes(t, s->config, s->added
                     || cJSON_HasObjectItem(s->config, "added_tokens_decoder"), err)
           : s->tekken ? vc_fail(err, VC_ENOENT, "tekken.json, Mistral's own file, is not read: "
                     "give the tokenizer's folder of the model, which has the same tokens in "
                     "tokenizer.json, or let transformers write that file (AutoTokenizer's "
                     "save_pretrained)")
           : vc_fail(err, VC_ENOENT, "neither tokenizer.json, nor spiece.model, nor vocab.json "
                     "with merges.txt");
    if (!rc)
        rc = vc_context(err, tok_read_config(t, s->config, s->map, s->added, err),
                        "tokenizer_config.json");
    if (!rc)
        rc = add_tokens(t, added, err);
    return rc ? rc : tok_finish(t, err);
}

int tokenizer_open(tokenizer **out, const char *dir, vc_err *err)
{
    return tokenizer_open_with(out, dir, NULL, err);
}

int tokenizer_open_with(tokenizer **out, const char *dir, const char *const *added, vc_err *err)
{
    sources s = { 0 };

    *out = NULL;
    tokenizer *t = tok_new();
    if (!t)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    int rc = locate(&s, dir, err);
    if (!rc)
        rc = read_sources(t, &s, added, err);
    sources_free(&s);
    if (rc) {
        tokenizer_close(t);
        return vc_context(err, rc, "tokenizer %s", dir);
    }
    *out = t;
    return 0;
}
