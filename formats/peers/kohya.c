/* kohya.c - exports and imports the FLUX.1 cache of kohya's sd-scripts: numpy files beside the
 * pictures, of which the pictures themselves are not needed.
 *
 *     [N_name/]STEM_WxH_flux.npz    latents_hxw [C,h,w], original_size_hxw [2], crop_ltrb_hxw [4]
 *                                   for each size to which the picture was cut
 *     [N_name/]STEM_flux_te.npz     l_pooled [P], t5_out [n,D], txt_ids [n,3], t5_attn_mask [n],
 *                                   apply_t5_attn_mask
 *     [N_name/]STEM.txt             the caption, its first line (or STEM.caption)
 *
 * WxH is the picture's size in pixels, hxw that of the latents. A picture of N_name counts N times.
 * See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/torch.h"
#include "formats/tensors/npz.h"

#define LATENTS "_flux.npz"
#define TEXTS "_flux_te.npz"
enum { MAX_CAPTION = 1 << 20 };

static const struct layout {
    const char *family;
} layouts[] = { { "flux" }, { 0 } };

/* ---- export ---- */

static int write_npz(const exchange *x, const char *stem, const char *ending,
                     const exchange_dict *d, vc_err *err)
{
    const vf_pt_value v = exchange_dict_value(d);
    char *name = vc_format("%s%s", stem, ending), *data = NULL;
    size_t size;
    int rc = name ? vf_npz_pack(&data, &size, &v, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_write(x->dir, name, data, size, err);
    free(data);
    free(name);
    return rc;
}

/* Fills the source's width and height, which name the file, or the cut's if they are not known. */
static void source_size(const exchange_sample *s, const int ratio[3], int64_t size[2])
{
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(s->record, "source");
    double w = vlat_num(source, "w"), h = vlat_num(source, "h");
    bool known = w >= 1 && h >= 1 && w < 1 << 24 && h < 1 << 24;
    size[0] = known ? (int64_t)w : s->mean.dim[3] * ratio[2];
    size[1] = known ? (int64_t)h : s->mean.dim[2] * ratio[1];
}

static int write_latents(const exchange *x, const char *stem, const exchange_sample *s,
                         vc_err *err)
{
    const int64_t h = s->mean.dim[2], w = s->mean.dim[3];
    int64_t size[2], cut[4] = { 0, 0, w * x->family->ratio[2], h * x->family->ratio[1] };
    char key[3][64], ending[64];
    float *f = NULL;
    exchange_dict d = { .n = 0 };
    if (s->mean.dim[1] != 1)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", s->mean.dim[1],
                       x->family->name);
    source_size(s, x->family->ratio, size);
    snprintf(key[0], sizeof *key, "latents_%" PRId64 "x%" PRId64, h, w);
    snprintf(key[1], sizeof *key, "original_size_%" PRId64 "x%" PRId64, h, w);
    snprintf(key[2], sizeof *key, "crop_ltrb_%" PRId64 "x%" PRId64, h, w);
    snprintf(ending, sizeof ending, "_%04" PRId64 "x%04" PRId64 LATENTS, size[0], size[1]);
    int rc = exchange_latent_f32(x, s, &f, err);
    const int64_t c = s->mean.dim[0];
    exchange_dict_tensor(&d, key[0], (vf_view){ NULL, VC_F32, 3, { c, h, w }, f,
                                                4 * (size_t)(c * h * w) });
    exchange_dict_tensor(&d, key[1], (vf_view){ NULL, VC_I64, 1, { 2 }, size, sizeof size });
    exchange_dict_tensor(&d, key[2], (vf_view){ NULL, VC_I64, 1, { 4 }, cut, sizeof cut });
    if (!rc)
        rc = write_npz(x, stem, ending, &d, err);
    free(f);
    return rc;
}

