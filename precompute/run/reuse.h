/* reuse.h - values that need not be made: those of the dataset at --out and of the datasets of
 * --reuse, and the hints of them all.
 *
 * A content key is the hash of everything that a value depends on, so a value that has the key is
 * the value that would be made, whatever dataset it lies in. A value of --reuse is compared with
 * its checksum and copied when a sample needs it; a damaged value is reported and made anew. Many
 * threads may search while nothing is put; the main thread opens and takes. */
#ifndef PRECOMPUTE_RUN_REUSE_H
#define PRECOMPUTE_RUN_REUSE_H

#include "precompute/run/vprep.h"

/* Opens the datasets of --reuse, and for a dry run the dataset at --out. VC_EUSAGE, or the error of
 * a dataset that cannot be opened. The caller calls prep_reuse_close in every case. */
int prep_reuse_open(vprep *p, vc_err *err);
void prep_reuse_close(vprep *p);

/* Whether prep_reuse_open found a dataset at --out, which --overwrite does not replace. */
bool prep_reuse_continues(const vprep *p);
/* Whether --reuse names --out: then a run may change the dataset so that most values are remade. */
bool prep_reuse_in_place(const vprep *p);
/* Prints how the encoders of a dataset of --reuse differ, so that their values are not found, and
 * in a dry run the reason for which --out would be refused. head: vprep_manifest_head. */
void prep_reuse_compare(const vprep *p, const cJSON *head);

typedef enum { REUSE_NONE, REUSE_OUT, REUSE_OTHER } prep_reuse_place;

/* Copies the hint of that name and size to value, and returns the place that has it. The hints of
 * --out are those of prep_reuse_open, or of the latest prep_reuse_read_hints, which is called when
 * the writer has opened. */
prep_reuse_place prep_reuse_recall(const vprep *p, const char *name, void *value, size_t n);
void prep_reuse_read_hints(vprep *p);

prep_reuse_place prep_reuse_find(const vprep *p, bool text, vf_key k);
bool prep_reuse_has_sample(const vprep *p, uint32_t number, uint32_t variant);     /* at --out */
uint32_t prep_reuse_samples(const vprep *p);                                       /* at --out */
uint32_t prep_reuse_rows(const vprep *p);            /* at --out: samples without their variants */

/* 0: the writer's dataset has the value, or got a copy. VC_ENOENT: the value is to be made. */
int prep_reuse_take(vprep *p, bool text, vf_key k, vc_err *err);
/* *jpeg: the thumbnail of a sample of --reuse with that clip, borrowed. VC_ENOENT: none exists. */
int prep_reuse_thumb(vprep *p, vf_key clip, const void **jpeg, size_t *n, vc_err *err);
/* The numbers of latents (clips and conditions) and of texts that were copied. */
void prep_reuse_taken(const vprep *p, uint64_t *latents, uint64_t *texts);

#endif
