/* musubi_write.c - exports the cache that musubi.c describes. */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/caches/musubi.h"

typedef struct exporting {
    exchange *x;
    const musubi_arch *a;
    const char *tag, *full;                  /* as arch's */
    vf_keymap names;
    bool apart;                              /* stills have a folder of their own */
} exporting;

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
    return e->apart && s->e->f == 1 ? MUSUBI_IMAGES : "";
}

/* Fills the source's width and height, or the cut's if they are not known. */
static void source_size(const exchange_sample *s, int size[2])
{
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(s->record, "source");
    const cJSON *target = cJSON_GetObjectItemCaseSensitive(s->record, "target");
    const cJSON *h = cJSON_GetArrayItem(target, 0), *w = cJSON_GetArrayItem(target, 1);
    const double sw = vlat_num(source, "w"), sh = vlat_num(source, "h");
    const bool known = (sw > 0 && sh > 0) || !cJSON_IsNumber(h) || !cJSON_IsNumber(w);
    size[0] = (int)(known ? sw : w->valuedouble);
    size[1] = (int)(known ? sh : h->valuedouble);
}

/* Returns the name of a sample's file of latents, malloc'ed. */
static char *latent_name(const exporting *e, const char *stem, const exchange_sample *s,
                         const int size[2])
{
    const cJSON *frames = cJSON_GetObjectItemCaseSensitive(s->record, "frames");
    const cJSON *first = cJSON_GetArrayItem(frames, 0);
    if (s->e->f == 1)
        return vc_format("%s%s_%04dx%04d_%s.safetensors", folder_of(e, s), stem, size[0], size[1],
                         e->tag);
    return vc_format("%s_%05d-%03u_%04dx%04d_%s.safetensors", stem,
                     cJSON_IsNumber(first) ? (int)first->valuedouble : 0, (unsigned)s->e->frames,
                     size[0], size[1], e->tag);
}

static int write_latent(const exporting *e, const char *stem, const exchange_sample *s, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    int size[2];
    char width[24], height[24], count[24];
    source_size(s, size);
    snprintf(width, sizeof width, "%d", size[0]);
    snprintf(height, sizeof height, "%d", size[1]);
    snprintf(count, sizeof count, "%u", (unsigned)s->e->frames);
    const vf_meta meta[] = { { "architecture", e->full }, { "width", width },
                             { "height", height }, { "format_version", "1.0.1" },
                             { "frame_count", count } };
    char *name = latent_name(e, stem, s, size);
    char *sound = name ? vc_format("%.*s_audio.safetensors",
                                   (int)(strlen(name) - strlen(".safetensors")), name) : NULL;
    int rc = sound ? exchange_add_latents(&d, e->x, &e->a->names, s, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_add_known(&d, e->x, &e->a->names, s, err);
    if (!rc)
        rc = exchange_add_references(&d, e->x, &e->a->names, s, err);
    if (!rc)
        rc = exchange_write_safetensors(e->x->dir, name, &d, meta, s->e->f > 1 ? 5 : 4, err);
    if (!rc && !strcmp(e->tag, MUSUBI_LTX2))
        rc = musubi_write_sound(e->x, s, e->full, sound, err);
    exchange_dict_free(&d);
    free(sound);
    free(name);
    return rc;
}

static int write_text(const exporting *e, const char *stem, const exchange_sample *s, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    const vf_meta meta[] = { { "architecture", e->full }, { "caption1", s->caption },
                             { "format_version", "1.0.1" } };
    char *name = vc_format("%s%s_%s_te.safetensors", folder_of(e, s), stem, e->tag);
    int rc = name ? exchange_add_texts(&d, e->x, &e->a->names, s, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_write_safetensors(e->x->dir, name, &d, meta, 3, err);
    exchange_dict_free(&d);
    free(name);
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
    if (!rc && e->a->names.n_text)
        rc = write_text(e, stem, s, err);
    free(stem);
    return rc;
}

int exchange_musubi_write(exchange *x, const musubi_arch *a, vc_err *err)
{
    const bool edits = exchange_edits(x) && a->of[1].tag;
    exporting e = { .x = x, .a = a, .tag = a->of[edits].tag, .full = a->of[edits].full,
                    .apart = has_both(x->d) };
    if (!e.tag)
        return vc_fail(err, VC_EMISMATCH, "%s: of family %s musubi-tuner keeps samples with "
                       "reference pictures alone: encode with --train_mode edit",
                       vf_dataset_path(x->d), x->family->name);
    if (!x->v->o->space)
        x->normalized = e.a->normalized;
    int rc = exchange_each(x, write_sample, &e, err);
    if (!rc && !a->names.n_text)
        vc_warn(x->v->progress, "the texts were left out: musubi-tuner keeps outputs of LTX-2's "
                "connectors: its ltx2_cache_text_encoder_outputs.py makes them of the captions");
    vf_keymap_free(&e.names);
    return rc;
}