static int write_texts(const exchange *x, const char *stem, const exchange_sample *s, vc_err *err)
{
    const vf_view *t5 = &s->text[1].embeds, *clip = &s->text[0].pooled;
    static const uint8_t no = 0;
    exchange_dict d = { .n = 0 };
    if (s->n_text != 2 || !t5->data || !clip->data)
        return vc_fail(err, VC_EMISMATCH, "embeddings of two text encoders expected");
    const int64_t n = t5->dim[0], wide = t5->dim[1], pooled = vf_view_count(clip);
    float *rows = malloc(4 * (size_t)(n * wide) + 1), *one = malloc(4 * (size_t)pooled + 1);
    float *ids = calloc((size_t)n + 1, 3 * sizeof *ids);
    int64_t *mask = malloc(((size_t)n + 1) * sizeof *mask);
    int rc = rows && one && ids && mask ? 0 : vc_no_memory(err);
    if (!rc) {
        vc_to_f32(rows, t5->data, t5->dtype, (size_t)(n * wide));
        vc_to_f32(one, clip->data, clip->dtype, (size_t)pooled);
        for (int64_t i = 0; i < n; i++)
            mask[i] = 1;
        const vf_view v[] = {
            { "l_pooled", VC_F32, 1, { pooled }, one, 4 * (size_t)pooled },
            { "t5_out", VC_F32, 2, { n, wide }, rows, 4 * (size_t)(n * wide) },
            { "txt_ids", VC_F32, 2, { n, 3 }, ids, 12 * (size_t)n },
            { "t5_attn_mask", VC_I64, 1, { n }, mask, 8 * (size_t)n },
            { "apply_t5_attn_mask", VC_BOOL, 0, { 0 }, &no, 1 },
        };
        for (size_t i = 0; i < sizeof v / sizeof *v; i++)
            exchange_dict_tensor(&d, v[i].name, v[i]);
        rc = write_npz(x, stem, TEXTS, &d, err);
    }
    free(mask);
    free(ids);
    free(one);
    free(rows);
    return rc;
}

/* Writes the caption, of which sd-scripts reads the first line, without blanks around it. */
static int write_caption(const exchange *x, const char *stem, const exchange_sample *s, vc_err *err)
{
    const char *c = s->caption;
    size_t n = strlen(c);
    if (strpbrk(c, "\r\n") || (n && (strchr(" \t", c[0]) || strchr(" \t", c[n - 1]))))
        return vc_fail(err, VC_EMISMATCH, "the caption \"%.100s\" has line breaks or blanks around "
                       "it, which sd-scripts would leave out: vlat select leaves the sample out",
                       c);
    char *name = vc_format("%s.txt", stem);
    int rc = name ? exchange_write(x->dir, name, c, n, err) : vc_no_memory(err);
    free(name);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    char *stem = exchange_name(arg, s, err);
    int rc = stem ? write_latents(x, stem, s, err) : VC_ENOMEM;
    if (!rc)
        rc = write_texts(x, stem, s, err);
    if (!rc)
        rc = write_caption(x, stem, s, err);
    free(stem);
    return rc;
}

static int export_kohya(exchange *x, vc_err *err)
{
    vf_keymap names = { 0 };
    int rc = exchange_each(x, write_sample, &names, err);
    vf_keymap_free(&names);
    return rc;
}

/* ---- import ---- */

/* A picture: its names, from which the files' names follow. */
typedef struct picture {
    const char *folder;                      /* "" or "10_name" */
    char *file, *stem;                       /* path of the latents, of the other files without
                                              * their endings; both from x->dir on */
} picture;

/* Parses the "8x12" of a key. */
static bool two_numbers(const char *s, size_t n, int64_t *a, int64_t *b)
{
    char text[32], *end;
    if (!n || n >= sizeof text || s[0] < '0' || s[0] > '9')
        return false;
    memcpy(text, s, n);
    text[n] = 0;
    *a = strtoll(text, &end, 10);
    if (*end != 'x' || end[1] < '0' || end[1] > '9')
        return false;
    *b = strtoll(end + 1, &end, 10);
    return !*end;
}

/* Reads the first line of STEM.txt or STEM.caption, without blanks around it; *text, malloc'ed, is
 * NULL if there is no such file. */
