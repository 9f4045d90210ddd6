/* musubi.c - imports musubi-tuner's cache, a folder of safetensors files, two a sample;
 * musubi_write.c exports one.
 *
 *     STEM_[FIRST-FRAMES_]WxH_ARCH.safetensors      latents_FxHxW_TYPE (FLUX.2: latents_HxW_TYPE)
 *     STEM_ARCH_te.safetensors                      NAME_TYPE, varlen_NAME_TYPE, NAME_mask
 *
 * LTX-2 (of the fork AkaneTendo25/musubi-tuner) has a third file for a clip's sound; its texts are
 * the outputs of the connectors, which a dataset does not have, so that the captions alone are read
 * of them.
 *
 * Stills beside clips lie in images/: musubi reads a folder for each kind, and its reader of clips
 * fails at the name of a still. WxH is the source's size. Stems may have underscores, so names are
 * read from their ends. The type in a tensor's name is not always that of its values, so the
 * header's type is used. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/caches/musubi.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/sound.h"

/* musubi-tuner names the type of the latents in clip_TYPE too, whose values are f16. */
#define FILES(family_, type_) .family = family_, .latents = "latents_FxHxW_TYPE", \
    .clip = "latents_image_FxHxW_TYPE", .vision = "clip_TYPE", .vision_type = VC_F16, \
    .type = type_, .text_type = type_

#define FLUX2(tag_, full_, width_, pipeline_) \
    { { .family = "flux2", .latents = "latents_HxW_TYPE", .axes = EXCHANGE_CHW, \
        .references = "latents_control_#_HxW_TYPE", .type = VC_F32, .text_type = VC_BF16, \
        .n_text = 1, .text = { { .embeds = "ctx_vec_TYPE" } }, .width = width_, \
        .pipeline = pipeline_ }, true, { { tag_, full_ } } }

static const musubi_arch archs[] = {
    { { FILES("wan2.1", VC_BF16), .n_text = 1, .text = { { .embeds = "varlen_t5_TYPE" } } },
      true, { { "wan", "wan" } } },
    { { FILES("hunyuanvideo", VC_F16), .drawn = true, .n_text = 2,
        .text = { { .embeds = "llm_TYPE", .mask = "llm_mask", .padded = 1, .whole = true,
                    .trim = EXCHANGE_BY_MASK },
                  { .pooled = "clipL_TYPE" } } },
      false, { { "hv", "hunyuan_video" } } },
    { { .family = "hunyuanvideo1.5", .latents = "latents_FxHxW_TYPE", .type = VC_F16,
        .text_type = VC_BF16, .n_text = 2,
        .text = { { .embeds = "varlen_vl_embed_TYPE" },
                  { .embeds = "varlen_byt5_embed_TYPE", .none = true } } },
      false, { { "hv15", "hunyuan_video_1_5" } } },
    { { FILES("qwen-image", VC_BF16), .references = "latents_control_#_FxHxW_TYPE", .n_text = 1,
        .text = { { .embeds = "varlen_vl_embed_TYPE" } } },
      true, { { "qi", "qwen_image" }, { "qie", "qwen_image_edit" } } },
    { { .family = "flux", .latents = "latents_FxHxW_TYPE", .axes = EXCHANGE_CHW, .drawn = true,
        .references = "latents_control_FxHxW_TYPE", .type = VC_F32, .text_type = VC_BF16,
        .n_text = 2,
        .text = { { .pooled = "clip_l_pooler_TYPE" }, { .embeds = "t5_vec_TYPE" } } },
      true, { { NULL, NULL }, { "fk", "flux_kontext" } } },
    { { .family = "z-image", .latents = "latents_FxHxW_TYPE", .axes = EXCHANGE_CHW, .type = VC_F32,
        .text_type = VC_BF16, .n_text = 1, .text = { { .embeds = "varlen_llm_embed_TYPE" } } },
      false, { { "zi", "z_image" } } },
    { { .family = "krea2", .latents = "latents_FxHxW_TYPE", .type = VC_BF16, .text_type = VC_BF16,
        .n_text = 1, .text = { { .embeds = "varlen_krea2_vl_embed_TYPE", .layers = 12 } } },
      true, { { "kr2", "krea2" } } },
    FLUX2("f2k4b", "flux_2_klein_4b", 7680, "Flux2KleinPipeline"),
    FLUX2("f2k9b", "flux_2_klein_9b", 12288, "Flux2KleinPipeline"),
    FLUX2("f2d", "flux_2_dev", 15360, "Flux2Pipeline"),
    { { .family = "ltx-2", .latents = "latents_FxHxW_TYPE", .type = VC_BF16, .fps = 25 }, true,
      { { MUSUBI_LTX2, "ltx2_v1" } } },
    { { 0 }, false, { { NULL, NULL } } }
};

