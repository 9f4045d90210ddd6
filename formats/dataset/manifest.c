/* manifest.c - reads and writes manifest.json, and names the shards' files. See parts.h */
#include "formats/dataset/parts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"

enum { MAX_MANIFEST = 256 << 20, MAX_SETTINGS = 1 << 20 };

const char *const vf_shard_dbs[] = { "sample", "latent", "thumb", "index", NULL };
const char *const vf_text_dbs[] = { "text", "validation", NULL };

/* ---- file names ---- */

bool vf_shard_name_parse(const char *name, bool *text, unsigned *number)
{
    size_t prefix = !strncmp(name, "shard-", 6) ? 6 : !strncmp(name, "text-", 5) ? 5 : 0;
    if (!prefix)
        return false;
    *text = prefix == 5;
    *number = 0;
    const char *p = name + prefix;
    for (int i = 0; i < 5; i++, p++) {
        if (*p < '0' || *p > '9')
            return false;
        *number = 10 * *number + (unsigned)(*p - '0');
    }
    return !strcmp(p, ".lmdb");
}

char *vf_shard_name(char buf[VF_SHARD_NAME], bool text, unsigned number)
{
    snprintf(buf, VF_SHARD_NAME, "%s-%05u.lmdb", text ? "text" : "shard",
             number % (VF_MAX_SHARD + 1));
    return buf;
}

int vf_shard_open(vf_lmdb **out, const char *dir, const char *file, int64_t bytes, vc_err *err)
{
    return vf_shard_open_fetched(out, dir, file, bytes, NULL, err);
}

