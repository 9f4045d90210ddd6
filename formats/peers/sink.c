/* sink.c - makes a dataset of the items that an importer reads. See exchange.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "common/roles.h"
#include "formats/dataset/copy.h"
#include "formats/dataset/parts.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/sound.h"

enum { MAX_WIDTH = 1 << 16 };

/* ---- the first item ---- */

static int first_text(const exchange *x, const exchange_item *m, int i, vc_err *err)
{
    struct exchange_encoder *t = &x->sink->text[i];
    const vf_view *e = &m->text[i].embeds, *p = &m->text[i].pooled;
    const int64_t segments = m->chunks > 1 ? m->chunks : 1;
    int64_t known = i < 3 ? x->family->text[i].max_length : 0;
    const int64_t rows = e->data ? (e->dim[0] + segments - 1) / segments : 1;
    if (m->text[i].length)
        known = m->text[i].length;
    t->embeds = e->data;
    t->width = e->data ? e->dim[1] : p->dim[0];
    t->pooled = p->data ? p->dim[0] : 0;
    t->max_length = rows > known ? rows : known;
    t->dtype = e->data ? e->dtype : p->dtype;
    if (t->width < 1 || t->width > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "text %d: width %" PRId64, i + 1, t->width);
    t->fingerprint = exchange_made_up(x, "imported-text", i, t->width);
    return 0;
}

static int put_packed(exchange_sink *s, int i, const char *prompt, const vf_view *e,
                      const vf_view *p, vf_key *k, vc_err *err)
{
    vf_view v[2];
    int n = 0;
    uint8_t *st;
    size_t size;
    if (e->data) {
        v[n] = *e;
        v[n++].name = "prompt_embeds";
    }
    if (p->data) {
        v[n] = *p;
        v[n++].name = "pooled";
    }
    int rc = vf_safetensors_pack(&st, &size, v, n, NULL, 0, 1, err);
    if (rc)
        return rc;
    *k = exchange_text_key(s, i, prompt, st, size);
    rc = vf_writer_put_text(s->w, *k, st, size, err);
    free(st);
    return rc;
}

int exchange_put_empty(const exchange *x, int i, const vf_view *e, const vf_view *p, vc_err *err)
{
    vf_key k;
    exchange_item item = { .n_text = i + 1 };
    item.text[i].embeds = *e;
    item.text[i].pooled = *p;
    int rc = exchange_check_text(&x->sink->text[i], &item, i, err);
    return rc ? rc : put_packed(x->sink, i, "", e, p, &k, err);
}

/* Puts the empty prompt of encoder i from --empty: zeros, or a file with prompt_embeds_1, pooled_1,
 * ... as vprep --trace_dir names them (with one encoder also under the names of a dataset's
 * value). */
static int read_empty(const exchange *x, int i, const vf_safetensors *file, vc_err *err)
{
    const struct exchange_encoder *t = &x->sink->text[i];
    vf_view e = { 0 }, p = { 0 };
    char name[32];
    if (!file) {
        size_t n = (size_t)(t->width > t->pooled ? t->width : t->pooled);
        float *zeros = calloc(n, sizeof *zeros);
        if (!zeros)
            return vc_no_memory(err);
        e = (vf_view){ NULL, VC_F32, 2, { 1, t->width }, t->embeds ? zeros : NULL,
                       (size_t)t->width * 4 };
        p = (vf_view){ NULL, VC_F32, 1, { t->pooled }, t->pooled ? zeros : NULL,
                       (size_t)t->pooled * 4 };
        int rc = exchange_put_empty(x, i, &e, &p, err);
        free(zeros);
        return rc;
    }
    snprintf(name, sizeof name, "prompt_embeds_%d", i + 1);
    if (vf_safetensors_get(file, name, &e, NULL) && x->sink->n_text == 1)
        vf_safetensors_get(file, "prompt_embeds", &e, NULL);
    snprintf(name, sizeof name, "pooled_%d", i + 1);
    if (vf_safetensors_get(file, name, &p, NULL) && x->sink->n_text == 1)
        vf_safetensors_get(file, "pooled", &p, NULL);
    if ((e.data && (e.nd != 2 || e.dim[1] != t->width || e.dim[0] < 1 ||
                    e.dim[0] > t->max_length)) ||
        (p.data ? p.nd != 1 || p.dim[0] != t->pooled : t->pooled > 0) || (!e.data && !p.data))
        return vc_fail(err, VC_EMISMATCH,
                       "prompt_embeds_%d [n,%" PRId64 "] (n at most %" PRId64 ")%s "
                       "expected", i + 1, t->width, t->max_length, t->pooled ? " and pooled" : "");
    return exchange_put_empty(x, i, &e, &p, err);
}

