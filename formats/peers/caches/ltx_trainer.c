/* ltx_trainer.c - imports and exports the data that the trainer of LTX-2's authors (ltx-trainer)
 * preprocesses: of each sample a dictionary of torch.save in each of several folders, all under the
 * path of the medium.
 *
 *     [.precomputed/]latents/PATH.pt        latents [C,F,H,W], normalised; num_frames, height and
 *                                           width of the latents; fps
 *     [.precomputed/]conditions/PATH.pt     video_prompt_embeds [n,D] with padding in front,
 *                                           prompt_attention_mask [n], audio_prompt_embeds [n,E]
 *     [.precomputed/]audio_latents/PATH.pt  latents [C,T,bins], normalised; num_time_steps,
 *                                           frequency_bins, duration
 *
 * The texts are features that the connectors of the transformer take, as a dataset's. Those of 2.0
 * are the same for video and sound; of 2.3 a dataset has the sound's behind the video's. Earlier
 * files have latents [FHW,C] and prompt_embeds, and the names latent_X.pt and condition_X.pt.
 * See exchange.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/sound.h"
#include "formats/peers/tensors.h"

#define LATENTS "latents/"
#define CONDITIONS "conditions/"
#define SOUND "audio_latents/"
enum { ROWS = 1024, DEEPEST = 32 };          /* rows of a text with its padding; nested folders */
#define RATE 24.0                            /* of a clip whose file names none */

static const exchange_names layouts[] = {
    { .family = "ltx-2", .latents = "latents", .type = VC_BF16, .text_type = VC_BF16, .n_text = 1 },
    { 0 }
};

/* The widths of features that a version of LTX-2 has. */
static const struct version {
    int64_t video, sound;                    /* sound 0: its features are the video's, or none */
    bool both;                               /* the same features are written for both */
} versions[] = { { 3840, 0, true }, { 4096, 0, false }, { 4096, 2048, false }, { 0, 0, false } };

/* Folders of conditions that an import leaves out. */
static const char *const others[] = { "reference_latents/", "reference_audio_latents/",
                                      "video_masks/", "audio_masks/" };

static const struct version *version_of(int64_t width)
{
    const struct version *v = versions;
    while (v->video && v->video + v->sound != width)
        v++;
    return v->video ? v : NULL;
}

/* ---- export ---- */

static int write_dict(const exchange *x, const exchange_dict *d, const char *folder,
                      const char *name, vc_err *err)
{
    const vf_pt_value v = exchange_dict_value(d);
    char *path = vc_format("%s%s.pt", folder, name);
    int rc = path ? exchange_write_pt(x->dir, path, &v, err) : vc_no_memory(err);
    free(path);
    return rc;
}

static int write_latent(const exchange *x, const exchange_sample *s, const char *name, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    int rc = exchange_add_latents(&d, x, layouts, s, err);
    if (!rc) {
        exchange_dict_add(&d, "num_frames", VF_PT_INT)->i = s->e->f;
        exchange_dict_add(&d, "height", VF_PT_INT)->i = s->e->h;
        exchange_dict_add(&d, "width", VF_PT_INT)->i = s->e->w;
        exchange_dict_add(&d, "fps", VF_PT_FLOAT)->f = s->e->fps > 0 ? vlat_num(s->record, "fps")
                                                                     : 1;
        rc = write_dict(x, &d, LATENTS, name, err);
    }
    exchange_dict_free(&d);
    return rc;
}

/* Adds columns `from` and after of the rows e, behind rows of padding. */
static int add_features(exchange_dict *d, const char *name, const vf_view *e, int64_t from,
                        int64_t width, vc_err *err)
{
    const int64_t n = e->dim[0], all = e->dim[1];
    uint16_t *rows = exchange_dict_alloc(d, (size_t)(ROWS * width) * sizeof *rows);
    int rc = rows ? 0 : vc_no_memory(err);
    for (int64_t i = 0; !rc && i < n; i++)
        rc = exchange_convert(rows + (ROWS - n + i) * width, VC_BF16, e, (size_t)(i * all + from),
                              (size_t)width, err);
    if (!rc)
        exchange_dict_view(d, name, (vf_view){ .dtype = VC_BF16, .nd = 2,
                                               .dim = { ROWS, width } }, rows);
    return rc;
}

