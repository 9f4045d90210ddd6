/* settings.h - checks the flags, takes the settings of other trainers, and gives the defaults of
 * the family. main.c calls vtrain_take_shorthand and vtrain_check before any file is opened; the
 * run calls vtrain_take_like_family and vtrain_resolve when its model is known.
 *
 * A contradiction is added to the errors of set, so that one run reports all of them; functions
 * return an error where they cannot go on. */
#ifndef TRAIN_SETTINGS_SETTINGS_H
#define TRAIN_SETTINGS_SETTINGS_H

#include "train/vtrain.h"

extern const vc_program vtrain_program;       /* options.c: the table of the flags above */

/* Checks values and pairs of flags after vc_flags_parse, and adds each contradiction to the errors
 * of set. Returns 0, or VC_EUSAGE with the first error in err. */
int vtrain_check(vtrain_config *c, vc_flags *set, vc_err *err);
/* Takes the settings of accelerate's and DeepSpeed's flags and files (launcher.c) for flags that
 * were not given. A bad entry of a file is added to the errors of set. */
int vtrain_take_launcher(vtrain_config *c, vc_flags *set, vc_err *err);
/* Replaces DeepSpeed's words of --offload_optimizer (nvme, its path) and --offload_param by those
 * of the run: none, cpu, disk or a folder, and --low_vram. */
void vtrain_take_offload(vtrain_config *c, vc_flags *set);
/* Fills in dp_degree and dp_shards; VC_EUSAGE if their product is not the number of ranks, sp does
 * not divide it, or the run expects another number (--num_processes). */
int vtrain_check_ranks(vtrain_config *c, int ranks, vc_err *err);
/* Fills settings that were not given (rate, targets, ...) from the family and the model's
 * scheduler. mode: the data's --train_mode. */
int vtrain_resolve(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                   const vtrain_scheduler *s, vc_mode mode, vc_err *err);

/* Sets those of the settings above on which --like depends too to the defaults of the family, for
 * the training type, the objective and the rank of d. */
void vtrain_defaults(vtrain_config *d, const vtrain_family *f, const vtrain_scheduler *s);

/* like.c. Takes the defaults of the trainer that --like names for flags that were not given: those
 * of every family, and, when t's model is known and before vtrain_resolve, those of its family,
 * with a note of all that differ from ours. */
int vtrain_take_like(vtrain_config *c, vc_flags *set, vc_err *err);
int vtrain_take_like_family(vtrain *t, vc_flags *set, vc_err *err);
/* Notes which defaults of the trainer whose flags were typed differ from the settings c (like.h).
 * t: the run, after vtrain_resolve, or NULL, where its model is not known. */
int vtrain_hint_like(const vtrain_config *c, const vtrain *t, vc_flags *set, vc_err *err);

/* shorthand.c. Replaces flags that stand for others (--job_name, --init_state_dir, --lr_ssm) by
 * those, and adds contradictions to the errors of set; a second call changes nothing. --model
 * builtin becomes a model of NULL: only vc_flags_given tells that the model was asked for. */
int vtrain_take_shorthand(vtrain_config *c, vc_flags *set, vc_err *err);
/* levels.c. Takes the levels that --timestep_sampling and other trainers' flags name, and their
 * losses, and adds contradictions to the errors of set. */
int vtrain_take_levels(vtrain_config *c, vc_flags *set, vc_err *err);
void vtrain_take_loss(vtrain_config *c, vc_flags *set);
/* The line of mu over tokens that a --timestep_sampling names; NULL: it names none. */
const vtrain_by_tokens *vtrain_by_tokens_of(int sampling);
/* ranges.c. Takes the range of noise levels, of which there may be one, from the flags that name
 * it, and adds contradictions to the errors of set. */
void vtrain_take_ranges(vtrain_config *c, vc_flags *set);
/* network_args.c. Takes --network_dim, and the settings KEY=VALUE of --network_args as the flags
 * that they stand for, and adds those that nothing here does to the errors of set. */
int vtrain_take_network_args(vtrain_config *c, vc_flags *set, vc_err *err);
/* optimiser.c. Takes --optimizer and its numbers, those of --optimizer_args as the flags that they
 * stand for, and checks these and the schedule. table: all flags. */
int vtrain_take_optimiser(vtrain_config *c, const vc_flag *table, vc_flags *set, vc_err *err);
/* lycoris.c. Takes the settings of --lycoris_config as the flags that they stand for. */
int vtrain_take_lycoris(vtrain_config *c, vc_flags *set, vc_err *err);
/* adapter.c. Takes --adapter from the flags that name it, and adds contradictions, and what an
 * adapter cannot do, to the errors of set. */
void vtrain_take_adapter(vtrain_config *c, vc_flags *set);
void vtrain_check_adapter(const vtrain_config *c, vc_flags *set);
/* distill.c. Checks the flags of --task direct_distill, and adds what does not go together with it
 * to the errors of set. */
void vtrain_check_distill(const vtrain_config *c, vc_flags *set);
/* times.c. Checks the flags that need held-out samples (diffusion-pipe's have no effect without
 * them, as there), and fills in how often the run saves and computes eval_loss: as often as it
 * saves. */
void vtrain_check_times(vtrain_config *c, vc_flags *set);
void vtrain_resolve_times(vtrain_config *c, vc_flags *set);

#endif