static int put_empties(const exchange *x, vc_err *err)
{
    const char *path = x->v->o->empty;
    vf_safetensors *file = NULL;
    if (!path)
        return 0;
    int rc = strcmp(path, "zeros") ? vf_safetensors_open(&file, path, err) : 0;
    for (int i = 0; !rc && i < x->sink->n_text; i++)
        rc = vc_context(err, read_empty(x, i, file, err), "--empty %s", path);
    vf_safetensors_close(file);
    return rc;
}

static int begin(exchange *x, const exchange_item *m, vc_err *err)
{
    exchange_sink *s = x->sink = calloc(1, sizeof *s);
    if (!s)
        return vc_no_memory(err);
    s->channels = (int)m->mean.dim[0];
    s->peer_dtype = m->mean.dtype;
    s->dtype = x->normalized ? VC_F32 : m->mean.dtype;
    s->store = m->drawn ? 2 : m->logvar.data ? 1 : 0;
    s->n_text = x->v->o->texts ? 0 : m->n_text;
    s->edit = m->edit || m->n_references;
    bool given = x->norm.channels == s->channels;            /* by the peer's files */
    int rc = 0;
    if (!given)
        exchange_norm_family(&x->norm, x->family);
    if (!given && s->channels != x->family->channels) {
        /* The VAE is not the family's, so that only --vae can give its constants. */
        x->norm = (exchange_norm){ .channels = s->channels, .scaling = x->family->scaling };
        if (x->normalized && x->family->mean && !x->v->o->vae)
            rc = vc_fail(err, VC_EMISMATCH,
                         "latents of %d channels, %s has %d: --vae config.json gives "
                         "their constants%s%s", s->channels, x->family->name, x->family->channels,
                         x->family->wider ? ", or --family " : "",
                         x->family->wider ? x->family->wider : "");
    }
    if (!rc && x->v->o->vae)
        rc = exchange_norm_config(&x->norm, x->v->o->vae, err);
    if (!rc && x->normalized)
        rc = exchange_norm_check(&x->norm, x->family, x->v->o->vae, err);
    for (int i = 0; !rc && i < s->n_text; i++)
        rc = first_text(x, m, i, err);
    if (!rc && x->v->o->texts)
        rc = exchange_texts_open(&s->texts, x->v->o->texts, x->family, err);
    cJSON *head = rc ? NULL : exchange_head(x);
    const vf_writer_opts o = { .head = head, .check = vf_copy_room,
                               .shard_size = x->v->o->shard_size };
    if (!rc)
        rc = vf_writer_open(&s->w, x->v->o->out, &o, err);
    cJSON_Delete(head);
    if (!rc && s->texts)
        rc = exchange_texts_empty(s->texts, s->w, err);
    return rc ? rc : put_empties(x, err);
}

/* ---- latents ---- */

/* Puts the latents of a picture or clip; logvar.data may be NULL. */
static int put_latent(exchange *x, const vf_view *mean, const vf_view *logvar, bool drawn,
                      vf_key *k, vc_err *err)
{
    vf_view v[2] = { *mean, *logvar };
    float *own = NULL;
    uint8_t *st = NULL;
    size_t size = 0;
    int rc = x->normalized ? exchange_denormalized(x, &v[0], &own, err) : 0;
    if (!rc && own)                          /* a factor may have made a value too large */
        rc = exchange_check_finite(&v[0], "latents without normalisation", err);
    v[0].name = drawn ? "sample" : "mean";
    v[1].name = "logvar";
    if (!rc)
        rc = vf_safetensors_pack(&st, &size, v, logvar->data ? 2 : 1, NULL, 0, 1, err);
    if (!rc) {
        vf_hasher h;
        vf_key vae = exchange_made_up(x, "imported-vae", -1, x->sink->channels);
        vf_hasher_begin(&h, "imported-latent");
        vf_hasher_bytes(&h, "vae", &vae, sizeof vae);
        vf_hasher_bytes(&h, "value", st, size);
        *k = vf_hasher_end(&h);
        rc = vf_writer_put_latent(x->sink->w, *k, st, size, err);
    }
    free(st);
    free(own);
    return rc;
}

/* ---- the record ---- */

/* Adds an id as vprep does: the hash of the path, seeded with the number of earlier items that have
 * the same path. */
