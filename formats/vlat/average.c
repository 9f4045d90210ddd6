/* average.c - vlat average: the weighted average of weight files, or of checkpoint folders. */
#include "formats/vlat/vlat.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/tensors/average.h"

enum { DEEPEST = 8, MAX_OTHER = 256 << 20, MAX_FILES = 10000 };

typedef struct names {
    char **v;                                    /* below the folder, sorted */
    int n;
} names;

static void free_names(names *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
}

/* Files of a checkpoint that belong to the run and not to its weights. */
static bool is_state(const char *name)
{
    static const char *const list[] = { "optimizer.safetensors", "trainer.json", VF_SUMS_FILE };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i]))
            return true;
    return name[0] == '.';
}

static bool is_weights(const char *name)
{
    return !strcmp(vc_path_ext(name), ".safetensors");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- the files of a folder ---- */

static int add_name(names *s, char *name, vc_err *err)
{
    char **more = name ? realloc(s->v, ((size_t)s->n + 1) * sizeof *more) : NULL;
    if (!more || s->n == MAX_FILES) {
        s->v = more ? more : s->v;
        free(name);
        return more ? vc_fail(err, VC_EINVAL, "more than %d files", MAX_FILES) : vc_no_memory(err);
    }
    s->v = more;
    s->v[s->n++] = name;
    return 0;
}

/* Adds the files below root/below. */
static int list_files(names *s, const char *root, const char *below, int depth, vc_err *err)
{
    char *folder = vc_path_join(root, below);
    DIR *d = folder ? opendir(folder) : NULL;
    int rc = !folder ? vc_no_memory(err) : d ? 0 : vc_fail_errno(err, "%s", folder);

    for (struct dirent *e; d && !rc && (e = vc_dir_next(d, folder, &rc, err));) {
        char *name = *below ? vc_path_join(below, e->d_name) : strdup(e->d_name);
        char *path = name ? vc_path_join(root, name) : NULL;
        struct stat st;
        if (!path)
            rc = vc_no_memory(err);
        else if (is_state(e->d_name) || stat(path, &st))
            rc = 0;
        else if (S_ISDIR(st.st_mode) && depth < DEEPEST)
            rc = list_files(s, root, name, depth + 1, err);
        else if (S_ISREG(st.st_mode)) {
            rc = add_name(s, name, err);
            name = NULL;
        }
        free(name);
        free(path);
    }
    if (d)
        closedir(d);
    free(folder);
    return rc;
}

/* ---- weights ---- */

/* The step of a folder checkpoint-N, or -1. */
static int64_t step_of(const char *path)
{
    static const char prefix[] = "checkpoint-";
    const char *base = vc_path_base(path);
    char *end;
    if (strncmp(base, prefix, sizeof prefix - 1))
        return -1;
    const long long step = strtoll(base + sizeof prefix - 1, &end, 10);
    return *end || end == base + sizeof prefix - 1 ? -1 : (int64_t)step;
}

static int by_step(const void *a, const void *b)
{
    const int64_t x = step_of(*(const char *const *)a), y = step_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

static int read_weights(double *weight, int n, const char *text, vc_err *err)
{
    const char *at = text;
    double sum = 0;
    int i = 0;

    for (char *end; i < n; i++, at = end + (*end == ',' && i < n)) {
        weight[i] = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite(weight[i]) || weight[i] < 0)
            break;
        sum += weight[i];
        if (!*end && i + 1 < n)
            break;
    }
    if (i < n || *at || !(sum > 0))
        return vc_fail(err, VC_EUSAGE, "--weights %s: expected %d numbers from 0 on, with commas "
                       "between, not all 0", text, n);
    for (i = 0; i < n; i++)
        weight[i] /= sum;
    return 0;
}

/* Finds the weights, and brings checkpoints of an exponential average into their order. */
static int find_weights(const vlat *v, const char **path, double *weight, int n, vc_err *err)
{
    const vlat_options *o = v->o;
    bool steps = true;

    if ((o->weights != NULL) + (o->beta > 0) + (o->sigma_rel > 0) > 1)
        return vc_fail(err, VC_EUSAGE, "--weights, --beta and --sigma_rel exclude each other");
    if (o->beta >= 1)
        return vc_fail(err, VC_EUSAGE, "--beta %g: expected a number below 1", o->beta);
    if (o->sigma_rel >= 0.28)
        return vc_fail(err, VC_EUSAGE, "--sigma_rel %g: expected a number below 0.28",
                       o->sigma_rel);
    if (o->weights)
        return read_weights(weight, n, o->weights, err);
    for (int i = 0; i < n; i++) {
        weight[i] = 1 / (double)n;
        steps &= step_of(path[i]) >= 0;
    }
    if (steps && (o->beta > 0 || o->sigma_rel > 0))
        qsort(path, (size_t)n, sizeof *path, by_step);
    if (o->beta > 0)
        vf_average_beta(weight, n, o->beta);
    if (o->sigma_rel > 0)
        vf_average_sigma(weight, n, o->sigma_rel);
    return 0;
}

/* "run/checkpoint-100 0.5, run/checkpoint-200 0.5", malloc'ed. */
static char *note_of(const char *const *path, const double *weight, int n)
{
    vc_buf b = { 0 };
    for (int i = 0; i < n; i++)
        vc_buf_printf(&b, "%s%s %.6g", i ? ", " : "", path[i], weight[i]);
    return vc_buf_take(&b);
}

/* ---- folders ---- */

/* Makes the folder that a file below root lies in. */
static int make_parent(const char *path, vc_err *err)
{
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder)
        return vc_no_memory(err);
    if (slash)
        *slash = 0;
    int rc = slash && *folder ? vc_mkdirs(folder, err) : 0;
    free(folder);
    return rc;
}