static int add_mask(exchange_dict *d, int64_t n, vc_err *err)
{
    int64_t *mask = exchange_dict_alloc(d, ROWS * sizeof *mask);
    if (!mask)
        return vc_no_memory(err);
    for (int64_t i = ROWS - n; i < ROWS; i++)
        mask[i] = 1;
    exchange_dict_view(d, "prompt_attention_mask",
                       (vf_view){ .dtype = VC_I64, .nd = 1, .dim = { ROWS } }, mask);
    return 0;
}

static int write_text(const exchange *x, const exchange_sample *s, const char *name, vc_err *err)
{
    const vf_view *e = &s->text[0].embeds;
    exchange_dict d = { .n = 0 };
    if (s->n_text != 1 || !e->data)
        return vc_fail(err, VC_EMISMATCH, "%d text encoders, 1 with states of tokens expected",
                       s->n_text);
    const struct version *v = version_of(e->dim[1]);
    if (!v || e->dim[0] > ROWS)
        return vc_fail(err, VC_EMISMATCH, "a text of %" PRId64 " rows of %" PRId64 " numbers: "
                       "ltx-trainer has up to %d rows of 3840 (LTX-2.0), of 4096 or, with sound, "
                       "of 6144 (2.3)", e->dim[0], e->dim[1], ROWS);
    int rc = add_features(&d, "video_prompt_embeds", e, 0, v->video, err);
    if (!rc)
        rc = add_mask(&d, e->dim[0], err);
    if (!rc && (v->sound || v->both))
        rc = add_features(&d, "audio_prompt_embeds", e, v->sound ? v->video : 0,
                          v->sound ? v->sound : v->video, err);
    if (!rc)
        rc = write_dict(x, &d, CONDITIONS, name, err);
    exchange_dict_free(&d);
    return rc;
}

static int write_sound(exchange *x, const exchange_sample *s, const char *name, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    vf_view v;
    float *f;
    int rc = exchange_sound_of(x, s, &f, &v, err);
    if (!rc && f) {
        const vf_view flat = { .dtype = VC_F32, .nd = 3, .dim = { v.dim[0], v.dim[1], v.dim[3] } };
        exchange_dict_view(&d, "latents", flat, f);
        exchange_dict_add(&d, "num_time_steps", VF_PT_INT)->i = v.dim[1];
        exchange_dict_add(&d, "frequency_bins", VF_PT_INT)->i = v.dim[3];
        exchange_dict_add(&d, "duration", VF_PT_FLOAT)->f = s->e->frames /
                                                            vlat_num(s->record, "fps");
        rc = write_dict(x, &d, SOUND, name, err);
    }
    exchange_dict_free(&d);
    free(f);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *names, vc_err *err)
{
    char *name = exchange_name(names, s, err);
    int rc = name ? write_latent(x, s, name, err) : VC_ENOMEM;
    if (!rc)
        rc = write_text(x, s, name, err);
    if (!rc)
        rc = write_sound(x, s, name, err);
    free(name);
    return rc;
}

static int export_ltx_trainer(exchange *x, vc_err *err)
{
    vf_keymap names = { 0 };
    int rc = exchange_each(x, write_sample, &names, err);
    vf_keymap_free(&names);
    return rc;
}

/* ---- import ---- */

/* The files of a sample. */
typedef struct sample {
    char *path;                              /* "folder/clip.pt" */
    exchange_file latent, text, sound;
    void *own, *rows;                        /* latents and features that are no part of a file */
} sample;

static double number_of(const vf_pt_value *d, const char *key, double otherwise)
{
    const vf_pt_value *v = vf_pt_get(d, key);
    return !v ? otherwise : v->kind == VF_PT_FLOAT ? v->f : v->kind == VF_PT_INT ? (double)v->i
                                                                                 : NAN;
}

