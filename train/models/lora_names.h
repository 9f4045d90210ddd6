/* lora_names.h - tables of the names that modules have in LoRA files.
 *
 * A naming describes a kind of file: its prefix, its separators, its names of the halves. A rename
 * is a row of a family's table (vtrain_family.lora_names): the first authors' name of one of our
 * modules, which have diffusers' names. '#' is the number of the block in both names:
 *
 *     { "blocks.#.self_attn.q", .ours = { "blocks.#.attn1.to_q" } },
 *     { "single_blocks.#.linear1", .ours = { "single_transformer_blocks.#.attn.to_q", "...to_k",
 *                                            "...to_v", "...proj_mlp" }, .share = { 1, 1, 1, 4 } },
 *
 * Where several of our modules are one matrix of the first authors, its rows are in the row's
 * order. Names are only looked up from ours to theirs: a file is searched for each of our modules
 * under both of its names. */
#ifndef TRAIN_MODELS_LORA_NAMES_H
#define TRAIN_MODELS_LORA_NAMES_H

#include <stdbool.h>

#include "common/base/err.h"

enum { VTRAIN_FUSED = 4 };                    /* modules of a row, at most */

typedef struct vtrain_rename {
    const char *theirs;                       /* NULL ends a table */
    const char *ours[VTRAIN_FUSED];           /* ended by a NULL, or full */
    int share[VTRAIN_FUSED];                  /* of the rows of their matrix; 0 means 1 */
} vtrain_rename;

/* One of our modules in a row. */
typedef struct vtrain_renamed {
    const vtrain_rename *row;                 /* NULL: both names are the same */
    char *theirs;                             /* malloc'ed */
    char number[16];                          /* of the block */
    int part, parts;                          /* its place among the row's modules */
    int first, share, all;                    /* rows in shares: before the module, its own, and of
                                               * the whole matrix */
} vtrain_renamed;
/* table is a family's, or NULL. The caller frees r->theirs. */
int vtrain_rename_find(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                       vc_err *err);
/* The name of another module of r's row, malloc'ed; NULL when out of memory. */
char *vtrain_rename_sibling(const vtrain_renamed *r, int part);

/* ---- names that are written ---- */

typedef struct vtrain_naming {
    const char *file, *prefix;
    bool flat;                                /* underscores for the dots of a module's path */
    bool renamed;                             /* modules by their first authors' names */
    const char *a, *b, *alpha;                /* behind the module; alpha NULL: alpha is in the
                                               * metadata */
} vtrain_naming;
extern const vtrain_naming vtrain_diffusers, vtrain_kohya, vtrain_comfyui;

/* ---- names that are read ---- */

typedef enum {
    VTRAIN_PART_NONE, VTRAIN_PART_A, VTRAIN_PART_B, VTRAIN_PART_ALPHA
} vtrain_lora_part;
/* The module of a tensor with any of the names in use, malloc'ed. NULL: the name is of no LoRA (*is
 * is VTRAIN_PART_NONE), or memory is out. *flat: the module has underscores for dots. */
char *vtrain_lora_module(const char *tensor, vtrain_lora_part *is, bool *flat);
/* Whether the module that a file names is the one with our name. */
bool vtrain_lora_same_module(const char *read, bool flat, const char *module);

#endif
