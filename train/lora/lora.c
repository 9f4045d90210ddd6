/* lora.c - reads LoRA files of all namings and folds them into weights; see lora.h */
#include "train/lora/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/tensors/values.h"
#include "train/lora/parts.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MAX_TENSORS = 20000 };    /* a search compares all entries */

/* ---- names ---- */

/* Tensors of adapters that are not a product of two matrices. The first row that fits counts. */
static const struct { const char *word, *what; } others[] = {
    { ".magnitude", "a DoRA" },             { ".lokr_", "a LoKr with a core" },
    { ".hada_", "a LoHa with a core" },     { ".oft_", "an OFT" },
    { ".boft_", "a BOFT" },                 { ".ia3_", "an IA3" },
    { ".on_input", "an IA3" },              { ".glora_", "a GLoRA" },
    { ".a1.weight", "a GLoRA" },            { ".lora_mid.", "a LoCon with a middle convolution" },
    { ".lora_embedding_", "an embedding's LoRA" },
    { "bundle_emb", "an embedding of words" }, { "emb_params", "an embedding of words" },
    { ".set_weight", "a new layer" },       { ".reshape_weight", "a layer of another shape" },
    { ".bias", "a change of a bias" },      { ".base_layer.", "a model with its LoRA apart" },
    { ".matrix_A", "a LoRA of SAT" },       { ".matrix_B", "a LoRA of SAT" },
};

static int no_part(const char *name, vc_err *err)
{
    const char *bare = vtrain_lora_bare(name);
    for (size_t i = 0; i < COUNT(others); i++) {
        if (!strstr(bare, others[i].word))
            continue;
        return vc_fail(err, VC_EFORMAT, "tensor \"%s\" belongs to %s, and only products of two "
                       "matrices are read: fold the file into the transformer with the program "
                       "that made the file, and give the result as --transformer", name,
                       others[i].what);
    }
    return vc_fail(err, VC_EFORMAT, "tensor \"%s\" is not part of a LoRA", name);
}

static int no_text(const char *name, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "tensor \"%s\" is of a text encoder, and here only the "
                   "transformer has a LoRA; vprep encodes texts without one: write the file again "
                   "without the tensors whose names begin like this one", name);
}

static vtrain_lora_entry *entry_of(vtrain_lora *l, const vtrain_lora_name *n)
{
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].flat == n->flat && l->entry[i].second == n->second &&
            !strcmp(l->entry[i].module, n->module))
            return &l->entry[i];
    return NULL;
}

static int add(vtrain_lora *l, const vf_view *v, vc_err *err)
{
    if (vtrain_lora_is_text(v->name))
        return no_text(v->name, err);
    const vtrain_lora_name n = vtrain_lora_module(v->name);
    if (!n.is)
        return no_part(v->name, err);
    if (!n.module)
        return vc_no_memory(err);
    vtrain_lora_entry *e = entry_of(l, &n);
    if (e) {
        free(n.module);
    } else {
        e = &l->entry[l->n++];
        *e = (vtrain_lora_entry){ .module = n.module, .flat = n.flat, .second = n.second };
    }
    const vf_view **slot = n.is == VTRAIN_PART_A       ? &e->a
                           : n.is == VTRAIN_PART_B     ? &e->b
                           : n.is == VTRAIN_PART_ALPHA ? &e->alpha
                           : n.is == VTRAIN_PART_MAGNITUDE ? &e->magnitude
                                                       : &e->more[n.is];
    if (*slot)
        return vc_fail(err, VC_EFORMAT, "module \"%s\" is in the file twice", e->module);
    *slot = v;
    return vf_view_finite(v, err);
}

/* ---- opening ---- */

/* *file is a copy of path, or of a folder's path with the name that diffusers or PEFT gives the
 * file. */