static int copy_file(const char *from, const char *to, vf_sums *sums, vc_err *err)
{
    char *data;
    size_t n;
    int rc = vc_file_read(&data, &n, from, MAX_OTHER, err);
    if (rc)
        return vc_context(err, rc, "%s", from);
    rc = vf_sums_put(sums, to, data, n, err);
    free(data);
    return rc;
}

/* Averages one file of all folders, or copies it from the last. */
static int one_file(const char *out, const char *name, const char *const *path,
                    const double *weight, int n, const char *note, vf_sums *sums, vc_err *err)
{
    char *to = vc_path_join(out, name), **from = calloc((size_t)n, sizeof *from);
    int rc = to && from ? make_parent(to, err) : vc_no_memory(err);

    for (int i = 0; i < n && !rc; i++)
        rc = (from[i] = vc_path_join(path[i], name)) ? 0 : vc_no_memory(err);
    if (!rc)
        rc = !is_weights(name) ? copy_file(from[n - 1], to, sums, err)
                               : vf_average(to, (const char *const *)from, weight, n, note, sums,
                                            err);
    for (int i = 0; from && i < n; i++)
        free(from[i]);
    free(from);
    free(to);
    return rc;
}

static int average_folders(const vlat *v, const char *const *path, const double *weight, int n,
                           const char *note, vc_err *err)
{
    const char *out = v->o->out;
    vf_sums *sums = NULL;
    names files = { 0 };
    int weights = 0, rc = list_files(&files, path[n - 1], "", 0, err);

    if (files.n)
        qsort(files.v, (size_t)files.n, sizeof *files.v, by_name);
    for (int i = 0; i < files.n; i++)
        weights += is_weights(files.v[i]);
    if (!rc && !weights)
        rc = vc_fail(err, VC_EINVAL, "%s has no weights (.safetensors): give checkpoints, "
                     "run/checkpoint-*", path[n - 1]);
    if (!rc)
        rc = vc_mkdirs(out, err);
    if (!rc)
        rc = vf_sums_open(&sums, out, err);
    for (int i = 0; i < files.n && !rc; i++)
        rc = one_file(out, files.v[i], path, weight, n, note, sums, err);
    if (!rc)
        rc = vf_sums_write(sums, err);
    if (!rc)
        fprintf(v->out, "%s: %d file%s of weights, averaged over %d checkpoints\n", out, weights,
                weights == 1 ? "" : "s", n);
    vf_sums_close(sums);
    free_names(&files);
    return rc;
}

/* ---- the verb ---- */

/* Sets *folders to whether the words are folders; a mixture fails. */
static int are_folders(bool *folders, const char *const *path, int n, vc_err *err)
{
    struct stat st;
    for (int i = 0; i < n; i++) {
        if (stat(path[i], &st))
            return vc_fail_errno(err, "%s", path[i]);
        const bool is = S_ISDIR(st.st_mode);
        if (i && is != *folders)
            return vc_fail(err, VC_EUSAGE, "%s: give either files or folders", path[i]);
        *folders = is;
    }
    return 0;
}

static int run_average(const vlat *v, const char **path, double *weight, int n, vc_err *err)
{
    char *note = NULL;
    bool folders = false;
    int rc = find_weights(v, path, weight, n, err);

    if (!rc)
        rc = are_folders(&folders, path, n, err);
    if (!rc && !(note = note_of(path, weight, n)))
        rc = vc_no_memory(err);
    if (!rc)
        vc_say(v->progress, "%s", note);
    if (!rc && folders)
        rc = average_folders(v, path, weight, n, note, err);
    else if (!rc) {
        rc = vf_average(v->o->out, path, weight, n, note, NULL, err);
        if (!rc)
            fprintf(v->out, "%s: the average of %d files\n", v->o->out, n);
    }
    free(note);
    return rc;
}

int vlat_average(const vlat *v, vc_err *err)
{
    const int n = v->words->n;
    if (!v->o->out)
        return vc_fail(err, VC_EUSAGE, "--out is required: vlat average run/checkpoint-* --out "
                       "FOLDER");
    if (vc_file_exists(v->o->out))
        return vc_fail(err, VC_EUSAGE, "--out %s exists: give a new name, or remove it",
                       v->o->out);
    const char **path = calloc((size_t)n, sizeof *path);
    double *weight = calloc((size_t)n, sizeof *weight);
    int rc = path && weight ? 0 : vc_no_memory(err);

    for (int i = 0; i < n && !rc; i++)
        path[i] = v->words->item[i];
    if (!rc)
        rc = run_average(v, path, weight, n, err);
    free(path);
    free(weight);
    return rc;
}