int vf_shard_open_fetched(vf_lmdb **out, const char *dir, const char *file, int64_t bytes,
                          const vf_fetch *fetch, vc_err *err)
{
    *out = NULL;
    char *path = vc_path_join(dir, file);
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", file);

    struct stat st;
    int rc = 0;
    if (fetch)                               /* it is of the manifest's size */
        rc = 0;
    else if (lstat(path, &st))
        rc = vc_fail_errno(err, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = vc_fail(err, VC_EFORMAT, "%s: not a plain file", path);
    else if (bytes >= 0 && st.st_size != bytes)
        rc = vc_fail(err, VC_EFORMAT,
                     "%s: %lld bytes, the manifest says %" PRId64
                     ": a copy that was cut short? Copy it again",
                     path, (long long)st.st_size, bytes);
    if (!rc)
        rc = vf_lmdb_open_fetched(out, path, fetch, file, err);
    free(path);
    return rc;
}

int vf_shard_tree(const vf_lmdb *m, const char *name, vf_tree *t, vc_err *err)
{
    int rc = vf_lmdb_tree(m, name, t, err);
    return rc == VC_ENOENT ? 0 : rc;
}

/* ---- reading ---- */

static int count_field(const cJSON *o, const char *field, int64_t *v, vc_err *err)
{
    int rc = vf_json_int(o, field, v, err);
    if (!rc && *v < 0)
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is negative", field, *v);
    return rc;
}

static int hash_field(const cJSON *o, const char *field, vf_key *k, vc_err *err)
{
    const char *hex;
    int rc = vf_json_str(o, field, &hex, err);
    if (!rc && !vf_key_parse(k, hex))
        rc = vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", field);
    return rc;
}

static int read_shard(vf_shard_info *s, const cJSON *o, vc_err *err)
{
    *s = (vf_shard_info){ 0 };
    const char *file;
    int rc = vf_json_str(o, "file", &file, err);
    if (rc)
        return rc;
    /* Only these names are allowed: a foreign manifest must not lead out of its folder. */
    if (!vf_shard_name_parse(file, &s->text, &s->number))
        return vc_fail(err, VC_EFORMAT, "file: shard-NNNNN.lmdb or text-NNNNN.lmdb expected");
    snprintf(s->file, sizeof s->file, "%s", file);
    if ((rc = count_field(o, "samples", &s->samples, err)) ||
        (rc = count_field(o, "latents", &s->latents, err)) ||
        (rc = count_field(o, "texts", &s->texts, err)) ||
        (rc = count_field(o, "bytes", &s->bytes, err)) ||
        (rc = hash_field(o, "xxh3", &s->hash, err)))
        return vc_context(err, rc, "%s", s->file);
    return 0;
}

int vf_manifest_add(vf_manifest *m, const vf_shard_info *s, vc_err *err)
{
    const vf_shard_info *before = m->last[s->text] ? &m->shard[m->last[s->text] - 1] : NULL;
    if (before && before->number >= s->number)
        return vc_fail(err, VC_EFORMAT, "%s comes after %s", s->file, before->file);
    vf_shard_info *p = realloc(m->shard, (size_t)(m->n_shards + 1) * sizeof *p);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d shards", m->n_shards + 1);
    m->shard = p;
    p[m->n_shards++] = *s;
    m->last[s->text] = m->n_shards;
    return 0;
}

static int read_fields(vf_manifest *m, vc_err *err)
{
    int64_t format = 0;
    const cJSON *shards, *o;
    int rc = vf_json_int(m->json, "format", &format, err);
    if (!rc && format != VF_FORMAT)
        rc = vc_fail(err, VC_EFORMAT, "format: %" PRId64 ", this program reads %d", format,
                     VF_FORMAT);
    if (rc || (rc = vf_json_bool(m->json, "complete", &m->complete, err)) ||
        (rc = count_field(m->json, "samples", &m->samples, err)) ||
        (rc = hash_field(m->json, "root", &m->root, err)) ||
        (rc = vf_json_arr(m->json, "shards", &shards, err)))
        return rc;
    if (cJSON_GetArraySize(shards) > 2 * (VF_MAX_SHARD + 1))
        return vc_fail(err, VC_EFORMAT, "shards: too many");
    cJSON_ArrayForEach(o, shards) {
        vf_shard_info s;
        if ((rc = read_shard(&s, o, err)) || (rc = vf_manifest_add(m, &s, err)))
            return vc_context(err, rc, "shards[%d]", m->n_shards);
    }
    return 0;
}

/* Reads the fields of m->json, unless rc is an error. A missing field is damage: VC_EFORMAT. */
static int take_fields(vf_manifest *m, int rc, const char *dir, vc_err *err)
{
    if (!rc && (rc = read_fields(m, err)))
        rc = vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s/%s", dir, VF_MANIFEST);
    if (rc)
        vf_manifest_free(m);
    return rc;
}

/* What `vprep --dry_run` leaves in a folder is no dataset. */
#define PLAN_ALONE ", only the plan of `vprep --dry_run`: the same command without it encodes"

int vf_manifest_read(vf_manifest *m, const char *dir, vc_err *err)
{
    *m = (vf_manifest){ 0 };
    int rc = vf_json_read_in(&m->json, dir, VF_MANIFEST, VF_MAX_LIST, err);
    if (rc == VC_ENOENT)
        rc = vc_fail(err, rc, "%s: no latent dataset (no %s)%s", dir, VF_MANIFEST,
                     vc_file_exists_in(dir, "plan.jsonl") ? PLAN_ALONE : "");
    return take_fields(m, rc, dir, err);
}

int vf_manifest_parse(vf_manifest *m, const char *text, size_t n, const char *dir, vc_err *err)
{
    *m = (vf_manifest){ 0 };
    int rc = vf_json_parse(&m->json, text, n, err);
    return take_fields(m, vc_context(err, rc, "%s/%s", dir, VF_MANIFEST), dir, err);
}

void vf_manifest_free(vf_manifest *m)
{
    cJSON_Delete(m->json);
    free(m->shard);
    *m = (vf_manifest){ 0 };
}

/* ---- writing: JSON with a line for each field, bucket and shard, for people to read ---- */

/* The fields that write_fields makes. */
static const char *const derived[] = {
    "format", "program", "complete", "samples", "root", "buckets", "shards",
};

static bool is_derived(const char *name)
{
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
        if (!strcmp(derived[i], name))
            return true;
    return false;
}

void vf_head_clear(cJSON *head)
{
    for (size_t i = 0; head && i < sizeof derived / sizeof *derived; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(head, derived[i]);
}

static int add_field(FILE *f, const char *name, const cJSON *value)
{
    char *line = vf_json_line(value);
    if (line)
        fprintf(f, ",\n \"%s\": %s", name, line);
    free(line);
    return line ? 0 : -1;
}

static int add_lines(FILE *f, const char *name, const cJSON *array)
{
    const cJSON *o;
    const char *before = "\n  ";
    fprintf(f, ",\n \"%s\": [", name);
    cJSON_ArrayForEach(o, array) {
        char *line = vf_json_line(o);
        if (!line)
            return -1;
        fprintf(f, "%s%s", before, line);
        before = ",\n  ";
        free(line);
    }
    fputs("]", f);
    return 0;
}

static cJSON *shards_json(const vf_manifest *m)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < m->n_shards && list; i++) {
        const vf_shard_info *s = &m->shard[i];
        char hex[VF_KEY_HEX];
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(list, o) || !cJSON_AddStringToObject(o, "file", s->file) ||
            vf_json_add_int(o, "samples", s->samples) ||
            vf_json_add_int(o, "latents", s->latents) || vf_json_add_int(o, "texts", s->texts) ||
            vf_json_add_int(o, "bytes", s->bytes) ||
            !cJSON_AddStringToObject(o, "xxh3", vf_key_hex(hex, s->hash))) {
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

static int write_fields(FILE *f, const vf_manifest *m, const cJSON *head, const cJSON *buckets)
{
    char hex[VF_KEY_HEX];
    const cJSON *field;
    cJSON *shards = shards_json(m);
    int rc = shards ? 0 : -1;
    fprintf(f, "{\"format\": %d,\n \"program\": \"vlt %s\",\n \"complete\": %s", VF_FORMAT,
            VLT_VERSION, m->complete ? "true" : "false");
    cJSON_ArrayForEach(field, head)
        if (!is_derived(field->string))
            rc |= add_field(f, field->string, field);
    fprintf(f, ",\n \"samples\": %" PRId64 ",\n \"root\": \"%s\"", m->samples,
            vf_key_hex(hex, m->root));
    rc |= add_lines(f, "buckets", buckets) | (shards ? add_lines(f, "shards", shards) : -1);
    fputs("}\n", f);
    cJSON_Delete(shards);
    return rc;
}

int vf_manifest_write(const vf_manifest *m, const char *dir, const cJSON *head,
                      const cJSON *buckets, vc_err *err)
{
    char *text = NULL, *path = vc_path_join(dir, VF_MANIFEST);
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = path && f ? write_fields(f, m, head, buckets) : -1;
    if (f && fclose(f))
        rc = -1;
    rc = rc ? vc_fail(err, VC_ENOMEM, "%s/%s: out of memory", dir, VF_MANIFEST)
            : vc_file_write(path, text, size, err);
    free(text);
    free(path);
    return rc;
}

/* ---- how a dataset was made ---- */

/* The settings are YAML as vprep writes it: the name of the flag is followed by a plain path, or by
 * one in quotes, of which JSON has the same escapes but \U. A path that is not UTF-8 is lost there
 * (\uFFFD). */
static char *model_of(const char *settings)
{
    static const char flag[] = "\nmodel: ";
    const char *at = strstr(settings, flag);
    const char *path = at ? at + strlen(flag) : "";
    const size_t n = strcspn(path, "\n");
    if (*path != '"')
        return n && *path != '\'' ? strndup(path, n) : NULL;

    cJSON *quoted = cJSON_ParseWithLength(path, n);
    const char *text = cJSON_GetStringValue(quoted);
    char *model = text && *text && !strstr(text, "\xef\xbf\xbd") ? strdup(text) : NULL;
    cJSON_Delete(quoted);
    return model;
}

static char *copy_of(const cJSON *o, const char *field)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, field));
    return text ? strdup(text) : NULL;
}

void vf_dataset_made(vf_made *m, const char *path)
{
    char *settings = vc_path_join(path, "vprep.yaml"), *text = NULL;
    cJSON *manifest = NULL;
    size_t size;
    *m = (vf_made){ 0 };
    if (!vf_json_read_in_opt(&manifest, path, VF_MANIFEST, MAX_MANIFEST, NULL) && manifest) {
        m->family = copy_of(manifest, "family");
        m->vae = copy_of(cJSON_GetObjectItemCaseSensitive(manifest, "vae"), "class");
    }
    if (settings && !vc_file_read(&text, &size, settings, MAX_SETTINGS, NULL))
        m->model = model_of(text);
    cJSON_Delete(manifest);
    free(settings);
    free(text);
}

void vf_made_free(vf_made *m)
{
    free(m->family);
    free(m->vae);
    free(m->model);
    *m = (vf_made){ 0 };
}