static int find_file(char **file, const char *path, vc_err *err)
{
    static const char *const names[] = {
        "pytorch_lora_weights.safetensors", "adapter_model.safetensors"
    };
    struct stat st;
    if (stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    if (!S_ISDIR(st.st_mode)) {
        *file = strdup(path);
        return *file ? 0 : vc_no_memory(err);
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        *file = vc_path_join(path, names[i]);
        if (!*file)
            return vc_no_memory(err);
        if (vc_file_exists(*file))
            return 0;
        free(*file);
        *file = NULL;
    }
    return vc_fail(err, VC_ENOENT, "%s has neither %s nor %s: give the LoRA's file itself", path,
                   names[0], names[1]);
}

/* Compares the checksum in the file; files of other programs have none. */
static int check_seal(const vtrain_lora *l, vc_err *err)
{
    vc_err why = { 0 };
    int rc = vf_safetensors_check_seal(l->file, &why);
    if (!rc || rc == VC_ENOENT)
        return 0;
    return vc_fail(err, rc, "%s: %s: copy the file again, or take the file of another checkpoint",
                   l->path, why.text);
}

static int open_parts(vtrain_lora *l, const char *path, vc_err *err)
{
    int rc = find_file(&l->path, path, err);
    if (!rc)
        rc = vf_safetensors_open(&l->file, l->path, err);
    if (rc)
        return rc;
    rc = check_seal(l, err);
    if (rc)
        return rc;
    int n = vf_safetensors_count(l->file);
    if (n > MAX_TENSORS)
        return vc_fail(err, VC_EFORMAT, "%s has %d tensors; a LoRA may have at most %d", l->path, n,
                       MAX_TENSORS);
    l->entry = calloc((size_t)n + 1, sizeof *l->entry);
    if (!l->entry)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < n; i++)
        rc = add(l, vf_safetensors_at(l->file, i), err);
    if (!rc && !l->n)
        rc = vc_fail(err, VC_EFORMAT, "the file has no tensor of a LoRA");
    if (!rc)
        rc = vtrain_lora_alpha_read(&l->alpha, l->file, l->path, err);
    if (!rc && l->alpha.dora)
        rc = vtrain_lora_check_dora(l, err);
    const char *adapter = rc ? NULL : vf_safetensors_meta(l->file, "vlt_adapter");
    l->root = (adapter && !strcmp(adapter, "rslora")) || l->alpha.root;
    l->comfyui = !rc && vf_safetensors_meta(l->file, "vlt_magnitudes");
    return vc_context(err, rc, "%s", l->path);
}

