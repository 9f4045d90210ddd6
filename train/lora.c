#include "train/lora.h"

#include <math.h>
#include <stdio.h>
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
    cJSON *meta;                 /* of the header, or NULL */
    const cJSON *alphas;         /* its alpha_pattern: {ending of a module: alpha}, or NULL */
    double alpha;                /* its alpha; below 0: not said */
    bool root;                   /* rank-stabilised: alpha / sqrt(r) (Kalajdzievski 2023) */
    entry *entry;
    int n;
    vt_source base;              /* of vtrain_lora_source */
    void **merged;               /* weights it has made */
    int n_merged, room_merged;
    size_t merged_bytes;
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
    { "base_model.model.", false }, { "pipe.dit.", false }, { "transformer.", false },
    { "diffusion_model.", false },
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

/* ---- metadata ---- */

/* alpha_pattern's keys are expressions to PEFT; plain names and endings are what is written. */
static int read_alphas(vtrain_lora *l, const char *field, vc_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(l->meta, field);
    if (!o || cJSON_IsNull(o) || !o->child) return 0;
    if (!cJSON_IsObject(o)) return vc_fail(err, VC_EFORMAT, "%s: expected an object", field);
    for (const cJSON *c = o->child; c; c = c->next) {
        double v = -1;
        int rc = vf_json_num_opt(o, c->string, &v, err);
        if (!rc && !(v >= 0 && v < 1e9)) rc = vc_fail(err, VC_EFORMAT, "out of range");
        if (!rc && c->string[strcspn(c->string, "()|*+?[]$\\{}")])
            rc = vc_fail(err, VC_EFORMAT, "expressions are not read");
        if (rc) return vc_context(err, rc, "%s: \"%.100s\"", field, c->string);
    }
    l->alphas = o;
    return 0;
}

/* What diffusers writes of PEFT's LoraConfig below "transformer.", Finetrainers without it. */
static int read_config(vtrain_lora *l, const char *key, const char *prefix, vc_err *err)
{
    static const char *const names[] = { "lora_alpha", "use_rslora", "use_dora", "alpha_pattern" };
    char field[4][40];
    for (int i = 0; i < 4; i++)
        snprintf(field[i], sizeof field[i], "%s%s", prefix, names[i]);
    const char *text = vf_safetensors_meta(l->file, key);
    bool dora = false;
    int rc = vf_json_parse(&l->meta, text, strlen(text), err);
    if (!rc) rc = vf_json_num_opt(l->meta, field[0], &l->alpha, err);
    if (!rc && !(l->alpha < 1e9 && (l->alpha >= 0 || l->alpha == -1)))
        rc = vc_fail(err, VC_EFORMAT, "%s: out of range", field[0]);
    if (!rc) rc = vf_json_bool_opt(l->meta, field[1], &l->root, err);
    if (!rc) rc = vf_json_bool_opt(l->meta, field[2], &dora, err);
    if (!rc && dora) rc = vc_fail(err, VC_EFORMAT, "%s: a DoRA is no LoRA", field[2]);
    if (!rc) rc = read_alphas(l, field[3], err);
    return vc_context(err, rc, "%s", key);
}

static int read_metadata(vtrain_lora *l, vc_err *err)
{
    static const char *const keys[] = { "lora_adapter_metadata", "lora_config" };
    l->alpha = -1;
    for (int i = 0; i < 2; i++)
        if (vf_safetensors_meta(l->file, keys[i]))
            return read_config(l, keys[i], i ? "" : "transformer.", err);
    return 0;
}

/* The alpha of the metadata for a module; below 0: none. */
static double alpha_of(const vtrain_lora *l, const char *module)
{
    size_t n = strlen(module);
    for (const cJSON *c = l->alphas ? l->alphas->child : NULL; c; c = c->next) {
        bool whole = *c->string == '^';
        const char *end = c->string + whole;
        size_t e = strlen(end);
        if (e > n || strcmp(module + n - e, end)) continue;
        if (e == n || (!whole && module[n - e - 1] == '.')) return c->valuedouble;
    }
    return l->alpha;
}

/* ---- opening ---- */

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
    if (!l->entry) return vc_fail(err, VC_ENOMEM, "out of memory");
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
    cJSON_Delete(l->meta);
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

