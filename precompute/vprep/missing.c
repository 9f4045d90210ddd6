/* missing.c - sources that are missing or unreadable; see sources.h */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/plan_lines.h"

bool vprep_is_absent(int code)
{
    return code == VC_EIO || code == VC_ENOENT;
}

/* ---- counting ---- */

enum { SHOWN = 3 };

typedef struct tally {
    uint64_t rows, absent;               /* this job's rows of the list */
    uint64_t had, had_absent;            /* those of them that have samples in the dataset */
    const vf_row *first[SHOWN];          /* the first absent rows */
    size_t folder;                       /* bytes of first[0]->file with which all files begin */
} tally;

static void count_absent(tally *t, const vf_row *row)
{
    const char *a = t->absent ? t->first[0]->file : row->file, *b = row->file;
    size_t n = 0, most = t->absent ? t->folder : strlen(row->file);

    if (t->absent < SHOWN)
        t->first[t->absent] = row;
    t->absent++;
    while (n < most && a[n] == b[n])
        n++;
    while (n && a[n - 1] != '/')
        n--;
    t->folder = n;
}

static bool more_than_half(uint64_t part, uint64_t whole)
{
    return 2 * part > whole;
}

/* Adds "--data FOLDER: " if the missing files lie in the folder of that flag. */
static void blame_data(vc_buf *b, const vprep *p, const tally *t)
{
    size_t n = p->c.data ? strlen(p->c.data) : 0;
    if (n && t->absent && t->folder >= n && !strncmp(t->first[0]->file, p->c.data, n))
        vc_buf_printf(b, "--data %.200s: ", p->c.data);
}

static int ask(const vprep *p, const tally *t, const char *sources, uint64_t part, uint64_t whole,
               vc_err *err)
{
    vc_buf b = { 0 }, folder = { 0 };

    for (uint64_t i = 0; i < t->absent && i < SHOWN; i++)
        vc_buf_printf(&b, "%s%.100s", i ? ", " : " (", t->first[i]->path);
    if (t->absent)
        vc_buf_printf(&b, "%s", t->absent > SHOWN ? ", ...)" : ")");
    if (t->absent && t->folder)
        vc_buf_printf(&b, ", all in %.*s", (int)(t->folder < 200 ? t->folder : 200),
                      t->first[0]->file);
    if (t->absent && strchr(t->first[0]->path, '\\'))
        vc_buf_str(&b, " (a path of Windows, where slashes are needed)");
    blame_data(&folder, p, t);
    char *paths = vc_buf_take(&b), *data = vc_buf_take(&folder);
    int rc = vc_fail(err, VC_EFAIL, "%s%llu of %llu %s cannot be read%s: is a folder not mounted? "
                     "Nothing was removed or encoded; --allow_missing continues without them",
                     data ? data : "", (unsigned long long)part, (unsigned long long)whole, sources,
                     paths ? paths : "");
    free(paths);
    free(data);
    return rc;
}

/* A list that is a folder has no rows of missing files, so samples of the dataset without a file
 * count as absent too. */
static void count_unlisted(const vprep *p, tally *t, uint64_t there)
{
    if (p->list.meta.folder && !p->c.append && there > t->had) {
        t->had_absent += there - t->had;
        t->had = there;
    }
}

static int judge(const vprep *p, const tally *t, vc_err *err)
{
    if (p->c.allow_missing)
        return 0;
    if (more_than_half(t->absent, t->rows))
        return ask(p, t, "sources of the list", t->absent, t->rows, err);
    if (more_than_half(t->had_absent, t->had))
        return ask(p, t, "sources of the dataset's samples", t->had_absent, t->had, err);
    if (t->had_absent && prep_reuse_in_place(p))
        return ask(p, t, "sources of samples that are to be changed in place", t->had_absent,
                   t->had, err);
    return 0;
}

/* A dry run only warns of the error, since it changes nothing. */
static int refuse(vprep *p, const tally *t, vc_err *err)
{
    int rc = judge(p, t, err);
    p->plan.refused |= rc != 0;
    if (rc && p->c.dry_run)
        vc_warn(p->progress, "a run will be refused: %s", err->text);
    return p->c.dry_run ? 0 : rc;
}

/* ---- before --out is opened to be written ---- */