static int add_id(exchange_sink *s, cJSON *o, const char *path, vc_err *err)
{
    char text[24];
    uint64_t seen = 0;
    vf_key k = vf_hash(path, strlen(path));
    vf_keymap_get(&s->paths, k, &seen);
    snprintf(text, sizeof text, "%016" PRIx64,
             (uint64_t)XXH3_64bits_withSeed(path, strlen(path), seen));
    cJSON_AddStringToObject(o, "id", text);
    return vf_keymap_put(&s->paths, k, seen + 1, err);
}

static void add_ints(cJSON *o, const char *name, const int64_t *v, int n)
{
    cJSON *list = cJSON_AddArrayToObject(o, name);
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)v[i]));
}

static void add_sizes(const exchange *x, cJSON *o, const exchange_item *m, vf_key latent)
{
    const int64_t *dim = m->mean.dim;
    const int *r = x->family->ratio;
    char key[32];
    int64_t frames = m->frames ? m->frames : (dim[1] - 1) * r[0] + 1;
    int64_t grid = dim[1] * (dim[2] / x->family->patch) * (dim[3] / x->family->patch);
    if (m->source_w > 0 && m->source_h > 0) {
        cJSON *s = cJSON_AddObjectToObject(o, "source");
        vf_json_add_int(s, "w", m->source_w);
        vf_json_add_int(s, "h", m->source_h);
    }
    snprintf(key, sizeof key, "%.2f", (double)dim[2] / (double)dim[3]);
    cJSON_AddStringToObject(o, "key", key);
    add_ints(o, "target", (int64_t[]){ dim[2] * r[1], dim[3] * r[2] }, 2);
    cJSON *list = cJSON_AddArrayToObject(o, "frames");
    for (int64_t i = 0; i < frames; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)(m->first + i)));
    if (m->fps > 0 && m->mean.dim[1] > 1)
        cJSON_AddNumberToObject(o, "fps", m->fps);
    add_ints(o, "latent", dim + 1, 3);
    vf_json_add_int(o, "tokens", grid > 0 ? grid : 1);
    exchange_add_key(o, "latent_key", latent);
    if (m->weight > 0)
        cJSON_AddNumberToObject(o, "weight", m->weight);
    if (m->chunks > 1)
        vf_json_add_int(o, "text_chunks", m->chunks);
}

/* Puts the values of the reference pictures and adds them to the record. */
static int add_references(exchange *x, cJSON *o, const exchange_item *m, vc_err *err)
{
    const int *r = x->family->ratio;
    cJSON *conditions = m->n_references ? cJSON_AddObjectToObject(o, "conditions") : NULL;
    cJSON *list = conditions ? cJSON_AddArrayToObject(o, "references") : NULL;
    int rc = 0;
    for (int k = 0; !rc && k < m->n_references; k++) {
        const vf_view *v = &m->reference[k], none = { .nd = 0 };
        cJSON *e = cJSON_CreateObject();
        vf_key key;
        cJSON_AddItemToArray(list, e);
        add_ints(e, "target", (int64_t[]){ v->dim[2] * r[1], v->dim[3] * r[2] }, 2);
        add_ints(e, "latent", v->dim + 1, 3);
        rc = put_latent(x, v, &none, m->drawn, &key, err);
        if (!rc)
            exchange_add_key(conditions, vc_roles[VC_ROLE_REFERENCE + k].name, key);
    }
    return rc;
}

/* captions and empty, which may be NULL, are the record's from now on. */
static int put_record_of(exchange *x, const exchange_item *m, vf_key latent, cJSON *captions,
                         cJSON *empty, vc_err *err)
{
    exchange_sink *s = x->sink;
    cJSON *o = cJSON_CreateObject();
    vf_json_add_int(o, "sample", s->next);
    vf_json_add_int(o, "variant", 0);
    int rc = add_id(s, o, m->path, err);
    cJSON_AddStringToObject(o, "path", m->path);
    cJSON_AddStringToObject(o, "type", m->mean.dim[1] > 1 ? "video" : "image");
    cJSON_AddItemToObject(o, "captions", captions);
    if (empty)
        cJSON_AddItemToObject(o, "empty", empty);
    s->own_empty |= empty != NULL;
    add_sizes(x, o, m, latent);
    if (!rc)
        rc = add_references(x, o, m, err);
    if (!rc)
        rc = exchange_sound_put(x, m, o, err);
    if (!rc)
        rc = vf_writer_put_sample(s->w, s->next, 0, o, NULL, 0, err);
    cJSON_Delete(o);
    s->next += !rc;
    s->records += !rc;
    return rc;
}

