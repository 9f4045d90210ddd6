/* kohya.c - imports the FLUX.1 cache of kohya's sd-scripts: numpy files beside the pictures, which
 * themselves are not needed.
 *
 *     [N_name/]STEM_WxH_flux.npz    latents_hxw [C,h,w], original_size_hxw [2], crop_ltrb_hxw [4]
 *                                   for each size to which the picture was cut
 *     [N_name/]STEM_flux_te.npz     l_pooled [P], t5_out [n,D], txt_ids [n,3], t5_attn_mask [n],
 *                                   apply_t5_attn_mask
 *     [N_name/]STEM.txt             the caption, its first line (or STEM.caption)
 *
 * WxH is the picture's size in pixels, hxw that of the latents. A picture of N_name counts N times.
 * kohya_write.c exports it. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"

#define LATENTS "_flux.npz"
#define TEXTS "_flux_te.npz"
enum { MAX_CAPTION = 1 << 20 };

static const exchange_names layouts[] = {
    { .family = "flux", .n_text = 2,
      .text = { { .pooled = "l_pooled" },
                { .embeds = "t5_out", .mask = "t5_attn_mask", .whole = true } } },
    { 0 }
};

/* A picture: its names, from which the files' names follow. */
typedef struct picture {
    const char *folder;                      /* "" or "10_name" */
    char *file, *stem;                       /* path of the latents, of the other files without
                                              * their endings; both from x->dir on */
} picture;

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
    int rc = exchange_take_texts(m, layouts, d, err);
    if (!rc)
        rc = vf_pt_tensor(d, "apply_t5_attn_mask", &masked, err);
    if (rc)
        return rc;
    if (vf_view_count(&masked) != 1)
        return vc_fail(err, VC_EFORMAT, "apply_t5_attn_mask: one value expected");
    vc_to_f32(&f, masked.data, masked.dtype, 1);
    return f == 0 ? 0 : vc_fail(err, VC_EMISMATCH, "apply_t5_attn_mask: these texts are for a "
                                "transformer that does not see padding, and vtrain's FLUX sees it: "
                                "cache the texts without that flag, or give --texts");
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
            exchange_two_numbers(key->s + n, key->n - n, 'x', &h, &w)) {
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
    exchange_file latents = { .root = NULL }, texts = { .root = NULL };
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
        rc = exchange_file_open(&texts, b, err);
        if (!rc)
            rc = vc_context(err, read_texts(&m, texts.root, err), "%s", b);
    }
    if (!rc)
        rc = exchange_file_open(&latents, a, err);
    if (!rc)
        rc = vc_context(err, put_sizes(x, &m, latents.root, err), "%s", p->file);
    exchange_file_close(&latents);
    exchange_file_close(&texts);
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
    if (!rc && (!n || !under || 
                !exchange_two_numbers(under + 1, strlen(under + 1), 'x', &w, &h)))
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
    exchange_kohya_write, import_kohya, NULL
};
