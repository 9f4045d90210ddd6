/* musubi.c - exports and imports musubi-tuner's cache: a folder of safetensors files, two a sample.
 *
 *     STEM_[FIRST-FRAMES_]WxH_ARCH.safetensors      latents_FxHxW_TYPE
 *     STEM_ARCH_te.safetensors                      NAME_TYPE, varlen_NAME_TYPE, NAME_mask
 *
 * Stills beside clips lie in images/: musubi reads a folder for each kind, and its reader of clips
 * fails at the name of a still. WxH is the source's size. Stems may have underscores, so names are
 * read from their ends. The type in a tensor's name is not always that of its values, so the
 * header's type is used. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"

typedef struct arch {
    const char *family, *tag, *full;
    bool normalized, drawn;                  /* latents are normalised, are draws */
    vc_dtype latent, text;                   /* types in musubi's files */
    const char *embeds, *pooled;             /* tensor names; pooled: the second encoder's */
    bool mask;                               /* embeds are padded, and NAME_mask masks the
                                              * padding */
} arch;

#define IMAGES "images/"

static const arch archs[] = {
    { "wan2.1", "wan", "wan", true, false, VC_BF16, VC_BF16, "varlen_t5", NULL, false },
    { "hunyuanvideo", "hv", "hunyuan_video", false, true, VC_F16, VC_F16, "llm", "clipL", true },
    { "qwen-image", "qi", "qwen_image", true, false, VC_BF16, VC_BF16, "varlen_vl_embed", NULL,
      false },
    { 0 }
};

/* Returns torch's name of a type, as in tensors' names: "bfloat16". */
static const char *word_of(vc_dtype t)
{
    return t == VC_BF16 ? "bfloat16" : t == VC_F16 ? "float16" : "float32";
}

/* ---- export ---- */

typedef struct exporting {
    exchange *x;
    const arch *a;
    vf_keymap names;
    bool apart;                              /* stills have a folder of their own */
    int64_t max_length;                      /* most tokens of the first encoder */
} exporting;

static int write_file(const exporting *e, const char *name, const vf_view *v, int n,
                      const vf_meta *meta, int n_meta, vc_err *err)
{
    uint8_t *data;
    size_t size;
    int rc = vf_safetensors_pack(&data, &size, v, n, meta, n_meta, 0, err);
    if (rc)
        return rc;
    rc = exchange_write(e->x->dir, name, data, size, err);
    free(data);
    return rc;
}

/* True if the dataset has both clips and stills. */
static bool has_both(const vf_dataset *d)
{
    uint32_t n = vf_dataset_count(d), stills = 0;
    for (uint32_t i = 0; i < n; i++)
        stills += vf_dataset_entry(d, i)->f == 1;
    return stills && stills < n;
}

/* The folder of a sample's files, "" or "images/". */
static const char *folder_of(const exporting *e, const exchange_sample *s)
{
    return e->apart && s->e->f == 1 ? IMAGES : "";
}

/* Writes the latents, and beside them the known frames of image-to-video. musubi-tuner names the
 * type of the latents in clip_TYPE too, whose values are f16. */
static int write_views(const exporting *e, const char *name, const exchange_sample *s,
                       const vf_view *latents, const vf_meta *meta, int n_meta, vc_err *err)
{
    exchange_known k;
    vf_view v[3] = { *latents };
    char image[96], clip[32];
    void *own[2] = { NULL };
    int n = 1, rc = exchange_known_open(&k, e->x, s, true, err);
    const vf_view *from[2] = { &k.clip, &k.vision };
    const vc_dtype type[2] = { e->a->latent, VC_F16 };
    snprintf(image, sizeof image, "latents_image_%ux%ux%u_%s", s->e->f, s->e->h, s->e->w,
             word_of(e->a->latent));
    snprintf(clip, sizeof clip, "clip_%s", word_of(e->a->latent));
    for (int i = 0; !rc && i < 2 && from[i]->data; i++) {
        size_t count = (size_t)vf_view_count(from[i]), bytes = count * vc_dtype_size(type[i]);
        own[i] = malloc(bytes + 1);
        rc = own[i] ? exchange_convert(own[i], type[i], from[i], 0, count, err)
                    : vc_no_memory(err);
        v[n] = *from[i];
        v[n].name = i ? clip : image;
        v[n].dtype = type[i];
        v[n].data = own[i];
        v[n++].bytes = bytes;
    }
    if (!rc)
        rc = write_file(e, name, v, n, meta, n_meta, err);
    exchange_known_close(&k);
    free(own[0]);
    free(own[1]);
    return rc;
}