/* Checks the number of frames: a video VAE makes one latent frame of `ratio` frames, and one of a
 * remainder. */
static int check_frames(const exchange *x, const exchange_item *m, vc_err *err)
{
    const int64_t ratio = x->family->ratio[0], f = m->mean.dim[1];
    if (m->frames > 1 << 20)
        return vc_fail(err, VC_EFORMAT, "%" PRId64 " frames", m->frames);
    if (!m->frames || ratio == 1 || (m->frames + ratio - 1) / ratio == f)
        return 0;
    return vc_fail(err, VC_EFORMAT, "%" PRId64 " frames, and %" PRId64 " latent frames, of which "
                   "%s makes %" PRId64 ": the file is damaged, or --family is another",
                   m->frames, f, x->family->name, (m->frames + ratio - 1) / ratio);
}

static int check_item(const exchange *x, const exchange_item *m, vc_err *err)
{
    const exchange_sink *s = x->sink;
    int rc = exchange_check_latent(m, err);
    if (!rc && x->normalized && m->logvar.data)
        rc = vc_fail(err, VC_EUSAGE, "--space normalized: latents with logvar are raw");
    if (!rc)
        rc = check_frames(x, m, err);
    if (!rc)
        rc = exchange_check_references(m, err);
    if (rc || !s || !s->w)
        return rc;
    if (m->n_references && !s->edit)
        return vc_fail(err, VC_EMISMATCH, "%d reference pictures, and the first sample has none: "
                       "import the samples without references by themselves", m->n_references);
    if (m->mean.dim[0] != s->channels || (!s->texts && m->n_text != s->n_text) ||
        (m->drawn ? 2 : m->logvar.data ? 1 : 0) != s->store)
        return vc_fail(err, VC_EMISMATCH,
                       "%" PRId64 " channels, %d texts%s: unlike the first sample's "
                       "%d and %d", m->mean.dim[0], m->n_text, m->logvar.data ? ", moments" : "",
                       s->channels, s->n_text);
    if (m->mean.dtype != s->peer_dtype && m->mean.dtype != VC_F32)
        return vc_fail(err, VC_EMISMATCH, "latents of type %s, the first were %s",
                       vc_dtype_name(m->mean.dtype), vc_dtype_name(s->peer_dtype));
    return 0;
}

/* Puts the values of a caption's texts; the caller frees *keys, the list of their keys for a
 * record, and *empty, that of the sample's own empty prompt, NULL where it has none. */
static int put_texts(const exchange *x, const exchange_item *m, const char *path,
                     const char *caption, cJSON **keys, cJSON **empty, vc_err *err)
{
    exchange_sink *s = x->sink;
    char hex[VF_KEY_HEX];
    int rc = 0;
    *empty = NULL;
    if (s->texts)
        return exchange_texts_put(s->texts, s->w, path, caption, keys, empty, err);
    *keys = cJSON_CreateArray();
    for (int i = 0; !rc && i < m->n_text; i++) {
        vf_key k;
        rc = put_packed(s, i, caption, &m->text[i].embeds, &m->text[i].pooled, &k, err);
        if (!rc)
            cJSON_AddItemToArray(*keys, cJSON_CreateString(vf_key_hex(hex, k)));
    }
    return rc;
}

/* Puts the texts of all captions of an item, lists the captions for the record, and finds its own
 * empty prompt. */
static int put_captions(const exchange *x, const exchange_item *m, cJSON *list, cJSON **empty,
                        vc_err *err)
{
    const char *path = m->path;
    int rc = 0;
    for (; !rc && m; m = m->more) {
        cJSON *o = cJSON_CreateObject(), *keys = NULL, *own = NULL;
        const char *caption = m->caption ? m->caption : "";
        cJSON_AddStringToObject(o, "text", caption);
        rc = vc_context(err, vc_utf8_check(caption, strlen(caption), err), "its caption");
        if (!rc)
            rc = put_texts(x, m, path, caption, &keys, &own, err);
        cJSON_Delete(*empty ? own : NULL);
        *empty = *empty ? *empty : own;
        cJSON_AddItemToObject(o, "keys", keys);
        cJSON_AddItemToArray(list, o);
    }
    return rc;
}

