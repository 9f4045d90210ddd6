/* sums.c - writes and checks checksums.json. See sums.h */
#include "formats/tensors/sums.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/safetensors.h"

enum { FORMAT = 1, MAX_SUMS = 256 << 20, HEX64 = 17, DEEPEST = 16 };

#define TAIL ",\"xxh3\":\""                       /* followed by 32 digits and END */
#define END "\"}\n"
enum { TAIL_BYTES = sizeof TAIL - 1 + 32 + sizeof END - 1 };

struct vf_sums {
    char *dir;
    vc_buf text;
    int files, tensors;                           /* files so far, tensors of the current file */
};

/* ---- writing ---- */

int vf_sums_open(vf_sums **out, const char *dir, vc_err *err)
{
    vf_sums *s = *out = calloc(1, sizeof *s);
    if (s && (s->dir = strdup(dir))) {
        vc_buf_printf(&s->text, "{\"format\":%d,\"files\":[", FORMAT);
        return 0;
    }
    vf_sums_close(s);
    *out = NULL;
    return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
}

void vf_sums_close(vf_sums *s)
{
    if (!s)
        return;
    vc_buf_free(&s->text);
    free(s->dir);
    free(s);
}

void vf_sums_begin(vf_sums *s, const char *path)
{
    size_t n = strlen(s->dir);
    const char *name = strncmp(path, s->dir, n) ? path : path + n;
    name += strspn(name, "/");
    vc_buf_str(&s->text, s->files++ ? ",{\"name\":" : "{\"name\":");
    vc_buf_json(&s->text, name, strlen(name));
    s->tensors = 0;
}

void vf_sums_tensor(vf_sums *s, const char *name, uint64_t xxh3)
{
    vc_buf_str(&s->text, s->tensors++ ? "," : ",\"tensors\":{");
    vc_buf_json(&s->text, name, strlen(name));
    vc_buf_printf(&s->text, ":\"%016" PRIx64 "\"", xxh3);
}

void vf_sums_end(vf_sums *s, uint64_t bytes, vf_key xxh3)
{
    char hex[VF_KEY_HEX];
    vc_buf_printf(&s->text, "%s,\"bytes\":%" PRIu64 ",\"xxh3\":\"%s\"}", s->tensors ? "}" : "",
                  bytes, vf_key_hex(hex, xxh3));
}

int vf_sums_put(vf_sums *s, const char *path, const void *data, size_t n, vc_err *err)
{
    int rc = vc_file_write(path, data, n, err);
    if (rc || !s)
        return rc;
    vf_sums_begin(s, path);
    vf_sums_end(s, n, vf_hash(data, n));
    return 0;
}

int vf_sums_write(const vf_sums *s, vc_err *err)
{
    vc_buf b = { 0 };
    char hex[VF_KEY_HEX], *path = vc_path_join(s->dir, VF_SUMS_FILE);
    vc_buf_add(&b, s->text.data, s->text.n);
    vc_buf_str(&b, "]");
    b.failed |= s->text.failed || !path;
    if (!b.failed)
        vc_buf_printf(&b, TAIL "%s" END, vf_key_hex(hex, vf_hash(b.data, b.n)));
    int rc = b.failed ? vc_fail(err, VC_ENOMEM, "%s/" VF_SUMS_FILE ": out of memory", s->dir)
                      : vc_file_write(path, b.data, b.n, err);
    vc_buf_free(&b);
    free(path);
    return rc;
}

/* ---- checking ---- */

typedef struct check {
    const char *dir;
    const char *const *only;
    vf_sums_found found;
    void *arg;
    const atomic_int *stop;
    vf_sums_report *r;
    cJSON *sums;                                  /* name -> entry, borrowed from the parsed file */
} check;

static void finding(const check *c, const char *file, const char *what)
{
    c->r->findings++;
    c->found(c->arg, file, what);
}

