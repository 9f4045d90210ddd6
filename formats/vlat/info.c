/* info.c - vlat info: one screen about a dataset or a checkpoint. */
#include "formats/vlat/vlat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

enum { ROWS = 16, BAR = 40 };                /* buckets shown; characters of the longest bar */
enum { MAX_TRAINER = 16 << 20 };             /* bytes of trainer.json */

typedef struct count {
    uint32_t clips, stills, rows;            /* rows: distinct sample numbers */
} count;

static count count_samples(const vf_dataset *d)
{
    count c = { 0 };
    for (uint32_t i = 0; i < vf_dataset_count(d); i++) {
        const vf_entry *e = vf_dataset_entry(d, i);
        if (e->flags & VF_ENTRY_VIDEO)
            c.clips++;
        else
            c.stills++;
        c.rows += !i || e->number != vf_dataset_entry(d, i - 1)->number;
    }
    return c;
}

static void print_field(FILE *f, const char *name, const cJSON *value)
{
    char *line = value ? vf_json_line(value) : NULL;
    fprintf(f, "%-14s", name);
    vlat_print(f, line ? line : "-", 300);
    fputc('\n', f);
    free(line);
}

/* Prints the lines about captions of which an encoder did not read the ends. */
static void print_cuts(FILE *f, const char *lines)
{
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        n = strcspn(lines, "\n");
        char *line = strndup(lines, n);
        fprintf(f, "%-14s", "captions cut");
        vlat_print(f, line ? line : "", 1000);
        fputc('\n', f);
        free(line);
    }
}

/* Prints the fields of an object without braces: "class Builtin, dtype bf16". */
static void print_object(FILE *f, const char *name, const cJSON *o)
{
    const cJSON *field;
    const char *before = "";
    fprintf(f, "%-14s", name);
    cJSON_ArrayForEach(field, o) {
        if (cJSON_IsNull(field) || !field->string)
            continue;
        char *line = cJSON_IsString(field) ? NULL : vf_json_line(field);
        fputs(before, f);
        vlat_print(f, field->string, 40);
        fputc(' ', f);
        vlat_print(f, cJSON_IsString(field) ? field->valuestring : line ? line : "", 80);
        before = ", ";
        free(line);
    }
    fputc('\n', f);
}

static void print_counts(FILE *f, const vf_dataset *d, const vlat_sounds *sounds)
{
    char a[32], b[32], c[32], e[32];
    count n = count_samples(d);
    fprintf(f, "%-14s%s: %s clip%s (%s), %s still%s", "samples",
            vc_human_count(a, vf_dataset_count(d)), vc_human_count(b, n.clips), vc_s(n.clips),
            vc_human_time(e, vlat_seconds(d)), vc_human_count(c, n.stills), vc_s(n.stills));
    if (n.rows != vf_dataset_count(d))
        fprintf(f, "; of %s rows", vc_human_count(a, n.rows));
    if (vlat_has_sound(d))
        fprintf(f, "\n%-14s%s sample%s (%s)", "with sound", vc_human_count(a, sounds->n),
                vc_s(sounds->n), vc_human_time(e, sounds->seconds));
    fprintf(f, "\n%-14s%" PRIu32 "\n", "prompts", vf_dataset_validations(d));
}

typedef struct size {
    double bytes, latents, texts;
    int shards;
} size;

static size size_of(const cJSON *manifest)
{
    size z = { 0 };
    const cJSON *s;
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(manifest, "shards")) {
        z.shards++;
        z.bytes += vlat_num(s, "bytes");
        z.latents += vlat_num(s, "latents");
        z.texts += vlat_num(s, "texts");
    }
    return z;
}

static void print_size(FILE *f, const cJSON *manifest)
{
    char a[32], b[32], c[32];
    const size z = size_of(manifest);
    fprintf(f, "%-14s%s in %d shard%s: %s latent%s, %s text%s\n", "size",
            vc_human_bytes(a, z.bytes), z.shards, vc_s(z.shards),
            vc_human_count(b, (uint64_t)z.latents), vc_s(z.latents),
            vc_human_count(c, (uint64_t)z.texts), vc_s(z.texts));
}

