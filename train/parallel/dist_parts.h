/* dist_parts.h - the layout of parameters in rows that ranks sum and split. Internal to dist*.c and
 * zero.c.
 *
 * A unit is a set of trained parameters laid out as one row of values: each parameter begins at a
 * multiple of VTRAIN_ROW_ALIGN, and zeros fill the gaps. A rank's shard is an equal part of the
 * row, a multiple of VTRAIN_ROW_ALIGN too, so that no cut goes through values that share a scale of
 * 8-bit moments or a random draw. A block has two units; its small parameters (VT_OPT_SMALL) are
 * in the first if their types differ from the others', so that a row's values, moments and averages
 * have one type each. No parameter crosses a border of shards whose optimiser needs it whole
 * (vt_opt_whole).
 *
 *     units 0 1    2 3     ...   2 blocks - 2, - 1   2 blocks, + 1
 *     last block   before        first               parameters outside blocks */
#ifndef TRAIN_PARALLEL_DIST_PARTS_H
#define TRAIN_PARALLEL_DIST_PARTS_H

#include "common/memory/second_stream.h"
#include "train/parallel/dist.h"

enum {
    VTRAIN_ROW_ALIGN = VT_OPT_BLOCK,       /* values */
    VTRAIN_PAIR = 2,                         /* units of a block */
    VTRAIN_NAP = 50000                       /* ns between checks of a device */
};

typedef struct vtrain_unit {
    vt_param **param;            /* the trained ones */
    size_t *at;                  /* [n] where each begins */
    int n;
    bool small;                  /* of small parameters: the optimiser's `small` */
    size_t shard;                /* values of one shard; the row has shards * shard */
    float *row;                  /* of gradients; sharded: one of two rows that blocks share */
    vt_tensor *grad;             /* sharded: [shard] this rank's sums; else NULL */
    void *values;                /* split values: the shared row they are gathered into */
    vt_tensor *value;            /* split values: [shard] this rank's part; else NULL */
    void *whole;                 /* all values, between vtrain_dist_whole and vtrain_dist_part */
} vtrain_unit;

typedef struct vtrain_layout {
    vtrain_unit *unit;
    int n;
    int blocks;
    int shards, shard;           /* number of shards; this rank's */
    vt_optimizer how;           /* optimiser, which sets the types of a shard */
    vt_param **list;             /* the units' params, one after the other */
    size_t *at;                  /* the units' at, one after the other */
    vc_comm *all;                /* all ranks */
    vc_comm *group, *copies;     /* ranks that split a row; ranks that have the same shard */
    vt_ctx *g, *second;          /* of the steps; a second stream of its device, for rows */
    vc_comm *rows_group, *rows_copies;       /* group and copies for rows, queued on second; on host
                                              * memory group and copies themselves */
    vt_event *from;              /* a place in g's stream */
} vtrain_layout;

/* Fills unit, n and blocks for the trained parameters of p; shards and how are set by then. */
int vtrain_layout_open(vtrain_layout *l, vt_params *p, vc_err *err);
void vtrain_layout_close(vtrain_layout *l);  /* an all-zero one is fine */
vtrain_layout *vtrain_dist_layout(vtrain_dist *d);

/* The optimiser's row for a unit. */
vt_optimizer vtrain_unit_optimizer(const vtrain_layout *l, const vtrain_unit *u);
/* Current type of the values of a unit that is not empty. */
vc_dtype vtrain_unit_type(const vtrain_unit *u);
/* Bytes of one shard of such a unit. */
size_t vtrain_shard_bytes(const vtrain_unit *u);

/* Gathers the ranks' shards, each `bytes` bytes at `mine`, into row, after the work queued on g;
 * only outside rounds. Waits and calls vtrain_look meanwhile: without it, a failed rank would not
 * be noticed and the wait would never end. */
int vtrain_gather_row(vtrain_layout *l, void *row, const void *mine, size_t bytes, vc_err *err);
/* Checks the work queued on second, as vc_comm_look does; ends all of the work on a failure. */
int vtrain_look(vtrain_layout *l, bool *busy, vc_err *err);

/* Calls f for the part of each parameter in the row's values first..first+n-1, with the part's
 * place in the parameter and in the range. */
typedef void (*vtrain_part_fn)(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_each_part(const vtrain_unit *u, size_t first, size_t n, vtrain_part_fn f, void *arg);
/* The argument of the two functions below. */
typedef struct vtrain_row {
    vt_ctx *g;
    void *x;                     /* the row's memory at the begin of the range */
} vtrain_row;
/* Copies a part of a parameter's values to a row of their type, and back. */
void vtrain_read_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);
void vtrain_write_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at);

/* Lets the parameters of a unit have their values in row. */
void vtrain_point_values(const vtrain_layout *l, const vtrain_unit *u, void *row);
/* Copies this rank's shard of a unit's values, adds its bytes to *bytes, and frees the whole
 * values: the parameters have theirs in row from then on. VC_ENOMEM. */
int vtrain_split_unit(const vtrain_layout *l, vtrain_unit *u, void *row, size_t *bytes,
                      vc_err *err);

#endif
