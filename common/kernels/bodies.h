/* bodies.h - the bodies of the kernels in kernels.h, each of which computes one block.
 * common/cuda/kernels.cu and the tests include it once, after they have defined two macros.
 *
 * VK_KERNEL(name, args, blocks) defines int vk_name(stream, const args *s), which runs
 * vk_name_body(s, block, team) for each of `blocks` blocks and each of a block's VK_THREADS lanes.
 * A body's work is divided into units, one per lane. VK_TEAM_KERNEL is the same for bodies whose
 * lanes share rows and meet in vk_team_sum; on a CPU it runs one lane per block, which then does
 * the work of all lanes. */
#ifndef COMMON_KERNELS_BODIES_H
#define COMMON_KERNELS_BODIES_H

#include "common/kernels/kernels.h"

/* The number of blocks for `units` units, one per lane. */
#define VK_BLOCKS(units) (((units) + VK_THREADS - 1) / VK_THREADS)
/* A loop in which u runs over this lane's units of the block. */
#define VK_EACH(u, units)                                                                          \
    for (uint64_t u = (uint64_t)block * VK_THREADS + (uint32_t)t.lane,                             \
                  u##_end_ = (uint64_t)(block + 1) * VK_THREADS;                                   \
         u < u##_end_ && u < (uint64_t)(units); u += (uint32_t)t.lanes)

/* The number of blocks for `rows` rows, one per team, and a loop over this block's rows: `part` is
 * the team that computes `row`. */
#define VK_TEAM_BLOCKS(rows, teams) (((rows) + (teams) - 1) / (teams))
#define VK_EACH_TEAM(row, part, rows, teams)                                                       \
    vk_team part = vk_team_part(t, (teams));                                                       \
    for (uint64_t row = (uint64_t)block * (teams) +                                                \
                        (uint32_t)(t.lane >> vk_log2((uint32_t)part.lanes)),                       \
                  row##_end_ = (uint64_t)(block + 1) * (teams);                                    \
         row < row##_end_ && row < (uint64_t)(rows);                                               \
         row += (uint32_t)(t.lanes >> vk_log2((uint32_t)part.lanes)))

/* Both numbers are powers of two. */
VK_HD vk_team vk_team_part(vk_team t, uint32_t teams)
{
    int lanes = t.lanes < (int)teams ? 1 : t.lanes >> vk_log2(teams);
    vk_team part = { t.lane & (lanes - 1), lanes, t.scratch };

    return part;
}

/* ---- addresses ---- */

/* Moves p[o] by n strides, for operands o = 0..k-1. Products of 32 bits serve all strides but those
 * of 2 GiB and more. */
VK_HD void vk_ahead(const vk_walk *w, int k, uint32_t n, const int64_t *stride, char **p)
{
    if (w->far) {
        for (int o = 0; o < k; o++)
            p[o] += n * stride[o];
        return;
    }
    VK_UNROLL
    for (int o = 0; o < k; o++)
        p[o] += (int64_t)(int32_t)n * (int32_t)stride[o];
}

/* Sets p[o] to the address of a pack of a row, for operands o = 0..k-1. */
VK_HD void vk_place(const vk_walk *w, int k, uint32_t row, uint32_t pack, char **p)
{
    VK_UNROLL
    for (int o = 0; o < k; o++)
        p[o] = w->data[o];
    vk_ahead(w, k, pack, w->hop, p);
    for (int i = w->nd; i-- > 0;) {
        uint32_t rest = i ? row / w->dim[i] : 0;
        vk_ahead(w, k, row - (i ? rest * w->dim[i] : 0), w->stride[i], p);
        row = rest;
    }
}

VK_HD int vk_left(const vk_walk *w, int64_t i) { return (int)(w->n - i < 8 ? w->n - i : 8); }

/* Loads n elements of operand o, beginning `i` elements after p; all are `none` if the operand is
 * absent. */
VK_HD vk_f8 vk_load_or(const vk_walk *w, int o, const char *p, int64_t i, int n, float none)
{
    vk_f8 r;

    if (w->data[o])
        return vk_load8(p + i * w->step[o] * w->size[o], w->type[o], w->step[o], n);
    VK_UNROLL
    for (int j = 0; j < 8; j++)
        r.v[j] = none;
    return r;
}

/* Bytes in front of element i of a row of whole packs. */
VK_HD uint32_t vk_whole_bytes(const vk_walk *w, int o, int64_t i)
{
    return (uint32_t)i << (w->type[o] == VK_BF16 ? 1 : 2);
}

/* The same of a row of whole packs, if `whole`, a constant of the kernel. */
VK_HD vk_f8 vk_load_row(const vk_walk *w, int o, const char *p, int64_t i, int n, float none,
                        int whole)
{
    if (whole && w->data[o])
        return vk_load8_whole(p + vk_whole_bytes(w, o, i), w->type[o]);
    return vk_load_or(w, o, p, i, n, none);
}

VK_HD void vk_write(const vk_walk *w, int o, char *p, int n, vk_f8 x, int adds)
{
    if (adds) {
        vk_f8 old = vk_load8(p, w->type[o], w->step[o], n);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            x.v[j] += old.v[j];
    }
    vk_store8(p, w->type[o], w->step[o], n, x);
}

/* ---- element by element ---- */

#define VK_MAP(name, inputs, value)                                                                \
    VK_HD float vk_value_##name(const float *x, const float *a)                                    \
    {                                                                                              \
        (void)x, (void)a;                                                                          \
        return value;                                                                              \
    }                                                                                              \
    VK_HD void vk_map_##name##_body(const vk_map_args *s, uint32_t block, vk_team t)               \
    {                                                                                              \
        const vk_walk *w = &s->w;                                                                  \
        VK_EACH(u, (uint64_t)w->rows * w->packs) {                                                 \
            uint32_t row = (uint32_t)u / w->packs, pack = (uint32_t)u - row * w->packs;            \
            int n = vk_left(w, (int64_t)pack * 8);                                                 \
            char *p[1 + (inputs)];                                                                 \
            vk_f8 in[1 + (inputs)], y;                                                             \
            vk_place(w, 1 + (inputs), row, pack, p);                                               \
            VK_UNROLL                                                                              \
            for (int o = 1; o <= (inputs); o++)                                                    \
                in[o] = vk_load8(p[o], w->type[o], w->step[o], n);                                 \
            VK_UNROLL                                                                              \
            for (int j = 0; j < 8; j++) {                                                          \
                float x[1 + (inputs)];                                                             \
                VK_UNROLL                                                                          \
                for (int o = 0; o < (inputs); o++)                                                 \
                    x[o] = in[1 + o].v[j];                                                         \
                y.v[j] = vk_value_##name(x, s->a);                                                 \
            }                                                                                      \
            vk_write(w, 0, p[0], n, y, s->adds);                                                   \
        }                                                                                          \
    }
VK_ELEMENTS(VK_MAP)

VK_HD void vk_move_one(char *y, const char *x, int size)
{
    switch (size) {
    case 1: *y = *x; break;
    case 2: *(uint16_t *)y = *(const uint16_t *)x; break;
    case 4: *(uint32_t *)y = *(const uint32_t *)x; break;
    default: *(uint64_t *)y = *(const uint64_t *)x; break;
    }
}

VK_HD void vk_move_body(const vk_move_args *s, uint32_t block, vk_team t)
{
    const vk_walk *w = &s->w;

    VK_EACH(u, (uint64_t)w->rows * w->packs) {
        uint32_t row = (uint32_t)u / w->packs, pack = (uint32_t)u - row * w->packs;
        int n = vk_left(w, (int64_t)pack * 8), size = w->size[0];
        char *p[2];
        vk_place(w, 2, row, pack, p);
        if (size == 2 && vk_whole(p[0], w->step[0], n) && vk_whole(p[1], w->step[1], n)) {
            vk_store_quad(p[0], vk_load_quad(p[1]));
            continue;
        }
        for (int j = 0; j < n; j++)
            vk_move_one(p[0] + j * w->step[0] * size, p[1] + j * w->step[1] * size, size);
    }
}

/* ---- codes with scales ---- */

/* The values of vc_nf4 (base/dtype.h). A chain of choices needs no table in memory, which the lanes
 * of a warp would read at different places. */
VK_HD float vk_nf4(uint32_t code)
{
    float low = code & 4u ? (code & 2u ? (code & 1u ? 0.0f : -0.09105003625154495f)
                                       : (code & 1u ? -0.18477343022823334f
                                                    : -0.28444138169288635f))
                          : (code & 2u ? (code & 1u ? -0.39491748809814453f
                                                    : -0.5250730514526367f)
                                       : (code & 1u ? -0.6961928009986877f : -1.0f));
    float high = code & 4u ? (code & 2u ? (code & 1u ? 1.0f : 0.7229568362236023f)
                                        : (code & 1u ? 0.5626170039176941f
                                                     : 0.44070982933044434f))
                           : (code & 2u ? (code & 1u ? 0.33791524171829224f
                                                     : 0.24611230194568634f)
                                        : (code & 1u ? 0.16093020141124725f
                                                     : 0.07958029955625534f));
    return code & 8u ? high : low;
}

/* The value of code i of w, whose first element has an even number. */
VK_HD float vk_code(const char *w, int type, uint64_t i)
{
    uint32_t u;

    if (type == VK_NF4) {
        u = (uint32_t)(uint8_t)w[i >> 1];
        return vk_nf4(i & 1u ? u & 15u : u >> 4);
    }
    u = (uint32_t)(uint8_t)w[i];
    if (type == VK_I8)
        return (float)((int)(u ^ 0x80u) - 0x80);
    return vk_widen(u, vk_small_of(type));
}

VK_HD void vk_unpack_body(const vk_unpack_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (s->n + 7) / 8) {
        const uint64_t first = u * 8;
        const int n = s->n - first < 8 ? (int)(s->n - first) : 8, size = s->to == VK_BF16 ? 2 : 4;
        uint64_t at = first / s->block, end = (at + 1) * s->block;
        vk_f8 y;
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            const uint64_t i = first + (uint64_t)j;
            if (i == end) {
                at++;
                end += s->block;
            }
            y.v[j] = j < n ? vk_code(s->w, s->type, i) * s->scale[at] : 0.0f;
        }
        vk_store8(s->y + first * (uint64_t)size, s->to, 1, n, y);
    }
}