static int read_caption(char **text, const exchange *x, const picture *p, vc_err *err)
{
    static const char *const endings[] = { "txt", "caption" };
    *text = NULL;
    for (int i = 0; i < 2 && !*text; i++) {
        char *path = vc_format("%s/%s.%s", x->dir, p->stem, endings[i]), *from;
        size_t all = 0, n;
        int rc = path ? 0 : vc_no_memory(err);
        if (!rc && vc_file_exists(path))
            rc = vc_file_read(text, &all, path, MAX_CAPTION, err);
        if (!rc && *text) {
            from = *text + (strncmp(*text, "\xef\xbb\xbf", 3) ? 0 : 3);
            n = (size_t)(*text + all - from);
            const char *end = memchr(from, '\n', n);
            rc = vc_context(err, vc_utf8_check_lines(from, end ? (size_t)(end - from) : n, err),
                            "%s", path);
            from += strspn(from, " \t");
            n = strcspn(from, "\r\n");
            while (n && strchr(" \t", from[n - 1]))
                n--;
            memmove(*text, from, n);
            (*text)[n] = 0;
        }
        free(path);
        if (rc)
            return rc;
    }
    return 0;
}

/* Gets the caption: that of a file, else the name that follows N_ in the folder's. */
static int caption_of(char **text, const exchange *x, const picture *p, vc_err *err)
{
    const char *under = strchr(p->folder, '_');
    int rc = read_caption(text, x, p, err);
    if (!rc && !*text && !(*text = strdup(under ? under + 1 : "")))
        rc = vc_no_memory(err);
    return rc;
}

static int read_texts(exchange_item *m, const vf_pt_value *d, vc_err *err)
{
    vf_view masked;
    float f;
    int rc = vf_pt_tensor(d, "l_pooled", &m->text[0].pooled, err);
    if (!rc)
        rc = vf_pt_tensor(d, "t5_out", &m->text[1].embeds, err);
    if (!rc)
        rc = vf_pt_tensor(d, "apply_t5_attn_mask", &masked, err);
    if (rc)
        return rc;
    if (vf_view_count(&masked) != 1 || m->text[1].embeds.nd != 2 || m->text[1].embeds.dim[0] < 1)
        return vc_fail(err, VC_EFORMAT, "t5_out [n,D] and one apply_t5_attn_mask expected");
    vc_to_f32(&f, masked.data, masked.dtype, 1);
    if (f != 0)
        return vc_fail(err, VC_EMISMATCH, "apply_t5_attn_mask: these texts are for a transformer "
                       "that does not see padding, and vtrain's FLUX sees it: cache the texts "
                       "without that flag, or give --texts");
    m->text[1].length = m->text[1].embeds.dim[0];
    m->n_text = 2;
    return 0;
}

/* Puts the latents of a key latents_hxw, with the picture's caption and texts. */
static int put_latents(exchange *x, const exchange_item *texts, const vf_pt_value *key,
                       const vf_pt_value *file, vc_err *err)
{
    char name[64];
    vf_view size;
    float f[2];
    exchange_item m = *texts;
    snprintf(name, sizeof name, "%.*s", (int)key->n, key->s);
    int rc = vf_pt_tensor(file, name, &m.mean, err);
    if (!rc && m.mean.nd != 3)
        rc = vc_fail(err, VC_EFORMAT, "%s: [C,h,w] expected", name);
    if (rc)
        return rc;
    exchange_add_frames(&m.mean);
    snprintf(name, sizeof name, "original_size%.*s", (int)(key->n - strlen("latents")),
             key->s + strlen("latents"));
    if (!vf_pt_tensor(file, name, &size, NULL) && vf_view_count(&size) == 2) {
        vc_to_f32(f, size.data, size.dtype, 2);
        m.source_w = f[0] >= 1 && f[0] < 1e7f ? (int64_t)f[0] : 0;
        m.source_h = f[1] >= 1 && f[1] < 1e7f ? (int64_t)f[1] : 0;
    }
    return exchange_put(x, &m, err);
}

/* Puts the latents of each size; masks and flipped latents are counted and left out. */
static int put_sizes(exchange *x, const exchange_item *texts, const vf_pt_value *file, vc_err *err)
{
    static const char latents[] = "latents_";
    int rc = 0, sizes = 0;
    int64_t h, w;
    for (size_t i = 0; !rc && i < file->n; i++) {
        const vf_pt_value *key = file->item[2 * i];
        size_t n = strlen(latents);
        if (key->n > 48)
            continue;
        if (key->n > n && !memcmp(key->s, latents, n) &&
            two_numbers(key->s + n, key->n - n, &h, &w)) {
            rc = put_latents(x, texts, key, file, err);
            sizes++;
        } else if (!strncmp(key->s, "latents_flipped", 15) || !strncmp(key->s, "alpha_mask", 10)) {
            x->no_conditions++;
        }
    }
    return rc || sizes ? rc : vc_fail(err, VC_EFORMAT, "no latents_HxW in it");
}

