/* origins.c - see origins.h */
#include "formats/tensors/origins.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/hub.h"
#include "formats/tensors/component.h"

/* ---- a component ---- */

/* The slot of a folder's name, as diffusers or first authors have it; NULL: another name. */
static const char *slot_of_name(const char *name, size_t n)
{
    static const char *const slots[] = { "vae", "text_encoder", "text_encoder_2", "text_encoder_3",
                                         "image_encoder", "transformer", "transformer_2" };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (strlen(slots[i]) == n && !memcmp(slots[i], name, n))
            return slots[i];
    for (const vc_family *f = vc_families(); f->name; f++)
        for (int i = 0; f->first && i < VC_FIRST_PARTS && f->first->part[i].slot; i++)
            if (strlen(f->first->part[i].name) == n && !memcmp(f->first->part[i].name, name, n))
                return f->first->part[i].slot;
    return NULL;
}

/* The folder of a path, malloc'ed: "." for a bare name. */
static char *folder_of(const char *path)
{
    size_t n = (size_t)(vc_path_base(path) - path);
    return n ? vc_format("%.*s", n > 1 ? (int)n - 1 : 1, path) : strdup(".");
}

/* A folder that the components of one model share. */
static bool is_model(const char *dir)
{
    char *vae = NULL;
    bool is = vc_file_exists_in(dir, "model_index.json") || vc_file_exists_in(dir, "config.json") ||
              (!vf_component_find(&vae, dir, "vae", NULL) && vae);
    free(vae);
    return is;
}

typedef struct found {
    vf_origin_found call;
    void *arg;
    vc_err *err;
} found;

/* Reports the component of n files, which lie in one folder if there are several. */
static int take(const found *to, char *const *file, size_t n)
{
    char *dir = folder_of(file[0]), *root = dir ? folder_of(dir) : NULL;
    if (!root) {
        free(dir);
        return vc_no_memory(to->err);
    }
    const char *name = vc_path_base(dir), *slot = slot_of_name(name, strlen(name));
    const char *model = slot ? root : dir, *path = slot || n > 1 ? dir : file[0];
    int rc = slot ? 0 : vf_component_slot(&slot, path, to->err);
    if (!rc && !slot)
        rc = vc_fail(to->err, VC_EUSAGE, "%s: its tensors have no names of a known component: name "
                     "the file by --vae, --text_encoder or --transformer", file[0]);
    if (!rc)
        rc = to->call(to->arg, slot, path, to->err);
    if (!rc && !strncmp(slot, "transformer", 11) && is_model(model))
        rc = to->call(to->arg, "model", model, to->err);
    free(dir);
    free(root);
    return rc;
}

/* ---- --model_paths ---- */

static int take_paths(const found *to, const cJSON *entry)
{
    size_t n = 0, all = cJSON_IsArray(entry) ? (size_t)cJSON_GetArraySize(entry) : 1;
    char **file = calloc(all + 1, sizeof *file);
    int rc = file ? 0 : vc_no_memory(to->err);
    const cJSON *first = cJSON_IsArray(entry) ? entry->child : entry;
    for (const cJSON *o = first; !rc && o && n < all; o = o->next, n++) {
        file[n] = cJSON_IsString(o) ? o->valuestring : NULL;
        if (!file[n])
            rc = vc_fail(to->err, VC_EUSAGE, "--model_paths: a list of files, or of lists of the "
                         "shards of one component, is expected");
        else if (!vc_file_exists(file[n]))
            rc = vc_fail(to->err, VC_EUSAGE, "--model_paths: %s: no such file (nothing is "
                         "downloaded)", file[n]);
    }
    if (!rc && n)
        rc = take(to, file, n);
    free(file);
    return rc;
}

static int read_paths(const found *to, const char *paths)
{
    cJSON *list;
    int rc = vf_json_parse(&list, paths, strlen(paths), to->err);
    if (rc)
        return vc_context(to->err, VC_EUSAGE, "--model_paths");
    if (!cJSON_IsArray(list))
        rc = vc_fail(to->err, VC_EUSAGE, "--model_paths: a JSON list is expected: '[\"a.safetensors"
                     "\", [\"b-1.safetensors\", \"b-2.safetensors\"]]'");
    const cJSON *entry;
    if (!rc)
        cJSON_ArrayForEach(entry, list)
            if (!rc)
                rc = take_paths(to, entry);
    cJSON_Delete(list);
    return rc;
}

