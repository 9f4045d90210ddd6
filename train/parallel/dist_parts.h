/* dist_parts.h - how parameters are laid out for the ranks. Internal to dist*.c and zero.c.
 *
 * A unit is trained parameters as if they were one row of values: each begins at a multiple of
 * VTRAIN_ROW_ALIGN, zeros fill the gaps. A rank's shard is an equal part of that row, of so many
 * too: no cut goes through what moments of eight bits or a draw share. A block has two units; its
 * small parameters (VT_ADAMW_SMALL) are in the first if they are kept in other types than the rest,
 * so that a row's values, moments and averages have one type each.
 *
 *     units 0 1    2 3     ...   2 blocks - 2, - 1   2 blocks, + 1
 *     last block   before        first               what is in no block */
#ifndef TRAIN_PARALLEL_DIST_PARTS_H
#define TRAIN_PARALLEL_DIST_PARTS_H

#include "common/memory/second_stream.h"
#include "train/parallel/dist.h"

enum {
    VTRAIN_ROW_ALIGN = VT_ADAMW_BLOCK,       /* values */
    VTRAIN_PAIR = 2,                         /* units of a block */
    VTRAIN_NAP = 50000                       /* ns between looks at a device */
};

typedef struct vtrain_unit {
    vt_param **param;            /* the trained ones */
    size_t *at;                  /* [n] where each begins */
    int n;
    bool small;                  /* of small parameters, kept as by VT_ADAMW_F32 */
    size_t shard;                /* values of one shard; the row has shards * shard */
    float *row;                  /* of gradients; sharded: blocks take turns with two of them */
    vt_tensor *grad;             /* sharded: [shard] this rank's sums; else NULL */
    void *values;                /* split values: the row they are gathered into, in turns */
    vt_tensor *value;            /* and [shard] this rank's part; else NULL */
    void *whole;                 /* all of them, while vtrain_dist_whole says so */
} vtrain_unit;

typedef struct vtrain_layout {
    vtrain_unit *unit;
    int n;
    int blocks;
    int shards, shard;           /* how many, and which is this rank's */
    vt_adamw_kind how;           /* what is kept of a shard's values */
    vt_param **list;             /* the units' params, one after the other */
    size_t *at;                  /* and the units' at */
    vc_comm *all;                /* the ranks */
    vc_comm *group, *copies;     /* those that split a row; those that have the same shard */
    vt_ctx *g, *second;            /* of the steps; a second stream of its device, for rows */
    vc_comm *rows_group, *rows_copies;       /* group and copies for rows, queued on second: on host
                                              * memory group and copies themselves */
    vt_event *from;              /* a place in g's stream */
} vtrain_layout;

/* Fills unit, n and blocks for what of p is trained; shards and how are set. */
int vtrain_layout_open(vtrain_layout *l, vt_params *p, vc_err *err);
void vtrain_layout_close(vtrain_layout *l);  /* an all-zero one is fine */
vtrain_layout *vtrain_dist_layout(vtrain_dist *d);

/* Of a unit that is not empty: its values' type now, and their bytes in one shard. */
vc_dtype vtrain_unit_type(const vtrain_unit *u);
size_t vtrain_shard_bytes(const vtrain_unit *u);

/* row: all shards of `mine`, of so many bytes each, as g's stream leaves it; outside rounds. Waits,
 * with looks: a stream that waits where nobody looks could wait for ever. */
int vtrain_gather_row(vtrain_layout *l, void *row, const void *mine, size_t bytes, vc_err *err);
/* Looks at what is queued on second, as vc_comm_look does; all of it is given up on a failure. */
int vtrain_look(vtrain_layout *l, bool *busy, vc_err *err);

/* Calls f for what of each parameter is in the row's values first..first+n-1, with the part's place
 * in the parameter and in the range. */
typedef void (*vtrain_part_fn)(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_each_part(const vtrain_unit *u, size_t first, size_t n, vtrain_part_fn f, void *arg);
/* Copies a part of the parameters' values to a row of their type, and back. arg: */
typedef struct vtrain_row {
    vt_ctx *g;
    void *x;                     /* what is copied first of all is at, or comes from, its begin */
} vtrain_row;
void vtrain_read_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_write_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);

#endif
