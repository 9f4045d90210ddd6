/* names.h - tables of the names that modules have in LoRA files.
 *
 * A vtrain_naming describes a kind of file: its prefix, its separators, its names of the halves. A
 * vtrain_rename is a row of a family's table (vtrain_family.lora_names): the first authors' name of
 * one of our modules, which have diffusers' names. '#' is the number of the block in both names:
 *
 *     { "blocks.#.self_attn.q", .ours = { "blocks.#.attn1.to_q" } },
 *     { "single_blocks.#.linear1", .ours = { "single_transformer_blocks.#.attn.to_q", "...to_k",
 *                                            "...to_v", "...proj_mlp" }, .share = { 1, 1, 1, 4 } },
 *
 * Where several of our modules are fused in one matrix of the first authors, the matrix has their
 * rows in the order of `ours`. A name is looked up from ours to theirs only: a file is searched for
 * each of our modules under both of its names. In a file of whole weights a row's names may also be
 * those of whole tensors, with ".weight" at their ends. */
#ifndef TRAIN_LORA_NAMES_H
#define TRAIN_LORA_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum { VTRAIN_FUSED = 4,                      /* the most modules of a row */
       VTRAIN_SWAPPED = -1, VTRAIN_SWAPPED_PAIR = -2 };

typedef struct vtrain_rename {
    const char *theirs;                       /* NULL ends a table */
    const char *ours[VTRAIN_FUSED];           /* a NULL ends a shorter list */
    int share[VTRAIN_FUSED];                  /* the module's part of the matrix's rows, relative to
                                               * the others' parts; 0 means 1. VTRAIN_SWAPPED: of a
                                               * tensor of whole weights; the file has the second
                                               * half of our rows first, in files of adapters too.
                                               * VTRAIN_SWAPPED_PAIR: of a module, likewise where it
                                               * has two rows for each column */
    const char *comfyui;                      /* ComfyUI's name, without '#', if it is not theirs */
} vtrain_rename;

/* The row of half a head's modulation, "weight" or "bias": FLUX's first authors, and those that
 * followed them, have shift before scale. */
#define VTRAIN_SWAPPED_HEAD(half)                                                                  \
    { "final_layer.adaLN_modulation.1." half, .ours = { "norm_out.linear." half },                 \
      .share = { VTRAIN_SWAPPED } }

/* The row of one of our modules. */
typedef struct vtrain_renamed {
    const vtrain_rename *row;                 /* NULL: both names are the same */
    char *theirs;                             /* the first authors' name, malloc'ed */
    char number[16];                          /* digits of the block's number */
    int part, parts;                          /* index of the module in row->ours; their number */
    int first, share, all;                    /* shares before the module, of the module, and of the
                                               * whole matrix */
} vtrain_renamed;
/* Finds the row of a module in a family's table, which may be NULL. The caller frees r->theirs. */
int vtrain_rename_find(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                       vc_err *err);
/* The same for a file of adapters, where the row of a module whose halves are swapped is that of
 * its weight: r->theirs is the module's name, without ".weight". */
int vtrain_rename_module(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                         vc_err *err);
/* Whether the file has the rows of r's module, of such sizes, with the second half first. */
bool vtrain_rename_swapped(const vtrain_renamed *r, int64_t rows, int64_t columns);
/* The rows of a fused matrix that belong to the module: *rows of them from *first on, of `all`.
 * Returns false if the modules cannot share so many rows. */
bool vtrain_rename_rows(const vtrain_renamed *r, int64_t all, int64_t *first, int64_t *rows);
/* The name of module `part` of r's row, malloc'ed; NULL: out of memory. */
char *vtrain_rename_sibling(const vtrain_renamed *r, int part);

/* ---- names that are written ---- */

typedef struct vtrain_naming {
    const char *file, *prefix;
    bool flat;                                /* paths have underscores in place of dots */
    bool renamed;                             /* modules have the first authors' names */
    const char *alpha;                        /* suffix of a module's alpha, beside factors with the
                                               * suffixes of kohya (adapter.h); NULL: the metadata
                                               * hold alpha, and factors have PEFT's suffixes */
} vtrain_naming;
extern const vtrain_naming vtrain_diffusers, vtrain_comfyui, vtrain_diffsynth;
/* lora_kohya.safetensors: in VideoX-Fun's form with the first authors' names or with diffusers',
 * and in the form of kohya's sd-scripts with the first authors' or (plain) with diffusers'. */
extern const vtrain_naming vtrain_kohya, vtrain_kohya_diffusers, vtrain_kohya_scripts,
                           vtrain_kohya_plain;

/* ---- names that are read ---- */

typedef enum {
    VTRAIN_PART_NONE, VTRAIN_PART_A, VTRAIN_PART_B, VTRAIN_PART_ALPHA, VTRAIN_PART_MAGNITUDE,
    /* what is added to a weight and to a bias, which can be folded in, and not trained; the
     * factors of a LoKr, kron(w1, w2), and of a LoHa, (w1_a w1_b) * (w2_a w2_b) */
    VTRAIN_PART_DIFF, VTRAIN_PART_DIFF_B,
    VTRAIN_PART_KR_1, VTRAIN_PART_KR_1A, VTRAIN_PART_KR_1B,
    VTRAIN_PART_KR_2, VTRAIN_PART_KR_2A, VTRAIN_PART_KR_2B,
    VTRAIN_PART_HA_1A, VTRAIN_PART_HA_1B, VTRAIN_PART_HA_2A, VTRAIN_PART_HA_2B,
    VTRAIN_PARTS
} vtrain_lora_part;
typedef struct vtrain_lora_name {
    vtrain_lora_part is;                      /* NONE: the name does not belong to a LoRA */
    char *module;                             /* malloc'ed; NULL where `is` is NONE, or memory is
                                               * out */
    bool flat;                                /* it has underscores in place of dots */
    bool second;                              /* its prefix names the second of two transformers */
} vtrain_lora_name;
/* The part whose tensors' names end in the suffix, as ".hada_w1_a"; NONE: there is none. */
vtrain_lora_part vtrain_lora_part_of(const char *suffix);
/* Splits the name of a tensor, in any naming in use, into its module and its part. */
vtrain_lora_name vtrain_lora_module(const char *tensor);
/* Returns true if the name is that of a text encoder's tensor. */
bool vtrain_lora_is_text(const char *tensor);
/* Returns the name behind its prefixes: a pointer into it. */
const char *vtrain_lora_bare(const char *tensor);
/* Returns true if the name `read` of a file is the name of our module. */
bool vtrain_lora_same_module(const char *read, bool flat, const char *module);

#endif