#include "common/kernels/norm.h"

/* ---- sums over rows ---- */

/* Adds the terms of one row's pack to the sums. */
VK_HD void vk_column_add(const vk_columns_args *s, char *const *p, int n, vk_f8 *sum, vk_f8 *sum2)
{
    const vk_walk *w = &s->w;
    vk_f8 dy = vk_load_or(w, VK_COL_DY, p[VK_COL_DY], 0, n, 0);
    vk_f8 x = vk_load_or(w, VK_COL_X, p[VK_COL_X], 0, n, 1);
    float stats[2];

    if (s->terms == VK_PRODUCT) {
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            sum->v[j] += dy.v[j] * x.v[j];
        return;
    }
    vk_get_pair(stats, p[VK_COL_STATS]);
    if (s->terms == VK_AFFINE) {
        vk_f8 scale = vk_load_or(w, VK_COL_SCALE, p[VK_COL_SCALE], 0, n, 0);
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            float g = dy.v[j] + dy.v[j] * scale.v[j];
            sum->v[j] += g * ((x.v[j] - stats[0]) * stats[1]);
            sum2->v[j] += g;
        }
        return;
    }
    vk_f8 wi = vk_load_or(w, VK_COL_W, p[VK_COL_W], 0, n, 1);
    vk_f8 b = vk_load_or(w, VK_COL_B, p[VK_COL_B], 0, n, 0);
    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        sum->v[j] += dy.v[j];
        sum2->v[j] += dy.v[j] * ((x.v[j] - stats[0]) * stats[1] * wi.v[j] + b.v[j]);
    }
}

