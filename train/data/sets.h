/* sets.h - how a run takes the samples of a dataset of --latents: "DIR", behind which stand, in any
 * order,
 *
 *     :repeat=3, :2.5      its samples count so often in an epoch
 *     :0.7                 for all datasets or none: its share of the visits
 *     :reg=W               its loss counts W times (regularisation pictures of kohya's sd-scripts)
 *     :prior=W             the target is the prediction of the base, without the LoRA (OneTrainer's
 *                          prior predictions, ai-toolkit's prior_reg); its loss counts W times
 *     :preserve=W          the same with the captions that vprep --preserve stored, which have a
 *                          class in place of the trigger word (ai-toolkit's differential output
 *                          preservation)
 *     :blank=W             the same with the empty prompt in place of each caption (ai-toolkit's
 *                          blank prompt preservation)
 *
 * Samples that vprep has marked (--reg_data_dir, --sample_kind) are of the kinds of :reg= and
 * :prior= in a dataset without such an option; W is --prior_loss_weight. */
#ifndef TRAIN_DATA_SETS_H
#define TRAIN_DATA_SETS_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vtrain_set_kind {
    const char *name;            /* "prior", as in :prior=W; NULL: a dataset that is learned */
    bool base;                   /* the target is the base's prediction */
    bool blank;                  /* captions are the empty prompt */
    bool preserved;              /* captions are those of the record's `preserved` */
    const char *about;           /* for the plan */
} vtrain_set_kind;

typedef struct vtrain_set_path {
    char *path;                  /* malloc'ed */
    double weight;               /* repeats; below 1, a share */
    const vtrain_set_kind *kind;
    double loss;                 /* factor of its loss: 1 of a dataset that is learned */
} vtrain_set_path;

/* The kinds of :reg= and :prior=, for samples that vprep has marked. */
const vtrain_set_kind *vtrain_set_reg(void);
const vtrain_set_kind *vtrain_set_prior(void);
/* Reads an argument of --latents. If a folder has the whole name, it is the folder. VC_EUSAGE: an
 * option is none of the above, or is there twice. *s is freed by the caller. */
int vtrain_set_parse(vtrain_set_path *s, const char *arg, vc_err *err);
/* Whether two lists of --latents, as settings have them ("[A, \"B:prior=1\"]"), have the same kinds
 * and factors in the same places; other options and the paths are not compared. */
bool vtrain_set_same_kinds(const char *a, const char *b);

#endif
