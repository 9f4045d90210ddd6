/* main.c - vdecode: latents -> PNG, JPEG, MP4 and contact sheets.
 *
 * An input is a latent dataset (posterior means), a latents file, or a run folder, whose new files
 * under validation/ are decoded beside their latents. One VAE is open at a time. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cli/hub.h"
#include "common/os/file.h"
#include "common/os/heap.h"
#include "common/os/progress.h"
#include "common/os/streams.h"
#include "common/os/threads.h"
#include "formats/report/gallery.h"
#include "formats/tensors/component.h"
#include "precompute/run/components.h"
#include "precompute/vdecode/decode.h"
#include "precompute/vdecode/inputs.h"
#include "precompute/vdecode/sound.h"

#define FLAG(kind_, field, name_, value_, allowed_, aliases_, help_) \
    { .name = name_, .kind = kind_, .offset = offsetof(options, field), .value = value_, \
      .allowed = allowed_, .aliases = aliases_, .help = help_ }

static const vc_flag flags[] = {
    FLAG(VC_PATH, out, "out", NULL, NULL, NULL,
         "folder for the pictures; those of a run lie beside its latents"),
    FLAG(VC_PATH, model, "model", NULL, NULL, "pretrained_model_name_or_path",
         "diffusers model folder whose VAE decodes; without it the built-in codec does"),
    FLAG(VC_PATH, vae, "vae", NULL, NULL, "vae_id vae_path",
         "VAE folder to use instead of the model's"),
    FLAG(VC_DTYPE_KIND, vae_dtype, "vae_dtype", NULL, "bf16|f32", NULL,
         "type that the VAE computes in; default: bf16"),
    FLAG(VC_BOOLEAN, vae_tiling, "vae_tiling", NULL, NULL, "enable_tiling use_tiling",
         "decode large pictures in tiles: this takes less memory and leaves faint seams"),
    FLAG(VC_FLOAT, decode_timestep, "decode_timestep", "0.05", "0..1", NULL,
         "noise level that a decoder which removes noise (LTX-Video since 0.9.1) is told"),
    FLAG(VC_FLOAT, decode_noise_scale, "decode_noise_scale", "0.025", "0..1", NULL,
         "share of noise that is mixed into such a decoder's latent before it decodes"),
    FLAG(VC_CHOICE, format, "format", "auto", "auto|png|jpg|mp4", NULL,
         "format of pictures; auto: PNG for images, MP4 and a PNG of a few frames for clips"),
    FLAG(VC_FLOAT, fps, "fps", NULL, ">0", NULL,
         "frames per second of clips; default: the stored rate, or 8"),
    FLAG(VC_STRING, samples, "samples", NULL, NULL, NULL,
         "samples of a dataset: the first N, or keys, comma separated; default: all"),
    FLAG(VC_BOOLEAN, sheet, "sheet", NULL, NULL, NULL, "also write one contact sheet, sheet.png"),
    FLAG(VC_BOOLEAN, overwrite, "overwrite", NULL, NULL, NULL,
         "for a run: decode again the latents that already have pictures"),
    FLAG(VC_STRING, device, "device", "auto", NULL, NULL, "device to decode on: auto or cpu"),
    FLAG(VC_CHOICE, log_format, "log_format", "text", "text|json", NULL,
         "form of messages and progress"),
    FLAG(VC_BOOLEAN, quiet, "quiet", NULL, NULL, NULL, "print warnings and errors only"),
    { 0 }
};

static const vc_program program = {
    .name = "vdecode",
    .synopsis = "vdecode IN... [--out DIR] [--format png|jpg|mp4] [--sheet] [flags]",
    .about = "Decodes latents into pictures: those of a dataset, of a latents file, or of a run's "
             "validation samples, which then also appear in the report.html of the run.",
    .flags = flags,
    .positional = "IN...",
};

/* Remembers where the pictures of an input are. */
static int note_where(decoder *d, const char *dir, bool of_run, vc_err *err)
{
    free(d->where);
    d->where = vc_format("%s", dir);
    d->of_run = of_run;
    return d->where ? 0 : vc_no_memory(err);
}