/* ---- --model_id_with_origin_paths ---- */

static int missing(const char *base, const char *id, const char *pattern, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--model_id_with_origin_paths %s:%s: no such file in %s/%s, and "
                   "nothing is downloaded: run `modelscope download --model %s --include '%s' "
                   "--local_dir %s/%s`, or set DIFFSYNTH_MODEL_BASE_PATH to the folder that holds "
                   "%s", id, pattern, base, id, id, pattern, base, id, id);
}

/* The files of a model that the hubs' own tools put elsewhere. Returns what glob returns. */
static int glob_cached(glob_t *g, const char *id, const char *pattern)
{
    vc_hub_name name;
    char *dir = vc_hub_name_read(&name, id) ? vc_hub_find(&name) : NULL;
    char *path = dir ? vc_format("%s/%s", dir, pattern) : NULL;
    int got = path ? glob(path, 0, NULL, g) : GLOB_NOMATCH;
    free(path);
    free(dir);
    return got;
}

static int take_pattern(const found *to, const char *base, const char *id, const char *pattern)
{
    glob_t g = { 0 };
    char *path = vc_format("%s/%s/%s", base, id, pattern);
    if (!path)
        return vc_no_memory(to->err);
    int got = glob(path, 0, NULL, &g);
    if (got == GLOB_NOMATCH)
        got = glob_cached(&g, id, pattern);
    int rc = got == GLOB_NOSPACE ? vc_no_memory(to->err)
           : got || !g.gl_pathc ? missing(base, id, pattern, to->err)
           : take(to, g.gl_pathv, g.gl_pathc);
    if (!got)
        globfree(&g);
    free(path);
    return rc;
}

static const char *base_path(void)
{
    const char *base = getenv("DIFFSYNTH_MODEL_BASE_PATH");
    return base && *base ? base : "./models";
}

int vf_origin_path(char **out, const char *text, vc_err *err)
{
    const char *colon = strrchr(text, ':'), *base = base_path();
    *out = NULL;
    if (!colon || colon == text || !colon[1] || colon[1] == '/' || vc_file_exists(text))
        return 0;
    char *id = strndup(text, (size_t)(colon - text));
    char *path = id ? vc_format("%s/%s/%s", base, id, colon + 1) : NULL;
    glob_t g = { 0 };
    int got = path ? glob(path, 0, NULL, &g) : GLOB_NOSPACE;
    if (got == GLOB_NOMATCH)
        got = glob_cached(&g, id, colon + 1);
    int rc = got == GLOB_NOSPACE ? vc_no_memory(err)
           : got || !g.gl_pathc ? missing(base, id, colon + 1, err) : 0;
    if (!rc && !(*out = strdup(g.gl_pathv[0])))
        rc = vc_no_memory(err);
    if (!got)
        globfree(&g);
    free(path);
    free(id);
    return rc;
}

static int read_id(const found *to, const char *base, char *entry)
{
    char *colon = strrchr(entry, ':');
    if (!colon || colon == entry)
        return vc_fail(to->err, VC_EUSAGE, "--model_id_with_origin_paths %s: ID:PATTERN is "
                       "expected, as in Wan-AI/Wan2.1-T2V-1.3B:Wan2.1_VAE.pth", entry);
    *colon = 0;
    return take_pattern(to, base, entry, colon + 1);
}

static int read_ids(const found *to, const char *ids)
{
    char *copy = strdup(ids), *rest = copy, *entry;
    int rc = copy ? 0 : vc_no_memory(to->err);
    while (!rc && (entry = strsep(&rest, ","))) {
        entry += strspn(entry, " \n");
        if (*entry)
            rc = read_id(to, base_path(), entry);
    }
    free(copy);
    return rc;
}

int vf_origins(const char *paths, const char *ids, vf_origin_found call, void *arg, vc_err *err)
{
    const found to = { call, arg, err };
    int rc = paths ? read_paths(&to, paths) : 0;
    return !rc && ids ? read_ids(&to, ids) : rc;
}