/* Prints the manifest as one line of JSON, with its totals. */
static int print_manifest(const vlat *v, const vf_dataset *d, vc_err *err)
{
    const count n = count_samples(d);
    const size z = size_of(vf_dataset_manifest(d));
    vlat_sounds sounds;
    int rc = vlat_count_sounds(&sounds, d, err);
    if (rc)
        return rc;
    const struct { const char *name; double value; } totals[] = {
        { "samples", vf_dataset_count(d) }, { "clips", n.clips }, { "stills", n.stills },
        { "rows", n.rows }, { "seconds", vlat_seconds(d) },
        { "with_sound", sounds.n }, { "sound_seconds", sounds.seconds },
        { "prompts", vf_dataset_validations(d) },
        { "bytes", z.bytes }, { "shards", z.shards }, { "latents", z.latents },
        { "texts", z.texts },
    };
    cJSON *o = cJSON_Duplicate(vf_dataset_manifest(d), true);
    cJSON *t = cJSON_AddObjectToObject(o, "totals");
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        cJSON_AddNumberToObject(t, totals[i].name, totals[i].value);
    rc = vlat_print_json(v->out, o, err);
    cJSON_Delete(o);
    return rc;
}

static int by_samples(const void *a, const void *b)
{
    double x = vlat_num(*(const cJSON *const *)a, "samples"),
           y = vlat_num(*(const cJSON *const *)b, "samples");
    return (x < y) - (x > y);
}

static int print_buckets(FILE *f, const cJSON *manifest, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(manifest, "buckets"), *o;
    int n = cJSON_GetArraySize(list), i = 0;
    const cJSON **order = calloc((size_t)n + 1, sizeof *order);
    if (!order)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d buckets", n);
    cJSON_ArrayForEach(o, list)
        order[i++] = o;
    if (n)
        qsort(order, (size_t)n, sizeof *order, by_samples);
    double most = n ? vlat_num(order[0], "samples") : 0, rest = 0;
    fprintf(f, "%-14s%d\n", "buckets", n);
    for (i = 0; i < n; i++) {
        char dims[64], c[32];
        double samples = vlat_num(order[i], "samples");
        int bar = most > 0 && samples > 0 ? (int)(samples / most * BAR + 0.5) : 0;
        if (i >= ROWS) {
            rest += samples;
            continue;
        }
        fputs("  ", f);
        vlat_print(f, vlat_str(order[i], "key"), 10);
        fprintf(f, "\t%-12s%12s  ",
                vlat_dims(dims, cJSON_GetObjectItemCaseSensitive(order[i], "latent")),
                vc_human_count(c, samples > 0 ? (uint64_t)samples : 0));
        for (int k = 0; k < (bar > BAR ? BAR : bar); k++)
            fputc('#', f);
        fputc('\n', f);
    }
    if (n > ROWS)
        fprintf(f, "  and %d smaller ones with %.0f samples\n", n - ROWS, rest);
    free(order);
    return 0;
}

/* ---- the data of a checkpoint ---- */

static const char *state_of(const char *path, const char *root)
{
    vf_dataset *d;
    if (vf_dataset_open(&d, path, true, NULL))
        return "not there now";
    bool same = !strcmp(vlat_str(vf_dataset_manifest(d), "root"), root);
    vf_dataset_close(d);
    return same ? "unchanged" : "changed since";
}

/* Prints the data of each epoch, for a run that followed a dataset while it was written. */
static void print_epochs(FILE *f, const cJSON *epochs)
{
    const cJSON *e, *set;
    if (cJSON_GetArraySize(epochs) < 2)
        return;
    cJSON_ArrayForEach(e, epochs) {
        fprintf(f, "%-14sfrom %.0f on", "epochs", vlat_num(e, "epoch"));
        cJSON_ArrayForEach(set, cJSON_GetObjectItemCaseSensitive(e, "data"))
            fprintf(f, ", %.0f samples in %.0f shards", vlat_num(set, "samples"),
                    vlat_num(set, "shards"));
        fputc('\n', f);
    }
}

/* Prints trainer.json as one line of JSON, with the state of each dataset. */
static int print_trainer(const vlat *v, cJSON *o, vc_err *err)
{
    cJSON *set;
    cJSON_ArrayForEach(set, cJSON_GetObjectItemCaseSensitive(o, "data"))
        cJSON_AddStringToObject(set, "state", state_of(vlat_str(set, "path"),
                                                       vlat_str(set, "root")));
    return vlat_print_json(v->out, o, err);
}

