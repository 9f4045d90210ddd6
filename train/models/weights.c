/* weights.c - opens the transformer's folder, and checks that all tensors were used; see
 * weights.h */
#include "train/models/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/families.h"
#include "common/os/file.h"
#include "common/os/map.h"
#include "common/tensor/packing.h"
#include "formats/json/config.h"
#include "formats/tensors/component.h"
#include "formats/models/transformers.h"
#include "train/lora/lora.h"

enum { MAX_CONFIG = 1 << 20, SWAPPED = 4, PRESETS = 32 };

struct vtrain_weights {
    char *path;
    const char *flag;                    /* "--model" or "--transformer" */
    vf_key files;
    double bytes;                        /* of all files */
    cJSON *config;
    vf_model *file;
    vtrain_lora *preset[PRESETS];        /* in their order */
    int n_presets;
    vc_dtype held;
    const char *const *spare;            /* tensors that the model does not use */
    const vtrain_rename *names;          /* of the file's tensors; NULL: they have ours */
    bool made;                           /* config.json is not the file's */
    bool adds;                           /* the model has weights without a row in names, which the
                                          * file lacks */
    struct { const void *of; void *copy; } swapped[SWAPPED];     /* rows whose halves are swapped */
};

/* ---- names ---- */

/* The name that the file gives to our tensor, malloc'ed. r is its row, if any; r->theirs is
 * freed. */
static int find_in_file(char **out, vtrain_renamed *r, const vtrain_weights *w, const char *name,
                        vc_err *err)
{
    const char *dot = strrchr(name, '.'), *end = name + strlen(name);
    int rc = vtrain_rename_find(r, w->names, name, err);
    char *module = NULL;
    if (!rc && !r->row && dot && (!strcmp(dot, ".weight") || !strcmp(dot, ".bias"))) {
        end = dot;
        module = strndup(name, (size_t)(end - name));
        rc = module ? vtrain_rename_find(r, w->names, module, err) : vc_no_memory(err);
    }
    *out = rc ? NULL : r->row ? vc_format("%s%s", r->theirs, end) : strdup(name);
    free(module);
    free(r->theirs);
    return rc || *out ? rc : vc_no_memory(err);
}

static int name_in_file(char **out, const vtrain_weights *w, const char *name, vc_err *err)
{
    vtrain_renamed r;
    return find_in_file(out, &r, w, name, err);
}

static size_t row_bytes(const vt_host *v)
{
    size_t n = 1;
    for (int i = 1; i < v->nd; i++)
        n *= (size_t)v->dim[i];
    return vc_dtype_bytes(v->dtype, n);
}

/* Bytes of a row's scales; 0: the rows have no scales of their own. */
static size_t scale_bytes(const vt_host *v)
{
    return v->scale && v->scales[0] > 1 ? vc_dtype_size(v->scale_type) * (size_t)v->scales[1] : 0;
}

/* Narrows a fused tensor to the rows of one of our modules. */
static int take_rows(vt_host *v, const vtrain_renamed *r, const char *theirs, vc_err *err)
{
    int64_t first, rows;
    if (v->nd < 1 || !vtrain_rename_rows(r, v->dim[0], &first, &rows))
        return vc_fail(err, VC_EFORMAT, "tensor \"%s\" has %lld rows, which %d parts cannot share",
                       theirs, v->nd ? (long long)v->dim[0] : 0, r->all);
    v->dim[0] = rows;
    v->data = (const char *)v->data + row_bytes(v) * (size_t)first;
    if (scale_bytes(v)) {
        v->scale = (const char *)v->scale + scale_bytes(v) * (size_t)first;
        v->scales[0] = rows;
    }
    return 0;
}