int vtrain_lora_open(vtrain_lora **out, const char *path, vc_err *err)
{
    *out = NULL;
    vtrain_lora *l = calloc(1, sizeof *l);
    if (!l)
        return vc_no_memory(err);
    l->strength = 1;
    int rc = open_parts(l, path, err);
    if (rc) {
        vtrain_lora_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void vtrain_lora_rename(vtrain_lora *l, const vtrain_rename *first, const vtrain_rename *peer)
{
    l->renames[0] = first;
    l->renames[1] = peer;
}

/* Keeps the entries of one transformer where the file has those of two. */
static int keep_half(vtrain_lora *l, const char *transformer, vc_err *err)
{
    const bool second = !strcmp(transformer, "transformer_2");
    int n = 0, all = l->n;
    for (int i = 0; i < all; i++)
        n += l->entry[i].second;
    if (!n || (second && n == all))
        return 0;
    if (n == all)
        return vc_fail(err, VC_EMISMATCH, "%s has modules of transformer_2 alone (%s), but this "
                       "run's is %s", l->path, l->entry[0].module, transformer);
    l->n = 0;
    for (int i = 0; i < all; i++)
        if (l->entry[i].second == second)
            l->entry[l->n++] = l->entry[i];
        else
            free(l->entry[i].module);
    l->note = vc_format("%s holds LoRAs of two transformers: the %d modules of %s are read, the "
                        "others left out", l->path, l->n, transformer);
    return l->note ? 0 : vc_no_memory(err);
}

int vtrain_lora_check_of(vtrain_lora *l, const char *transformer, vc_err *err)
{
    const char *of = vf_safetensors_meta(l->file, "vlt_transformer");
    if (of && strcmp(of, transformer))
        return vc_fail(err, VC_EMISMATCH, "%s was trained for %.40s, but --boundary_type selects "
                       "%s", l->path, of, transformer);
    return keep_half(l, transformer, err);
}

const char *vtrain_lora_note(const vtrain_lora *l)
{
    return l->note;
}

vf_key vtrain_lora_hash(const vtrain_lora *l)
{
    static const char *const meta[] = {
        "vlt_network_alpha", "lora_adapter_metadata", "lora_config"
    };
    vf_hasher h;
    vf_hasher_begin(&h, "lora");
    for (size_t i = 0; i < COUNT(meta); i++) {
        const char *text = vf_safetensors_meta(l->file, meta[i]);
        vf_hasher_str(&h, meta[i], text ? text : "");
    }
    for (int i = 0; i < vf_safetensors_count(l->file); i++) {
        const vf_view *v = vf_safetensors_at(l->file, i);
        vf_hasher_str(&h, "name", v->name);
        vf_hasher_int(&h, "dtype", v->dtype);
        for (int k = 0; k < v->nd; k++)
            vf_hasher_int(&h, "dim", v->dim[k]);
        vf_hasher_bytes(&h, "data", v->data, v->bytes);
    }
    return vf_hasher_end(&h);
}

void vtrain_lora_close(vtrain_lora *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n; i++)
        free(l->entry[i].module);
    for (int i = 0; i < l->n_merged; i++)
        free(l->merged[i]);
    free(l->entry);
    free(l->merged);
    vtrain_lora_alpha_close(&l->alpha);
    vf_safetensors_close(l->file);
    free(l->note);
    free(l->path);
    free(l);
}

/* ---- reading ---- */

static int check_pair(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err)
{
    const vf_view *a = e->a, *b = e->b;
    if (!a && !b && vtrain_lora_more(e))
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s, which --preset_lora_path folds "
                       "in, but which is not trained here", l->path, e->module,
                       vtrain_lora_more(e));
    if (l->alpha.dora && !e->magnitude)
        return vc_fail(err, VC_EFORMAT, "%s: use_dora is true in the metadata, but module \"%s\" "
                       "has no magnitude: copy the file again, or write it again as a DoRA",
                       l->path, e->module);
    if (!a || !b)
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" lacks half of its pair, %s", l->path,
                       e->module, a ? "lora_B (lora_up)" : "lora_A (lora_down)");
    int rc = vtrain_lora_check_type(l, a, err);
    if (!rc)
        rc = vtrain_lora_check_type(l, b, err);
    if (!rc && e->magnitude)
        rc = vtrain_lora_check_magnitude(l, e, err);
    if (!rc && e->alpha && vf_view_count(e->alpha) != 1)
        rc = vc_fail(err, VC_EFORMAT, "%s: tensor \"%s\" has %lld values, but an alpha is one "
                     "number", l->path, e->alpha->name, (long long)vf_view_count(e->alpha));
    bool fit = a->nd >= 2 && b->nd == a->nd && a->dim[0] == b->dim[1] && a->dim[0] > 0;
    for (int i = 2; fit && i < b->nd; i++)
        fit = b->dim[i] == 1;
    if (rc || fit)
        return rc;
    char have_a[VT_SHAPE_TEXT], have_b[VT_SHAPE_TEXT];
    vt_shape_text(have_a, a->nd, a->dim);
    vt_shape_text(have_b, b->nd, b->dim);
    return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has halves of %s and %s; those of a linear "
                   "are [rank,in] and [out,rank], of a rank above 0, and those of a convolution "
                   "[rank,in,kernel] and [out,rank,1,1]", l->path, e->module, have_a, have_b);
}

double vtrain_lora_own_alpha(const vtrain_lora_entry *e, double none)
{
    float own;
    if (!e->alpha)
        return none;
    vc_to_f32(&own, e->alpha->data, e->alpha->dtype, 1);
    return (double)own;
}

double vtrain_lora_scale(const vtrain_lora *l, const vtrain_lora_entry *e, const char *module,
                         double r)
{
    return e->alpha ? vtrain_lora_own_alpha(e, 0) / r
                    : vtrain_lora_alpha_scale(&l->alpha, module, r);
}

double vtrain_lora_trained(const vtrain_lora *l, double own, double rank)
{
    const double alpha = l->alpha.trained;
    return isnan(alpha) ? own : alpha / (l->root ? sqrt(rank) : rank);
}

/* Sets *e to the entry with this name, and leaves *e alone if there is none. Entries with two names
 * of a module are an error. */
static int find_name(vtrain_lora *l, const char *name, vtrain_lora_entry **e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < l->n; i++) {
        vtrain_lora_entry *at = &l->entry[i];
        if (at == *e || !vtrain_lora_same_module(at->module, at->flat, name))
            continue;
        if (*e)
            rc = vc_fail(err, VC_EFORMAT, "%s: module \"%s\" is in the file twice, also as \"%s\"",
                         l->path, (*e)->module, at->module);
        *e = at;
    }
    return rc;
}