/* Makes [C,F,H,W] of the tokens [FHW,C] that earlier files have. */
static int take_tokens(exchange_item *m, const vf_pt_value *d, const int64_t size[3], void **own,
                       vc_err *err)
{
    vf_view v;
    int rc = vf_pt_tensor(d, "latents", &v, err);
    if (rc)
        return rc;
    for (int i = 0; i < 3; i++)
        if (size[i] < 1 || size[i] > UINT16_MAX)
            return vc_fail(err, VC_EFORMAT, "num_frames, height, width: %" PRId64, size[i]);
    if (v.dim[0] != size[0] * size[1] * size[2])
        return vc_fail(err, VC_EFORMAT, "latents: %" PRId64 " tokens, not those of num_frames, "
                       "height and width", v.dim[0]);
    if (!(*own = malloc(v.bytes + 1)))
        return vc_no_memory(err);
    exchange_swap(*own, v.data, (size_t)v.dim[0], (size_t)v.dim[1], 1, vc_dtype_size(v.dtype));
    m->mean = (vf_view){ v.name, v.dtype, 4, { v.dim[1], size[0], size[1], size[2] }, *own,
                         v.bytes };
    return 0;
}

static int take_latents(exchange_item *m, exchange *x, sample *s, vc_err *err)
{
    const vf_pt_value *d = s->latent.root, *v = vf_pt_get(d, "latents");
    const int64_t size[3] = { exchange_int(d, "num_frames", 0), exchange_int(d, "height", 0),
                              exchange_int(d, "width", 0) };
    int rc = v && v->kind == VF_PT_TENSOR && v->tensor->nd == 2
                 ? take_tokens(m, d, size, &s->own, err)
                 : exchange_take_latents(m, x, layouts, d, &s->own, err);
    if (!rc && memcmp(m->mean.dim + 1, size, sizeof size))
        rc = vc_fail(err, VC_EFORMAT, "latents of %" PRId64 "x%" PRId64 "x%" PRId64 ", and "
                     "num_frames, height and width are others", m->mean.dim[1], m->mean.dim[2],
                     m->mean.dim[3]);
    m->fps = number_of(d, "fps", RATE);
    if (!rc && !(m->fps > 0 && m->fps < 1e6))
        rc = vc_fail(err, VC_EFORMAT, "fps: %g", m->fps);
    return rc;
}

/* Finds the rows that the mask marks, which follow one another. */
static int find_rows(int64_t *first, int64_t *n, const vf_pt_value *d, int64_t rows, vc_err *err)
{
    vf_view mask;
    int64_t ends = 0;
    int rc = vf_pt_tensor(d, "prompt_attention_mask", &mask, err);
    if (rc)
        return rc;
    if (mask.nd != 1 || mask.dim[0] != rows)
        return vc_fail(err, VC_EFORMAT, "prompt_attention_mask: %" PRId64 " numbers expected",
                       rows);
    *first = *n = 0;
    for (int64_t i = 0; i < rows; i++) {
        float f;
        vc_to_f32(&f, (const uint8_t *)mask.data + (size_t)i * vc_dtype_size(mask.dtype),
                  mask.dtype, 1);
        if (f == 0) {
            ends += *n && i == *first + *n;
            continue;
        }
        if (*n && ends)
            return vc_fail(err, VC_EFORMAT, "prompt_attention_mask: a gap at row %" PRId64, i);
        *first = *n ? *first : i;
        *n += 1;
    }
    return *n ? 0 : vc_fail(err, VC_EFORMAT, "prompt_attention_mask: no row is marked");
}

static vf_view cut(const vf_view *v, int64_t first, int64_t n)
{
    const size_t row = v->bytes / (size_t)v->dim[0];
    return (vf_view){ v->name, v->dtype, 2, { n, v->dim[1] },
                      (const uint8_t *)v->data + (size_t)first * row, (size_t)n * row };
}

/* Puts the rows of b behind those of a, in *own. */
static int join(vf_view *a, const vf_view *b, void **own, vc_err *err)
{
    const size_t n = (size_t)a->dim[0], x = a->bytes / n, y = b->bytes / n;
    uint8_t *rows = *own = malloc(n * (x + y) + 1);
    if (!rows)
        return vc_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        memcpy(rows + i * (x + y), (const uint8_t *)a->data + i * x, x);
        memcpy(rows + i * (x + y) + x, (const uint8_t *)b->data + i * y, y);
    }
    *a = (vf_view){ a->name, a->dtype, 2, { a->dim[0], a->dim[1] + b->dim[1] }, rows,
                    n * (x + y) };
    return 0;
}