/* ---- datasets ---- */

/* Decodes the sound that lasts as long as the chosen frames; a rate of --fps has none. */
static int sound_of(decoder *d, const vf_dataset *set, uint32_t i, const cJSON *record, chosen *c,
                    media_wave *wave, vc_err *err)
{
    *wave = (media_wave){ 0 };
    if (!(c->fps > 0) || (d->o.fps > 0 && d->o.fps != c->fps))
        return 0;
    int rc = decode_sound_run(d->sound, set, i, record, c->most / c->fps, wave, err);
    c->sound = wave->x ? wave : NULL;
    return rc;
}

static int dataset_sample(decoder *d, const vf_dataset *set, uint32_t i, sheet *s, vc_err *err)
{
    const vf_entry *e = vf_dataset_entry(set, i);
    char key[24], name[24];
    vf_safetensors *st = NULL;
    cJSON *record = NULL;
    chosen c = { .most = (int)e->frames };
    media_wave wave = { 0 };

    vf_sample_key(key, e->number, e->variant);
    snprintf(name, sizeof name, "%012u-%03u", e->number, e->variant);
    int rc = vf_dataset_sample(set, i, &record, err);
    if (!rc)
        rc = vf_json_num_opt(record, "fps", &c.fps, err);
    if (!rc)
        rc = vf_dataset_latent_of(set, i, e->latent, true, &st, err);
    char *stem = vc_path_join(d->o.out, name);
    if (!rc && !stem)
        rc = vc_no_memory(err);
    if (!rc)
        rc = inputs_of_sample(d, set, i, record, stem, s, err);
    if (!rc)
        rc = sound_of(d, set, i, record, &c, &wave, err);
    if (!rc)
        rc = decode_latent(d, st, NULL, stem, c, s, err);
    d->done += !rc;
    free(wave.x);
    free(stem);
    vf_safetensors_close(st);
    cJSON_Delete(record);
    vc_context(err, rc, "sample %s", key);
    return vf_dataset_remedy(vf_dataset_path(set), rc, err);
}

static int next_sample(decoder *d, const vf_dataset *set, uint32_t i, sheet *s, vc_err *err)
{
    int rc = *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped")
                             : dataset_sample(d, set, i, s, err);

    d->place += !rc;
    vc_progress_at(d->progress, (uint64_t)d->place, NULL);
    return rc;
}

/* Decodes the samples that --samples chooses, by a number or by keys. */
static int chosen_samples(decoder *d, const vf_dataset *set, sheet *s, vc_err *err)
{
    uint32_t n = vf_dataset_count(set);
    char *end = NULL, *list = d->o.samples ? vc_format("%s", d->o.samples) : NULL;
    bool keys = list && strpbrk(list, "/,");
    int rc = 0;

    if (list && !keys) {
        long long most = strtoll(list, &end, 10);
        if (*end || most < 1)
            rc = vc_fail(err, VC_EUSAGE,
                         "--samples %s: expected a number, or keys like 000000000042/000", list);
        else if (most < n)
            n = (uint32_t)most;
    }
    if (keys)
        n = 1;
    for (const char *c = keys ? list : ""; *c; c++)
        n += *c == ',';
    d->by_frames = false;
    d->place = 0;
    d->each = 1;
    vc_progress_begin(d->progress, "decoding", "samples", n);
    for (uint32_t i = 0; !rc && !keys && i < n; i++)
        rc = next_sample(d, set, i, s, err);
    char *save = NULL;
    for (char *key = keys ? strtok_r(list, ",", &save) : NULL; !rc && key;
         key = strtok_r(NULL, ",", &save)) {
        uint32_t i;
        rc = vf_dataset_find(set, key, &i, err);
        if (!rc)
            rc = next_sample(d, set, i, s, err);
    }
    vc_progress_end(d->progress);
    free(list);
    return rc;
}

static int write_sheet(const decoder *d, sheet *s, const char *dir, vc_err *err)
{
    char *path = s ? vc_path_join(dir, "sheet.png") : NULL;
    int rc = !s ? 0 : path ? sheet_write(s, path, err) : vc_no_memory(err);
    if (!rc && s)
        vc_say(d->progress, "%s", path);
    free(path);
    return rc;
}