/* Looks for the names that the tables give to `name`, without `end`, which they end with. */
static int find_renamed(vtrain_lora *l, const char *name, const char *end, vtrain_lora_entry **e,
                        vtrain_renamed *r, vc_err *err)
{
    int rc = 0;
    for (int k = 0; k < 2 && !rc; k++) {
        vtrain_renamed at = { 0 };
        const vtrain_rename *rows = l->renames[k];
        for (; !rc && rows; rows = at.row ? at.row + 1 : NULL) {
            const vtrain_lora_entry *before = *e;
            rc = vtrain_rename_find(&at, rows, name, err);
            const size_t n = rc || !at.row ? 0 : strlen(at.theirs), m = strlen(end);
            if (n > m && !strcmp(at.theirs + n - m, end)) {
                at.theirs[n - m] = 0;
                rc = find_name(l, at.theirs, e, err);
            }
            if (!rc && n && at.row->comfyui)
                rc = find_name(l, at.row->comfyui, e, err);
            if (!rc && *e != before)
                *r = at;
            free(at.theirs);
        }
    }
    return rc;
}

/* Norms, and layers whose halves are swapped, have rows with the names of their tensors. */
int vtrain_lora_find(vtrain_lora *l, const char *module, vtrain_lora_entry **e, vtrain_renamed *r,
                     vc_err *err)
{
    *e = NULL;
    *r = (vtrain_renamed){ .parts = 1 };
    int rc = find_name(l, module, e, err);
    if (!rc)
        rc = find_renamed(l, module, "", e, r, err);
    if (rc || *e)
        return rc;
    char *weight = vc_format("%s.weight", module);
    rc = weight ? find_renamed(l, weight, ".weight", e, r, err) : vc_no_memory(err);
    free(weight);
    return rc;
}

int vtrain_lora_keep(vtrain_lora *l, void *made, vc_err *err)
{
    if (l->n_merged == l->room_merged) {
        int room = l->room_merged ? 2 * l->room_merged : 64;
        void **more = realloc(l->merged, sizeof *more * (size_t)room);
        if (!more)
            return vc_no_memory(err);
        l->merged = more;
        l->room_merged = room;
    }
    l->merged[l->n_merged++] = made;
    return 0;
}

int vtrain_lora_swap(vtrain_lora *l, const vtrain_lora_entry *e, vf_view *v, vc_err *err)
{
    const size_t half = v->bytes / 2;
    if (v->dim[0] % 2)
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\": an even number of rows is expected",
                       l->path, e->module);
    char *copy = malloc(2 * half + 1);
    int rc = copy ? vtrain_lora_keep(l, copy, err) : vc_no_memory(err);
    if (rc) {
        free(copy);
        return rc;
    }
    memcpy(copy, (const char *)v->data + half, half);
    memcpy(copy + half, v->data, half);
    v->data = copy;
    return 0;
}

/* Narrows the B of a fused module to the rows of one of our modules. */
static int take_rows(const vtrain_lora *l, const vtrain_lora_entry *e, const vtrain_renamed *r,
                     vf_view *b, vc_err *err)
{
    int64_t first, rows;
    if (!vtrain_rename_rows(r, b->dim[0], &first, &rows))
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\": lora_B (lora_up) has %lld rows, which "
                       "%d parts cannot share", l->path, e->module, (long long)b->dim[0], r->all);
    size_t row = b->bytes / (size_t)b->dim[0];
    b->dim[0] = rows;
    b->data = (const char *)b->data + row * (size_t)first;
    b->bytes = row * (size_t)b->dim[0];
    return 0;
}

