/* reuse.h - what there is already and need not be made: values of the dataset at --out, values of
 * the datasets of --reuse, and hints of them all.
 *
 * A value is found by its content key, which says everything that it depends on: one that is found
 * is the one that would be made, whatever else its dataset holds or was made with. Values of --reuse
 * are compared with their checksums and copied when they are wanted; a damaged one is told and made
 * anew. Many threads may look for things while nothing is put; opening and taking are the main
 * thread's. */
#ifndef PRECOMPUTE_RUN_REUSE_H
#define PRECOMPUTE_RUN_REUSE_H

#include "precompute/run/vprep.h"

/* Opens the datasets of --reuse, and for a dry run that of --out. VC_EUSAGE, or why one cannot be
 * opened. *p->reuse is closed by prep_reuse_close in every case. */
int prep_reuse_open(vprep *p, vc_err *err);
void prep_reuse_close(vprep *p);

/* Whether --out was a dataset when the stock was opened, and is not to be made anew. */
bool prep_reuse_goes_on(const vprep *p);
/* Whether --reuse names --out itself: it may be changed in ways that make most of it anew. */
bool prep_reuse_in_place(const vprep *p);
/* Says in what the encoders of a dataset of --reuse differ, so that their values are not found, and
 * in a dry run why --out would be refused. */
void prep_reuse_compare(const vprep *p);

typedef enum { REUSE_NONE, REUSE_OUT, REUSE_OTHER } prep_reuse_place;

/* Where there is a hint of that name and size. Those of --out are as they were when they were
 * looked at: by open, and again after its writer has opened. */
prep_reuse_place prep_reuse_recall(const vprep *p, const char *name, void *value, size_t n);
void prep_reuse_look_again(vprep *p);

prep_reuse_place prep_reuse_find(const vprep *p, bool text, vf_key k);
bool prep_reuse_has_sample(const vprep *p, uint32_t number, uint32_t variant);     /* at --out */
uint32_t prep_reuse_samples(const vprep *p);                                       /* at --out */

/* The value is in the writer's dataset, or is copied there: 0; VC_ENOENT: it is to be made. */
int prep_reuse_take(vprep *p, bool text, vf_key k, vc_err *err);
/* The thumbnail of a sample of --reuse with that clip, borrowed: 0, or VC_ENOENT. */
int prep_reuse_thumb(vprep *p, vf_key clip, const void **jpeg, size_t *n, vc_err *err);
/* How many clips, conditions and texts were copied. */
void prep_reuse_taken(const vprep *p, uint64_t *latents, uint64_t *texts);

#endif
