/* reuse.c - see reuse.h */
#include "precompute/run/reuse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/keys/keymap.h"

typedef struct source {              /* a dataset of --reuse */
    vf_dataset *d;
    vf_hints *hints;
    vf_keymap clip;                  /* latent key -> entry; filled for the first thumbnail */
    uint64_t taken[2];               /* latents, texts */
} source;

typedef struct prep_reuse {
    bool continues, in_place;
    vf_dataset *out;                 /* in a dry run, which has no writer; else NULL */
    vf_hints *hints;                 /* of --out */
    source *from;
    int n;
} prep_reuse;

/* ---- open, close ---- */

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_source(vprep *p, const char *path, vc_err *err)
{
    prep_reuse *s = p->reuse;
    source *from = &s->from[s->n];

    if (same_folder(path, p->c.out)) {
        if (p->c.overwrite || p->c.append)
            return vc_fail(err, VC_EUSAGE, "--reuse %s is --out: without --%s, it is changed in "
                           "place", path, p->c.overwrite ? "overwrite" : "append");
        s->in_place = true;
        return 0;
    }
    int rc = vf_dataset_open(&from->d, path, true, err);
    if (rc)
        return vc_context(err, rc, "--reuse");
    from->hints = vf_hints_open(path);
    s->n++;
    return 0;
}

int prep_reuse_open(vprep *p, vc_err *err)
{
    const vc_list *list = &p->c.reuse;
    prep_reuse *s = p->reuse = calloc(1, sizeof *s);
    char *manifest = vc_path_join(p->c.out, "manifest.json");
    int rc = 0;

    if (s)
        s->from = calloc((size_t)list->n + 1, sizeof *s->from);
    if (!s || !s->from || !manifest)
        rc = vc_no_memory(err);
    if (!rc)
        s->continues = vc_file_exists(manifest) && !p->c.overwrite;
    free(manifest);
    for (int i = 0; !rc && i < list->n; i++)
        rc = open_source(p, list->item[i], err);
    if (!rc && s->continues && p->c.dry_run)
        rc = vf_dataset_open(&s->out, p->c.out, true, err);
    if (!rc)
        prep_reuse_read_hints(p);
    return rc;
}

void prep_reuse_read_hints(vprep *p)
{
    vf_hints_close(p->reuse->hints);
    p->reuse->hints = vf_hints_open(p->c.out);
}

void prep_reuse_close(vprep *p)
{
    prep_reuse *s = p->reuse;

    if (!s)
        return;
    for (int i = 0; s->from && i < s->n; i++) {
        vf_keymap_free(&s->from[i].clip);
        vf_hints_close(s->from[i].hints);
        vf_dataset_close(s->from[i].d);
    }
    vf_hints_close(s->hints);
    vf_dataset_close(s->out);
    free(s->from);
    free(s);
    p->reuse = NULL;
}

bool prep_reuse_continues(const vprep *p)
{
    return p->reuse->continues;
}

bool prep_reuse_in_place(const vprep *p)
{
    return p->reuse->in_place;
}

void prep_reuse_compare(const vprep *p, const cJSON *head)
{
    static const char *const fields[] = { "vae", "text_encoders", "latent_store", "dtype", NULL };
    const prep_reuse *s = p->reuse;
    char differences[VF_HEAD_TEXT];
    const vf_writer_opts o = { .head = head, .append = p->c.append, .change = s->in_place };
    vc_err why;

    for (int i = 0; i < s->n; i++)
        if (vf_head_compare(vf_dataset_manifest(s->from[i].d), head, fields, differences))
            vc_say(p->progress, "--reuse %s: %s: values that depend on these are made anew",
                   vf_dataset_path(s->from[i].d), differences);
    if (s->out && vf_head_accept(p->c.out, vf_dataset_manifest(s->out), &o, &why))
        vc_warn(p->progress, "a run will be refused: %s", why.text);
}

/* ---- search ---- */

prep_reuse_place prep_reuse_recall(const vprep *p, const char *name, void *value, size_t n)
{
    const prep_reuse *s = p->reuse;

    if (!vf_hints_get(s->hints, name, value, n))
        return REUSE_OUT;
    for (int i = 0; i < s->n; i++)
        if (!vf_hints_get(s->from[i].hints, name, value, n))
            return REUSE_OTHER;
    return REUSE_NONE;
}

static bool in_dataset(const vf_dataset *d, bool text, vf_key k)
{
    vf_safetensors *st;
    if (text ? vf_dataset_text(d, k, false, &st, NULL) : vf_dataset_latent(d, k, false, &st, NULL))
        return false;
    vf_safetensors_close(st);
    return true;
}

