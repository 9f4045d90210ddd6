/* ckpt_parts.h - the folders of checkpoints, for ckpt.c and ckpt_find.c. */
#ifndef TRAIN_OUTPUT_CKPT_PARTS_H
#define TRAIN_OUTPUT_CKPT_PARTS_H

#include "train/output/ckpt.h"

#define VTRAIN_STATE_FILE "trainer.json"      /* present in each complete checkpoint */

/* The path of a step's folder below out, with a suffix such as ".tmp", malloc'ed; NULL: out of
 * memory. */
char *vtrain_ckpt_folder(const char *out, int64_t step, const char *suffix);
bool vtrain_ckpt_is_complete(const char *path);
/* Lists the steps of the folders below out whose names end in suffix, ascending; none if out does
 * not exist. */
int vtrain_ckpt_list(const char *out, const char *suffix, bool complete, int64_t **steps, int *n,
                     vc_err *err);

#endif