static int write_latent(const exporting *e, const char *stem, const exchange_sample *s, vc_err *err)
{
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(s->record, "source");
    const cJSON *target = cJSON_GetObjectItemCaseSensitive(s->record, "target");
    const cJSON *frames = cJSON_GetObjectItemCaseSensitive(s->record, "frames");
    double w = vlat_num(source, "w"), h = vlat_num(source, "h");
    const cJSON *th = cJSON_GetArrayItem(target, 0), *tw = cJSON_GetArrayItem(target, 1);
    if (!(w > 0 && h > 0) && cJSON_IsNumber(th) && cJSON_IsNumber(tw)) {
        w = tw->valuedouble;
        h = th->valuedouble;
    }
    char width[24], height[24], count[24], tensor[96];
    bool video = s->e->f > 1;
    snprintf(width, sizeof width, "%d", (int)w);
    snprintf(height, sizeof height, "%d", (int)h);
    snprintf(count, sizeof count, "%u", (unsigned)s->e->frames);
    snprintf(tensor, sizeof tensor, "latents_%ux%ux%u_%s", s->e->f, s->e->h, s->e->w,
             word_of(e->a->latent));
    float *f = NULL;
    size_t n = (size_t)vf_view_count(&s->mean);
    void *data = malloc(n * vc_dtype_size(e->a->latent));
    int rc = data
                 ? exchange_latent_f32(e->x, s, &f, err)
                 : vc_no_memory(err);
    vf_view from = { NULL, VC_F32, 1, { (int64_t)n }, f, 4 * n };
    if (!rc)
        rc = exchange_convert(data, e->a->latent, &from, 0, n, err);
    vf_view v = { tensor, e->a->latent, 4, { s->mean.dim[0], s->e->f, s->e->h, s->e->w }, data,
                  n * vc_dtype_size(e->a->latent) };
    const vf_meta meta[] = { { "architecture", e->a->full }, { "width", width },
                             { "height", height },
                             { "format_version", "1.0.1" }, { "frame_count", count } };
    const cJSON *first = cJSON_GetArrayItem(frames, 0);
    char *name = !video ? vc_format("%s%s_%04dx%04d_%s.safetensors", folder_of(e, s), stem, (int)w,
                                    (int)h, e->a->tag)
                        : vc_format("%s_%05d-%03u_%04dx%04d_%s.safetensors", stem,
                                    cJSON_IsNumber(first) ? (int)first->valuedouble : 0,
                                    (unsigned)s->e->frames, (int)w, (int)h, e->a->tag);
    if (!rc && !name)
        rc = vc_no_memory(err);
    if (!rc)
        rc = write_views(e, name, s, &v, meta, video ? 5 : 4, err);
    free(name);
    free(f);
    free(data);
    return rc;
}

/* Makes the views of the first encoder's rows, padded with zeros, and of the mask if the
 * architecture has one. */
static int embeds_view(const exporting *e, const exchange_sample *s, vf_view v[2],
                       char names[2][64], void *own[2], vc_err *err)
{
    const vf_view *from = &s->text[0].embeds;
    size_t size = vc_dtype_size(e->a->text);
    int64_t rows = from->dim[0], all = e->a->mask && e->max_length > rows ? e->max_length : rows;
    size_t n = (size_t)vf_view_count(from);
    int64_t *mask = own[1] = calloc((size_t)all, sizeof *mask);
    own[0] = calloc((size_t)(all * from->dim[1]) + 1, size);
    if (!own[0] || !mask)
        return vc_no_memory(err);
    for (int64_t i = 0; i < rows; i++)
        mask[i] = 1;
    snprintf(names[0], 64, "%s_%s", e->a->embeds, word_of(e->a->text));
    snprintf(names[1], 64, "%s_mask", e->a->embeds);
    v[0] = (vf_view){ names[0], e->a->text, 2, { all, from->dim[1] }, own[0],
                      (size_t)(all * from->dim[1]) * size };
    v[1] = (vf_view){ names[1], VC_I64, 1, { all }, mask, (size_t)all * 8 };
    return exchange_convert(own[0], e->a->text, from, 0, n, err);
}