/* Warns if the weights are not those of the dataset: pictures would differ from the encoded
 * ones. */
static void compare_weights(const decoder *d, const vf_dataset *set, const char *component,
                            const char *dir)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(set), "weights");
    const cJSON *vae_of = cJSON_GetObjectItemCaseSensitive(all, component);
    char is[VF_KEY_HEX];
    vf_model *m = NULL;
    vf_key k;
    vc_err why;

    if (!dir || !cJSON_IsString(vae_of))
        return;
    int rc = vf_component_open(&m, dir, component, &why);
    if (!rc)
        rc = vf_model_hash(&k, m, vc_stop_flag(), &why);
    vf_model_close(m);
    if (rc && rc != VC_ESTOP)
        vc_warn(d->progress, "%s: not compared with what made %s", why.text, vf_dataset_path(set));
    else if (!rc && strcmp(vf_key_hex(is, k), vae_of->valuestring))
        vc_warn(d->progress, "%s: other weights (XXH3-128 %s) than %s was made with (%.32s)",
                dir, is,
                vf_dataset_path(set), vae_of->valuestring);
}

static int decode_dataset(decoder *d, const char *path, vc_err *err)
{
    vf_dataset *set;
    sheet *s = NULL;
    const cJSON *v;
    const char *class;
    int rc = d->o.out ? 0 : vc_fail(err, VC_EUSAGE, "--out is needed for a dataset");

    if (!rc)
        rc = vc_mkdirs(d->o.out, err);
    if (!rc)
        rc = vf_dataset_open(&set, path, true, err);
    if (rc)
        return rc;
    rc = vf_json_obj(vf_dataset_manifest(set), "vae", &v, err);
    if (!rc)
        rc = vf_json_str(v, "class", &class, err);
    if (!rc && strcmp(class, d->info.class))
        rc = vc_fail(err, VC_EMISMATCH, "%s was made by %s, and %s would decode it: give --model "
                     "or --vae", path, class, d->info.class);
    if (!rc)
        compare_weights(d, set, "vae", d->dir);
    decode_sound_close(d->sound);            /* of a file before */
    d->sound = NULL;
    if (!rc)
        rc = decode_sound_open(&d->sound, d, set, err);
    if (!rc && d->sound)
        compare_weights(d, set, "audio_vae", decode_sound_dir(d->sound));
    if (!rc && d->o.sheet)
        rc = sheet_open(&s, err);
    if (!rc)
        rc = chosen_samples(d, set, s, err);
    if (!rc)
        rc = write_sheet(d, s, d->o.out, err);
    if (!rc)
        rc = note_where(d, d->o.out, false, err);
    sheet_close(s);
    decode_sound_close(d->sound);
    d->sound = NULL;
    vf_dataset_close(set);
    return rc;
}

/* ---- latents files ---- */

static int decode_file(decoder *d, const char *path, const char *stem, sheet *s, vc_err *err)
{
    vf_safetensors *st;
    int rc = *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped")
                             : vf_safetensors_open(&st, path, err);
    if (rc)
        return rc;

    chosen c = decode_chosen(st);
    media_wave wave = { 0 };
    if (c.fps > 0 && c.most > 0 && !(d->o.fps > 0 && d->o.fps != c.fps))
        rc = decode_sound_file(&d->sound, d, st, c.most / c.fps, &wave, err);
    c.sound = wave.x ? &wave : NULL;
    if (!rc)
        rc = decode_latent(d, st, NULL, stem, c, s, err);
    free(wave.x);
    d->done += !rc;
    vf_safetensors_close(st);
    return vc_context(err, rc, "%s", path);
}