static bool in_writer(const vf_writer *w, bool text, vf_key k)
{
    return text ? vf_writer_has_text(w, k) : vf_writer_has_latent(w, k);
}

prep_reuse_place prep_reuse_find(const vprep *p, bool text, vf_key k)
{
    const prep_reuse *s = p->reuse;

    if (p->writer ? in_writer(p->writer, text, k) : s->out && in_dataset(s->out, text, k))
        return REUSE_OUT;
    for (int i = 0; i < s->n; i++)
        if (in_dataset(s->from[i].d, text, k))
            return REUSE_OTHER;
    return REUSE_NONE;
}

bool prep_reuse_has_sample(const vprep *p, uint32_t number, uint32_t variant)
{
    char key[24];
    uint32_t at;

    if (p->writer)
        return vf_writer_clip_of(p->writer, number, variant) != NULL;
    return p->reuse->out &&
           !vf_dataset_find(p->reuse->out, vf_sample_key(key, number, variant), &at, NULL);
}

uint32_t prep_reuse_samples(const vprep *p)
{
    const vf_dataset *out = p->reuse->out;
    return p->writer ? vf_writer_count(p->writer) : out ? vf_dataset_count(out) : 0;
}

uint32_t vprep_variants(const vprep *p)
{
    const char *v = p->c.variants;
    return !v ? 1 : strcmp(v, "sizes") ? (uint32_t)atoi(v) : VB_MAX_OPTIONS;
}

uint32_t vprep_samples_of(const vprep *p, uint32_t number)
{
    uint32_t n = 0;
    for (uint32_t v = 0; number != VPREP_NO_NUMBER && v < vprep_variants(p); v++)
        n += prep_reuse_has_sample(p, number, v);
    return n;
}

/* Counts the numbers of live samples. */
uint32_t prep_reuse_rows(const vprep *p)
{
    const vf_dataset *out = p->reuse->out;
    uint32_t n = 0;

    for (uint32_t i = 0; p->writer && i < vf_writer_next_number(p->writer); i++)
        n += vprep_samples_of(p, i) > 0;
    for (uint32_t i = 0; !p->writer && out && i < vf_dataset_count(out); i++)
        n += !i || vf_dataset_entry(out, i)->number != vf_dataset_entry(out, i - 1)->number;
    return n;
}

/* ---- copies ---- */

int prep_reuse_take(vprep *p, bool text, vf_key k, vc_err *err)
{
    const prep_reuse *s = p->reuse;

    if (in_writer(p->writer, text, k))
        return 0;
    for (int i = 0; i < s->n; i++) {
        source *from = &s->from[i];
        vc_err why = { 0 };
        const void *data;
        size_t n;
        int rc = vf_dataset_bytes(from->d, text, k, &data, &n, &why);
        if (rc == VC_ETORN)
            return vc_fail(err, rc, "--reuse %s: %s", vf_dataset_path(from->d), why.text);
        if (rc) {
            if (rc != VC_ENOENT)
                vc_warn(p->progress, "--reuse %s: made anew: %s", vf_dataset_path(from->d),
                        why.text);
            continue;
        }
        rc = text ? vf_writer_put_text(p->writer, k, data, n, err)
                  : vf_writer_put_latent(p->writer, k, data, n, err);
        from->taken[text] += !rc;
        return rc;
    }
    return VC_ENOENT;
}

/* Maps each clip to a sample with this clip. */
static int index_clips(source *from, vc_err *err)
{
    int rc = 0;
    if (from->clip.n)
        return 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(from->d); i++)
        rc = vf_keymap_put(&from->clip, vf_dataset_entry(from->d, i)->latent, i, err);
    return rc;
}

int prep_reuse_thumb(vprep *p, vf_key clip, const void **jpeg, size_t *n, vc_err *err)
{
    const prep_reuse *s = p->reuse;
    int rc = 0;

    for (int i = 0; !rc && i < s->n; i++) {
        uint64_t at;
        rc = index_clips(&s->from[i], err);
        if (!rc && vf_keymap_get(&s->from[i].clip, clip, &at) &&
            !vf_dataset_thumb(s->from[i].d, (uint32_t)at, jpeg, n, NULL))
            return 0;
    }
    return rc ? rc : VC_ENOENT;
}

void prep_reuse_taken(const vprep *p, uint64_t *latents, uint64_t *texts)
{
    const prep_reuse *s = p->reuse;

    *latents = *texts = 0;
    for (int i = 0; i < s->n; i++) {
        *latents += s->from[i].taken[false];
        *texts += s->from[i].taken[true];
    }
}