static int write_text(const exporting *e, const char *stem, const exchange_sample *s, vc_err *err)
{
    char names[2][64], pooled[64];
    void *own[3] = { NULL };
    vf_view v[3];
    if (!s->n_text || !s->text[0].embeds.data)
        return vc_fail(err, VC_EMISMATCH, "no text embeddings");
    if (e->a->pooled && (s->n_text < 2 || !s->text[1].pooled.data))
        return vc_fail(err, VC_EMISMATCH, "no pooled embedding of the second text encoder");
    int rc = embeds_view(e, s, v, names, own, err), n = e->a->mask ? 2 : 1;
    if (!rc && e->a->pooled) {
        const vf_view *p = &s->text[1].pooled;
        size_t count = (size_t)vf_view_count(p), size = vc_dtype_size(e->a->text);
        snprintf(pooled, sizeof pooled, "%s_%s", e->a->pooled, word_of(e->a->text));
        own[2] = malloc(count * size + 1);
        rc = own[2] ? exchange_convert(own[2], e->a->text, p, 0, count, err)
                    : vc_no_memory(err);
        v[n++] = (vf_view){ pooled, e->a->text, 1, { (int64_t)count }, own[2], count * size };
    }
    const vf_meta meta[] = { { "architecture", e->a->full }, { "caption1", s->caption },
                             { "format_version", "1.0.1" } };
    char *name = vc_format("%s%s_%s_te.safetensors", folder_of(e, s), stem, e->a->tag);
    if (!rc && !name)
        rc = vc_no_memory(err);
    if (!rc)
        rc = write_file(e, name, v, n, meta, 3, err);
    free(name);
    for (int i = 0; i < 3; i++)
        free(own[i]);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exporting *e = arg;
    char *stem = exchange_name(&e->names, s, err);
    (void)x;
    if (!stem)
        return VC_ENOMEM;
    int rc = write_latent(e, stem, s, err);
    if (!rc)
        rc = write_text(e, stem, s, err);
    free(stem);
    return rc;
}

static int export_musubi(exchange *x, vc_err *err)
{
    exporting e = { .x = x, .a = exchange_layout(&exchange_musubi, x->family->name),
                    .apart = has_both(x->d) };
    if (!x->v->o->space)
        x->normalized = e.a->normalized;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    e.max_length = (int64_t)vlat_num(cJSON_GetArrayItem(list, 0), "max_length");
    if (e.max_length > 1 << 14)
        return vc_fail(err, VC_EFORMAT, "max_length: %" PRId64, e.max_length);
    int rc = exchange_each(x, write_sample, &e, err);
    vf_keymap_free(&e.names);
    return rc;
}

/* ---- import ---- */

typedef struct parsed {                      /* a latent file's name */
    const arch *a;
    const char *folder;                      /* "" or "images/" */
    char *stem;
    int64_t w, h, first, frames;             /* frames 0: a still */
} parsed;

/* Cuts s at the last '_' and returns the part after it; NULL if s has no '_'. */
static char *cut_last(char *s)
{
    char *at = strrchr(s, '_');
    if (!at || at == s)
        return NULL;
    *at = 0;
    return at + 1;
}

/* Parses two numbers and no other text: "0832x0480", "00000-081". */
static bool two_numbers(const char *s, char between, int64_t *a, int64_t *b)
{
    char *end;
    if (!s || *s < '0' || *s > '9' || strlen(s) > 20)
        return false;
    *a = strtoll(s, &end, 10);
    if (*end != between || end[1] < '0' || end[1] > '9')
        return false;
    *b = strtoll(end + 1, &end, 10);
    return !*end && *a < 1 << 30 && *b < 1 << 20;
}

static int parse_name(parsed *p, const char *file, vc_err *err)
{
    const char *base = vc_path_base(file);
    *p = (parsed){ .stem = strndup(base, strlen(base) - strlen(".safetensors")),
                   .folder = base == file ? "" : IMAGES };
    if (!p->stem)
        return vc_no_memory(err);
    const char *tag = cut_last(p->stem), *size = tag ? cut_last(p->stem) : NULL;
    for (const arch *a = archs; a->family && tag; a++)
        if (!strcmp(a->tag, tag))
            p->a = a;
    if (!p->a || !two_numbers(size, 'x', &p->w, &p->h)) {
        free(p->stem);
        p->stem = NULL;
        return vc_fail(err, VC_EFORMAT,
                       "%s: STEM_WxH_ARCH.safetensors expected, with ARCH wan, hv or qi", file);
    }
    char *under = strrchr(p->stem, '_');
    if (under && under != p->stem && two_numbers(under + 1, '-', &p->first, &p->frames) &&
        p->frames > 0)
        *under = 0;
    else
        p->first = p->frames = 0;
    return 0;
}

