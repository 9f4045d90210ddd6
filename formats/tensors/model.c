/* model.c - opens the weights of a component, in one file or in shards; see model.h */
#include "formats/tensors/model_parts.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/scales.h"

enum { MAX_INDEX = 64 << 20, MAX_SHARDS = 4096 };

/* ---- choice of a file in a folder ---- */

/* A weights file or index, named stem[.variant].safetensors[.index[.variant].json] */
typedef struct candidate {
    char *name;
    int rank;                    /* the candidate of the lowest rank is opened */
} candidate;

/* The number of digits before `end`, none of them before `begin`. */
static size_t digits_before(const char *end, const char *begin)
{
    size_t n = 0;
    while (end - n > begin && end[-1 - (ptrdiff_t)n] >= '0' && end[-1 - (ptrdiff_t)n] <= '9')
        n++;
    return n;
}

/* True for a name with "-00001-of-00003": a shard is never opened by itself. */
static bool is_shard(const char *name)
{
    for (const char *p = name; (p = strstr(p, "-of-")); p++) {
        size_t before = digits_before(p, name), after = strspn(p + 4, "0123456789");
        if (before && after && p - before > name && p[-1 - (ptrdiff_t)before] == '-')
            return true;
    }
    return false;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static bool is_pickle(const char *name)
{
    static const char *const ends[] = { ".pth", ".pt", ".bin", ".ckpt" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Ranks a name: diffusers' stem, then transformers' stem, then any other; for each stem no variant,
 * then bf16, fp16 and others; for each variant a whole file, then an index. -1: no candidate. */
static int rank_of(const char *name)
{
    static const char *const stems[] = { "diffusion_pytorch_model", "model" };
    static const char *const variants[] = { "", ".bf16", ".fp16" };
    bool index = strstr(name, ".safetensors.index.") && ends_with(name, ".json");

    if ((!index && !ends_with(name, ".safetensors")) || is_shard(name) || *name == '.')
        return -1;
    for (int s = 0; s < 2; s++) {
        size_t n = strlen(stems[s]);
        if (strncmp(name, stems[s], n) || name[n] != '.')
            continue;
        for (int v = 0; v < 3; v++) {
            char *want = index ? vc_format(".safetensors.index%s.json", variants[v])
                               : vc_format("%s.safetensors", variants[v]);
            bool same = want && !strcmp(name + n, want);
            free(want);
            if (same)
                return s * 16 + v * 2 + index;
        }
        return s * 16 + 8;
    }
    return 32;
}

/* Other files of weights in a folder that has no candidate. */
typedef struct rest {
    char shard[NAME_MAX + 1];            /* name of a shard, or "" */
    char pickle[NAME_MAX + 1];           /* name of a pickle, or "": for the error */
} rest;

static void look_at(rest *r, const char *name)
{
    if (ends_with(name, ".safetensors") && is_shard(name) &&
        (!*r->shard || strcmp(name, r->shard) < 0))
        snprintf(r->shard, sizeof r->shard, "%s", name);
    if (is_pickle(name))
        snprintf(r->pickle, sizeof r->pickle, "%s", name);
}

static int no_candidate(const rest *r, const char *dir, vc_err *err)
{
    if (*r->pickle)
        return vc_fail(err, VC_ENOENT, "%s: no .safetensors file, but %s, which is read only where "
                       "a flag names the file itself", dir, r->pickle);
    return vc_fail(err, VC_ENOENT, "%s: no .safetensors file", dir);
}

static int list_candidates(candidate **list, int *n, rest *r, const char *dir, vc_err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return vc_fail_errno(err, "%s", dir);

    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, dir, &rc, err));) {
        look_at(r, e->d_name);
        int rank = rank_of(e->d_name);
        if (rank < 0)
            continue;
        candidate *more = realloc(*list, ((size_t)*n + 1) * sizeof **list);
        char *name = more ? strdup(e->d_name) : NULL;
        if (more)
            *list = more;
        if (name)
            (*list)[(*n)++] = (candidate){ .name = name, .rank = rank };
        else
            rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    }
    closedir(d);
    return rc;
}

static int by_rank(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    return a->rank != b->rank ? a->rank - b->rank : strcmp(a->name, b->name);
}

/* Sets *file to the path of the weights file, index or first shard of folder dir; the caller frees
 * *file. */
