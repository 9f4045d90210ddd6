/* verify_run.c - vlat verify for files of vtrain: a run, a checkpoint, a LoRA file. */
#include "formats/vlat/vlat.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/sums.h"

enum { DEEPEST = 16, MAX_JSON = 256 << 20, MAX_LINE = 64 << 20 };

typedef struct verify {
    const vlat *v;
    const char *below;                       /* name of the current checkpoint in findings */
    uint64_t files, bytes, checkpoints, findings;
    int64_t whole;                           /* step of the newest whole checkpoint; -1: none */
} verify;

bool vlat_is_run(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    if (S_ISREG(st.st_mode))
        return !strcmp(vc_path_ext(path), ".safetensors");
    return !vc_file_exists_in(path, "manifest.json") &&
           (vc_file_exists_in(path, "trainer.json") || vc_file_exists_in(path, "config.yaml"));
}

static void print_finding(verify *r, const char *where, const char *what)
{
    r->findings++;
    vlat_print(r->v->out, where, 0);
    fputs(": ", r->v->out);
    vlat_print(r->v->out, what, 0);
    fputc('\n', r->v->out);
}

/* ---- files without a checksum ---- */

static int check_tensors(const char *path, vc_err *why)
{
    vf_safetensors *f;
    int rc = vf_safetensors_open(&f, path, why);
    if (rc)
        return rc;
    rc = vf_safetensors_check_seal(f, why);
    vf_safetensors_close(f);
    return rc == VC_ENOENT ? 0 : rc;
}

static int check_json(const char *path, vc_err *why)
{
    cJSON *o;
    int rc = vf_json_read(&o, path, MAX_JSON, why);
    if (!rc)
        cJSON_Delete(o);
    return rc;
}

/* Checks each line. A last line without an end was cut by a kill and is removed on resume. */
static int check_lines(const char *path, vc_err *why)
{
    vc_map m;
    int rc = vc_map_open(&m, path, why);
    if (rc)
        return rc;
    vc_lines l = vc_lines_of(m.data, m.size, MAX_LINE);
    const char *line;
    size_t n;
    while (!(rc = vc_lines_next(&l, &line, &n, why)) && line && l.ended) {
        cJSON *o;
        rc = vc_context(why, vf_json_parse_line(&o, line, n, why), "line %" PRId64, l.number);
        if (rc)
            break;
        cJSON_Delete(o);
    }
    vc_map_close(&m);
    return rc;
}

static void check_file(verify *r, const char *path, const char *name, int64_t bytes)
{
    static const struct {
        const char *ext;
        int (*check)(const char *path, vc_err *why);
    } kinds[] = {
        { ".safetensors", check_tensors }, { ".json", check_json }, { ".jsonl", check_lines },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        vc_err why = { 0 };
        if (strcmp(vc_path_ext(path), kinds[i].ext))
            continue;
        if (kinds[i].check(path, &why))
            print_finding(r, name, why.text);
        r->files++;
        r->bytes += (uint64_t)bytes;
    }
}

/* ---- folders ---- */

static void found(void *arg, const char *file, const char *what)
{
    verify *r = arg;
    char *where = vc_format("%s%s%s", r->below, *r->below ? "/" : "", file);
    print_finding(r, where ? where : file, what);
    free(where);
}

/* Whether trainer.json says that the checkpoint had a checksums.json; false if it is damaged. */
static bool had_sums(const char *dir)
{
    cJSON *o;
    bool had = !vf_json_read_in(&o, dir, "trainer.json", MAX_JSON, NULL) &&
               cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "checksums"));
    cJSON_Delete(o);
    return had;
}

static int walk(verify *r, const char *dir, const char *below, int depth, vc_err *err);

