/* groups.h - groups of trained parameters by their names, each with its own learning rate, schedule
 * and weight decay.
 *
 * Group 0 has the run's own numbers. A further group is written
 *
 *     PATTERN:lr=1e-4,end=1e-5,schedule=cosine,decay=0
 *
 * and has the parameters whose names the pattern matches anywhere, a POSIX extended expression
 * ("ttt|ssm"); the first group that matches counts. lr=4x is four times the run's rate. Settings
 * that are left out are the run's. All groups share the warm-up. */
#ifndef TRAIN_OPTIM_GROUPS_H
#define TRAIN_OPTIM_GROUPS_H

#include "common/cli/flags.h"
#include "common/tensor/optimizer.h"
#include "train/optim/rate.h"
#include "train/output/metrics.h"

/* Moves *p to the next part of a list split at commas and blanks. Returns its length, 0 at the
 * end. */
size_t vtrain_next_part(const char **p);
/* True if the name has one of the parts ("." is in every name); false where parts is NULL. */
bool vtrain_has_part(const char *name, const char *parts);

typedef struct vtrain_groups vtrain_groups;

typedef struct vtrain_groups_opts {
    const vc_list *groups;       /* texts as above; must outlive the groups */
    const char *no_decay;        /* parts of names, split at commas: parameters that have one decay
                                  * in no group; NULL: all decay */
    vtrain_rate rate;            /* of group 0; its steps are not read */
    double decay;
} vtrain_groups_opts;

/* Reads the texts. With p, also sets vt_param.rate of every trained parameter, which borrows from
 * the groups. VC_EUSAGE names the flag and the text: the text is not valid, or the group has no
 * trained parameter. */
int vtrain_groups_open(vtrain_groups **out, const vtrain_groups_opts *o, vt_params *p, vc_err *err);
void vtrain_groups_close(vtrain_groups *s);                  /* NULL is fine */

int vtrain_groups_count(const vtrain_groups *s);
/* The pattern of group i, which group 0 lacks (NULL). */
const char *vtrain_group_pattern(const vtrain_groups *s, int i);
/* Sets the rates of step `step` of a run of `steps` steps. */
void vtrain_groups_at(vtrain_groups *s, int64_t step, int64_t steps);
/* The patterns and rates of the groups after group 0, *n of them, as vtrain_groups_at has set
 * them. */
const vtrain_group_note *vtrain_groups_notes(const vtrain_groups *s, int *n);
/* Writes the rates as text, "1e-05, ttt|ssm 0.0001". */
void vtrain_groups_text(const vtrain_groups *s, char *text, size_t size);
/* The rate that vtrain_groups_at has set. */
double vtrain_group_lr(const vtrain_groups *s, int i);
/* The group's schedule and its number of trained values. */
const vtrain_rate *vtrain_group_rate(const vtrain_groups *s, int i);
double vtrain_group_decay(const vtrain_groups *s, int i);
int64_t vtrain_group_values(const vtrain_groups *s, int i);

#endif
