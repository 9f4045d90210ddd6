#include "train/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "formats/json.h"
#include "train/values.h"

enum { MAX_TENSORS = 20000 };    /* entries are searched one by one */

typedef struct entry {
    char *module;                /* without prefix and suffix; flat: underscores for dots */
    bool flat, used;
    const vf_view *a, *b, *alpha;
} entry;

struct vtrain_lora {
    char *path;
    vf_safetensors *file;
    double alpha;                /* of the metadata; 0: not said */
    entry *entry;
    int n;
    vt_source base;              /* of vtrain_lora_source */
    void **merged;               /* weights it has made */
    int n_merged;
};

/* ---- names ---- */

typedef enum { PART_NONE, PART_A, PART_B, PART_ALPHA } part;

static const struct { const char *suffix; part is; } suffixes[] = {
    { ".lora_A.weight", PART_A },      { ".lora_B.weight", PART_B },
    { ".lora_A.default.weight", PART_A }, { ".lora_B.default.weight", PART_B },
    { ".lora_down.weight", PART_A },   { ".lora_up.weight", PART_B },
    { ".alpha", PART_ALPHA },
};
static const struct { const char *prefix; bool flat; } prefixes[] = {
    { "base_model.model.", false }, { "transformer.", false }, { "diffusion_model.", false },
    { "lora_unet__", true }, { "lora_unet_", true },
};

/* The module of a tensor's name, malloc'ed; NULL for a name that is no LoRA's (or no memory). */
static char *module_of(const char *name, part *is, bool *flat)
{
    size_t n = strlen(name);
    *is = PART_NONE;
    *flat = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !*is; i++) {
        size_t s = strlen(suffixes[i].suffix);
        if (n <= s || strcmp(name + n - s, suffixes[i].suffix)) continue;
        *is = suffixes[i].is;
        n -= s;
    }
    if (!*is) return NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t p = strlen(prefixes[i].prefix);
        if (n <= p || strncmp(name, prefixes[i].prefix, p)) continue;
        name += p;
        n -= p;
        *flat = prefixes[i].flat;
        if (*flat) break;
    }
    return strndup(name, n);
}

static bool same_module(const entry *e, const char *module)
{
    if (!e->flat) return !strcmp(e->module, module);
    const char *a = e->module;
    for (; *a && *module; a++, module++)
        if (*a != (*module == '.' ? '_' : *module)) return false;
    return !*a && !*module;
}

static entry *entry_of(vtrain_lora *l, const char *module, bool flat)
{
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].flat == flat && !strcmp(l->entry[i].module, module)) return &l->entry[i];
    return NULL;
}

/* ---- opening ---- */

static int add(vtrain_lora *l, const vf_view *v, vc_err *err)
{
    part is;
    bool flat;
    char *module = module_of(v->name, &is, &flat);
    if (!is) return vc_fail(err, VC_EFORMAT, "tensor \"%s\" is no part of a LoRA", v->name);
    if (!module) return vc_fail(err, VC_ENOMEM, "out of memory");
    entry *e = entry_of(l, module, flat);
    if (e) {
        free(module);
    } else {
        e = &l->entry[l->n++];
        *e = (entry){ .module = module, .flat = flat };
    }
    const vf_view **slot = is == PART_A ? &e->a : is == PART_B ? &e->b : &e->alpha;
    if (*slot) return vc_fail(err, VC_EFORMAT, "module \"%s\" is there twice", e->module);
    *slot = v;
    return 0;
}

static int read_metadata(vtrain_lora *l, vc_err *err)
{
    const char *text = vf_safetensors_meta(l->file, "lora_adapter_metadata");
    if (!text) return 0;
    cJSON *o;
    int rc = vf_json_parse(&o, text, strlen(text), err);
    if (!rc) rc = vf_json_num_opt(o, "transformer.lora_alpha", &l->alpha, err);
    if (!rc && !(l->alpha >= 0 && l->alpha < 1e9))
        rc = vc_fail(err, VC_EFORMAT, "transformer.lora_alpha: out of range");
    cJSON_Delete(o);
    return vc_context(err, rc, "lora_adapter_metadata");
}

static char *file_of(const char *path)
{
    static const char st[] = ".safetensors";
    size_t n = strlen(path), s = sizeof st - 1;
    if (n > s && !strcmp(path + n - s, st)) return strdup(path);
    return vc_path_join(path, "pytorch_lora_weights.safetensors");
}

static int open_parts(vtrain_lora *l, const char *path, vc_err *err)
{
    l->path = file_of(path);
    if (!l->path) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_open(&l->file, l->path, err);
    if (rc) return rc;
    int n = vf_safetensors_count(l->file);
    if (n > MAX_TENSORS)
        return vc_fail(err, VC_EFORMAT, "%s: %d tensors, more than any LoRA has", l->path, n);
    l->entry = calloc((size_t)n + 1, sizeof *l->entry);
    l->merged = calloc((size_t)n + 1, sizeof *l->merged);
    if (!l->entry || !l->merged) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; !rc && i < n; i++)
        rc = add(l, vf_safetensors_at(l->file, i), err);
    if (!rc && !l->n) rc = vc_fail(err, VC_EFORMAT, "no LoRA in it");
    if (!rc) rc = read_metadata(l, err);
    return vc_context(err, rc, "%s", l->path);
}