static int decode_one_file(decoder *d, const char *path, vc_err *err)
{
    const char *base = vc_path_base(path);
    sheet *s = NULL;
    char *stem = vc_format("%s/%.*s", d->o.out ? d->o.out : ".",
                           (int)(vc_path_ext(path) - base), base);
    int rc = stem ? vc_mkdirs(d->o.out ? d->o.out : ".", err) : vc_no_memory(err);

    d->by_frames = true;
    if (!rc && d->o.sheet)
        rc = sheet_open(&s, err);
    if (!rc)
        rc = decode_file(d, path, stem, s, err);
    if (!rc)
        rc = write_sheet(d, s, d->o.out ? d->o.out : ".", err);
    if (!rc)
        rc = note_where(d, d->o.out ? d->o.out : ".", false, err);
    sheet_close(s);
    free(stem);
    return rc;
}

/* ---- run folders ---- */

static int is_latents(const struct dirent *e)
{
    return e->d_name[0] != '.' && !strcmp(vc_path_ext(e->d_name), ".safetensors");
}

static int is_step(const struct dirent *e)
{
    return !strncmp(e->d_name, "step-", 5);
}

/* Decodes step number `step` of the run. */
static int decode_step(decoder *d, const inputs *in, const char *dir, int step, vc_err *err)
{
    struct dirent **names;
    sheet *s = NULL;
    int n = scandir(dir, &names, is_latents, alphasort), rc = 0;

    if (n < 0)
        return vc_fail_errno(err, "%s", dir);
    if (d->o.sheet)
        rc = sheet_open(&s, err);
    d->each = 1.0 / (n ? n : 1);
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        char *path = vc_path_join(dir, name);
        char *stem = vc_format("%s/%.*s", dir, (int)(vc_path_ext(name) - name), name);
        char *png = stem ? vc_format("%s.png", stem) : NULL;
        if (!rc && (!path || !png))
            rc = vc_no_memory(err);
        d->place = step + i * d->each;
        if (!rc)
            rc = inputs_put(in, s, name, false, err);
        if (!rc && (d->o.overwrite || d->o.sheet || !vc_file_exists(png)))
            rc = decode_file(d, path, stem, s, err);
        else if (!rc)
            d->there++;
        if (!rc)
            rc = inputs_put(in, s, name, true, err);
        free(png);
        free(stem);
        free(path);
        free(names[i]);
    }
    free(names);
    if (!rc && n)
        rc = write_sheet(d, s, dir, err);
    sheet_close(s);
    return rc;
}

static int decode_run(decoder *d, const char *run, const char *validation, vc_err *err)
{
    struct dirent **names;
    inputs *in = NULL;
    int n = scandir(validation, &names, is_step, versionsort), rc = 0;

    if (n < 0)
        return vc_fail_errno(err, "%s", validation);
    if (d->o.out)
        vc_warn(d->progress, "--out %s: pictures of the run %s lie beside its latents, where its "
                "report shows them", d->o.out, run);
    d->by_frames = false;
    d->place = 0;
    vc_progress_begin(d->progress, "decoding", "steps", (uint64_t)n);
    rc = inputs_open(&in, d, validation, err);
    for (int i = 0; i < n; i++) {
        char *dir = vc_path_join(validation, names[i]->d_name);
        if (!rc)
            rc = dir ? decode_step(d, in, dir, i, err) : vc_no_memory(err);
        vc_progress_at(d->progress, (uint64_t)i + 1, NULL);
        free(dir);
        free(names[i]);
    }
    free(names);
    vc_progress_end(d->progress);
    inputs_close(in);
    if (!rc)
        rc = note_where(d, run, true, err);
    return rc ? rc : vf_gallery_update(run, err);
}

static int decode_input(decoder *d, const char *in, vc_err *err)
{
    char *manifest = vc_path_join(in, "manifest.json");
    char *validation = vc_path_join(in, "validation");
    struct stat st;
    int rc;

    if (!manifest || !validation)
        rc = vc_no_memory(err);
    else if (stat(in, &st))
        rc = vc_fail_errno(err, "%s", in);
    else if (!S_ISDIR(st.st_mode))
        rc = decode_one_file(d, in, err);
    else if (vc_file_exists(manifest))
        rc = decode_dataset(d, in, err);
    else if (vc_file_exists(validation))
        rc = decode_run(d, in, validation, err);
    else
        rc = vc_fail(err, VC_EINVAL, "%s: neither a latent dataset (manifest.json) nor a run "
                     "folder with samples (validation/)", in);
    free(manifest);
    free(validation);
    return rc;
}

