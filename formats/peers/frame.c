/* frame.c - exports and imports a dataset's own parts, for the formats that carry the whole
 * dataset. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/dataset/copy.h"
#include "formats/dataset/parts.h"
#include "formats/peers/exchange_parts.h"

/* ---- references ---- */

static int refer(const cJSON *hex, const char *folder, const char *role, exchange_ref_fn fn,
                 void *arg, vc_err *err)
{
    vf_key k;
    char name[64];
    if (!cJSON_IsString(hex) || !vf_key_parse(&k, hex->valuestring))
        return vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", role);
    snprintf(name, sizeof name, "%s/%s.safetensors", folder, hex->valuestring);
    return fn(arg, name, role, err);
}

/* True if a role has plain characters only, as roles become parts of file names. */
static bool plain_role(const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    return s && *s && strlen(s) < 32 && strspn(s, plain) == strlen(s);
}

static int condition_refs(const cJSON *record, exchange_ref_fn fn, void *arg, vc_err *err)
{
    const cJSON *o;
    int rc = 0;
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(record, "conditions")) {
        if (!rc && !plain_role(o->string))
            rc = vc_fail(err, VC_EFORMAT, "conditions: a role with odd characters");
        rc = rc ? rc : refer(o, "latents", o->string, fn, arg, err);
    }
    return rc;
}

int exchange_refs(const cJSON *record, exchange_ref_fn fn, void *arg, vc_err *err)
{
    const cJSON *o, *hex;
    char role[40];
    int caption = 0;
    int rc = refer(cJSON_GetObjectItemCaseSensitive(record, "latent_key"), "latents", "latent", fn,
                   arg, err);
    if (!rc)
        rc = condition_refs(record, fn, arg, err);
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(record, "captions")) {
        int encoder = 0;
        cJSON_ArrayForEach(hex, cJSON_GetObjectItemCaseSensitive(o, "keys")) {
            snprintf(role, sizeof role, "text.%d.%d", caption, encoder++);
            rc = rc ? rc : refer(hex, "texts", role, fn, arg, err);
        }
        caption++;
    }
    return rc;
}

/* Calls fn for the values of a prompt: its own texts, the negative's, its picture and
 * conditions. */
static int prompt_refs(const cJSON *o, exchange_ref_fn fn, void *arg, vc_err *err)
{
    static const char *const lists[] = { "keys", "negative_keys" };
    const cJSON *hex, *image = cJSON_GetObjectItemCaseSensitive(o, "image");
    int rc = 0;
    for (int i = 0; i < 2; i++)
        cJSON_ArrayForEach(hex, cJSON_GetObjectItemCaseSensitive(o, lists[i]))
            rc = rc ? rc : refer(hex, "texts", lists[i], fn, arg, err);
    if (!rc && cJSON_IsString(image))
        rc = refer(image, "latents", "image", fn, arg, err);
    return rc ? rc : condition_refs(o, fn, arg, err);
}

static int encoder_refs(const cJSON *manifest, exchange_ref_fn fn, void *arg, vc_err *err)
{
    const cJSON *o;
    int rc = 0;
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(manifest, "text_encoders"))
        rc = rc ? rc : refer(cJSON_GetObjectItemCaseSensitive(o, "empty"), "texts", "empty", fn,
                             arg, err);
    return rc;
}

static bool key_of(const char *name, bool *text, vf_key *k)
{
    const char *slash = strchr(name, '/');
    *text = !strncmp(name, "texts/", 6);
    return slash && strlen(slash) == 33 + strlen(".safetensors") &&
           vf_key_parse_n(k, slash + 1, 32);
}

/* ---- export ---- */

int exchange_value(const exchange *x, const char *name, const void **data, size_t *n, vc_err *err)
{
    bool text;
    vf_key k;
    if (!key_of(name, &text, &k))
        return vc_fail(err, VC_EFORMAT, "%.60s: no name of a value", name);
    return vf_dataset_bytes(x->d, text, k, data, n, err);
}