/* Makes *data, two halves of `half` bytes, a copy with the halves swapped; w frees the copy. */
static int swap_bytes(vtrain_weights *w, const void **data, size_t half, const char *theirs,
                      vc_err *err)
{
    int i = 0;
    while (i < SWAPPED && w->swapped[i].copy && w->swapped[i].of != *data)
        i++;
    if (i == SWAPPED)
        return vc_fail(err, VC_EFORMAT, "tensor \"%s\": too many halves to swap", theirs);
    if (!w->swapped[i].copy) {
        char *copy = malloc(2 * half);
        if (!copy)
            return vc_no_memory(err);
        memcpy(copy, (const char *)*data + half, half);
        memcpy(copy + half, *data, half);
        w->swapped[i].of = *data;
        w->swapped[i].copy = copy;
    }
    *data = w->swapped[i].copy;
    return 0;
}

static int swap_halves(vtrain_weights *w, vt_host *v, const char *theirs, vc_err *err)
{
    const size_t rows = v->nd ? (size_t)v->dim[0] : 0;
    if (!rows || rows % 2 || !row_bytes(v))
        return vc_fail(err, VC_EFORMAT, "tensor \"%s\": an even number of rows is expected",
                       theirs);
    int rc = swap_bytes(w, &v->data, row_bytes(v) * rows / 2, theirs, err);
    if (!rc && scale_bytes(v))
        rc = swap_bytes(w, &v->scale, scale_bytes(v) * rows / 2, theirs, err);
    return rc;
}

/* Whether the file has the tensor's halves the other way round. A bias has the sizes of its
 * weight. */
static bool is_swapped(const vtrain_renamed *r, const vt_source *file, const char *theirs,
                       const vt_host *v)
{
    char name[200];
    if (!r->row || v->nd != 1)
        return vtrain_rename_swapped(r, v->dim[0], v->nd > 1 ? v->dim[1] : 0);
    snprintf(name, sizeof name, "%.*sweight", (int)(strlen(theirs) - strlen("bias")), theirs);
    return vtrain_rename_swapped(r, v->dim[0], r->row->share[0] == VTRAIN_SWAPPED_PAIR
                                                   ? vtrain_size_in(file, name, 1) : 0);
}

