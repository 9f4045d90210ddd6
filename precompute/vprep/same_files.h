/* same_files.h - rows that have the same medium, which is opened once for all of them. */
#ifndef PRECOMPUTE_VPREP_SAME_FILES_H
#define PRECOMPUTE_VPREP_SAME_FILES_H

#include "precompute/run/vprep.h"

/* Sets *first to an array of one number a row, which the caller frees: the index of the first row,
 * of those that this rank surveys, with the same medium and type; its own index if it is that row.
 * The first row never comes after the other. */
int prep_same_files(uint32_t **first, const vprep *p, vc_err *err);

#endif