int exchange_write_value(exchange *x, const char *name, vc_err *err)
{
    const void *data;
    size_t n;
    vf_key k = vf_hash(name, strlen(name));
    if (vf_keymap_get(&x->written, k, NULL))
        return 0;
    int rc = exchange_value(x, name, &data, &n, err);
    if (!rc)
        rc = exchange_write(x->dir, name, data, n, err);
    return rc ? rc : vf_keymap_put(&x->written, k, 0, err);
}

static int write_ref(void *arg, const char *name, const char *role, vc_err *err)
{
    (void)role;
    return exchange_write_value(arg, name, err);
}

static int write_manifest(exchange *x, vc_err *err)
{
    cJSON *head = cJSON_Duplicate(x->manifest, true);
    vf_head_clear(head);
    char *text = head ? vf_json_line(head) : NULL;
    int rc = text ? exchange_write(x->dir, VF_MANIFEST, text, strlen(text), err)
                  : vc_no_memory(err);
    free(text);
    cJSON_Delete(head);
    return rc;
}

int exchange_write_frame(exchange *x, vc_err *err)
{
    vc_buf lines = { 0 };
    int rc = write_manifest(x, err);
    if (!rc)
        rc = encoder_refs(x->manifest, write_ref, x, err);
    for (uint32_t i = 0; !rc && i < vf_dataset_validations(x->d); i++) {
        cJSON *o;
        rc = vf_dataset_validation(x->d, i, &o, err);
        if (!rc)
            rc = prompt_refs(o, write_ref, x, err);
        char *line = rc ? NULL : vf_json_line(o);
        if (line) {
            vc_buf_str(&lines, line);
            vc_buf_str(&lines, "\n");
        }
        lines.failed |= !rc && !line;
        free(line);
        cJSON_Delete(o);
    }
    if (!rc && lines.failed)
        rc = vc_no_memory(err);
    if (!rc && lines.n)
        rc = exchange_write(x->dir, "validation.jsonl", lines.data, lines.n, err);
    vc_buf_free(&lines);
    return rc;
}

/* ---- import ---- */

bool exchange_has_value(const exchange *x, const char *name)
{
    bool text;
    vf_key k;
    return key_of(name, &text, &k) && (text ? vf_writer_has_text(x->sink->w, k)
                                            : vf_writer_has_latent(x->sink->w, k));
}

int exchange_put_value(exchange *x, const char *name, const void *data, size_t n, vc_err *err)
{
    bool text;
    vf_key k;
    vf_safetensors *st;
    if (!key_of(name, &text, &k))
        return vc_fail(err, VC_EFORMAT, "%.60s: no name of a value", name);
    int rc = vf_safetensors_parse(&st, data, n, err);
    if (!rc) {
        rc = vf_safetensors_check(st, err);
        if (!rc)
            rc = exchange_check_value(text, st, err);
        vf_safetensors_close(st);
    }
    if (!rc)
        rc = text ? vf_writer_put_text(x->sink->w, k, data, n, err)
                  : vf_writer_put_latent(x->sink->w, k, data, n, err);
    return vc_context(err, rc, "%s", name);
}

int exchange_put_file(exchange *x, const char *name, vc_err *err)
{
    vc_map m;
    if (exchange_has_value(x, name))
        return 0;
    char *path = vc_path_join(x->dir, name);
    int rc = path ? vc_map_open(&m, path, err) : vc_no_memory(err);
    if (!rc) {
        rc = vc_context(err, exchange_put_value(x, name, m.data, m.size, err), "%s", x->dir);
        vc_map_close(&m);
    }
    free(path);
    return rc;
}

static int put_ref(void *arg, const char *name, const char *role, vc_err *err)
{
    (void)role;
    return exchange_put_file(arg, name, err);
}

