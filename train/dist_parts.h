/* dist_parts.h - how parameters are laid out for the ranks. Internal to dist*.c and zero.c.
 *
 * A unit is one block's trained parameters, as if they were one row of values, small ones
 * (VT_ADAMW_SMALL) first: each begins at a multiple of VTRAIN_ROW_ALIGN, zeros fill the gaps. A
 * rank's shard is an equal part of that row, of so many too: no cut goes through what moments of
 * eight bits share.
 *
 *     unit 0       1       ...   blocks-1   blocks
 *     last block   before        first      what is in no block */
#ifndef VTRAIN_DIST_PARTS_H
#define VTRAIN_DIST_PARTS_H

#include "common/tensor/side.h"
#include "train/dist.h"

enum {
    VTRAIN_ROW_ALIGN = VT_ADAMW_BLOCK,       /* values */
    VTRAIN_NAP = 50000                       /* ns between looks at a device */
};

typedef struct vtrain_unit {
    vt_param **param;            /* the trained ones */
    size_t *at;                  /* [n] where each begins */
    int n;
    size_t small;                /* values of the row before the first that is not small */
    size_t shard;                /* values of one shard; the row has shards * shard */
    float *row;                  /* of gradients; sharded: blocks take turns with two of them */
    vt_tensor *grad;             /* sharded: [shard] this rank's sums; else NULL */
    float *values;               /* split values: the row they are gathered into, in turns */
    vt_tensor *value;            /* and [shard] this rank's part; else NULL */
    float *whole;                /* all of them, while vtrain_dist_whole says so */
} vtrain_unit;

typedef struct vtrain_layout {
    vtrain_unit *unit;
    int n;
    int shards, shard;           /* how many, and which is this rank's */
    vt_param **list;             /* the units' params, one after the other */
    size_t *at;                  /* and the units' at */
    vc_comm *all;                /* the ranks */
    vc_comm *group, *copies;     /* those that split a row; those that have the same shard */
    vt_ctx *g, *side;            /* of the steps; a second stream of its device, for rows */
    vc_comm *rows_group, *rows_copies;       /* group and copies for rows, queued on side: on host
                                              * memory group and copies themselves */
    vt_event *from;              /* a place in g's stream */
} vtrain_layout;

/* Fills unit and n for what of p is trained; shards is set. */
int vtrain_layout_open(vtrain_layout *l, vt_params *p, vc_err *err);
void vtrain_layout_close(vtrain_layout *l);  /* an all-zero one is fine */
vtrain_layout *vtrain_dist_layout(vtrain_dist *d);

/* row: all shards of `mine`, of so many bytes each, as g's stream leaves it; outside rounds. Waits,
 * with looks: a stream that waits where nobody looks could wait for ever. */
int vtrain_gather_row(vtrain_layout *l, void *row, const void *mine, size_t bytes, vc_err *err);
/* Looks at what is queued on side, as vc_comm_look does; all of it is given up on a failure. */
int vtrain_look(vtrain_layout *l, bool *busy, vc_err *err);

/* Calls f for what of each parameter is in the row's values first..first+n-1, with the part's place
 * in the parameter and in the range. */
typedef void (*vtrain_part_fn)(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_each_part(const vtrain_unit *u, size_t first, size_t n, vtrain_part_fn f, void *arg);
/* Copies a part of the parameters' values to a row, and back. arg: */
typedef struct vtrain_row {
    vt_ctx *g;
    float *x;                    /* what is copied first of all is at, or comes from, x[0] */
} vtrain_row;
void vtrain_read_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_write_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);

#endif