/* Reports an error of reading; the file's path is removed from the error's text. */
static void cannot_read(const check *c, const char *file, const vc_err *why)
{
    char what[400];
    const char *last = strstr(why->text, file);
    last = last && !strncmp(last + strlen(file), ": ", 2) ? last + strlen(file) + 2 : why->text;
    snprintf(what, sizeof what, "cannot be read: %.300s", last);
    finding(c, file, what);
}

/* True if text ends in its own checksum. */
static bool is_whole(const char *text, size_t n)
{
    vf_key want, have;
    if (n < TAIL_BYTES || memcmp(text + n - TAIL_BYTES, TAIL, sizeof TAIL - 1)
        || !vf_key_parse_n(&want, text + n - TAIL_BYTES + sizeof TAIL - 1, 32))
        return false;
    have = vf_hash(text, n - TAIL_BYTES);
    return !memcmp(want.b, have.b, sizeof want.b);
}

/* Reads checksums.json; *o is NULL if the file is missing or damaged. */
static int read_sums(check *c, cJSON **o, vc_err *err)
{
    *o = NULL;
    vc_err why = { 0 };
    char *path = vc_path_join(c->dir, VF_SUMS_FILE), *text = NULL;
    size_t n;
    int rc = path ? vc_file_read(&text, &n, path, MAX_SUMS, &why)
                  : vc_fail(err, VC_ENOMEM, "%s: out of memory", c->dir);
    free(path);
    c->r->none = rc == VC_ENOENT;
    if (!rc && !is_whole(text, n))
        finding(c, VF_SUMS_FILE, "is damaged: it differs from its own checksum");
    else if (!rc)
        rc = vf_json_parse(o, text, n, &why);
    free(text);
    if (rc == VC_ENOMEM)
        return vc_fail(err, rc, "%s/" VF_SUMS_FILE ": %s", c->dir, why.text);
    if (rc && !c->r->none)
        cannot_read(c, VF_SUMS_FILE, &why);
    return 0;
}

/* Writes the first tensor that differs into name; "" if the header differs or the file is no
 * safetensors file. */
static const char *changed_tensor(const char *path, const cJSON *entry, char name[256])
{
    vf_safetensors *f;
    const cJSON *sums = cJSON_GetObjectItemCaseSensitive(entry, "tensors");
    name[0] = 0;
    if (!sums || vf_safetensors_open(&f, path, NULL))
        return name;
    for (int i = 0; i < vf_safetensors_count(f) && !name[0]; i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        const cJSON *want = cJSON_GetObjectItemCaseSensitive(sums, v->name);
        char hex[HEX64];
        snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits(v->data, v->bytes));
        if (want && cJSON_IsString(want) && strcmp(want->valuestring, hex))
            snprintf(name, 256, " (tensor \"%.200s\")", v->name);
    }
    vf_safetensors_close(f);
    return name;
}

static int check_bytes(check *c, const char *path, const char *name, const cJSON *entry,
                       vc_err *err)
{
    const char *hex;
    char tensor[256], what[400];
    vf_key want, have;
    vc_err why = { 0 };
    if (vf_json_str(entry, "xxh3", &hex, &why) || !vf_key_parse(&want, hex)) {
        finding(c, VF_SUMS_FILE, "an entry has no xxh3");
        return 0;
    }
    int rc = vf_hash_file(&have, path, c->stop, &why);
    if (rc == VC_ESTOP || rc == VC_ENOMEM)
        return vc_fail(err, rc, "%s", why.text);
    if (rc) {
        cannot_read(c, name, &why);
    } else if (memcmp(want.b, have.b, sizeof want.b)) {
        snprintf(what, sizeof what, "is damaged: its bytes differ from their checksum%s",
                 changed_tensor(path, entry, tensor));
        finding(c, name, what);
    }
    c->r->files++;
    return 0;
}

static bool wanted(const check *c, const char *name)
{
    const char *const *p = c->only;
    while (p && *p && strcmp(*p, name))
        p++;
    return !p || *p;
}

