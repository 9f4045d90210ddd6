/* exchange.c - vlat export and vlat import: the table of formats, and functions that they share.
 * See exchange.h */
#include "formats/peers/exchange.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/near.h"
#include "common/os/file.h"
#include "common/os/lock.h"
#include "formats/dataset/copy.h"

static const exchange_format *const formats[] = {
    &exchange_safetensors, &exchange_webdataset, &exchange_musubi, &exchange_finetrainers,
    &exchange_causvid, &exchange_ttt, &exchange_diffsynth, &exchange_cogvideo, &exchange_factory,
    &exchange_kohya,
#ifdef VLT_SQLITE
    &exchange_dpipe,
#endif
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const exchange_format *need_format(const char *name, const char *flag, bool write,
                                          vc_err *err)
{
    char list[512] = "";
    for (int i = 0; i < FORMATS; i++) {
        if (write && !formats[i]->write)
            continue;
        if (name && !strcmp(formats[i]->name, name))
            return formats[i];
        strcat(strcat(list, *list ? ", " : ""), formats[i]->name);
    }
    size_t n = 0;
    const char *near = name ? vc_near_choice(list, name, &n) : NULL;
    if (near)
        vc_fail(err, VC_EUSAGE, "%s %.60s: no such format; there are %s: did you mean %.*s?", flag,
                name, list, (int)n, near);
    else if (name)
        vc_fail(err, VC_EUSAGE, "%s %.60s: no such format; there are %s", flag, name, list);
    else
        vc_fail(err, VC_EUSAGE, "%s says which format: %s", flag, list);
    return NULL;
}

/* ---- files ---- */

int exchange_stopped(vc_err *err)
{
    return *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : 0;
}

int exchange_write(const char *dir, const char *name, const void *data, size_t n, vc_err *err)
{
    char *path = vc_path_join(dir, name), *slash = path ? strrchr(path, '/') : NULL;
    int rc = path ? 0 : vc_no_memory(err);
    if (slash) {
        *slash = 0;
        rc = vc_mkdirs(path, err);
        *slash = '/';
    }
    FILE *f = rc ? NULL : fopen(path, "wbxe");
    if (!rc && !f)
        rc = vc_fail_errno(err, "%s", path);
    if (!rc && n && fwrite(data, 1, n, f) != n)
        rc = vc_fail_errno(err, "%s", path);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

/* Syncs all files of the export at once, which is far faster than one after the other. */
static int make_durable(const char *dir, vc_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || syncfs(fd) ? vc_fail_errno(err, "%s", dir) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void exchange_list_free(vc_list *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->item[i]);
    free(names->item);
    *names = (vc_list){ 0 };
}

static int add_name(vc_list *l, const char *name, vc_err *err)
{
    if (!(l->n & (l->n - 1))) {
        char **more = realloc(l->item, (size_t)(l->n ? 2 * l->n : 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        l->item = more;
    }
    if (!(l->item[l->n] = strdup(name)))
        return vc_no_memory(err);
    l->n++;
    return 0;
}

int exchange_list(vc_list *names, const char *dir, const char *ending, vc_err *err)
{
    *names = (vc_list){ 0 };
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t k = strlen(ending);
    int rc = 0;
    if (!d)
        return vc_fail_errno(err, "%s", dir);
    while ((e = vc_dir_next(d, dir, &rc, err))) {
        size_t n = strlen(e->d_name);
        if (*e->d_name != '.' && n > k && !strcmp(e->d_name + n - k, ending))
            rc = add_name(names, e->d_name, err);
    }
    closedir(d);
    if (names->n)
        qsort(names->item, (size_t)names->n, sizeof *names->item, by_name);
    if (rc)
        exchange_list_free(names);
    return rc;
}

/* ---- export ---- */

static int open_text(exchange_sample *s, const vf_dataset *d, int i, const cJSON *hex, vc_err *err)
{
    vf_key k;
    if (i >= EXCHANGE_TEXTS || !cJSON_IsString(hex) || !vf_key_parse(&k, hex->valuestring))
        return vf_dataset_remedy(vf_dataset_path(d),
                                 vc_fail(err, VC_EFORMAT, "text key %d: 32 hex digits expected",
                                         i), err);
    int rc = vf_dataset_text(d, k, true, &s->st[1 + i], err);
    if (rc)
        return rc;
    vf_safetensors_get(s->st[1 + i], "prompt_embeds", &s->text[i].embeds, NULL);
    vf_safetensors_get(s->st[1 + i], "pooled", &s->text[i].pooled, NULL);
    if (s->text[i].embeds.data && s->text[i].embeds.nd != 2)
        return vc_fail(err, VC_EFORMAT, "prompt_embeds: [n,D] expected");
    s->n_text = i + 1;
    return 0;
}

static int open_latent(exchange_sample *s, const vf_dataset *d, int channels, vc_err *err)
{
    int rc = vf_dataset_latent_of(d, s->i, s->e->latent, true, &s->st[0], err);
    if (rc)
        return rc;
    s->drawn = vf_safetensors_get(s->st[0], "mean", &s->mean, NULL) != 0;
    if (s->drawn && (rc = vf_safetensors_get(s->st[0], "sample", &s->mean, err)))
        return rc;
    vf_safetensors_get(s->st[0], "logvar", &s->logvar, NULL);
    if (s->mean.nd != 4 || s->mean.dim[0] != channels ||
        (s->logvar.data && (s->logvar.nd != 4 ||
                            (s->logvar.dim[0] != 1 && s->logvar.dim[0] != s->mean.dim[0]) ||
                            memcmp(s->logvar.dim + 1, s->mean.dim + 1, 3 * sizeof *s->mean.dim))))
        return vc_fail(err, VC_EFORMAT, "latents: [%d,f,h,w] expected", channels);
    return 0;
}

static void close_sample(exchange_sample *s)
{
    for (int i = 0; i < 1 + EXCHANGE_TEXTS; i++)
        vf_safetensors_close(s->st[i]);
}

static int open_sample(exchange *x, exchange_sample *s, const cJSON *record, vc_err *err)
{
    const cJSON *captions = cJSON_GetObjectItemCaseSensitive(record, "captions");
    const cJSON *first = cJSON_IsArray(captions) ? captions->child : NULL, *hex;
    int i = 0, rc = open_latent(s, x->d, x->norm.channels, err);
    s->record = record;
    s->caption = vlat_str(first, "text");
    cJSON_ArrayForEach(hex, cJSON_GetObjectItemCaseSensitive(first, "keys"))
        rc = rc ? rc : open_text(s, x->d, i++, hex, err);
    if (first && first->next)
        x->no_captions += (uint64_t)cJSON_GetArraySize(captions) - 1;
    x->no_conditions +=
        (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(record, "conditions"));
    return rc;
}

int exchange_of_sample(const exchange *x, uint32_t i, int rc, vc_err *err)
{
    const vf_entry *e = vf_dataset_entry(x->d, i);
    char key[24];
    return vc_context(err, rc, "sample %s", vf_sample_key(key, e->number, e->variant));
}

int exchange_each(exchange *x,
                  int (*fn)(exchange *x, const exchange_sample *s, void *arg, vc_err *err),
                  void *arg, vc_err *err)
{
    uint32_t n = vf_dataset_count(x->d);
    int rc = 0;
    vc_progress_begin(x->v->progress, "exporting", "samples", n);
    for (uint32_t i = 0; !rc && i < n; i++) {
        exchange_sample s = { .i = i, .e = vf_dataset_entry(x->d, i) };
        cJSON *record;
        rc = vf_dataset_sample(x->d, i, &record, err);
        if (!rc)
            rc = open_sample(x, &s, record, err);
        if (!rc)
            rc = fn(x, &s, arg, err);
        rc = exchange_of_sample(x, i, rc, err);
        close_sample(&s);
        cJSON_Delete(record);
        if (!rc)
            rc = exchange_stopped(err);
        vc_progress_at(x->v->progress, i + 1u, NULL);
    }
    vc_progress_end(x->v->progress);
    return rc;
}

int exchange_latent_f32(const exchange *x, const exchange_sample *s, float **out, vc_err *err)
{
    size_t n = (size_t)vf_view_count(&s->mean), plane = n / (size_t)s->mean.dim[0];
    float *f = *out = malloc(n * sizeof *f);
    if (!f)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_to_f32(f, s->mean.data, s->mean.dtype, n);
    for (int c = 0; x->normalized && c < s->mean.dim[0]; c++)
        exchange_normalize(&x->norm, c, f + (size_t)c * plane, plane);
    return 0;
}

char *exchange_name(vf_keymap *names, const exchange_sample *s, vc_err *err)
{
    const char *base = vc_path_base(vlat_str(s->record, "path")), *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    char *name = n && n < 200 ? vc_format("%.*s", n, base) : vc_format("sample");
    for (int tries = 0; name && vf_keymap_get(names, vf_hash(name, strlen(name)), NULL); tries++) {
        char *next = tries ? vc_format("%s-", name)
                           : vc_format("%.*s-%06" PRIu32 "-%03u", n && n < 200 ? n : 6,
                                       n && n < 200 ? base : "sample", s->e->number,
                                       (unsigned)s->e->variant);
        free(name);
        name = next;
    }
    if (!name || vf_keymap_put(names, vf_hash(name, strlen(name)), 0, err)) {
        free(name);
        vc_no_memory(err);
        return NULL;
    }
    return name;
}

/* ---- the verbs ---- */

const char *const exchange_only_cogvideox[] = { "cogvideox", "cogvideox1.5", NULL };

static const char *layout_name(const exchange_format *f, size_t i)
{
    return *(const char *const *)(const void *)((const char *)f->layouts + i * f->layout_size);
}

const void *exchange_layout(const exchange_format *f, const char *family)
{
    for (size_t i = 0; f->layouts && layout_name(f, i); i++)
        if (!strcmp(layout_name(f, i), family))
            return (const char *)f->layouts + i * f->layout_size;
    return NULL;
}

static bool lacks_family(const exchange_format *f, const char *family)
{
    return f->layouts && !exchange_layout(f, family);
}

enum { LIST = 160 };

static const char *list_families(char buf[LIST], const exchange_format *f)
{
    size_t n = 0;
    for (size_t i = 0; layout_name(f, i) && n < LIST; i++)
        n += (size_t)snprintf(buf + n, LIST - n, "%s%s", i ? ", " : "", layout_name(f, i));
    return buf;
}

static bool is_normalized(const vlat *v, const exchange_format *f)
{
    return v->o->space ? v->o->space == 2 : f->normalized;
}

static int check_export(exchange *x, const exchange_format *f, vc_err *err)
{
    const char *family = vlat_str(x->manifest, "family");
    x->family = exchange_family_find(family);
    char list[LIST];
    if (lacks_family(f, family))
        return vc_fail(err, VC_EMISMATCH, "%s is of family %.60s, of which %s keeps no cache: "
                       "--to %s exports %s", x->v->path, family, f->source, f->name,
                       list_families(list, f));
    if (f->whole)
        return 0;
    int rc = exchange_norm_manifest(&x->norm, x->manifest, err);
    if (!rc && x->v->o->vae)
        rc = exchange_norm_config(&x->norm, x->v->o->vae, err);
    return rc;
}

/* Writes OUT.part, which is renamed to OUT when it is complete and removed after an error. The lock
 * file beside it outlives a kill: an OUT.part without a lock file was not made by an export. *left
 * becomes true if OUT.part was made by an export. */
static int write_part(exchange *x, const exchange_format *f, const char *part, bool *left,
                      vc_err *err)
{
    int rc = *left ? vc_remove_tree(part, err) : 0;
    if (rc)
        return rc;
    *left = !mkdir(part, 0777);
    if (!*left)
        return vc_fail_errno(err, "%s (no export left it: move it away)", part);
    rc = f->write(x, err);
    if (!rc)
        rc = exchange_write_note(x, part, EXCHANGE_NOTE, vf_dataset_count(x->d), err);
    if (!rc)
        rc = make_durable(part, err);
    rc = vc_maps_check(rc, err);
    if (!rc && rename(part, x->v->o->out))
        rc = vc_fail_errno(err, "%s: rename to %s", part, x->v->o->out);
    if (rc)
        vc_remove_tree(part, NULL);
    return rc;
}

static int export_to(exchange *x, const exchange_format *f, vc_err *err)
{
    const char *out = x->v->o->out;
    char *part = vc_format("%s.part", out), *lock = vc_format("%s.part.lock", out);
    bool left = lock && vc_file_exists(lock);
    int fd = -1;
    int rc = part && lock ? vc_lock_file(&fd, lock, err) : vc_no_memory(err);
    x->dir = part;
    if (!rc && vc_file_exists(out))
        rc = vc_fail(err, VC_EINVAL, "%s is there already: remove it or give another name", out);
    else if (!rc)
        rc = write_part(x, f, part, &left, err);
    if (fd >= 0) {
        if (!left || !vc_file_exists(part))      /* else the next export removes OUT.part */
            unlink(lock);
        close(fd);
    }
    free(part);
    free(lock);
    return rc;
}

int vlat_export(const vlat *v, vc_err *err)
{
    char a[32];
    exchange x = { .v = v };
    vf_dataset *d = NULL;
    const exchange_format *f = need_format(v->o->to, "--to", true, err);
    if (!f)
        return VC_EUSAGE;
    if (!v->o->out)
        return vc_fail(err, VC_EUSAGE, "--out says which folder to make");
    x.format = f->source;
    x.normalized = is_normalized(v, f);
    int rc = vf_dataset_open(&d, v->path, false, err);
    if (!rc) {
        x.d = d;
        x.manifest = vf_dataset_manifest(d);
        rc = check_export(&x, f, err);
    }
    if (!rc)
        rc = export_to(&x, f, err);
    if (!rc) {
        fprintf(v->out, "%s: %s sample%s for %s\n", v->o->out,
                vc_human_count(a, vf_dataset_count(d)), vc_s(vf_dataset_count(d)), f->source);
        vc_say(v->progress, "next: give this folder to %s; docs/export.md has the commands",
               f->source);
        if (x.no_captions && !f->whole)
            vc_warn(v->progress, "%" PRIu64 " captions were left out: %s has one for each sample",
                    x.no_captions, f->source);
        if (x.no_conditions && !f->whole)
            vc_warn(v->progress,
                    "%" PRIu64 " conditions were left out: pictures and masks beside the "
                    "latents are not exported", x.no_conditions);
    }
    vf_keymap_free(&x.written);
    exchange_close(&x);
    vf_dataset_close(d);
    return rc;
}

int vlat_import(const vlat *v, vc_err *err)
{
    const exchange_format *f = need_format(v->o->from, "--from", false, err);
    if (!f)
        return VC_EUSAGE;
    if (!v->o->out)
        return vc_fail(err, VC_EUSAGE, "--out says where the new dataset goes");
    if (v->o->texts && f->whole)
        return vc_fail(err, VC_EUSAGE, "--texts: %s has the dataset whole, with its texts",
                       f->name);
    if (v->o->texts && v->o->empty)
        return vc_fail(err, VC_EUSAGE, "--texts brings the empty prompt too: leave --empty out");
    exchange x = { .v = v, .format = f->source, .dir = v->path, .note_dir = f->note_dir,
                   .samples = -1,
                .normalized = is_normalized(v, f) };
    if (!f->whole) {
        const char *family = v->o->family ? v->o->family : f->family;
        if (!(x.family = exchange_family_need(family, err)))
            return VC_EUSAGE;
        char list[LIST];
        if (lacks_family(f, family))
            return vc_fail(err, VC_EUSAGE, "--family %.60s: %s keeps no cache of it: --from %s "
                           "imports %s", family, f->source, f->name, list_families(list, f));
    }
    int rc = vf_copy_room(v->o->out, err);
    if (!rc)
        rc = exchange_read_note(&x, err);
    if (!rc)
        rc = f->read(&x, err);
    if (!rc)
        rc = exchange_finish(&x, err);
    exchange_close(&x);
    return rc || !x.lacks ? rc : VLAT_PARTIAL;
}