static int get_renamed(void *arg, const char *name, vt_host *view, vc_err *err)
{
    vtrain_weights *w = arg;
    const vt_source file = vf_model_source(w->file);
    vtrain_renamed r;
    char *theirs;
    int rc = find_in_file(&theirs, &r, w, name, err);
    if (!rc)
        rc = file.get(file.arg, theirs, view, err);
    if (!rc && r.parts > 1)
        rc = take_rows(view, &r, theirs, err);
    if (!rc && is_swapped(&r, &file, theirs, view))
        rc = swap_halves(w, view, theirs, err);
    free(theirs);
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Fails unless each tensor of the file is one of p's under its name there. */
static int all_renamed(const vtrain_weights *w, vt_params *p, vc_err *err)
{
    size_t n = (size_t)vt_params_count(p), i = 0;
    char **name = calloc(n + 1, sizeof *name);
    int rc = name ? 0 : vc_no_memory(err);
    for (; !rc && i < n; i++)
        rc = name_in_file(&name[i], w, vt_params_at(p, (int)i)->name, err);
    if (!rc)
        qsort(name, n, sizeof *name, compare_names);
    for (int k = 0; !rc && k < vf_model_count(w->file); k++) {
        const char *found = vf_model_at(w->file, k)->name;
        if (!bsearch(&found, name, n, sizeof *name, compare_names))
            rc = vc_fail(err, VC_EMISMATCH, "tensor %s is not used: config.json describes a model "
                         "without this tensor", found);
    }
    for (i = 0; name && i < n; i++)
        free(name[i]);
    free(name);
    return rc;
}

/* ---- values ---- */

static bool lacks(const void *arg, const char *name)
{
    vtrain_renamed r;
    char *theirs;
    int rc = find_in_file(&theirs, &r, arg, name, NULL);
    free(theirs);
    return !rc && !r.row;
}

double vtrain_weights_file_bytes(const vtrain_weights *w)
{
    return w ? w->bytes : 0;
}

vt_source vtrain_weights_source(vtrain_weights *w, bool sizes_only)
{
    vt_source file = vf_model_source(w->file);
    if (w->names) {
        file.get = get_renamed;
        file.arg = w;
    }
    vt_source src = file;
    for (int i = 0; i < w->n_presets; i++)
        src = vtrain_lora_source(w->preset[i], &src, sizes_only);
    if (w->adds) {
        src.lacks = lacks;
        src.lacks_arg = w;
    }
    src.converts = w->held != VC_DTYPE_NONE;
    src.to = w->held;
    return src;
}

/* Refuses variants that vtrain does not train. */
static int check_variant(const vtrain_weights *w, const char *class, vc_err *err)
{
    int rc = vf_transformer_check_fields(class, w->config, err);
    if (!rc)
        rc = vf_transformer_check_names(class, w->file, err);
    return vc_context(err, rc, "%s: %s", w->flag, w->path);
}

/* The names of the first authors' tensors, of which two programs may have kinds. */
static const vtrain_rename *names_of(const vtrain_family *f, const vt_source *file)
{
    const vtrain_rename *names = f->first_names ? f->first_names : f->lora_names;
    char first[200] = "";
    if (f->packed_names) {
        const char *block = strchr(f->packed_names->theirs, '#');
        snprintf(first, sizeof first, "%.*s0%s.weight", (int)(block - f->packed_names->theirs),
                 f->packed_names->theirs, block + 1);
    }
    return *first && vtrain_size_in(file, first, 0) > 0 ? f->packed_names : names;
}

int vtrain_weights_family(vtrain_weights *w, const vtrain_family *family, vc_err *err)
{
    const vt_source file = vf_model_source(w->file);
    const char *class;
    cJSON *config;
    int rc = vf_json_str(w->config, "_class_name", &class, err);
    if (!rc)
        rc = check_variant(w, class, err);
    w->spare = family->spare;
    w->made = family->ssm != NULL;
    for (int i = 0; i < w->n_presets; i++)
        vtrain_lora_rename(w->preset[i], family->lora_names, family->peer_names);
    if (rc || !family->first_class || strcmp(class, family->first_class))
        return rc;
    rc = vc_context(err, family->convert(&config, w->config, &file, err), "%s/config.json",
                    w->path);
    if (rc)
        return rc;
    cJSON_Delete(w->config);
    w->config = config;
    w->names = names_of(family, &file);
    w->made = true;
    w->adds = family->ssm != NULL;
    return 0;
}

bool vtrain_weights_config_made(const vtrain_weights *w)
{
    return w->made;
}

size_t vtrain_weights_bytes(const vtrain_weights *w)
{
    return w && w->n_presets ? vtrain_lora_bytes(w->preset[w->n_presets - 1]) : 0;
}

int vtrain_weights_check(const vtrain_weights *w, vt_params *p, vc_err *err)
{
    int rc = w->names ? all_renamed(w, p, err) : vf_model_all_bound(w->file, p, w->spare, err);
    for (int i = 0; !rc && i < w->n_presets; i++)
        rc = vc_context(err, vtrain_lora_all_used(w->preset[i], p, err), "--preset_lora_path");
    return rc;
}

int vtrain_weights_kept(vf_view **v, int *n, const vtrain_weights *w, vt_params *p, vc_err *err)
{
    const int all = w->names ? 0 : vf_model_count(w->file);      /* renamed: each is one of p's */
    *n = 0;
    *v = calloc((size_t)all + 1, sizeof **v);
    if (!*v)
        return vc_no_memory(err);
    for (int i = 0; i < all; i++) {
        const vf_view *x = vf_model_at(w->file, i);
        if (vt_params_find(p, x->name))
            continue;
        if (x->dtype == VC_F8E4M3 || x->dtype == VC_F8E5M2) {
            free(*v);
            *v = NULL;
            return vc_fail(err, VC_EMISMATCH, "tensor %s: it is kept as it is, and is of %s: train "
                           "a whole model from files of bf16, f16 or f32", x->name,
                           vc_dtype_name(x->dtype));
        }
        (*v)[(*n)++] = *x;
    }
    return 0;
}

void vtrain_weights_release(const vtrain_weights *w)
{
    vf_model_release(w->file);
}

vc_dtype vtrain_weights_type(const vtrain_weights *w, const char *name)
{
    vf_view v;
    char *own;
    if (!w || name_in_file(&own, w, name, NULL))
        return VC_F32;
    bool found = !vf_model_get(w->file, own, &v, NULL);
    free(own);
    return !found ? VC_F32 : vt_is_code(v.dtype) ? VC_BF16 : v.dtype;
}

/* ---- files ---- */

static int find_folder(char **path, const char *model, const char *name, const char *transformer,
                       vc_err *err)
{
    cJSON *config = NULL;
    int rc = transformer ? 0 : vf_component_find(path, model, name, err);
    if (rc || *path)
        return rc;
    rc = transformer ? 0 : vf_component_config(&config, model, "transformer", NULL, NULL);
    cJSON_Delete(config);
    if (rc)
        return vc_fail(err, VC_ENOENT, "%s/%s has no config.json: give the folder of a transformer",
                       model, name);
    *path = strdup(transformer ? transformer : model);
    return *path ? 0 : vc_no_memory(err);
}

static const char index_file[] = "model_index.json";

/* The boundary of a first authors' folder with two transformers, which no file there has. */
static int first_boundary(double *at, const char *model, vc_err *err)
{
    char *second;
    cJSON *o = NULL;
    int type, rc = vf_component_find(&second, model, "transformer_2", err);
    if (!rc && second)
        rc = vf_component_transformer(&o, model, err);
    const vc_first *first = vf_component_first(o);
    if (!rc && first)
        rc = vc_context(err, vf_component_type(first, o, &type, err), "%s", model);
    if (!rc && first)
        *at = first->type[type].boundary;
    cJSON_Delete(o);
    free(second);
    return rc;
}

int vtrain_weights_boundary(double *at, const char *model, vc_err *err)
{
    struct index { double boundary; } index = { 0 };
    static const vf_config_row rows[] = {
        VF_NUM(struct index, boundary, "boundary_ratio", 0, VF_ABOVE_0, 0.999), { 0 }
    };
    cJSON *o;
    int rc = vf_json_read_in_opt(&o, model, index_file, MAX_CONFIG, err);
    if (!rc && o)
        rc = vc_context(err, vf_config_read(&index, rows, o, err), "%s/%s", model, index_file);
    if (!rc && !o)
        rc = first_boundary(&index.boundary, model, err);
    cJSON_Delete(o);
    *at = index.boundary;
    return rc;
}

/* *class is a copy of _class_name in model/model_index.json, malloc'ed; "" where the file is
 * missing. */
/* *distilled is the pipeline's field is_distilled: no second prompt guides its samples. */
static int read_class(char **class, bool *distilled, const char *model, vc_err *err)
{
    const char *s = "";
    cJSON *o;
    int rc = vf_json_read_in_opt(&o, model, index_file, MAX_CONFIG, err);
    if (!rc && o)
        rc = vc_context(err, vf_json_str_opt(o, "_class_name", &s, err), "%s/%s", model,
                        index_file);
    *distilled = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "is_distilled"));
    *class = rc ? NULL : strdup(s);
    cJSON_Delete(o);
    return rc || *class ? rc : vc_no_memory(err);
}