static int check_entry(check *c, const cJSON *entry, vc_err *err)
{
    const char *name;
    int64_t bytes;
    struct stat st;
    char what[100];
    if (vf_json_str(entry, "name", &name, NULL) || vf_json_int(entry, "bytes", &bytes, NULL)) {
        finding(c, VF_SUMS_FILE, "an entry has no name or no bytes");
        return 0;
    }
    char *path = vc_path_join(c->dir, name);
    int rc = path && cJSON_AddItemReferenceToObject(c->sums, name, (cJSON *)(uintptr_t)entry)
                 ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", c->dir);
    if (!rc && stat(path, &st)) {
        finding(c, name, errno == ENOENT ? "is missing" : strerror(errno));
    } else if (!rc && st.st_size != bytes) {
        snprintf(what, sizeof what, "is %lld bytes long, %lld were written", (long long)st.st_size,
                 (long long)bytes);
        finding(c, name, what);
    } else if (!rc && wanted(c, name)) {
        rc = check_bytes(c, path, name, entry, err);
        c->r->bytes += (uint64_t)st.st_size;
    }
    free(path);
    return rc;
}

static int check_added(check *c, const char *below, int depth, vc_err *err);

/* Reports a file that has no entry, and looks into folders. Links are skipped: they lead to
 * components of the model that were not trained. */
static int check_name(check *c, const char *name, int depth, vc_err *err)
{
    struct stat st = { 0 };
    char *path = vc_path_join(c->dir, name), *sub = vc_format("%s/", name);
    int rc = path && sub ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", c->dir);
    if (!rc && !lstat(path, &st) && S_ISDIR(st.st_mode) && depth < DEEPEST)
        rc = check_added(c, sub, depth + 1, err);
    else if (!rc && !S_ISLNK(st.st_mode) && strcmp(name, VF_SUMS_FILE) &&
             !cJSON_GetObjectItemCaseSensitive(c->sums, name))
        finding(c, name, "was added: " VF_SUMS_FILE " has no such file");
    free(path);
    free(sub);
    return rc;
}

/* Looks for files without an entry in the subfolder `below`, "" or "transformer/", for example. */
static int check_added(check *c, const char *below, int depth, vc_err *err)
{
    char *dir = vc_path_join(c->dir, below);
    DIR *d = dir ? opendir(dir) : NULL;
    int rc = 0;
    if (!d)
        rc = dir ? vc_fail_errno(err, "%s", dir) : vc_no_memory(err);
    for (struct dirent *e; (e = vc_dir_next(d, dir, &rc, err));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *name = vc_format("%s%s", below, e->d_name);
        rc = name ? check_name(c, name, depth, err) : vc_no_memory(err);
        free(name);
    }
    if (d)
        closedir(d);
    free(dir);
    return rc;
}

int vf_sums_check(const char *dir, const char *const *only, vf_sums_found found, void *arg,
                  const atomic_int *stop, vf_sums_report *r, vc_err *err)
{
    *r = (vf_sums_report){ 0 };
    check c = { .dir = dir, .only = only, .found = found, .arg = arg, .stop = stop, .r = r };
    cJSON *o;
    const cJSON *list, *entry;
    int64_t format;
    int rc = read_sums(&c, &o, err);
    if (rc || !o)
        return rc;
    if (vf_json_int(o, "format", &format, NULL) || format != FORMAT ||
        vf_json_arr(o, "files", &list, NULL)) {
        finding(&c, VF_SUMS_FILE, "has a format that this program does not read");
        cJSON_Delete(o);
        return 0;
    }
    c.sums = cJSON_CreateObject();
    if (!c.sums)
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    cJSON_ArrayForEach(entry, list)
        if (!rc)
            rc = check_entry(&c, entry, err);
    if (!rc)
        rc = check_added(&c, "", 0, err);
    cJSON_Delete(c.sums);
    cJSON_Delete(o);
    return rc;
}