static int take_text(exchange_item *m, sample *s, vc_err *err)
{
    const vf_pt_value *d = s->text.root;
    const char *name = vf_pt_get(d, "video_prompt_embeds") ? "video_prompt_embeds"
                                                           : "prompt_embeds";
    vf_view v, sound = { .nd = 0 };
    int64_t first = 0, n = 0;
    int rc = vf_pt_tensor(d, name, &v, err);
    if (!rc && vf_pt_get(d, "audio_prompt_embeds"))
        rc = vf_pt_tensor(d, "audio_prompt_embeds", &sound, err);
    if (rc)
        return rc;
    if (v.nd != 2 || v.dim[0] < 1 || v.dim[0] > ROWS || v.dim[1] < 1 || v.dtype > VC_F64 ||
        (sound.nd && (sound.nd != 2 || sound.dim[0] != v.dim[0] || sound.dim[1] < 1 ||
                      sound.dtype != v.dtype)))
        return vc_fail(err, VC_EFORMAT, "%s, audio_prompt_embeds: up to %d rows each of one type "
                       "expected", name, ROWS);
    if ((rc = find_rows(&first, &n, d, v.dim[0], err)))
        return rc;
    v = cut(&v, first, n);
    if (sound.nd)
        sound = cut(&sound, first, n);
    if (sound.nd && (sound.bytes != v.bytes || memcmp(sound.data, v.data, v.bytes)))
        rc = join(&v, &sound, &s->rows, err);
    if (!rc && !version_of(v.dim[1]))
        rc = vc_fail(err, VC_EMISMATCH, "features of %" PRId64 " numbers: those of LTX-2.0 have "
                     "3840, those of 2.3 4096 and 2048 for the sound", v.dim[1]);
    m->text[0].embeds = v;
    m->text[0].length = ROWS;
    m->n_text = 1;
    return rc;
}

static int take_sound(exchange_item *m, const sample *s, vc_err *err)
{
    vf_view v;
    if (!s->sound.root)
        return 0;
    int rc = vf_pt_tensor(s->sound.root, "latents", &v, err);
    if (!rc && (v.nd != 3 || exchange_int(s->sound.root, "num_time_steps", v.dim[1]) != v.dim[1]))
        rc = vc_fail(err, VC_EFORMAT, "latents: [C,num_time_steps,bins] expected");
    if (!rc)
        m->sound = (vf_view){ v.name, v.dtype, 4, { v.dim[0], v.dim[1], 1, v.dim[2] }, v.data,
                              v.bytes };
    return rc;
}

/* Opens DIR/FOLDER/PATH; *f stays closed where optional and not there. */
static int open_file(exchange_file *f, const char *dir, const char *folder, const char *path,
                     bool optional, vc_err *err)
{
    char *name = vc_format("%s/%s%s", dir, folder, path);
    int rc = name ? 0 : vc_no_memory(err);
    if (!rc && (!optional || vc_file_exists(name)))
        rc = exchange_file_open(f, name, err);
    free(name);
    return rc;
}

/* The name of the text of a sample: that of its latents, or condition_X.pt of latent_X.pt. */
static char *text_path(const char *path)
{
    const char *base = vc_path_base(path), *old = "latent_";
    return strncmp(base, old, strlen(old)) ? strdup(path)
                                           : vc_format("condition_%s", base + strlen(old));
}

static int put_sample(exchange *x, sample *s, vc_err *err)
{
    char *caption = vc_format("(conditions/%s: no caption kept)", s->path);
    exchange_item m = { .path = s->path, .caption = caption };
    int rc = caption ? take_latents(&m, x, s, err) : vc_no_memory(err);
    rc = vc_context(err, rc, LATENTS "%s", s->path);
    if (!rc && !x->v->o->texts)
        rc = vc_context(err, take_text(&m, s, err), CONDITIONS "%s", s->path);
    if (!rc)
        rc = vc_context(err, take_sound(&m, s, err), SOUND "%s", s->path);
    if (!rc)
        rc = exchange_put(x, &m, err);
    free(caption);
    return rc;
}