static int check_texts(const exchange *x, const exchange_item *m, vc_err *err)
{
    int rc = 0, n = m->n_text;
    for (; !rc && m; m = m->more) {
        if (m->n_text != n)
            rc = vc_fail(err, VC_EMISMATCH, "captions with %d and with %d texts", n, m->n_text);
        for (int i = 0; !rc && i < n; i++)
            rc = exchange_check_text(x->sink ? &x->sink->text[i] : NULL, m, i, err);
    }
    return rc;
}

int exchange_put(exchange *x, const exchange_item *m, vc_err *err)
{
    vf_key latent;
    cJSON *captions = cJSON_CreateArray(), *empty = NULL;
    int rc = check_item(x, m, err);
    if (!rc && !x->v->o->texts)
        rc = check_texts(x, m, err);
    if (!rc && !x->sink)
        rc = begin(x, m, err);
    if (!rc)
        rc = put_captions(x, m, captions, &empty, err);
    if (!rc)
        rc = put_latent(x, &m->mean, &m->logvar, m->drawn, &latent, err);
    if (!rc) {
        rc = put_record_of(x, m, latent, captions, empty, err);
    } else {
        cJSON_Delete(captions);
        cJSON_Delete(empty);
    }
    if (!rc)
        rc = exchange_stopped(err);
    vc_progress_at(x->v->progress, x->sink ? x->sink->next : 0, NULL);
    return vc_context(err, rc, "%s", m->path);
}

/* ---- the end ---- */

static int check_empties(const exchange *x, vc_err *err)
{
    for (int i = 0; i < x->sink->n_text; i++)
        if (!vf_writer_has_text(x->sink->w, exchange_text_key(x->sink, i, "", NULL, 0)))
            return vc_fail(err, VC_EINVAL,
                           "no sample has an empty caption, and vtrain's caption dropout "
                           "needs the empty prompt's embedding: run this again with --empty FILE "
                           "(a safetensors file with prompt_embeds_1, ...) or --empty zeros; "
                           "samples imported so far are kept");
    return 0;
}

/* Warns if files of a whole export were changed, as the change may not have been intended. */
static void compare_roots(const exchange *x, const char *root)
{
    if (x->sink->whole && x->root && !x->lacks && strcmp(x->root, root))
        vc_warn(x->v->progress,
                "root %s: " EXCHANGE_NOTE " says that %s was exported: files of it have been "
                "changed since", root, x->root);
}

int exchange_finish(exchange *x, vc_err *err)
{
    exchange_sink *s = x->sink;
    vf_dataset *d;
    uint32_t dropped;
    char a[32];
    if (!s || !s->w)
        return vc_fail(err, VC_ENOENT, "%s: nothing of %s in it", x->dir, x->format);
    int rc = exchange_check_note(x, err);
    if (!rc && !s->whole)
        rc = check_empties(x, err);
    if (!rc)
        exchange_say_empties(x);
    if (!rc)
        rc = vf_writer_drop_unseen(s->w, &dropped, err);
    if (!rc)
        rc = vf_writer_finish(s->w, err);
    vc_progress_end(x->v->progress);
    if (!rc)
        rc = vf_dataset_open(&d, x->v->o->out, false, err);
    if (rc)
        return rc;
    fprintf(x->v->out, "%s: %s sample%s of %s, root %s\n", x->v->o->out,
            vc_human_count(a, vf_dataset_count(d)), vc_s(vf_dataset_count(d)), x->format,
            vlat_str(vf_dataset_manifest(d), "root"));
    compare_roots(x, vlat_str(vf_dataset_manifest(d), "root"));
    vf_dataset_close(d);
    if (x->no_conditions && !s->whole)
        vc_warn(x->v->progress,
                "%" PRIu64 " conditions were left out: pictures and masks beside the "
                "latents are not imported", x->no_conditions);
    if (x->sound_cut)
        vc_say(x->v->progress, "%" PRIu64 " of the sounds had 1 latent frame that begins behind "
               "the clip's end: it was left out", x->sound_cut);
    if (x->normalized && s->values)
        vc_say(x->v->progress,
               "%" PRIu64 " of %" PRIu64 " normalised values would not come back exactly "
               "from raw f32 ones", s->inexact, s->values);
    vlat_say_next(x->v, x->v->o->out);
    return 0;
}

void exchange_close(exchange *x)
{
    cJSON_Delete(x->files);
    exchange_sound_free(&x->sound);
    free(x->root);
    x->files = NULL;
    x->root = NULL;
    if (!x->sink)
        return;
    vf_writer_close(x->sink->w);
    exchange_texts_close(x->sink->texts);
    vf_keymap_free(&x->sink->paths);
    free(x->sink);
    x->sink = NULL;
}