static int choose_file(char **file, const char *dir, vc_err *err)
{
    candidate *list = NULL;
    int n = 0;
    rest r = { 0 };
    *file = NULL;
    int rc = list_candidates(&list, &n, &r, dir, err);
    if (!rc && n)
        qsort(list, (size_t)n, sizeof *list, by_rank);
    if (!rc && !n && !*r.shard)
        rc = no_candidate(&r, dir, err);
    if (!rc && n > 1 && list[0].rank == list[1].rank)
        rc = vc_fail(err, VC_EINVAL, "%s: several files of weights (%s, %s): name one", dir,
                     list[0].name, list[1].name);
    if (!rc && !(*file = vc_path_join(dir, n ? list[0].name : r.shard)))
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    for (int i = 0; i < n; i++)
        free(list[i].name);
    free(list);
    return rc;
}

/* ---- one file ---- */

static int add_shard(vf_model *m, const char *path, vc_err *err)
{
    vf_safetensors **more = realloc(m->shard, ((size_t)m->n_shards + 1) * sizeof *more);
    if (!more)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    m->shard = more;

    int rc = vf_safetensors_open(&m->shard[m->n_shards], path, err);
    m->n_shards += rc == 0;
    return rc;
}

/* Adds the tensors of the shard that was opened last. */
static int add_tensors(vf_model *m, vc_err *err)
{
    const vf_safetensors *f = m->shard[m->n_shards - 1];
    int n = vf_safetensors_count(f);
    vf_view *more = realloc(m->tensor, (size_t)(m->n + n + 1) * sizeof *more);
    if (!more)
        return vc_no_memory(err);
    m->tensor = more;
    for (int i = 0; i < n; i++)
        m->tensor[m->n++] = *vf_safetensors_at(f, i);
    return 0;
}

/* The dict of tensors in a file: the root, or the value of a key that trainers put around it. */
static const vf_pt_value *state_of(const vf_pt *p)
{
    static const char *const around[] = { "state_dict", "model_state_dict", "model", "module" };
    const vf_pt_value *root = vf_pt_root(p);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        const vf_pt_value *v = vf_pt_get(root, around[i]);
        if (v && v->kind == VF_PT_DICT)
            return v;
    }
    return root;
}

/* Adds the tensors of a file of torch.save. Entries that are no tensors, such as a number of steps,
 * are no weights. */
static int open_pt(vf_model *m, const char *path, vc_err *err)
{
    int rc = vf_pt_open_weights(&m->pt, path, err);
    if (rc)
        return rc;
    const vf_pt_value *state = state_of(m->pt);
    if (state->kind != VF_PT_DICT)
        return vc_fail(err, VC_EFORMAT, "%s: no dict of tensors by name", path);
    m->tensor = calloc(state->n + 1, sizeof *m->tensor);
    m->name = calloc(state->n + 1, sizeof *m->name);
    if (!m->tensor || !m->name)
        return vc_no_memory(err);
    for (size_t i = 0; i < state->n; i++) {
        const vf_pt_value *key = state->item[2 * i], *v = state->item[2 * i + 1];
        if (key->kind != VF_PT_STR || v->kind != VF_PT_TENSOR)
            continue;
        m->tensor[m->n] = *v->tensor;
        m->tensor[m->n].name = m->name[m->n_names] = strndup(key->s, key->n);
        if (!m->name[m->n_names])
            return vc_no_memory(err);
        m->n_names++;
        m->n++;
    }
    return vc_context(err, vf_model_sort(m, err), "%s", path);
}

static int open_single(vf_model *m, const char *path, vc_err *err)
{
    if (is_pickle(path))
        return open_pt(m, path, err);
    int rc = add_shard(m, path, err);
    return rc ? rc : add_tensors(m, err);
}

/* ---- shards ---- */

typedef struct mapped {
    const char *tensor, *file;
} mapped;

static int by_file(const void *pa, const void *pb)
{
    return strcmp(((const mapped *)pa)->file, ((const mapped *)pb)->file);
}