int vtrain_lora_open(vtrain_lora **out, const char *path, vc_err *err)
{
    *out = NULL;
    vtrain_lora *l = calloc(1, sizeof *l);
    if (!l) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = open_parts(l, path, err);
    if (rc) {
        vtrain_lora_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void vtrain_lora_close(vtrain_lora *l)
{
    if (!l) return;
    for (int i = 0; i < l->n; i++)
        free(l->entry[i].module);
    for (int i = 0; i < l->n_merged; i++)
        free(l->merged[i]);
    free(l->entry);
    free(l->merged);
    vf_safetensors_close(l->file);
    free(l->path);
    free(l);
}

/* ---- reading ---- */

static bool is_float(vc_dtype t)
{
    return t == VC_F32 || t == VC_BF16 || t == VC_F16;
}

static int check_pair(const vtrain_lora *l, const entry *e, vc_err *err)
{
    if (!e->a || !e->b)
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\": one half of the pair is missing",
                       l->path, e->module);
    if (e->a->nd != 2 || e->b->nd != 2 || e->a->dim[0] != e->b->dim[1] || e->a->dim[0] < 1 ||
        !is_float(e->a->dtype) || !is_float(e->b->dtype))
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\": the pair's shapes or types do not fit "
                       "each other", l->path, e->module);
    if (e->alpha && (vf_view_count(e->alpha) != 1 || !is_float(e->alpha->dtype)))
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\": alpha is no number", l->path,
                       e->module);
    return 0;
}

int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err)
{
    for (int i = 0; i < l->n; i++) {
        entry *e = &l->entry[i];
        if (!same_module(e, module)) continue;
        int rc = check_pair(l, e, err);
        if (rc) return rc;
        double r = (double)e->a->dim[0], alpha = l->alpha > 0 ? l->alpha : r;
        if (e->alpha) {
            float v;
            vc_to_f32(&v, e->alpha->data, e->alpha->dtype, 1);
            alpha = v;
        }
        e->used = true;
        *p = (vtrain_lora_pair){ .a = *e->a, .b = *e->b, .scale = alpha / r };
        return 0;
    }
    return vc_fail(err, VC_ENOENT, "%s: no module \"%s\"", l->path, module);
}

int vtrain_lora_all_used(const vtrain_lora *l, vc_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (!l->entry[i].used)
            return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" is not in this transformer or not "
                           "among its targets", l->path, l->entry[i].module);
    return 0;
}

/* ---- folding in ---- */

void vtrain_lora_merge(float *w, int64_t out, int64_t in, const float *a, const float *b,
                       int64_t r, double scale)
{
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t k = 0; k < r; k++)
                sum += (double)b[o * r + k] * (double)a[k * in + i];
            w[o * in + i] = (float)((double)w[o * in + i] + scale * sum);
        }
}

static float *floats_of(const void *data, vc_dtype t, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f);
    if (f) vc_to_f32(f, data, t, (size_t)n);
    return f;
}

/* The weight of v with the pair folded in, in v's type; remembered in l. */
static int make_merged(vtrain_lora *l, vt_host *v, const vtrain_lora_pair *p, vc_err *err)
{
    int64_t out = v->dim[0], in = v->dim[1], r = p->a.dim[0], n = out * in;
    float *w = floats_of(v->data, v->dtype, n);
    float *a = floats_of(p->a.data, p->a.dtype, r * in);
    float *b = floats_of(p->b.data, p->b.dtype, out * r);
    void *stored = malloc((size_t)n * vc_dtype_size(v->dtype));
    int rc = 0;
    if (!w || !a || !b || !stored) {
        rc = vc_fail(err, VC_ENOMEM, "out of memory");
        free(stored);
    } else {
        vtrain_lora_merge(w, out, in, a, b, r, p->scale);
        vc_from_f32(stored, v->dtype, w, (size_t)n);
        l->merged[l->n_merged++] = stored;
        v->data = stored;
    }
    free(w);
    free(a);
    free(b);
    return rc;
}

static int merged_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    vtrain_lora *l = arg;
    int rc = l->base.get(l->base.arg, name, v, err);
    size_t n = strlen(name);
    if (rc || n < 8 || strcmp(name + n - 7, ".weight") || v->nd != 2) return rc;
    char *module = strndup(name, n - 7);
    if (!module) return vc_fail(err, VC_ENOMEM, "out of memory");
    vtrain_lora_pair p;
    rc = vtrain_lora_get(l, module, &p, err);
    free(module);
    if (rc == VC_ENOENT) {
        if (err) *err = (vc_err){ 0 };
        return 0;
    }
    if (!rc && (p.a.dim[1] != v->dim[1] || p.b.dim[0] != v->dim[0]))
        rc = vc_fail(err, VC_EMISMATCH, "%s: the pair of \"%s\" has another shape", l->path, name);
    return rc ? rc : make_merged(l, v, &p, err);
}

vt_source vtrain_lora_source(vtrain_lora *l, const vt_source *base)
{
    l->base = *base;
    return (vt_source){ .get = merged_get, .arg = l, .seed = base->seed, .mapped = base->mapped };
}

/* ---- going on with one ---- */

int vtrain_lora_load(vt_params *p, vtrain_lora *l, vc_err *err)
{
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_param *x = vt_params_at(p, i);
        if (x->role == VT_P_BASE) continue;
        vtrain_lora_pair pair;
        int rc = vtrain_lora_get(l, x->module, &pair, err);
        if (rc) return rc;
        if (fabs(pair.scale - (double)x->lin->lora_scale) > 1e-6 * pair.scale)
            return vc_fail(err, VC_EMISMATCH, "%s: scale (alpha / rank) %g, but this run's is %g: "
                           "give the file's --rank and --network_alpha", l->path, pair.scale,
                           (double)x->lin->lora_scale);
        rc = vtrain_values_set(x->t, x->role == VT_P_LORA_A ? &pair.a : &pair.b, err);
        if (rc) return vc_context(err, rc, "%s (rank %lld)", l->path, (long long)pair.a.dim[0]);
    }
    return vtrain_lora_all_used(l, err);
}