static int put_prompt(void *arg, const cJSON *o, vc_err *err)
{
    exchange *x = arg;
    int rc = prompt_refs(o, put_ref, x, err);
    return rc ? rc : vf_writer_put_validation(x->sink->w, x->sink->next++, o, err);
}

static int put_prompts(exchange *x, vc_err *err)
{
    char *path = vc_path_join(x->dir, "validation.jsonl");
    int rc = 0;
    if (!path)
        return vc_no_memory(err);
    if (vc_file_exists(path))
        rc = exchange_lines(path, put_prompt, x, err);
    free(path);
    return rc;
}

int exchange_read_frame(exchange *x, vc_err *err)
{
    cJSON *head = NULL;
    x->sink = calloc(1, sizeof *x->sink);
    if (!x->sink)
        return vc_no_memory(err);
    x->sink->whole = true;
    int rc = vf_json_read_in(&head, x->dir, VF_MANIFEST, VF_MAX_LIST, err);
    const vf_writer_opts o = { .head = head, .check = vf_copy_room,
                               .shard_size = x->v->o->shard_size };
    if (!rc && !cJSON_IsObject(head))
        rc = vc_fail(err, VC_EFORMAT, "%s/%s: an object expected", x->dir, VF_MANIFEST);
    if (!rc)
        rc = vf_writer_open(&x->sink->w, x->v->o->out, &o, err);
    if (!rc)
        rc = encoder_refs(head, put_ref, x, err);
    if (!rc)
        rc = put_prompts(x, err);
    cJSON_Delete(head);
    return rc;
}

int exchange_stem(char buf[24], const cJSON *record, vc_err *err)
{
    int64_t number = 0, variant = 0;
    int rc = vf_json_int(record, "sample", &number, err);
    if (!rc)
        rc = vf_json_int_opt(record, "variant", &variant, err);
    if (!rc && (number < 0 || number > UINT32_MAX || variant < 0 || variant > VF_MAX_VARIANT))
        rc = vc_fail(err, VC_EFORMAT, "sample %" PRId64 ", variant %" PRId64, number, variant);
    if (!rc)
        snprintf(buf, 24, "%012" PRIu32 "-%03u", (uint32_t)number, (unsigned)variant & 0xffff);
    return rc;
}

int exchange_put_record(exchange *x, const cJSON *record, const void *thumb, size_t thumb_n,
                        vc_err *err)
{
    char stem[24];
    int rc = exchange_stem(stem, record, err);
    if (!rc && thumb_n && !vf_is_jpeg(thumb, thumb_n))
        rc = vc_fail(err, VC_EFORMAT, "%s: the thumbnail is no JPEG", stem);
    if (!rc)
        rc = vf_writer_put_sample(x->sink->w, (uint32_t)strtoul(stem, NULL, 10),
                                  (uint32_t)strtoul(strchr(stem, '-') + 1, NULL, 10), record, thumb,
                                  thumb_n, err);
    x->sink->records += !rc;
    return rc ? rc : exchange_stopped(err);
}

int exchange_lines(const char *path, int (*fn)(void *arg, const cJSON *o, vc_err *err), void *arg,
                   vc_err *err)
{
    vc_map m;
    int rc = vc_map_open(&m, path, err);
    if (rc)
        return rc;
    vc_lines l = vc_lines_of(m.data, m.size, VF_MAX_RECORD);
    const char *line;
    size_t n;
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line) {
        cJSON *o = NULL;
        rc = n ? vf_json_parse(&o, line, n, err) : 0;
        if (o)
            rc = cJSON_IsObject(o) ? fn(arg, o, err)
                                   : vc_fail(err, VC_EFORMAT, "an object expected");
        cJSON_Delete(o);
        if (vc_context(err, rc, "line %" PRId64, l.number))
            break;
    }
    vc_map_close(&m);
    return vc_context(err, rc, "%s", path);
}
