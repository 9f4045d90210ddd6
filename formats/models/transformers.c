/* transformers.c - see transformers.h */
#include "formats/models/transformers.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "formats/models/pipelines.h"
#include "formats/models/parts.h"

enum { MAX_CONFIG = 1 << 20 };

static const vf_transformer_kind *kind_of(const char *class)
{
    const vf_transformer_kind *k = vf_transformer_kinds;
    while (k->class && strcmp(k->class, class))
        k++;
    return k->class ? k : NULL;
}

static int refuse(const vf_transformer_kind *k, const char *sign, const char *reads, int code,
                  vc_err *err)
{
    return vc_fail(err, code, "%.120s: the transformer reads %s, which vtrain does not train with: "
                   "give %s", sign, reads, k->trained);
}

/* ---- config.json ---- */

int vf_transformer_refuse_class(const char *class, vc_err *err)
{
    char list[800] = "";
    for (const vf_transformer_kind *k = vf_transformer_kinds; k->class; k++)
        if (k->trained)
            snprintf(list + strlen(list), sizeof list - strlen(list), " %s", k->class);
    return vc_fail(err, VC_EINVAL, "vtrain trains no transformer of the class %.80s; known:%s",
                   class, list);
}

/* Whether an earlier variant of the class reads the same. */
static bool repeats(const vf_transformer_kind *k, const vf_variant *v)
{
    const vf_variant *w = k->variants;
    while (w < v && strcmp(w->reads, v->reads))
        w++;
    return w < v;
}

/* Whether an earlier class has the same variants, as first authors' names have. */
static bool is_again(const vf_transformer_kind *k)
{
    const vf_transformer_kind *e = vf_transformer_kinds;
    while (e < k && e->variants != k->variants)
        e++;
    return e < k;
}

void vf_transformer_each_refused(void (*row)(void *arg, const char *models, const char *reads),
                                 void *arg)
{
    for (const vf_transformer_kind *k = vf_transformer_kinds; k->class; k++)
        for (const vf_variant *v = k->variants; k->trained && v && v->reads && !is_again(k); v++)
            if (!repeats(k, v))
                row(arg, k->trained, v->reads);
}

static bool has_field(const vf_variant *v, const cJSON *config)
{
    const cJSON *field = cJSON_GetObjectItemCaseSensitive(config, v->field);
    return v->word ? cJSON_IsString(field) && !strcmp(field->valuestring, v->word)
                   : cJSON_IsTrue(field);
}

static int check_fields(const vf_transformer_kind *k, const cJSON *config, vc_err *err)
{
    for (const vf_variant *v = k->variants; v && v->reads; v++)
        if (v->field && has_field(v, config)) {
            char sign[80];
            snprintf(sign, sizeof sign, "%s: %s", v->field, v->word ? v->word : "true");
            return refuse(k, sign, v->reads, VC_EINVAL, err);
        }
    int rc = k->fields ? vf_config_read(NULL, k->fields, config, err) : 0;
    const vc_first *first = rc ? NULL : vf_component_first(config);
    int type;
    return first ? vf_component_type(first, config, &type, err) : rc;
}

static int check_channels(const vf_transformer_kind *k, int64_t in, int64_t out, vc_err *err)
{
    const vf_channels *r = k->channels;
    if (!out)
        out = in;
    while (r < k->channels + VF_CHANNELS && r->times) {
        if (in == out * r->times + r->plus)
            return 0;
        r++;
    }
    char sign[120];
    snprintf(sign, sizeof sign, "%s: %lld with %s %lld", k->in, (long long)in, k->out,
             (long long)out);
    for (const vf_variant *v = k->variants; v && v->reads; v++)
        if (v->channels && v->channels == in)
            return refuse(k, sign, v->reads, VC_EINVAL, err);
    return vc_fail(err, VC_EINVAL, "%s is no known model: give %s", sign,
                   k->trained ? k->trained : "a model of this class");
}

/* Numbers of channels are compared where both are positive. */
static int check_channel_fields(const vf_transformer_kind *k, const cJSON *config, vc_err *err)
{
    int64_t in = k->in_default, out = k->out_default;
    if (!k->in || !k->in_default)
        return 0;
    int rc = vf_json_int_opt(config, k->in, &in, err);
    if (!rc)
        rc = vf_json_int_opt(config, k->out, &out, err);
    return rc || in < 1 || out < 0 || in > INT16_MAX || out > INT16_MAX
               ? rc : check_channels(k, in, out, err);
}

int vf_transformer_check_fields(const char *class, const cJSON *config, vc_err *err)
{
    const vf_transformer_kind *k = kind_of(class);
    int rc = k ? check_fields(k, config, err) : 0;
    return rc || !k ? rc : check_channel_fields(k, config, err);
}