VK_HD float *vk_column_part(const vk_columns_args *s, int out, uint32_t target, uint32_t slice)
{
    uint64_t at = ((uint64_t)out * s->targets + target) * s->slices + slice;

    return s->part + at * (uint64_t)s->w.n;
}

VK_HD void vk_columns_body(const vk_columns_args *s, uint32_t block, vk_team t)
{
    const vk_walk *w = &s->w;

    VK_EACH(u, (uint64_t)s->targets * s->slices * w->packs) {
        uint32_t at = (uint32_t)u / w->packs, target = at / s->slices;
        uint32_t slice = at - target * s->slices;
        int64_t first = (int64_t)((uint32_t)u - at * w->packs) * 8;
        uint32_t row = (uint32_t)((uint64_t)s->per * slice / s->slices);
        uint32_t end = (uint32_t)((uint64_t)s->per * (slice + 1) / s->slices);
        int n = vk_left(w, first);
        vk_f8 sum = { { 0 } }, sum2 = { { 0 } };
        for (; row < end; row++) {
            char *p[VK_COL_OPERANDS];
            vk_place(w, VK_COL_OPERANDS, target * s->per + row, (uint32_t)(first / 8), p);
            vk_column_add(s, p, n, &sum, &sum2);
        }
        vk_store8((char *)(vk_column_part(s, 0, target, slice) + first), VK_F32, 1, n, sum);
        if (s->terms != VK_PRODUCT)
            vk_store8((char *)(vk_column_part(s, 1, target, slice) + first), VK_F32, 1, n, sum2);
    }
}

