/* component.c - see component.h */
#include "formats/tensors/component.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/families.h"
#include "common/os/file.h"
#include "formats/tensors/model_parts.h"

enum { MAX_CONFIG = 1 << 20, MAX_NUMBERS = 4, MAX_COUNT = 1 << 10 };

/* ---- names ---- */

/* The words of a name that a pattern matched: [begin, end), and the numbers of its '#'s. */
typedef struct match {
    size_t begin, end;
    const char *number[MAX_NUMBERS];
    int digits[MAX_NUMBERS], n;
} match;

static bool match_at(match *m, const char *pattern, const char *name, size_t begin)
{
    const char *s = name + begin;
    *m = (match){ .begin = begin };
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*s++ != *pattern)
                return false;
            continue;
        }
        m->number[m->n] = s;
        while (isdigit((unsigned char)*s))
            s++;
        m->digits[m->n] = (int)(s - m->number[m->n]);
        if (!m->digits[m->n++] || m->n == MAX_NUMBERS)
            return false;
    }
    m->end = (size_t)(s - name);
    return !*s || *s == '.';
}

static bool find_words(match *m, const char *pattern, const char *name)
{
    for (size_t i = 0; name[i]; i++)
        if ((!i || name[i - 1] == '.') && match_at(m, pattern, name, i))
            return true;
    return false;
}

/* The name with the words `to` in place of the matched ones. */
static char *replaced(const char *name, const match *m, const char *to)
{
    char *out = vc_format("%.*s", (int)m->begin, name);
    for (int n = 0; out && *to; n++) {
        size_t plain = strcspn(to, "#");
        bool number = to[plain] && n < m->n;
        char *more = vc_format("%s%.*s%.*s", out, (int)plain, to, number ? m->digits[n] : 0,
                               number ? m->number[n] : "");
        free(out);
        out = more;
        to += plain + (to[plain] != 0);
    }
    char *all = out ? vc_format("%s%s", out, name + m->end) : NULL;
    free(out);
    return all;
}

/* Counts the words of "{q,k,v}" in `to`; 1 without braces. */
static int parts_of(const char *to)
{
    const char *open = strchr(to, '{');
    int n = 1;
    for (; open && *open && *open != '}'; open++)
        n += *open == ',';
    return n;
}

/* `to` with the i-th word in place of the braces. */
static char *part_name(const char *to, int i)
{
    const char *open = strchr(to, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close)
        return strdup(to);
    const char *word = open + 1;
    for (; i > 0; i--)
        word += strcspn(word, ",") + 1;
    return vc_format("%.*s%.*s%s", (int)(open - to), to, (int)strcspn(word, ",}"), word, close + 1);
}

static void squeeze(vf_view *v)
{
    int n = 0;
    for (int i = 0; i < v->nd; i++)
        if (v->dim[i] != 1)
            v->dim[n++] = v->dim[i];
    v->nd = n;
}

/* Makes a tensor of one axis one of so many rows. */
static int fold(vf_view *v, int rows, vc_err *err)
{
    if (v->nd != 1)
        return 0;
    if (v->dim[0] % rows)
        return vc_fail(err, VC_EFORMAT, "tensor %s does not consist of %d equal rows", v->name,
                       rows);
    v->dim[1] = v->dim[0] / rows;
    v->dim[0] = rows;
    v->nd = 2;
    return 0;
}

/* Makes v its i-th of n equal parts along the first axis. A scale of one number, which all parts
 * have, stays. */
static int cut(vf_view *v, int i, int n, bool scale, vc_err *err)
{
    if (scale && vf_view_count(v) == 1)
        return 0;
    if (n > 1 && (!v->nd || v->dim[0] % n))
        return vc_fail(err, VC_EFORMAT, "tensor %s does not consist of %d equal parts", v->name, n);
    if (n == 1)
        return 0;
    v->dim[0] /= n;
    v->bytes /= (size_t)n;
    v->data = (const char *)v->data + v->bytes * (size_t)i;
    return 0;
}

/* The tensors of a file while they are renamed. */
typedef struct renamed {
    vf_model *m;
    bool scales;                         /* the tensors are scales of weights */
    vf_view *tensor;
    int n;
    vc_err *err;
} renamed;

/* Gives v a name, which the model owns from here on. */
static int set_name(renamed *to, vf_view *v, char *name)
{
    vf_model *m = to->m;
    char **more = name ? realloc(m->name, ((size_t)m->n_names + 1) * sizeof *more) : NULL;
    if (more)
        m->name = more;
    if (!more) {
        free(name);
        return vc_no_memory(to->err);
    }
    v->name = m->name[m->n_names++] = name;
    return 0;
}