static int read_sample(exchange *x, const char *dir, const char *path, vc_err *err)
{
    sample s = { .path = strdup(path) };
    char *text = text_path(path);
    int rc = s.path && text ? 0 : vc_no_memory(err);
    for (size_t i = 0; !rc && i < sizeof others / sizeof *others; i++) {
        char *other = vc_format("%s/%s%s", dir, others[i], path);
        x->no_conditions += other && vc_file_exists(other);
        free(other);
    }
    if (!rc)
        rc = open_file(&s.latent, dir, LATENTS, path, false, err);
    if (!rc && !x->v->o->texts)
        rc = open_file(&s.text, dir, CONDITIONS, text, false, err);
    if (!rc)
        rc = open_file(&s.sound, dir, SOUND, path, true, err);
    if (!rc)
        rc = put_sample(x, &s, err);
    rc = exchange_skip(x, rc, err);
    exchange_file_close(&s.latent);
    exchange_file_close(&s.text);
    exchange_file_close(&s.sound);
    free(s.own);
    free(s.rows);
    free(s.path);
    free(text);
    return rc;
}

/* A walk through the files under DIR/latents. */
typedef int (*each_fn)(exchange *x, const char *dir, const char *path, vc_err *err);

static int walk(exchange *x, const char *dir, const char *sub, int depth, each_fn fn, vc_err *err)
{
    vc_list names;
    char *folder = vc_format("%s/" LATENTS "%s", dir, sub);
    int rc = folder ? exchange_list(&names, folder, "", err) : vc_no_memory(err);
    if (!rc && depth > DEEPEST)
        rc = vc_fail(err, VC_EFORMAT, "%s: more than %d folders within each other", folder,
                     DEEPEST);
    free(folder);
    if (rc)
        return rc;
    for (int i = 0; !rc && i < names.n; i++) {
        struct stat st;
        const char *ending = strrchr(names.item[i], '.');
        char *path = vc_format("%s%s%s", sub, *sub ? "/" : "", names.item[i]);
        char *file = path ? vc_format("%s/" LATENTS "%s", dir, path) : NULL;
        if (!file)
            rc = vc_no_memory(err);
        else if (!stat(file, &st) && S_ISDIR(st.st_mode))
            rc = walk(x, dir, path, depth + 1, fn, err);
        else if (ending && !strcmp(ending, ".pt"))
            rc = fn(x, dir, path, err);
        free(file);
        free(path);
    }
    exchange_list_free(&names);
    return rc;
}

/* Finds a sample with sound, whose sizes the manifest has, before the first one is put. Damage is
 * reported when the sample is read. */
static int find_sound(exchange *x, const char *dir, const char *path, vc_err *err)
{
    sample s = { .path = NULL };
    exchange_item m = { .path = path };
    int rc = 0;
    if (!x->sound.channels && !open_file(&s.sound, dir, SOUND, path, true, NULL) && s.sound.root &&
        !take_sound(&m, &s, NULL))
        rc = vc_context(err, exchange_sound_begin(x, m.sound.dim[0], m.sound.dim[3], err),
                        SOUND "%s", path);
    exchange_file_close(&s.sound);
    return rc;
}

static int import_ltx_trainer(exchange *x, vc_err *err)
{
    char *within = vc_path_join(x->dir, ".precomputed");
    const char *dir = within && vc_file_exists(within) ? within : x->dir;
    int rc = within ? walk(x, dir, "", 0, find_sound, err) : vc_no_memory(err);
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    if (!rc)
        rc = walk(x, dir, "", 0, read_sample, err);
    free(within);
    return rc;
}

const exchange_format exchange_ltx_trainer = {
    "ltx-trainer", "ltx-trainer", "LTX-2 with its sound; no captions",
    layouts, sizeof *layouts, "ltx-2", true, false,
    export_ltx_trainer, import_ltx_trainer, NULL
};