VK_HD void vk_columns_end_body(const vk_columns_args *s, uint32_t block, vk_team t)
{
    const vk_walk *w = &s->w;

    VK_EACH(u, (uint64_t)s->targets * w->packs) {
        uint32_t target = (uint32_t)u / w->packs;
        int64_t first = (int64_t)((uint32_t)u - target * w->packs) * 8;
        int n = vk_left(w, first);
        char *p[2];
        vk_place(w, 2, target * s->per, (uint32_t)(first / 8), p);
        for (int out = 0; out < 2; out++) {
            double sum[8] = { 0 };
            vk_f8 y;
            if (!w->data[out])
                continue;
            for (uint32_t slice = 0; slice < s->slices; slice++) {
                const float *part = vk_column_part(s, out, target, slice) + first;
                vk_f8 v = vk_load8((const char *)part, VK_F32, 1, n);
                VK_UNROLL
                for (int j = 0; j < 8; j++)
                    sum[j] += (double)v.v[j];
            }
            VK_UNROLL
            for (int j = 0; j < 8; j++)
                y.v[j] = (float)sum[j] * s->scale;
            vk_write(w, out, p[out], n, y, out ? s->adds2 : s->adds);
        }
    }
}

/* ---- sums over all elements ---- */

VK_HD float vk_term(vk_sum_terms terms, float x, float y, float w)
{
    if (terms == VK_SQUARES)
        return x * x;
    if (terms == VK_MAGNITUDES)
        return fabsf(x);
    if (terms == VK_ALONG)
        return x * (y - w);
    return terms == VK_ERRORS ? (x - y) * (x - y) * w : x * y;
}