/* Finds the tensor NAME_TYPE; `number`: a digit follows the name, as in latents_FxHxW_TYPE. */
static const vf_view *find_tensor(const vf_safetensors *f, const char *name, bool number)
{
    size_t n = strlen(name);
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        const char *rest = v->name + n;
        if (!strncmp(v->name, name, n) && *rest == '_' && strcmp(rest, "_mask") &&
            (!number || (rest[1] >= '0' && rest[1] <= '9')))
            return v;
    }
    return NULL;
}

/* Checks that the name ends with the tensor's type, as all names of musubi's do: another ending is
 * a damaged name. */
static int check_word(const vf_view *v, vc_err *err)
{
    static const char *const words[] = { [VC_F32] = "float32", [VC_BF16] = "bfloat16",
                                         [VC_F16] = "float16", [VC_F8E4M3] = "float8_e4m3fn",
                                         [VC_F8E5M2] = "float8_e5m2", [VC_F64] = "float64" };
    const char *word = v->dtype <= VC_F64 ? words[v->dtype] : "";
    size_t n = strlen(v->name), k = strlen(word);
    if (n > k && v->name[n - k - 1] == '_' && !strcmp(v->name + n - k, word))
        return 0;
    return vc_fail(err, VC_EFORMAT, "tensor \"%.60s\", of type %s: a name that ends with _%s "
                   "expected: the file is damaged", v->name, vc_dtype_name(v->dtype), word);
}

/* Checks the name latents_FxHxW_TYPE of a tensor [C,F,H,W]. */
static int check_latent_name(const vf_view *v, vc_err *err)
{
    char sizes[80];
    snprintf(sizes, sizeof sizes, "latents_%" PRId64 "x%" PRId64 "x%" PRId64 "_", v->dim[1],
             v->dim[2], v->dim[3]);
    if (v->nd == 4 && strncmp(v->name, sizes, strlen(sizes)))
        return vc_fail(err, VC_EFORMAT, "tensor \"%.60s\": the name %sTYPE, of its sizes, "
                       "expected: the file is damaged", v->name, sizes);
    return check_word(v, err);
}

/* Counts the ones of a mask of ones followed by zeros. */
static int masked_rows(const vf_safetensors *f, const char *name, const vf_view *v, int64_t *rows,
                       vc_err *err)
{
    vf_view mask;
    char full[64];
    snprintf(full, sizeof full, "%s_mask", name);
    int rc = vf_safetensors_get(f, full, &mask, err);
    if (rc)
        return rc;
    if (vf_view_count(&mask) != v->dim[0])
        return vc_fail(err, VC_EFORMAT, "%s: [%" PRId64 "] expected", full, v->dim[0]);
    return vc_context(err, exchange_mask_rows(&mask, rows, err), "%s", full);
}

static int read_text(exchange_item *m, const arch *a, const vf_safetensors *f, vc_err *err)
{
    const vf_view *v = find_tensor(f, a->embeds, false), *p;
    int64_t rows;
    if (!v || v->nd != 2 || v->dim[0] < 1)
        return vc_fail(err, VC_EFORMAT, "%s_TYPE [n,D]: missing", a->embeds);
    int rc = check_word(v, err);
    if (rc)
        return rc;
    m->text[0].embeds = *v;
    m->n_text = 1;
    if (a->mask) {
        rc = masked_rows(f, a->embeds, v, &rows, err);
        if (rc)
            return rc;
        m->text[0].length = v->dim[0];
        m->text[0].embeds.bytes = v->bytes / (size_t)v->dim[0] * (size_t)rows;
        m->text[0].embeds.dim[0] = rows;
    }
    if (a->pooled) {
        if (!(p = find_tensor(f, a->pooled, false)) || p->nd != 1)
            return vc_fail(err, VC_EFORMAT, "%s_TYPE [D]: missing", a->pooled);
        if ((rc = check_word(p, err)))
            return rc;
        m->text[1].pooled = *p;
        m->n_text = 2;
    }
    if (!(m->caption = vf_safetensors_meta(f, "caption1")))
        return vc_fail(err, VC_EFORMAT, "__metadata__: caption1, the caption: missing");
    return 0;
}