int vf_transformer_check_config(const cJSON *config, vc_err *err)
{
    const char *class;
    int rc = vf_json_str(config, "_class_name", &class, err);
    if (!rc && !kind_of(class))
        rc = vf_transformer_refuse_class(class, err);
    return rc ? rc : vf_transformer_check_fields(class, config, err);
}

/* ---- names ---- */

static bool matches(const char *pattern, const char *name);

/* Matches the words of "{a,b}" at the pattern's begin, and what follows. */
static bool matches_any(const char *pattern, const char *name)
{
    const char *rest = strchr(pattern, '}') + 1, *word = pattern + 1;
    while (word < rest) {
        size_t n = strcspn(word, ",}");
        if (!strncmp(word, name, n) && matches(rest, name + n))
            return true;
        word += n + 1;
    }
    return false;
}

static bool ends_module(const char *name)
{
    return !*name || !strcmp(name, ".weight") || !strcmp(name, ".bias");
}

static bool matches(const char *pattern, const char *name)
{
    for (; *pattern && *pattern != '{'; pattern++) {
        if (*pattern != '#' && *pattern != *name++)
            return false;
        if (*pattern != '#')
            continue;
        if (!isdigit((unsigned char)*name))
            return false;
        name += strspn(name, "0123456789");
    }
    return *pattern ? matches_any(pattern, name) : ends_module(name);
}

static bool has_name(const vf_transformer_kind *k, const char *name)
{
    bool has = !k->names;
    for (const char *const *p = k->names; !has && *p; p++)
        has = matches(*p, name);
    return has;
}

bool vf_transformer_has(const char *class, const char *name)
{
    const vf_transformer_kind *k = kind_of(class);
    return k && has_name(k, name);
}

static int refuse_name(const vf_transformer_kind *k, const char *name, vc_err *err)
{
    if (strstr(name, "lora_"))
        return vc_fail(err, VC_EMISMATCH, "tensor %.120s: the file is a LoRA: give the model's "
                       "own, and the LoRA by --lora_checkpoint", name);
    return vc_fail(err, VC_EMISMATCH, "tensor %.120s: the transformers of the class %s that vtrain "
                   "trains have no such tensor: give %s", name, k->class, k->trained);
}

/* The size of an axis of a tensor; 0: there is none. */
static int64_t size_of(const vf_model *m, const char *name, int axis)
{
    vf_view v;
    return !vf_model_get(m, name, &v, NULL) && v.nd > axis ? v.dim[axis] : 0;
}

int vf_transformer_check_names(const char *class, const vf_model *m, vc_err *err)
{
    const vf_transformer_kind *k = kind_of(class);
    const int n = vf_model_count(m);
    if (!k || !k->names)
        return 0;
    for (const vf_variant *v = k->variants; v && v->reads; v++)
        for (int i = 0; v->sign && i < n; i++)
            if (!fnmatch(v->sign, vf_model_at(m, i)->name, 0) &&
                !has_name(k, vf_model_at(m, i)->name))
                return refuse(k, vf_model_at(m, i)->name, v->reads, VC_EMISMATCH, err);
    for (int i = 0; i < n; i++)
        if (!has_name(k, vf_model_at(m, i)->name))
            return refuse_name(k, vf_model_at(m, i)->name, err);
    if (!k->in || k->in_default)
        return 0;
    const int64_t in = size_of(m, k->in, 1), out = size_of(m, k->out, 0);
    return in && out ? check_channels(k, in, out, err) : 0;
}

/* ---- a model's folder ---- */

const vc_pipeline *vf_transformer_pipeline(const vc_family *f, const cJSON *config)
{
    for (const vc_pipeline *p = f->pipeline; p < f->pipeline + VC_FAMILY_PIPELINES && p->class; p++)
        if (p->flag && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, p->flag)))
            return p;
    return f->pipeline;
}

static void list_pipelines(char *list, size_t size)
{
    for (const vc_family *f = vc_families(); f->name; f++)
        for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
            snprintf(list + strlen(list), size - strlen(list), " %s", f->pipeline[i].class);
}

static bool is_known(const char *class)
{
    bool known = false;
    for (const vc_family *f = vc_families(); !known && f->name; f++)
        known = vc_family_pipeline(f, class) != NULL;
    return known;
}

/* Whether the model's transformer is the built-in one, of which no pipeline is known. */
static bool is_builtin(const char *model)
{
    const char *class = "";
    cJSON *config;
    bool is = !vf_component_transformer(&config, model, NULL) && config &&
              !vf_json_str_opt(config, "_class_name", &class, NULL) &&
              !strcmp(class, vc_families()->transformer);
    cJSON_Delete(config);
    return is;
}