static int add(renamed *to, const vf_view *v)
{
    vf_view *more = realloc(to->tensor, ((size_t)to->n + 1) * sizeof *more);
    if (!more)
        return vc_no_memory(to->err);
    to->tensor = more;
    to->tensor[to->n++] = *v;
    return 0;
}

/* Takes the steps from r on for a tensor, or for each part of the tensor. */
static int rename_tensor(renamed *to, const vf_rename *r, const vf_view *v)
{
    match m;
    int rc = 0;
    while (r->from && !find_words(&m, r->from, v->name))
        r++;
    if (!r->from)
        return add(to, v);
    for (int i = 0, n = r->to ? parts_of(r->to) : 0; !rc && i < n; i++) {
        vf_view part = *v;
        char *words = part_name(r->to, i);
        if (r->squeeze && !to->scales)
            squeeze(&part);
        if (r->rows && !to->scales)
            rc = fold(&part, r->rows, to->err);
        if (!rc)
            rc = cut(&part, i, n, to->scales, to->err);
        if (!rc)
            rc = set_name(to, &part, words ? replaced(v->name, &m, words) : NULL);
        free(words);
        if (!rc)
            rc = rename_tensor(to, r + 1, &part);
    }
    return rc;
}

/* Cuts the prefix off v's name; false: the name has another one. */
static bool cut_prefix(vf_view *v, const char *prefix)
{
    const size_t n = prefix ? strlen(prefix) : 0;
    if (n && strncmp(v->name, prefix, n))
        return false;
    v->name += n;
    return true;
}

static bool begins_with(const char *name, const char *const *prefixes)
{
    while (*prefixes && strncmp(name, *prefixes, strlen(*prefixes)))
        prefixes++;
    return *prefixes;
}

/* Leaves out the tensors without any of the layout's prefixes. */
static void keep_only(renamed *to, const char *const *prefixes)
{
    int n = 0;
    for (int i = 0; i < to->n; i++)
        if (!prefixes || begins_with(to->tensor[i].name, prefixes))
            to->tensor[n++] = to->tensor[i];
    to->n = n;
}

static int rename_list(vf_view **v, int *n, const vf_layout *l, renamed *to)
{
    int rc = 0;
    for (int i = 0; !rc && i < *n; i++)
        if (cut_prefix(&(*v)[i], l->within))
            rc = rename_tensor(to, l->names, &(*v)[i]);
    keep_only(to, l->only);
    free(*v);
    *v = to->tensor;
    *n = to->n;
    return rc;
}

static int rename_all(vf_model *m, const vf_layout *l, vc_err *err)
{
    renamed tensors = { .m = m, .err = err }, scales = { .m = m, .scales = true, .err = err };
    int rc = rename_list(&m->tensor, &m->n, l, &tensors);
    if (!rc)
        rc = rename_list(&m->scale, &m->n_scales, l, &scales);
    if (!rc)
        rc = vf_model_sort(m, err);
    return rc ? rc : vf_model_sort_scales(m, err);
}

/* ---- files ---- */

static bool has(const vf_model *m, const char *name)
{
    vf_view v;
    return !vf_model_get(m, name, &v, NULL);
}

static bool is_wanted(const vf_layout *l, const char *slot, const char *class)
{
    return (slot && !strcmp(l->slot, slot)) ||
           (class && (!strcmp(l->class, class) || (l->also && !strcmp(l->also, class))));
}

/* The layout of a file, of those that fit the first of the wanted component; without such a one the
 * first. */
static const vf_layout *layout_of(const vf_model *m, const char *slot, const char *class)
{
    const vf_layout *first = NULL;
    for (const vf_layout *l = vf_layouts; *l->marks; l++) {
        if (!has(m, l->marks[0]) || (l->marks[1] && !has(m, l->marks[1])))
            continue;
        if (is_wanted(l, slot, class))
            return l;
        first = first ? first : l;
    }
    return first;
}

