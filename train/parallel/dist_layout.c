/* dist_layout.c - lays trained parameters out in rows that ranks sum and split; see dist_parts.h */
#include <stdlib.h>
#include <time.h>

#include "train/parallel/dist_parts.h"

typedef vtrain_unit unit;

static int most_block(vt_params *p)
{
    int most = -1;
    for (int i = 0; i < vt_params_count(p); i++)
        if (vt_params_at(p, i)->block > most)
            most = vt_params_at(p, i)->block;
    return most;
}

vt_optimizer vtrain_unit_optimizer(const vtrain_layout *l, const unit *u)
{
    return u->small ? vt_optimizers[l->how].small : l->how;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Lays the parameters out so that none crosses the border of a shard; false: not all of them fit.
 */
static bool place_whole(const vtrain_layout *l, unit *u)
{
    size_t at = 0;
    for (int i = 0; i < u->n; i++) {
        size_t n = round_up((size_t)vt_count(u->param[i]->t), VTRAIN_ROW_ALIGN);
        if (at % u->shard + n > u->shard)
            at = round_up(at, u->shard);
        u->at[i] = at;
        at += n;
        if (n > u->shard || at > u->shard * (size_t)l->shards)
            return false;
    }
    return true;
}

static void fill_unit(const vtrain_layout *l, unit *u, vt_params *p, int block)
{
    bool apart = l->shards > 1 && vt_optimizers[l->how].small != l->how;
    size_t values = 0;
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_param *x = vt_params_at(p, i);
        bool small = apart && vt_opt_of(l->how, x->t) != l->how;
        if (!x->trained || x->block != block || small != u->small)
            continue;
        u->at[u->n] = values;
        u->param[u->n++] = x;
        values += round_up((size_t)vt_count(x->t), VTRAIN_ROW_ALIGN);
    }
    u->shard = round_up((values + (size_t)l->shards - 1) / (size_t)l->shards, VTRAIN_ROW_ALIGN);
    bool whole = l->shards > 1 && vt_opt_whole(vtrain_unit_optimizer(l, u));
    while (whole && u->n && !place_whole(l, u))
        u->shard += round_up(u->shard / 64 + 1, VTRAIN_ROW_ALIGN);
}

int vtrain_layout_open(vtrain_layout *l, vt_params *p, vc_err *err)
{
    int at = 0, room = vt_params_count(p) + 1;
    l->blocks = most_block(p) + 1;
    l->n = VTRAIN_PAIR * (l->blocks + 1);
    l->unit = calloc((size_t)l->n, sizeof *l->unit);
    l->list = calloc((size_t)room, sizeof *l->list);
    l->at = calloc((size_t)room, sizeof *l->at);
    if (!l->unit || !l->list || !l->at)
        return vc_no_memory(err);
    for (int k = 0; k < l->n; k++) {
        unit *u = &l->unit[k];
        int pair = k / VTRAIN_PAIR;
        u->small = k % VTRAIN_PAIR == 0;
        u->param = l->list + at;
        u->at = l->at + at;
        fill_unit(l, u, p, pair < l->blocks ? l->blocks - 1 - pair : -1);
        at += u->n;
    }
    return 0;
}

void vtrain_layout_close(vtrain_layout *l)
{
    free(l->unit);
    free(l->list);
    free(l->at);
}

vc_dtype vtrain_unit_type(const unit *u)
{
    return u->param[0]->t->dtype;
}

size_t vtrain_shard_bytes(const unit *u)
{
    return u->n ? u->shard * vc_dtype_size(vtrain_unit_type(u)) : 0;
}

void vtrain_each_part(const unit *u, size_t first, size_t n, vtrain_part_fn f, void *arg)
{
    for (int i = 0; i < u->n; i++) {
        size_t begin = u->at[i], end = begin + (size_t)vt_count(u->param[i]->t);
        size_t from = begin > first ? begin : first, to = end < first + n ? end : first + n;
        if (from < to)
            f(arg, u->param[i], from - begin, to - from, from - first);
    }
}

void vtrain_read_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const vtrain_row *r = arg;
    vc_dtype type = p->t->dtype;
    size_t size = vc_dtype_size(type);
    vt_values_cast(r->g, (char *)r->x + at * size, type, (const char *)p->t->data + from * size,
                   type, n);
}

void vtrain_write_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const vtrain_row *r = arg;
    vc_dtype type = p->t->dtype;
    size_t size = vc_dtype_size(type);
    vt_values_cast(r->g, (char *)p->t->data + from * size, type, (const char *)r->x + at * size,
                   type, n);
    vt_param_changed(p->t);
}

int vtrain_look(vtrain_layout *l, bool *busy, vc_err *err)
{
    bool also;
    int rc = vc_comm_look(l->rows_group, busy, err);
    if (!rc)
        rc = vc_comm_look(l->rows_copies, &also, err);
    if (!rc)
        *busy |= also;
    if (!rc && !*busy)
        rc = vt_second_stream_status(l->second, err);
    if (!rc)
        return 0;
    *busy = false;
    vc_comm_give_up(l->rows_group);
    vc_comm_give_up(l->rows_copies);
    return rc;
}

int vtrain_gather_row(vtrain_layout *l, void *row, const void *mine, size_t bytes, vc_err *err)
{
    const struct timespec nap = { .tv_nsec = VTRAIN_NAP };
    bool busy;
    vt_record_event(l->g, l->from);
    vt_after(l->second, l->from);
    int rc = vc_comm_gather(l->rows_group, row, mine, bytes, err);
    while (!rc && !(rc = vtrain_look(l, &busy, err)) && busy)
        nanosleep(&nap, NULL);
    return rc;
}

void vtrain_point_values(const vtrain_layout *l, const vtrain_unit *u, void *row)
{
    for (int i = 0; i < u->n; i++)
        vt_param_lend_values(l->g, u->param[i]->t,
                             (char *)row + u->at[i] * vc_dtype_size(vtrain_unit_type(u)));
}

int vtrain_split_unit(const vtrain_layout *l, vtrain_unit *u, void *row, size_t *bytes,
                      vc_err *err)
{
    const int64_t dim = (int64_t)u->shard;
    if (u->n == 0)
        return 0;
    vc_dtype type = vtrain_unit_type(u);
    u->value = vt_param_new(l->g, type, 1, &dim, NULL, type, false, err);
    if (!u->value)
        return VC_ENOMEM;
    vtrain_each_part(u, (size_t)l->shard * u->shard, u->shard, vtrain_read_part,
                     &(vtrain_row){ l->g, u->value->data });
    u->values = row;
    vtrain_point_values(l, u, row);
    *bytes += vtrain_shard_bytes(u);
    return 0;
}