/* Prints the data that trainer.json of a checkpoint names. */
static int info_of(const vlat *v, vc_err *err)
{
    cJSON *o;
    const cJSON *list, *set;
    int rc = vf_json_read_in(&o, v->o->of, "trainer.json", MAX_TRAINER, err);
    if (rc)
        return vc_context(err, rc, "--of %s: a folder checkpoint-N is meant", v->o->of);
    rc = vc_context(err, vf_json_arr(o, "data", &list, err), "%s/trainer.json", v->o->of);
    if (!rc && v->o->json) {
        rc = print_trainer(v, o, err);
    } else if (!rc) {
        fprintf(v->out, "%-14s%.0f\n%-14s", "step", vlat_num(o, "step"), "family");
        vlat_print(v->out, vlat_str(o, "family"), 60);
        fputs(", ", v->out);
        vlat_print(v->out, vlat_str(o, "training_type"), 60);
        fputc('\n', v->out);
        cJSON_ArrayForEach(set, list) {
            char n[32];
            fprintf(v->out, "%-14s", "data");
            vlat_print(v->out, vlat_str(set, "path"), 0);
            fprintf(v->out, ": %s samples, root ",
                    vc_human_count(n, (uint64_t)vlat_num(set, "samples")));
            vlat_print(v->out, vlat_str(set, "root"), 40);
            fprintf(v->out, ", %s\n", state_of(vlat_str(set, "path"), vlat_str(set, "root")));
            if (cJSON_HasObjectItem(set, "plan")) {
                fprintf(v->out, "%-14s", "  plan");
                vlat_print(v->out, vlat_str(set, "plan"), 40);
                fputc('\n', v->out);
            }
        }
        print_epochs(v->out, cJSON_GetObjectItemCaseSensitive(o, "epochs"));
    }
    cJSON_Delete(o);
    return rc;
}

static int print_all(const vlat *v, const vf_dataset *d, vc_err *err)
{
    const cJSON *encoder;
    char families[VLAT_FAMILIES];
    const cJSON *m = vf_dataset_manifest(d);
    vlat_sounds sounds;
    FILE *f = v->out;
    int rc = vlat_count_sounds(&sounds, d, err);
    if (rc)
        return rc;
    fprintf(f, "%-14s", "family");
    vlat_print(f, vlat_families(families, m), VLAT_FAMILIES);
    fputs(", train mode ", f);
    vlat_print(f, vlat_str(m, "train_mode"), 60);
    if (*vlat_str(m, "part")) {
        fputs(", part ", f);
        vlat_print(f, vlat_str(m, "part"), 20);
    }
    fputs(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(m, "complete")) ? "\n" : ", not finished\n",
          f);
    print_counts(f, d, &sounds);
    print_size(f, m);
    fprintf(f, "%-14s", "stored");
    vlat_print(f, vlat_str(m, "latent_store"), 20);
    fputs(", ", f);
    vlat_print(f, vlat_str(m, "dtype"), 20);
    fputc('\n', f);
    print_object(f, "vae", cJSON_GetObjectItemCaseSensitive(m, "vae"));
    print_object(f, "normalization", cJSON_GetObjectItemCaseSensitive(m, "normalization"));
    cJSON_ArrayForEach(encoder, cJSON_GetObjectItemCaseSensitive(m, "text_encoders"))
        print_object(f, "text", encoder);
    if (cJSON_HasObjectItem(m, "audio_vae"))
        print_object(f, "audio", cJSON_GetObjectItemCaseSensitive(m, "audio_vae"));
    if (cJSON_HasObjectItem(m, "image_encoder"))
        print_object(f, "vision", cJSON_GetObjectItemCaseSensitive(m, "image_encoder"));
    if (cJSON_HasObjectItem(m, "weights"))
        print_object(f, "weights", cJSON_GetObjectItemCaseSensitive(m, "weights"));
    print_field(f, "sampling", cJSON_GetObjectItemCaseSensitive(m, "sampling"));
    fprintf(f, "%-14s", "root");
    vlat_print(f, vlat_str(m, "root"), 40);
    fputc('\n', f);
    if (cJSON_HasObjectItem(m, "plan")) {
        fprintf(f, "%-14s", "plan");
        vlat_print(f, vlat_str(m, "plan"), 40);
        fputc('\n', f);
    }
    print_cuts(f, vlat_str(m, "cut"));
    return print_buckets(f, m, err);
}

int vlat_info(const vlat *v, vc_err *err)
{
    vf_dataset *d;
    if (v->o->of)
        return info_of(v, err);
    int rc = vlat_open(v, &d, err);
    if (!rc)
        rc = v->o->json ? print_manifest(v, d, err) : print_all(v, d, err);
    vf_dataset_close(d);
    return rc;
}