static int read_picture(exchange *x, const picture *p, vc_err *err)
{
    vf_pt *latents = NULL, *texts = NULL;
    char *a = vc_format("%s/%s", x->dir, p->file), *b = vc_format("%s/%s" TEXTS, x->dir, p->stem);
    char *caption = NULL;
    exchange_item m = { .path = p->stem, .drawn = true,
                        .weight = strchr(p->folder, '_') ? atoi(p->folder) : 0 };
    int rc = a && b ? caption_of(&caption, x, p, err) : vc_no_memory(err);
    m.caption = caption;
    if (!rc && !x->v->o->texts && !vc_file_exists(b))
        rc = vc_fail(err, VC_ENOENT, "%s: missing: run sd-scripts with "
                     "--cache_text_encoder_outputs_to_disk, or give --texts", b);
    if (!rc && !x->v->o->texts) {
        rc = vf_npz_open(&texts, b, err);
        if (!rc)
            rc = vc_context(err, read_texts(&m, vf_pt_root(texts), err), "%s", b);
    }
    if (!rc)
        rc = vf_npz_open(&latents, a, err);
    if (!rc)
        rc = vc_context(err, put_sizes(x, &m, vf_pt_root(latents), err), "%s", p->file);
    vf_pt_close(latents);
    vf_pt_close(texts);
    free(caption);
    free(a);
    free(b);
    return rc;
}

/* Reads the picture of a file STEM_WxH_flux.npz in a folder of x->dir. */
static int read_name(exchange *x, const char *folder, const char *name, vc_err *err)
{
    int64_t w, h;
    const size_t n = strlen(name) - strlen(LATENTS);
    picture p = { .folder = folder, .file = vc_format("%s%s%s", folder, *folder ? "/" : "", name) };
    p.stem = p.file ? strndup(p.file, strlen(p.file) - strlen(LATENTS)) : NULL;
    char *under = p.stem ? strrchr(p.stem, '_') : NULL;
    int rc = p.stem ? 0 : vc_no_memory(err);
    if (!rc && (!n || !under || !two_numbers(under + 1, strlen(under + 1), &w, &h)))
        rc = vc_fail(err, VC_EFORMAT, "%s: STEM_WxH" LATENTS " expected", p.file);
    if (!rc) {
        *under = 0;
        rc = read_picture(x, &p, err);
    }
    rc = exchange_skip(x, rc, err);
    free(p.stem);
    free(p.file);
    return rc;
}

/* Reads a folder; with `deep` its subfolders too, where sd-scripts has pictures in N_name. */
static int read_folder(exchange *x, const char *folder, bool deep, vc_err *err)
{
    vc_list names;
    char *dir = vc_path_join(x->dir, folder);
    int rc = dir ? exchange_list(&names, dir, "", err) : vc_no_memory(err);
    if (rc) {
        free(dir);
        return rc;
    }
    for (int i = 0; !rc && i < names.n; i++) {
        struct stat st;
        const char *name = names.item[i], *ending = strstr(name, LATENTS);
        char *path = vc_path_join(dir, name);
        if (!path)
            rc = vc_no_memory(err);
        else if (ending && !strcmp(ending, LATENTS))
            rc = read_name(x, folder, name, err);
        else if (deep && !stat(path, &st) && S_ISDIR(st.st_mode))
            rc = read_folder(x, name, false, err);
        free(path);
    }
    exchange_list_free(&names);
    free(dir);
    return rc;
}

static int import_kohya(exchange *x, vc_err *err)
{
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    return read_folder(x, "", true, err);
}

const exchange_format exchange_kohya = {
    "kohya", "kohya's sd-scripts", "numpy files beside pictures; FLUX.1",
    layouts, sizeof *layouts, "flux", true, false,
    export_kohya, import_kohya, NULL
};