/* Adds a field that is true, unless config has it. */
static int imply(cJSON *config, const char *field, vc_err *err)
{
    const bool has = cJSON_HasObjectItem(config, field);
    return has || cJSON_AddTrueToObject(config, field) ? 0 : vc_no_memory(err);
}

int vtrain_weights_pipeline(const vc_pipeline **out, cJSON *config, const vtrain_family *family,
                            const char *model, vc_err *err)
{
    const vc_family *f = vc_family_of_transformer(family->class_name);
    char *class = NULL;
    bool distilled = false;
    int rc = model && f ? read_class(&class, &distilled, model, err) : 0;
    const vc_pipeline *p = class ? vc_family_pipeline(f, class) : NULL;
    if (!rc && p && p->flag)
        rc = imply(config, p->flag, err);
    if (!rc && distilled)
        rc = imply(config, "is_distilled", err);
    free(class);
    if (!p && f && f->pipeline[0].class)
        p = vf_transformer_pipeline(f, config);
    *out = rc ? NULL : p;
    return rc;
}

static int open_parts(vtrain_weights *w, const char *model, const char *name,
                      const char *transformer, vc_err *err)
{
    int rc = transformer ? 0 : vf_transformer_check_pipeline(model, err);
    if (!rc)
        rc = find_folder(&w->path, model, name, transformer, err);
    w->flag = transformer ? "--transformer" : "--model";
    if (!rc)
        rc = vf_component_config(&w->config, w->path, "transformer", NULL, err);
    /* vf_model_files comes before the opening, so that the comparison of its key later finds a file
     * that was replaced in between. */
    if (!rc)
        rc = vf_model_files(&w->files, &w->bytes, w->path, err);
    if (!rc)
        rc = vf_component_open(&w->file, w->path, "transformer", err);
    return vc_context(err, rc, "%s", w->flag);
}