/* Opens the VAE that the flags name, by the class in its config.json; else the built-in codec. */
static int open_vae(decoder *d, vc_err *err)
{
    encoder_opts o = { .dtype = VC_F32, .device = d->o.device, .tiling = d->o.vae_tiling,
                       .decode_timestep = d->o.decode_timestep,
                       .decode_noise_scale = d->o.decode_noise_scale };
    char class[80];
    int rc = 0;

    rc = prep_vae_by_class(&d->class, vc_families()->vae, err);
    if (d->o.model || d->o.vae) {
        o.dtype = d->o.vae_dtype == VC_DTYPE_NONE ? VC_BF16 : d->o.vae_dtype;
        rc = prep_component_dir(&d->dir, d->o.model, d->o.vae, "vae", "vae", err);
        if (!rc)
            rc = prep_component_class(class, sizeof class, d->dir, "vae", err);
        if (!rc)
            rc = prep_vae_by_class(&d->class, class, err);
        o.dir = d->dir;
    }
    return rc ? rc : d->class->open(&d->vae, &o, &d->info, err);
}

/* Says how many latents were decoded, or why none was, and where the pictures are. */
static void say_done(const decoder *d)
{
    char before[96] = "", where[32] = "";
    if (!d->done && !d->there) {
        vc_say(d->progress, "0 decoded: there are no latents yet: vtrain makes samples with "
               "--validation_steps N or --sample_at_first");
        return;
    }
    if (d->there && d->done)
        snprintf(before, sizeof before, ", %llu had been before", (unsigned long long)d->there);
    else if (d->there)
        snprintf(before, sizeof before, ": all %llu had been before (--overwrite decodes again)",
                 (unsigned long long)d->there);
    snprintf(where, sizeof where, "%s", d->of_run ? "open" : "pictures are in");
    vc_say(d->progress, "%llu decoded%s; %s %s%s", (unsigned long long)d->done, before, where,
           d->where, d->of_run ? "/report.html, which shows them" : "");
}

static int run(decoder *d, const vc_list *in, vc_err *err)
{
    int rc = in->n ? 0 : vc_fail(err, VC_EUSAGE, "nothing to decode: give a dataset, a run folder "
                                 "or a latents file");

    if (!rc)
        rc = open_vae(d, err);
    for (int i = 0; !rc && i < in->n; i++)
        rc = decode_input(d, in->item[i], err);
    if (!rc)
        say_done(d);
    free(d->where);
    decode_sound_close(d->sound);
    if (d->class)
        d->class->close(d->vae);
    free(d->dir);
    return rc;
}

int main(int argc, char **argv)
{
    vc_heap_return_freed();
    vc_std_open();
    decoder d = { 0 };
    vc_flags *set = NULL;
    vc_err err = { 0 };
    int rc = vc_calm_threads(argv, &err);

    if (!rc)
        rc = vc_flags_parse(&set, &program, &d.o, argc, argv, stdout, &err);

    if (rc == 1) {
        vc_flags_free(set);
        return 0;
    }
    if (!rc)
        rc = vc_progress_open(&d.progress, "vdecode", (vc_log_format)d.o.log_format, d.o.quiet,
                              &err);
    vc_flags_name_typed(set, d.progress);
    if (!rc)
        rc = vc_hub_take(set, &program, &d.o, &err);
    for (int i = 0; !rc && vc_flags_note(set, i); i++)
        vc_say(d.progress, "%s", vc_flags_note(set, i));
    if (!rc)
        rc = vc_catch_stop(&err);
    if (!rc)
        rc = vc_maps_check(run(&d, vc_flags_words(set), &err), &err);
    vc_progress_close(d.progress);
    if (rc)
        vc_flags_report(set, "vdecode", &err, rc);
    vc_flags_free(set);
    int signal = *vc_stop_flag();
    return rc == VC_ESTOP && signal ? 128 + signal : rc == VC_EUSAGE ? 2 : rc ? 1 : 0;
}
