/* components.h - where a run's encoders lie, how they run, and what identifies them.
 *
 * A component is a folder of a diffusers model (model_index.json above it, config.json and weights
 * in it), or any folder given by a flag in its place. Nothing is downloaded. */
#ifndef PRECOMPUTE_RUN_COMPONENTS_H
#define PRECOMPUTE_RUN_COMPONENTS_H

#include "common/os/progress.h"
#include "precompute/encoder.h"

typedef struct prep_part {
    char *dir, *tokenizer;       /* owned; NULL: built-in */
    encoder_opts opts;           /* for open: borrows dir and tokenizer */
    vf_key files;                /* of the names, sizes, times and inodes of its weights' files */
    bool to_remember;                 /* opts.weights is not among the hints of --out yet */
} prep_part;

void prep_part_free(prep_part *part);                /* an all-zero one is fine */

/* The folder of a component: `given` (of --flag; itself, or with the component below it), else
 * model/slot; malloc'ed. VC_EUSAGE names the flag that helps. */
int prep_component_dir(char **out, const char *model, const char *given, const char *slot,
                       const char *flag, vc_err *err);
/* _class_name of DIR/config.json. */
int prep_component_class(char *name, size_t size, const char *dir, vc_err *err);

/* That the weights are the ones that were hashed: after they are mapped, and after they were used. */
int prep_part_unchanged(const prep_part *part, vc_err *err);
/* Keeps the weights' hash with the dataset. */
int prep_part_remember(const prep_part *part, vf_writer *w, vc_err *err);

#endif
