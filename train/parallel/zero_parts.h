/* zero_parts.h - what zero.c and zero_whole.c share: the split state and its places. */
#ifndef TRAIN_PARALLEL_ZERO_PARTS_H
#define TRAIN_PARALLEL_ZERO_PARTS_H

#include "common/os/spill.h"
#include "common/tensor/hosted.h"
#include "train/parallel/dist_parts.h"
#include "train/parallel/zero.h"

typedef vtrain_unit unit;

/* The kinds of state: those of the optimiser's row, then the averages. */
enum { EMA = VT_OPT_STATES, KINDS };
typedef int state_kind;

struct vtrain_zero {
    vtrain_layout *l;
    vt_ctx *g;
    vt_params *p;
    bool ema;                    /* averages are kept */
    vt_tensor *(*state)[KINDS];  /* [units] shards; NULL where a unit has no state of a kind */
    float *values;               /* buffer for a shard of values */
    float *row;                  /* buffer for a whole row */
    vt_tensor *scratch;          /* of a step, or NULL */
    double number[VT_OPT_NUMBERS];           /* of the run, equal on all ranks */
    size_t most, bytes;          /* values of the largest shard; bytes held in all */
    bool host;                   /* the shards of state are in the host's memory, */
    vt_hosted *hosted;           /* their copies */
    size_t on_host;              /* and their bytes */
    vc_spill *spill, *gathered;  /* files of the shards and of whole state; NULL: in memory */
};

/* A part of a parameter's state of a kind: its place in the parameter's state and in the shards'
 * states that follow each other, and its number of elements. `from`, n and `at` are those of the
 * values; `at` counts from a shard's begin on. */
typedef struct place { size_t from, at, n; } place;

/* A unit's place among all values, its row in the optimiser's table, and of a kind of state the
 * name in files, the type, the elements of a shard, and the place of a part of a parameter's. */
size_t vtrain_zero_first_of(const vtrain_zero *z, const unit *u);
const vt_optimizer_row *vtrain_zero_row_of(const vtrain_zero *z, const unit *u);
const char *vtrain_zero_name_of(const vtrain_zero *z, const unit *u, state_kind k);
vc_dtype vtrain_zero_type_of(const vtrain_zero *z, const unit *u, state_kind k);
size_t vtrain_zero_elements(const vtrain_zero *z, const unit *u, state_kind k);
place vtrain_zero_place_of(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p,
                    size_t from, size_t n, size_t at);
/* Lets the shards of a unit leave the memory, if they are in a file, or reads them ahead. */
void vtrain_zero_move_unit(const vtrain_zero *z, int k, void (*how)(vc_spill *, const vt_tensor *));
/* Lets a unit's state come to the device, if it is on the host, be there, or go back, and waits for
 * all. The units come one after the other, and the copies of two run beside the update between
 * them. */
void vtrain_zero_fetch(vtrain_zero *z, int k);
void vtrain_zero_arrive(vtrain_zero *z, int k);
void vtrain_zero_give_back(vtrain_zero *z, int k);
void vtrain_zero_all_back(vtrain_zero *z);
/* Sets the shards of a kind that begins as the values; the averages, if z keeps some. */
void vtrain_zero_begin_as_values(vtrain_zero *z, state_kind what);

#endif
