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

/* True if a role has plain characters only, as roles become parts of file names. */
static bool plain_role(vf_span s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    size_t n = 0;
    while (n < s.n && strchr(plain, s.p[n]))
        n++;
    return n && n == s.n && n < 32;
}

/* Writes the role of a reference, of which a file's name is made, such as "text.0.0" for one of a
 * record's texts. */
static void role_of(char role[40], const vf_ref *ref, bool record)
{
    if (record && ref->text && ref->caption == VF_OWN_EMPTY)
        snprintf(role, 40, "text.empty.%d", ref->encoder);
    else if (record && ref->text)
        snprintf(role, 40, "text.%d.%d", ref->caption, ref->encoder);
    else
        snprintf(role, 40, "%.*s", (int)ref->role.n, ref->role.p);
}

static int call_each(const vf_refs *refs, bool record, exchange_ref_fn fn, void *arg, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < refs->n; i++) {
        const vf_ref *ref = &refs->item[i];
        char role[40] = "latent";            /* the first one of a record */
        if (!plain_role(ref->role))
            return vc_fail(err, VC_EFORMAT, "conditions: a role with odd characters");
        if (i || !record)
            role_of(role, ref, record);
        rc = ref->valid ? fn(arg, ref, role, err)
                        : vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", role);
    }
    return rc;
}

int exchange_refs(const cJSON *record, exchange_ref_fn fn, void *arg, vc_err *err)
{
    vf_refs refs = { .n = 0 };
    int rc = vf_record_refs(&refs, record, err);
    rc = rc ? rc : call_each(&refs, true, fn, arg, err);
    free(refs.item);
    return rc;
}

/* Calls fn for the references that `list` finds in o, a prompt or a manifest. */
static int other_refs(int (*list)(vf_refs *refs, const cJSON *o, vc_err *err), const cJSON *o,
                      exchange_ref_fn fn, void *arg, vc_err *err)
{
    vf_refs refs = { .n = 0 };
    int rc = list(&refs, o, err);
    rc = rc ? rc : call_each(&refs, false, fn, arg, err);
    free(refs.item);
    return rc;
}

/* Writes a value's name, "latents/KEY.safetensors" or "texts/KEY.safetensors". */
static const char *name_of(char name[EXCHANGE_VALUE_NAME], const vf_ref *ref)
{
    char hex[VF_KEY_HEX];
    snprintf(name, EXCHANGE_VALUE_NAME, "%s/%s.safetensors", ref->text ? "texts" : "latents",
             vf_key_hex(hex, ref->key));
    return name;
}

/* ---- export ---- */

int exchange_write_value(exchange *x, const vf_ref *ref, vc_err *err)
{
    const void *data;
    size_t n;
    char name[EXCHANGE_VALUE_NAME];
    name_of(name, ref);
    const vf_key k = vf_hash(name, strlen(name));
    if (vf_keymap_get(&x->written, k, NULL))
        return 0;
    int rc = vf_dataset_bytes(x->d, ref->text, ref->key, &data, &n, err);
    if (!rc)
        rc = exchange_write(x->dir, name, data, n, err);
    return rc ? rc : vf_keymap_put(&x->written, k, 0, err);
}

static int write_ref(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    (void)role;
    return exchange_write_value(arg, ref, err);
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
        rc = other_refs(vf_manifest_refs, x->manifest, write_ref, x, err);
    for (uint32_t i = 0; !rc && i < vf_dataset_validations(x->d); i++) {
        cJSON *o;
        rc = vf_dataset_validation(x->d, i, &o, err);
        if (!rc)
            rc = other_refs(vf_prompt_refs, o, write_ref, x, err);
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

bool exchange_has_value(const exchange *x, const vf_ref *ref)
{
    return ref->text ? vf_writer_has_text(x->sink->w, ref->key)
                     : vf_writer_has_latent(x->sink->w, ref->key);
}

int exchange_put_value(exchange *x, const vf_ref *ref, const void *data, size_t n, vc_err *err)
{
    vf_safetensors *st;
    char name[EXCHANGE_VALUE_NAME];
    int rc = vf_safetensors_parse(&st, data, n, err);
    if (!rc) {
        rc = vf_safetensors_check(st, err);
        if (!rc)
            rc = exchange_check_value(ref->text, st, err);
        vf_safetensors_close(st);
    }
    if (!rc)
        rc = ref->text ? vf_writer_put_text(x->sink->w, ref->key, data, n, err)
                       : vf_writer_put_latent(x->sink->w, ref->key, data, n, err);
    return vc_context(err, rc, "%s", name_of(name, ref));
}

int exchange_put_file(exchange *x, const vf_ref *ref, vc_err *err)
{
    vc_map m;
    char name[EXCHANGE_VALUE_NAME];
    if (exchange_has_value(x, ref))
        return 0;
    char *path = vc_path_join(x->dir, name_of(name, ref));
    int rc = path ? vc_map_open(&m, path, err) : vc_no_memory(err);
    if (!rc) {
        rc = vc_context(err, exchange_put_value(x, ref, m.data, m.size, err), "%s", x->dir);
        vc_map_close(&m);
    }
    free(path);
    return rc;
}

static int put_ref(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    (void)role;
    return exchange_put_file(arg, ref, err);
}

static int put_prompt(void *arg, const cJSON *o, vc_err *err)
{
    exchange *x = arg;
    int rc = other_refs(vf_prompt_refs, o, put_ref, x, err);
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
        rc = other_refs(vf_manifest_refs, head, put_ref, x, err);
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
        rc = n ? vf_json_parse_line(&o, line, n, err) : 0;
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
