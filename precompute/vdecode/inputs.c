/* inputs.c - see inputs.h */
#include "precompute/vdecode/inputs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "common/roles.h"

#define TARGET "target"

typedef struct strip_of {
    char number[16];                         /* of the prompt */
    bool target;
} strip_of;

struct inputs {
    sheet *strips;                           /* one of each input; NULL: no sheet is made */
    strip_of of[SHEET_MOST];                 /* what strip i shows */
    int n;
    bool any;
};

/* ---- runs ---- */

/* Whether the pictures of the stem are newer than the latents. */
static bool is_decoded(const char *stem, const char *latents)
{
    static const char *const ends[] = { ".png", ".jpg", ".mp4", "-000.png", "-000.jpg" };
    struct stat was, is;
    bool found = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !found; i++) {
        char *path = vc_format("%s%s", stem, ends[i]);
        found = path && !stat(path, &is) && !stat(latents, &was) &&
                (is.st_mtim.tv_sec > was.st_mtim.tv_sec ||
                 (is.st_mtim.tv_sec == was.st_mtim.tv_sec &&
                  is.st_mtim.tv_nsec >= was.st_mtim.tv_nsec));
        free(path);
    }
    return found;
}

/* Decodes the input NAME of the prompt `number`, from the file `latents`. */
static int decode_input(inputs *in, decoder *d, const vf_safetensors *st, const char *latents,
                        const char *number, const char *name, vc_err *err)
{
    const int dir = (int)(vc_path_base(latents) - latents), before = sheet_count(in->strips);
    char *stem = vc_format("%.*s%s-%s", dir, latents, number, name);
    if (!stem)
        return vc_no_memory(err);
    int rc = 0;
    if (in->strips || d->o.overwrite || !is_decoded(stem, latents))
        rc = vc_context(err, decode_latent(d, st, name, stem, decode_chosen(st), in->strips, err),
                        "%s", latents);
    if (!rc && sheet_count(in->strips) > before) {
        strip_of *of = &in->of[before];
        snprintf(of->number, sizeof of->number, "%s", number);
        of->target = !strcmp(name, TARGET);
    }
    free(stem);
    return rc;
}

/* Whether the name can be a part of a file's name; other programs may have written the file. */
static bool is_plain(const char *name)
{
    return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

static int decode_file(inputs *in, decoder *d, const char *path, vc_err *err)
{
    const char *base = vc_path_base(path);
    vf_safetensors *st;
    char number[16];
    snprintf(number, sizeof number, "%.*s", (int)(vc_path_ext(path) - base), base);
    int rc = vf_safetensors_open(&st, path, err);
    if (rc)
        return rc;
    for (int i = 0; !rc && i < vf_safetensors_count(st); i++) {
        const char *name = vf_safetensors_at(st, i)->name;
        if (is_plain(name))
            rc = decode_input(in, d, st, path, number, name, err);
    }
    in->any = true;
    vf_safetensors_close(st);
    return rc;
}

static int is_numbered(const struct dirent *e)
{
    const size_t n = strspn(e->d_name, "0123456789");
    return n && n < sizeof ((strip_of *)0)->number && !strcmp(e->d_name + n, ".safetensors");
}

int inputs_open(inputs **out, decoder *d, const char *validation, vc_err *err)
{
    struct dirent **names = NULL;
    char *dir = vc_path_join(validation, "inputs");
    *out = calloc(1, sizeof **out);
    int rc = dir && *out ? 0 : vc_no_memory(err);
    int n = rc ? 0 : scandir(dir, &names, is_numbered, alphasort);
    if (!rc && d->o.sheet && n > 0)
        rc = sheet_open(&(*out)->strips, err);
    d->place = d->each = 0;
    for (int i = 0; i < n; i++) {
        char *path = vc_path_join(dir, names[i]->d_name);
        if (!rc)
            rc = !path ? vc_no_memory(err) : *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped")
                       : decode_file(*out, d, path, err);
        free(path);
        free(names[i]);
    }
    free(names);
    free(dir);
    return rc;
}

void inputs_close(inputs *in)
{
    if (in)
        sheet_close(in->strips);
    free(in);
}

int inputs_put(const inputs *in, sheet *s, const char *name, bool behind, vc_err *err)
{
    const size_t n = strcspn(name, ".");
    int rc = 0;
    if (!s || !in->any)
        return 0;
    if (!behind)
        sheet_row(s);
    for (int i = 0; !rc && i < sheet_count(in->strips); i++)
        if (in->of[i].target == behind && strlen(in->of[i].number) == n &&
            !strncmp(in->of[i].number, name, n))
            rc = sheet_copy(s, in->strips, i, err);
    return rc;
}

/* ---- datasets ---- */

/* Whether a role's value is decoded beside the clip: it is a picture of another file. */
static bool is_input(vc_role role)
{
    const vc_pixels from = vc_roles[role].recipe.pixels;
    return vc_roles[role].kind == VC_VALUE_MOMENTS &&
           (from == VC_PIXELS_CONTROL || from == VC_PIXELS_REFERENCE ||
            from == VC_PIXELS_REACTIVE);
}

static int decode_value(decoder *d, const vf_dataset *set, uint32_t i, vf_key key,
                        const char *stem, chosen c, sheet *s, vc_err *err)
{
    vf_safetensors *st;
    int rc = vf_dataset_latent_of(set, i, key, true, &st, err);
    if (rc)
        return rc;
    rc = decode_latent(d, st, NULL, stem, c, s, err);
    vf_safetensors_close(st);
    return rc;
}

/* Whether samples of the dataset may have inputs: those of its --train_mode. */
static bool any_input(const vf_dataset *set)
{
    const cJSON *mode = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(set), "train_mode");
    bool any = false;
    for (int m = 0; cJSON_IsString(mode) && m < VC_MODES; m++)
        for (int role = 0; role < VC_ROLES && !strcmp(mode->valuestring, vc_mode_names[m]); role++)
            any = any || (is_input((vc_role)role) && vc_roles[role].modes & 1u << m);
    return any;
}

int inputs_of_sample(decoder *d, const vf_dataset *set, uint32_t i, const cJSON *record,
                     const char *stem, sheet *s, vc_err *err)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    int rc = 0;
    if (!s || !any_input(set))
        return 0;
    sheet_row(s);
    for (int role = 0; !rc && role < VC_ROLES; role++) {
        const char *name = vc_roles[role].name, *hex = NULL;
        vf_key key;
        if (!is_input((vc_role)role) || !all)
            continue;
        rc = vf_json_str_opt(all, name, &hex, err);
        if (rc || !hex)
            continue;
        if (!vf_key_parse(&key, hex))
            return vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", name);
        char *to = vc_format("%s-%s", stem, name);
        const int most = vc_roles[role].clip ? (int)vf_dataset_entry(set, i)->frames : 0;
        rc = to ? decode_value(d, set, i, key, to, (chosen){ .most = most }, s, err)
                : vc_no_memory(err);
        free(to);
    }
    return rc;
}
