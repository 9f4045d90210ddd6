/* plan.c - from rows to numbered items; see plan.h */
#include <stdlib.h>

#include "common/os/file.h"
#include "precompute/vprep/plan_lines.h"

/* ---- earlier numbers ---- */

/* Reads the plan of an earlier run on the same OUT, whose numbers the rows keep. */
static int read_known(plan_ids *l, const char *out, vc_err *err)
{
    char *path = vc_path_join(out, "plan.jsonl");
    int rc = path ? 0 : vc_no_memory(err);

    if (!rc && vc_file_exists(path))
        rc = vc_context(err, plan_ids_read(l, path, err),
                        "remove the damaged file, or use --overwrite");
    free(path);
    return rc;
}

/* Whether each row has a sample. */
static bool all_are_samples(const vprep *p)
{
    int64_t i = 0;

    while (i < p->list.meta.n && p->writer &&
           !vf_writer_number_of(p->writer, p->list.meta.rows[i].id, &p->list.sources[i].number))
        i++;
    return i && i == p->list.meta.n;
}

/* Gives every row a number: its earlier one, else the next free one, but at least its place in the
 * list, so that a new dataset has row numbers, and jobs that share a list give no number twice. */
static int number_rows(const vprep *p, vc_err *err)
{
    if (all_are_samples(p))
        return 0;

    plan_ids l = { 0 };
    int rc = p->c.out && !p->c.overwrite ? read_known(&l, p->c.out, err) : 0;
    uint32_t next = p->writer ? vf_writer_next_number(p->writer) : 0;

    for (size_t i = 0; i < l.n; i++)
        if (l.v[i].number >= next)
            next = l.v[i].number + 1;
    for (int64_t i = 0; !rc && i < p->list.meta.n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        uint32_t *number = &p->list.sources[i].number;
        if (!vprep_is_mine(p, row) || plan_ids_find(&l, row->id, number) ||
            (p->writer && !vf_writer_number_of(p->writer, row->id, number)))
            continue;
        *number = next > i ? next : (uint32_t)i;
        next = *number + 1;
    }
    free(l.v);
    return rc;
}

/* ---- items ---- */

static int row_items(vprep *p, uint32_t row, vc_err *err)
{
    const vprep_source *s = &p->list.sources[row];
    bool by_size = p->c.variants && !strcmp(p->c.variants, "sizes");
    int n = by_size || !p->c.variants ? 1 : atoi(p->c.variants), rc = 0;
    int64_t sizes[VB_MAX_OPTIONS] = { 0 };

    if (by_size) {
        vb_source src = { .is_video = s->is_video, .w = s->w, .h = s->h, .frames = s->frames };
        n = vb_sizes(&p->rules, &src, sizes, VB_MAX_OPTIONS);
        if (n == 0) {
            n = 1;
            sizes[0] = 0;
        }
    }
    for (int v = 0; !rc && v < n; v++) {
        vprep_item it = { .row = row, .number = VPREP_NO_NUMBER, .variant = (uint16_t)v,
                          .size = (int32_t)sizes[by_size ? v : 0] };
        rc = plan_add_item(p, it, err);
    }
    return rc;
}

int vprep_plan(vprep *p, vc_err *err)
{
    for (int64_t i = 0; i < p->list.meta.n; i++)
        p->list.sources[i].number = VPREP_NO_NUMBER;
    if (p->c.plan)
        return plan_replay(p, err);

    int rc = 0;
    for (int64_t i = 0; !rc && i < p->list.meta.n; i++)
        if (p->list.sources[i].ok)
            rc = row_items(p, (uint32_t)i, err);
    return rc;
}

int vprep_number(vprep *p, vc_err *err)
{
    int rc = p->c.plan ? 0 : number_rows(p, err);

    for (uint32_t i = 0; !rc && !p->c.plan && i < p->plan.n_items; i++)
        p->plan.items[i].number = p->list.sources[p->plan.items[i].row].number;
    return rc;
}