static int read_pair(exchange *x, const parsed *p, const char *file, const vf_safetensors *latent,
                     const vf_safetensors *text, vc_err *err)
{
    exchange_item m = { .path = p->stem, .drawn = p->a->drawn, .source_w = p->w, .source_h = p->h,
                     .first = p->first, .frames = p->frames };
    const vf_view *v = find_tensor(latent, "latents", true);
    if (!v)
        return vc_fail(err, VC_EFORMAT, "%s: latents_FxHxW_TYPE: missing", file);
    m.mean = *v;
    x->no_conditions += (uint64_t)vf_safetensors_count(latent) - 1;
    int rc = vc_context(err, check_latent_name(v, err), "%s", file);
    if (!rc)
        rc = vc_context(err, read_text(&m, p->a, text, err), "%s_%s_te.safetensors", p->stem,
                        p->a->tag);
    return rc ? rc : exchange_put(x, &m, err);
}

static int read_sample(exchange *x, const parsed *p, const char *file, vc_err *err)
{
    vf_safetensors *latent = NULL, *text = NULL;
    char *a = vc_path_join(x->dir, file);
    char *b = vc_format("%s/%s%s_%s_te.safetensors", x->dir, p->folder, p->stem, p->a->tag);
    int rc = a && b ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vf_safetensors_open(&latent, a, err);
    if (!rc)
        rc = vf_safetensors_open(&text, b, err);
    if (!rc)
        rc = read_pair(x, p, file, latent, text, err);
    vf_safetensors_close(latent);
    vf_safetensors_close(text);
    free(a);
    free(b);
    return rc;
}

/* Reads a file by its name. All files must be of one architecture, unless --family chooses one. */
static int read_name(exchange *x, const arch **a, const char *file, vc_err *err)
{
    parsed p;
    size_t n = strlen(file), te = strlen("_te.safetensors");
    if (n > te && !strcmp(file + n - te, "_te.safetensors"))
        return 0;
    int rc = parse_name(&p, file, err);
    if (rc)
        return rc;
    bool mine = !x->v->o->family || !strcmp(p.a->family, x->v->o->family);
    if (mine && *a && *a != p.a)
        rc = vc_fail(err, VC_EMISMATCH, "%s: of %s, others are of %s: --family says which to take",
                     file, p.a->family, (*a)->family);
    if (!rc && mine && !*a) {
        *a = p.a;
        x->family = exchange_family_find(p.a->family);
        if (!x->v->o->space)
            x->normalized = p.a->normalized;
    }
    if (!rc && mine)
        rc = read_sample(x, &p, file, err);
    free(p.stem);
    return rc;
}

static int by_base(const void *a, const void *b)
{
    return strcmp(vc_path_base(*(char *const *)a), vc_path_base(*(char *const *)b));
}

/* Adds the files of the folder images/, if there is one, in the order of their names. */
static int add_images(vc_list *files, const char *dir, vc_err *err)
{
    vc_list more = { 0 };
    char *path = vc_path_join(dir, IMAGES);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(path))
        rc = exchange_list(&more, path, ".safetensors", err);
    char **item = rc || !more.n ? NULL
                                : realloc(files->item, (size_t)(files->n + more.n) * sizeof *item);
    if (!rc && more.n && !item)
        rc = vc_no_memory(err);
    if (item)
        files->item = item;
    for (int i = 0; !rc && i < more.n; i++) {
        if ((files->item[files->n] = vc_format(IMAGES "%s", more.item[i])))
            files->n++;
        else
            rc = vc_no_memory(err);
    }
    if (more.n && files->n)
        qsort(files->item, (size_t)files->n, sizeof *files->item, by_base);
    exchange_list_free(&more);
    free(path);
    return rc;
}

static int import_musubi(exchange *x, vc_err *err)
{
    vc_list files;
    const arch *a = NULL;
    int rc = exchange_list(&files, x->dir, ".safetensors", err);
    if (!rc)
        rc = add_images(&files, x->dir, err);
    vc_progress_begin(x->v->progress, "importing", "samples", rc ? 0 : (uint64_t)files.n / 2);
    for (int i = 0; !rc && i < files.n; i++)
        rc = exchange_skip(x, read_name(x, &a, files.item[i], err), err);
    exchange_list_free(&files);
    return rc;
}

const exchange_format exchange_musubi = {
    "musubi", "musubi-tuner", "one caption, posterior means (HunyuanVideo: draws)",
    archs, sizeof *archs, "wan2.1", true, false,
    export_musubi, import_musubi, NULL
};