static bool is_file(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Opens a component, and finds the layout of a file or a folder that has no config.json; *l is NULL
 * for other folders and where none fits. */
static int open_path(vf_model **out, const vf_layout **l, const char *path, const char *slot,
                     const char *class, vc_err *err)
{
    int rc = vf_model_open(out, path, err);
    *l = rc || vc_file_exists_in(path, "config.json") ? NULL : layout_of(*out, slot, class);
    if (rc || !*l || !(*l)->names)
        return rc;
    rc = vc_context(err, rename_all(*out, *l, err), "%s", path);
    if (rc) {
        vf_model_close(*out);
        *out = NULL;
    }
    return rc;
}

int vf_component_open(vf_model **out, const char *path, const char *slot, vc_err *err)
{
    const vf_layout *l;
    return open_path(out, &l, path, slot, NULL, err);
}

int vf_component_slot(const char **slot, const char *path, vc_err *err)
{
    const vf_layout *l = NULL;
    vf_model *m;
    int rc = open_path(&m, &l, path, NULL, NULL, err);
    vf_model_close(m);
    *slot = l ? l->slot : NULL;
    return rc;
}

/* ---- config.json ---- */

/* The size of the tensor whose '#' is i; 0: there is no such tensor. */
static double size_of(const vf_model *m, const vf_sized *s, int i)
{
    vf_view v;
    size_t before = strcspn(s->tensor, "#");
    char *name = s->tensor[before] ? vc_format("%.*s%d%s", (int)before, s->tensor, i,
                                               s->tensor + before + 1) : strdup(s->tensor);
    double size = name && !vf_model_get(m, name, &v, NULL) && v.nd > s->axis
                      ? (double)v.dim[s->axis] : 0;
    free(name);
    return size;
}

static bool add_sizes(cJSON *o, const vf_model *m, const vf_sized *s)
{
    cJSON *list = s->kind == VF_SIZE_COUNT ? NULL : cJSON_AddArrayToObject(o, s->field);
    int n = 0;
    double size = 0;
    for (; n < MAX_COUNT && (size = size_of(m, s, n)) > 0; n++)
        if (list && !cJSON_InsertItemInArray(list, s->kind == VF_SIZE_LIST ? n : 0,
                                             cJSON_CreateNumber(size)))
            return false;
    return list || cJSON_AddNumberToObject(o, s->field, n);
}

static bool add_size(cJSON *o, const vf_model *m, const vf_sized *s)
{
    const double by = s->by ? cJSON_GetNumberValue(cJSON_GetObjectItem(o, s->by)) : 1;
    double size = size_of(m, s, 0) / (s->divide ? s->divide : 1);
    size = by > 0 ? size / by : 0;
    return cJSON_AddNumberToObject(o, s->field, (double)(int64_t)size);
}

static bool add_list(cJSON *o, const char *field, const double *v, int n)
{
    cJSON *list = cJSON_CreateDoubleArray(v, n);
    return list && cJSON_AddItemToObject(o, field, list);
}

static bool add_constants(cJSON *o, const char *family)
{
    const vc_family *f = family ? vc_family_find(family) : NULL;
    return !f || (add_list(o, "latents_mean", f->mean, f->channels) &&
                  add_list(o, "latents_std", f->std, f->channels));
}

static int make_config(cJSON **out, const vf_model *m, const vf_layout *l, const char *class,
                       vc_err *err)
{
    int rc = vf_json_parse(out, l->config, strlen(l->config), err);
    bool typed = !rc && (cJSON_HasObjectItem(*out, "model_type") ||
                         cJSON_HasObjectItem(*out, "_class_name"));
    bool ok = !rc && (typed ||
                      cJSON_AddStringToObject(*out, "_class_name", class ? class : l->class));
    for (const vf_sized *s = l->sizes; ok && s->field; s++)
        ok = s->kind == VF_SIZE ? add_size(*out, m, s) : add_sizes(*out, m, s);
    if (!rc && !(ok && add_constants(*out, l->constants)))
        rc = vc_no_memory(err);
    if (!rc && l->more)
        rc = l->more(*out, m, err);
    if (rc) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}

static int check_layout(const vf_layout *l, const char *class, const char *path, vc_err *err)
{
    if (!l)
        return vc_fail(err, VC_EUSAGE, "%s: no config.json, and its tensors have no names that are "
                       "known of files%s%s without config.json: give the folder that holds these "
                       "weights and their config.json", path, class ? " of " : "",
                       class ? class : "");
    if (!class || !strcmp(l->class, class) || (l->also && !strcmp(l->also, class)))
        return 0;
    return vc_fail(err, VC_EUSAGE, "%s: the file holds %s, not %s: give one of %s, or its folder",
                   path, l->class, class, class);
}

/* Reads the config.json in the folder of a file; *out is NULL if there is none. */
static int read_beside(cJSON **out, const char *path, vc_err *err)
{
    char *dir = vc_format("%.*s.", (int)(vc_path_base(path) - path), path);
    int rc = dir ? vf_json_read_in_opt(out, dir, "config.json", MAX_CONFIG, err)
                 : vc_no_memory(err);
    free(dir);
    return rc;
}

/* Where two models have one class: a field of the one that is another model, and what its class is
 * called here. */
static const struct { const char *class, *field, *is; } classes[] = {
    { "WanModel", "inject_sample_info", "SkyReelsV2Model" },
};

/* Reads the config.json of a folder. */
static int read_config(cJSON **out, const char *dir, vc_err *err)
{
    const char *class = "";
    int rc = vf_json_read_in(out, dir, "config.json", MAX_CONFIG, err);
    if (rc || vf_json_str_opt(*out, "_class_name", &class, NULL))
        return rc;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(class, classes[i].class) ||
            !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(*out, classes[i].field)))
            continue;
        cJSON *is = cJSON_CreateString(classes[i].is);
        if (is && cJSON_ReplaceItemInObjectCaseSensitive(*out, "_class_name", is))
            return 0;
        cJSON_Delete(is);
        cJSON_Delete(*out);
        *out = NULL;
        return vc_no_memory(err);
    }
    return 0;
}