/* The pair's own alpha before the metadata's; without any alpha = r. */
static double scale_of(const vtrain_lora *l, const entry *e, const char *module)
{
    double r = (double)e->a->dim[0], alpha = alpha_of(l, module);
    if (e->alpha) {
        float v;
        vc_to_f32(&v, e->alpha->data, e->alpha->dtype, 1);
        return (double)v / r;
    }
    return alpha < 0 ? 1 : l->root ? alpha / sqrt(r) : alpha / r;
}

int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err)
{
    for (int i = 0; i < l->n; i++) {
        entry *e = &l->entry[i];
        if (!same_module(e, module)) continue;
        int rc = check_pair(l, e, err);
        if (rc) return rc;
        e->used = true;
        *p = (vtrain_lora_pair){ .a = *e->a, .b = *e->b, .scale = scale_of(l, e, module) };
        return isfinite(p->scale) ? 0 : vc_fail(err, VC_EFORMAT, "%s: module \"%s\": alpha is not "
                                                "finite", l->path, module);
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
    enum { TILE = 512 };
    double sum[TILE];
    for (int64_t o = 0; o < out; o++)
        for (int64_t at = 0; at < in; at += TILE) {
            int64_t n = in - at < TILE ? in - at : TILE;
            float *to = w + o * in + at;
            memset(sum, 0, sizeof sum);
            for (int64_t k = 0; k < r; k++) {
                const float *row = a + k * in + at;
                double f = b[o * r + k];
                for (int64_t i = 0; i < n; i++)
                    sum[i] += f * (double)row[i];
            }
            for (int64_t i = 0; i < n; i++)
                to[i] = (float)((double)to[i] + scale * sum[i]);
        }
}

static float *floats_of(const void *data, vc_dtype t, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f);
    if (f) vc_to_f32(f, data, t, (size_t)n);
    return f;
}

/* Room for one more weight of its own. */
static int grow_merged(vtrain_lora *l, vc_err *err)
{
    if (l->n_merged < l->room_merged) return 0;
    int room = l->room_merged ? 2 * l->room_merged : 64;
    void **more = realloc(l->merged, sizeof *more * (size_t)room);
    if (!more) return vc_fail(err, VC_ENOMEM, "out of memory");
    l->merged = more;
    l->room_merged = room;
    return 0;
}

/* The weight of v with the pair folded in, in v's type; remembered in l. */
static int make_merged(vtrain_lora *l, vt_host *v, const vtrain_lora_pair *p, vc_err *err)
{
    int64_t out = v->dim[0], in = v->dim[1], r = p->a.dim[0], n = out * in;
    float *w = floats_of(v->data, v->dtype, n);
    float *a = floats_of(p->a.data, p->a.dtype, r * in);
    float *b = floats_of(p->b.data, p->b.dtype, out * r);
    void *stored = malloc((size_t)n * vc_dtype_size(v->dtype));
    int rc = grow_merged(l, err);
    if (!rc && (!w || !a || !b || !stored)) rc = vc_fail(err, VC_ENOMEM, "out of memory");
    if (rc) {
        free(stored);
    } else {
        vtrain_lora_merge(w, out, in, a, b, r, p->scale);
        vc_from_f32(stored, v->dtype, w, (size_t)n);
        l->merged[l->n_merged++] = stored;
        l->merged_bytes += (size_t)n * vc_dtype_size(v->dtype);
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

size_t vtrain_lora_bytes(const vtrain_lora *l)
{
    return l->merged_bytes;
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
        if (!(fabs(pair.scale - (double)x->lin->lora_scale) <= 1e-6 * fabs(pair.scale)))
            return vc_fail(err, VC_EMISMATCH, "%s: scale (alpha / rank) %g, but this run's is %g: "
                           "give the file's --rank and --network_alpha", l->path, pair.scale,
                           (double)x->lin->lora_scale);
        rc = vtrain_values_set(vt_params_context(p), x->t,
                               x->role == VT_P_LORA_A ? &pair.a : &pair.b, err);
        if (rc) return vc_context(err, rc, "%s (rank %lld)", l->path, (long long)pair.a.dim[0]);
    }
    return vtrain_lora_all_used(l, err);
}
