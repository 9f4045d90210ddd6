/* exchange.c - vlat export and vlat import: the verbs, and the table of formats. See exchange.h */
#include "formats/peers/exchange.h"

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
#include "formats/peers/sound.h"

static const exchange_format *const formats[] = {
    &exchange_safetensors, &exchange_webdataset, &exchange_musubi, &exchange_finetrainers,
    &exchange_causvid, &exchange_ttt, &exchange_diffsynth, &exchange_cogvideo, &exchange_factory,
    &exchange_kohya, &exchange_ltx_trainer,
#ifdef VLT_SQLITE
    &exchange_dpipe,
#endif
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Trainers whose caches are not read, and what to do instead. */
static const struct { const char *names, *say; } unread[] = {
    { "ai-toolkit aitoolkit", "its _latent_cache and _t_e_cache are not read: vprep --config FILE "
      "encodes the datasets of its file again" },
    { "simpletuner SimpleTuner", "its caches are not read: vprep --config config.json encodes the "
      "datasets of its multidatabackend.json again" },
    { "onetrainer OneTrainer", "its cache is not read: vprep --config FILE encodes the concepts of "
      "its file again" },
    { "fastvideo FastVideo", "its Parquet files are not read: vprep --meta FOLDER encodes the "
      "folder with videos2caption.json again" },
    { "videox-fun VideoX-Fun", "it stores no latents: vprep --meta LIST encodes its list" },
};

/* Fails for a trainer whose caches are not read; 0: it is none of them. */
static int refuse_unread(const char *name, const char *flag, vc_err *err)
{
    const size_t n = name ? strlen(name) : 0;
    for (size_t i = 0; n && i < sizeof unread / sizeof *unread; i++)
        for (const char *s = unread[i].names; *s; s += strspn(s, " ")) {
            const size_t k = strcspn(s, " ");
            if (k == n && !strncmp(s, name, n))
                return vc_fail(err, VC_EUSAGE, "%s %s: %s", flag, name, unread[i].say);
            s += k;
        }
    return 0;
}

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
    if (refuse_unread(name, flag, err))
        return NULL;
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

/* ---- the verbs ---- */

/* Syncs all files of the export at once, which is far faster than one after the other. */
static int make_durable(const char *dir, vc_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || syncfs(fd) ? vc_fail_errno(err, "%s", dir) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static bool lacks_family(const exchange_format *f, const char *family)
{
    return f->layouts && !exchange_layout(f, family);
}

enum { LIST = 160 };

static const char *list_families(char buf[LIST], const exchange_format *f)
{
    const char *name, *last = "";
    size_t n = 0;
    for (size_t i = 0; (name = exchange_layout_name(f, i)) && n < LIST; i++) {
        if (strcmp(name, last))                  /* a family may have several rows */
            n += (size_t)snprintf(buf + n, LIST - n, "%s%s", i ? ", " : "", name);
        last = name;
    }
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
    if (!rc)
        rc = exchange_sound_manifest(x, err);
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