/* Models of musubi-tuner whose caches are not read. */
static const struct { const char *tag, *name, *remedy; } others[] = {
    { "fp", "FramePack", "no family here" }, { "k5", "Kandinsky 5", "no family here" },
    { "ho1", "HiDream-O1", "no family here" },
    { "qil", "Qwen-Image-Layered", "no family here" },
    { "i4", "Ideogram 4", "encode the pictures again: vprep --model" },
    { 0 }
};

typedef struct parsed {                      /* a latent file's name */
    const musubi_arch *a;
    const char *tag;                         /* as arch's */
    bool edit;
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

static int parse_name(parsed *p, const char *file, vc_err *err)
{
    const char *base = vc_path_base(file);
    *p = (parsed){ .stem = strndup(base, strlen(base) - strlen(".safetensors")),
                   .folder = base == file ? "" : MUSUBI_IMAGES };
    if (!p->stem)
        return vc_no_memory(err);
    const char *tag = cut_last(p->stem), *size = tag ? cut_last(p->stem) : NULL;
    for (const musubi_arch *a = archs; a->names.family && tag; a++)
        for (int edit = 0; edit < 2; edit++)
            if (a->of[edit].tag && !strcmp(a->of[edit].tag, tag)) {
                p->a = a;
                p->tag = a->of[edit].tag;
                p->edit = edit;
            }
    for (int i = 0; others[i].tag && tag; i++)
        if (!strcmp(others[i].tag, tag)) {
            free(p->stem);
            p->stem = NULL;
            return vc_fail(err, VC_EMISMATCH, "%s: of %s, whose caches are not read: %s", file,
                           others[i].name, others[i].remedy);
        }
    if (!p->a || !size ||
        !exchange_two_numbers(size, strlen(size), 'x', &p->w, &p->h)) {
        free(p->stem);
        p->stem = NULL;
        return vc_fail(err, VC_EFORMAT,
                       "%s: STEM_WxH_ARCH.safetensors expected, with ARCH wan, hv, hv15, qi, "
                       "qie, fk, zi, kr2, f2k4b, f2k9b, f2d or ltx2", file);
    }
    char *under = strrchr(p->stem, '_');
    const char *range = under && under != p->stem ? under + 1 : "";
    if (exchange_two_numbers(range, strlen(range), '-', &p->first, &p->frames) && p->frames > 0)
        *under = 0;
    else
        p->first = p->frames = 0;
    return 0;
}

/* Opens the file of the sound that belongs to a file of latents; *st is NULL without one. */
static int open_sound(vf_safetensors **st, const exchange *x, const char *file, vc_err *err)
{
    const int n = (int)(strlen(file) - strlen(".safetensors"));
    char *path = vc_format("%s/%.*s_audio.safetensors", x->dir, n, file);
    int rc = path ? 0 : vc_no_memory(err);
    *st = NULL;
    if (!rc && vc_file_exists(path))
        rc = vf_safetensors_open(st, path, err);
    free(path);
    return rc;
}

/* Adds the sound of LTX-2. */
static int read_sound(exchange_item *m, exchange *x, vf_safetensors **st, const parsed *p,
                      const char *file, vc_err *err)
{
    int rc = strcmp(p->tag, MUSUBI_LTX2) ? 0 : open_sound(st, x, file, err);
    if (!rc && *st)
        rc = vc_context(err, musubi_take_sound(m, x, *st, err), "%s: its sound", file);
    return rc;
}

static int read_pair(exchange *x, const parsed *p, const char *file, const exchange_file *latent,
                     const exchange_file *text, vc_err *err)
{
    exchange_item m = { .path = p->stem, .edit = p->edit, .source_w = p->w, .source_h = p->h,
                        .first = p->first, .frames = p->frames };
    vf_safetensors *sound = NULL;
    void *own;
    int rc = exchange_take_latents(&m, x, &p->a->names, latent->root, &own, err);
    rc = vc_context(err, rc, "%s", file);
    if (!rc) {
        rc = exchange_take_references(&m, &p->a->names, latent->root, err);
        rc = vc_context(err, rc, "%s", file);
    }
    if (!rc) {
        x->no_conditions += latent->root->n - 1 - (size_t)m.n_references;
        rc = exchange_take_texts(&m, &p->a->names, text->root, err);
        if (!rc && !(m.caption = vf_safetensors_meta(text->st, "caption1")))
            rc = vc_fail(err, VC_EFORMAT, "__metadata__: caption1, the caption: missing");
        rc = vc_context(err, rc, "%s_%s_te.safetensors", p->stem, p->tag);
    }
    if (!rc)
        rc = read_sound(&m, x, &sound, p, file, err);
    if (!rc)
        rc = exchange_put(x, &m, err);
    vf_safetensors_close(sound);
    free(own);
    return rc;
}

static int read_sample(exchange *x, const parsed *p, const char *file, vc_err *err)
{
    exchange_file f[2];
    char *latent = vc_path_join(x->dir, file);
    char *text = vc_format("%s/%s%s_%s_te.safetensors", x->dir, p->folder, p->stem, p->tag);
    int rc = exchange_pair_open(f, latent, text, err);
    if (!rc)
        rc = read_pair(x, p, file, &f[0], &f[1], err);
    exchange_pair_close(f);
    return rc;
}

/* True for a name of texts or of sound, which belong to a file of latents. */
static bool beside(const char *file)
{
    static const char *const endings[] = { "_te.safetensors",
                                           "_" MUSUBI_LTX2 "_audio.safetensors" };
    const size_t n = strlen(file);
    for (int i = 0; i < 2; i++) {
        const size_t k = strlen(endings[i]);
        if (n > k && !strcmp(file + n - k, endings[i]))
            return true;
    }
    return false;
}

/* Finds the sizes of the sound, which the manifest has, before the first sample is put. Damage is
 * reported when the sample is read. */
static int find_sound(exchange *x, const vc_list *files, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && !x->sound.channels && i < files->n; i++) {
        const char *ending = strstr(files->item[i], "_" MUSUBI_LTX2 ".safetensors");
        exchange_item m = { .path = files->item[i] };
        vf_safetensors *st = NULL;
        if (ending && !open_sound(&st, x, files->item[i], NULL) && st &&
            !musubi_take_sound(&m, x, st, NULL))
            rc = vc_context(err, exchange_sound_begin(x, m.sound.dim[0], m.sound.dim[3], err),
                            "%s: its sound", files->item[i]);
        vf_safetensors_close(st);
    }
    x->no_conditions = 0;
    return rc;
}