int vtrain_weights_open(vtrain_weights **out, const char *model, const char *name,
                        const char *transformer, vc_dtype held, vc_err *err)
{
    *out = NULL;
    vtrain_weights *w = calloc(1, sizeof *w);
    if (!w)
        return vc_no_memory(err);
    w->held = held;
    int rc = open_parts(w, model, name, transformer, err);
    if (rc) {
        vtrain_weights_close(w);
        return rc;
    }
    *out = w;
    return 0;
}

int vtrain_weights_fold(vtrain_weights *w, const char *path, double strength, const char *name,
                        vc_err *err)
{
    vtrain_lora *l;
    if (w->n_presets == PRESETS)
        return vc_fail(err, VC_EUSAGE, "--preset_lora_path: at most %d files are folded in",
                       PRESETS);
    int rc = vtrain_lora_open(&l, path, err);
    if (l)
        w->preset[w->n_presets++] = l;
    if (!rc)
        rc = vtrain_lora_check_of(l, name, err);
    if (!rc)
        rc = vtrain_lora_weaken(l, strength, err);
    return vc_context(err, rc, "--preset_lora_path");
}

void vtrain_weights_close(vtrain_weights *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->n_presets; i++)
        vtrain_lora_close(w->preset[i]);
    for (int i = 0; i < SWAPPED; i++)
        free(w->swapped[i].copy);
    vf_model_close(w->file);
    cJSON_Delete(w->config);
    free(w->path);
    free(w);
}

const char *vtrain_weights_note(const vtrain_weights *w, int i)
{
    return i < w->n_presets ? vtrain_lora_note(w->preset[i]) : NULL;
}

const cJSON *vtrain_weights_config(const vtrain_weights *w)
{
    return w->config;
}

const char *vtrain_weights_path(const vtrain_weights *w)
{
    return w->path;
}

vf_key vtrain_weights_files(const vtrain_weights *w)
{
    return w->files;
}

int vtrain_weights_hash(vf_key *k, const vtrain_weights *w, const atomic_int *stop, vc_err *err)
{
    int rc = vf_model_hash(k, w->file, stop, err);
    vf_model_release(w->file);
    return vc_context(err, vc_maps_check(rc, err), "%s", w->path);
}

bool vtrain_weights_preset(const vtrain_weights *w, int i, vf_key *k, double *strength)
{
    if (i >= w->n_presets)
        return false;
    *k = vtrain_lora_hash(w->preset[i]);
    *strength = vtrain_lora_strength(w->preset[i]);
    return true;
}