static int check_checkpoint(verify *r, const char *dir, const char *name, int depth, vc_err *err)
{
    vf_sums_report sums;
    uint64_t before = r->findings;
    r->below = name;
    r->checkpoints++;
    int rc = vf_sums_check(dir, NULL, found, r, vc_stop_flag(), &sums, err);
    if (rc)
        return rc;
    r->files += sums.files;
    r->bytes += sums.bytes;
    if (sums.none && had_sums(dir)) {
        found(r, VF_SUMS_FILE, "is missing, which was written with it");
    } else if (sums.none) {
        vc_say(r->v->progress, "%s was made by an earlier version, without checksums: only the "
               "format of its files can be checked", dir);
        rc = walk(r, dir, name, depth, err);
    }
    const char *dash = strrchr(dir, '-');
    int64_t step = dash ? strtoll(dash + 1, NULL, 10) : -1;
    if (r->findings == before && step > r->whole)
        r->whole = step;
    return rc;
}

/* Reports the leftovers of a killed run, which the next checkpoint removes. */
static bool is_unfinished(const char *name)
{
    const char *ext = vc_path_ext(name);
    return !strncmp(name, "checkpoint-", 11) && (!strcmp(ext, ".tmp") || !strcmp(ext, ".old"));
}

static int check_entry(verify *r, const char *dir, const char *below, const char *entry, int depth,
                       vc_err *err)
{
    struct stat st;
    char *path = vc_path_join(dir, entry);
    char *name = vc_format("%s%s%s", below, *below ? "/" : "", entry);
    int rc = 0;
    if (!path || !name)
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    else if (*vc_stop_flag())
        rc = vc_fail(err, VC_ESTOP, "stopped");
    else if (stat(path, &st))
        print_finding(r, name, strerror(errno));
    else if (is_unfinished(entry))
        vc_say(r->v->progress, "%s was left by a run that was killed: the next checkpoint removes "
               "it", path);
    else if (S_ISREG(st.st_mode))
        check_file(r, path, name, st.st_size);
    else if (S_ISDIR(st.st_mode) && vc_file_exists_in(path, "trainer.json"))
        rc = check_checkpoint(r, path, name, depth, err);
    else if (S_ISDIR(st.st_mode) && depth < DEEPEST)
        rc = walk(r, path, name, depth + 1, err);
    free(path);
    free(name);
    return rc;
}

static int walk(verify *r, const char *dir, const char *below, int depth, vc_err *err)
{
    DIR *d = opendir(dir);
    if (!d) {
        print_finding(r, below, strerror(errno));
        return 0;
    }
    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, dir, &rc, err));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = check_entry(r, dir, below, e->d_name, depth, err);
    closedir(d);
    return rc;
}

static int check_path(verify *r, const char *path, vc_err *err)
{
    struct stat st;
    if (stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    if (S_ISREG(st.st_mode))
        check_file(r, path, path, st.st_size);
    else if (vc_file_exists_in(path, "trainer.json"))
        return check_checkpoint(r, path, "", 0, err);
    else
        return walk(r, path, "", 0, err);
    return 0;
}

int vlat_verify_run(const vlat *v, vc_err *err)
{
    verify r = { .v = v, .below = "", .whole = -1 };
    char a[32], b[32], c[32], bytes[32], time[32], rate[32];
    double t = vc_seconds();
    if (v->o->repair)
        return vc_fail(err, VC_EUSAGE, "--repair is for datasets; copy a run's damaged files "
                                       "again, or "
                       "continue from an older checkpoint");
    int rc = check_path(&r, v->path, err);
    if (rc)
        return rc;
    t = vc_seconds() - t;
    fprintf(v->out, "%s checkpoints, %s files, %s in %s (%s/s): ", vc_human_count(a, r.checkpoints),
            vc_human_count(b, r.files), vc_human_bytes(bytes, (double)r.bytes),
            vc_human_time(time, t), vc_human_bytes(rate, t > 0 ? (double)r.bytes / t : 0));
    if (!r.findings) {
        fputs("no damage\n", v->out);
        return 0;
    }
    fprintf(v->out, "%s findings\n", vc_human_count(c, r.findings));
    if (r.whole < 0 || vc_file_exists_in(v->path, "trainer.json"))
        return vc_fail(err, VC_EFORMAT, "%s is damaged: copy it again, or use another checkpoint",
                       v->path);
    return vc_fail(err, VC_EFORMAT, "%s is damaged: the newest whole checkpoint is "
                   "checkpoint-%" PRId64
                   ": continue with vtrain --resume_from_checkpoint %" PRId64, v->path, r.whole,
                   r.whole);
}
