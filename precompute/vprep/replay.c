/* replay.c - makes items of the lines of a plan, edited or not, and keeps lines; see
 * plan_lines.h */
#include "precompute/vprep/plan_lines.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- lines that stay ---- */

typedef struct keeping {
    FILE *f;
    const vprep *p;
    const vf_keymap *now;
} keeping;

static int keep_line(void *arg, const char *text, size_t n, vc_err *err)
{
    const keeping *k = arg;
    plan_head h;
    int rc = plan_head_of(&h, text, n, err);
    if (rc || vf_keymap_get(k->now, plan_line_key((uint32_t)h.number, (uint16_t)h.variant), NULL) ||
        !(k->p->c.append || vprep_keeps(k->p, (uint32_t)h.number)))
        return rc;
    return fwrite(text, 1, n, k->f) == n && fputc('\n', k->f) != EOF
               ? 0 : vc_fail_errno(err, "write");
}

int plan_keep_lines(FILE *f, const vprep *p, const char *path, const vf_keymap *now, vc_err *err)
{
    vc_map m;
    keeping k = { f, p, now };
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = plan_each_line(&m, path, keep_line, &k, err);
    vc_map_close(&m);
    return rc;
}

/* ---- items ---- */

static int add_item(vprep *p, vprep_item it, vc_err *err)
{
    if (p->plan.n_items == p->plan.room) {
        if (p->plan.room >= UINT32_MAX / 2)
            return vc_fail(err, VC_EINVAL, "more than 2^31 samples and variants");
        size_t room = p->plan.room ? 2 * (size_t)p->plan.room : 1024;
        vprep_item *grown = realloc(p->plan.items, room * sizeof *grown);
        if (!grown)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu samples", room);
        p->plan.items = grown;
        p->plan.room = (uint32_t)room;
    }
    p->plan.items[p->plan.n_items++] = it;
    return 0;
}

int plan_add_item(vprep *p, vprep_item it, vc_err *err)
{
    vprep_clip clip;
    int rc = vprep_clip_of(p, &it, &clip, err);

    it.drop = !rc && clip.choice.drop;
    if (!rc && !it.drop)
        rc = prep_positions_check(p, &p->list.meta.rows[it.row], &clip.choice, err);
    vprep_clip_free(&clip);
    return rc ? rc : add_item(p, it, err);
}

/* ---- replaying a plan ---- */

typedef struct replay {
    vprep *p;
    plan_ids rows;                         /* id -> row index */
} replay;

static int replay_line(void *arg, const char *text, size_t n, vc_err *err)
{
    replay *r = arg;
    plan_head h;
    uint32_t row;
    int rc = plan_head_parse(&h, text, n, err);

    if (rc)
        return rc;
    if (!plan_ids_find(&r->rows, h.id, &row))
        return vc_fail(err, VC_EMISMATCH, "sample %lld is not in the metadata",
                       (long long)h.number);
    r->p->list.sources[row].number = (uint32_t)h.number;
    if (!r->p->list.sources[row].ok)
        return 0;                          /* already in the error list */
    vprep_item it = { .row = row, .number = (uint32_t)h.number, .variant = (uint16_t)h.variant,
                      .line = (uint64_t)((const uint8_t *)text - r->p->plan.file.data) + 1 };
    return plan_add_item(r->p, it, err);
}

int plan_replay(vprep *p, vc_err *err)
{
    replay r = { .p = p };
    int rc = vc_map_open(&p->plan.file, p->c.plan, err);

    for (int64_t i = 0; !rc && i < p->list.meta.n; i++)
        rc = plan_ids_add(&r.rows, p->list.meta.rows[i].id, (uint32_t)i, err);
    plan_ids_sort(&r.rows);
    if (!rc)
        rc = plan_each_line(&p->plan.file, p->c.plan, replay_line, &r, err);
    free(r.rows.v);
    return rc;
}