/* Whether the file exists; deep: and its first byte can be read. */
static bool gives(const char *path, bool deep)
{
    struct stat st;
    char c;

    if (!deep)
        return !stat(path, &st);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool given = fd >= 0 && (read(fd, &c, 1) >= 0 || errno == EISDIR || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return given;
}

/* gone[i]: the source of row i is missing. */
static void look(const vprep *p, bool *gone)
{
#pragma omp parallel for schedule(dynamic) num_threads((int)p->c.workers)
    for (int64_t i = 0; i < p->list.meta.n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        if (vprep_is_mine(p, row) && !*vc_stop_flag())
            gone[i] = row->bad ? row->unread : !gives(row->file, p->c.overwrite);
    }
}

/* The rows of the plan of --out, which are nearly those of its samples. */
static int read_had(const vprep *p, plan_ids *had, vc_err *err)
{
    char *path = vc_path_join(p->c.out, "plan.jsonl");
    int rc = path ? 0 : vc_no_memory(err);

    if (!rc && prep_reuse_continues(p) && vc_file_exists(path))
        rc = vc_context(err, plan_ids_read(had, path, err),
                        "remove the damaged file, or use --overwrite");
    free(path);
    return rc;
}

int vprep_missing_before(vprep *p, vc_err *err)
{
    bool *gone = p->c.dry_run ? NULL : calloc((size_t)p->list.meta.n + 1, sizeof *gone);
    plan_ids had = { 0 };
    tally t = { 0 };

    if (p->c.dry_run)
        return 0;
    int rc = gone ? read_had(p, &had, err) : vc_no_memory(err);
    if (!rc)
        look(p, gone);
    for (int64_t i = 0; !rc && i < p->list.meta.n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        uint32_t number;
        if (!vprep_is_mine(p, row))
            continue;
        bool known = plan_ids_find(&had, row->id, &number);
        t.rows++;
        t.had += known;
        t.had_absent += known && gone[i];
        if (gone[i])
            count_absent(&t, row);
    }
    if (!rc)
        count_unlisted(p, &t, had.n);
    if (!rc)
        rc = *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : judge(p, &t, err);
    free(had.v);
    free(gone);
    return rc;
}

/* ---- after the plan ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool vprep_keeps(const vprep *p, uint32_t number)
{
    return p->plan.n_kept &&
           bsearch(&number, p->plan.kept, p->plan.n_kept, sizeof number, by_number);
}

static int keep(vprep *p, uint32_t number, vc_err *err)
{
    const uint32_t n = p->plan.n_kept;
    if ((n & (n - 1)) == 0) {                        /* room for the next power of two */
        size_t room = n ? 2 * (size_t)n : 1;
        uint32_t *grown = realloc(p->plan.kept, room * sizeof *grown);
        if (!grown)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu samples", room);
        p->plan.kept = grown;
    }
    p->plan.kept[p->plan.n_kept++] = number;
    return 0;
}

/* Keeps the samples of files in a folder that cannot be read now. */
static int keep_folder(vprep *p, const vf_row *folder, vc_err *err)
{
    plan_ids l = { 0 };
    char *path = vc_path_join(p->c.out, "plan.jsonl");
    int rc = path ? 0 : vc_no_memory(err);

    if (!rc && vc_file_exists(path))
        rc = plan_ids_below(&l, path, folder->path, err);
    for (size_t i = 0; !rc && i < l.n; i++)
        if (vprep_samples_of(p, l.v[i].number))
            rc = keep(p, l.v[i].number, err);
    free(l.v);
    free(path);
    return rc;
}

static bool is_folder(const vf_row *row)
{
    size_t n = strlen(row->path);
    return row->unread && n && row->path[n - 1] == '/';
}

static int count_rows(vprep *p, tally *t, vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < p->list.meta.n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        const vprep_source *s = &p->list.sources[i];
        if (!vprep_is_mine(p, row))
            continue;
        bool had = vprep_samples_of(p, s->number) > 0;
        t->rows++;
        t->had += had;
        if (!s->absent)
            continue;
        count_absent(t, row);
        t->had_absent += had;
        rc = is_folder(row) ? keep_folder(p, row, err) : had ? keep(p, s->number, err) : 0;
    }
    if (p->plan.n_kept)
        qsort(p->plan.kept, p->plan.n_kept, sizeof *p->plan.kept, by_number);
    return rc;
}

int vprep_missing(vprep *p, vc_err *err)
{
    tally t = { 0 };
    char n[32];
    int rc = count_rows(p, &t, err);

    if (rc)
        return rc;
    if (p->list.meta.folder)
        count_unlisted(p, &t, prep_reuse_rows(p));
    rc = refuse(p, &t, err);
    if (prep_reuse_in_place(p))                  /* samples of other settings cannot stay */
        p->plan.n_kept = 0;
    if (!rc && p->plan.n_kept)
        vc_say(p->progress, "%s samples stay as they are: their sources cannot be read now",
               vc_human_count(n, vprep_kept_samples(p)));
    return rc;
}

uint32_t vprep_kept_samples(const vprep *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->plan.n_kept; i++)
        n += vprep_samples_of(p, p->plan.kept[i]);
    return n;
}

void vprep_keep_missing(vprep *p)
{
    char n[32];
    uint64_t lost = 0;

    for (uint32_t i = 0; i < p->plan.n_kept; i++)
        for (uint32_t v = 0; v < vprep_variants(p); v++)
            vf_writer_keep_sample(p->writer, p->plan.kept[i], v);
    for (uint32_t i = 0; i < p->plan.n_items && !prep_reuse_in_place(p); i++) {
        const vprep_item *it = &p->plan.items[i];
        lost += it->absent && !vf_writer_keep_sample(p->writer, it->number, it->variant);
    }
    if (lost)
        vc_say(p->progress, "%s samples stay as they were: their sources could not be read",
               vc_human_count(n, lost));
}