/* Reads weight_map into an array sorted by file. */
static int read_map(mapped **out, int *n, const cJSON *index, vc_err *err)
{
    const cJSON *map;
    int rc = vf_json_obj(index, "weight_map", &map, err);
    if (rc)
        return rc;

    *n = cJSON_GetArraySize(map);
    *out = malloc(((size_t)*n + 1) * sizeof **out);
    if (!*out)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d tensors", *n);
    mapped *to = *out;
    for (const cJSON *c = map->child; c; c = c->next) {
        /* The files of an index must lie in its folder. */
        if (!cJSON_IsString(c) || strchr(c->valuestring, '/')
            || !ends_with(c->valuestring, ".safetensors"))
            return vc_fail(err, VC_EFORMAT, "weight_map: %.100s: no file of this folder",
                           c->string);
        *to++ = (mapped){ .tensor = c->string, .file = c->valuestring };
    }
    qsort(*out, (size_t)*n, sizeof **out, by_file);
    return 0;
}

static int open_shards(vf_model *m, const char *dir, const mapped *map, int n, vc_err *err)
{
    m->tensor = malloc(((size_t)n + 1) * sizeof *m->tensor);
    if (!m->tensor)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d tensors", n);

    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        if (i == 0 || by_file(&map[i - 1], &map[i])) {
            char *path = vc_format("%s%s", dir, map[i].file);
            rc = !path ? vc_no_memory(err)
               : m->n_shards == MAX_SHARDS ? vc_fail(err, VC_EFORMAT, "over %d shards", MAX_SHARDS)
               : add_shard(m, path, err);
            free(path);
        }
        if (!rc)
            rc = vc_context(err, vf_safetensors_get(m->shard[m->n_shards - 1], map[i].tensor,
                                                    &m->tensor[i], err), "%s", map[i].file);
        m->n += rc == 0;
    }
    return rc ? rc : vf_model_sort(m, err);
}

/* Opens all shards of a set without an index, as downloads by a pattern leave them. The file names
 * hold the number of shards: stem-00001-of-00003.safetensors. */
static int open_set(vf_model *m, const char *first, vc_err *err)
{
    const char *of = strstr(vc_path_base(first), "-of-");
    const char *number = of ? of - digits_before(of, vc_path_base(first)) : NULL;
    long all = of ? strtol(of + 4, NULL, 10) : 0;
    int rc = 0;
    if (!number || all < 1 || all > MAX_SHARDS)
        return vc_fail(err, VC_EFORMAT, "%s: no shard of 1 to %d", first, MAX_SHARDS);
    for (long i = 1; !rc && i <= all; i++) {
        char *path = vc_format("%.*s%0*ld%s", (int)(number - first), first, (int)(of - number), i,
                               of);
        rc = path ? add_shard(m, path, err) : vc_no_memory(err);
        if (rc == VC_ENOENT)
            rc = vc_fail(err, rc, "%s: missing, and the folder has no index of its shards", path);
        free(path);
        if (!rc)
            rc = add_tensors(m, err);
    }
    return rc ? rc : vc_context(err, vf_model_sort(m, err), "%s", first);
}

static int open_index(vf_model *m, const char *path, vc_err *err)
{
    cJSON *index = NULL;
    mapped *map = NULL;
    int n = 0;
    char *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    if (!dir)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    int rc = vf_json_read(&index, path, MAX_INDEX, err);
    if (!rc) {
        rc = read_map(&map, &n, index, err);
        if (!rc)
            rc = open_shards(m, dir, map, n, err);
        rc = vc_context(err, rc, "%s", path);
    }
    free(map);
    free(dir);
    cJSON_Delete(index);
    return rc;
}

int vf_model_open(vf_model **out, const char *path, vc_err *err)
{
    struct stat st;
    char *file = NULL;
    *out = NULL;
    vf_model *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    int rc = stat(path, &st) ? vc_fail_errno(err, "%s", path) : 0;
    if (!rc && S_ISDIR(st.st_mode))
        rc = choose_file(&file, path, err);
    const char *use = file ? file : path;
    if (!rc)
        rc = ends_with(use, ".json") ? open_index(m, use, err)
           : file && is_shard(vc_path_base(use)) ? open_set(m, use, err)
           : open_single(m, use, err);
    if (!rc) {
        rc = vf_model_take_packed(m, err);
        if (!rc)
            rc = vf_model_take_scales(m, err);
        vc_context(err, rc, "%s", path);
    }
    free(file);
    if (rc) {
        vf_model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}