/* Sums one slice of the packs of a target's rows. */
VK_HD void vk_sum_part(const vk_sums_args *s, uint32_t target, uint32_t slice, vk_team t)
{
    const vk_walk *w = &s->w;
    uint64_t packs = (uint64_t)s->per * w->packs, end = packs * (slice + 1) / s->slices;
    float none = s->terms == VK_ERRORS ? 0.0f : 1.0f;
    vk_f8 sum = { { 0 } };

    for (uint64_t at = packs * slice / s->slices + (uint32_t)t.lane; at < end;
         at += (uint32_t)t.lanes) {
        uint32_t row = (uint32_t)at / w->packs;
        uint32_t pack = (uint32_t)at - row * w->packs;
        int n = vk_left(w, (int64_t)pack * 8);
        char *p[VK_SUM_OPERANDS];
        vk_place(w, VK_SUM_OPERANDS, target * s->per + row, pack, p);
        vk_f8 x = vk_load_or(w, VK_SUM_X, p[VK_SUM_X], 0, n, 0);
        vk_f8 y = vk_load_or(w, VK_SUM_Y, p[VK_SUM_Y], 0, n, none);
        vk_f8 wi = vk_load_or(w, VK_SUM_W, p[VK_SUM_W], 0, n, 1);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            sum.v[j] += j < n ? vk_term(s->terms, x.v[j], y.v[j], wi.v[j]) : 0.0f;
    }
    float total = vk_team_sum(t, vk_sum8(sum));
    if (t.lane == 0)
        s->part[(uint64_t)target * s->slices + slice] = (double)total;
}

VK_HD void vk_sums_body(const vk_sums_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(at, part, (uint64_t)s->targets * s->slices, s->teams)
        vk_sum_part(s, (uint32_t)(at / s->slices), (uint32_t)(at % s->slices), part);
}

VK_HD void vk_sums_end_body(const vk_sums_args *s, uint32_t block, vk_team t)
{
    VK_EACH(target, s->targets) {
        double sum = 0;
        for (uint32_t i = 0; i < s->slices; i++)
            sum += s->part[target * s->slices + i];
        sum *= s->scale;
        if (s->result) {
            s->result[target] = sum;
            continue;
        }
        char *p[1];
        int type = s->w.type[VK_SUM_OUT];
        vk_place(&s->w, 1, (uint32_t)target * s->per, 0, p);
        vk_put(p[0], type, 0, (float)sum + (s->adds ? vk_get(p[0], type, 0) : 0.0f));
    }
}

#include "common/kernels/attend.h"
#include "common/kernels/grid.h"
#include "common/kernels/ttt.h"
#include "common/kernels/ttt_grad.h"
#include "common/kernels/update.h"
#include "common/kernels/video.h"

/* ---- launchers ---- */

#define VK_MAP_KERNEL(name, inputs, value) VK_MAP_LAUNCH(name)
VK_ELEMENTS(VK_MAP_KERNEL)

#define VK_MAP_CASE(name, inputs, value) case VK_##name: return vk_map_##name(stream, s);
int vk_map(void *stream, vk_element f, const vk_map_args *s)
{
    switch (f) {
        VK_ELEMENTS(VK_MAP_CASE)
    default: return 1;                         /* cudaErrorInvalidValue */
    }
}

VF_RULES(VK_RULE_KERNELS, )
VF_CODED_RULES(VK_CODED_RULE_KERNELS, )

#define VK_RULE_CASE(with, NAME, name, states, squares)                                            \
    case VF_##NAME: return vk_##name(stream, s);
#define VK_CODED_RULE_CASE(with, NAME, name, states, squares)                                      \
    case VF_##NAME: return vk_##name##8(stream, s);
int vk_update(void *stream, vf_rule rule, const vk_update_args *s)
{
    switch (s->peak ? -1 : (int)rule) {
        VF_RULES(VK_RULE_CASE, )
    default: break;
    }
    switch (s->peak ? (int)rule : -1) {
        VF_CODED_RULES(VK_CODED_RULE_CASE, )
    default: return 1;                         /* cudaErrorInvalidValue */
    }
}