/* Reads a file by its name. All files must be of one architecture, unless --family chooses one. */
static int read_name(exchange *x, const musubi_arch **a, const char *file, vc_err *err)
{
    parsed p;
    if (beside(file))
        return 0;
    int rc = parse_name(&p, file, err);
    if (rc)
        return rc;
    bool mine = !x->v->o->family || !strcmp(p.a->names.family, x->v->o->family);
    if (mine && *a && *a != p.a)
        rc = vc_fail(err, VC_EMISMATCH, "%s: of %s, others are of %s: --family says which to take",
                     file, p.a->names.family, (*a)->names.family);
    if (!rc && mine && !*a) {
        *a = p.a;
        x->family = exchange_family_find(p.a->names.family);
        x->pipeline = p.a->names.pipeline;
        if (!x->v->o->space)
            x->normalized = p.a->normalized;
    }
    if (!rc && mine)
        rc = read_sample(x, &p, file, err);
    free(p.stem);
    return rc;
}

static int import_musubi(exchange *x, vc_err *err)
{
    vc_list files;
    const musubi_arch *a = NULL;
    int rc = exchange_list(&files, x->dir, ".safetensors", err);
    if (!rc)
        rc = exchange_list_more(&files, x->dir, MUSUBI_IMAGES, ".safetensors", err);
    if (!rc)
        rc = find_sound(x, &files, err);
    vc_progress_begin(x->v->progress, "importing", "samples", rc ? 0 : (uint64_t)files.n / 2);
    for (int i = 0; !rc && i < files.n; i++)
        rc = exchange_skip(x, read_name(x, &a, files.item[i], err), err);
    exchange_list_free(&files);
    if (!rc && a && !a->names.n_text && !x->v->o->texts)
        vc_warn(x->v->progress, "the texts were left out: musubi-tuner keeps outputs of LTX-2's "
                "connectors, which vtrain runs itself: --texts DATASET gives the prompts' "
                "features");
    return rc;
}

static int export_musubi(exchange *x, vc_err *err)
{
    const musubi_arch *a = (const void *)exchange_row(&exchange_musubi, x, err);
    return a ? exchange_musubi_write(x, a, err) : VC_EMISMATCH;
}

const exchange_format exchange_musubi = {
    "musubi", "musubi-tuner", "one caption, posterior means (HunyuanVideo: draws)",
    archs, sizeof *archs, "wan2.1", true, false,
    export_musubi, import_musubi, NULL
};