int vtrain_lora_pair_of(vtrain_lora *l, const char *module, vtrain_lora_pair *p,
                        vtrain_lora_entry **e, vc_err *err)
{
    vtrain_renamed r;
    int rc = vtrain_lora_find(l, module, e, &r, err);
    if (!rc && !*e)
        rc = vc_fail(err, VC_ENOENT, "%s: no module \"%s\"", l->path, module);
    if (!rc)
        rc = check_pair(l, *e, err);
    if (rc)
        return rc;
    (*e)->parts = r.parts;
    (*e)->row = r;
    (*e)->row.theirs = NULL;
    *p = (vtrain_lora_pair){ .a = *(*e)->a, .b = *(*e)->b, .part = r.part, .parts = r.parts };
    p->scale = vtrain_lora_scale(l, *e, module, (double)p->a.dim[0]);
    if (vtrain_lora_alpha_check(&l->alpha, err))
        return vc_context(err, VC_EFORMAT, "%s", l->path);
    p->trained = vtrain_lora_trained(l, p->scale, (double)p->a.dim[0]);
    if ((*e)->magnitude)
        vtrain_lora_magnitudes(*e, &r, p);
    const bool swapped = vtrain_rename_swapped(&r, p->b.dim[0], p->a.dim[1]);
    if (swapped && p->scaled)
        rc = vtrain_lora_swap(l, *e, &p->magnitude, err);
    if (swapped && !rc)
        rc = vtrain_lora_swap(l, *e, &p->b, err);
    return rc || swapped ? rc
           : r.parts > 1 ? take_rows(l, *e, &r, &p->b, err) : 0;
}

int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err)
{
    vtrain_lora_entry *e;
    int rc = vtrain_lora_pair_of(l, module, p, &e, err);
    if (!rc)
        e->used |= 1u << p->part;
    return rc;
}

/* Marks the entries that belong to modules of p. */
static int mark_known(vtrain_lora *l, vt_params *p, vc_err *err)
{
    int rc = 0;
    for (int i = 0; p && !rc && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        vtrain_lora_entry *e = NULL;
        vtrain_renamed r;
        if (x->module && x->t == x->lin->w)
            rc = vtrain_lora_find(l, x->module, &e, &r, err);
        if (e)
            e->known = true;
    }
    return rc;
}

static bool has_values(const vf_view *b, int64_t first, int64_t rows)
{
    enum { SOME = 512 };
    float x[SOME];
    const int64_t row = vf_view_count(b) / b->dim[0], end = (first + rows) * row;
    for (int64_t at = first * row; at < end; at += SOME) {
        const int64_t n = end - at < SOME ? end - at : SOME;
        vf_view_f32(x, b, (size_t)at, (size_t)n);
        for (int64_t i = 0; i < n; i++)
            if (x[i] != 0)
                return true;
    }
    return false;
}

bool vtrain_lora_is_zero(const vtrain_lora_entry *e, int part)
{
    vtrain_renamed r = { 0 };
    int64_t first = 0, rows = 0;
    char *module = e->row.row && e->b ? vtrain_rename_sibling(&e->row, part) : NULL;
    const bool found = module && !vtrain_rename_find(&r, e->row.row, module, NULL) && r.row &&
                       vtrain_rename_rows(&r, e->b->dim[0], &first, &rows);
    free(module);
    free(r.theirs);
    return found && !has_values(e->b, first, rows) && has_values(e->b, 0, e->b->dim[0]);
}

/* Whether all of an entry was used that is not zero. */
static bool all_parts_used(const vtrain_lora_entry *e)
{
    bool all = e->used || (!e->a && e->more[VTRAIN_PART_DIFF_B]);
    all = all && (e->used_bias || !e->more[VTRAIN_PART_DIFF_B]);
    for (int i = 0; all && e->used && i < e->parts; i++)
        all = e->used >> i & 1 || vtrain_lora_is_zero(e, i);
    return all;
}

int vtrain_lora_all_used(vtrain_lora *l, vt_params *p, vc_err *err)
{
    const vtrain_lora_entry *e = l->entry;
    while (e < l->entry + l->n && all_parts_used(e))
        e++;
    if (e == l->entry + l->n)
        return 0;
    int rc = mark_known(l, p, err);
    if (rc)
        return rc;
    if (vtrain_lora_more(e))
        return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" has %s, which --preset_lora_path "
                       "folds in where the transformer has the layer, but which is not trained "
                       "here", l->path, e->module, vtrain_lora_more(e));
    if (e->used)
        return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" is %d modules of this transformer in "
                       "one, of which --target_name matches some: leave --target_name out, or "
                       "match all", l->path, e->module, e->parts);
    if (e->known)
        return vc_fail(err, VC_EMISMATCH, "%s: --target_name does not match module \"%s\" of the "
                       "file: leave --target_name out, so that the file's modules are trained",
                       l->path, e->module);
    return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" is none of this transformer's linears and "
                   "convolutions: the file is of another model", l->path, e->module);
}