VK_KERNEL(move, vk_move_args, VK_BLOCKS((uint64_t)s->w.rows * s->w.packs))
VK_KERNEL(unpack, vk_unpack_args, VK_BLOCKS((s->n + 7) / 8))
VK_TEAM_KERNEL(norm, vk_norm_args, VK_TEAM_BLOCKS(s->w.rows, s->teams))
VK_TEAM_KERNEL(norm_whole, vk_norm_args, VK_TEAM_BLOCKS(s->w.rows, s->teams))
VK_TEAM_KERNEL(norm_dx, vk_norm_dx_args, VK_TEAM_BLOCKS(s->w.rows, s->teams))
VK_TEAM_KERNEL(norm_dx_whole, vk_norm_dx_args, VK_TEAM_BLOCKS(s->w.rows, s->teams))
VK_KERNEL(columns, vk_columns_args, VK_BLOCKS((uint64_t)s->targets * s->slices * s->w.packs))
VK_KERNEL(columns_end, vk_columns_args, VK_BLOCKS((uint64_t)s->targets * s->w.packs))
VK_TEAM_KERNEL(sums, vk_sums_args, VK_TEAM_BLOCKS((uint64_t)s->targets * s->slices, s->teams))
VK_KERNEL(sums_end, vk_sums_args, VK_BLOCKS((uint64_t)s->targets))
VK_KERNEL(rope, vk_rope_args, VK_BLOCKS((uint64_t)s->w.rows * s->w.packs))
VK_KERNEL(patch, vk_patch_args, VK_BLOCKS((uint64_t)s->count))
VK_KERNEL(randn, vk_randn_args, VK_BLOCKS((uint64_t)s->batch * (uint64_t)s->quads))
VK_KERNEL(dropout, vk_dropout_args, VK_BLOCKS((uint64_t)s->batch * (uint64_t)s->quads))
VK_KERNEL(timestep, vk_timestep_args, VK_BLOCKS((uint64_t)s->batch * s->half))
VK_KERNEL(embedding, vk_embedding_args, VK_BLOCKS(s->count * (uint64_t)((s->n + 7) / 8)))
VK_TEAM_KERNEL(group_sums, vk_group_args, (uint64_t)s->n * s->groups * s->parts)
VK_KERNEL(group_stats, vk_group_args, VK_BLOCKS((uint64_t)s->n * s->groups))
VK_KERNEL(group_apply, vk_group_args,
          VK_BLOCKS((uint64_t)s->n * VK_GROUP_RUNS(s) * ((s->c + 7) / 8)))
VK_KERNEL(nearest, vk_resize_args,
          VK_BLOCKS((uint64_t)s->n * s->t * s->h * s->w * ((s->c + 7) / 8)))
VK_KERNEL(pool_frames, vk_resize_args,
          VK_BLOCKS((uint64_t)s->n * s->t * (((uint64_t)s->h * s->w * s->c + 7) / 8)))
VK_TEAM_KERNEL(ttt_scan, vk_ttt_args, s->pairs)
VK_TEAM_KERNEL(ttt_scan_grad, vk_ttt_args, s->pairs)
VK_TEAM_KERNEL(ttt_sums, vk_ttt_args, s->heads)
VK_TEAM_KERNEL(attend, vk_attend_args,
               VK_TEAM_BLOCKS((uint64_t)s->batch * s->heads * s->sq, VK_ATTEND_TEAMS))
VK_TEAM_KERNEL(softmax, vk_softmax_args, VK_TEAM_BLOCKS(s->rows, VK_ATTEND_TEAMS))
VK_TEAM_KERNEL(attend_dq, vk_attend_args,
               VK_TEAM_BLOCKS((uint64_t)s->batch * s->heads * s->sq, VK_ATTEND_TEAMS))
VK_TEAM_KERNEL(attend_dkv, vk_attend_args,
               VK_TEAM_BLOCKS((uint64_t)s->batch * s->heads * s->sk, VK_ATTEND_TEAMS))

#endif