/* A config.json beside a file that names no class is none of a component. */
static bool names_class(const cJSON *config)
{
    return cJSON_HasObjectItem(config, "_class_name") || cJSON_HasObjectItem(config, "model_type");
}

int vf_component_config(cJSON **out, const char *path, const char *slot, const char *class,
                        vc_err *err)
{
    const vf_layout *l;
    vf_model *m = NULL;
    const bool folder = !is_file(path);
    *out = NULL;
    bool reads = folder && vc_file_exists_in(path, "config.json");
    int rc = reads ? 0 : open_path(&m, &l, path, slot, class, err);
    if (reads || (rc && folder))             /* in the second case the error names config.json */
        return read_config(out, path, err);
    if (!rc && (!l || l->beside) && !folder)
        rc = read_beside(out, path, err);
    if (!rc && l && *out && !names_class(*out)) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    if (!rc && !*out)
        rc = check_layout(l, class, path, err);
    if (!rc && !*out)
        rc = vc_context(err, make_config(out, m, l, class, err), "%s", path);
    vf_model_close(m);
    return rc;
}

/* ---- components of a model ---- */

/* The file or folder of the first authors; NULL with rc 0: the model has none. */
static int find_first(char **path, const char *model, const char *slot, vc_err *err)
{
    for (const vc_family *f = vc_families(); f->name; f++)
        for (int i = 0; f->first && i < VC_FIRST_PARTS && f->first->part[i].slot; i++) {
            if (strcmp(f->first->part[i].slot, slot))
                continue;
            *path = vc_path_join(model, f->first->part[i].name);
            if (!*path)
                return vc_no_memory(err);
            if (vc_file_exists(*path))
                return 0;
            free(*path);
            *path = NULL;
        }
    return 0;
}

/* The model itself where it is a file of several components that has this one. */
static int find_within(char **path, const char *model, const char *slot, vc_err *err)
{
    vf_model *m;
    int rc = vf_model_open(&m, model, err);
    if (rc)
        return rc;
    const vf_layout *l = layout_of(m, slot, NULL);
    if (l && !strcmp(l->slot, slot) && (l->within || l->only) && !(*path = strdup(model)))
        rc = vc_no_memory(err);
    vf_model_close(m);
    return rc;
}

int vf_component_find(char **path, const char *model, const char *slot, vc_err *err)
{
    struct stat st;
    *path = vc_path_join(model, slot);
    if (!*path)
        return vc_no_memory(err);
    if (!stat(*path, &st) && S_ISDIR(st.st_mode))
        return 0;
    free(*path);
    *path = NULL;
    return is_file(model) ? find_within(path, model, slot, err)
                          : find_first(path, model, slot, err);
}

/* A folder without weights, and weights of no layout, are no error here. */
int vf_component_transformer(cJSON **config, const char *model, vc_err *err)
{
    char *path;
    *config = NULL;
    int rc = vf_component_find(&path, model, "transformer", err);
    if (rc)
        return rc;
    const char *use = path ? path : model;
    if (vc_file_exists_in(use, "config.json"))
        rc = read_config(config, use, err);
    else
        vf_component_config(config, use, "transformer", NULL, NULL);
    free(path);
    return rc;
}

const vc_first *vf_component_first(const cJSON *config)
{
    const char *class = "";
    return config && !vf_json_str_opt(config, "_class_name", &class, NULL) ? vc_family_first(class)
                                                                          : NULL;
}

int vf_component_type(const vc_first *first, const cJSON *config, int *type, vc_err *err)
{
    const char *word = first->type[0].type;
    int rc = first->type_field ? vf_json_str(config, first->type_field, &word, err) : 0;
    for (*type = 0; !rc && *type < VC_FIRST_TYPES && first->type[*type].type; ++*type)
        if (!strcmp(first->type[*type].type, word))
            return 0;
    return rc ? rc : vc_fail(err, VC_EFORMAT, "%s: no model of the type \"%.40s\" is supported",
                             first->type_field, word);
}