void vf_transformer_each_other(void (*row)(void *arg, const char *model, const char *reads),
                               void *arg)
{
    const char *last = "";
    for (const vf_other_pipeline *p = vf_other_pipelines; p->class; p++) {
        if (!p->same && strcmp(last, p->model))
            row(arg, p->model, p->reads);
        last = p->same ? last : p->model;
    }
}

/* Says what a pipeline of another row is, in one sentence. */
static int refuse_other(const char *model, const char *class, const vf_other_pipeline *p,
                        vc_err *err)
{
    if (p->same)
        return vc_fail(err, VC_EINVAL, "%s/model_index.json: %.80s runs the weights of %s: write "
                       "that class in its place", model, class, p->same);
    return vc_fail(err, VC_EINVAL, "%s/model_index.json: no family here has a pipeline %.80s, of "
                   "%s%s%s: `vprep --help families` lists the models that are trained", model,
                   class, p->model, p->reads ? ", which reads " : p->is ? ", " : "",
                   p->reads ? p->reads : p->is ? p->is : "");
}

int vf_transformer_check_pipeline(const char *model, vc_err *err)
{
    char list[1600] = "";
    const char *class = "";
    cJSON *o;
    int rc = vf_json_read_in_opt(&o, model, "model_index.json", MAX_CONFIG, err);
    if (!rc && o)
        rc = vc_context(err, vf_json_str_opt(o, "_class_name", &class, err), "%s/model_index.json",
                        model);
    const bool unknown = !rc && *class && !is_known(class);
    const vf_other_pipeline *other = unknown ? vf_other_pipeline_of(class) : NULL;
    if (other)
        rc = refuse_other(model, class, other, err);
    else if (unknown && strstr(class, "Control"))
        rc = vc_fail(err, VC_EINVAL, "%s/model_index.json: %.80s: of Control models, which read "
                     "the latents of a control clip beside the noisy ones, VideoX-Fun's of "
                     "CogVideoX and Wan are trained here (CogVideoXFunControlPipeline, "
                     "WanFunControlPipeline): give one, or a text-to-video, image-to-video or "
                     "inpainting model", model, class);
    else if (unknown && !is_builtin(model)) {
        list_pipelines(list, sizeof list);
        rc = vc_fail(err, VC_EINVAL, "%s/model_index.json: no family here has a pipeline %.80s: "
                     "give a model of a known one, or its transformer alone by vtrain's "
                     "--transformer; known:%s", model, class, list);
    }
    cJSON_Delete(o);
    return rc;
}

/* Keeps the first reason for which a file was not read. */
static int keep_reason(char **unread, const char *path, const vc_err *why, vc_err *err)
{
    if (!*unread)
        *unread = !strncmp(why->text, path, strlen(path)) ? strdup(why->text)
                                          : vc_format("%s: %s", path, why->text);
    return *unread ? 0 : vc_no_memory(err);
}

/* Adds to *unread, where it is NULL. */
static int check_path(char **unread, const char *path, vc_err *err)
{
    cJSON *config;
    vf_model *m = NULL;
    vc_err why = { 0 };
    const char *class;
    int rc = vf_component_config(&config, path, "transformer", NULL, &why);
    if (!rc)
        rc = vf_json_str(config, "_class_name", &class, &why);
    if (rc) {
        cJSON_Delete(config);
        return keep_reason(unread, path, &why, err);
    }
    rc = vf_transformer_check_config(config, err);
    const int opened = rc ? 0 : vf_component_open(&m, path, "transformer", &why);
    if (opened == VC_EMISMATCH) {                /* quantised in a way that is not read */
        cJSON_Delete(config);
        return vc_fail(err, opened, "%s", why.text);
    }
    if (opened)
        rc = keep_reason(unread, path, &why, err);
    else if (!rc)
        rc = vf_transformer_check_names(class, m, err);
    vf_model_close(m);
    cJSON_Delete(config);
    return vc_context(err, rc, "%s", path);
}

int vf_transformer_check(char **unread, const char *model, vc_err *err)
{
    static const char *const slots[] = { "transformer", "transformer_2" };
    const vc_err none = { .text = "no folder transformer" };
    *unread = NULL;
    int rc = vf_transformer_check_pipeline(model, err);
    for (int i = 0; !rc && i < 2; i++) {
        char *path;
        rc = vf_component_find(&path, model, slots[i], err);
        if (!rc && !path && !i && vc_file_exists_in(model, "model_index.json"))
            rc = keep_reason(unread, model, &none, err);
        else if (!rc && (path || !i))
            rc = check_path(unread, path ? path : model, err);
        free(path);
    }
    return rc;
}

int vf_transformer_check_file(const char *path, vc_err *err)
{
    char *unread = NULL;
    int rc = check_path(&unread, path, err);
    free(unread);
    return rc;
}
