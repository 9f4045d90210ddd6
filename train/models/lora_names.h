/* lora_names.h - what modules are called in LoRA files, as tables.
 *
 * A naming is a kind of file: its prefix, its separators, its names of the halves. A rename is a
 * family's row: what its first authors call one of our modules (which have diffusers' names), where
 * '#' is the number of the block on both sides:
 *
 *     { "blocks.#.self_attn.q", .ours = { "blocks.#.attn1.to_q" } },
 *     { "single_blocks.#.linear1", .ours = { "single_transformer_blocks.#.attn.to_q", "...to_k",
 *                                            "...to_v", "...proj_mlp" }, .share = { 1, 1, 1, 4 } },
 *
 * Several modules of ours are one matrix of theirs, its rows in this order. Only "ours to theirs"
 * is ever asked: a file is searched for our module under both of its names. */
#ifndef TRAIN_MODELS_LORA_NAMES_H
#define TRAIN_MODELS_LORA_NAMES_H

#include <stdbool.h>

#include "common/base/err.h"

enum { VTRAIN_FUSED = 4 };                    /* modules of a row, at most */

typedef struct vtrain_rename {
    const char *theirs;                       /* NULL ends a table */
    const char *ours[VTRAIN_FUSED];           /* NULL: no more */
    int share[VTRAIN_FUSED];                  /* of theirs' rows; 0 means 1 */
} vtrain_rename;

/* A module of ours in a row. */
typedef struct vtrain_renamed {
    const vtrain_rename *row;                 /* NULL: none, the name stays */
    char *theirs;                             /* malloc'ed */
    char number[16];                          /* of the block */
    int part, parts;                          /* its place among the row's modules */
    int first, share, all;                    /* rows: before it, its own, of all, in shares */
} vtrain_renamed;
/* table: of a family, or NULL. The result is freed by free(r->theirs). */
int vtrain_rename_find(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                       vc_err *err);
/* The name of another module of r's row, malloc'ed; NULL when out of memory. */
char *vtrain_rename_sibling(const vtrain_renamed *r, int part);

/* ---- what is written ---- */

typedef struct vtrain_naming {
    const char *file, *prefix;
    bool flat;                                /* underscores for the dots of a module's path */
    bool renamed;                             /* modules by their first authors' names */
    const char *a, *b, *alpha;                /* behind the module; alpha NULL: it is metadata */
} vtrain_naming;
extern const vtrain_naming vtrain_diffusers, vtrain_kohya, vtrain_comfyui;

/* ---- what is read ---- */

typedef enum {
    VTRAIN_PART_NONE, VTRAIN_PART_A, VTRAIN_PART_B, VTRAIN_PART_ALPHA
} vtrain_lora_part;
/* The module of a tensor, by any of the namings in use, malloc'ed; NULL for a name that is no
 * LoRA's (*is NONE), or out of memory. *flat: it has underscores for dots. */
char *vtrain_lora_module(const char *tensor, vtrain_lora_part *is, bool *flat);
bool vtrain_lora_same_module(const char *read, bool flat, const char *module);

#endif
